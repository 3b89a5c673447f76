"""How far each conversation was seen, kept so that what a gap swallowed can be asked for.

A position moves with what was handled. It stands still while something before it is missing: a message that could
not be committed, or a gap that was not read yet. Writes are gathered: losing the last seconds of them only means that
a few messages are read twice, and the inbox knows those.
"""

from __future__ import annotations

import asyncio

from bot.clock import Clock
from bot.interfaces import Cursors
from bot.log import get_logger
from channels.slack.content import instant_us
from channels.slack.threads import Threads

MARGIN_US = 60 * 1_000_000
"""By how much our clock and Slack's may differ."""

_ALIVE_S = 60.0  # how often "connected now" is written while nothing happens

_log = get_logger(__name__)


class Positions:
    """Of one installation; `load` first."""

    def __init__(self, cursors: Cursors, clock: Clock, threads: Threads, *, account: str, flush_s: float) -> None:
        self._cursors = cursors
        self._clock = clock
        self._threads = threads
        self._prefix = f"slack:{account}"
        self._flush_s = flush_s
        self._latest: dict[str, int] = {}
        self._floors: dict[str, int] = {}
        self._dms: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._changed = asyncio.Event()
        self._alive_us: int | None = None
        self._whole = False  # nothing before now is missing, so that "connected now" may be written

    async def load(self) -> None:
        """Read what earlier runs left."""
        at = f"{self._prefix}:at:"
        for name, value in (await self._cursors.starting_with(at)).items():
            self._latest.setdefault(name.removeprefix(at), int(value))
        dm = f"{self._prefix}:dm:"
        self._dms |= {name.removeprefix(dm): value for name, value in (await self._cursors.starting_with(dm)).items()}
        thread = f"{self._prefix}:thread:"
        known = await self._cursors.starting_with(thread)
        for name, _ in sorted(known.items(), key=lambda item: item[1]):
            channel, _, ts = name.removeprefix(thread).partition(":")
            self._threads.restore(channel, ts)
        alive = await self._cursors.get(f"{self._prefix}:alive")
        self._alive_us = int(alive) - MARGIN_US if alive else None

    @property
    def channels(self) -> list[str]:
        """The conversations that something was seen of, the liveliest first."""
        return sorted({*self._latest, *self._floors}, key=lambda channel: self._latest.get(channel, 0), reverse=True)

    def since_us(self, channel: str) -> int | None:
        """Return the instant after which messages of a conversation may be missing; None when nothing is known."""
        known = self._floors.get(channel, self._latest.get(channel))
        return known if known is not None else self._alive_us

    def seen(self, channel: str, ts: str) -> None:
        """A message was handled, or is none for us."""
        instant = instant_us(ts)
        if instant is not None and instant > self._latest.get(channel, 0):
            self._latest[channel] = instant
            self._mark(channel)

    def hold(self, channel: str, before_ts: str = "") -> None:
        """Keep a conversation's position where it is, or before a message that was not handled."""
        since = self.since_us(channel)
        instant = instant_us(before_ts) if before_ts else None
        if instant is not None:
            since = instant - 1 if since is None else min(since, instant - 1)
        if since is not None:
            self._floors[channel] = since

    def release(self, channel: str) -> None:
        """Nothing of a conversation is missing any more."""
        if self._floors.pop(channel, None) is not None and channel in self._latest:
            self._mark(channel)

    def dm_of(self, user_id: str) -> str:
        """Return the DM with a person, '' when none was seen."""
        return self._dms.get(user_id, "")

    def note_dm(self, user_id: str, channel: str) -> None:
        """Remember the DM with a person."""
        if self._dms.get(user_id) != channel:
            self._dms[user_id] = channel
            self._mark(f"dm:{user_id}")

    def connection_lost(self) -> None:
        """From now on messages may be missed."""
        self._whole = False

    def caught_up(self) -> None:
        """Nothing before now is missing any more, in any conversation."""
        self._whole = True
        self._changed.set()

    async def run(self) -> None:
        """Write what changed until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_ALIVE_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await self.flush()
            await asyncio.sleep(self._flush_s)

    async def flush(self) -> None:
        """Write what changed; a failure is reported, the values are written with the next flush."""
        self._changed.clear()
        dirty, self._dirty = self._dirty, set()
        try:
            while dirty:
                await self._write(next(iter(dirty)), dirty)
            for thread in self._threads.forgotten():
                await self._cursors.remove(self._name_of(thread))
                self._threads.removed(thread)
            for thread in self._threads.new():
                await self._cursors.set(self._name_of(thread), str(self._clock.now_us()))
                self._threads.kept(thread)
            if self._whole:
                now_us = self._clock.now_us()
                await self._cursors.set(f"{self._prefix}:alive", str(now_us))
                self._alive_us = now_us - MARGIN_US
        except Exception as exc:  # noqa: BLE001  # the store has its own alarm; receiving goes on without positions
            _log.warning("positions not written", channel="slack", error=f"{type(exc).__name__}: {exc}")
            self._dirty |= dirty

    async def _write(self, item: str, dirty: set[str]) -> None:
        if item.startswith("dm:"):
            await self._cursors.set(f"{self._prefix}:{item}", self._dms[item.removeprefix("dm:")])
        else:
            position = self._floors.get(item, self._latest[item])
            await self._cursors.set(f"{self._prefix}:at:{item}", str(position))
        dirty.discard(item)

    def _name_of(self, thread: tuple[str, str]) -> str:
        return f"{self._prefix}:thread:{':'.join(thread)}"

    def _mark(self, item: str) -> None:
        self._dirty.add(item)
        self._changed.set()
