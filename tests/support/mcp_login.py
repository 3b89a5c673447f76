"""A person who logs in at a scripted server: reads the address that is shown, and has a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp

from bot.config import McpSection
from bot.toolkit.mcp.login import log_in
from bot.toolkit.mcp.offers import Offer
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer

_ADDRESS = re.compile(r"https?://\S+/authorize\?\S+")


async def browse(address: str) -> tuple[int, str]:
    """Open an address as a browser does, redirects and all; returns the last page's status and text."""
    async with aiohttp.ClientSession() as browser, browser.get(address) as page:
        return page.status, await page.text()


async def browse_elsewhere(address: str) -> str:
    """Open an address on another machine, where the redirect to loopback leads nowhere; returns that redirect."""
    async with aiohttp.ClientSession() as browser, browser.get(address, allow_redirects=False) as page:
        return page.headers["Location"]


def address_in(text: str) -> str:
    """Return the address that a person is to open, '' while none is shown."""
    found = _ADDRESS.search(text)
    return "" if found is None else found[0]


def section_of(server: McpServer) -> McpSection:
    """Return the section of a scripted server that wants a login."""
    return McpSection.model_validate({"url": server.url, "auth": "oauth", "allow_private": True})


class Person:
    """Does `act` with the address to open, and pastes what they put into `lines`."""

    def __init__(self, act: Callable[[str, Person], object], *, limit_s: float = 20.0) -> None:
        self._limit_s = limit_s
        self._act = act
        self.said: list[str] = []
        self.pages: list[tuple[int, str]] = []
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.tasks: list[asyncio.Task[None]] = []

    def hears(self, text: str) -> None:
        """Read what the program says."""
        self.said.append(text)
        if address := address_in(text):
            self.tasks.append(asyncio.create_task(self._do(address), name="browser"))

    async def _do(self, address: str) -> None:
        done = self._act(address, self)
        if asyncio.iscoroutine(done):
            await done

    async def pasted(self) -> AsyncIterator[str]:
        """See `login.Pasted`."""
        while True:
            yield await self.lines.get()

    async def logs_in(self, server: McpServer, folder: Path, section: McpSection | None = None) -> Offer:
        """Log in at the server "desk"."""
        try:
            return await log_in(
                "desk",
                section or section_of(server),
                data_dir=folder,
                workspace=folder,
                say=self.hears,
                pasted=self.pasted,
                person_limit_s=self._limit_s,
            )
        finally:
            await asyncio.gather(*self.tasks)


async def agrees(address: str, person: Person) -> None:
    """Agree, in a browser on the same machine."""
    person.pages.append(await browse(address))


def refreshes(oauth: McpOAuth) -> int:
    """Return how often a token was renewed, or was to be."""
    return sum(form["grant_type"] == "refresh_token" for form in oauth.token_requests)
