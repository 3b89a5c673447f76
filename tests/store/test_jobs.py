"""What stored jobs promise: one firing per due time, none forgotten, none from the past pretended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.errors import ScheduleError
from bot.interfaces import Store, Unit
from bot.messages import Address
from bot.records import CallResult, Ending, Job, JobKind, JobState, OutboxRow, RunState, TurnState
from bot.schedule import Schedule, ScheduleKind
from tests.support.clock import FakeClock, instant
from tests.support.stores import CHAT, COMPOSER, DAY_S, MEMORY, OTHER_CHAT, daily, inbound, new_job, opened, reminder_at

DAY_US = DAY_S * US_PER_S


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock("2026-11-29T12:00:00+00:00")


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


async def fire(store: Store) -> int:
    return await store.jobs.fire(COMPOSER, catch_up_max_age_us=DAY_US)


async def sent(store: Store) -> list[str]:
    out: list[str] = []
    while True:
        rows: list[OutboxRow] = (await store.outbox.claim(limit=99, channels=MEMORY))[0]
        if not rows:
            return out
        for row in rows:
            out.append(row.message.text)
            await store.outbox.settle(row.id, ["m"])


async def job_now(store: Store, job: Job) -> Job:
    found = await store.jobs.get(job.id)
    assert found is not None
    return found


async def test_jobs_are_listed_soonest_first_and_by_chat(store: Store, clock: FakeClock) -> None:
    base = clock.now_us()
    for text, after_s, address in [("late", 90, CHAT), ("soon", 30, CHAT), ("other", 1, OTHER_CHAT)]:
        await store.jobs.add(reminder_at(base + after_s * US_PER_S, text, address), limit_per_chat=9)
    thread = Address(channel="memory", chat_id="c1", thread_id="7")
    await store.jobs.add(reminder_at(base + 60 * US_PER_S, "thread", thread), limit_per_chat=9)
    assert [job.text for job in await store.jobs.list(CHAT)] == ["soon", "thread", "late"]
    assert [job.text for job in await store.jobs.list()] == ["other", "soon", "thread", "late"]
    assert await store.jobs.next_due_us() == base + US_PER_S
    assert await store.jobs.next_due_us(["second"]) is None


async def test_a_chat_has_a_limit_of_jobs_that_are_not_over(store: Store, clock: FakeClock) -> None:
    for _ in range(2):
        await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=2)
    with pytest.raises(ScheduleError, match="already has 2 jobs, the limit is 2"):
        await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=2)
    await store.jobs.add(reminder_at(clock.now_us(), address=OTHER_CHAT), limit_per_chat=2)
    assert await fire(store) == 3
    await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=2)


async def test_a_reminder_fires_once_at_its_time_and_is_over(store: Store, clock: FakeClock) -> None:
    job = await store.jobs.add(reminder_at(clock.now_us() + US_PER_S), limit_per_chat=9)
    assert await fire(store) == 0
    clock.advance(1)
    assert [await fire(store), await fire(store)] == [1, 0]
    assert await sent(store) == ["stretch"]
    after = await job_now(store, job)
    assert (after.state, after.next_us, after.runs, after.last_state) == (JobState.DONE, None, 1, "ok")
    assert await store.jobs.list(CHAT) == []


async def test_ten_looks_within_the_due_minute_are_one_firing(store: Store, clock: FakeClock) -> None:
    await store.jobs.add(new_job(daily(13), instant("2026-11-29T13:00:00+00:00")), limit_per_chat=9)
    clock.move_to("2026-11-29T13:00:00+00:00")
    counts = []
    for _ in range(10):
        counts.append(await fire(store))
        clock.advance(6)
    assert counts == [1, *[0] * 9]
    assert await sent(store) == ["stretch"]
    (job,) = await store.jobs.list(CHAT)
    assert job.next_us == instant("2026-11-30T13:00:00+00:00")


async def test_two_workers_fire_a_due_job_once(tmp_path: Path, store: Store, clock: FakeClock) -> None:
    for _ in range(20):
        await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=99)
    async with opened(tmp_path / "db", clock) as other:
        counts = [await fire(worker) for worker in (store, other, store, other)]
    assert sum(counts) == 20
    assert await sent(store) == ["stretch"] * 20


async def test_many_missed_times_become_one_late_firing_of_the_newest(store: Store, clock: FakeClock) -> None:
    job = await store.jobs.add(new_job(daily(8), instant("2026-11-30T08:00:00+00:00")), limit_per_chat=9)
    clock.move_to("2026-12-04T09:00:00+00:00")
    assert await fire(store) == 1
    assert await sent(store) == ["stretch\n\n(late: this was due Fri 4 Dec 2026 08:00 (UTC))"]
    assert (await job_now(store, job)).next_us == instant("2026-12-05T08:00:00+00:00")


async def test_within_a_minute_nothing_is_called_late(store: Store, clock: FakeClock) -> None:
    await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=9)
    clock.advance(60)
    await fire(store)
    assert await sent(store) == ["stretch"]


async def test_a_one_shot_reminder_is_delivered_however_late(store: Store, clock: FakeClock) -> None:
    await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=9)
    clock.advance(400 * DAY_S)
    await fire(store)
    assert await sent(store) == ["stretch\n\n(late: this was due Sun 29 Nov 2026 12:00 (UTC))"]


async def test_a_recurring_job_found_too_late_waits_for_its_next_time(store: Store, clock: FakeClock) -> None:
    weekly = Schedule(kind=ScheduleKind.CRON, zone="UTC", cron_expr="0 8 * * 1")
    job = await store.jobs.add(new_job(weekly, instant("2026-11-30T08:00:00+00:00")), limit_per_chat=9)
    clock.move_to("2026-12-02T12:00:00+00:00")
    assert await fire(store) == 1
    assert await sent(store) == []
    after = await job_now(store, job)
    assert (after.next_us, after.last_state, after.runs) == (instant("2026-12-07T08:00:00+00:00"), "missed", 0)


async def test_a_one_shot_task_found_too_late_says_so_instead_of_running(store: Store, clock: FakeClock) -> None:
    await store.jobs.add(reminder_at(clock.now_us(), "sum up", kind=JobKind.TASK), limit_per_chat=9)
    clock.advance(25 * 3600)
    await fire(store)
    assert await store.turns.claim(limit=9) == []
    assert await sent(store) == [
        "“sum up” was due Sun 29 Nov 2026 12:00 (UTC) while I was off. That is too long ago, so I did not run it."
    ]


async def test_a_job_that_is_not_made_up_for_skips_what_it_missed(store: Store, clock: FakeClock) -> None:
    job = await store.jobs.add(
        new_job(daily(13), instant("2026-11-29T13:00:00+00:00"), catch_up=False), limit_per_chat=9
    )
    clock.move_to("2026-11-29T13:01:01+00:00")
    await fire(store)
    assert await sent(store) == []
    assert (await job_now(store, job)).last_state == "missed"
    clock.move_to("2026-11-30T13:00:30+00:00")
    await fire(store)
    assert await sent(store) == ["stretch"]


async def test_a_number_of_runs_ends_a_job(store: Store, clock: FakeClock) -> None:
    every = Schedule(kind=ScheduleKind.EVERY, zone="UTC", every_s=60, anchor_us=clock.now_us())
    job = await store.jobs.add(new_job(every, clock.now_us() + 60 * US_PER_S, max_runs=2), limit_per_chat=9)
    for _ in range(4):
        clock.advance(60)
        await fire(store)
    assert await sent(store) == ["stretch", "stretch"]
    assert (await job_now(store, job)).state is JobState.DONE


async def test_a_task_gets_a_lane_of_its_own_and_its_next_run_waits_for_its_end(store: Store, clock: FakeClock) -> None:
    every = Schedule(kind=ScheduleKind.EVERY, zone="UTC", every_s=60, anchor_us=clock.now_us())
    job = await store.jobs.add(
        new_job(every, clock.now_us() + 60 * US_PER_S, "sum up", kind=JobKind.TASK), limit_per_chat=9
    )
    clock.advance(60)
    await fire(store)
    (turn,) = await store.turns.claim(limit=9)
    assert (turn.lane, turn.address, turn.messages[0].message.text) == (f"job:{job.id}:1", CHAT, "sum up")
    assert turn.messages[0].message.sender_id == "111"
    clock.advance(60)
    await store.turns.renew([turn.id])
    await fire(store)
    assert await store.turns.claim(limit=9) == []
    assert (await job_now(store, job)).last_state == "skipped"
    await store.turns.finish(
        turn, Ending(state=TurnState.DONE, run_id=turn.meta["run_id"], run_state=RunState.FAILED, error="why")
    )
    after = await job_now(store, job)
    assert (after.last_state, after.last_error) == ("failed", "why")
    clock.advance(60)
    await fire(store)
    assert len(await store.turns.claim(limit=9)) == 1


async def test_a_run_that_a_crash_cut_is_interrupted_and_resumed_not_called_well(
    tmp_path: Path, store: Store, clock: FakeClock
) -> None:
    job = await store.jobs.add(reminder_at(clock.now_us(), "sum up", kind=JobKind.TASK), limit_per_chat=9)
    await fire(store)
    await store.turns.claim(limit=9)
    async with opened(tmp_path / "db", clock, exclusive=True) as process:
        (resumed,) = await process.turns.claim(limit=9)
        assert resumed.attempt == 2
        runs = await run_states(process, job)
        assert runs == [("interrupted", 1)]
        assert (await job_now(process, job)).last_state != "ok"


async def run_states(store: Store, job: Job) -> list[tuple[str, int]]:
    """Read the run rows; no verb of the seam shows them."""
    read = store._database.read  # type: ignore[attr-defined]
    rows = await read(
        lambda conn: conn.execute("SELECT state, interrupted FROM runs WHERE job_id = ?", (job.id,)).fetchall()
    )
    return [(str(state), int(count)) for state, count in rows]


async def test_running_a_job_now_leaves_its_schedule_alone(store: Store, clock: FakeClock) -> None:
    next_us = instant("2026-11-29T13:00:00+00:00")
    job = await store.jobs.add(new_job(daily(13), next_us), limit_per_chat=9)
    assert await store.jobs.run_now(job.id, COMPOSER)
    assert not await store.jobs.run_now("job-none", COMPOSER)
    assert await sent(store) == ["stretch"]
    assert (await job_now(store, job)).next_us == next_us


async def test_a_removed_job_neither_fires_nor_shows(store: Store, clock: FakeClock) -> None:
    job = await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=9)
    assert await store.jobs.remove(job.id)
    assert not await store.jobs.remove(job.id)
    assert await store.jobs.get(job.id) is None
    assert await fire(store) == 0


async def test_a_paused_job_does_not_fire(store: Store, clock: FakeClock) -> None:
    job = await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=9)
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)

    def pause(unit: object) -> CallResult:
        unit.save_job(replace(job, state=JobState.PAUSED, next_us=None))  # type: ignore[attr-defined]
        return CallResult(call_id="c", text="")

    await store.steps.once(turn, "c", pause)
    assert await fire(store) == 0
    assert await store.jobs.next_due_us() is None
    (listed,) = await store.jobs.list(CHAT)
    assert listed.state is JobState.PAUSED


async def test_only_the_jobs_of_wanted_channels_fire(store: Store, clock: FakeClock) -> None:
    second = Address(channel="second", chat_id="c1")
    await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=9)
    await store.jobs.add(reminder_at(clock.now_us(), address=second), limit_per_chat=9)
    count = await store.jobs.fire(COMPOSER, catch_up_max_age_us=DAY_US, channels=["second"])
    assert count == 1
    assert [job.address for job in await store.jobs.list()] == [CHAT]


async def test_a_thousand_due_jobs_fire_in_one_go(store: Store, clock: FakeClock) -> None:
    for number in range(1000):
        address = Address(channel="memory", chat_id=f"c{number % 10}")
        await store.jobs.add(reminder_at(clock.now_us(), str(number), address), limit_per_chat=1000)
    assert await fire(store) == 1000
    assert (await store.overview.status()).outbox_queued == 1000


async def test_a_clock_that_is_set_back_does_not_bring_a_due_time_twice(store: Store, clock: FakeClock) -> None:
    due = "2026-11-29T13:00:00+00:00"
    job = await store.jobs.add(new_job(daily(13), instant(due)), limit_per_chat=9)
    clock.move_to(due)
    await fire(store)
    clock.move_to("2026-11-29T12:00:00+00:00")
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)

    def resume(unit: Unit) -> CallResult:
        unit.save_job(replace(job, next_us=job.schedule.next_after(clock.now_us())))
        return CallResult(call_id="a", text="resumed")

    await store.steps.once(turn, "a", resume)
    clock.move_to(due)
    assert await fire(store) == 1
    assert await sent(store) == ["stretch"]
