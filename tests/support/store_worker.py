"""A worker process on a store: claims everything it can get and says what it got, one JSON line at the end.

Arguments: path of the database, what to do (turns, outbox, jobs, open, guest). It opens the store (unless to
open is what it is to do), says "ready" and begins when it reads a line. A guest reads and writes beside the
others, holding the write lock at times, until it reads a second line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from bot.clock import US_PER_S, SystemClock
from bot.records import Ending, TurnState
from tests.support.stores import COMPOSER, DAY_S, MEMORY, opened, outbound, reminder_at

_IDLE_ROUNDS = 20
_HOLD_S = 0.1
_PAUSE_S = 0.3  # a command now and then, not a siege
_LOCK_PATIENCE_S = 30.0


async def _turns(path: Path) -> list[str]:
    taken: list[str] = []
    idle = 0
    async with opened(path, SystemClock()) as store:
        await _signal()
        while idle < _IDLE_ROUNDS:
            turns = await store.turns.claim(limit=3)
            idle = 0 if turns else idle + 1
            for turn in turns:
                for item in turn.messages:
                    taken.append(item.message.text)
                answer = outbound(f"answer to {turn.messages[0].message.text}", turn.address)
                await store.turns.finish(turn, Ending(state=TurnState.DONE, outbound=(answer,)))
    return taken


async def _outbox(path: Path) -> list[str]:
    sent: list[str] = []
    idle = 0
    async with opened(path, SystemClock()) as store:
        await _signal()
        while idle < _IDLE_ROUNDS:
            rows, _ = await store.outbox.claim(limit=3, channels=MEMORY)
            idle = 0 if rows else idle + 1
            for row in rows:
                sent.append(row.message.text)
                await store.outbox.settle(row.id, ["m"])
    return sent


async def _jobs(path: Path) -> list[str]:
    fired = 0
    async with opened(path, SystemClock()) as store:
        await _signal()
        for _ in range(_IDLE_ROUNDS):
            fired += await store.jobs.fire(COMPOSER, catch_up_max_age_us=86_400_000_000)
    return [str(fired)]


async def _open(path: Path) -> list[str]:
    await _signal()
    async with opened(path, SystemClock()) as store:
        return [str((await store.overview.status()).sessions)]


async def _guest(path: Path) -> list[str]:
    added: list[str] = []
    async with opened(path, SystemClock()) as store:
        await _signal()
        over = asyncio.create_task(asyncio.to_thread(sys.stdin.readline), name="wait for the end")
        while not over.done():
            text = f"job {len(added)} of {os.getpid()}"
            await store.jobs.add(reminder_at(SystemClock().now_us() + DAY_S * US_PER_S, text), limit_per_chat=100_000)
            added.append(text)
            await store.overview.status()
            await asyncio.to_thread(_hold, path)
            await asyncio.sleep(_PAUSE_S)
        await over
    return added


def _hold(path: Path) -> None:
    """Read everything, then keep everybody else from writing for as long as a slow command would."""
    with closing(sqlite3.connect(path, timeout=_LOCK_PATIENCE_S, isolation_level=None)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("SELECT * FROM history").fetchall()
        time.sleep(_HOLD_S)
        conn.execute("ROLLBACK")


async def _signal() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    """Run one worker."""
    path, what = Path(sys.argv[1]), sys.argv[2]
    work = {"turns": _turns, "outbox": _outbox, "jobs": _jobs, "open": _open, "guest": _guest}[what]
    print(json.dumps(asyncio.run(work(path))), flush=True)


if __name__ == "__main__":
    main()
