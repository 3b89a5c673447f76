"""From the outbox to the platforms: each order key in order, everything else side by side.

A row is `sending` before the platform is called, so that a crash leaves a row whose fate is unknown instead of
one that would be sent twice. What a failed send means is written in the error's class.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from bot.bus import MessageBus
from bot.clock import US_PER_S, Clock
from bot.errors import ChannelError, ChatGone, ChatMigrated, RateLimited, SendUncertain, StoreError, StoreUnavailable
from bot.faults import fault_point
from bot.interfaces import Channel, ChannelState, Outbox, Topic
from bot.log import bind, get_logger
from bot.records import OutboxRow, SendState

_PER_CHANNEL = 16  # sends under way at once, so that one slow platform cannot take all places
_CLAIM = 32
_TRIED = "?"
"""Last in a row's `sent_ids`: the next part was sent once with an unknown outcome, and is sent once more, since an
answer lost is worse than one doubled (design 4)."""

_UNKNOWN = "??"
"""In a row's `sent_ids` in place of a platform id: sent twice, nobody knows whether it arrived."""

_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 1.0, 60.0
_STORE_RETRY_S = 1.0
_DRAIN_POLL_S = 0.05

T = TypeVar("T")

_log = get_logger(__name__)


class _Progress:
    """See `bot.interfaces.SendProgress`."""

    def __init__(self, row: OutboxRow, outbox: Outbox) -> None:
        self.outbox_id = row.id
        self.sent_ids = [part for part in row.sent_ids if part != _TRIED]
        self._outbox = outbox
        self._second_try_of = len(self.sent_ids) if _TRIED in row.sent_ids else None

    @property
    def is_second_try(self) -> bool:
        """Whether the part that is next was sent before, with an unknown outcome."""
        return self._second_try_of == len(self.sent_ids)

    @property
    def is_known(self) -> bool:
        """Whether it is known of every part so far that it is out."""
        return _UNKNOWN not in self.sent_ids

    async def sent(self, platform_id: str, *, more: bool = False) -> None:
        """Note a part. The last one is committed together with the row's end."""
        self.sent_ids.append(platform_id)
        if platform_id != _UNKNOWN:
            fault_point("sent")
        if more:
            await _record(partial(self._outbox.part_sent, self.outbox_id, self.sent_ids))


async def _record(write: Callable[[], Awaitable[T]]) -> T:
    """Make a write that says how a send went, as soon as the database takes it.

    Given up, the row would hold up its chat until its lease ends, and then be sent again although its outcome
    is known.
    """
    while True:
        try:
            return await asyncio.shield(write())
        except StoreUnavailable as exc:
            _log.error("send cannot be recorded now", error=str(exc))
            await asyncio.sleep(_STORE_RETRY_S)


