"""The tools of sustained goals: what is set, what may change, what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Replay, Risk
from bot.records import GoalBudget, GoalState, PlanItem
from bot.toolkit.context import set_call_id, set_request
from tests.support.contexts import ToolDesk, tool_context
from tests.support.engine import MEMBER, AnsweringProvider, Rig, calls, last_user, rig, said, tool_texts
from tests.support.goals import RECAP, goals, is_goal_turn, only_goal, order
from tests.support.providers import ScriptedProvider


class Puppet:
    """A model that makes the calls it is given on the word "do", one step each, and rests in a goal's turns."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, dict[str, Any]]] = []
        self.results: list[str] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        if is_goal_turn(request):
            return calls(("complete_goal", {"outcome": "blocked", "recap": "Resting."}))
        if request.messages[-1]["role"] == "tool":
            self.results.append(tool_texts(request)[-1])
        return calls(self.steps.pop(0)) if self.steps else said("ok")

    async def does(self, engine: Rig, *steps: tuple[str, dict[str, Any]]) -> list[str]:
        """Make these calls in one turn; return their results."""
        self.steps, self.results = list(steps), []
        ended = len(engine.ended)
        await engine.says("do")
        await engine.turns_end(ended + 1)
        await engine.idle()
        return self.results


@pytest.fixture
def puppet() -> Puppet:
    return Puppet()


@pytest.fixture
async def engine(tmp_path: Path, puppet: Puppet) -> AsyncIterator[Rig]:
    async with rig(tmp_path, AnsweringProvider(puppet)) as engine:
        yield engine


async def test_a_goal_is_set_with_its_defaults_and_a_receipt(engine: Rig, puppet: Puppet) -> None:
    [receipt] = await puppet.does(engine, ("task", {"objective": "tidy  the\n notes", "plan": ["read", "sort"]}))
    goal = await only_goal(engine)
    assert receipt == (
        f"Goal {goal.id} is set; budget: 100 steps, 60 minutes.\n1. (open) read\n2. (open) sort\n"
        "It goes on by itself after your answer; end it with complete_goal."
    )
    assert (goal.objective, goal.creator_id, goal.budget) == (
        "tidy the notes",
        MEMBER,
        GoalBudget(steps=100, minutes=60, tokens=None),
    )
    assert goal.plan == (PlanItem(text="read"), PlanItem(text="sort"))


async def test_items_are_marked_done_and_stay_so_in_a_new_plan(engine: Rig, puppet: Puppet) -> None:
    await puppet.does(
        engine,
        ("task", order(steps=9)),
        ("task", {"done": [2]}),
        ("task", {"objective": "count to three", "budget": {"steps": 9}, "done": [1]}),
        ("task", {"plan": ["two", "three", "four"]}),
    )
    goal = await only_goal(engine)
    assert goal.plan == (
        PlanItem(text="two", done=True),
        PlanItem(text="three"),
        PlanItem(text="four"),
    )
    assert "1. (done) two" in puppet.results[-1]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"objective": "count to four"}, "objective: goal goal-"),
        ({"budget": {"steps": 500}}, "budget: it is fixed once the goal is set"),
        ({"budget": {"steps": 9, "tokens": 5_000}}, "budget: it is fixed once the goal is set"),
        ({"done": [4]}, "done: the plan has 3 items, there is no item 4"),
        ({"plan": ["one"], "done": [2]}, "done: the plan has 1 items, there is no item 2"),
        ({"plan": ["one", " "]}, "plan: an item is blank"),
    ],
)
async def test_what_an_open_goal_does_not_take_changes_nothing(
    engine: Rig, puppet: Puppet, wanted: dict[str, Any], error: str
) -> None:
    _, refused, kept = await puppet.does(engine, ("task", order(steps=9)), ("task", wanted), ("task", {"done": []}))
    assert refused.startswith(error)
    assert kept.count("(open)") == 3
    goal = await only_goal(engine)
    assert (goal.objective, goal.budget.steps, len(goal.plan)) == ("count to three", 9, 3)


