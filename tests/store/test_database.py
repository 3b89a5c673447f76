"""The database under the store: grouped commits, migrations, and disks that do not take a write."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path

import pytest

from bot.errors import StoreError, StoreUnavailable
from bot.store.database import Database
from bot.store.store import SqlStore
from tests.support.clock import FakeClock
from tests.support.stores import MEMORY, inbound, opened, outbound


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "db")
    yield database
    await database.close()


def insert(value: str):  # type: ignore[no-untyped-def]
    return lambda conn: conn.execute("INSERT INTO cursors VALUES (?, '', 0)", (value,)).close()


async def names(database: Database) -> list[str]:
    rows = await database.read(lambda conn: conn.execute("SELECT name FROM cursors ORDER BY name").fetchall())
    return [str(row[0]) for row in rows]


class Held:
    """Keeps the writer busy, so that what comes meanwhile is committed as one group."""

    def __init__(self, database: Database) -> None:
        self._go = threading.Event()
        self.entered = threading.Event()
        self.task = asyncio.ensure_future(database.write(self._work))

    def _work(self, conn: sqlite3.Connection) -> None:
        self.entered.set()
        assert self._go.wait(10)

    async def release(self) -> None:
        self._go.set()
        await self.task


async def hold(database: Database) -> Held:
    held = Held(database)
    assert await asyncio.to_thread(held.entered.wait, 10)
    return held


async def test_writes_that_wait_are_one_commit_and_a_failing_one_undoes_only_itself(database: Database) -> None:
    commits: list[str] = []
    await database.write(lambda conn: conn.set_trace_callback(commits.append))
    held = await hold(database)

    def bad(conn: sqlite3.Connection) -> None:
        insert("half")(conn)
        raise ValueError("mine")

    writes = [asyncio.ensure_future(database.write(work)) for work in (insert("a"), bad, insert("a"), insert("b"))]
    await asyncio.sleep(0)
    commits.clear()
    await held.release()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert await names(database) == ["a", "b"]
    assert results[0] is None
    assert repr(results[1]) == "ValueError('mine')"
    assert isinstance(results[2], StoreError)
    assert results[3] is None
    assert commits.count("COMMIT") == 2  # the holder's own, and one for the group


async def test_a_group_is_as_durable_as_its_most_careful_member(database: Database) -> None:
    modes: list[str] = []

    def note(conn: sqlite3.Connection) -> None:
        modes.append({1: "NORMAL", 2: "FULL"}[conn.execute("PRAGMA synchronous").fetchone()[0]])

    await database.write(note)
    await database.write(note, durable=True)
    await database.write(note)
    held = await hold(database)
    grouped = [asyncio.ensure_future(database.write(note, durable=durable)) for durable in (False, True)]
    await asyncio.sleep(0)
    await held.release()
    await asyncio.gather(*grouped)
    assert modes == ["NORMAL", "FULL", "NORMAL", "FULL", "FULL"]


async def test_a_write_that_nobody_waits_for_any_more_stands(database: Database) -> None:
    held = await hold(database)
    write = asyncio.ensure_future(database.write(insert("a")))
    await asyncio.sleep(0)
    write.cancel()
    await held.release()
    await database.write(insert("b"))
    assert await names(database) == ["a", "b"]


async def test_reading_cannot_write(database: Database) -> None:
    with pytest.raises(StoreError, match="readonly"):
        await database.read(insert("a"))


# --- migrations


async def test_a_fresh_file_gets_the_newest_schema_in_a_private_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "db"
    database = await Database.open(path)
    scripts = [item for item in resources.files("bot.store").joinpath("migrations").iterdir() if item.name[0].isdigit()]
    version = await database.read(lambda conn: conn.execute("PRAGMA user_version").fetchone()[0])
    assert version == len(scripts)
    mode = await database.read(lambda conn: conn.execute("PRAGMA journal_mode").fetchone()[0])
    assert mode == "wal"
    assert path.parent.stat().st_mode & 0o077 == 0
    await database.close()
    again = await Database.open(path)
    await again.close()


async def test_a_migration_that_fails_leaves_no_half(tmp_path: Path) -> None:
    path = tmp_path / "db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE outbox (x)")  # version 0 with a table in the way of the first script
    conn.commit()
    with pytest.raises(StoreError, match="outbox already exists"):
        await Database.open(path)
    tables = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert tables == ["outbox"]
    assert conn.execute("PRAGMA user_version").fetchone() == (0,)
    conn.close()


async def test_a_newer_schema_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "db"
    await (await Database.open(path)).close()
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA user_version = 99")
    conn.close()
    with pytest.raises(StoreError, match=r"schema version 99, this version of dutiful knows .*newer") as caught:
        await Database.open(path)
    assert not isinstance(caught.value, StoreUnavailable)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(b"these are somebody's notes, not a database\n" * 50)
    with pytest.raises(StoreError, match="not a database"):
        await Database.open(path)
    assert path.read_bytes().startswith(b"these are somebody's notes")


# --- disks


async def test_a_folder_that_cannot_be_made_is_said() -> None:
    with pytest.raises(StoreUnavailable):
        await Database.open(Path("/proc/dutiful/db"))  # not even root can make it


async def test_a_file_where_the_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        await Database.open(tmp_path / "file" / "db")


async def test_a_full_disk_refuses_the_write_and_loses_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await SqlStore.open(tmp_path / "db", clock, exclusive=True)
    await store.inbox.accept(inbound("kept", "1"))

    def limit(conn: sqlite3.Connection) -> None:
        pages = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {pages + 2}")

    await store._database.write(limit)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.inbox.accept(inbound("x" * 200_000, "2"))
    assert (await store.overview.status()).inbox_queued == 1
    await store._database.write(lambda conn: conn.execute("PRAGMA max_page_count = 1000000").close())
    await store.inbox.accept(inbound("x" * 200_000, "2"))
    await store.close()
    async with opened(tmp_path / "db", clock, exclusive=True) as again:
        (turn,) = await again.turns.claim(limit=9)
        assert turn.messages[0].message.text == "kept"


async def test_a_database_somebody_else_holds_is_unavailable_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.store.database.BUSY_TIMEOUT_S", 0.05)
    database = await Database.open(tmp_path / "db")
    other = sqlite3.connect(tmp_path / "db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await database.write(insert("a"))
    other.execute("ROLLBACK")
    other.close()
    await database.write(insert("b"))
    assert await names(database) == ["b"]
    await database.close()


# --- queries that must not walk whole tables


@pytest.mark.parametrize("analyzed", [False, True])
async def test_the_busy_queries_use_indexes_among_ten_thousand_rows(tmp_path: Path, analyzed: bool) -> None:
    clock = FakeClock()
    store = await SqlStore.open(tmp_path / "db", clock, exclusive=True, max_waiting=100_000)

    def fill(conn: sqlite3.Connection) -> None:
        conn.executemany(
            "INSERT INTO inbox (lane, channel, account, chat_id, message_id, variant, origin, sender_id, chat_type,"
            " text, body, received_us, state) VALUES ('memory:c1', 'memory', 'bot', 'c1', ?, '', 'user', '111',"
            " 'private', 'hi', '{}', 0, 'done')",
            [(f"old{number}",) for number in range(10_000)],
        )
        conn.executemany(
            "INSERT INTO outbox (order_key, rate_key, channel, chat_id, kind, text, body, state, created_us, ended_us)"
            " VALUES ('memory:c1', 'memory:c1', 'memory', 'c1', 'reply', 'hi', '{}', 'sent', 0, 0)",
            [()] * 10_000,
        )
        if analyzed:
            conn.execute("ANALYZE")

    await store._database.write(fill)
    await store._database.close()
    store = await SqlStore.open(tmp_path / "db", clock, exclusive=True, max_waiting=100_000)
    statements: list[str] = []
    await store._database.write(lambda conn: conn.set_trace_callback(statements.append))
    await store.inbox.accept(inbound("new", "n1"))
    (turn,) = await store.turns.claim(limit=8)
    await store.outbox.put(outbound("new"))
    await store.outbox.claim(limit=8, channels=MEMORY)
    await store.turns.release(turn)
    await store.turns.claim(limit=8)
    await store.jobs.next_due_us()
    await store._database.write(lambda conn: conn.set_trace_callback(None))

    def walks(conn: sqlite3.Connection) -> list[str]:
        found = []
        for sql in statements:
            if not sql.startswith(("SELECT", "UPDATE", "DELETE")):
                continue
            for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}"):
                detail = str(row[3])
                big = any(
                    f"SCAN {name}" in detail for name in ("inbox", "outbox", "i", "o", "p", "turns", "t", "history")
                )
                if big and "INDEX" not in detail:
                    found.append(f"{detail}: {sql}")
        return found

    found = await store._database.read(walks)
    await store.close()
    assert len([sql for sql in statements if sql.startswith("SELECT")]) > 5
    assert found == []


async def test_a_closed_database_answers_at_once(database: Database) -> None:
    await database.write(insert("a"))
    await database.close()
    async with asyncio.timeout(10):
        for _ in range(2):  # the second one used to wait for a thread that was gone
            with pytest.raises(StoreError, match="the database is closed"):
                await database.write(insert("b"))
            with pytest.raises(StoreError, match="the database is closed"):
                await database.read(lambda conn: None)
