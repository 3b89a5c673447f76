"""Connections of the product to scripted MCP servers, on every transport and in both generations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from bot.config import McpSection
from bot.toolkit.mcp.connection import ServerConnection
from bot.toolkit.mcp.offers import Offer
from bot.toolkit.mcp.server_calls import ServerState
from bot.toolkit.mcp.session import SessionSpec
from bot.web.resolver import SystemResolver
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer

T = TypeVar("T")

PATIENCE_S = 15.0


def section_of(server: McpServer | StdioServer, way: str, **more: Any) -> McpSection:
    """Return the configuration that leads to a server."""
    if isinstance(server, StdioServer):
        files = server.files
        return McpSection.model_validate({"command": files.command, "args": files.args, "env": files.env, **more})
    if way.startswith("sse"):
        return McpSection(url=server.sse_url, transport="sse", allow_private=True, **more)
    return McpSection(url=server.url, allow_private=True, **more)


class Link:
    """A connection under test, with what it published."""

    def __init__(self, section: McpSection, workspace: Path, **more: Any) -> None:
        self.offers: list[Offer] = []
        spec = SessionSpec(name="shop", section=section, workspace=workspace, resolver=SystemResolver(), **more)
        self.connection = ServerConnection(spec, on_offer=self._take)

    async def _take(self, _connection: ServerConnection, offer: Offer) -> None:
        self.offers.append(offer)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered last."""
        return [tool["name"] for tool in self.offers[-1].tools] if self.offers else []

    async def until(self, predicate: Callable[[], T], limit_s: float = PATIENCE_S) -> T:
        """Return the predicate's first true value."""
        async with asyncio.timeout(limit_s):
            while not (value := predicate()):
                await asyncio.sleep(0.02)
        return value

    async def ready(self) -> None:
        """Wait until the server's calls are answered."""
        await self.until(lambda: self.connection.state is ServerState.READY)

    async def echo(self, text: str) -> str:
        """Call the tool `echo`, which may be repeated."""
        return said(await self.connection.call_tool("echo", {"text": text}, may_repeat=True))

    async def ticket(self, title: str) -> str:
        """Call the tool `create_ticket`, which may not."""
        return said(await self.connection.call_tool("create_ticket", {"title": title}, may_repeat=False))


def said(result: Any) -> str:
    """Return the text of a result's first block."""
    return str(result["content"][0]["text"])


@asynccontextmanager
async def linked(section: McpSection, workspace: Path, **more: Any) -> AsyncIterator[Link]:
    """Start a connection and close it at the end."""
    link = Link(section, workspace, **more)
    link.connection.start()
    try:
        yield link
    finally:
        await link.connection.close()