async def test_a_second_goal_is_refused_by_name_and_possible_once_the_first_is_over(
    engine: Rig, puppet: Puppet
) -> None:
    second = ("task", {"objective": "count to four"})
    _, refused = await puppet.does(engine, ("task", order()), second)
    goal = await only_goal(engine)
    assert f"goal {goal.id} “count to three” is open in this conversation" in refused
    [receipt] = await puppet.does(engine, second)
    assert [item.objective for item in await goals(engine)] == ["count to three", "count to four"]
    assert "is set" in receipt


async def test_a_goal_needs_an_objective(engine: Rig, puppet: Puppet) -> None:
    [refused] = await puppet.does(engine, ("task", {"plan": ["one"]}))
    assert refused.startswith("objective: no goal is open in this conversation")
    [refused] = await puppet.does(engine, ("task", {"objective": " \n "}))
    assert refused.startswith("objective: no goal is open in this conversation")
    assert await goals(engine) == []


async def test_without_a_goal_there_is_nothing_to_complete(engine: Rig, puppet: Puppet) -> None:
    [refused] = await puppet.does(engine, ("complete_goal", RECAP))
    assert refused.startswith("no goal is open in this conversation")
    assert engine.channel.texts() == ["ok"]


@pytest.mark.parametrize("outcome", ["done", "blocked", "cancelled"])
async def test_a_goal_ends_with_its_outcome_and_its_recap_as_the_answer(
    engine: Rig, puppet: Puppet, outcome: str
) -> None:
    closing = {"outcome": outcome, "recap": " *Three.* "}
    await puppet.does(engine, ("task", order()), ("complete_goal", closing))
    assert engine.channel.texts() == ["*Three.*"]
    goal = await only_goal(engine)
    assert (goal.state, goal.recap) == (GoalState(outcome), "*Three.*")


async def test_a_blank_recap_closes_nothing(engine: Rig, puppet: Puppet) -> None:
    await puppet.does(engine, ("task", order()), ("complete_goal", {"outcome": "done", "recap": "  "}))
    assert puppet.results[-1].startswith("recap: it is blank")
    assert engine.channel.texts() == ["ok", "Resting."]


async def test_the_recap_answers_the_message_that_asked_for_the_goal(engine: Rig, puppet: Puppet) -> None:
    puppet.steps = [("task", order())]
    await engine.says("do", reply_to="7", thread="42", chat="-1001")
    await engine.texts_count(2, chat="-1001", thread="42")
    assert [(item.text, item.reply_to) for item in engine.channel.arrived] == [("ok", "7"), ("Resting.", "7")]


async def test_a_scheduled_task_sets_no_goal(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        if request.messages[-1]["role"] == "tool":
            return said(tool_texts(request)[-1])
        if last_user(request).startswith("[Scheduled task"):
            return calls(("task", order()))
        return calls(("cron", {"action": "add", "kind": "task", "text": "count", "in_seconds": 60}))

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.asks("in a minute, count")
        engine.advance(61)
        texts = await engine.texts_count(2)
        assert texts[1].startswith("a scheduled task ends with its turn and cannot set a goal")
        assert await goals(engine) == []


async def test_both_tools_write_are_keyed_and_are_not_for_subagents(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        registry = ToolDesk(ctx).registry
        for name in ("task", "complete_goal"):
            tool = registry.get(name)
            assert tool is not None
            assert (tool.risk, tool.replay) == (Risk.WRITE, Replay.KEYED)
            assert tool.parameters["additionalProperties"] is False
        assert not {"task", "complete_goal"} & set(ToolDesk(ctx, "subagent").names)


async def test_a_call_that_is_repeated_after_a_crash_sets_one_goal(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("x"))
    async with rig(tmp_path, provider, start=["delivery"]) as engine:
        await engine.says("count")
        [turn] = await engine.store.turns.claim(limit=1)
        made = calls(("task", order())).tool_calls
        row = {"role": "assistant", "content": "on it"}
        await engine.store.steps.record_reply(turn, [row], made)
        tool = engine.registry.get("task")
        assert tool is not None
        set_request(engine.loop._circumstances.request_of(turn))
        set_call_id(made[0].id)
        first = await tool.execute(**order())
        assert await tool.execute(**order()) == first
        await only_goal(engine)
