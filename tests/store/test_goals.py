"""What the store promises of sustained goals: one in a session, its next turn queued once, people first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.agent.goal_words import continuation
from bot.clock import US_PER_S
from bot.errors import StaleLease, StoreError
from bot.interfaces import Store
from bot.messages import ChatType, Origin
from bot.records import CallResult, Ending, Goal, GoalBudget, GoalState, GoalStep, PlanItem, Turn, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, OTHER_CHAT, as_row, asks_for, inbound, opened

DONE = Ending(state=TurnState.DONE)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


@pytest.fixture
async def turn(store: Store) -> Turn:
    await store.inbox.accept(inbound("go"))
    return await claimed(store)


async def claimed(store: Store) -> Turn:
    (turn,) = await store.turns.claim(limit=1)
    return turn


def goal_of(turn: Turn, **fields: Any) -> Goal:
    made = Goal(
        id="goal-1",
        session_id=turn.session_id,
        address=turn.address,
        chat_type=ChatType.PRIVATE,
        creator_id="111",
        reply_to="7",
        objective="count to three",
        plan=(PlanItem(text="one", done=True), PlanItem(text="two")),
        budget=GoalBudget(steps=10, minutes=5, tokens=1_000),
        started_us=17,
    )
    return replace(made, **fields)


async def add(store: Store, turn: Turn, goal: Goal, call_id: str = "g") -> None:
    def work(unit: Any) -> CallResult:
        unit.add_goal(goal)
        return CallResult(call_id=call_id, text="")

    await store.steps.once(turn, call_id, work)


async def save(store: Store, turn: Turn, goal: Goal, call_id: str = "s") -> None:
    def work(unit: Any) -> CallResult:
        unit.save_goal(goal)
        return CallResult(call_id=call_id, text="")

    await store.steps.once(turn, call_id, work)


def goes_on(goal: Goal, number: int, **fields: Any) -> Ending:
    """Return the ending of a turn after which the goal's turn `number` follows."""
    step = GoalStep(goal_id=goal.id, state=GoalState.OPEN, inbound=continuation(goal, number), **fields)
    return Ending(state=TurnState.DONE, goal=step)


async def test_a_goal_comes_back_as_it_was_stored_with_the_step_that_opened_it(store: Store, turn: Turn) -> None:
    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, rows, calls)
    turn, _ = await store.steps.record_step(turn, [CallResult(call_id="a", text="")], [], as_row)
    await add(store, turn, goal_of(turn))
    stored = replace(goal_of(turn), opened_turn=turn.id, opened_step=1)
    assert await store.goals.current(turn.session_id) == stored
    assert await store.goals.get("goal-1") == stored
    assert await store.goals.get("goal-2") is None
    assert await store.goals.current(turn.session_id + 1) is None


async def test_a_session_has_one_goal_under_way(store: Store, turn: Turn) -> None:
    await add(store, turn, goal_of(turn))
    with pytest.raises(StoreError):
        await add(store, turn, goal_of(turn, id="goal-2"), "h")
    await save(store, turn, goal_of(turn, state=GoalState.DONE, recap="three"))
    await add(store, turn, goal_of(turn, id="goal-2"), "h")
    first, second = await store.goals.get("goal-1"), await store.goals.current(turn.session_id)
    assert first is not None
    assert second is not None
    assert (first.state, first.recap, second.id) == (GoalState.DONE, "three", "goal-2")


