"""What a turn costs does not grow with the conversation it belongs to: rows are found, never searched for."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bot.interfaces import Unit
from bot.records import CallResult, Ending, TurnState
from bot.store.store import SqlStore
from tests.support.clock import FakeClock
from tests.support.past import claimed, converse
from tests.support.stores import as_row, asks_for, inbound

LONG, SHORT = 5_000, 10
ALLOWED = 1.3
REPLAYED_TOKENS = 100  # less than the short conversation has: the window itself is the same


async def steps_of_a_turn(folder: Path, rows: int) -> int:
    """Return how many steps SQLite's machine takes for one turn with a call, in hundreds."""
    clock = FakeClock()
    store = await SqlStore.open(folder / f"{rows}.db", clock, exclusive=True)
    try:
        turn = await converse(store, "hello")
        filler = '{"role":"user","content":"' + "words " * 20 + '"}'

        def fill(conn: sqlite3.Connection) -> None:
            values = [(turn.session_id, turn.id, filler, clock.now_us())] * rows
            conn.executemany("INSERT INTO history (session_id, turn_id, body, created_us) VALUES (?,?,?,?)", values)

        await store._database.write(fill)
        ticks = [0]

        def tick() -> int:
            ticks[0] += 1
            return 0

        def count(conn: sqlite3.Connection) -> None:
            conn.set_progress_handler(tick, 1)

        await store._database.write(count)
        await store._database.read(count)
        turn = await claimed(store, inbound("again", "2"))
        await store.history.window(turn.session_id, limit_tokens=REPLAYED_TOKENS)
        reply, calls = asks_for("a")
        await store.steps.record_reply(turn, reply, calls)
        turn, _ = await store.steps.record_step(turn, [CallResult(call_id="a", text="x")], reply, as_row)
        ending = Ending(state=TurnState.DONE, rows=({"role": "assistant", "content": "done"},), context_tokens=9)
        await store.turns.finish(turn, ending)
        return ticks[0]
    finally:
        await store.close()


async def test_a_turn_takes_the_same_steps_with_5000_rows_as_with_10(tmp_path: Path) -> None:
    short, long = await steps_of_a_turn(tmp_path, SHORT), await steps_of_a_turn(tmp_path, LONG)
    assert short > 100
    assert long <= short * ALLOWED


async def test_the_verbs_of_conversations_scan_no_table(tmp_path: Path) -> None:
    """Every statement of listing, switching and `/status` goes through an index."""
    store = await SqlStore.open(tmp_path / "x.db", FakeClock(), exclusive=True)
    try:
        turn = await converse(store, "hello")
        seen: list[str] = []
        await store._database.write(lambda conn: conn.set_trace_callback(seen.append))
        await store._database.read(lambda conn: conn.set_trace_callback(seen.append))
        await store.sessions.page(turn.address, limit=9)
        await store.sessions.state(turn.address)
        await store.overview.usage(turn.address, since_us=0)
        claim = await claimed(store, inbound("/sessions 1", "2"))
        seen.clear()

        def work(unit: Unit) -> CallResult:
            unit.find_session(claim.address, number=1)
            unit.find_session(claim.address, session_id=1)
            unit.switch_session(claim.address, 1)
            unit.goals_of(claim.address)
            return CallResult(call_id="c", text="")

        await store.steps.once(claim, "c", work)
        await store.sessions.page(turn.address, limit=9)
        await store.sessions.state(turn.address)
        await store.overview.usage(turn.address, since_us=0)
        statements = [sql for sql in seen if sql.startswith(("SELECT", "UPDATE"))]
        assert len(statements) > 10

        def plans(conn: sqlite3.Connection) -> list[str]:
            conn.set_trace_callback(None)
            found = [str(row[3]) for sql in statements for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}")]
            return [plan for plan in found if plan.startswith("SCAN")]

        assert await store._database.read(plans) == []
    finally:
        await store.close()
