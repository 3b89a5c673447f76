"""Marks and versions of memories, and what is due to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.interfaces import Store
from bot.memories import HomeKind, MemoryHome, MemoryStep
from bot.messages import ChatType
from bot.records import Ending, Turn, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, DAY_S, OTHER_CHAT, inbound, opened, texts

ANN = MemoryHome(kind=HomeKind.PERSON, channel="memory", ident="111")
GROUP = MemoryHome(kind=HomeKind.CHAT, channel="memory", ident="c2")


async def answered(store: Store, text: str, message_id: str, **fields: object) -> Turn:
    """Let a turn answer a message, with a row of each."""
    await store.inbox.accept(inbound(text, message_id, **fields))  # type: ignore[arg-type]
    (turn,) = await store.turns.claim(limit=1)
    rows = ({"role": "user", "content": text}, {"role": "assistant", "content": f"re {text}"})
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=rows))
    return turn


async def test_what_is_due_is_told_by_person_and_by_group(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", FakeClock(), exclusive=True) as store:
        await answered(store, "a", "1")
        await answered(store, "b", "2", sender_id="222", address=OTHER_CHAT, chat_type=ChatType.GROUP)
        await answered(store, "c", "3")
        due = {item.home: item for item in await store.memory.due()}
        assert set(due) == {ANN, GROUP}
        assert (due[ANN].after, due[ANN].upto) == (0, 6)
        assert (due[GROUP].after, due[GROUP].upto) == (0, 4)
        rows = await store.memory.rows(ANN, after=0, upto=6, limit=100)
        assert texts([row.message for row in rows]) == ["a", "re a", "c", "re c"]
        assert {row.sender_id for row in rows} == {"111"}
        assert await store.memory.due(["elsewhere"]) == []


async def test_a_run_is_queued_once_for_each_home_and_time_and_not_beside_another(tmp_path: Path) -> None:
    clock = FakeClock()
    async with opened(tmp_path / "s.db", clock, exclusive=True) as store:
        await answered(store, "a", "1")
        due = await store.memory.due()
        assert await store.memory.plan(due, due_us=1) == 1
        assert await store.memory.plan(due, due_us=1) == 0
        assert await store.memory.plan(due, due_us=2) == 0  # the first one still waits
        (turn,) = await store.turns.claim(limit=5)
        step = MemoryStep(home=ANN, after=0, upto=2, body="- a", reason="run")
        await store.turns.finish(turn, Ending(state=TurnState.DONE, memory=step))
        assert await store.memory.mark(ANN) == 2
        assert await store.memory.due() == []
        assert await store.memory.plan(due, due_us=3) == 0  # found due before it was read


async def test_a_mark_that_has_moved_meanwhile_is_left_where_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", FakeClock(), exclusive=True) as store:
        await answered(store, "a", "1")
        await store.memory.plan(await store.memory.due(), due_us=1)
        await answered(store, "b", "2", address=OTHER_CHAT)
        await store.memory.forget(ANN)
        newest = await store.memory.mark(ANN)
        (turn,) = await store.turns.claim(limit=5)
        step = MemoryStep(home=ANN, after=0, upto=2, body=None, reason="run")
        await store.turns.finish(turn, Ending(state=TurnState.DONE, memory=step))
        assert await store.memory.mark(ANN) == newest


@pytest.mark.parametrize("channels", [None, ["console"]])
async def test_the_first_look_sets_the_time_and_planning_moves_it(tmp_path: Path, channels: list[str] | None) -> None:
    """A process that looks after some channels alone must not make another one miss its time."""
    clock = FakeClock()
    async with opened(tmp_path / "s.db", clock, exclusive=True) as store:
        first = clock.now_us()
        assert await store.memory.planned_us(channels) == first
        clock.advance(60)
        other = ["console"] if channels is None else None
        assert await store.memory.planned_us(channels) == first
        assert await store.memory.planned_us(other) == clock.now_us()
        clock.advance(60)
        await store.memory.plan([], due_us=1, channels=channels)
        assert await store.memory.planned_us(channels) == clock.now_us()
        assert await store.memory.planned_us(other) == clock.now_us() - 60_000_000


async def test_lanes_and_rows_of_old_runs_are_pruned_and_marks_stay(tmp_path: Path) -> None:
    clock = FakeClock()
    async with opened(tmp_path / "s.db", clock, exclusive=True) as store:
        await answered(store, "a", "1", address=CHAT)
        await store.memory.plan(await store.memory.due(), due_us=1)
        (turn,) = await store.turns.claim(limit=5)
        step = MemoryStep(home=ANN, after=0, upto=2, body="- a", reason="run")
        rows = ({"role": "user", "content": "run"},)
        await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=rows, memory=step))
        assert (await store.overview.status()).sessions == 1
        clock.advance(40 * DAY_S)
        await store.overview.prune(older_than_us=clock.now_us())
        assert (await store.history.window(turn.session_id, limit_tokens=1_000)).rows == []
        assert await store.memory.mark(ANN) == 2
        assert [item.body for item in await store.memory.versions(ANN, limit=9)] == ["- a"]
