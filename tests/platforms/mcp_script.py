"""What a scripted MCP server is: its tools, resources and prompts, what it may do, and how it misbehaves.

A script is plain values and survives JSON (`dump`, `load`), so that one and the same script runs in the test's process
over HTTP and in a process of its own over stdio. The protocol is `mcp_engine`'s duty, bytes are the transports'.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = dict[str, Any]

# Protocol revisions, https://modelcontextprotocol.io/specification/versioning (read 2026-11-30).
HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)

CONNECT = "connect"  # as a fault's method: `initialize` and `server/discover`


class Kind(StrEnum):
    """How a request is mistreated; the last group exists only over HTTP."""

    HANG = "hang"  # never answered
    ERROR = "error"  # a JSON-RPC error (`code`, `text`)
    DIE_BEFORE = "die_before"  # the server is gone before it did anything
    DIE_AFTER = "die_after"  # it did and counted its work, and is gone before it answers
    GARBAGE = "garbage"  # bytes that are no text (`text` says others)
    INVALID_JSON = "invalid_json"  # half a message where one was due
    HUGE = "huge"  # a text of `size_bytes` in the answer
    NOT_A_RESULT = "not_a_result"  # valid JSON-RPC whose result has none of the fields it must have

    STATUS = "status"  # an HTTP status without a body (`code`, `retry_after_s`)
    SESSION_GONE = "session_gone"  # 404, and every session is forgotten
    RESET = "reset"  # the connection is reset before the answer's first byte
    RESET_MID_STREAM = "reset_mid_stream"  # reset after half an event
    STREAM_ENDS = "stream_ends"  # the event stream ends in good order, without the answer
    REDIRECT = "redirect"  # 307 to `text`
    CONTENT_TYPE = "content_type"  # 200 with a page of HTML


@dataclass(slots=True, kw_only=True)
class Fault:
    """One misbehaviour: which requests it strikes and how often."""

    kind: Kind
    method: str = "tools/call"  # or `CONNECT`, or over HTTP "GET" and "DELETE", or "*" for every message
    name: str | None = None  # only this tool, prompt or resource URI
    skip: int = 0  # how many matching requests pass unharmed first
    times: int | None = None  # how many it strikes; None: all
    code: int = 0
    text: str = ""
    size_bytes: int = 50 * 1024 * 1024
    retry_after_s: float | None = None
    seen: int = 0  # how many matching requests it saw so far

    @property
    def key(self) -> str:
        """What tells this fault from others in a record."""
        return f"{self.kind}:{self.method}:{self.name}:{self.skip}:{self.times}"


@dataclass(slots=True, kw_only=True)
class Ask:
    """What a tool asks of its client while it runs: `method` and `params` as in the specification.

    Under 2025-11-25 each is a request of the server's own; under 2026-07-28 each is one input-required round.
    """

    method: str  # "elicitation/create", "sampling/createMessage", "roots/list"
    params: Json = field(default_factory=dict)
    as_error: bool = False  # 2025-11-25, URL mode: refuse the call with -32042 instead of asking


@dataclass(slots=True, kw_only=True)
class Call:
    """One call, as a tool's own function sees it."""

    tool: str
    arguments: Json
    answers: list[Any]  # what the client answered to the tool's `asks`, in their order
    performed: int  # how many calls of this tool were performed, with this one


Answer = Callable[[Call], Json | Awaitable[Json]]


@dataclass(slots=True, kw_only=True)
class Tool:
    """A tool: its definition, and what a call of it does, in the order of the fields below `raw`."""

    name: str
    description: str | None = None
    title: str | None = None
    input_schema: Any = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: Any = None
    annotations: Json | None = None
    meta: Json | None = None
    raw: Json | None = None  # the definition as it is sent instead, however invalid
    log: list[Json] = field(default_factory=list)  # params of notifications/message, sent first
    progress: list[Json] = field(default_factory=list)  # progress, total, message: sent if the client gave a token
    delay_s: float = 0.0
    hold: bool = False  # wait until the test releases this tool's calls
    asks: list[Ask] = field(default_factory=list)
    does: str = ""  # one of `mcp_calls.BEHAVIOURS`; "" gives the fields below
    content: list[Json] = field(default_factory=lambda: [text("done")])
    structured: Any = None
    is_error: bool = False
    answer: Answer | None = None  # in this process only: computes the whole result


@dataclass(slots=True, kw_only=True)
class Resource:
    """A resource and its contents; with `template` it answers every URI that begins like the template."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = "text/plain"
    text: str | None = None
    blob: str | None = None  # base64
    template: bool = False


@dataclass(slots=True, kw_only=True)
class Prompt:
    """A prompt: its arguments as in the specification; `{name}` in `text` becomes the argument's value."""

    name: str
    description: str | None = None
    arguments: list[Json] = field(default_factory=list)
    text: str = "Say hello."


