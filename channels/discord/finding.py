"""Finding out where a message stands: from what the gateway told, else by asking, for a moment."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from bot.clock import Clock
from bot.errors import ChannelAuthError, ChannelError
from bot.log import get_logger
from channels.discord.config import Timing
from channels.discord.errors import Refused
from channels.discord.places import Place, place_of
from channels.supervision import Backoff

Json = dict[str, Any]

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

_REMEMBERED = 1000
_UNTOLD_S = 60.0

_log = get_logger(__name__)


class Directory(Protocol):
    """What the gateway client knows of servers."""

    def place(self, channel_id: str, guild_id: str) -> Place | None:
        """Return where a channel stands, None when that is not known."""

    def guild_of(self, channel_id: str) -> str:
        """Return the server of a channel or thread, '' when none is known."""

    def own_role(self, guild_id: str) -> str:
        """Return the role made for this bot in a server, '' without one."""

    def channels_of(self, guild_id: str) -> list[Place]:
        """Return the channels and threads of a server."""


class Places:
    """The places of channels that the gateway did not announce."""

    def __init__(self, *, call: Caller, directory: Directory, clock: Clock, timing: Timing) -> None:
        self._call = call
        self._directory = directory
        self._clock = clock
        self._timing = timing
        self._told: OrderedDict[str, Place] = OrderedDict()
        self._untold_until_s: OrderedDict[str, float] = OrderedDict()  # channel -> when it may be asked for again

    async def find(self, message: Json) -> Place:
        """Return where a message was said. A channel of which nobody tells is taken for one that is no thread.

        Raises:
            ChannelAuthError: the token is refused.
        """
        channel_id = str(message["channel_id"])
        guild_id = str(message.get("guild_id") or "") or self._directory.guild_of(channel_id)
        if not guild_id:
            return Place(channel_id=channel_id)
        known = self._directory.place(channel_id, guild_id) or self._told.get(channel_id)
        if known is not None:
            return known
        by_itself = Place(channel_id=channel_id, guild_id=guild_id, is_guess=True)
        if self._untold_until_s.get(channel_id, 0.0) > self._clock.monotonic_s():
            return by_itself
        try:
            async with asyncio.timeout(self._timing.place_s):
                place = place_of(await self._ask(channel_id), guild_id)
        except ChannelAuthError:
            raise
        except (ChannelError, TimeoutError, LookupError, TypeError, ValueError, AttributeError) as exc:
            error = f"{type(exc).__name__}: {exc}"
            _log.info("where a channel stands is not told", chat=by_itself.address.key, error=error)
            if not isinstance(exc, ChannelError) or (isinstance(exc, Refused) and not exc.code):
                _remember(self._untold_until_s, channel_id, self._clock.monotonic_s() + _UNTOLD_S)
                return by_itself
            place = by_itself
        _remember(self._told, channel_id, place)
        return place

    async def _ask(self, channel_id: str) -> Any:
        """Ask for a channel until there is an answer.

        Raises:
            ChannelError: nobody will ever tell.
        """
        failures = Backoff(self._timing.retry_base_s, self._timing.retry_cap_s)
        while True:
            try:
                return await self._call(
                    "GET", "/channels/{channel_id}", channel_id=channel_id, timeout_s=self._timing.call_s
                )
            except ChannelError as exc:
                if not exc.retryable:
                    raise
                await asyncio.sleep(exc.retry_after_s or failures.next_s())


def _remember(memory: OrderedDict[str, Any], channel_id: str, value: Any) -> None:
    memory[channel_id] = value
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
