"""Tools of MCP servers as tools of ours: one for each tool, and two that read a server's resources and prompts.

They hold no connection: calls go through `ServerCalls`, so that a tool stays where it is while its server is away
and then says so.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.config import McpSection
from bot.log import get_logger
from bot.messages import Replay, Risk
from bot.security.untrusted import neutralise, on_one_line
from bot.security.workspace import PathRefused, WorkspaceView
from bot.toolkit.base import Tool, ToolResult
from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.context import RequestContext, current_request, show_progress
from bot.toolkit.mcp.asks import current_holder
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.provider_schema import for_providers
from bot.toolkit.mcp.results import Keep, call_result, prompt_result, resource_result
from bot.toolkit.mcp.server_calls import McpCallError, ServerCalls, ServerState
from bot.toolkit.mcp.waiting_calls import WaitingCalls
from bot.toolkit.schema_index import SchemaError

DESCRIPTION_CHARS = 1_024
"""Longest function description (https://platform.openai.com/docs/api-reference/chat/create, read 2026-11-30)."""

RESOURCES_LISTED = 50  # in a description; the model can ask for others that a server's answers name
_FOLDER = "mcp-output"
_log = get_logger(__name__)

_MARGIN_S = 5.0  # our own limits speak first: they know what was waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """What the tools of one server share."""

    calls: ServerCalls
    section: McpSection
    view_of: Callable[[RequestContext], WorkspaceView]
    waiting: WaitingCalls | None = None  # None: no server may ask anything

    @property
    def time_limit_s(self) -> float:
        """How long one call may take: the server may have to be connected first."""
        return self.section.timeout_s + self.section.start_timeout_s + _MARGIN_S

    def keeper(self) -> Keep:
        """Return what keeps files of the running turn's chat."""
        return partial(_keep, self.view_of(current_request()))


class _ServersOwn(Tool):
    """Base: the schema and the words are the server's."""

    _plugin_discoverable = False
    _scopes = frozenset({"core", "subagent"})
    compiles_late = True

    def __init__(self, name: str, parts: ServerParts, description: str, parameters: Json) -> None:
        self._name = name
        self._parts = parts
        self._description = neutralise(description)[:DESCRIPTION_CHARS]
        self._parameters = dict(parameters)
        self._shown: Json | None = None  # the parameters in the providers' form
        self.timeout_s = parts.time_limit_s

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return self._name

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return self._description

    @property
    def parameters(self) -> dict[str, Any]:
        """The server's own schema, by which calls are checked."""
        return self._parameters

    def compiled(self) -> CompiledSchema:
        """See `Tool.compiled`; a schema that cannot be compiled is replaced by what providers are shown of it."""
        try:
            return super().compiled()
        except SchemaError as exc:
            _log.warning("schema of an mcp tool cannot be used as it is", tool=self._name, reason=str(exc))
        self._parameters = dict(self._for_providers())
        return super().compiled()

    def to_schema(self) -> dict[str, Any]:
        """See `Tool.to_schema`; the schema in the form that providers take."""
        function = {"name": self.name, "description": self.description, "parameters": self._for_providers()}
        return {"type": "function", "function": function}

    def _for_providers(self) -> Json:
        if self._shown is None:
            self._shown = for_providers(self._parameters)
        return self._shown

    def _away(self, error: McpCallError) -> ToolResult:
        calls = self._parts.calls
        if calls.state is ServerState.READY or error.outcome_unknown:
            return ToolResult.error(str(error))
        return ToolResult.error(f"{error} Tell the person that this is not available now; do not make a result up.")


class ServerTool(_ServersOwn):
    """One tool of a server. Risk and replay follow its annotations, whose defaults are the cautious ones."""

    def __init__(self, name: str, parts: ServerParts, entry: Json, shown: Json | None = None) -> None:
        """`shown`: the input schema in the providers' form, where it is made already."""
        self._tool = str(entry["name"])
        words = [entry.get("description"), entry.get("title")]
        description = next((word for word in words if isinstance(word, str) and word.strip()), self._tool)
        schema = entry.get("inputSchema")
        super().__init__(name, parts, description, schema if isinstance(schema, Mapping) else {})
        self._shown = shown
        hints = entry.get("annotations")
        hints = hints if isinstance(hints, Mapping) else {}
        self._only_reads = hints.get("readOnlyHint") is True
        self._may_repeat = self._only_reads or hints.get("idempotentHint") is True
        self.risk = _risk(hints)
        self.replay = Replay.SAFE if self._may_repeat else Replay.ONCE

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return self._only_reads

    async def execute(self, /, **arguments: Any) -> ToolResult:
        """Call the server. Errors of the server are results of the call."""
        call = partial(self._call, arguments)
        waiting = self._parts.waiting
        if waiting is None:
            return await call()
        return await waiting.run(self._parts.calls.name, self._tool, current_request(), call)

    async def _call(self, arguments: Json) -> ToolResult:
        parts, server = self._parts, self._parts.calls.name
        shown = f"{server}: {self._tool}"
        holder = current_holder()

        def on_progress(done: float, total: float | None, words: str) -> None:
            if holder is not None and holder.is_detached:
                return  # its turn is over, and with it what is shown of it
            of = f"/{total:g}" if total else ""
            show_progress(on_one_line(f"{shown} {done:g}{of} {words}".rstrip()))

        try:
            answer = await parts.calls.call_tool(
                self._tool, arguments, may_repeat=self._may_repeat, on_progress=on_progress
            )
        except McpCallError as error:
            return self._away(error)
        source = f"MCP server {server}, tool {self._tool}"
        return await asyncio.to_thread(call_result, answer, source=source, keep=parts.keeper())


class ResourceTool(_ServersOwn):
    """Reads a resource of a server by its URI."""

    risk = Risk.NET
    replay = Replay.SAFE

    def __init__(self, name: str, parts: ServerParts, offer: Offer) -> None:
        lines = [f"Read a resource of the MCP server {parts.calls.name} by its URI."]
        listed = [_listed(entry, "uri") for entry in offer.resources[:RESOURCES_LISTED]]
        if len(offer.resources) > RESOURCES_LISTED:
            listed.append(f"… and {len(offer.resources) - RESOURCES_LISTED} more")
        templates = [_listed(entry, "uriTemplate") for entry in offer.resource_templates]
        lines += ["Resources:", *listed] if listed else []
        lines += ["URI templates (RFC 6570):", *templates] if templates else []
        parameters = {
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "The resource's whole URI."}},
            "required": ["uri"],
            "additionalProperties": False,
        }
        super().__init__(name, parts, "\n".join(lines), parameters)

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(self, *, uri: str) -> ToolResult:
        """Read one resource."""
        parts = self._parts
        try:
            answer = await parts.calls.read_resource(uri)
        except McpCallError as error:
            return self._away(error)
        source = f"MCP server {parts.calls.name}, resource {uri}"
        return await asyncio.to_thread(resource_result, answer, source=source, keep=parts.keeper())


