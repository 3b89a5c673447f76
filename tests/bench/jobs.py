"""Jobs: adding one beside many, a thousand due at once, how late a single one is."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bot.bus import LocalSignal
from bot.clock import US_PER_S, SystemClock
from bot.interfaces import Topic
from bot.messages import Address, ChatType
from bot.records import JobKind, NewJob
from bot.schedule import Schedule, ScheduleKind
from bot.scheduler import JobComposer, Scheduler
from bot.store.store import SqlStore
from tests.bench.figures import Figure

CHATS = 100
MANY = 10_000
LIMIT = 400
DUE = 1_000
SINGLE = 60


def new_job(clock: SystemClock, in_s: float, text: str = "stretch", chat: int = 0) -> NewJob:
    at_us = clock.now_us() + int(in_s * US_PER_S)
    schedule = Schedule(kind=ScheduleKind.AT, zone="Europe/Berlin", at_us=at_us)
    return NewJob(
        address=Address(channel="bench", chat_id=str(chat)),
        chat_type=ChatType.PRIVATE,
        creator_id="7",
        kind=JobKind.REMINDER,
        text=text,
        schedule=schedule,
        next_us=at_us,
    )


async def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        store = await SqlStore.open(Path(folder) / "dutiful.db", SystemClock(), exclusive=True)
        try:
            return await _measure(store, SystemClock())
        finally:
            await store.close()


async def _measure(store: SqlStore, clock: SystemClock) -> list[Figure]:
    empty = [await _add_ms(store, clock) for _ in range(50)]
    for _ in range(MANY // 500):
        more = [new_job(clock, 86_400, chat=index % CHATS) for index in range(500)]
        await asyncio.gather(*(store.jobs.add(job, limit_per_chat=LIMIT) for job in more))
    full = [await _add_ms(store, clock) for _ in range(50)]
    signal = LocalSignal()
    composer = JobComposer("en")
    scheduler = Scheduler(store, signal, clock, composer, catch_up_max_age_h=24)
    running = asyncio.create_task(scheduler.run())
    await asyncio.sleep(1)
    lateness = []
    for index in range(SINGLE):
        job = await store.jobs.add(new_job(clock, 0.2, f"single {index}"), limit_per_chat=LIMIT)
        signal.notify(Topic.JOBS)
        await signal.wait(Topic.OUTBOUND, 10)
        rows, _ = await store.outbox.claim(limit=10, channels=["bench"])
        assert job.next_us is not None
        lateness.append((rows[0].created_us - job.next_us) / 1000)
        await store.outbox.settle(rows[0].id, ["1"])
    due = [new_job(clock, 2.0, chat=index % CHATS) for index in range(DUE)]
    await asyncio.gather(*(store.jobs.add(job, limit_per_chat=LIMIT) for job in due))
    signal.notify(Topic.JOBS)
    fired = 0
    while fired < DUE:  # created over some milliseconds, they fall due in a few firings
        await signal.wait(Topic.OUTBOUND, 20)
        fired = (await store.overview.status()).outbox_queued
    thousand_ms = (clock.now_us() - due[-1].next_us) / 1000
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    lateness.sort()
    return [
        Figure(name="job add, no other jobs", values=empty, unit="ms", limit="<= 3"),
        Figure(name=f"job add, {MANY} other jobs", values=full, unit="ms", limit="<= 3"),
        Figure(name=f"{DUE} due at once, all in the outbox", values=[thousand_ms], unit="ms", limit="<= 500"),
        Figure(name="one reminder, due to outbox (median)", values=lateness, unit="ms"),
        Figure(name="one reminder, due to outbox (p99)", values=lateness[-1:], unit="ms", limit="<= 50"),
    ]


async def _add_ms(store: SqlStore, clock: SystemClock) -> float:
    began = time.perf_counter()
    await store.jobs.add(new_job(clock, 86_400), limit_per_chat=LIMIT)
    return (time.perf_counter() - began) * 1000
