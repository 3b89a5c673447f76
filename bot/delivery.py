"""From the outbox to the platforms: each order key in order, everything else side by side.

A row is `sending` before the platform is called, so that a crash leaves a row whose fate is unknown instead of
one that would be sent twice. What a failed send means is written in the error's class. After a send whose outcome
is unknown, whether an answer was lost or a process, the channel is asked what arrived before anything is repeated.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from bot.bus import MessageBus
from bot.clock import US_PER_S, Clock
from bot.errors import (
    ChannelAuthError,
    ChannelError,
    ChatGone,
    ChatMigrated,
    RateLimited,
    SendUncertain,
    StoreError,
    StoreUnavailable,
)
from bot.faults import fault_point
from bot.interfaces import Channel, ChannelState, Outbox, Topic
from bot.log import bind, get_logger
from bot.records import TRIED_PART, UNKNOWN_PART, OutboxRow, SendState
from bot.spool import Spool

_PER_CHANNEL = 16  # sends under way at once, so that one slow platform cannot take all places
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 1.0, 60.0
_LOOK_AFTER_S = 1.0  # what was sent a moment ago may not be found yet
_QUICK_TRIES = 3  # so often something that changed the situation is followed up at once
_GIVE_UP_TRIES = 3  # so often a message has failed at least before it is given up; what a rate limit stops is no try
_STORE_RETRY_S = 1.0
_DRAIN_POLL_S = 0.05

T = TypeVar("T")

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLimits:
    """How long a platform may take, whatever its channel allows it.

    `part_s` for each part of a message, well below the lease of a row; `look_s` for finding out what arrived.
    """

    part_s: float = 240.0
    look_s: float = 60.0


class _Progress:
    """See `bot.interfaces.SendProgress`. `deadline` is put off whenever a part is out."""

    def __init__(self, row: OutboxRow, outbox: Outbox, part_s: float) -> None:
        self.outbox_id = row.id
        self.sent_ids = [part for part in row.sent_ids if part != TRIED_PART]
        self.deadline: asyncio.Timeout | None = None
        self._outbox = outbox
        self._part_s = part_s
        self._second_try_of = len(self.sent_ids) if TRIED_PART in row.sent_ids else None

    @property
    def is_second_try(self) -> bool:
        """Whether the part that is next was sent before, with an unknown outcome."""
        return self._second_try_of == len(self.sent_ids)

    @property
    def is_known(self) -> bool:
        """Whether it is known of every part so far that it is out."""
        return UNKNOWN_PART not in self.sent_ids

    @property
    def marked(self) -> list[str]:
        """The parts as they are stored."""
        return [*self.sent_ids, TRIED_PART] if self.is_second_try else self.sent_ids

    async def sent(self, platform_id: str, *, more: bool = False) -> None:
        """Note a part. The last one is committed together with the row's end."""
        self.sent_ids.append(platform_id)
        fault_point("sent")
        if more:
            await _record(partial(self._outbox.part_sent, self.outbox_id, self.sent_ids))
            if self.deadline is not None:
                self.deadline.reschedule(asyncio.get_running_loop().time() + self._part_s)


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
        rate_limited_after_min: float = 60,
        limits: SendLimits | None = None,
        spool: Spool | None = None,
    ) -> None:
        self._bus = bus
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._limits = limits or SendLimits()
        self._spool = spool
        self._patience_us = int(dead_letter_after_min * 60 * US_PER_S)
        self._rate_limited_us = max(self._patience_us, int(rate_limited_after_min * 60 * US_PER_S))
        self._busy: Counter[str] = Counter()
        self._in_hand: dict[int, asyncio.Task[None]] = {}  # which row is being sent by which task
        self._paused_us: dict[str, int] = {}  # channels whose platform wants to be left alone until then
        for channel in channels.values():
            channel.on_state_change(lambda: bus.ring(Topic.OUTBOUND))

    async def run(self) -> None:
        """Deliver until cancelled; a send that this cuts short is looked into at the next start (`drain` first)."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    rows = await self._bus.consume_outbound(_PER_CHANNEL, self._open_channels)
                except StoreUnavailable as exc:
                    _log.error("outbox cannot be read now", error=str(exc))
                    await asyncio.sleep(_STORE_RETRY_S)
                    continue
                for row in rows:
                    if row.state is SendState.SENDING and row.id in self._in_hand:
                        continue  # its lease ended while the machine slept; it is being sent all the same
                    self._busy[row.message.address.channel] += 1
                    self._in_hand[row.id] = group.create_task(self._deliver(row), name=f"send {row.id}")

    async def drain(self) -> None:
        """Wait until nothing that can be sent now is left; the caller bounds it. `run` must be running."""
        while True:
            due_us = await self._outbox.next_due_us(names) if (names := self._open_channels()) else None
            if not self._busy.total() and (due_us is None or due_us > self._clock.steady_us()):
                return
            await asyncio.sleep(_DRAIN_POLL_S)

    def _open_channels(self) -> list[str]:
        now_us = self._clock.steady_us()
        return [
            name
            for name, channel in self._channels.items()
            if channel.state is ChannelState.READY
            and self._busy[name] < _PER_CHANNEL
            and self._paused_us.get(name, 0) <= now_us
        ]

    async def _deliver(self, row: OutboxRow) -> None:
        """Send one row and settle it. One of the four places that catch everything: a row must not be lost."""
        name = row.message.address.channel
        if self._spool is not None:
            row = replace(row, message=self._spool.as_here(row.message))
        with bind(chat=row.message.address.key, outbox=row.id):
            try:
                await self._send(row, self._channels[name])
            except StoreError as exc:
                # The row stays `sending`; its lease runs out and it is looked at again.
                _log.error("send could not be recorded", error=str(exc))
            except Exception:  # noqa: BLE001 - one of the four boundaries (design 10.6)
                _log.exception("delivery failed unexpectedly, the message is looked at again when its lease ends")
            finally:
                if self._in_hand.get(row.id) is asyncio.current_task():
                    del self._in_hand[row.id]
                was_full = self._busy[name] >= _PER_CHANNEL
                self._busy[name] -= 1
                if was_full:
                    self._bus.ring(Topic.OUTBOUND)

    async def _send(self, row: OutboxRow, channel: Channel) -> None:
        progress = _Progress(row, self._outbox, self._limits.part_s)
        withdraws = row.message.withdraws  # as often as it takes: a draft that is gone is what is wanted
        if row.state is SendState.SENDING and not withdraws:
            await self._look_into(row, channel, progress)
            return
        fault_point("sending")
        try:
            async with asyncio.timeout(self._limits.part_s) as progress.deadline:
                if withdraws:
                    await channel.drop_draft(row.message.address, row.message.draft_id)
                else:
                    await channel.send(row.message, progress)
        except SendUncertain as exc:
            await self._doubt(row, progress, str(exc))
        except TimeoutError:
            await self._doubt(row, progress, f"no end of the send within {self._limits.part_s:.0f} s")
        except ChannelError as exc:
            await _record(partial(self._failed, row, exc))
        except StoreError:
            raise
        except Exception as exc:  # noqa: BLE001 - a channel's mistake: it may have struck after the platform took it
            _log.exception("send failed unexpectedly")
            await self._doubt(row, progress, f"{type(exc).__name__}: {exc}", is_hopeless=progress.is_second_try)
        else:
            settle = partial(self._outbox.settle, row.id, progress.sent_ids, uncertain=not progress.is_known)
            more = await _record(settle)
            fault_point("settled")
            if more:
                self._bus.ring(Topic.OUTBOUND)
            files = row.message.attachments
            if files and self._spool is not None and progress.is_known:  # else somebody may have it sent again
                await asyncio.to_thread(self._spool.forget, files)

    # --- sends whose outcome is unknown

    async def _doubt(self, row: OutboxRow, progress: _Progress, error: str, *, is_hopeless: bool = False) -> None:
        """Have it looked up in a moment what arrived; a hopeless send becomes a dead letter that may have arrived."""
        if row.message.withdraws:
            await _record(partial(self._later, row, error))
        elif is_hopeless:
            _log.error("message given up, it may have arrived", error=error)
            await _record(partial(self._outbox.bury, row.id, error, uncertain=True))
        else:
            _log.warning("outcome of a send is unknown", error=error)
            await self._look_again(row, progress, _LOOK_AFTER_S, error)
        self._bus.ring(Topic.OUTBOUND)

    async def _look_again(self, row: OutboxRow, progress: _Progress, wait_s: float, error: str) -> None:
        self._in_hand.pop(row.id, None)  # from here on it may be claimed again
        look_at_us = self._clock.steady_us() + int(wait_s * US_PER_S)
        doubt = self._outbox.doubt
        await _record(partial(doubt, row.id, look_at_us=look_at_us, error=error, sent_ids=progress.marked))

    async def _look_into(self, row: OutboxRow, channel: Channel, progress: _Progress) -> None:
        """Ask what arrived of a send, and go on from there; where nobody can say, repeat it once."""
        known = progress.sent_ids
        error = row.error or "cut short"
        try:
            async with asyncio.timeout(self._limits.look_s):
                found = await channel.find_sent(self._as_asked_about(row, known))
        except ChannelAuthError as exc:  # it can be looked up again with a token that is right
            await self._cannot_look(row, progress, str(exc), _BACKOFF_MAX_S)
            return
        except ChannelError as exc:
            if exc.retryable:
                await self._cannot_look(row, progress, str(exc), exc.retry_after_s)
                return
            _log.warning("what was sent cannot be looked up", error=str(exc))
            found = None
        except TimeoutError:
            await self._cannot_look(row, progress, f"no answer within {self._limits.look_s:.0f} s", None)
            return
        except Exception as exc:  # noqa: BLE001 - a channel's mistake in looking must not lead to a copy
            _log.exception("what was sent cannot be looked up")
            await self._cannot_look(row, progress, f"{type(exc).__name__}: {exc}", None)
            return
        if found is None:
            await self._once_more(row, error, progress)
        elif len(found) > len(known):
            _log.info("found what was sent", parts=len(found))
            again = partial(self._outbox.retry, row.id, not_before_us=0, error="", sent_ids=found, counts=False)
            await _record(again)
        elif row.attempts < _QUICK_TRIES:
            again = partial(self._outbox.retry, row.id, not_before_us=0, error=error, sent_ids=known, counts=False)
            await _record(again)
        else:
            await _record(partial(self._later, row, error, sent_ids=known))
        self._bus.ring(Topic.OUTBOUND)

    def _as_asked_about(self, row: OutboxRow, known: Sequence[str]) -> OutboxRow:
        """Return a row as channels look it up: its first try when it was, or before, by what the wall clock says now.

        The clock may have been set since then. Looked for from too late on, what is there would not be found.
        """
        since_us = self._clock.now_us() - (self._clock.steady_us() - row.tried_us)
        first_try_us = min(row.first_try_us, since_us) if row.tried_us else row.first_try_us
        return replace(row, sent_ids=tuple(known), first_try_us=first_try_us)

    async def _cannot_look(self, row: OutboxRow, progress: _Progress, error: str, retry_after_s: float | None) -> None:
        """Look again with growing pauses; after the patience is used up the message is a dead letter."""
        if self._is_hopeless(row):
            await self._doubt(row, progress, f"outcome unknown: {error}", is_hopeless=True)
            return
        wait_s = retry_after_s if retry_after_s is not None else _backoff_s(row.attempts)
        _log.warning("what was sent cannot be looked up now", error=error, wait_s=round(wait_s, 1))
        await self._look_again(row, progress, wait_s, error)
        self._bus.ring(Topic.OUTBOUND)

    async def _once_more(self, row: OutboxRow, error: str, progress: _Progress) -> None:
        """Repeat the next part, or pass over it when that was its second try."""
        repeats = not progress.is_second_try
        _log.warning("send is uncertain", repeats=repeats, error=error)
        parts = [*progress.sent_ids, TRIED_PART if repeats else UNKNOWN_PART]
        # A part that is passed over is counted when the row is settled.
        retry = partial(self._outbox.retry, row.id, not_before_us=0, error=error, uncertain=repeats, counts=False)
        await _record(partial(retry, sent_ids=parts))

    # --- sends that failed

    async def _failed(self, row: OutboxRow, exc: ChannelError) -> None:
        """Do what the error's class says; parts that are out are committed already."""
        address = row.message.address
        if isinstance(exc, ChatMigrated):
            await self._bus.migrate_chat(address.channel, address.chat_id, exc.new_chat_id)
            if row.attempts < _QUICK_TRIES:
                await self._outbox.retry(row.id, not_before_us=0, error=str(exc))
            else:  # two ids that name each other
                await self._later(row, str(exc))
        elif isinstance(exc, ChatGone):
            await self._give_up(row, str(exc))
            await self._bus.close_chat(address, str(exc))
        elif isinstance(exc, RateLimited):
            await self._hold_back(row, exc)
        elif isinstance(exc, ChannelAuthError):
            # The channel is about to be off; the message is not at fault.
            await self._later(row, str(exc), _BACKOFF_MAX_S)
        elif not exc.retryable:
            _log.error("message refused by the platform", error=str(exc))
            await self._give_up(row, str(exc))
        else:
            await self._later(row, str(exc), exc.retry_after_s)
        self._bus.ring(Topic.OUTBOUND)

    async def _hold_back(self, row: OutboxRow, exc: RateLimited) -> None:
        """Leave the chat, or all of the channel, alone for as long as the platform wants.

        A wait it asked for is waited out, however long. A message that it will not have after that either, for longer
        than people would take for a delay, becomes a dead letter: nobody would see the chat's queue stand still.
        """
        address = row.message.address
        wait_s = exc.retry_after_s or _BACKOFF_FIRST_S
        until_us = self._clock.steady_us() + int(wait_s * US_PER_S)
        _log.warning("rate limited", wait_s=wait_s, everywhere=exc.everywhere)
        if exc.everywhere:
            self._paused_us[address.channel] = max(until_us, self._paused_us.get(address.channel, 0))
            asyncio.get_running_loop().call_later(wait_s, self._bus.ring, Topic.OUTBOUND)
        else:
            await self._outbox.delay_chat(address, until_us)
        if self._is_overdue(row, self._rate_limited_us):
            _log.error("message given up, the platform's rate limit does not end", error=str(exc))
            await self._give_up(row, str(exc))
        else:
            await self._outbox.retry(row.id, not_before_us=until_us, error=str(exc), counts=False)

    async def _later(
        self,
        row: OutboxRow,
        error: str,
        retry_after_s: float | None = None,
        *,
        sent_ids: Sequence[str] | None = None,
    ) -> None:
        """Queue a row again with growing pauses; after the patience is used up it becomes a dead letter."""
        if self._is_hopeless(row):
            _log.error("message given up", error=error)
            await self._give_up(row, error)
            return
        wait_s = retry_after_s if retry_after_s is not None else _backoff_s(row.attempts)
        _log.warning("send failed, trying again later", error=error, wait_s=round(wait_s, 1))
        not_before_us = self._clock.steady_us() + int(wait_s * US_PER_S)
        await self._outbox.retry(row.id, not_before_us=not_before_us, error=error, sent_ids=sent_ids)

    async def _give_up(self, row: OutboxRow, error: str) -> None:
        """Make a message a dead letter. A removal has no words that anybody could miss: it is over."""
        if row.message.withdraws:
            await self._outbox.settle(row.id, [])
        else:
            await self._outbox.bury(row.id, error)

    def _is_hopeless(self, row: OutboxRow) -> bool:
        """Say whether a message has failed for long enough, and more than by bad luck.

        Time alone says little: a rate limit may have used it up, or this process may not have run.
        """
        return row.attempts >= _GIVE_UP_TRIES - 1 and self._is_overdue(row, self._patience_us)

    def _is_overdue(self, row: OutboxRow, patience_us: int) -> bool:
        return bool(row.tried_us) and self._clock.steady_us() - row.tried_us > patience_us


def _backoff_s(attempts: int) -> float:
    span_s = min(_BACKOFF_MAX_S, _BACKOFF_FIRST_S * 2.0 ** min(attempts, 10))
    return span_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
