"""Which tools of servers are registered: follows what servers offer, and leaves alone what did not change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from time import monotonic

from bot.config import McpSection
from bot.log import get_logger
from bot.security.workspace import WorkspaceView
from bot.toolkit.base import Tool
from bot.toolkit.context import RequestContext
from bot.toolkit.mcp.names import Origin, model_names
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.server_calls import ServerCalls
from bot.toolkit.mcp.server_tools import PromptTool, ResourceTool, ServerParts, ServerTool
from bot.toolkit.mcp.waiting_calls import WaitingCalls
from bot.toolkit.registry import ToolRegistry

READS_RESOURCES, GETS_PROMPTS = "resources/read", "prompts/get"
"""Stand for a server's resources and prompts among its tools, also in `enabled_tools`: the protocol's methods."""

_SHARE_S = 0.005
"""How long many tools are worked on at once."""

_log = get_logger(__name__)


class _Breath:
    """Lets everybody else run once a piece of work has taken its share of the loop."""

    def __init__(self) -> None:
        self._since = monotonic()

    async def pause(self) -> None:
        """Give way if it is time."""
        if monotonic() - self._since > _SHARE_S:
            await asyncio.sleep(0)
            self._since = monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stock:
    """What one server has on the shelf."""

    parts: ServerParts
    offer: Offer
    entries: Mapping[str, Json]  # its enabled tools by their own names; {} for resources and prompts
    schemas: Mapping[str, Json]  # in the providers' form, by the same names, as far as they are made already


class ServerShelf:
    """Registers servers' tools. The registry shows them to turns at once.

    `disabled` are names that are left out, as the model would call them: `[tools] disabled`.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        view_of: Callable[[RequestContext], WorkspaceView],
        waiting: WaitingCalls | None = None,
        disabled: Collection[str] = (),
    ) -> None:
        self._registry = registry
        self._disabled = frozenset(disabled)
        self._waiting = waiting
        self._view_of = view_of
        self._stocks: dict[str, _Stock] = {}
        self._names: dict[Origin, str] = {}
        self._not_shown: dict[Origin, str] = {}  # why a tool could not be made
        self._changing = asyncio.Lock()

    async def put(
        self, calls: ServerCalls, offer: Offer, section: McpSection, schemas: Mapping[str, Json] | None = None
    ) -> list[str]:
        """Show what a server offers, in place of what it offered before; returns what is wrong with it.

        `schemas` are the offer's `provider_schemas`; without them they are made here, which takes long for many tools.
        Others run in between, and may find some of the tools shown already.
        """
        async with self._changing:
            before = self._stocks.get(calls.name)
            parts = ServerParts(calls=calls, section=section, view_of=self._view_of, waiting=self._waiting)
            if before is None or before.parts != parts or (before.offer is not offer and before.offer != offer):
                entries = {name: entry for name, entry in _entries(offer).items() if _is_enabled(name, section)}
                self._stocks[calls.name] = _Stock(parts=parts, offer=offer, entries=entries, schemas=schemas or {})
                await self._follow(calls.name)
        return self.faults(calls.name)

    async def check(self, server: str) -> None:
        """Compile the schemas of a server's tools, off the loop; those that cannot be used become faults."""
        for name in self.names_of(server):
            await self._registry.check(name)

    async def remove(self, server: str) -> None:
        """Take a server's tools away; without effect when it has none."""
        async with self._changing:
            if self._stocks.pop(server, None) is not None:
                await self._follow(server)

    def names_of(self, server: str) -> list[str]:
        """Return the registered names of a server's tools, in order."""
        return sorted(name for (owner, _), name in self._names.items() if owner == server and name in self._registry)

    def faults(self, server: str) -> list[str]:
        """Return what of a server cannot be used, a sentence for each."""
        stock = self._stocks.get(server)
        if stock is None:
            return []
        found = list(stock.offer.faults)
        for origin, name in self._names.items():
            if origin[0] == server:
                why = self._not_shown.get(origin) or self._registry.set_aside.get(name)
                found += [f"tool {origin[1]}: {why}"] if why else []
        offered = _entries(stock.offer)
        wanted = stock.parts.section.enabled_tools or ()
        found += [
            f"enabled_tools names {name!r}, which the server does not have" for name in wanted if name not in offered
        ]
        return found

    async def _follow(self, changed: str) -> None:
        """Bring the registry up to date after one server changed; names of others may have to give way."""
        names = model_names({server: stock.entries for server, stock in self._stocks.items()})
        breath = _Breath()
        for origin, name in list(self._names.items()):
            if names.get(origin) != name:
                self._registry.unregister(name)
                del self._names[origin]
                await breath.pause()
        for origin, name in sorted(names.items()):
            if origin[0] == changed or origin not in self._names:
                self._names[origin] = name  # at once: whatever cuts this short, what is registered has its name
                if name not in self._disabled:
                    self._register(origin, name)
                await breath.pause()
        self._not_shown = {origin: why for origin, why in self._not_shown.items() if origin in names}
        _log.info("tools of an mcp server", server=changed, tools=len(self.names_of(changed)))

    def _register(self, origin: Origin, name: str) -> None:
        self._not_shown.pop(origin, None)
        try:
            tool = self._tool(origin, name)
        except Exception as error:  # noqa: BLE001 - the boundary of one tool: what a server wrote must not hide others
            self._not_shown[origin] = f"it cannot be shown ({type(error).__name__})"
            _log.exception("tool of an mcp server cannot be shown", server=origin[0], tool=origin[1])
        else:
            self._registry.register(tool)

    def _tool(self, origin: Origin, name: str) -> Tool:
        server, tool = origin
        stock = self._stocks[server]
        if tool == READS_RESOURCES:
            return ResourceTool(name, stock.parts, stock.offer)
        if tool == GETS_PROMPTS:
            return PromptTool(name, stock.parts, stock.offer)
        return ServerTool(name, stock.parts, stock.entries[tool], stock.schemas.get(tool))


def _entries(offer: Offer) -> dict[str, Json]:
    entries: dict[str, Json] = {str(entry["name"]): entry for entry in offer.tools}
    if offer.resources or offer.resource_templates:
        entries.setdefault(READS_RESOURCES, {})
    if offer.prompts:
        entries.setdefault(GETS_PROMPTS, {})
    return entries


def _is_enabled(name: str, section: McpSection) -> bool:
    return section.enabled_tools is None or name in section.enabled_tools
