"""Tries a server out: `python -m bot.toolkit.mcp_probe URL`, or `--stdio COMMAND ARG...`.

Connects as the service does, lists everything, calls each tool once with the smallest arguments that its schema
allows, reads each resource, gets each prompt, and prints one line for each. **Tools are really called.** Where the
server wants a login, it logs in without a person (see `mcp_probe_login`). Exits 0 when every request was answered,
also with an error, else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bot.config import McpSection
from bot.security.untrusted import on_one_line
from bot.toolkit.mcp.asks import ElicitAction, ElicitAsk, ElicitMode, ElicitReply
from bot.toolkit.mcp.connection import ServerConnection
from bot.toolkit.mcp.login import LoginFailed
from bot.toolkit.mcp.manager import McpManager
from bot.toolkit.mcp.offers import Json
from bot.toolkit.mcp.server_calls import McpCallError
from bot.toolkit.mcp_probe_login import ProbeIdentity, ProbeLogins, ToolCall, identity_of

_SERVER = "probe"
_MOST = 200  # tools, resources or prompts that are tried
_SHOWN_CHARS = 200
_DEPTH = 8

_Maker = Callable[[Any, Any, int], Any]


async def probe(section: McpSection, identity: ProbeIdentity) -> bool:
    """Try everything once and print what came of it; return whether all of it was answered."""
    with tempfile.TemporaryDirectory(prefix="dutiful-probe-") as folder:
        place = Path(folder)
        logins = ProbeLogins(place, identity)
        manager = McpManager(
            {_SERVER: section}, workspace=place, data_dir=place, elicit=_accept_defaults, sample=None, oauth_of=logins
        )
        await manager.start()
        try:
            connection = manager.connection(_SERVER)
            assert connection is not None
            return await _Trial(manager, connection, logins, identity.tool_calls).try_all()
        finally:
            await manager.close()


class _Trial:
    """One run at one server."""

    def __init__(
        self, manager: McpManager, connection: ServerConnection, logins: ProbeLogins, calls: Sequence[ToolCall]
    ) -> None:
        self._calls = calls
        self._manager = manager
        self._connection = connection
        self._logins = logins

    async def try_all(self) -> bool:
        """See `probe`."""
        connection = self._connection
        if not await self._tried("connect", self._connect):
            return False
        offer = self._manager.offer(_SERVER)
        assert offer is not None
        well = True
        for fault in offer.faults:
            _say("list", "fault", fault)
        for tool in offer.tools[:_MOST]:
            name = str(tool["name"])
            for arguments in self._arguments(name, tool.get("inputSchema", {})):
                well &= await self._tried(f"tool {name}", partial(self._call_tool, name, arguments))
        for resource in offer.resources[:_MOST]:
            uri = str(resource["uri"])
            well &= await self._tried(f"resource {uri}", partial(connection.read_resource, uri))
        for prompt in offer.prompts[:_MOST]:
            needed = {str(item["name"]): "x" for item in prompt.get("arguments") or () if item.get("required")}
            name = str(prompt["name"])
            well &= await self._tried(f"prompt {name}", partial(connection.get_prompt, name, needed))
        return well

    def _arguments(self, tool: str, schema: Any) -> list[Json]:
        """Return the arguments of each call of a tool."""
        wanted: list[Json] = [call.arguments for call in self._calls if call.name == tool]
        least = smallest(schema)
        return wanted or [least if isinstance(least, dict) else {}]

    async def _connect(self) -> Json:
        await self._connection.connected()
        offer = self._manager.offer(_SERVER)
        assert offer is not None
        return {"server": f"{offer.server_name} {offer.server_version}", "protocol": offer.protocol_version}

    async def _call_tool(self, tool: str, arguments: Json) -> Json:
        return await self._connection.call_tool(tool, arguments, may_repeat=False, on_progress=lambda *_: None)

    async def _tried(self, what: str, request: Callable[[], Awaitable[Json]]) -> bool:
        """Make a request, again after each login that it needed, and print what came of it."""
        while True:
            try:
                answer = await request()
                break
            except McpCallError as error:
                if error.wants_login and await self._logged_in():
                    continue
                _say(what, "error" if error.is_answer else "FAILED", str(error))
                return error.is_answer
        _say(what, "error" if answer.get("isError") else "ok", str(answer))
        return True

    async def _logged_in(self) -> bool:
        try:
            tried = await self._logins.log_in(_SERVER, self._connection.section)
        except LoginFailed as error:
            _say("login", "FAILED", str(error))
            return False
        if tried:
            _say("login", "ok", "")
            self._connection.poke()
        return tried


def _say(what: str, outcome: str, words: str) -> None:
    sys.stdout.write(f"{outcome:6} {on_one_line(what)[:_SHOWN_CHARS]}: {on_one_line(words)[:_SHOWN_CHARS]}\n")
    sys.stdout.flush()


async def _accept_defaults(ask: ElicitAsk) -> ElicitReply:
    """Answer a form as somebody does who only presses accept."""
    if ask.mode is ElicitMode.URL:
        return ElicitReply(action=ElicitAction.DECLINE)
    fields = ask.schema.get("properties", {})
    required = ask.schema.get("required", ())
    content = {
        name: field["default"] if "default" in field else smallest(field)
        for name, field in fields.items()
        if "default" in field or name in required
    }
    return ElicitReply(action=ElicitAction.ACCEPT, content=content)


def smallest(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Return a small value that a schema takes, as far as its plain keywords tell: required properties only."""
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return None
    root = schema if root is None else root
    if isinstance(reference := schema.get("$ref"), str):
        return smallest(_resolved(reference, root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key] and "properties" not in schema:
            return smallest(schema[key][0], root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    make: _Maker = _BY_TYPE.get(str(kind), _smallest_object if "properties" in schema else _nothing)
    return make(schema, root, depth)


def _smallest_object(schema: Json, root: Json, depth: int) -> dict[str, Any]:
    fields = schema.get("properties", {})
    return {name: smallest(fields.get(name, {}), root, depth + 1) for name in schema.get("required", ())}


def _smallest_list(schema: Json, root: Json, depth: int) -> list[Any]:
    return [smallest(schema.get("items", {}), root, depth + 1) for _ in range(min(schema.get("minItems", 0), 10))]


def _smallest_text(schema: Json, _root: Json, _depth: int) -> str:
    by_format = {
        "date": "2026-01-01",
        "date-time": "2026-01-01T00:00:00Z",
        "email": "a@example.org",
        "uri": "https://example.org/",
    }
    return by_format.get(str(schema.get("format")), "x" * max(1, int(schema.get("minLength", 1))))


def _smallest_number(schema: Json, _root: Json, _depth: int) -> Any:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is None:
        return min(1, schema.get("maximum", 1))
    return least if "minimum" in schema else least + 1


def _nothing(_schema: Json, _root: Json, _depth: int) -> None:
    return None


_BY_TYPE: Mapping[str, _Maker] = {
    "object": _smallest_object,
    "array": _smallest_list,
    "string": _smallest_text,
    "integer": _smallest_number,
    "number": _smallest_number,
    "boolean": lambda _schema, _root, _depth: False,
    "null": _nothing,
}


def _resolved(reference: str, root: Any) -> Any:
    """Follow a pointer within the schema; anything else leads nowhere."""
    found = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _read_arguments(words: Sequence[str], identity: ProbeIdentity) -> McpSection:
    parser = argparse.ArgumentParser(prog="python -m bot.toolkit.mcp_probe", description="Try an MCP server out.")
    parser.add_argument("url", nargs="?", help="where it is reached; private addresses are allowed")
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent with each request")
    parser.add_argument("--transport", choices=("http", "sse"), default="http")
    parser.add_argument("--timeout-s", type=float, default=30.0, help="of connecting, and of each call")
    parser.add_argument(
        "--stdio", nargs=argparse.REMAINDER, metavar="COMMAND", help="a program to start, with its arguments"
    )
    given = parser.parse_args(words)
    if (given.url is None) == (not given.stdio):
        parser.error("give either a URL or --stdio COMMAND")
    limits = {"timeout_s": given.timeout_s, "start_timeout_s": given.timeout_s}
    try:
        if given.stdio:
            return McpSection(command=given.stdio[0], args=given.stdio[1:], **limits)
        headers = {name.strip(): value.strip() for name, _, value in (item.partition(":") for item in given.header)}
        values = {"url": given.url, "headers": headers, "transport": given.transport, "allow_private": True, **limits}
        if not any(name.lower() == "authorization" for name in headers):
            known = {
                "oauth_client_id": identity.client_id,
                "oauth_client_secret": identity.client_secret,
                "oauth_issuer": identity.issuer,
            }
            values |= {"auth": "oauth", **{name: value for name, value in known.items() if value is not None}}
        return McpSection.model_validate(values)
    except ValidationError as error:
        parser.error("; ".join(str(problem["msg"]) for problem in error.errors(include_input=False)))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        identity = identity_of(os.environ)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    section = _read_arguments(sys.argv[1:] if words is None else words, identity)
    return 0 if asyncio.run(probe(section, identity)) else 1


if __name__ == "__main__":
    sys.exit(main())
