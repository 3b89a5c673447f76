"""/new, /sessions and /status over the whole engine, also across crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.agent.models import Prices
from bot.config import SessionsSection
from bot.interfaces import ModelReply, ModelRequest, Unit
from bot.messages import Address, ChatType, Usage, new_id
from bot.records import CallResult, Ending, Goal, GoalBudget, GoalState, TurnState
from tests.support.clock import FakeClock
from tests.support.engine import MEMBER, OTHER, AnsweringProvider, Rig, Setup, again, last_user, rig, said
from tests.support.memory_channel import MemoryChannel

SPENT = Usage(input_tokens=1_200, output_tokens=30, cached_tokens=1_000)
PRICES = {"scripted": Prices(input=10, cached=1, output=20)}


def echo(request: ModelRequest) -> ModelReply:
    return said(f"re: {last_user(request)}", usage=SPENT)


def spoken(request: ModelRequest) -> list[str]:
    """What people said in a request, without runtime context."""
    return [str(row["content"]).partition("\n\n[Runtime")[0] for row in request.messages if row["role"] == "user"]


async def test_new_archives_and_sessions_goes_back(tmp_path: Path) -> None:
    clock, provider = FakeClock(), AnsweringProvider(echo)
    async with rig(tmp_path, provider, clock=clock) as engine:
        await engine.asks("about bread")
        clock.advance(7_300)
        assert await engine.asks("/new Holiday plans") == (
            "New conversation “Holiday plans”. What was said before is set aside (/sessions leads back to it);"
            " reminders stay."
        )
        await engine.asks("where to?")
        assert await engine.asks("/sessions") == (
            "Conversations:\n1. Holiday plans — 2 messages, 0 s ago ← current\n"
            "2. about bread — 2 messages, 2 h ago\nGo back to one with /sessions NUMBER."
        )
        assert await engine.asks("/sessions 2") == "Back in “about bread”. The conversation before is kept."
        assert await engine.asks("/sessions 2") == "“about bread” is the current conversation already."
        await engine.asks("and rolls?")
        assert spoken(provider.requests[-1]) == ["about bread", "and rolls?"]
        await engine.asks("/sessions 1")
        await engine.asks("or home?")
        assert spoken(provider.requests[-1]) == ["where to?", "or home?"]


async def test_sessions_says_what_it_does_not_know(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(echo)) as engine:
        await engine.asks("hi")
        for wanted in ("2", "0", "#0", "#99", "999999999999999"):
            answer = await engine.asks(f"/sessions {wanted}")
            assert answer == f"There is no conversation {wanted} here. /sessions lists them."
        for wanted in ("first", "-1", "9999999999999999999999", "page 9"):
            assert (await engine.asks(f"/sessions {wanted}")).startswith("Say which one")


async def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(echo)) as engine:
        for number in range(12):
            await engine.asks(f"talk {number}")
            await engine.asks("/new")
        first = await engine.asks("/sessions")
        assert "1. (no title) — 0 messages, 0 s ago ← current\n2. talk 11 — " in first
        assert "\n1–10 of 13; more with /sessions page 2\n" in first
        second = await engine.asks("/sessions page 2")
        assert second.startswith("Conversations:\n11. talk 2 — ")
        assert "13. talk 0" in second
        assert "page 3" not in second


async def test_other_chats_are_no_ones_business(tmp_path: Path) -> None:
    """G7: neither the list nor a number nor an id reaches another chat or thread."""
    async with rig(tmp_path, AnsweringProvider(echo)) as engine:
        await engine.asks("secret", sender=OTHER, chat="c2")
        await engine.asks("in a thread", thread="7")
        await engine.asks("mine")
        foreign = (await engine.store.sessions.state(Address(channel="memory", chat_id="c2"))).session_id
        assert "secret" not in await engine.asks("/sessions")
        assert "thread" not in await engine.asks("/sessions")
        assert (await engine.asks(f"/sessions #{foreign}")).startswith("There is no conversation")
        assert (await engine.asks("/sessions", sender=OTHER, chat="c2")).startswith("Conversations:\n1. secret")


async def test_a_switch_is_made_once_whatever_the_crash(tmp_path: Path) -> None:
    """The switch is committed with its answer's text; the turn that comes again finds it done."""
    setup = Setup(folder=tmp_path, provider=AnsweringProvider(echo), channels=(MemoryChannel(),))
    async with again(setup) as engine:
        for text in ("one", "/new", "two", "/new", "three"):
            await engine.asks(text)
        steps, once = engine.store.steps, engine.store.steps.once

        async def dying(*args: object) -> object:
            await once(*args)  # type: ignore[arg-type]
            await engine.die()
            raise AssertionError

        steps.once = dying  # type: ignore[assignment, method-assign]
        await engine.says("/sessions 3")
        await engine.crashed.wait()
    async with again(setup) as engine:
        texts = await engine.texts_count(6)
        assert texts[-1] == "Back in “one”. The conversation before is kept."
        listing = await engine.asks("/sessions", message_id="list")
        assert "3. one — 2 messages, 0 s ago ← current" in listing
        assert listing.count("current") == 1
        await engine.asks("more", message_id="more")
        provider = setup.provider
        assert isinstance(provider, AnsweringProvider)
        assert spoken(provider.requests[-1]) == ["one", "more"]


