"""Turns from the inbox to the outbox: order, stops, failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bot.config import LimitsSection
from bot.errors import ProviderError, ProviderErrorKind, StoreUnavailable
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import OutboundKind
from tests.support.engine import (
    OTHER,
    AnsweringProvider,
    again,
    calls,
    last_user,
    rig,
    roles,
    said,
    tool_texts,
)
from tests.support.held_model import Held, asked, strict
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool

DOWN = ProviderError(ProviderErrorKind.CONNECTION, "refused")
NO_MODEL = "I cannot reach the model right now. Please try again later."


async def test_a_message_is_answered_and_remembered(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("Hello."), said("Again."))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("hi") == "Hello."
        assert await engine.asks("hi again") == "Again."
        assert roles(provider.requests[1]) == ["system", "user", "assistant", "user"]
        assert last_user(provider.requests[1]) == "hi again"
        strict(provider)
        assert engine.channel.arrived[0].kind is OutboundKind.REPLY
        assert engine.channel.arrived[0].message.answers == "in1"


async def test_a_slow_chat_does_not_hold_up_another_and_keeps_its_own_order(tmp_path: Path) -> None:
    """C047."""
    model = Held("a1")
    async with rig(tmp_path, AnsweringProvider(model)) as engine:
        await engine.says("a1", chat="A")
        await asked(model, 1)
        await engine.says("a2", chat="A", sender=OTHER)
        assert await engine.asks("b1", chat="B") == "re: b1"
        assert engine.channel.texts("A") == []
        model.go.set()
        await engine.reads("re: a1", "re: a2", chat="A")


async def test_a_message_that_comes_as_a_turn_ends_needs_no_other_to_be_seen(tmp_path: Path) -> None:
    """C048: it is committed between the end of the turn and the next look for work."""
    async with rig(tmp_path, AnsweringProvider(Held())) as engine:
        finish = engine.store.turns.finish

        async def finish_and_write(turn: Any, ending: Any) -> bool:
            more = await finish(turn, ending)
            if turn.messages[0].message.text == "first":
                await engine.says("second")
            return more

        engine.store.turns.finish = finish_and_write  # type: ignore[method-assign]
        await engine.says("first")
        await engine.reads("re: first", "re: second")


async def test_what_is_said_while_a_tool_runs_joins_the_turn(tmp_path: Path) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> str:
        started.set()
        await go.wait()
        return "done"

    provider = ScriptedProvider(calls(("slow", {})), said("Both done."))
    async with rig(tmp_path, provider, tools=[MadeTool("slow", run=slow)]) as engine:
        await engine.says("do one")
        await started.wait()
        await engine.says("and two")
        go.set()
        await engine.reads("Both done.")
        assert last_user(provider.requests[1]) == "and two"
        assert engine.ended == [["in1", "in2"]]
        assert engine.channel.arrived[0].message.answers == "in2"
        strict(provider)


async def test_stop_ends_the_tool_at_once_and_the_next_message_works(tmp_path: Path) -> None:
    """C051, by /stop in the middle of a tool."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def endless(arguments: dict[str, Any]) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    provider = ScriptedProvider(calls(("endless", {})), said("Here again."))
    async with rig(tmp_path, provider, tools=[MadeTool("endless", run=endless)]) as engine:
        await engine.says("work")
        await started.wait()
        assert await engine.asks("/stop") == "Stopped."
        assert ended.is_set()
        assert await engine.asks("still there?") == "Here again."
        assert "interrupted" in tool_texts(provider.requests[-1])[0].lower()
        strict(provider)
        assert await engine.asks("/stop") == "Nothing is running."


async def test_stop_keeps_what_waits_behind(tmp_path: Path) -> None:
    model = Held("one")
    async with rig(tmp_path, AnsweringProvider(model)) as engine:
        await engine.says("one")
        await asked(model, 1)
        await engine.says("two", sender=OTHER)
        await engine.says("/stop")
        await engine.until(lambda: sorted(engine.channel.texts()) == ["Stopped.", "re: two"])
        assert model.cancelled == ["one"]


async def test_stop_is_heard_when_every_place_is_taken(tmp_path: Path) -> None:
    model = Held("one")
    limits = LimitsSection(turns_at_once=1)
    async with rig(tmp_path, AnsweringProvider(model), limits=limits) as engine:
        await engine.says("one", chat="A")
        await asked(model, 1)
        await engine.says("two", chat="B")
        assert await engine.asks("/stop", chat="A") == "Stopped."
        await engine.reads("re: two", chat="B")


async def test_stop_in_the_instant_of_the_ending_leaves_the_answer_whole(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("The answer."))) as engine:
        finish = engine.store.turns.finish
        endings: list[str] = []

        async def stopped_meanwhile(turn: Any, ending: Any) -> bool:
            endings.append(ending.state)
            if turn.messages[0].message.text == "question":
                engine.loop.stop(turn.address)
                await asyncio.sleep(0)
            return await finish(turn, ending)

        engine.store.turns.finish = stopped_meanwhile  # type: ignore[method-assign]
        assert await engine.asks("question") == "The answer."
        await engine.idle()
        assert endings == ["done"]
        assert [row["role"] for row in await engine.history()] == ["user", "assistant"]


