"""The provider without a model, through the real tools: the answer is the receipt, and nothing is claimed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.config import JobsSection, LimitsSection
from bot.errors import ProviderError, ProviderErrorKind
from bot.providers.offline import OfflineProvider
from bot.providers.stand_in import StandInProvider
from tests.support.clock import FakeClock, instant
from tests.support.engine import Rig, again, rig
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock("2026-11-29T12:00:00+01:00")


@pytest.fixture
async def engine(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock) as engine:
        yield engine


async def test_the_answer_is_the_receipt_of_the_stored_job(engine: Rig) -> None:
    answer = await engine.asks("remind me in 10 minutes to stretch")
    (job,) = await engine.jobs()
    assert answer == f"Reminder set: “stretch” — Sun 29 Nov 2026 12:10 (CET, Europe/Berlin) [{job.id}]"
    assert job.next_us == instant("2026-11-29T12:10:00+01:00")
    engine.advance(600)
    await engine.reads(answer, "stretch")


@pytest.mark.parametrize(
    ("language", "text", "beginning"),
    [
        ("de", "erinnere mich in 10 Minuten ans Strecken", "Erinnerung gesetzt: „"),
        ("zh", "10分钟后提醒我伸展", "提醒已设置: “"),
        ("en", "every weekday at 9 check the mail", "Reminder set: “"),
    ],
)
async def test_it_answers_in_the_configured_language(
    tmp_path: Path, clock: FakeClock, language: str, text: str, beginning: str
) -> None:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock, language=language) as engine:
        assert (await engine.asks(text)).startswith(beginning)
        assert len(await engine.jobs()) == 1


async def test_list_and_cancel_by_words(engine: Rig) -> None:
    await engine.asks("remind me in 10 minutes to stretch")
    await engine.asks("remind me tomorrow at 9 to call mum")
    stretch, call = await engine.jobs()
    listing = await engine.asks("what are my reminders?")
    assert listing == (
        "Reminders and tasks:\n"
        f"• stretch — Sun 29 Nov 2026 12:10 (CET, Europe/Berlin) [{stretch.id}]\n"
        f"• call mum — Mon 30 Nov 2026 09:00 (CET, Europe/Berlin) [{call.id}]"
    )
    assert await engine.asks("cancel the stretch one") == f"Removed: “stretch” [{stretch.id}]"
    assert await engine.jobs() == [call]
    assert "found no reminder like" in await engine.asks("cancel the dentist reminder")
    assert await engine.asks("cancel all reminders") == f"Removed: “call mum” [{call.id}]"
    assert await engine.asks("what are my reminders?") == "No reminders or tasks in this chat."


async def test_the_status_counts_what_was_said_and_no_calls_of_tools(engine: Rig) -> None:
    await engine.asks("remind me in 10 minutes to stretch")
    await engine.asks("what are my reminders")
    assert "This conversation: 4 messages — " in await engine.asks("/status")


async def test_when_two_fit_it_asks_which(engine: Rig) -> None:
    await engine.asks("remind me in 10 minutes to call mum")
    await engine.asks("remind me in 20 minutes to call dad")
    answer = await engine.asks("cancel the call reminder")
    assert answer.startswith("Which one? ")
    assert len(await engine.jobs()) == 2


async def test_what_the_tool_refuses_is_passed_on_and_never_confirmed(tmp_path: Path, clock: FakeClock) -> None:
    jobs = JobsSection(max_per_chat=1)
    async with rig(tmp_path, OfflineProvider(clock), clock=clock, jobs=jobs) as engine:
        await engine.asks("remind me in 10 minutes to stretch")
        answer = await engine.asks("remind me in 20 minutes to drink")
        assert "the limit is 1" in answer
        assert "Reminder set" not in answer
        assert len(await engine.jobs()) == 1


async def test_a_past_time_is_refused_and_nothing_stored(engine: Rig) -> None:
    assert await engine.asks("remind me yesterday to stretch") == (
        "That time has passed already. When should I remind you?"
    )
    assert await engine.jobs() == []


async def test_anything_else_is_answered_honestly(engine: Rig) -> None:
    answer = await engine.asks("what is the capital of France?")
    assert answer.startswith("No model is set up, so I can only keep reminders")
    assert "[llm]" in answer


async def test_lines_that_waited_through_an_outage_are_all_handled(tmp_path: Path, clock: FakeClock) -> None:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock, start=["delivery"]) as engine:
        await engine.says("remind me in 10 minutes to stretch")
        await engine.says("remind me in 20 minutes to drink")
        setup = engine.setup
    clock.advance(1)
    async with again(setup) as engine:
        (answer,) = await engine.texts_count(1)
        first, second = await engine.jobs()
        assert answer == (
            f"Reminder set: “stretch” — Sun 29 Nov 2026 12:10:01 (CET, Europe/Berlin) [{first.id}]\n"
            f"Reminder set: “drink” — Sun 29 Nov 2026 12:20:01 (CET, Europe/Berlin) [{second.id}]"
        )


async def test_an_order_that_joins_the_turn_of_another_is_handled_and_both_are_confirmed(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock) as engine:
        joins(engine, "remind me in 20 minutes to drink")
        answer = await engine.asks("remind me in 10 minutes to stretch")
        first, second = await engine.jobs()
        assert first.id in answer
        assert second.id in answer
        await engine.idle()
        assert len(engine.channel.texts()) == 1


async def test_a_list_is_shown_though_a_line_it_does_not_understand_joined_its_turn(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock) as engine:
        await engine.asks("remind me in 10 minutes to stretch")
        (job,) = await engine.jobs()
        record_reply = engine.store.steps.record_reply
        lines = ["hello"]

        async def meanwhile(*arguments: object) -> None:
            if lines:
                clock.advance(1)
                await engine.says(lines.pop())
            await record_reply(*arguments)  # type: ignore[arg-type]

        engine.store.steps.record_reply = meanwhile  # type: ignore[method-assign,assignment]
        answer = await engine.asks("what are my reminders")
        assert answer.splitlines()[0] == "Reminders and tasks:"
        assert job.id in answer


def joins(engine: Rig, line: str) -> None:
    """Let a line arrive while the next turn is at its first step."""
    record_reply, lines = engine.store.steps.record_reply, [line]

    async def meanwhile(*arguments: object) -> None:
        if lines:
            await engine.says(lines.pop())
        await record_reply(*arguments)  # type: ignore[arg-type]

    engine.store.steps.record_reply = meanwhile  # type: ignore[method-assign,assignment]


async def waiting_lines(tmp_path: Path, clock: FakeClock, *lines: str) -> tuple[str, list[str]]:
    """Return the one answer to lines that waited for a start, and the ids of the jobs there are then."""
    async with rig(tmp_path, OfflineProvider(clock), clock=clock, start=["delivery"]) as engine:
        for line in lines:
            await engine.says(line)
        setup = engine.setup
    clock.advance(1)
    async with again(setup) as engine:
        (answer,) = await engine.texts_count(1)
        return answer, [job.id for job in await engine.jobs()]


NO_MODEL = "No model is set up"


async def test_each_line_of_one_turn_is_answered_in_its_order(tmp_path: Path, clock: FakeClock) -> None:
    answer, (mail,) = await waiting_lines(
        tmp_path,
        clock,
        "hello",
        "remind me in 10 minutes to stretch",
        "every weekday at 9 check the mail",
        "what are my reminders",
        "cancel the stretch one",
        "what are my reminders",
        "cancel the dentist reminder",
        "what is the capital of France?",
    )
    lines = answer.splitlines()
    beginnings = [
        NO_MODEL,
        "Reminder set: “stretch”",
        "Reminder set: “check the mail”",
        "Reminders and tasks:",
        "• stretch",
        "• check the mail",
        "Removed: “stretch”",
        "Reminders and tasks:",
        "• check the mail",
        "I found no reminder like “dentist",
        NO_MODEL,
    ]
    assert len(lines) == len(beginnings)
    assert all(line.startswith(beginning) for line, beginning in zip(lines, beginnings, strict=True))
    assert mail in lines[-3]


async def test_lines_that_need_a_model_one_after_the_other_are_told_so_once(tmp_path: Path, clock: FakeClock) -> None:
    answer, _ = await waiting_lines(tmp_path, clock, "hello", "are you there?")
    assert answer.count(NO_MODEL) == 1


async def test_equal_questions_side_by_side_share_one_answer(tmp_path: Path, clock: FakeClock) -> None:
    answer, _ = await waiting_lines(tmp_path, clock, *["what are my reminders"] * 5)
    assert answer == "No reminders or tasks in this chat."


async def test_equal_orders_in_one_turn_are_no_circle(tmp_path: Path, clock: FakeClock) -> None:
    lines = ["what are my reminders", "remind me in 10 minutes to stretch", "cancel the stretch one"]
    answer, jobs = await waiting_lines(tmp_path, clock, *lines * 5)
    beginnings = ["No reminders or tasks", "Reminder set: “stretch”", "Removed: “stretch”"] * 5
    said = answer.splitlines()
    assert [line[: len(beginning)] for line, beginning in zip(said, beginnings, strict=True)] == beginnings
    assert jobs == []


async def test_what_the_steps_of_a_turn_do_not_suffice_for_is_said(tmp_path: Path, clock: FakeClock) -> None:
    count = LimitsSection().steps_per_turn
    lines = [
        f"{order} the dentist {number}" for number in range(count) for order in ("cancel", "remind me tomorrow of")
    ]
    answer, _ = await waiting_lines(tmp_path, clock, *lines)
    said = answer.splitlines()
    assert sum(line.startswith("Reminder set") for line in said) == count - 1
    assert said[-1] == f"This was too much at once, and I did not get to it; please send it again: “{lines[-1]}”"


async def test_a_question_that_joined_while_the_model_is_down_leaves_the_receipt_and_is_told_so(
    tmp_path: Path, clock: FakeClock
) -> None:
    primary = ScriptedProvider(*[ProviderError(ProviderErrorKind.CONNECTION, "refused")] * 3)
    provider = StandInProvider(
        primary, OfflineProvider(clock, stands_in=True), notice=lambda language: f"notice in {language}", clock=clock
    )
    async with rig(tmp_path, provider, clock=clock) as engine:
        joins(engine, "what is the capital of France?")
        first, second, *_ = (await engine.asks("remind me in 10 minutes to stretch")).splitlines()
        assert first.startswith("Reminder set: “stretch”")
        assert second == "This needs the model, which cannot be reached now. Please ask again later."


async def test_a_line_that_joined_a_turn_and_needs_a_model_is_told_so(tmp_path: Path, clock: FakeClock) -> None:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock) as engine:
        joins(engine, "what is the capital of France?")
        first, second = (await engine.asks("what are my reminders")).splitlines()
        assert first == "No reminders or tasks in this chat."
        assert second.startswith(NO_MODEL)


async def test_without_the_tool_it_promises_nothing(tmp_path: Path, clock: FakeClock) -> None:
    async with rig(tmp_path, OfflineProvider(clock), clock=clock, tools=[MadeTool("other")]) as engine:
        engine.registry.unregister("cron")
        assert (await engine.asks("remind me in 10 minutes to stretch")).startswith("No model is set up")
