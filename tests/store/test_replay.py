"""The newest rows of a conversation: kept between turns, complete, and with a beginning that stays."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.records import Message
from bot.store.replay import ReplayedRows
from bot.store.store import SqlStore
from tests.support.clock import FakeClock
from tests.support.conversations import said, user
from tests.support.stored_rows import store_rows

LIMIT_TOKENS = 100
ROW = user("x" * 70)  # 100 bytes of JSON: six of them are the limit, nine the most that a window holds


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = await SqlStore.open(tmp_path / "dutiful.db", FakeClock(), exclusive=True)
    yield store
    await store.close()


async def window(store: SqlStore, session_id: int = 1, limit_tokens: int = LIMIT_TOKENS) -> list[dict[str, object]]:
    return (await store.history.window(session_id, limit_tokens=limit_tokens)).rows


async def test_rows_seen_before_are_not_read_again_and_new_ones_are(store: SqlStore) -> None:
    await store_rows(store, 1, [user("one"), user("two")])
    before = await window(store)
    await store_rows(store, 1, [user("three")])
    await store_rows(store, 2, [user("elsewhere")])
    after = await window(store)
    assert after == [user("one"), user("two"), user("three")]
    assert after[0] is before[0]
    assert before == [user("one"), user("two")]  # the list that was given away is the caller's


async def test_the_beginning_stays_for_many_turns_and_never_less_is_given_than_asked_for(store: SqlStore) -> None:
    numbered = [user(f"{number:04}" + "x" * 66) for number in range(60)]
    beginnings = []
    for count, row in enumerate(numbered, start=1):
        await store_rows(store, 1, [row])
        rows = await window(store)
        assert rows == numbered[count - len(rows) : count]
        assert min(count, 6) <= len(rows) <= 9
        beginnings.append(count - len(rows))
    assert len(set(beginnings)) <= 60 // 3


async def test_a_long_turn_is_replayed_from_its_message_on(store: SqlStore) -> None:
    turn = [user("go"), *([said("x" * 67)] * 40)]
    await store_rows(store, 1, [*([ROW] * 9), *turn])
    assert await window(store) == turn
    await store_rows(store, 1, [ROW] * 2)
    assert await window(store) == [*turn, ROW, ROW]
    await store_rows(store, 1, [ROW] * 5)
    assert await window(store) == [ROW] * 7


async def test_a_turn_without_end_is_not_replayed_without_end(store: SqlStore) -> None:
    await store_rows(store, 1, [user("go"), *([said("x" * 67)] * 300)])
    assert 16 * 6 <= len(await window(store)) <= 16 * 6 + 1
    for _ in range(3):
        await store_rows(store, 1, [said("x" * 67)] * 50)
        assert 6 <= len(await window(store)) <= 16 * 6 + 1


async def test_rows_that_were_deleted_are_gone(store: SqlStore) -> None:
    await store_rows(store, 1, [user("one"), user("two"), user("three")])
    await window(store)
    await store._database.write(lambda conn: conn.execute("DELETE FROM history WHERE id = 2").close())
    assert await window(store) == [user("one"), user("three")]
    await store._database.write(lambda conn: conn.execute("DELETE FROM history").close())
    assert await window(store) == []


async def test_another_limit_and_a_summary_give_another_window(store: SqlStore) -> None:
    await store_rows(store, 1, [ROW] * 30)
    assert len(await window(store)) == 7
    assert len(await window(store, limit_tokens=200)) == 13
    insert = (
        "INSERT INTO sessions (id, lane, created_us, used_us, summary, summary_upto) VALUES (1, 'l', 0, 0, 's', 28)"
    )
    await store._database.write(lambda conn: conn.execute(insert).close())
    assert len(await window(store)) == 2


async def test_what_is_no_message_is_left_out(store: SqlStore, capsys: pytest.CaptureFixture[str]) -> None:
    await store_rows(store, 1, ["{", user("one"), b"\xff", "null", "[]", '"text"', user("two")])
    assert await window(store) == [user("one"), user("two")]
    await store_rows(store, 1, ["nonsense", user("three")])
    assert await window(store) == [user("one"), user("two"), user("three")]
    assert capsys.readouterr().err.count("a row of history is no message") == 6  # each is logged once


async def test_memory_is_bounded_over_all_sessions(store: SqlStore) -> None:
    replayed = ReplayedRows(kept_bytes=1_000)

    async def first(session_id: int) -> Message:
        def work(conn: sqlite3.Connection) -> list[Message]:
            return replayed.read(conn, session_id, after_id=0, limit_tokens=LIMIT_TOKENS)

        return (await store._database.read(work))[0]

    for session_id in range(1, 31):
        await store_rows(store, session_id, [ROW] * 3)
    kept = {session_id: await first(session_id) for session_id in range(1, 31)}
    assert await first(30) is kept[30]
    assert await first(29) is kept[29]
    assert await first(1) is not kept[1]
