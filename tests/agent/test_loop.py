"""Turns from the inbox to the outbox: order, stops, failures, crashes, shutdown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.config import JobsSection, LimitsSection
from bot.errors import ChannelError, ProviderError, ProviderErrorKind, StoreUnavailable
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Address, Attachment, ChatType, OutboundKind, Replay
from bot.records import JobKind, Person
from tests.support.clock import FakeClock
from tests.support.engine import (
    MEMBER,
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
from tests.support.memory_channel import DraftingChannel, MemoryChannel, SecondChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import CHAT, opened, reminder_at
from tests.support.strict_provider import violations
from tests.support.tools import MadeTool

DOWN = ProviderError(ProviderErrorKind.CONNECTION, "refused")
NO_MODEL = "I cannot reach the model right now. Please try again later."


class Held:
    """A model that holds the requests whose text is listed until it is let go; it echoes."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, request: ModelRequest) -> ModelReply:
        text = last_user(request)
        self.asked.append(text)
        if text in self.held:
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(text)
                raise
        return said(f"re: {text}")


def strict(provider: AnsweringProvider | ScriptedProvider) -> None:
    """Hold every request to the strictest provider's rules."""
    for request in provider.requests:
        assert violations(list(request.messages)) == []


async def asked(model: Held, count: int) -> None:
    async with asyncio.timeout(10):
        while len(model.asked) < count:
            await asyncio.sleep(0)


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
        assert roles(provider.requests[1]) == ["system", "user", "user"]
        strict(provider)


async def test_a_model_that_fails_in_mid_turn_leaves_each_row_once(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("look", {})), DOWN)
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:
        assert await engine.asks("look") == NO_MODEL
        assert [row["role"] for row in await engine.history()] == ["user", "assistant", "tool"]
        provider.outcomes[:] = [said("Better now.")]
        assert await engine.asks("and now?") == "Better now."
        assert roles(provider.requests[-1]) == ["system", "user", "assistant", "tool", "user"]
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


# --- crashes and shutdown


async def test_a_turn_cut_between_call_and_result_resumes_and_its_effect_is_not_repeated(tmp_path: Path) -> None:
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
        )


# --- several chats


async def test_what_the_tool_sent_elsewhere_does_not_swallow_the_answer_here(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("message", {"content": "For B.", "chat_id": "B"})), said("Sent to B."))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("tell B", chat="A", sender="1") == "Sent to B."
        await engine.reads("For B.", chat="B")


async def test_two_turns_at_once_do_not_share_who_was_answered(tmp_path: Path) -> None:
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
            on_text("The ans")
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
        assert channel.drafts[0][1] == "The ans"
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
