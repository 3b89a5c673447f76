"""The wall clock is set while things wait: an hour back, as by a correction, or forward, as after a pause.

Waits and leases go on as if nothing had happened; only reminders follow the wall clock.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import US_PER_S, SystemClock
from bot.errors import ChannelError, RateLimited, SendUncertain
from bot.interfaces import Store
from bot.records import OutboxRow
from tests.support.clock import FakeClock
from tests.support.engine import Rig, again, rig, said
from tests.support.memory_channel import MemoryChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import CHAT, MEMORY, OTHER_CHAT, inbound, opened, outbound, reminder_at

PROVIDER = ScriptedProvider(said("unused"))
HOUR_S = 3_600
JUMPS = pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S], ids=["back", "forward"])


async def settled(engine: Rig, *, step_s: float = 1) -> None:
    """Let time pass in steps until nothing is on its way."""
    async with asyncio.timeout(20):
        while (await engine.store.overview.status()).outbox_queued:
            engine.advance(step_s)
            await asyncio.sleep(0.01)


@JUMPS
@pytest.mark.parametrize("failure", [RateLimited("429", retry_after_s=10), ChannelError("502", retry_after_s=10)])
async def test_a_message_waits_as_long_as_it_was_told_to(tmp_path: Path, failure: ChannelError, jump_s: float) -> None:
    channel = MemoryChannel()
    channel.failures.append(failure)
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("first"))
        await engine.until(lambda: len(channel.attempts) == 1)
        while (await engine.store.overview.status()).outbox_delayed == 0:
            await asyncio.sleep(0)
        engine.clock.jump(jump_s)
        assert (await engine.store.outbox.claim(limit=1, channels=MEMORY))[0] == []
        engine.advance(9.9)
        assert (await engine.store.outbox.claim(limit=1, channels=MEMORY))[0] == []
        engine.advance(0.2)
        await engine.reads("first")


@JUMPS
async def test_a_pause_of_a_whole_channel_lasts_as_long_as_it_was_told_to(tmp_path: Path, jump_s: float) -> None:
    channel = MemoryChannel()
    channel.failures.append(RateLimited("429", retry_after_s=10, everywhere=True))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("first"))
        await engine.until(lambda: len(channel.attempts) == 1)
        while (await engine.store.overview.status()).outbox_delayed == 0:
            await asyncio.sleep(0)
        engine.clock.jump(jump_s)
        engine.advance(9.9)
        assert engine.delivery._open_channels() == []
        engine.advance(0.2)
        await engine.reads("first")


@JUMPS
async def test_patience_is_measured_by_the_time_that_passed(tmp_path: Path, jump_s: float) -> None:
    channel = MemoryChannel()
    channel.failures.extend([ChannelError("502")] * 1_000)
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("bad"))
        await engine.until(lambda: len(channel.attempts) == 1)
        engine.clock.jump(jump_s)
        waited_s = 0
        async with asyncio.timeout(20):
            while (await engine.store.overview.status()).dead_letter_count == 0:
                engine.advance(60)
                waited_s += 60
                await asyncio.sleep(0.02)
        assert 15 * 60 < waited_s <= 25 * 60


@JUMPS
async def test_no_lease_ends_early_or_late(tmp_path: Path, jump_s: float) -> None:
    clock = FakeClock()
    async with opened(tmp_path / "db", clock) as store, opened(tmp_path / "db", clock) as other:
        await store.inbox.accept(inbound())
        await store.outbox.put(outbound())
        assert (
            len(await store.turns.claim(limit=9)) == len((await store.outbox.claim(limit=9, channels=MEMORY))[0]) == 1
        )
        clock.jump(jump_s)
        clock.advance(29)
        assert await other.turns.claim(limit=9) == []
        clock.advance(2)
        assert len(await other.turns.claim(limit=9)) == 1
        clock.advance(260)
        assert await claimed(other) == []
        clock.advance(20)
        assert len(await claimed(other)) == 1


async def claimed(store: Store) -> list[OutboxRow]:
    return (await store.outbox.claim(limit=9, channels=MEMORY))[0]


async def test_after_a_restart_no_wait_is_longer_than_it_was_to_be_in_all(tmp_path: Path) -> None:
    """The process before had a clock that was a day ahead; it is right now."""
    ahead = FakeClock("2026-02-02T12:00:00+00:00")
    async with opened(tmp_path / "db", ahead, exclusive=True) as store:
        await store.outbox.put(outbound("a"))
        await store.outbox.put(outbound("b", OTHER_CHAT))
        await store.outbox.delay_chat(OTHER_CHAT, ahead.steady_us() + 50 * US_PER_S)
        (row,) = await claimed(store)
        await store.outbox.retry(row.id, not_before_us=ahead.steady_us() + 10 * US_PER_S, error="502")
    right = FakeClock("2026-02-01T12:00:00+00:00")
    async with opened(tmp_path / "db", right, exclusive=True) as store:
        assert await claimed(store) == []
        right.advance(10)
        (row,) = await claimed(store)
        assert (row.message.text, right.steady_us() - row.tried_us) == ("a", 10 * US_PER_S)
        assert await claimed(store) == []
        right.advance(40)
        assert [row.message.text for row in await claimed(store)] == ["b"]


async def test_a_short_wait_goes_on_after_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with opened(tmp_path / "db", clock, exclusive=True) as store:
        await store.outbox.put(outbound("a"))
        await store.outbox.delay_chat(CHAT, clock.steady_us() + 50 * US_PER_S)
        clock.advance(20)
    async with opened(tmp_path / "db", clock, exclusive=True) as store:
        assert await claimed(store) == []
        clock.advance(29)
        assert await claimed(store) == []
        clock.advance(1)
        assert len(await claimed(store)) == 1


class Looking(MemoryChannel):
    """Keeps what it was asked to look for."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[OutboxRow] = []

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:
        """See `Channel.find_sent`."""
        self.looks.append(row)
        self.bell.ring()
        return ()