@dataclass(slots=True, kw_only=True)
class ProcessFaults:
    """How the process of a stdio server behaves outside the protocol."""

    start_delay_s: float = 0.0  # before it reads anything
    exit_at_start: int | None = None  # exit code, after `stderr_at_start`
    stdout_at_start: list[str] = field(default_factory=list)  # lines of log where only messages belong
    stderr_at_start: list[str] = field(default_factory=list)
    stderr_per_request: str = ""
    stdout_per_request: str = ""
    ignore_sigterm: bool = False
    ignore_stdin_end: bool = False  # stays although its client closed the pipe
    grandchildren: int = 0  # sleeping processes it starts and leaves behind
    grandchildren_ignore_sigterm: bool = False


@dataclass(slots=True, kw_only=True)
class Script:
    """A whole server. Tests may change every field while it runs."""

    name: str = "scripted"
    instructions: str | None = None
    versions: list[str] = field(default_factory=lambda: [HANDSHAKE, MODERN])
    # Which capabilities it declares and serves: tools, resources, prompts, logging.
    offers: list[str] = field(default_factory=lambda: ["tools", "resources", "prompts", "logging"])
    list_changed: bool = True
    tools: list[Tool] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    page_size: int = 0  # entries on a page of every list; 0: all on one
    endless: list[str] = field(default_factory=list)  # list methods whose pages never end
    asks_roots: bool = False  # 2025-11-25: requests roots/list once the client is initialized
    pings: bool = False  # 2025-11-25: pings the client once it is initialized
    faults: list[Fault] = field(default_factory=list)
    process: ProcessFaults = field(default_factory=ProcessFaults)
    plain_results: bool = False  # 2026-07-28: results do not say that they are complete
    # HTTP only
    answers_as: str = "sse"  # how calls are answered: as a stream, or as "json"
    sessionless: bool = False  # 2025-11-25 without session identifiers
    # What a request in a session that was forgotten gets; the specification wants 404.
    forgotten_status: int = 404
    forgotten_text: str = "Session not found"
    requires_headers: dict[str, str] = field(default_factory=dict)  # 401 without them

    def tool(self, name: str) -> Tool:
        """Return the tool of this name.

        Raises:
            KeyError: there is none.
        """
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise KeyError(name)


def dump(script: Script) -> str:
    """Return a script as JSON.

    Raises:
        TypeError: a tool has a function of its own.
    """
    return json.dumps(dataclasses.asdict(script))


def load(source: str) -> Script:
    """Return the script that `dump` wrote; fields that are left out have their defaults."""
    value = json.loads(source)
    value["tools"] = [load_tool(tool) for tool in value.get("tools", [])]
    value["resources"] = [Resource(**resource) for resource in value.get("resources", [])]
    value["prompts"] = [Prompt(**prompt) for prompt in value.get("prompts", [])]
    value["faults"] = [load_fault(fault) for fault in value.get("faults", [])]
    value["process"] = ProcessFaults(**value.get("process", {}))
    return Script(**value)


def load_tool(value: Json) -> Tool:
    """Return a tool from its JSON."""
    return Tool(**{**value, "asks": [Ask(**ask) for ask in value.get("asks", [])]})


def load_fault(value: Json) -> Fault:
    """Return a fault from its JSON."""
    return Fault(**{**value, "kind": Kind(value["kind"])})


def text(value: str, **more: Any) -> Json:
    """Return a content block of text."""
    return {"type": "text", "text": value, **more}


def image(data_base64: str, mime_type: str = "image/png") -> Json:
    """Return a content block with a picture."""
    return {"type": "image", "data": data_base64, "mimeType": mime_type}


def audio(data_base64: str, mime_type: str = "audio/wav") -> Json:
    """Return a content block with sound."""
    return {"type": "audio", "data": data_base64, "mimeType": mime_type}


def embedded(uri: str, *, text: str | None = None, blob: str | None = None, mime_type: str = "text/plain") -> Json:
    """Return a content block that carries a resource within it."""
    body: Json = {"text": text} if blob is None else {"blob": blob}
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **body}}


def link(uri: str, name: str, **more: Any) -> Json:
    """Return a content block that names a resource to be read."""
    return {"type": "resource_link", "uri": uri, "name": name, **more}


def form(message: str, properties: Json, required: list[str] | None = None) -> Ask:
    """Return the question for a form whose fields are `properties`."""
    schema: Json = {"type": "object", "properties": properties, "required": required or []}
    return Ask(method="elicitation/create", params={"mode": "form", "message": message, "requestedSchema": schema})


def visit(message: str, url: str, *, elicitation_id: str = "visit-1", as_error: bool = False) -> Ask:
    """Return the question that sends a person to a page (URL mode)."""
    params = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
    return Ask(method="elicitation/create", params=params, as_error=as_error)


def sample(prompt: str, *, max_tokens: int = 100) -> Ask:
    """Return the question that wants the client's model to write."""
    messages = [{"role": "user", "content": text(prompt)}]
    return Ask(method="sampling/createMessage", params={"messages": messages, "maxTokens": max_tokens})


def roots() -> Ask:
    """Return the question which roots the client offers."""
    return Ask(method="roots/list")