class Delivery:
    """Sends what waits in the outbox for the channels of this process."""

    def __init__(
        self,
        bus: MessageBus,
        outbox: Outbox,
        channels: Mapping[str, Channel],
        clock: Clock,
        *,
        dead_letter_after_min: float,
    ) -> None:
        self._bus = bus
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._patience_us = int(dead_letter_after_min * 60 * US_PER_S)
        self._busy: Counter[str] = Counter()
        for channel in channels.values():
            channel.on_state_change(lambda: bus.ring(Topic.OUTBOUND))

    async def run(self) -> None:
        """Deliver until cancelled; sends under way end by themselves when this is cancelled gently."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    rows = await self._bus.consume_outbound(_CLAIM, self._open_channels)
                except StoreUnavailable as exc:
                    _log.error("outbox cannot be read now", error=str(exc))
                    await asyncio.sleep(_STORE_RETRY_S)
                    continue
                for row in rows:
                    self._busy[row.message.address.channel] += 1
                    group.create_task(self._deliver(row), name=f"send {row.id}")

    async def drain(self) -> None:
        """Wait until nothing that can be sent now is left; the caller bounds it. `run` must be running."""
        while True:
            due_us = await self._outbox.next_due_us(names) if (names := self._open_channels()) else None
            if not self._busy.total() and (due_us is None or due_us > self._clock.now_us()):
                return
            await asyncio.sleep(_DRAIN_POLL_S)

    def _open_channels(self) -> list[str]:
        return [
            name
            for name, channel in self._channels.items()
            if channel.state is ChannelState.READY and self._busy[name] < _PER_CHANNEL
        ]

    async def _deliver(self, row: OutboxRow) -> None:
        """Send one row and settle it. One of the four places that catch everything: a row must not be lost."""
        name = row.message.address.channel
        with bind(chat=row.message.address.key, outbox=row.id):
            try:
                await self._guarded(row, self._channels[name])
            except StoreError as exc:
                # The row stays `sending`; its lease runs out and it is looked at again.
                _log.error("send could not be recorded", error=str(exc))
            finally:
                was_full = self._busy[name] >= _PER_CHANNEL
                self._busy[name] -= 1
                if was_full:
                    self._bus.ring(Topic.OUTBOUND)

    async def _guarded(self, row: OutboxRow, channel: Channel) -> None:
        try:
            await self._send(row, channel)
        except StoreError:
            raise
        except Exception as exc:  # noqa: BLE001 - one of the four boundaries (design 10.6)
            _log.exception("send failed unexpectedly")
            error = f"{type(exc).__name__}: {exc}"
            await _record(partial(self._later, row, error))
            self._bus.ring(Topic.OUTBOUND)

    async def _send(self, row: OutboxRow, channel: Channel) -> None:
        withdraws = row.message.withdraws  # as often as it takes: a draft that is gone is what is wanted
        if row.state is SendState.SENDING and not withdraws:
            await _record(partial(self._look_into, row, channel))
            return
        fault_point("sending")
        progress = _Progress(row, self._outbox)
        while True:
            try:
                if withdraws:
                    await channel.drop_draft(row.message.address, row.message.draft_id)
                else:
                    await channel.send(row.message, progress)
                break
            except SendUncertain as exc:
                if not progress.is_second_try:
                    await _record(partial(self._once_more, row, str(exc), progress))
                    return
                _log.warning("send is uncertain a second time, not repeated", error=str(exc))
                await progress.sent(_UNKNOWN, more=True)  # and on with the parts behind it
            except ChannelError as exc:
                await _record(partial(self._failed, row, exc))
                return
        settle = partial(self._outbox.settle, row.id, progress.sent_ids, uncertain=not progress.is_known)
        more = await _record(settle)
        fault_point("settled")
        if more:
            self._bus.ring(Topic.OUTBOUND)

    async def _look_into(self, row: OutboxRow, channel: Channel) -> None:
        """Decide about a send that was cut short: its parts are found on the platform, repeated or passed over."""
        found = await channel.find_sent(row)
        if found is not None:
            await self._outbox.retry(row.id, not_before_us=0, error="cut short", sent_ids=found)
        else:
            again = _Progress(row, self._outbox)
            repeats = not again.is_second_try
            _log.warning("send was cut short, its outcome is unknown", repeats=repeats)
            await self._outbox.retry(
                row.id,
                not_before_us=0,
                error="outcome unknown",
                uncertain=repeats,  # a part that is passed over is counted when the row is settled
                sent_ids=[*again.sent_ids, _TRIED if repeats else _UNKNOWN],
            )
        self._bus.ring(Topic.OUTBOUND)

    async def _failed(self, row: OutboxRow, exc: ChannelError) -> None:
        """Do what the error's class says; parts that are out are committed already."""
        address = row.message.address
        if isinstance(exc, ChatMigrated):
            await self._bus.migrate_chat(address.channel, address.chat_id, exc.new_chat_id)
            await self._outbox.retry(row.id, not_before_us=0, error=str(exc))
        elif isinstance(exc, ChatGone):
            await self._outbox.bury(row.id, str(exc))
            await self._bus.close_chat(address, str(exc))
        elif isinstance(exc, RateLimited):
            wait_s = exc.retry_after_s or _BACKOFF_FIRST_S
            until_us = self._clock.now_us() + int(wait_s * US_PER_S)
            _log.warning("rate limited", wait_s=wait_s)
            await self._outbox.delay_chat(address, until_us)
            await self._outbox.retry(row.id, not_before_us=until_us, error=str(exc))
        elif not exc.retryable:
            _log.error("message refused by the platform", error=str(exc))
            await self._outbox.bury(row.id, str(exc))
        else:
            await self._later(row, str(exc), exc.retry_after_s)
        self._bus.ring(Topic.OUTBOUND)

    async def _once_more(self, row: OutboxRow, error: str, progress: _Progress) -> None:
        _log.warning("send is uncertain, repeated once", error=error)
        await self._outbox.retry(
            row.id,
            not_before_us=self._clock.now_us() + US_PER_S,
            error=error,
            uncertain=True,
            sent_ids=[*progress.sent_ids, _TRIED],
        )
        self._bus.ring(Topic.OUTBOUND)

    async def _later(self, row: OutboxRow, error: str, retry_after_s: float | None = None) -> None:
        """Queue a row again with growing pauses; after the patience is used up it becomes a dead letter."""
        now_us = self._clock.now_us()
        if row.first_try_us and now_us - row.first_try_us > self._patience_us:
            _log.error("message given up", error=error)
            await self._outbox.bury(row.id, error)
            return
        backoff_s = min(_BACKOFF_MAX_S, _BACKOFF_FIRST_S * 2 ** min(row.attempts, 10))
        wait_s = retry_after_s if retry_after_s is not None else backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        _log.warning("send failed, trying again later", error=error, wait_s=round(wait_s, 1))
        await self._outbox.retry(row.id, not_before_us=now_us + int(wait_s * US_PER_S), error=error)