class PromptTool(_ServersOwn):
    """Gets a prompt of a server, filled in with arguments."""

    risk = Risk.NET
    replay = Replay.SAFE

    def __init__(self, name: str, parts: ServerParts, offer: Offer) -> None:
        names = [str(entry["name"]) for entry in offer.prompts]
        lines = [f"Get a prompt of the MCP server {parts.calls.name}: text that it offers for a purpose.", "Prompts:"]
        lines += [f"{_listed(entry, 'name')} {_arguments(entry)}".rstrip() for entry in offer.prompts]
        parameters = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": names, "description": "Which prompt."},
                "arguments": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Its arguments by name.",
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        }
        super().__init__(name, parts, "\n".join(lines), parameters)

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(self, *, name: str, arguments: Mapping[str, str] | None = None) -> ToolResult:
        """Get one prompt."""
        parts = self._parts
        try:
            answer = await parts.calls.get_prompt(name, arguments or {})
        except McpCallError as error:
            return self._away(error)
        source = f"MCP server {parts.calls.name}, prompt {name}"
        return await asyncio.to_thread(prompt_result, answer, source=source, keep=parts.keeper())


def _risk(hints: Json) -> Risk:
    """Return the least that any call touches (design 5); hints that are missing count as the protocol says.

    https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations (read 2026-11-30): a tool may
    destroy and reaches the open world unless it says otherwise.
    """
    if hints.get("readOnlyHint") is True:
        return Risk.READ if hints.get("openWorldHint") is False else Risk.NET
    return Risk.WRITE if hints.get("destructiveHint") is False else Risk.EXECUTE


def _listed(entry: Json, key: str) -> str:
    words = [entry.get("title"), entry.get("description")]
    about = next((word for word in words if isinstance(word, str) and word.strip()), "")
    return on_one_line(f"- {entry.get(key)}" + (f": {about}" if about else ""))


def _arguments(entry: Json) -> str:
    arguments = entry.get("arguments")
    named = [item for item in arguments if isinstance(item, Mapping)] if isinstance(arguments, list) else []
    if not named:
        return ""
    words = ", ".join(f"{item.get('name')}{'' if item.get('required') is True else ' (optional)'}" for item in named)
    return on_one_line(f"(arguments: {words})")


def _keep(view: WorkspaceView, content: bytes, ending: str) -> str:
    """Write a file of the chat, named by its content; returns its path there."""
    path = f"{_FOLDER}/{hashlib.sha256(content).hexdigest()[:32]}{ending}"
    try:
        with view.slot(path, make_parents=True) as slot:
            slot.replace(content)
    except PathRefused as error:
        raise OSError(str(error)) from None
    return path
