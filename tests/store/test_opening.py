"""Opening the store, cut short."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from bot.errors import StoreError
from bot.store.store import SqlStore
from tests.support.clock import FakeClock


async def test_a_start_that_is_cancelled_leaves_no_thread_at_work_behind(tmp_path: Path) -> None:
    path = tmp_path / "dutiful.db"
    before = set(threading.enumerate())
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        opening = asyncio.create_task(SqlStore.open(path, FakeClock(), exclusive=True))
        for _ in range(3):
            await asyncio.sleep(0)
        opening.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not opening.done(), "its thread waits for the file and would outlive the loop"
        holder.execute("ROLLBACK")
    holder.close()
    with pytest.raises(asyncio.CancelledError):
        await opening
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_a_file_that_is_no_database_is_one_error_and_leaves_no_thread_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dutiful.db"
    path.write_bytes(b"junk" * 1_000)
    crashes: list[object] = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    before = set(threading.enumerate())

    async def open_it() -> None:
        await SqlStore.open(path, FakeClock(), exclusive=True)

    for _ in range(20):  # whether a thread outlives its loop is a race
        with pytest.raises(StoreError, match="not a database"):
            asyncio.run(open_it())
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
    assert crashes == []
