"""A bot with one scripted MCP server, whose tool asks the person; and the model that calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bot.config import McpSection
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import OutboundKind, OutboundMessage
from bot.toolkit.mcp.server_calls import ServerState
from tests.platforms.mcp_script import Ask, Script, Tool
from tests.platforms.mcp_stage import StdioServer
from tests.platforms.mcp_ways import Running, running
from tests.support.engine import AnsweringProvider, Rig, calls, last_user, rig, said, tool_texts


class Clerk:
    """Calls the tool that is named after "call"; tells what it got; echoes everything else."""

    def __init__(self) -> None:
        self.results: list[str] = []  # of calls, as the model saw them
        self.outcomes: list[str] = []  # of calls that waited
        self.provider = AnsweringProvider(self)

    def __call__(self, request: ModelRequest) -> ModelReply:
        text = last_user(request)
        if request.messages[-1]["role"] == "tool":
            self.results.append(tool_texts(request)[-1])
            return said("It waits for you." if "asks the person" in self.results[-1] else f"got: {self.results[-1]}")
        if text.startswith("[The call of"):
            self.outcomes.append(text)
            return said(f"told: {text}")
        if text.startswith("call "):
            return calls((f"mcp_desk_{text.removeprefix('call ')}", {}), prefix=f"c{len(self.results)}")
        return said(f"re: {text}")


def asking(*asks: Ask, name: str = "book", only_reads: bool = False, **fields: Any) -> Tool:
    """Return a tool that asks, and then says what it was answered; members may call it, in groups if it only reads."""
    hints = {"readOnlyHint": True} if only_reads else {"destructiveHint": False}
    return Tool(name=name, description="Books.", asks=list(asks), does="answers", annotations=hints, **fields)


def section_of(server: Running, way: str, **keys: Any) -> McpSection:
    """Return the section by which the product reaches a scripted server."""
    if isinstance(server, StdioServer):
        files = server.files
        return McpSection.model_validate({"command": files.command, "args": files.args, "env": files.env, **keys})
    transport = "sse" if way.startswith("sse") else "http"
    url = server.sse_url if transport == "sse" else server.url
    return McpSection.model_validate({"url": url, "transport": transport, "allow_private": True, **keys})


@asynccontextmanager
async def desk(
    folder: Path, clerk: Clerk, *tools: Tool, way: str = "http-2026", **options: Any
) -> AsyncIterator[tuple[Rig, Running]]:
    """Have an engine running whose server "desk" is connected."""
    keys = options.pop("keys", {})
    async with running(way, folder, Script(name="desk", tools=list(tools))) as server:
        servers = {"desk": section_of(server, way, **keys)}
        async with rig(folder / "bot", clerk.provider, servers=servers, **options) as engine:
            await ready(engine)
            yield engine, server


async def ready(engine: Rig) -> None:
    """Wait until the server "desk" is connected."""
    connection = engine.room.mcp.connection("desk")
    assert connection is not None
    await connection.connected()
    assert connection.state is ServerState.READY


async def question(engine: Rig, number: int = 1, *, chat: str = "c1") -> OutboundMessage:
    """Wait for the chat's question of this number, and return it."""
    found: list[OutboundMessage] = []

    def is_there() -> bool:
        found[:] = [
            item.message
            for item in engine.channel.arrived
            if item.message.text.startswith("ask-") and item.address.chat_id == chat
        ]
        return len(found) >= number

    await engine.until(is_there)
    assert found[number - 1].kind is OutboundKind.NOTICE
    return found[number - 1]


def name_of(message: OutboundMessage) -> str:
    """Return a question's id."""
    return message.text.partition(" ")[0]


def data_of(message: OutboundMessage, label: str) -> str:
    """Return what pressing a button says."""
    return {button.label: button.data for row in message.buttons for button in row}[label]


def answers_of(server: Running) -> list[Any]:
    """Return the results of all requests that the server was answered, of either generation."""
    record = server.record
    found = [entry["result"] for entry in record.of("answered") if "result" in entry]
    for entry in record.received("tools/call"):
        found += list((entry["params"].get("inputResponses") or {}).values())
    return found
