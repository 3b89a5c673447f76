"""Sustained goals through crashes and restarts: no turn of a goal is lost or doubled, its recap comes once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.config import LimitsSection
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Replay
from bot.records import GoalState
from tests.support.engine import AnsweringProvider, Rig, again, calls, rig, said
from tests.support.goals import RECAP, completes_goal, is_goal_turn, only_goal, sets_goal
from tests.support.held_model import strict
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool

GO = "count to three, please"


async def dies(engine: Rig) -> None:
    """Kill the process once all messages are sent: one that is cut short may come twice."""
    while (await engine.store.overview.status()).outbox_queued:
        await asyncio.sleep(0)
    await engine.die()


def deadly(engine: Callable[[], Rig], *, times: int = 1) -> MadeTool:
    """Return a tool that kills the process the first times it runs."""
    runs: list[int] = []

    async def run(arguments: dict[str, Any]) -> str:
        runs.append(1)
        if len(runs) <= times:
            await dies(engine())
        return "survived"

    return MadeTool("deadly", run=run)


@pytest.mark.parametrize("dies_at", range(1, 6))
async def test_a_crash_at_any_request_is_a_pause(tmp_path: Path, dies_at: int) -> None:
    script = [sets_goal(), said("Started."), calls(("task", {"done": [1]})), said("Note."), completes_goal()]
    asked: list[ModelRequest] = []
    answered: list[ModelReply] = []

    async def answer(request: ModelRequest) -> ModelReply:
        asked.append(request)
        if len(asked) == dies_at:
            await dies(engine)
        answered.append(script[len(answered)])
        return answered[-1]

    provider = AnsweringProvider(answer)
    async with rig(tmp_path, provider) as engine:
        await engine.says(GO)
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("Started.", "Note.", RECAP["recap"])
        await engine.idle()
        assert len(engine.channel.texts()) == 3
        assert len(answered) == len(script)
        goal = await only_goal(engine)
        assert (goal.state, goal.turns) == (GoalState.DONE, 1)
        strict(provider)


@pytest.mark.parametrize("order", ["before", "after"])
async def test_a_crash_in_the_step_of_complete_goal_gives_the_recap_once(tmp_path: Path, order: str) -> None:
    step = [("complete_goal", RECAP), ("deadly", {})]
    closing = calls(*(step if order == "after" else reversed(step)))
    provider = ScriptedProvider(sets_goal(), said("Started."), closing, said("never asked for"))
    async with rig(tmp_path, provider, tools=[deadly(lambda: engine)]) as engine:
        await engine.says(GO)
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("Started.", RECAP["recap"])
        await engine.idle()
        assert len(engine.channel.texts()) == 2
        assert len(provider.requests) == 3
        assert (await engine.history())[-1] == {"role": "assistant", "content": RECAP["recap"]}


async def test_a_recap_is_delivered_though_its_turn_is_buried(tmp_path: Path) -> None:
    closing = calls(("complete_goal", RECAP), ("deadly", {}))
    provider = ScriptedProvider(sets_goal(), said("Started."), closing)
    tool = deadly(lambda: engine, times=9)
    tool.replay = Replay.SAFE  # a call that is run again, and kills again
    async with rig(tmp_path, provider, tools=[tool]) as engine:
        await engine.says(GO)
        await engine.crashed.wait()
    for _ in range(2):
        async with again(engine.setup) as engine:
            await engine.crashed.wait()
    async with again(engine.setup) as engine:
        texts = await engine.texts_count(3)
        assert texts[:2] == ["Started.", RECAP["recap"]]
        assert "3 attempts" in texts[2]
        assert (await only_goal(engine)).state is GoalState.DONE


async def test_a_goal_whose_turn_kills_the_process_is_closed_and_the_chat_told(tmp_path: Path) -> None:
    async def answer(request: ModelRequest) -> ModelReply:
        if is_goal_turn(request):
            await dies(engine)
        return sets_goal() if request.messages[-1]["role"] == "user" else said("Started.")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.says(GO)
        await engine.crashed.wait()
    for _ in range(2):
        async with again(engine.setup) as engine:
            await engine.crashed.wait()
    async with again(engine.setup) as engine:
        texts = await engine.texts_count(2)
        assert texts[1].startswith("The goal “count to three” is closed: I could not handle this message")
        await engine.idle()
        assert (await only_goal(engine)).state is GoalState.FAILED


async def test_a_goal_goes_on_after_a_shutdown(tmp_path: Path) -> None:
    held = asyncio.Event()
    go = asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply:
        if is_goal_turn(request):
            held.set()
            await go.wait()
            return completes_goal()
        return sets_goal() if request.messages[-1]["role"] == "user" else said("Started.")

    limits = LimitsSection(shutdown_grace_s=0.01)
    async with rig(tmp_path, AnsweringProvider(answer), limits=limits) as engine:
        await engine.says(GO)
        await held.wait()
        setup = engine.setup
    go.set()
    async with again(setup) as engine:
        await engine.reads("Started.", RECAP["recap"])


async def test_a_goal_whose_time_ran_out_while_the_bot_was_off_is_closed_without_the_model(tmp_path: Path) -> None:
    async def answer(request: ModelRequest) -> ModelReply:
        if is_goal_turn(request):
            await dies(engine)
        return sets_goal(minutes=30) if request.messages[-1]["role"] == "user" else said("Started.")

    provider = AnsweringProvider(answer)
    async with rig(tmp_path, provider) as engine:
        await engine.says(GO)
        await engine.crashed.wait()
    engine.clock.advance(31 * 60)
    async with again(engine.setup) as engine:
        await engine.reads(
            "Started.",
            "The goal “count to three” is closed: its budget is used up (2 of 100 steps, 31 of 30 minutes)."
            "\nOpen:\n• one\n• two\n• three",
        )
        await engine.idle()
        assert (len(engine.channel.texts()), len(provider.requests)) == (2, 3)
        assert (await only_goal(engine)).state is GoalState.SPENT


async def test_stop_in_a_crash_closes_the_goal_once(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply:
        if is_goal_turn(request):
            held.set()
            await asyncio.Event().wait()
        return sets_goal() if request.messages[-1]["role"] == "user" else said("Started.")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.says(GO)
        await held.wait()
        await engine.crash()
        setup = engine.setup
    async with again(setup, start=["delivery"]) as engine:
        await engine.says("/stop", message_id="s1")
        [turn] = [turn for turn in await engine.store.turns.claim(limit=9) if turn.lane.startswith("now:")]
        assert engine.loop.commands is not None
        request = engine.loop._circumstances.request_of(turn)
        first = await engine.loop.commands.run(turn, request)
        assert (await engine.loop.commands.run(turn, request)).text == first.text  # as a crash before its end would
        assert first.text == "The goal “count to three” is closed."