@pytest.mark.parametrize("command", ["/sessions 2", "/new", "/stop"])
async def test_a_goal_of_the_conversation_that_is_left_is_closed(tmp_path: Path, command: str) -> None:
    async with rig(tmp_path, AnsweringProvider(echo)) as engine:
        await engine.asks("first")
        await engine.asks("/new")
        await engine.stop_loop()
        session_id = await _with_goal(engine)
        engine.start("loop")
        assert "“count to three”" in await engine.asks(command)
        assert await engine.store.goals.current(session_id) is None


async def test_stop_reaches_a_goal_that_a_late_outcome_opened_in_an_archived_conversation(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(echo)) as engine:
        await engine.asks("first")
        await engine.stop_loop()
        session_id = await _with_goal(engine)
        await engine.says("/new")
        [turn] = await engine.store.turns.claim(limit=1)
        await engine.store.turns.finish(turn, Ending(state=TurnState.DONE, new_session=True))
        engine.start("loop")
        assert "“count to three”" in await engine.asks("/stop")
        assert await engine.store.goals.current(session_id) is None


async def _with_goal(engine: Rig) -> int:
    """Put a goal that waits for the person into the current conversation; returns its id."""
    await engine.says("held")
    [turn] = await engine.store.turns.claim(limit=1)

    def work(unit: Unit) -> CallResult:
        goal = Goal(
            id=new_id("goal-"),
            session_id=turn.session_id,
            address=turn.address,
            chat_type=ChatType.PRIVATE,
            creator_id=MEMBER,
            objective="count to three",
            plan=(),
            budget=GoalBudget(steps=9, minutes=9),
            started_us=unit.now_us(),
            state=GoalState.PAUSED,
        )
        unit.add_goal(goal)
        return CallResult(call_id="c", text="")

    await engine.store.steps.once(turn, "c", work)
    await engine.store.turns.finish(turn, Ending(state=TurnState.DONE))
    return turn.session_id


async def test_status_tells_context_and_what_was_used_today(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-29T23:30:00+01:00")
    setup = Setup(
        folder=tmp_path, provider=AnsweringProvider(echo), channels=(MemoryChannel(),), clock=clock, prices=PRICES
    )
    async with again(setup) as engine:
        assert "\nContext: 0 of 122,880 tokens (0 %)\n" in await engine.asks("/status")
        await engine.asks("hello there")
        await engine.asks("and again")
        status = await engine.asks("/status")
        assert "This conversation: 4 messages — “hello there”\n" in status
        assert "Today in this chat: 2,400 tokens in (2,000 of them cached), 60 out, cost 0.0072\n" in status
        context = _context(status)
        assert context > 100
        clock.advance(3_600)  # the person's next day has begun, in Berlin
        tomorrow = await engine.asks("/status")
        assert "Today in this chat: 0 tokens in (0 of them cached), 0 out\n" in tomorrow
        await engine.asks("/new")
        assert _context(await engine.asks("/status")) == 0
        await engine.asks("/sessions 2")
        assert _context(await engine.asks("/status")) == context
    async with again(setup) as engine:  # the figures come from the store
        assert _context(await engine.asks("/status", message_id="later")) == context


@pytest.mark.parametrize(
    ("language", "context", "today"),
    [
        (
            "de",
            "Kontext: 0 von 122.880 Token",
            "2.400 Token hinein (2.000 davon aus dem Cache), 60 heraus, Kosten 0,0072",
        ),
        ("zh", "122,880", "0.0072"),
    ],
)
async def test_status_writes_figures_as_the_language_does(
    tmp_path: Path, language: Any, context: str, today: str
) -> None:
    """A German reader takes "122,880" for a hundred and twenty-three."""
    setup = Setup(
        folder=tmp_path,
        provider=AnsweringProvider(echo),
        channels=(MemoryChannel(),),
        clock=FakeClock("2026-11-29T12:00:00+01:00"),
        prices=PRICES,
        language=language,
    )
    async with again(setup) as engine:
        assert context in await engine.asks("/status")
        await engine.asks("hallo")
        await engine.asks("und noch einmal")
        assert today in await engine.asks("/status")


def _context(status: str) -> int:
    line = next(line for line in status.splitlines() if line.startswith("Context: "))
    return int(line.split()[1].replace(",", ""))


async def test_the_context_figure_is_corrected_by_what_the_provider_counts(tmp_path: Path) -> None:
    """A provider that counts twice what was estimated: the figure moves towards its count."""

    def answer(request: ModelRequest) -> ModelReply:
        estimate = engine.runner.parts.governor.estimated_tokens(str(session_id)) or 0
        return said("ok", usage=Usage(input_tokens=2 * estimate, output_tokens=1))

    session_id = 1
    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.asks("hi " * 50)
        await engine.asks("hi again")
        figure = _context(await engine.asks("/status"))
        estimate = engine.runner.parts.governor.estimated_tokens("1") or 0
        assert figure > estimate * 1.2


async def test_an_idle_conversation_leaves_memory_and_goes_on_as_before(tmp_path: Path) -> None:
    clock, provider = FakeClock(), AnsweringProvider(echo)
    sessions = SessionsSection(idle_minutes=30)
    async with rig(tmp_path, provider, clock=clock, sessions=sessions) as engine:
        governor = engine.runner.parts.governor
        await engine.asks("one")
        assert governor.estimated_tokens("1") is not None
        clock.advance(31 * 60)
        await engine.asks("elsewhere", chat="c2")
        assert governor.estimated_tokens("1") is None
        assert governor.estimated_tokens("2") is not None
        await engine.asks("two")
        assert spoken(provider.requests[-1]) == ["one", "two"]
