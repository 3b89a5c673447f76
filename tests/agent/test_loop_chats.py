"""Several chats at once, and what a chat sees while its turn runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import ChatType
from bot.records import JobKind, Person
from tests.support.engine import (
    OTHER,
    AnsweringProvider,
    calls,
    last_user,
    rig,
    roles,
    said,
)
from tests.support.held_model import Held
from tests.support.memory_channel import DraftingChannel, MemoryChannel, SecondChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import CHAT, opened, reminder_at
from tests.support.tools import MadeTool

DOWN = ProviderError(ProviderErrorKind.CONNECTION, "refused")
NO_MODEL = "I cannot reach the model right now. Please try again later."


# --- several chats


async def test_what_the_tool_sent_elsewhere_does_not_swallow_the_answer_here(tmp_path: Path) -> None:
    """C044; in one-shot CLI mode: `test_the_answer_is_printed_when_the_tool_wrote_to_another_chat` of journeys."""
    provider = ScriptedProvider(calls(("message", {"content": "For B.", "chat_id": "B"})), said("Sent to B"))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("tell B", chat="A", sender="1") == "Sent to B"
        await engine.reads("For B.", chat="B")


async def test_two_turns_at_once_do_not_share_who_was_answered(tmp_path: Path) -> None:
    """C045."""
    barrier = asyncio.Barrier(2)

    async def answer(request: ModelRequest) -> ModelReply:
        text = last_user(request)
        if len(roles(request)) == 2:
            await barrier.wait()
            return calls(("message", {"content": "tool words"})) if text == "by tool" else calls(("look", {}))
        await barrier.wait()
        return said(f"final {text}")

    provider = AnsweringProvider(answer)
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:
        await engine.says("by tool", chat="A")
        await engine.says("by words", chat="B")
        await engine.turns_end(2)
        await engine.idle()
        assert engine.channel.texts("A") == ["tool words"]
        assert engine.channel.texts("B") == ["final by words"]


async def test_a_scheduled_report_and_a_direct_answer_never_swap_places(tmp_path: Path) -> None:
    async def answer(request: ModelRequest) -> ModelReply:
        for _ in range(len(last_user(request)) % 7):
            await asyncio.sleep(0)
        return said(f"re: {last_user(request).rpartition(chr(10))[2]}")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        for number in range(50):
            where = in_chat(f"G{number}")
            await engine.store.jobs.add(
                reminder_at(engine.clock.now_us(), f"report {number * 37}", where, kind=JobKind.TASK),
                limit_per_chat=9,
            )
        engine.ring()
        for number in range(50):
            await engine.says(f"question {number * 53}", chat=f"U{number}")
        await engine.turns_end(100)
        await engine.idle()
        for number in range(50):
            assert engine.channel.texts(f"G{number}") == [f"re: report {number * 37}"]
            assert engine.channel.texts(f"U{number}") == [f"re: question {number * 53}"]


def in_chat(chat_id: str) -> Any:
    return replace(CHAT, chat_id=chat_id)


async def test_twenty_chats_write_while_others_read_and_write_the_same_file(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(Held())) as engine, opened(tmp_path / "dutiful.db", engine.clock) as cli:
        for round_number in range(5):
            for chat in range(20):
                await engine.says(f"m{round_number}", chat=f"c{chat}")
            await cli.overview.status()
            await cli.people.save(Person(channel="memory", user_id=str(round_number), zone="UTC"))
            await engine.turns_end(20 * (round_number + 1))
        await engine.idle()
        for chat in range(20):
            assert engine.channel.texts(f"c{chat}") == [f"re: m{number}" for number in range(5)]


async def test_histories_of_chats_and_topics_are_apart(tmp_path: Path) -> None:
    provider = AnsweringProvider(Held())
    async with rig(tmp_path, provider) as engine:
        await engine.asks("the code is 4711", chat="A")
        for where in ({"chat": "B"}, {"chat": "A", "thread": "42"}, {"chat": "A", "thread": "43"}):
            await engine.asks("what is the code?", sender=OTHER, chat_type=ChatType.GROUP, **where)
            assert "4711" not in str(provider.requests[-1].messages)


async def test_everything_of_a_topic_goes_to_that_topic(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("message", {"content": "note", "progress": True})), said("answer"), DOWN)
    async with rig(tmp_path, provider) as engine:
        where: dict[str, Any] = {"chat": "-1001", "thread": "42"}
        await engine.says("one", **where)
        await engine.reads("note", "answer", **where)
        await engine.says("two", **where)
        await engine.reads("note", "answer", NO_MODEL, **where)
        assert engine.channel.texts("-1001") == []


# --- drafts


async def test_a_draft_becomes_the_answer_and_a_failures_notice_replaces_it(tmp_path: Path) -> None:
    channel = DraftingChannel()
    shown = asyncio.Event()

    class Streaming(ScriptedProvider):
        async def complete(self, request: ModelRequest, on_text: Any = None) -> ModelReply:
            assert on_text is not None
            on_text("The answer is on its way, s")
            await channel.bell.wait_for(lambda: bool(channel.drafts), timeout_s=5)
            shown.set()
            self.requests.append(request)
            outcome = self.outcomes.pop(0)
            if isinstance(outcome, ProviderError):
                raise outcome
            return outcome

    provider = Streaming(said("The answer."), ProviderError(ProviderErrorKind.CUT, "cut"))
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        await engine.asks("one")
        assert channel.drafts[0][1] == "The answer is on its way, s"
        assert channel.arrived[0].id == channel.drafts[0][0]
        channel.drafts.clear()
        assert await engine.asks("two") == "The answer broke off. Please try again."
        assert channel.arrived[1].id == channel.drafts[0][0]


async def test_channels_are_answered_where_they_asked(tmp_path: Path) -> None:
    first, second = MemoryChannel(), SecondChannel()
    async with rig(tmp_path, AnsweringProvider(Held()), channels=(first, second)) as engine:
        await engine.says("a")
        await engine.says("b", channel="second")
        await engine.until(lambda: first.texts() == ["re: a"])
        await second.bell.wait_for(lambda: second.texts() == ["re: b"], timeout_s=10)
