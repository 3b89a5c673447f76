"""What the steps of a turn promise: recorded as they happen, effects exactly once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.errors import ScheduleError
from bot.interfaces import Store, Unit
from bot.messages import ToolCall
from bot.records import CallResult, CallState, Ending, Subagent, SubagentState, Turn, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, MEMORY, as_row, asks_for, inbound, opened, outbound, reminder_at


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


@pytest.fixture
async def turn(store: Store) -> Turn:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    return turn


async def test_calls_are_recorded_in_order_and_move_on_one_way(store: Store, turn: Turn) -> None:
    rows, calls = asks_for("z", "a")
    await store.steps.record_reply(turn, rows, calls)
    assert [(item.call.id, item.state) for item in await store.steps.calls_of(turn, 0)] == [
        ("z", CallState.PENDING),
        ("a", CallState.PENDING),
    ]
    await store.steps.start_call(turn, "z")
    await store.steps.record_result(turn, CallResult(call_id="z", text="done", is_error=True))
    await store.steps.start_call(turn, "z")
    first, second = await store.steps.calls_of(turn, 0)
    assert (first.state, first.result) == (CallState.DONE, CallResult(call_id="z", text="done", is_error=True))
    assert (second.state, second.result) == (CallState.PENDING, None)


async def test_a_step_closes_with_its_results_and_rows(store: Store, turn: Turn) -> None:
    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, [{"role": "user", "content": "hi"}, *rows], calls)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    result = CallResult(call_id="a", text="seen", blocks=(picture,))
    tool_row = {"role": "tool", "tool_call_id": "a", "content": "seen"}
    after, joined = await store.steps.record_step(turn, [result], [tool_row], as_row)
    assert (after.step, joined) == (1, [])
    assert await store.steps.calls_of(after, 1) == []
    assert (await store.steps.calls_of(after, 0))[0].result == result
    assert (await store.history.window(turn.session_id, limit_tokens=1000)).rows == [
        {"role": "user", "content": "hi"},
        *rows,
        tool_row,
    ]


async def test_whatever_a_model_sends_is_recorded(store: Store, turn: Turn) -> None:
    strange = ToolCall(id="a", name="exec\ud800", arguments='{"x": "\udfff\x00')
    row = {"role": "assistant", "content": "\ud83d", 3: 2**70}
    await store.steps.record_reply(turn, [row], [strange])  # type: ignore[list-item]
    result = CallResult(call_id="a", text="file \udcff.txt", blocks=({"type": "text", "text": "\ud800"},))
    await store.steps.record_result(turn, result)
    (record,) = await store.steps.calls_of(turn, 0)
    assert (record.call.name, record.call.arguments) == ("exec\ufffd", '{"x": "\ufffd')
    assert record.result == CallResult(
        call_id="a", text="file \ufffd.txt", blocks=({"type": "text", "text": "\ufffd"},)
    )
    (kept,) = (await store.history.window(turn.session_id, limit_tokens=1000)).rows
    assert kept["content"] == "\ufffd"


async def test_an_effect_and_its_result_are_one_and_happen_once(store: Store, turn: Turn, clock: FakeClock) -> None:
    ran = []

    def work(unit: Unit) -> CallResult:
        ran.append(unit.now_us())
        outbox_id = unit.put_outbound(outbound("from the tool"))
        return CallResult(call_id="a", text=f"queued {outbox_id}")

    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, rows, calls)
    first = await store.steps.once(turn, "a", work)
    clock.advance(1)
    assert await store.steps.once(turn, "a", work) == first
    assert ran == [clock.now_us() - US_PER_S]
    ((row,), _) = await store.outbox.claim(limit=9, channels=MEMORY)
    assert (row.message.text, first.text) == ("from the tool", f"queued {row.id}")
    (record,) = await store.steps.calls_of(turn, 0)
    assert (record.state, record.result) == (CallState.DONE, first)


async def test_an_effect_that_fails_leaves_nothing_and_may_be_tried_again(store: Store, turn: Turn) -> None:
    def half(unit: Unit) -> CallResult:
        unit.put_outbound(outbound("half"))
        raise ScheduleError("no")

    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, rows, calls)
    with pytest.raises(ScheduleError):
        await store.steps.once(turn, "a", half)
    assert await store.outbox.next_due_us(MEMORY) is None
    result = await store.steps.once(turn, "a", lambda unit: CallResult(call_id="a", text="well"))
    assert result.text == "well"


async def test_a_command_has_its_effect_once_and_is_no_call_of_the_model(store: Store, turn: Turn) -> None:
    for _ in range(2):
        await store.steps.once(turn, "command", lambda unit: CallResult(call_id="command", text=str(unit.now_us())))
    assert await store.steps.calls_of(turn, 0) == []


async def test_a_unit_can_do_what_tools_need(store: Store, turn: Turn, clock: FakeClock) -> None:
    due_us = clock.now_us() + 60 * US_PER_S
    seen: list[object] = []

    def work(unit: Unit) -> CallResult:
        job = unit.add_job(reminder_at(due_us), limit_per_chat=2)
        gone = unit.add_job(reminder_at(due_us, "other"), limit_per_chat=2)
        seen.append([item.text for item in unit.list_jobs(CHAT)])
        seen.append(unit.remove_job(gone.id))
        seen.append(unit.remove_job(gone.id))
        unit.add_subagent(
            Subagent(
                id="sub-1",
                address=CHAT,
                parent_lane=CHAT.key,
                label="l",
                task="t",
                state=SubagentState.RUNNING,
                reply_to="",
                creator_id="111",
                chat_type=job.chat_type,
                started_us=unit.now_us(),
            )
        )
        seen.append(unit.count_subagents(CHAT))
        unit.put_inbound(inbound("task", "sub-1", lane="sub:sub-1"))
        return CallResult(call_id="a", text=job.id)

    result = await store.steps.once(turn, "a", work)
    assert sorted(seen.pop(0)) == ["other", "stretch"]  # type: ignore[call-overload]
    assert seen == [True, False, 1]
    assert [job.id for job in await store.jobs.list(CHAT)] == [result.text]
    subagent = await store.subagents.get("sub-1")
    assert subagent is not None
    assert (subagent.task, subagent.state) == ("t", SubagentState.RUNNING)
    assert await store.subagents.get("sub-2") is None
    (task,) = await store.turns.claim(limit=9)
    await store.turns.finish(
        task,
        Ending(state=TurnState.DONE, subagent_id="sub-1", subagent_state=SubagentState.UNFINISHED),
    )
    ended = await store.subagents.get("sub-1")
    assert ended is not None
    assert ended.state is SubagentState.UNFINISHED