async def test_the_end_of_a_turn_counts_and_queues_the_next_one_which_knows_the_goal(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    assert await store.turns.finish(turn, goes_on(goal, 1, steps=3, tokens=50, idle=1)) is True
    following = await claimed(store)
    message = following.messages[0].message
    assert (message.origin, message.text, message.reply_to, message.sender_id) == (
        Origin.GOAL,
        "count to three",
        "7",
        "111",
    )
    assert (following.lane, following.session_id, following.meta["goal_id"]) == (CHAT.key, turn.session_id, "goal-1")
    seen = following.goal
    assert seen is not None
    assert (seen.steps, seen.tokens, seen.idle, seen.turns) == (3, 50, 1, 0)
    await store.turns.finish(following, goes_on(goal, 2, is_turn=True, steps=2, tokens=5))
    after = await store.goals.get("goal-1")
    assert after is not None
    assert (after.steps, after.tokens, after.idle, after.turns) == (5, 55, 0, 1)


async def test_a_turn_that_resumes_knows_the_goal_too(tmp_path: Path, store: Store, turn: Turn) -> None:
    await add(store, turn, goal_of(turn))
    assert turn.goal is None
    async with opened(tmp_path / "db", FakeClock(), exclusive=True) as other:
        resumed = await claimed(other)
        assert resumed.id == turn.id
        assert resumed.goal is not None


async def test_messages_of_people_go_before_the_next_turn_of_a_goal(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    await store.turns.finish(turn, goes_on(goal, 1))
    await store.inbox.accept(inbound("first", "2", sender_id="222"))
    first = await claimed(store)
    assert first.messages[0].message.text == "first"
    await store.inbox.accept(inbound("too", "3", sender_id="222"))
    rows, calls = asks_for("a")
    await store.steps.record_reply(first, rows, calls)
    first, joined = await store.steps.record_step(first, [CallResult(call_id="a", text="")], [], as_row)
    assert joined == [{"role": "user", "content": "too"}]
    await store.turns.finish(first, goes_on(goal, 1))
    assert (await claimed(store)).origin is Origin.GOAL


async def test_a_turn_of_a_goal_is_queued_once_whoever_went_before_it(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    await store.turns.finish(turn, goes_on(goal, 1))
    for number in ("2", "3"):
        await store.inbox.accept(inbound("hi", number))
        await store.turns.finish(await claimed(store), goes_on(goal, 1))
    following = await claimed(store)
    assert following.origin is Origin.GOAL
    await store.turns.finish(following, DONE)
    assert await store.turns.claim(limit=1) == []


async def test_a_worker_that_lost_its_lease_neither_counts_nor_queues(
    store: Store, turn: Turn, clock: FakeClock
) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    clock.advance(31)
    again = await claimed(store)
    with pytest.raises(StaleLease):
        await store.turns.finish(turn, goes_on(goal, 1, steps=9))
    await store.turns.finish(again, goes_on(goal, 1, steps=1))
    stored = await store.goals.get("goal-1")
    assert stored is not None
    assert stored.steps == 1


@pytest.mark.parametrize("state", [state for state in GoalState if not state.is_current])
async def test_the_end_of_a_goal_takes_its_queued_turn_along_and_nothing_else(
    store: Store, turn: Turn, state: GoalState
) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    await store.turns.finish(turn, goes_on(goal, 1))
    await store.inbox.accept(inbound("hi", "2"))
    await store.inbox.accept(inbound("elsewhere", "2", OTHER_CHAT))
    here = await claimed(store)
    await save(store, here, replace(goal, state=state))
    await store.turns.finish(here, goes_on(goal, 2))  # as a turn would that had looked before the goal's end
    elsewhere = await claimed(store)
    assert elsewhere.address == OTHER_CHAT
    assert elsewhere.goal is None
    assert await store.turns.claim(limit=9) == []
    over = await store.goals.get(goal.id)
    assert over is not None
    assert over.state is state


async def test_an_ending_may_close_the_goal(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    await store.turns.finish(turn, goes_on(goal, 1))
    following = await claimed(store)
    step = GoalStep(goal_id=goal.id, state=GoalState.SPENT, is_turn=True, steps=4)
    assert await store.turns.finish(following, Ending(state=TurnState.DONE, goal=step)) is False
    assert await store.goals.current(turn.session_id) is None
    closed = await store.goals.get("goal-1")
    assert closed is not None
    assert (closed.state, closed.steps) == (GoalState.SPENT, 4)


async def test_a_paused_goal_is_under_way_but_nothing_is_queued(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    step = GoalStep(goal_id=goal.id, state=GoalState.PAUSED)
    assert await store.turns.finish(turn, Ending(state=TurnState.FAILED, goal=step)) is False
    current = await store.goals.current(turn.session_id)
    assert current is not None
    assert current.state is GoalState.PAUSED
    assert await store.turns.claim(limit=9) == []


async def test_a_turn_that_is_stopped_takes_the_goal_along_that_it_opened(store: Store, turn: Turn) -> None:
    await add(store, turn, goal_of(turn))
    await store.turns.finish(turn, Ending(state=TurnState.STOPPED))
    closed = await store.goals.get("goal-1")
    assert closed is not None
    assert closed.state is GoalState.STOPPED


async def test_a_chat_that_is_closed_to_us_pauses_its_goal_until_it_speaks_again(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    await store.turns.finish(turn, goes_on(goal, 1))
    await store.outbox.close_chat(CHAT, "blocked")
    assert await store.turns.claim(limit=1) == []
    await store.inbox.accept(inbound("on its way", "2"))
    await store.turns.finish(await claimed(store), goes_on(goal, 1))
    assert await store.turns.claim(limit=1) == []
    paused = await store.goals.current(turn.session_id)
    assert paused is not None
    assert paused.state is GoalState.PAUSED
    await store.outbox.reopen_chat(CHAT)
    await store.inbox.accept(inbound("back", "3"))
    await store.turns.finish(await claimed(store), goes_on(goal, 1))
    assert (await claimed(store)).origin is Origin.GOAL


async def test_a_goal_moves_with_its_chat(store: Store, turn: Turn) -> None:
    goal = goal_of(turn)
    await add(store, turn, goal)
    await store.turns.finish(turn, goes_on(goal, 1))
    await store.outbox.migrate_chat("memory", "c1", "c9")
    following = await claimed(store)
    assert (following.address.chat_id, following.lane) == ("c9", "memory:c9")
    assert following.goal is not None
    assert following.goal.address.chat_id == "c9"


async def test_goals_that_are_long_over_are_forgotten_and_open_ones_kept(
    store: Store, turn: Turn, clock: FakeClock
) -> None:
    await add(store, turn, goal_of(turn))
    await save(store, turn, goal_of(turn, state=GoalState.DONE))
    await add(store, turn, goal_of(turn, id="goal-2"), "h")
    clock.advance(10)
    await store.overview.prune(older_than_us=clock.now_us() - 5 * US_PER_S)
    assert await store.goals.get("goal-1") is None
    assert await store.goals.get("goal-2") is not None


async def test_texts_that_cannot_be_stored_are_cleaned(store: Store, turn: Turn) -> None:
    await add(store, turn, goal_of(turn, objective="a\x00b\ud800", plan=(PlanItem(text="c\udfff"),)))
    goal = await store.goals.get("goal-1")
    assert goal is not None
    assert (goal.objective, goal.plan[0].text) == ("ab\ufffd", "c\ufffd")
