"""Every way to reach a scripted MCP server: transport and generation, and the SDK's client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

from tests.platforms.mcp_script import (
    HANDSHAKE,
    MODERN,
    Script,
)
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer

LIMIT_S = 5.0
# A transport with the generation that a client finds on it.
WAYS = ("stdio-2025", "stdio-2026", "http-2025", "http-2026", "sse-2025")

Running = StdioServer | McpServer


@asynccontextmanager
async def running(way: str, folder: Path, script: Script) -> AsyncIterator[Running]:
    """Run a script on the transport and in the generation of `way`."""
    script.versions = [HANDSHAKE] if way.endswith("2025") else [MODERN]
    server: Running = StdioServer(folder, script) if way.startswith("stdio") else McpServer(script)
    async with server:
        yield server


def client_of(server: Running, way: str, **options: Any) -> Client:
    """Return the SDK's client for a server, as the product uses it: it finds the generation by itself."""
    options = {"read_timeout_seconds": LIMIT_S} | options
    if isinstance(server, StdioServer):
        files = server.files
        return Client(StdioServerParameters(command=files.command, args=files.args, env=files.env), **options)
    return Client(sse_client(server.sse_url) if way.startswith("sse") else server.url, **options)


def first_text(result: types.CallToolResult) -> str:
    """Return the text of a result's first block."""
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text
