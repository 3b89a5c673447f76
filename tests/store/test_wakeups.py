"""No write may wait for a round that nobody starts."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from bot.store.database import Database


async def test_a_round_that_ends_before_its_starter_goes_on_does_not_hold_up_the_next(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "x.db")
    post = database._writer.post

    def overtaken(function: Callable[[sqlite3.Connection], None]) -> None:
        post(function)
        time.sleep(0.05)  # the writer's thread gets the processor, as it may at any time

    database._writer.post = overtaken  # type: ignore[method-assign]
    try:
        async with asyncio.timeout(10):
            assert [await database.write(lambda _, n=number: n) for number in range(3)] == [0, 1, 2]  # type: ignore[misc]
    finally:
        await database.close()
