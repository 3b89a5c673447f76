"""The real MCP servers through our own connection, wrappers and registry: what they offer, what calls bring."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from bot.config import McpSection
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.context import set_request
from bot.toolkit.mcp.manager import McpManager
from bot.toolkit.mcp.server_calls import ServerState
from bot.toolkit.mcp.shelf import ServerShelf
from bot.toolkit.registry import ToolRegistry
from tests.platforms.mcp_real import EverythingHttp, Stdio, everything_stdio, filesystem_stdio, time_stdio
from tests.support.contexts import request_context

PATIENCE_S = 60.0  # node on a busy machine

WAYS = ("stdio", "streamableHttp", "sse")

ARGUMENTS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hello"},
    "get-sum": {"a": 2, "b": 3},
    "get-tiny-image": {},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-structured-content": {"location": "Chicago"},
    "get-resource-links": {"count": 2},
    "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
    "trigger-long-running-operation": {"duration": 1, "steps": 2},
    "get-roots-list": {},
}


def section_of(server: Stdio | EverythingHttp, **more: Any) -> McpSection:
    """Return the configuration that leads to a real server."""
    if isinstance(server, Stdio):
        return McpSection.model_validate(
            {"command": server.command, "args": server.args, "env": server.env, "start_timeout_s": PATIENCE_S, **more}
        )
    transport: Literal["http", "sse"] = "sse" if server.mode == "sse" else "http"
    return McpSection(url=server.url, transport=transport, allow_private=True, start_timeout_s=PATIENCE_S, **more)


class Bench:
    """One real server "real" below a manager, with the registry that shows its tools."""

    def __init__(self, folder: Path, section: McpSection) -> None:
        self.registry = ToolRegistry()
        self.manager = McpManager({"real": section}, workspace=folder, data_dir=folder)
        self.manager.shelf = ServerShelf(self.registry, view_of=ChatFiles(folder).view)

    @property
    def state(self) -> ServerState:
        """How the server stands."""
        return self.manager.statuses()[0].state

    async def ready(self) -> None:
        """Wait until it answers calls."""
        async with asyncio.timeout(PATIENCE_S):
            while self.state is not ServerState.READY:
                await asyncio.sleep(0.02)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool as the model does."""
        return await self.registry.execute(f"mcp_real_{tool}", arguments)


@asynccontextmanager
async def bench(folder: Path, section: McpSection) -> AsyncIterator[Bench]:
    """Run a manager with one server and wait until that answers."""
    set_request(request_context())
    made = Bench(folder, section)
    await made.manager.start()
    try:
        await made.ready()
        yield made
    finally:
        await made.manager.close()


@asynccontextmanager
async def everything(way: str) -> AsyncIterator[Stdio | EverythingHttp]:
    """Have server-everything over one transport."""
    if way == "stdio":
        yield everything_stdio()
    else:
        async with EverythingHttp("sse" if way == "sse" else "streamableHttp") as server:
            yield server


def children(command: str) -> list[psutil.Process]:
    """Return the programs that this process has started with `command`."""
    return [child for child in psutil.Process().children() if command in child.cmdline()]


