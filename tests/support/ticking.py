"""Whether the event loop goes on while something else is under way: how often it comes round, not how fast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Ticks:
    """How often the loop came round so far."""

    count: int = 0


@asynccontextmanager
async def loop_ticks() -> AsyncIterator[Ticks]:
    """Count the loop's turns; each waits for a moment, so that an idle loop has about a thousand in a second."""
    ticks = Ticks()

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.001)
            ticks.count += 1

    task = asyncio.create_task(tick(), name="ticks")
    try:
        await asyncio.sleep(0)
        yield ticks
    finally:
        task.cancel()
