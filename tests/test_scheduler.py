"""The alarm clock: due jobs fire without anybody asking, once, and a busy database delays them only."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.clock import US_PER_S, SystemClock
from bot.errors import StoreUnavailable
from bot.scheduler import Scheduler
from tests.support.engine import rig, said
from tests.support.providers import ScriptedProvider
from tests.support.stores import reminder_at

PROVIDER = ScriptedProvider(said("x"))


async def test_what_is_due_at_the_start_fires_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        await engine.store.jobs.add(reminder_at(engine.clock.now_us()), limit_per_chat=9)
        engine.start("scheduler")
        await engine.reads("stretch")


async def test_a_job_added_meanwhile_fires_at_its_time_by_itself(tmp_path: Path) -> None:
    clock = SystemClock()
    async with rig(tmp_path, PROVIDER, clock=clock) as engine:
        await engine.store.jobs.add(reminder_at(clock.now_us() + 3_600 * US_PER_S, "later"), limit_per_chat=9)
        engine.ring()
        await engine.store.jobs.add(reminder_at(clock.now_us() + US_PER_S // 5), limit_per_chat=9)
        engine.ring()
        await engine.reads("stretch")


async def test_a_database_that_is_busy_at_the_due_time_delays_the_reminder_only(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        fire = engine.store.jobs.fire
        failures = [StoreUnavailable("locked")]

        async def failing(*args: object, **arguments: object) -> int:
            if failures:
                raise failures.pop()
            return await fire(*args, **arguments)  # type: ignore[arg-type]

        engine.store.jobs.fire = failing  # type: ignore[method-assign]
        await engine.store.jobs.add(reminder_at(engine.clock.now_us()), limit_per_chat=9)
        engine.start("scheduler")
        await engine.reads("stretch")
        assert failures == []


async def test_two_schedulers_on_one_store_deliver_once(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER) as engine:
        other = Scheduler(engine.store, engine.signal, engine.clock, engine.composer, catch_up_max_age_h=24)
        beside = asyncio.create_task(other.run(), name="second scheduler")
        for number in range(10):
            await engine.store.jobs.add(reminder_at(engine.clock.now_us(), f"r{number}"), limit_per_chat=99)
        engine.advance(0)
        await engine.texts_count(10)
        await engine.idle()
        assert sorted(engine.channel.texts()) == [f"r{number}" for number in range(10)]
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
