"""Turns that a crash or shutdown cuts, and who is answered at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bot.config import JobsSection, LimitsSection
from bot.errors import ChannelError
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Address, Attachment, Replay
from tests.support.clock import FakeClock
from tests.support.engine import (
    MEMBER,
    AnsweringProvider,
    again,
    calls,
    last_user,
    rig,
    said,
    tool_texts,
)
from tests.support.held_model import Held, asked, strict
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool

# --- crashes and shutdown


async def test_a_turn_cut_between_call_and_result_resumes_and_its_effect_is_not_repeated(tmp_path: Path) -> None:
    """C051, by the end of the process in the middle of a tool."""
    ran: list[str] = []

    async def once(arguments: dict[str, Any]) -> str:
        ran.append("once")
        await engine.die()
        return "never"

    tool = MadeTool("once", run=once)
    assert tool.replay is Replay.ONCE
    provider = ScriptedProvider(calls(("once", {})), said("I cannot tell whether it worked."))
    async with rig(tmp_path, provider, tools=[tool]) as engine:
        await engine.says("do it")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("I cannot tell whether it worked.")
        (result,) = tool_texts(provider.requests[-1])
        assert "may or may not have taken effect" in result
        assert ran == ["once"]
        strict(provider)


async def test_a_call_that_was_not_started_runs_after_the_crash(tmp_path: Path) -> None:
    ran: list[str] = []

    async def first(arguments: dict[str, Any]) -> str:
        ran.append("first")
        if len(ran) == 1:
            await engine.die()
        return "one"

    async def second(arguments: dict[str, Any]) -> str:
        ran.append("second")
        return "two"

    provider = ScriptedProvider(calls(("first", {}), ("second", {})), said("ok"))
    tools = [MadeTool("first", run=first), MadeTool("second", run=second)]
    async with rig(tmp_path, provider, tools=tools) as engine:
        await engine.says("do both")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("ok")
        assert ran == ["first", "second"]
        texts = tool_texts(provider.requests[-1])
        assert texts[1] == "two"
        assert len(provider.requests) == 2


async def test_a_result_that_was_recorded_is_used_again(tmp_path: Path) -> None:
    ran: list[str] = []

    async def first(arguments: dict[str, Any]) -> str:
        ran.append("first")
        return "one"

    async def second(arguments: dict[str, Any]) -> str:
        ran.append("second")
        await engine.die()
        return ""

    provider = ScriptedProvider(calls(("first", {}), ("second", {})), said("ok"))
    tools = [MadeTool("first", run=first), MadeTool("second", run=second)]
    async with rig(tmp_path, provider, tools=tools) as engine:
        await engine.says("do both")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("ok")
        assert ran == ["first", "second"]
        assert tool_texts(provider.requests[-1])[0] == "one"


async def test_after_a_crash_a_stored_reminder_is_not_contradicted_nor_stored_twice(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    async def answer(request: ModelRequest) -> ModelReply:
        seen.append(request)
        if len(seen) == 1:
            return calls(("cron", {"action": "add", "in_seconds": 600, "text": "stretch"}))
        if len(seen) == 2:
            await engine.die()
        return said("Reminder set.")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.says("remind me in 10 minutes to stretch")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("Reminder set.")
        assert len(await engine.jobs()) == 1


async def test_after_a_crash_a_message_sent_by_tool_still_stands_for_the_answer(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    async def answer(request: ModelRequest) -> ModelReply:
        seen.append(request)
        if len(seen) == 1:
            return calls(("message", {"content": "Here you are."}))
        if len(seen) == 2:
            await engine.die()
        return said("Message sent.")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.says("send it")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.turns_end(1)
        await engine.idle()
        assert engine.channel.texts() == ["Here you are."]


async def test_shutdown_lets_a_turn_end(tmp_path: Path) -> None:
    model = Held("one")
    async with rig(tmp_path, AnsweringProvider(model)) as engine:
        await engine.says("one")
        await asked(model, 1)
        stopping = asyncio.ensure_future(engine.stop_loop())
        await asyncio.sleep(0)
        await engine.says("two", chat="B")
        model.go.set()
        await stopping
        await engine.reads("re: one")
        assert model.asked == ["one"]


async def test_a_turn_that_shutdown_cuts_goes_on_at_the_next_start_without_a_lost_attempt(tmp_path: Path) -> None:
    model = Held("one")
    limits = LimitsSection(shutdown_grace_s=0.01)
    async with rig(tmp_path, AnsweringProvider(model), limits=limits) as engine:
        await engine.says("one")
        await asked(model, 1)
        await engine.stop_loop()
        assert model.cancelled == ["one"]
        setup = engine.setup
    model.go.set()
    async with again(setup, start=["delivery"]) as engine:
        (turn,) = await engine.store.turns.claim(limit=9)
        assert turn.attempt == 1
        await engine.store.turns.release(turn)
        engine.start("loop")
        await engine.reads("re: one")


async def test_a_lost_lease_stops_the_worker_without_a_word(tmp_path: Path) -> None:
    model = Held("one")
    async with rig(tmp_path, AnsweringProvider(model)) as engine:
        await engine.says("one")
        await asked(model, 1)
        engine.clock.advance(31)
        model.held.clear()
        await engine.says("two", chat="B")  # its doorbell lets the loop find the turn with the lost lease
        await engine.reads("re: two", chat="B")
        await engine.reads("re: one")
        model.go.set()
        await engine.idle()
        assert engine.channel.texts() == ["re: one"]
        assert await engine.asks("three") == "re: three"


# --- people


async def test_a_stranger_is_not_answered(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("x"))
    async with rig(tmp_path, provider) as engine:
        assert await engine.says("hi", sender="999", sender_name=MEMBER) == "refused"
        await engine.idle()
        assert (engine.channel.arrived, provider.requests) == ([], [])


async def test_a_message_older_than_it_means_anything_is_answered_by_a_notice(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-29T12:00:00+01:00")
    provider = ScriptedProvider(said("x"))
    async with rig(
        tmp_path, provider, clock=clock, jobs=JobsSection(catch_up_max_age_h=1), start=["delivery"]
    ) as engine:
        await engine.says("open the door")
        clock.advance(3601)
        engine.start("loop")
        await engine.reads(
            "Your message of Sun 29 Nov 2026 12:00 (CET, Europe/Berlin) reached me only now, "
            "so I did not act on it. Send it again if it still matters."
        )
        assert provider.requests == []


async def test_lines_queued_through_an_outage_are_one_turn(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("Both seen."))
    async with rig(tmp_path, provider, start=["delivery"]) as engine:
        await engine.says("one")
        await engine.says("two")
        setup = engine.setup
    setup.clock.advance(60)
    async with again(setup) as engine:
        await engine.reads("Both seen.")
        users = [row["content"] for row in provider.requests[0].messages if row["role"] == "user"]
        assert [text.partition("\n")[0] for text in users] == ["one", "two"]


async def test_a_file_that_cannot_be_fetched_is_said_to_the_model_and_the_caption_handled(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("Send a smaller one."))
    voice = Attachment(kind="document", name="big.pdf", size_bytes=26_000_000, ref="r1")
    async with rig(tmp_path, provider) as engine:

        async def failing(attachment: Attachment, address: Address) -> Attachment:
            raise ChannelError("file is too big")

        engine.channel.fetch = failing  # type: ignore[method-assign]
        await engine.asks("read this", attachments=(voice,))
        assert last_user(provider.requests[0]) == (
            "read this\n\n[Attachment: document big.pdf, 26,000,000 bytes; it could not be fetched: file is too big]"
            "\n\n[Tell the person which file did not reach you and what they can do: send it again, a smaller one,"
            " or a link.]"
        )
