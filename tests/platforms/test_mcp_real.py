"""The real MCP servers answer the SDK's client, and listen on loopback only."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import mcp_types as types
import psutil
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

from tests.platforms.mcp_real import EverythingHttp, Stdio, everything_stdio, filesystem_stdio, time_stdio

LIMIT_S = 20.0

Mode = Literal["streamableHttp", "sse"]


def client_of(server: Stdio | EverythingHttp) -> Client:
    """Return the SDK's client for a server."""
    if isinstance(server, Stdio):
        parameters = StdioServerParameters(command=server.command, args=server.args, env=server.env)
        return Client(parameters, read_timeout_seconds=LIMIT_S)
    return Client(sse_client(server.url) if server.mode == "sse" else server.url, read_timeout_seconds=LIMIT_S)


async def echo(client: Client, message: str) -> str:
    """Let server-everything say something back."""
    block = (await client.call_tool("echo", {"message": message})).content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def test_everything_over_stdio_lists_tools_resources_and_prompts() -> None:
    async with client_of(everything_stdio()) as client:
        assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
        assert (await client.list_resources()).resources
        assert (await client.list_prompts()).prompts
        assert await echo(client, "hello") == "Echo: hello"


@pytest.mark.parametrize("mode", ["streamableHttp", "sse"])
async def test_everything_over_http_answers_on_loopback_only_and_again_after_a_restart(mode: Mode) -> None:
    async with EverythingHttp(mode) as server:
        port = server.port
        for _ in range(2):
            listening = [entry.laddr.ip for entry in psutil.Process(server.pid).net_connections() if not entry.raddr]
            assert listening == ["127.0.0.1"]
            async with client_of(server) as client:
                assert await echo(client, "hello") == "Echo: hello"
            await server.stop()
            await server.start()
        assert server.port == port


async def test_the_filesystem_server_reads_a_file_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("buy milk")
    async with client_of(filesystem_stdio(tmp_path)) as client:
        assert "read_text_file" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("read_text_file", {"path": str(tmp_path / "note.txt")})
        block = result.content[0]
        assert isinstance(block, types.TextContent)
        assert block.text == "buy milk"


async def test_the_time_server_converts_between_zones() -> None:
    async with client_of(time_stdio()) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"get_current_time", "convert_time"}
        request = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        block = (await client.call_tool("convert_time", request)).content[0]
        assert isinstance(block, types.TextContent)
        assert "21:00:00" in block.text
