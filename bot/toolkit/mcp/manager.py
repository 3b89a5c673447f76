"""All servers of one process: their connections, what they offer, how they stand, and changes of the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson

from bot.config import McpSection
from bot.log import get_logger
from bot.security.untrusted import neutralise, on_one_line
from bot.toolkit.mcp.asks import Elicit, OAuthOf, Sample
from bot.toolkit.mcp.connection import CLOSE_S, ServerConnection
from bot.toolkit.mcp.lasting import Lasting
from bot.toolkit.mcp.offer_cache import OfferCache
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.provider_schema import provider_schemas
from bot.toolkit.mcp.server_calls import ServerCalls, ServerState, ServerStatus
from bot.toolkit.mcp.session import SessionSpec
from bot.web.resolver import Resolver, SystemResolver

_WORDS_CHARS = 160  # of a server's problem in the prompt
_SHOWN = 10

_log = get_logger(__name__)


class Shelf(Protocol):
    """Where a server's tools are shown: `ServerShelf`."""

    async def put(
        self, calls: ServerCalls, offer: Offer, section: McpSection, schemas: Mapping[str, Json] | None = None
    ) -> list[str]:
        """Show what a server offers; returns what is wrong with it. `schemas`: the offer's `provider_schemas`."""

    async def check(self, server: str) -> None:
        """Find out, off the loop, which of its tools cannot be used after all."""

    async def remove(self, server: str) -> None:
        """Show it no more."""

    def faults(self, server: str) -> list[str]:
        """Return what of a server cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChanges:
    """What a new configuration did to the servers, by name."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Study:
    """An offer, and what takes long to find out about it."""

    offer: Offer
    schemas: Mapping[str, Json]  # its `provider_schemas`
    size_bytes: int  # of its tools


def _study(offer: Offer, known: Offer | None) -> _Study:
    """Study an offer; one that is equal to the known one is that one, with nothing to be made of it. Blocks."""
    if known is not None and offer == known:
        return _Study(offer=known, schemas={}, size_bytes=0)
    size = sum(len(orjson.dumps(tool)) for tool in offer.tools)
    return _Study(offer=offer, schemas=provider_schemas(offer.tools), size_bytes=size)