@pytest.mark.parametrize("way", WAYS)
async def test_tools_of_server_everything_bring_results_of_every_kind(way: str, tmp_path: Path) -> None:
    async with everything(way) as server, bench(tmp_path, section_of(server)) as desk:
        said = {name: await desk.call(name, arguments) for name, arguments in ARGUMENTS.items()}
        status = desk.manager.statuses()[0]
    assert {name: str(result) for name, result in said.items() if result.is_error} == {}
    assert "Echo: hello" in said["echo"]
    assert "The sum of 2 and 3 is 5." in said["get-sum"]
    assert [block["type"] for block in said["get-tiny-image"].blocks] == ["image_url"]
    assert said["get-tiny-image"].blocks[0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "Error: Operation failed" in said["get-annotated-message"]
    assert len(said["get-annotated-message"].blocks) == 1
    assert said["get-structured-content"].count("temperature") == 1  # the text that repeats it is not said twice
    assert said["get-resource-links"].count("[link to resource demo://") == 2
    assert "[resource demo://resource/dynamic/text/1]" in said["get-resource-reference"]
    assert "Long running operation completed" in said["trigger-long-running-operation"]
    assert tmp_path.as_uri() in said["get-roots-list"]
    assert status.resources > 0
    assert status.prompts > 0
    assert status.faults == ()


@pytest.mark.parametrize("way", WAYS)
async def test_resources_and_prompts_of_server_everything_can_be_read(way: str, tmp_path: Path) -> None:
    async with everything(way) as server, bench(tmp_path, section_of(server)) as desk:
        text = await desk.call("resources_read", {"uri": "demo://resource/dynamic/text/1"})
        blob = await desk.call("resources_read", {"uri": "demo://resource/dynamic/blob/1"})
        none = await desk.call("resources_read", {"uri": "demo://resource/none"})
        simple = await desk.call("prompts_get", {"name": "simple-prompt"})
        arguments = {"name": "args-prompt", "arguments": {"city": "Bergen", "state": "Vestland"}}
        filled = await desk.call("prompts_get", arguments)
        assert (await desk.call("echo", {"message": "still"})).is_error is False
    assert not text.is_error
    assert "plaintext resource" in text
    assert "kept as " in blob
    assert none.is_error
    assert "simple prompt" in simple
    assert "Bergen" in filled


async def test_server_everything_over_stdio_is_killed_between_two_calls(tmp_path: Path) -> None:
    """C074."""
    server = everything_stdio()
    async with bench(tmp_path, section_of(server)) as desk:
        assert "Echo: one" in await desk.call("echo", {"message": "one"})
        (child,) = children(server.args[0])
        os.kill(child.pid, 9)
        assert "Echo: two" in await desk.call("echo", {"message": "two"})
        assert "Echo: three" in await desk.call("echo", {"message": "three"})
    assert children(server.args[0]) == []


@pytest.mark.parametrize("mode", ["streamableHttp", "sse"])
async def test_server_everything_over_http_is_restarted_between_two_calls(mode: str, tmp_path: Path) -> None:
    """C074: the new process knows nothing of the session."""
    async with everything(mode) as server, bench(tmp_path, section_of(server)) as desk:
        assert isinstance(server, EverythingHttp)
        assert "Echo: one" in await desk.call("echo", {"message": "one"})
        await server.stop()
        gone = await desk.call("echo", {"message": "nobody hears"})
        assert gone.is_error
        assert "The MCP server real" in gone
        await server.start()
        assert "Echo: two" in await desk.call("echo", {"message": "two"})
        await server.stop()
        await server.start()
        assert "Echo: three" in await desk.call("echo", {"message": "three"})


async def test_the_filesystem_server_serves_the_workspace_that_it_is_told_by_roots(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("buy milk", encoding="utf-8")
    async with bench(tmp_path, section_of(filesystem_stdio())) as desk:
        read = await desk.call("read_text_file", {"path": str(tmp_path / "note.txt")})
        listed = await desk.call("list_directory", {"path": str(tmp_path)})
        outside = await desk.call("read_text_file", {"path": "/etc/hostname"})
        wrong = await desk.call("read_text_file", {})
    assert "buy milk" in read
    assert read.count("buy milk") == 1
    assert "note.txt" in listed
    assert outside.is_error
    assert "denied" in outside
    assert wrong.is_error


async def test_the_time_server_converts_and_names_its_errors(tmp_path: Path) -> None:
    async with bench(tmp_path, section_of(time_stdio())) as desk:
        request = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        converted = await desk.call("convert_time", request)
        now = await desk.call("get_current_time", {"timezone": "UTC"})
        wrong = await desk.call("get_current_time", {"timezone": "Nowhere/Else"})
    assert "21:00:00" in converted
    assert not now.is_error
    assert wrong.is_error
    assert "Nowhere/Else" in wrong
