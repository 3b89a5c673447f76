"""Reading what was missed in a channel, for as long as what is newer can wait for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

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
T = TypeVar("T")

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

CATCH_UP_DAYS = 7
"""How far back a gap is read. The engine answers what is older than a day with a notice; more is no conversation."""

PAGE = 100
"""The most messages one call returns (https://docs.discord.com/developers/resources/message, read 2026-11-30)."""

_REFUSED_S = 60.0
"""How long a history is asked for that is refused without a code of Discord's: a proxy's outage, or a server without
histories. New messages do not wait for it."""

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
    refused_since_s: float | None = None  # the history is refused without a reason, by the monotonic clock
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
                page = await self._patiently(lane, self._ask(lane.channel_id, after))
            except ChannelAuthError:
                raise
            except (ChatGone, Refused) as exc:
                is_told = not isinstance(exc, Refused) or bool(exc.code)
                if is_told or self._is_refused_for_long(lane):
                    _log.warning(
                        "history cannot be read, a gap may stay", channel=CHANNEL, chat=lane.channel_id, error=str(exc)
                    )
                    # Who tells nothing more than "no" may only be unable to: the position is kept.
                    return None if is_told else []
                problem, least_s = str(exc), 0.0
            except ChannelError as exc:
                problem, least_s = str(exc), exc.retry_after_s or 0.0
            else:
                if isinstance(page, list) and all(isinstance(one, dict) and number_of(one) for one in page):
                    lane.failures, lane.is_overtaken, lane.refused_since_s = 0, False, None
                    return page
                problem, least_s = "the answer is not a list of messages", 0.0
            wait_s = max(failures.next_s(), least_s)
            lane.failures = failures.failures
            say = _log.warning if failures.failures == 1 else _log.debug
            say("history not read yet", channel=CHANNEL, error=problem, retry_in_s=round(wait_s, 2))
            await self._patiently(lane, asyncio.sleep(wait_s))

    def _is_refused_for_long(self, lane: Lane) -> bool:
        now_s = self._clock.monotonic_s()
        if lane.refused_since_s is None:
            lane.refused_since_s = now_s
        return now_s - lane.refused_since_s >= _REFUSED_S

    async def _ask(self, channel_id: str, after: int) -> Any:
        async with self._places:
            return await self._call(
                "GET",
                "/channels/{channel_id}/messages",
                channel_id=channel_id,
                query={"after": str(after), "limit": str(PAGE)},
                timeout_s=self._timing.history_s,
            )

    async def _patiently(self, lane: Lane, work: Coroutine[Any, Any, T]) -> T:
        """Return what comes of `work`, unless something newer waits for too long meanwhile.

        Raises:
            OutOfPatience: so it does; the work is given up.
        """
        task = asyncio.create_task(work, name=f"discord-history-{lane.channel_id}")
        try:
            while not task.done():
                left_s = self._patience_s(lane)
                if left_s is not None and left_s <= 0:
                    raise OutOfPatience
                lane.arrived.clear()
                arrival = asyncio.create_task(lane.arrived.wait(), name=f"discord-arrival-{lane.channel_id}")
                try:
                    await asyncio.wait({task, arrival}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    arrival.cancel()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _patience_s(self, lane: Lane) -> float | None:
        """Return for how long what waits can wait on, None when nothing does."""
        if not lane.waiting:
            return None
        if lane.refused_since_s is not None:
            return 0.0
        limit_s = self._timing.overtake_again_s if lane.is_overtaken else self._timing.overtake_s
        return lane.waits_since_s + limit_s - self._clock.monotonic_s()


def first_of_gap(after: int, now_us: int) -> int:
    """Return the id from which a gap is read."""
    oldest = id_at(now_us - CATCH_UP_DAYS * 86_400 * US_PER_S) - 1
    return after if after < _FIRST_ID else max(after, oldest)