async def test_stop_in_one_chat_leaves_others_alone(tmp_path: Path) -> None:
    model = Held("one", "two")
    async with rig(tmp_path, AnsweringProvider(model)) as engine:
        await engine.says("one", chat="A")
        await engine.says("two", chat="B")
        await asked(model, 2)
        assert await engine.asks("/stop", chat="A") == "Stopped."
        model.go.set()
        await engine.reads("re: two", chat="B")


# --- failures


async def test_a_models_failure_is_said_and_not_remembered_as_an_answer(tmp_path: Path) -> None:
    provider = ScriptedProvider(ProviderError(ProviderErrorKind.BAD_REQUEST, "secret detail"), said("Fine."))
    async with rig(tmp_path, provider) as engine:
        answer = await engine.asks("hello")
        assert answer == "The model refused the request as malformed. The log has the details."
        assert engine.channel.arrived[0].kind is OutboundKind.NOTICE
        assert await engine.asks("again") == "Fine."
        assert roles(provider.requests[1]) == ["system", "user", "assistant", "user"]
        strict(provider)


async def test_a_model_that_fails_in_mid_turn_leaves_each_row_once(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("look", {})), DOWN)
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:
        assert await engine.asks("look") == NO_MODEL
        assert [row["role"] for row in await engine.history()] == ["user", "assistant", "tool"]
        provider.outcomes[:] = [said("Better now.")]
        assert await engine.asks("and now?") == "Better now."
        assert roles(provider.requests[-1]) == ["system", "user", "assistant", "tool", "assistant", "user"]
        strict(provider)


async def test_a_bug_becomes_a_notice_and_a_dead_letter_and_the_next_turn_works(tmp_path: Path) -> None:
    def broken(request: ModelRequest) -> ModelReply:
        if last_user(request) == "boom":
            raise RuntimeError("a bug")
        return said("Works.")

    async with rig(tmp_path, AnsweringProvider(broken)) as engine:
        assert (await engine.asks("boom")).startswith("Something went wrong on my side")
        (letter,) = await engine.store.overview.dead_letters(limit=9)
        assert (letter.text, letter.error) == ("boom", "RuntimeError: a bug")
        assert await engine.asks("hi") == "Works."


async def test_a_store_that_cannot_be_written_in_mid_turn_delays_the_answer_only(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("look", {})), said("Seen."))
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:
        record_step = engine.store.steps.record_step
        failures = [StoreUnavailable("disk full")]

        async def failing(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return await record_step(*args)

        engine.store.steps.record_step = failing  # type: ignore[method-assign,assignment]
        assert await engine.asks("look") == "Seen."
        assert roles(provider.requests[-1]) == ["system", "user", "assistant", "tool"]
        assert "interrupted" in tool_texts(provider.requests[-1])[0]


async def test_an_ending_that_cannot_be_written_does_not_end_the_loop(tmp_path: Path) -> None:
    model = Held()
    async with rig(tmp_path, AnsweringProvider(model)) as engine:
        finish = engine.store.turns.finish
        failures = [StoreUnavailable("full")]

        async def failing(turn: Any, ending: Any) -> bool:
            if failures:
                raise failures.pop()
            return await finish(turn, ending)

        engine.store.turns.finish = failing  # type: ignore[method-assign]
        assert await engine.asks("one") == "re: one"
        assert model.asked == ["one", "one"]


async def test_a_turn_that_alone_cannot_be_recorded_is_buried_after_three_tries(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("look", {})))
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:

        async def failing(*args: Any) -> Any:
            raise StoreUnavailable("disk full")

        engine.store.steps.record_reply = failing  # type: ignore[method-assign,assignment]
        answer = await engine.asks("look")
        assert answer.startswith("I could not handle this message: each of 3 attempts was cut short.")
        assert len(provider.requests) == 3


async def test_a_message_that_kills_the_process_each_time_is_buried_and_others_are_served(tmp_path: Path) -> None:
    async def deadly(request: ModelRequest) -> ModelReply:
        if last_user(request) == "deadly":
            await engine.die()
        return said(f"re: {last_user(request)}")

    provider = AnsweringProvider(deadly)
    async with rig(tmp_path, provider) as engine:
        await engine.says("deadly", chat="A")
        await engine.crashed.wait()
        setup = engine.setup
    for _ in range(2):
        async with again(setup) as engine:
            await engine.crashed.wait()
    async with again(setup) as engine:
        assert await engine.asks("hi", chat="B") == "re: hi"
        await engine.reads(
            "I could not handle this message: each of 3 attempts was cut short. "
            "It is kept for the owner to see: deadly",
            chat="A",
        )
        (letter,) = await engine.store.overview.dead_letters(limit=9)
        assert (letter.text, letter.error) == ("deadly", "cut short 3 times")
        assert len([r for r in provider.requests if last_user(r) == "deadly"]) == 3
