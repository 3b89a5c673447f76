"""What retention takes, in portions, and what it leaves: nothing in use, nothing half, no word in the index."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.interfaces import Unit
from bot.messages import Address, Origin
from bot.records import CallResult, Ending, HistoryQuery, TurnState
from bot.store import maintenance
from bot.store.store import SqlStore
from tests.support.clock import FakeClock
from tests.support.past import begin_new, claimed, converse
from tests.support.stores import CHAT, DAY_S, OTHER_CHAT, inbound, texts

DAY_US = DAY_S * US_PER_S
TABLES = ("sessions", "history", "history_read", "notes", "goals")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqlStore]:
    made = await SqlStore.open(tmp_path / "x.db", clock, exclusive=True)
    yield made
    await made.close()


async def counts(store: SqlStore) -> dict[str, int]:
    def work(conn: sqlite3.Connection) -> dict[str, int]:
        return {table: int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TABLES}

    return await store._database.read(work)


async def retire(store: SqlStore, clock: FakeClock, *, days: int) -> int:
    return await store.overview.retire(older_than_us=clock.now_us() - days * DAY_US)


async def found(store: SqlStore, word: str, address: Address = CHAT) -> list[str]:
    return [hit.text for hit in (await store.history_search.search(address, HistoryQuery(text=word, limit=9))).hits]


async def note(store: SqlStore) -> None:
    turn = await claimed(store, inbound("note it", "note"))

    def work(unit: Unit) -> CallResult:
        unit.put_note(turn.session_id, "k", "v")
        return CallResult(call_id="c", text="")

    await store.steps.once(turn, "c", work)
    await store.turns.finish(turn, Ending(state=TurnState.DONE))


async def test_a_silent_conversation_goes_with_its_notes_and_words(store: SqlStore, clock: FakeClock) -> None:
    await converse(store, "the zebra crossed")
    await note(store)
    await begin_new(store)
    clock.advance(9 * DAY_S)
    await converse(store, "the zebra is back")
    assert await found(store, "zebra") == ["the zebra is back", "the zebra crossed"]
    assert await retire(store, clock, days=10) == 0
    clock.advance(2 * DAY_S)
    assert await retire(store, clock, days=10) > 0
    assert await found(store, "zebra") == ["the zebra is back"]
    assert await found(store, "crossed") == []
    assert await counts(store) == {"sessions": 1, "history": 2, "history_read": 1, "notes": 0, "goals": 0}
    integrity = "INSERT INTO history_words (history_words, rank) VALUES ('integrity-check', 0)"
    await store._database.write(lambda conn: conn.execute(integrity).close())


async def test_the_index_forgets_what_was_indexed_and_only_that(store: SqlStore, clock: FakeClock) -> None:
    """Rows that came after a chat's last search are not in the index, and must not be taken out of it."""
    await converse(store, "zebra one")
    assert await found(store, "zebra") == ["zebra one"]
    await converse(store, "zebra two", number=1)
    await converse(store, "zebra elsewhere", address=OTHER_CHAT)
    clock.advance(3 * DAY_S)
    await converse(store, "zebra kept", address=OTHER_CHAT, number=1)
    assert await retire(store, clock, days=1) > 0
    assert await found(store, "zebra", OTHER_CHAT) == ["zebra kept", "zebra elsewhere"]
    words = await store._database.read(
        lambda conn: conn.execute("SELECT count(*) FROM history_words WHERE history_words MATCH 'zebra'").fetchone()
    )
    assert words == (2,)


async def test_a_chats_current_conversation_goes_too_once_it_is_silent_long_enough(
    store: SqlStore, clock: FakeClock
) -> None:
    await converse(store, "long ago")
    clock.advance(3 * DAY_S)
    await retire(store, clock, days=2)
    assert (await counts(store))["history"] == 0
    turn = await converse(store, "anew", number=1)
    assert texts((await store.history.window(turn.session_id, limit_tokens=99)).rows) == ["anew", "yes"]


@pytest.mark.parametrize("use", ["recent", "turn runs", "message waits"])
async def test_what_is_in_use_stays_however_old_its_rows_are(store: SqlStore, clock: FakeClock, use: str) -> None:
    await converse(store, "long ago")
    clock.advance(99 * DAY_S)
    match use:
        case "recent":
            await converse(store, "now", number=1)
        case "turn runs":
            await claimed(store, inbound("now", "2"))
        case "message waits":
            await store.inbox.accept(inbound("now", "2"))
    before = await counts(store)
    assert await retire(store, clock, days=1) == 0
    assert await counts(store) == before


async def test_an_archived_conversation_in_which_a_late_turn_runs_stays(store: SqlStore, clock: FakeClock) -> None:
    first = await converse(store, "long ago")
    await begin_new(store)
    clock.advance(9 * DAY_S)
    meta = {"outcome": "done", "session_id": first.session_id}
    late = await claimed(store, inbound("the outcome", "o", origin=Origin.SUBAGENT, meta=meta))
    assert late.session_id == first.session_id
    await retire(store, clock, days=1)
    await store.turns.finish(late, Ending(state=TurnState.DONE, rows=({"role": "user", "content": "came late"},)))
    assert "came late" in texts((await store.history.window(first.session_id, limit_tokens=999)).rows)


async def test_a_long_conversation_goes_in_portions_and_is_out_of_reach_from_the_first(
    store: SqlStore, clock: FakeClock
) -> None:
    turn = await converse(store, "long ago")
    rows = [(turn.session_id, turn.id, '{"role":"user","content":"more"}', clock.now_us())] * (maintenance.PORTION + 5)

    def fill(conn: sqlite3.Connection) -> None:
        conn.executemany("INSERT INTO history (session_id, turn_id, body, created_us) VALUES (?,?,?,?)", rows)

    await store._database.write(fill)
    await begin_new(store)
    await converse(store, "kept")
    clock.advance(9 * DAY_S)
    await converse(store, "kept too", number=1)
    limit = clock.now_us() - DAY_US
    assert await store._database.write(lambda conn: maintenance.retire(conn, limit)) == 1 + maintenance.PORTION
    assert (await counts(store))["history"] == 4 + 2 + 5  # the process may die here
    assert [item.session.title for item in (await store.sessions.page(CHAT, limit=9)).entries] == ["kept"]
    await store.overview.retire(older_than_us=None)  # and come back without any retention
    assert await counts(store) == {"sessions": 1, "history": 4, "history_read": 0, "notes": 0, "goals": 0}


async def test_without_retention_everything_stays_up_to_a_number_of_archived_conversations(
    store: SqlStore, clock: FakeClock
) -> None:
    for number in range(4):
        await converse(store, f"talk {number}", number=number)
        await begin_new(store, number=number)
        clock.advance(DAY_S)
    await converse(store, "now", number=9)
    await converse(store, "elsewhere", address=OTHER_CHAT)
    await store.overview.retire(older_than_us=None)
    assert (await store.sessions.page(CHAT, limit=9)).total == 5
    await store._database.write(lambda conn: maintenance.retire(conn, None, max_archived=2))
    left = [item.session.title for item in (await store.sessions.page(CHAT, limit=9)).entries]
    assert left == ["now", "talk 3", "talk 2"]
    assert (await store.sessions.page(OTHER_CHAT, limit=9)).total == 1