class McpManager:
    """Cheap to build; nothing is started, imported or read before `start`, and nothing at all without servers.

    `elicit`, `sample` and `oauth_of` may be set until `start`; None: servers are not told that they may ask.
    """

    def __init__(
        self,
        servers: Mapping[str, McpSection],
        *,
        workspace: Path,
        data_dir: Path,
        resolver: Resolver | None = None,
        elicit: Elicit | None = None,
        sample: Sample | None = None,
        oauth_of: OAuthOf | None = None,
    ) -> None:
        self.elicit = elicit
        self.sample = sample
        self.oauth_of = oauth_of
        self.shelf: Shelf | None = None
        """Where tools are shown; set by whoever has the registry, before `start`."""
        self._sections = dict(servers)
        self._workspace = workspace
        self._resolver = resolver or SystemResolver()
        self._cache = OfferCache(data_dir / "mcp")
        self._connections: dict[str, ServerConnection] = {}
        self._offers: dict[str, Offer] = {}
        self._saving: set[asyncio.Task[None]] = set()
        self._checking: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()
        self._lasting = Lasting()
        self._is_started = False
        self._is_closed = False
        self._listeners: list[Callable[[], None]] = []

    # --- life

    async def start(self) -> None:
        """Show what is known of the servers and begin to connect; waits for none of them."""
        self._is_started = True
        await self._add(self._sections)

    async def close(self) -> None:
        """Close all sessions side by side; bounded, idempotent."""
        self._is_closed = True
        for task in self._checking:
            task.cancel()
        connections = list(self._connections.values())
        await asyncio.gather(*(connection.close() for connection in connections))
        if self._saving:
            await asyncio.wait(set(self._saving), timeout=CLOSE_S)

    async def reload(self, servers: Mapping[str, McpSection]) -> ServerChanges:
        """Follow a new configuration; servers whose sections are as before are not touched."""
        async with self._reloading:
            before = self._sections
            if not self._is_started or self._is_closed:
                return ServerChanges()
            removed = [name for name in before if name not in servers]
            changed = [name for name, section in servers.items() if name in before and before[name] != section]
            added = [name for name in servers if name not in before]
            self._sections = dict(servers)
            for name in removed:
                await asyncio.to_thread(self._cache.forget, name)
            await asyncio.gather(*(self._drop(name) for name in (*removed, *changed)))
            await self._add({name: servers[name] for name in (*changed, *added)})
            changes = ServerChanges(added=tuple(added), changed=tuple(changed), removed=tuple(removed))
            _log.info("mcp servers follow the configuration", added=added, changed=changed, removed=removed)
            return changes

    async def _add(self, sections: Mapping[str, McpSection]) -> None:
        wanted = {name: section for name, section in sections.items() if section.enabled}
        if not wanted:
            return
        known = await asyncio.to_thread(self._known, wanted)
        if self._is_closed:
            return
        for name, section in wanted.items():
            connection = self._connections[name] = ServerConnection(self._spec(name, section), on_offer=self._take)
            if (study := known.get(name)) is not None:
                await self._show(connection, study)
            connection.start()

    def _known(self, wanted: Mapping[str, McpSection]) -> dict[str, _Study]:
        """Return what servers offered last, by their names. Blocks."""
        return {name: _study(offer, None) for name, offer in self._cache.load_all(wanted).items()}

    async def _drop(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is None:
            return
        self._offers.pop(name, None)
        if self.shelf is not None:
            await self.shelf.remove(name)
        await connection.close()

    def _spec(self, name: str, section: McpSection) -> SessionSpec:
        oauth = None
        if section.auth == "oauth" and self.oauth_of is not None:
            oauth = partial[Any](self.oauth_of, name, section)
        return SessionSpec(
            name=name,
            section=section,
            workspace=self._workspace,
            resolver=self._resolver,
            oauth=oauth,
            elicit=self.elicit,
            sample=self.sample if section.sampling else None,
        )

    # --- offers

    async def _take(self, connection: ServerConnection, offer: Offer) -> None:
        """Show what a server offers now, and keep it for the next start."""
        known = self._offers.get(connection.name)
        study = await asyncio.to_thread(_study, offer, known)
        if self._connections.get(connection.name) is not connection:  # replaced meanwhile
            return
        await self._show(connection, study)
        if study.offer is not known:
            save = asyncio.to_thread(self._cache.save, connection.name, connection.section, offer)
            task = asyncio.create_task(save, name=f"keep tools of {connection.name}")
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    async def _show(self, connection: ServerConnection, study: _Study) -> None:
        name = connection.name
        self._offers[name] = study.offer
        if self.shelf is None:
            return
        with ExitStack() as until_shown:
            until_shown.enter_context(self._lasting.made(study.size_bytes))
            try:
                await self.shelf.put(connection, study.offer, connection.section, study.schemas)
            except Exception:  # noqa: BLE001 - the boundary of one server: a strange offer must not end its task
                _log.exception("tools of an mcp server cannot be shown", server=name)
                return
            task = asyncio.create_task(self.shelf.check(name), name=f"check tools of {name}")
            until_checked = until_shown.pop_all()
            self._checking.add(task)
            task.add_done_callback(self._checking.discard)
            task.add_done_callback(lambda _: until_checked.close())

    # --- how they stand

    def connection(self, name: str) -> ServerConnection | None:
        """Return the connection of a server that is switched on."""
        return self._connections.get(name)

    def offer(self, name: str) -> Offer | None:
        """Return what a server offers, or offered last."""
        return self._offers.get(name)

    def statuses(self) -> list[ServerStatus]:
        """Return all configured servers by name."""
        return [self._status(name, section) for name, section in sorted(self._sections.items())]

    def _status(self, name: str, section: McpSection) -> ServerStatus:
        transport = "stdio" if section.command is not None else section.transport
        connection = self._connections.get(name)
        if connection is None:
            return ServerStatus(name=name, transport=transport, state=ServerState.OFF)
        offer = self._offers.get(name, Offer())
        wanted = section.enabled_tools
        faults = self.shelf.faults(name) if self.shelf is not None else list(offer.faults)
        return ServerStatus(
            name=name,
            transport=transport,
            state=connection.state,
            problem=connection.problem,
            retry_in_s=connection.retry_in_s,
            tools=sum(wanted is None or tool["name"] in wanted for tool in offer.tools),
            resources=len(offer.resources) + len(offer.resource_templates),
            prompts=len(offer.prompts),
            faults=tuple(faults),
        )

    def away(self) -> list[ServerStatus]:
        """Return the servers that should be there and are not."""
        if not self._connections:
            return []
        return [item for item in self.statuses() if item.state not in (ServerState.READY, ServerState.OFF)]

    def note(self) -> str:
        """Return one line for the model about the servers that are not usable now; '' when all are."""
        away = self.away()
        if not away:
            return ""
        words = [f"{item.name} ({_why(item)})" for item in away[:_SHOWN]]
        more = f" and {len(away) - _SHOWN} more" if len(away) > _SHOWN else ""
        return (
            f"MCP servers whose tools do not work now: {', '.join(words)}{more}. When one would be needed, say that it "
            "is not available; do not make a result up."
        )


def _why(status: ServerStatus) -> str:
    if not status.problem:
        return status.state
    return neutralise(on_one_line(status.problem))[:_WORDS_CHARS]
