"""Two real processes on one file."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from bot.clock import SystemClock
from bot.messages import Address
from tests.support.stores import inbound, opened, outbound, reminder_at

ROOT = Path(__file__).parents[2]


async def run_two(path: Path, what: str) -> list[list[str]]:
    """Let two workers begin at the same moment; return what each got."""
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.store_worker", str(path), what, cwd=ROOT, stdin=PIPE, stdout=PIPE
        )
        for _ in range(2)
    ]
    try:
        async with asyncio.timeout(60):
            for worker in workers:
                assert worker.stdout is not None
                assert await worker.stdout.readline() == b"ready\n"
            outputs = await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers))
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0]
    return [json.loads(out) for out, _ in outputs]


async def test_every_message_is_claimed_and_answered_once(tmp_path: Path) -> None:
    path = tmp_path / "db"
    async with opened(path, SystemClock()) as store:
        for number in range(120):
            address = Address(channel="memory", chat_id=f"c{number % 12}")
            await store.inbox.accept(inbound(f"{number}", str(number), address))
    first, second = await run_two(path, "turns")
    assert sorted(first + second, key=int) == [str(number) for number in range(120)]
    sent = await run_two(path, "outbox")
    assert len(sent[0] + sent[1]) == len(set(sent[0] + sent[1]))
    async with opened(path, SystemClock()) as store:
        status = await store.overview.status()
        assert (status.inbox_queued, status.turns_running, status.outbox_queued) == (0, 0, 0)


async def test_every_message_is_sent_by_one_of_them(tmp_path: Path) -> None:
    path = tmp_path / "db"
    async with opened(path, SystemClock()) as store:
        for number in range(120):
            await store.outbox.put(outbound(f"{number}", Address(channel="memory", chat_id=f"c{number % 12}")))
    first, second = await run_two(path, "outbox")
    assert sorted(first + second, key=int) == [str(number) for number in range(120)]


async def test_every_due_job_fires_once(tmp_path: Path) -> None:
    path = tmp_path / "db"
    clock = SystemClock()
    async with opened(path, clock) as store:
        for _ in range(40):
            await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=99)
    first, second = await run_two(path, "jobs")
    assert int(first[0]) + int(second[0]) == 40
    async with opened(path, clock) as store:
        assert (await store.overview.status()).outbox_queued == 40


async def test_both_may_make_the_database_at_the_same_moment(tmp_path: Path) -> None:
    for attempt in range(3):
        assert await run_two(tmp_path / f"db{attempt}", "open") == [["0"], ["0"]]
