"""Reading what was missed in a channel, for as long as what is newer can wait for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bot.clock import US_PER_S, Clock
from bot.errors import ChannelAuthError, ChannelError, ChatGone
from bot.log import get_logger
from channels.discord.config import Timing
from channels.discord.content import number_of
from channels.discord.errors import Refused
from channels.discord.places import CHANNEL, Place
from channels.discord.positions import id_at
from channels.supervision import Backoff

Json = dict[str, Any]

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

CATCH_UP_DAYS = 7
"""How far back a gap is read. The engine answers what is older than a day with a notice; more is no conversation."""

PAGE = 100
"""The most messages one call returns (https://docs.discord.com/developers/resources/message, read 2026-11-30)."""

_AT_ONCE = 4  # so that answers are not held up by the bot's rate limit
_FIRST_ID = 1 << 40  # of the platform's first minutes, before there was anybody: smaller ones are not made of time

_log = get_logger(__name__)


@dataclass(slots=True)
class Lane:
    """One channel's events that wait. `gap_after` is set while its history has to be read from there."""

    channel_id: str
    place: Place | None = None
    waiting: deque[tuple[str, Json]] = field(default_factory=deque)
    gap_after: int | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    waits_since_s: float = 0.0  # of what waits, the first, by the monotonic clock
    is_overtaken: bool = False  # what is new goes first, for the history cannot be read
    failures: int = 0

    def add(self, name: str, data: Json, now_s: float) -> None:
        """Have an event wait."""
        if not self.waiting:
            self.waits_since_s = now_s
        self.waiting.append((name, data))
        self.arrived.set()


class OutOfPatience(Exception):
    """What is newer has waited long enough for a history."""


class Histories:
    """The histories of one connection's channels."""

    def __init__(self, *, call: Caller, clock: Clock, timing: Timing) -> None:
        self._call = call
        self._clock = clock
        self._timing = timing
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def page(self, lane: Lane, after: int) -> list[Json] | None:
        """Return a page of messages after an id; None when the channel is closed to us.

        Raises:
            OutOfPatience: it does not come, and something newer waits for it.
        """
        failures = Backoff(self._timing.retry_base_s, self._timing.retry_cap_s)
        failures.failures = lane.failures
        while True:
            try:
                async with self._places:
                    page = await self._call(
                        "GET",
                        "/channels/{channel_id}/messages",
                        channel_id=lane.channel_id,
                        query={"after": str(after), "limit": str(PAGE)},
                        timeout_s=self._timing.history_s,
                    )
            except ChannelAuthError:
                raise
            except (ChatGone, Refused) as exc:
                _log.warning(
                    "history cannot be read, a gap may stay", channel=CHANNEL, chat=lane.channel_id, error=str(exc)
                )
                return None
            except ChannelError as exc:
                problem, least_s = str(exc), exc.retry_after_s or 0.0
            else:
                if isinstance(page, list) and all(isinstance(one, dict) and number_of(one) for one in page):
                    lane.failures, lane.is_overtaken = 0, False
                    return page
                problem, least_s = "the answer is not a list of messages", 0.0
            wait_s = max(failures.next_s(), least_s)
            lane.failures = failures.failures
            _log.warning("history not read yet", channel=CHANNEL, error=problem, retry_in_s=round(wait_s, 2))
            await self._pause(lane, wait_s)

    async def _pause(self, lane: Lane, wait_s: float) -> None:
        """Wait before a history is asked for again.

        Raises:
            OutOfPatience: something newer has waited for too long meanwhile.
        """
        end_s = self._clock.monotonic_s() + wait_s
        while (left_s := end_s - self._clock.monotonic_s()) > 0:
            patience_s = left_s
            if lane.waiting:
                limit_s = 0.0 if lane.is_overtaken else self._timing.overtake_s
                patience_s = lane.waits_since_s + limit_s - self._clock.monotonic_s()
                if patience_s <= 0:
                    raise OutOfPatience
            lane.arrived.clear()
            try:
                async with asyncio.timeout(min(patience_s, left_s)):
                    await lane.arrived.wait()
            except TimeoutError:
                pass


def first_of_gap(after: int, now_us: int) -> int:
    """Return the id from which a gap is read."""
    oldest = id_at(now_us - CATCH_UP_DAYS * 86_400 * US_PER_S) - 1
    return after if after < _FIRST_ID else max(after, oldest)