@JUMPS
async def test_what_arrived_is_looked_for_from_before_the_first_try(tmp_path: Path, jump_s: float) -> None:
    """A platform dates messages by the right time: looked for from an hour later on, none would be found."""
    channel = Looking()
    channel.failures.append(SendUncertain("reset"))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        tried_us = engine.clock.now_us()
        await engine.bus.publish_outbound(outbound("perhaps"))
        await engine.until(lambda: len(channel.attempts) == 1)
        engine.clock.jump(jump_s)
        async with asyncio.timeout(10):
            while not channel.looks:
                engine.advance(1)
                await asyncio.sleep(0.01)
        assert channel.looks[0].first_try_us <= tried_us + min(0, jump_s) * US_PER_S


async def test_what_arrived_is_looked_for_long_enough_ago_where_the_clock_was_ahead(tmp_path: Path) -> None:
    """The process before had a clock that was a day ahead: when it tried is not known any more."""
    channel = Looking()
    channel.failures.append(SendUncertain("reset"))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        tried_us = engine.clock.now_us()
        engine.clock.advance(24 * HOUR_S)
        await engine.bus.publish_outbound(outbound("perhaps"))
        await engine.until(lambda: len(channel.attempts) == 1)
        await engine.crash()
    setup = replace(engine.setup, clock=FakeClock())
    setup.clock.advance(600)
    async with again(setup, start=["delivery"]) as engine:
        async with asyncio.timeout(10):
            while not channel.looks:
                engine.advance(1)
                await asyncio.sleep(0.01)
        assert channel.looks[0].first_try_us <= tried_us


async def test_reminders_follow_the_wall_clock(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery", "scheduler"]) as engine:
        await engine.store.jobs.add(reminder_at(engine.clock.now_us() + HOUR_S * US_PER_S, "tea"), limit_per_chat=9)
        engine.clock.jump(HOUR_S)
        engine.ring()
        await engine.reads("tea")


async def test_a_rate_limit_that_does_not_end_makes_a_dead_letter_that_can_be_sent_again(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.extend([RateLimited("429: flood control", retry_after_s=600)] * 100)
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("held"))
        await engine.until(lambda: len(channel.attempts) == 1)
        async with asyncio.timeout(20):
            while (await engine.store.overview.status()).outbox_delayed == 0:
                await asyncio.sleep(0.01)
            while (await engine.store.overview.status()).dead_letter_count == 0:
                engine.advance(60)
                await asyncio.sleep(0.01)
        assert 7 <= len(channel.attempts) <= 8  # once each ten minutes of the hour
        [letter] = await engine.store.overview.dead_letters(limit=9)
        assert (letter.text, letter.error) == ("held", "429: flood control")
        assert (await engine.store.overview.status()).outbox_delayed == 0
        channel.failures.clear()
        await engine.store.overview.resend([letter.id])
        await settled(engine, step_s=600)
        assert channel.texts() == ["held"]


async def test_a_wait_that_a_platform_asks_for_is_waited_out_however_long(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.append(RateLimited("429", retry_after_s=11 * HOUR_S))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("held"))
        await engine.until(lambda: len(channel.attempts) == 1)
    async with again(engine.setup, start=["delivery"]) as engine:
        await settled(engine, step_s=HOUR_S)
        assert channel.texts() == ["held"]


def test_the_steady_scale_is_the_wall_clocks_for_a_process_whose_clock_nobody_sets() -> None:
    clocks = SystemClock(), SystemClock()
    assert abs(clocks[0].steady_us() - clocks[0].now_us()) < 60 * US_PER_S
    assert clocks[1].steady_us() - clocks[0].steady_us() < 60 * US_PER_S
    assert clocks[0].steady_us() <= clocks[1].steady_us()
