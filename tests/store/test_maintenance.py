"""What housekeeping forgets and what it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bot.clock import US_PER_S
from bot.messages import Origin, ToolCall
from bot.records import CallResult, Ending, JobState, RunState, TurnState
from bot.scheduler import JobComposer
from bot.store.maintenance import PORTION
from bot.store.store import SqlStore
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, as_row, inbound, outbound, reminder_at

DAY_US = 86_400 * US_PER_S
TABLES = ("inbox", "outbox", "turns", "calls", "runs", "jobs", "sessions", "lanes", "history", "subagents")


async def count_rows(store: SqlStore) -> dict[str, int]:
    def work(conn: Any) -> dict[str, int]:
        return {table: conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}

    return await store._database.read(work)


async def test_a_settled_month_leaves_conversations_and_dead_letters_only(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await SqlStore.open(tmp_path / "x.db", clock, exclusive=True)
    try:
        await store.inbox.accept(inbound("use a tool"))
        [turn] = await store.turns.claim(limit=1)
        rows = [{"role": "user", "content": "use a tool"}, {"role": "assistant", "content": "doing"}]
        await store.steps.record_reply(turn, rows, [ToolCall(id="a", name="t", arguments="{}")])
        result = CallResult(call_id="a", text="done")
        turn, _ = await store.steps.record_step(turn, [result], [{"role": "tool", "content": "done"}], as_row)
        await store.turns.finish(turn, Ending(state=TurnState.DONE, outbound=(outbound("answer"),)))
        run = inbound("a run", "run-1", origin=Origin.JOB, lane="job:x:1")
        await store.inbox.accept(run)
        [side] = await store.turns.claim(limit=1)
        await store.turns.finish(side, Ending(state=TurnState.DONE, rows=({"role": "user", "content": "a run"},)))
        await store.jobs.add(reminder_at(clock.now_us() + US_PER_S), limit_per_chat=9)
        clock.advance(2)
        assert await store.jobs.fire(JobComposer("en"), catch_up_max_age_us=DAY_US) == 1
        rows_out, _ = await store.outbox.claim(limit=9, channels=[CHAT.channel])
        for row in rows_out:
            await store.outbox.settle(row.id, ["1"])
        [late], _ = await store.outbox.claim(limit=9, channels=[CHAT.channel])
        await store.outbox.bury(late.id, "refused")
        clock.advance(31 * 86_400)

        await store.overview.prune(older_than_us=clock.now_us() - 30 * DAY_US)

        left = await count_rows(store)
        assert left["history"] == 3
        assert left["sessions"] == 1
        assert left["lanes"] == 1
        assert (await store.overview.status()).dead_letter_count == 1
        assert {name: left[name] for name in ("inbox", "turns", "calls", "runs", "jobs")} == dict.fromkeys(
            ("inbox", "turns", "calls", "runs", "jobs"), 0
        )
        assert left["outbox"] == 1
    finally:
        await store.close()


async def test_what_still_runs_or_waits_is_kept_however_old_it_is(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await SqlStore.open(tmp_path / "x.db", clock, exclusive=True)
    try:
        await store.inbox.accept(inbound("a run", "run-1", origin=Origin.JOB, lane="job:x:1"))
        [side] = await store.turns.claim(limit=1)
        await store.inbox.accept(inbound("waits", "2"))
        await store.outbox.put(outbound("waits"))
        job = await store.jobs.add(reminder_at(clock.now_us() + 90 * DAY_US), limit_per_chat=9)
        before = await count_rows(store)
        clock.advance(60 * 86_400)
        assert await store.overview.prune(older_than_us=clock.now_us() - 30 * DAY_US) == 0
        assert await count_rows(store) == before
        assert (await store.jobs.get(job.id) or job).state is JobState.ACTIVE
        await store.turns.finish(side, Ending(state=TurnState.DONE, run_id=1, run_state=RunState.OK))
    finally:
        await store.close()


async def test_more_than_a_portion_goes_in_several_transactions(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await SqlStore.open(tmp_path / "x.db", clock, exclusive=True)
    try:

        def fill(conn: Any) -> None:
            conn.executemany(
                "INSERT INTO runs (job_id, due_us, fired_us, state, ended_us) VALUES ('j', ?, 1, 'ok', 1)",
                [(index,) for index in range(PORTION + 5)],
            )

        await store._database.write(fill)
        assert await store.overview.prune(older_than_us=clock.now_us()) == PORTION + 5
    finally:
        await store.close()
