"""After a gap: the messages of it, out of the conversations' histories, in order and before anything newer.

A conversation is read as soon as something new comes in it, else in its turn; so nobody's newer message is handled
before an older one. Where that takes long, the newer message is not acknowledged, but kept in mind: it is taken behind
the older ones, and Slack sends it again. Only a history that cannot be read for a while lets newer messages go first;
what is missing still follows. What was handled before is known by the inbox's unique key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

from bot.clock import Clock
from bot.errors import ChannelError, ChatGone, RateLimited, StoreError
from bot.log import get_logger
from channels.slack.api import WebApi
from channels.slack.config import Timing
from channels.slack.content import instant_us
from channels.slack.errors import PageMissing, Refused
from channels.slack.positions import Positions
from channels.slack.threads import Threads

PAGE = 200
MOST = 1_000
"""Messages of one conversation that are caught up, the newest; and of one thread."""

MOST_CONVERSATIONS = 2_000
_KINDS = ("im", "mpim", "private_channel", "public_channel")
_KEPT = 1_000  # messages of one conversation that wait
_LOOK_S = 1.0
_OUTAGE_S = 120.0  # how long a page in place of Slack's answer is taken for a proxy's outage
_NEW_THREADS = 50  # threads begun in the gap that are looked into, a conversation

Json = dict[str, Any]
Take = Callable[[Json], Awaitable[None]]

_log = get_logger(__name__)


class OlderFirst(ChannelError):
    """A message has to wait until older ones of its conversation are read."""

    retryable = True


class CatchUp:
    """Of one connection; `run` beside the receiver, `gate` before each new message."""

    def __init__(
        self, *, api: WebApi, positions: Positions, threads: Threads, clock: Clock, timing: Timing, take: Take
    ) -> None:
        self._api = api
        self._positions = positions
        self._threads = threads
        self._clock = clock
        self._timing = timing
        self._take = take
        self._pending: dict[str, None] = dict.fromkeys(positions.channels)
        self._done: set[str] = set()
        self._replies_of: dict[str, dict[str, dict[str, Json]]] = {}  # channel -> thread -> what was read of it
        self._tried: set[str] = set()  # in this round of `run`
        self._waited_for: dict[str, float] = {}  # channel -> since when newer messages wait, by the monotonic clock
        self._late: dict[str, set[str]] = {}  # channel -> threads ("" = none) of what came while it was being read
        self._kept: dict[str, dict[str, Json]] = {}  # channel -> ts -> what waits, also where no history will have it
        self._keeps = asyncio.Event()
        self._taking = asyncio.Lock()
        self._overtaken: set[str] = set()  # channels of which it was said that newer messages go first
        self._missing_since_s: dict[str, float] = {}  # channel ("" = the list of them) -> since when it is a page
        self._is_slow = False  # nobody needs to wait at the gate until something was read again
        self._listed = False
        self._busy = asyncio.Lock()
        self._wake = asyncio.Event()
        self._not_before_s = 0.0
        for channel in self._pending:
            positions.hold(channel)

    def again(self, channel: str) -> None:
        """A message of a conversation could not be taken: it has to be read again."""
        self._replies_of.pop(channel, None)
        self._leave_to_reading(channel, "")

    async def gate(self, event: Json) -> None:
        """Let what a conversation missed come before a new message of it.

        Raises:
            OlderFirst: that takes long; the new message will be taken behind them.
            StoreError: something of it could not be committed; nothing newer may be, then.
        """
        channel, thread = str(event.get("channel") or ""), str(event.get("thread_ts") or "")
        if not self._is_pending(channel):
            return
        if not self._is_slow and self._clock.monotonic_s() >= self._not_before_s:
            try:
                async with asyncio.timeout(self._timing.gate_s):
                    await self._settle(channel)
            except TimeoutError:
                self._is_slow = True
            if not self._is_pending(channel):
                return
        self._pending.setdefault(channel)
        self._positions.hold(channel)
        now_s = self._clock.monotonic_s()
        if now_s - self._waited_for.setdefault(channel, now_s) >= self._timing.overtake_s:
            await self._overtake(channel)
            return
        self._leave_to_reading(channel, thread)
        kept = self._kept.setdefault(channel, {})
        if len(kept) < _KEPT:
            kept[str(event.get("ts") or "")] = event
        self._keeps.set()
        raise OlderFirst("older messages are being read")

    def changed(self, event: Json) -> None:
        """Somebody edited a message: one that waits is taken as it is now."""
        message = event.get("message")
        ts = str(message.get("ts") or "") if isinstance(message, dict) else ""
        waiting = self._kept.get(str(event.get("channel") or ""), {})
        if ts in waiting and isinstance(message, dict):
            waiting[ts] = {**waiting[ts], **message, "type": waiting[ts].get("type")}

    def _leave_to_reading(self, channel: str, thread: str) -> None:
        """Have a message read that is not taken now, also when a page without it is on its way already."""
        self._done.discard(channel)
        self._pending[channel] = None
        self._late.setdefault(channel, set()).add(thread)
        self._replies_of.get(channel, {}).pop(thread, None)
        self._wake.set()

    async def run(self) -> None:
        """Read all conversations that may have missed something, then wait for more of them."""
        while True:
            await self._rest()
            self._wake.clear()
            if not self._listed:
                await self._list()
            self._tried.clear()
            while (channel := self._next()) is not None:
                self._tried.add(channel)
                await self._rest()
                try:
                    await self._settle(channel)
                except StoreError as exc:
                    _log.warning("missed messages not committed yet", chat=f"slack:{channel}", error=str(exc))
            if self._listed and not self._pending:
                self._positions.caught_up()
                await self._wake.wait()
            elif self._not_before_s <= self._clock.monotonic_s():
                await asyncio.sleep(self._timing.rescan_s)

    async def hasten(self) -> NoReturn:
        """Take what was kept too long, until cancelled."""
        while True:
            self._keeps.clear()
            if not self._kept:
                await self._keeps.wait()
            now_s = self._clock.monotonic_s()
            since = {channel: self._waited_for.get(channel, 0.0) for channel in self._kept}
            for channel in [one for one, at_s in since.items() if now_s - at_s >= self._timing.overtake_s]:
                try:
                    await self._overtake(channel)
                except StoreError as exc:
                    _log.warning("messages not committed yet", chat=f"slack:{channel}", error=str(exc))
            await asyncio.sleep(_LOOK_S)

    async def _overtake(self, channel: str) -> None:
        """Take what waits of a conversation before what it missed."""
        if channel not in self._overtaken:
            self._overtaken.add(channel)
            _log.warning("missed messages cannot be read for long, newer ones go first", chat=f"slack:{channel}")
        await self._take_kept(channel)

    async def _take_kept(self, channel: str) -> None:
        """Take what waits of a conversation, in order.

        Raises:
            StoreError: a message of it could not be committed; it stays kept.
        """
        async with self._taking:
            kept = self._kept.get(channel, {})
            while kept:
                ts = min(kept, key=lambda ts: instant_us(ts) or 0)
                await self._take(kept[ts])
                kept.pop(ts, None)
            self._kept.pop(channel, None)

    def _next(self) -> str | None:
        """Return the next conversation of this round, first those in which somebody waits."""
        left = [channel for channel in self._pending if channel not in self._tried]
        return min(left, key=lambda channel: self._waited_for.get(channel, float("inf")), default=None)

    def _is_pending(self, channel: str) -> bool:
        if channel in self._pending:
            return True
        return not self._listed and channel not in self._done and self._positions.since_us(channel) is not None

    async def _rest(self) -> None:
        wait_s = self._not_before_s - self._clock.monotonic_s()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _wait(self, seconds: float) -> None:
        self._not_before_s = max(self._not_before_s, self._clock.monotonic_s() + seconds)

    async def _list(self) -> None:
        """Learn of the conversations that nothing was seen of yet: they may have begun in the gap."""
        try:
            if self._positions.since_us("") is not None:
                async for item in self._pages("users.conversations", {"types": ",".join(_KINDS)}, "channels"):
                    channel = str(item.get("id") or "")
                    if channel and channel not in self._done and len(self._pending) < MOST_CONVERSATIONS:
                        self._pending.setdefault(channel)
                        self._positions.hold(channel)
            self._listed = True
        except Refused as exc:
            if self._may_pass("", exc):
                return
            self._listed = True
            _log.warning("conversations not listed, only known ones are caught up", error=str(exc))
        except RateLimited as exc:
            self._wait(exc.retry_after_s or 1.0)
        except ChannelError as exc:
            self._wait(self._timing.rescan_s)
            _log.info("conversations not listed yet", error=str(exc))

    async def _settle(self, channel: str) -> None:
        """Read one conversation; it stays pending when that fails for now.

        Raises:
            StoreError: a message of it could not be committed.
        """
        async with self._busy:
            if not self._is_pending(channel):
                return
            self._pending.setdefault(channel)
            self._positions.hold(channel)
            try:
                await self._read_all(channel)
            except RateLimited as exc:
                self._wait(exc.retry_after_s or 1.0)
                self._tried.discard(channel)  # the others would be refused as well
                return
            except (ChatGone, Refused) as exc:
                if self._may_pass(channel, exc):
                    self._waited_for[channel] = float("-inf")  # nobody waits for what may never come
                    await self._take_kept(channel)
                    return
                _log.info("missed messages cannot be read", chat=f"slack:{channel}", error=str(exc))
            except ChannelError as exc:
                self._wait(self._timing.rescan_s)
                _log.warning("missed messages not read yet", chat=f"slack:{channel}", error=str(exc))
                return
            await self._take_kept(channel)
            self._pending.pop(channel, None)
            self._replies_of.pop(channel, None)
            self._overtaken.discard(channel)
            self._late.pop(channel, None)
            self._waited_for.pop(channel, None)
            self._missing_since_s.pop(channel, None)
            self._done.add(channel)
            self._positions.release(channel)

    def _may_pass(self, channel: str, exc: ChannelError) -> bool:
        """Say whether what is refused is worth asking for again."""
        if not isinstance(exc, PageMissing):
            return False
        now_s = self._clock.monotonic_s()
        return now_s - self._missing_since_s.setdefault(channel, now_s) < _OUTAGE_S

    async def _read_all(self, channel: str) -> None:
        """Read until nothing was left to the reading meanwhile."""
        threads: set[str] = set()
        while True:
            threads |= self._late.pop(channel, set()) - {""}
            try:
                await self._read(channel, threads)
            except BaseException:
                self._late.setdefault(channel, set()).update(threads)  # for who reads next
                raise
            self._is_slow = False
            if channel not in self._late:
                return

    async def _read(self, channel: str, late: set[str]) -> None:
        """Read what was missed; `late` are threads in which something waits."""
        since_us = self._positions.since_us(channel)
        if since_us is None:
            return
        oldest = f"{since_us // 1_000_000}.{since_us % 1_000_000:06d}"
        found: dict[str, Json] = {}
        async for message in self._pages("conversations.history", {"channel": channel, "oldest": oldest}, "messages"):
            found[str(message.get("ts"))] = message
            if len(found) >= MOST:
                _log.warning("too many missed messages, the oldest are left out", chat=f"slack:{channel}", most=MOST)
                break
        begun = [ts for ts, message in found.items() if message.get("reply_count")][:_NEW_THREADS]
        # What was read is kept when a call is refused for haste, else many threads would never be read to the end.
        read = self._replies_of.setdefault(channel, {})
        for thread in dict.fromkeys([*self._threads.of(channel), *begun, *sorted(late)]):
            if thread not in read:
                read[thread] = await self._replies(channel, thread, oldest)
            found |= read[thread]
        for ts in sorted(found, key=lambda ts: instant_us(ts) or 0):
            await self._take({**found[ts], "channel": channel})

    async def _replies(self, channel: str, thread: str, oldest: str) -> dict[str, Json]:
        """Return what was written in a thread since `oldest`."""
        found: dict[str, Json] = {}
        since_us = instant_us(oldest) or 0
        asked = {"channel": channel, "ts": thread, "oldest": oldest}
        try:
            async for message in self._pages("conversations.replies", asked, "messages"):
                ts = str(message.get("ts"))
                if (instant_us(ts) or 0) > since_us:  # the first one of the thread comes along each time
                    found[ts] = message
                if len(found) >= MOST:
                    break
        except Refused as exc:
            if self._may_pass(channel, exc):
                raise
            _log.info("missed replies cannot be read", chat=f"slack:{channel}:{thread}", error=str(exc))
        return found

    async def _pages(self, method: str, params: dict[str, Any], name: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of all pages."""
        cursor = ""
        while True:
            answer = await self._api.call(method, {**params, "limit": PAGE, "cursor": cursor or None})
            items = answer.get(name)
            for item in items if isinstance(items, list) else []:
                if isinstance(item, dict):
                    yield item
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return
