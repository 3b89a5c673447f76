"""Background helpers: their outcome reaches the chat, once, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.config import LimitsSection
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest
from tests.support.engine import OWNER, AnsweringProvider, Rig, again, calls, last_user, rig, said, tool_texts
from tests.support.strict_provider import violations
from tests.support.tools import MadeTool

TASK = "add 40 and 2"
DOWN = ProviderError(ProviderErrorKind.CONNECTION, "refused")


class Family:
    """A parent that spawns on "go", tells outcomes on, and echoes; a child that does what the test says."""

    def __init__(self, child: Callable[[ModelRequest], object], *, parent_down: bool = False) -> None:
        self.child = child
        self.parent_down = parent_down
        self.child_requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> ModelReply:
        text = last_user(request)
        if "background worker" in request.messages[0]["content"]:
            self.child_requests.append(request)
            answer = self.child(request)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if isinstance(answer, Exception):
                raise answer
            assert isinstance(answer, ModelReply)
            return answer
        if text == "go" and request.messages[-1]["role"] == "user":
            return calls(("spawn", {"task": TASK, "label": "sum"}))
        if text.startswith("[Background task"):
            if self.parent_down:
                raise DOWN
            return said(f"It ended: {text}")
        return said(f"re: {text}" if text != "go" else "Started.")


async def told(engine: Rig, count: int = 2) -> str:
    return (await engine.texts_count(count))[count - 1]


async def test_an_outcome_is_told_by_the_parent_and_the_history_stays_valid(tmp_path: Path) -> None:
    provider = AnsweringProvider(Family(lambda request: said("Total is 42")))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("go", sender=OWNER) == "Started."
        answer = await told(engine)
        assert "Total is 42" in answer
        assert "“sum” ended: done" in answer
        await engine.asks("thanks", sender=OWNER)
        for request in provider.requests:
            assert violations(list(request.messages)) == []


async def test_an_outcome_waits_for_the_chats_turn_and_comes_once(tmp_path: Path) -> None:
    child_may_end, parent_may_end = asyncio.Event(), asyncio.Event()

    async def child(request: ModelRequest) -> ModelReply:
        await child_may_end.wait()
        return said("Total is 42")

    family = Family(child)

    async def answer(request: ModelRequest) -> ModelReply:
        if last_user(request) == "busy":
            child_may_end.set()
            await parent_may_end.wait()
        return await family(request)

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.asks("go", sender=OWNER)
        await engine.says("busy", sender=OWNER)
        await engine.until(lambda: any(ended == [] or "sub-" in ended[0] for ended in engine.ended))
        assert engine.channel.texts() == ["Started."]
        parent_may_end.set()
        texts = await engine.texts_count(3)
        assert texts[1] == "re: busy"
        assert "Total is 42" in texts[2]
        await engine.idle()
        assert len(engine.channel.texts()) == 3


async def test_the_chat_goes_on_while_the_helper_works(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def child(request: ModelRequest) -> ModelReply:
        await never.wait()
        return said("")

    async with rig(tmp_path, AnsweringProvider(Family(child))) as engine:
        await engine.asks("go", sender=OWNER)
        assert await engine.asks("hello", sender=OWNER) == "re: hello"
        assert await engine.asks("/stop", sender=OWNER) == "Stopped."


@pytest.mark.parametrize("kind", ["raises", "model fails", "hangs"])
async def test_a_helper_that_comes_to_nothing_is_reported_as_failed(tmp_path: Path, kind: str) -> None:
    async def hang(request: ModelRequest) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError

    child = {"raises": lambda request: RuntimeError("bug"), "model fails": lambda request: DOWN, "hangs": hang}[kind]
    limits = LimitsSection(subagent_timeout_s=0.2)
    async with rig(tmp_path, AnsweringProvider(Family(child)), limits=limits) as engine:
        await engine.asks("go", sender=OWNER)
        answer = await told(engine)
        assert "ended: " in answer
        assert "done" not in answer.partition("\n")[0]
        await engine.idle()
        assert len(engine.channel.texts()) == 2


async def test_when_the_parents_model_is_away_the_outcome_is_delivered_as_it_is(tmp_path: Path) -> None:
    provider = AnsweringProvider(Family(lambda request: said("Total is 42"), parent_down=True))
    async with rig(tmp_path, provider) as engine:
        await engine.asks("go", sender=OWNER)
        assert await told(engine) == "The background task “sum”: Total is 42"


async def test_a_helper_that_a_crash_cut_goes_on(tmp_path: Path) -> None:
    attempts: list[int] = []

    async def child(request: ModelRequest) -> ModelReply:
        attempts.append(1)
        if len(attempts) == 1:
            await engine.die()
        return said("Total is 42")

    async with rig(tmp_path, AnsweringProvider(Family(child))) as engine:
        await engine.says("go", sender=OWNER)
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.until(lambda: any("Total is 42" in text for text in engine.channel.texts()))
        await engine.idle()
        assert sum("Total is 42" in text for text in engine.channel.texts()) == 1


async def test_a_helper_that_kills_the_process_is_reported_as_interrupted(tmp_path: Path) -> None:
    async def child(request: ModelRequest) -> ModelReply:
        await engine.die()
        raise AssertionError

    async with rig(tmp_path, AnsweringProvider(Family(child))) as engine:
        await engine.says("go", sender=OWNER)
        await engine.crashed.wait()
    for _ in range(2):
        async with again(engine.setup) as engine:
            await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.until(lambda: any("interrupted" in text for text in engine.channel.texts()))


async def test_an_outcome_goes_to_the_topic_and_answers_the_message_it_was_asked_in(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(Family(lambda request: said("Total is 42")))) as engine:
        await engine.says("go", sender=OWNER, chat="-1001", thread="42", reply_to="7")
        texts = await engine.texts_count(2, chat="-1001", thread="42")
        assert "Total is 42" in texts[1]
        assert [item.reply_to for item in engine.channel.arrived] == ["7", "7"]


async def test_a_helper_out_of_steps_is_unfinished_with_what_it_has(tmp_path: Path) -> None:
    class SubTool(MadeTool):
        _scopes = frozenset({"subagent"})

    def child(request: ModelRequest) -> ModelReply:
        if not request.tools:
            return said("Got as far as 40.")
        return calls(("look", {"n": len(request.messages)}))

    limits = LimitsSection(steps_per_turn=3)
    provider = AnsweringProvider(Family(child))
    async with rig(tmp_path, provider, limits=limits, tools=[SubTool("look")]) as engine:
        await engine.asks("go", sender=OWNER)
        answer = await told(engine)
        assert "“sum” ended: unfinished" in answer
        assert "Got as far as 40." in answer
        assert "completed" not in answer


async def test_a_helper_has_no_tools_that_reach_people(tmp_path: Path) -> None:
    family = Family(lambda request: said("ok"))
    async with rig(tmp_path, AnsweringProvider(family)) as engine:
        await engine.asks("go", sender=OWNER)
        await told(engine)
        names = {tool["function"]["name"] for tool in family.child_requests[0].tools}
        assert names.isdisjoint({"message", "cron", "spawn"})
        assert TASK in last_user(family.child_requests[0])


async def test_a_chat_has_a_limit_of_helpers(tmp_path: Path) -> None:
    async def child(request: ModelRequest) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError

    limits = LimitsSection(subagents_per_chat=1, shutdown_grace_s=0.01)
    provider = AnsweringProvider(Family(child))
    async with rig(tmp_path, provider, limits=limits) as engine:
        await engine.asks("go", sender=OWNER)
        await engine.asks("go", sender=OWNER)
        assert "1 subagents of this chat are at work already" in tool_texts(provider.requests[-1])[-1]


class Waiting(Family):
    """A parent that waits for its child and tells what the call gave."""

    async def __call__(self, request: ModelRequest) -> ModelReply:
        if "background worker" in request.messages[0]["content"]:
            return await super().__call__(request)
        if request.messages[-1]["role"] == "tool":
            return said(f"got: {tool_texts(request)[-1]}")
        if last_user(request) == "go":
            return calls(("spawn", {"task": TASK, "label": "sum", "wait": True}))
        return await super().__call__(request)


async def test_a_parent_may_wait_for_the_outcome_which_is_told_once(tmp_path: Path) -> None:
    provider = AnsweringProvider(Waiting(lambda request: said("Total is 42")))
    async with rig(tmp_path, provider) as engine:
        answer = await engine.asks("go", sender=OWNER)
        assert answer.startswith("got: Subagent sub-")
        assert answer.endswith("“sum” ended: done.\n\nTotal is 42")
        await engine.idle()
        assert await engine.asks("next", sender=OWNER) == "re: next"
        assert len(engine.channel.texts()) == 2
        assert violations(list(provider.requests[-1].messages)) == []


async def test_a_failed_outcome_that_was_waited_for_is_an_error(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(Waiting(lambda request: DOWN))) as engine:
        assert "“sum” ended: failed" in await engine.asks("go", sender=OWNER)


async def test_a_crash_while_waiting_brings_the_outcome_to_the_chat(tmp_path: Path) -> None:
    attempts: list[int] = []

    async def child(request: ModelRequest) -> ModelReply:
        attempts.append(1)
        if len(attempts) == 1:
            await engine.die()
        return said("Total is 42")

    async with rig(tmp_path, AnsweringProvider(Waiting(child))) as engine:
        await engine.says("go", sender=OWNER)
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        first, second = await engine.texts_count(2)
        assert "its result will come to this chat" in first
        assert "Total is 42" in second
        await engine.idle()
        assert sum("Total is 42" in text for text in engine.channel.texts()) == 1


async def test_stop_ends_the_wait_and_the_helper(tmp_path: Path) -> None:
    entered = asyncio.Event()

    async def child(request: ModelRequest) -> ModelReply:
        entered.set()
        await asyncio.Event().wait()
        return said("never")

    async with rig(tmp_path, AnsweringProvider(Waiting(child))) as engine:
        await engine.says("go", sender=OWNER)
        await entered.wait()
        await engine.says("/stop", sender=OWNER)
        await engine.turns_end(3)
        await engine.idle()
        assert engine.channel.texts() == ["Stopped."]


async def test_parents_that_wait_leave_their_places_to_their_helpers_and_to_others(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply:
        if "background worker" in request.messages[0]["content"]:
            await may_end.wait()
            return said("Total is 42")
        if last_user(request) == "go" and request.messages[-1]["role"] == "user":
            return calls(("spawn", {"task": TASK, "label": "sum", "wait": True}))
        return said((tool_texts(request) or ["nobody waits"])[-1])

    limits = LimitsSection(turns_at_once=3)
    async with rig(tmp_path, AnsweringProvider(answer), limits=limits) as engine:
        for chat in ("a", "b", "c"):
            await engine.says("go", sender=OWNER, chat=chat)
        may_end.set()
        for chat in ("a", "b", "c"):
            assert "Total is 42" in (await engine.texts_count(1, chat=chat))[0]
        assert await engine.asks("hello", chat="d") == "nobody waits"


async def test_stop_takes_back_a_helper_that_has_not_begun(tmp_path: Path) -> None:
    family = Family(lambda request: said("Total is 42"))
    stuck = asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply:
        if request.messages[-1]["role"] == "tool":
            await stuck.wait()
        return await family(request)

    provider = AnsweringProvider(answer)
    async with rig(tmp_path, provider, limits=LimitsSection(turns_at_once=1)) as engine:
        await engine.says("go", sender=OWNER)
        await engine.until(lambda: len(provider.requests) == 2)
        assert await engine.asks("/stop", sender=OWNER) == "Stopped."
        assert await engine.asks("hello", sender=OWNER) == "re: hello"
        await engine.idle()
        assert family.child_requests == []
        assert await engine.asks("/stop", sender=OWNER) == "Nothing is running."
