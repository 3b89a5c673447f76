"""A worker process on a store: claims everything it can get and says what it got, one JSON line at the end.

Arguments: path of the database, what to do (turns, outbox, jobs, open). It opens the store (unless to
open is what it is to do), says "ready" and begins when it reads a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bot.clock import SystemClock
from bot.records import Ending, TurnState
from tests.support.stores import COMPOSER, MEMORY, opened, outbound

_IDLE_ROUNDS = 20


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


async def _signal() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    """Run one worker."""
    path, what = Path(sys.argv[1]), sys.argv[2]
    work = {"turns": _turns, "outbox": _outbox, "jobs": _jobs, "open": _open}[what]
    print(json.dumps(asyncio.run(work(path))), flush=True)


if __name__ == "__main__":
    main()
