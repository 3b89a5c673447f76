"""The servers of one process, as far as a login is concerned: only "desk", with what `dutiful mcp login` keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

from bot.config import McpSection
from bot.toolkit.mcp.connection import ServerConnection
from bot.toolkit.mcp.logins import LateLogins
from bot.toolkit.mcp.manager import McpManager
from bot.toolkit.mcp.offers import Json
from bot.toolkit.mcp.server_calls import ServerState

SOON_S = 20.0


class LoggedInBot:
    """A process with the server "desk", as long as its `async with` block lasts."""

    def __init__(self, folder: Path, section: McpSection) -> None:
        self.manager = McpManager({"desk": section}, workspace=folder, data_dir=folder, oauth_of=LateLogins(folder))

    async def __aenter__(self) -> Self:
        await self.manager.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.manager.close()

    @property
    def connection(self) -> ServerConnection:
        """The way to the server."""
        connection = self.manager.connection("desk")
        assert connection is not None
        return connection

    async def call(self, tool: str, arguments: dict[str, Any]) -> Json:
        """Call a tool once."""
        return await self.connection.call_tool(tool, arguments, may_repeat=False)

    async def echo(self, text: str) -> str:
        """Have the server say something back."""
        return str((await self.call("echo", {"text": text}))["content"][0]["text"])

    async def comes_to(self, state: ServerState) -> str:
        """Wait until the server stands so; returns the problem."""
        async with asyncio.timeout(SOON_S):
            while self.manager.statuses()[0].state is not state:
                await asyncio.sleep(0.01)
        return self.manager.statuses()[0].problem
