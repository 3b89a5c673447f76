"""Conversations of an address: listed, named, gone back to, and never those of another address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.interfaces import Store, Unit
from bot.messages import Address, Attachment, Origin, Usage
from bot.records import CallResult, Ending, JobKind, RunState, Subagent, SubagentState, TurnState
from bot.store.sessions import TITLE_CHARS
from tests.support.clock import FakeClock
from tests.support.past import begin_new, claimed, converse
from tests.support.stores import CHAT, COMPOSER, DAY_S, OTHER_CHAT, inbound, new_job, opened, reminder_at, texts

DAY_US = DAY_S * US_PER_S


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "x.db", clock, exclusive=True) as made:
        yield made


async def titles(store: Store, address: Address = CHAT) -> list[str]:
    page = await store.sessions.page(address, limit=99)
    return [f"{item.number} {item.session.title}{' *' if item.is_current else ''}" for item in page.entries]


async def switch(store: Store, number: int, address: Address = CHAT) -> bool:
    turn = await claimed(store, inbound(f"/sessions {number}", f"s{number}", address))

    def work(unit: Unit) -> CallResult:
        session = unit.find_session(address, number=number)
        done = session is not None and unit.switch_session(address, session.id)
        return CallResult(call_id="command", text=str(done))

    result = await store.steps.once(turn, "command", work)
    assert (await store.steps.once(turn, "command", work)) == result  # as after a crash
    await store.turns.finish(turn, Ending(state=TurnState.DONE))
    return result.text == "True"


async def test_the_list_has_the_newest_first_with_titles_ages_and_messages(store: Store, clock: FakeClock) -> None:
    await converse(store, "How tall is\nthe tower?")
    clock.advance(60)
    await begin_new(store)
    await converse(store, "Bread recipe", number=1)
    await converse(store, "More of it", number=2)
    page = await store.sessions.page(CHAT, limit=9)
    assert [(item.number, item.session.title, item.messages, item.is_current) for item in page.entries] == [
        (1, "Bread recipe", 4, True),
        (2, "How tall is the tower?", 2, False),
    ]
    assert [item.session.used_us for item in page.entries] == [clock.now_us(), clock.now_us() - 60 * US_PER_S]
    assert page.total == 2
    second = await store.sessions.page(CHAT, limit=1, offset=1)
    assert [(item.number, item.session.title) for item in second.entries] == [(2, "How tall is the tower?")]


async def test_a_conversation_in_which_nothing_was_said_is_listed_only_while_it_is_current(store: Store) -> None:
    await converse(store, "first")
    await begin_new(store)
    assert await titles(store) == ["1  *", "2 first"]
    await begin_new(store, number=1)
    assert await titles(store) == ["1  *", "2 first"]


async def test_going_back_makes_the_archived_one_current_and_archives_the_other(store: Store) -> None:
    await converse(store, "first")
    await begin_new(store)
    await converse(store, "second")
    assert await switch(store, 2)
    assert await titles(store) == ["1 second", "2 first *"]
    turn = await converse(store, "again")
    rows = (await store.history.window(turn.session_id, limit_tokens=999)).rows
    assert texts(rows) == ["first", "yes", "again", "yes"]
    [second, first] = (await store.sessions.page(CHAT, limit=9)).entries
    assert first.session.archived_us is None
    assert second.session.archived_us is not None


async def test_numbers_and_ids_of_other_chats_lead_nowhere(store: Store) -> None:
    """G7: a chat cannot list or continue the conversations of another."""
    foreign = await converse(store, "secret", address=OTHER_CHAT)
    await begin_new(store, address=OTHER_CHAT)
    thread = Address(channel=CHAT.channel, chat_id=CHAT.chat_id, thread_id="7")
    await converse(store, "in a thread", address=thread)
    await converse(store, "mine")
    assert await titles(store) == ["1 mine *"]
    assert not await switch(store, 2)
    turn = await claimed(store, inbound("/sessions", "x"))

    def work(unit: Unit) -> CallResult:
        found = unit.find_session(CHAT, session_id=foreign.session_id)
        return CallResult(call_id="c", text=f"{found} {unit.switch_session(CHAT, foreign.session_id)}")

    assert (await store.steps.once(turn, "c", work)).text == "None False"
    assert await titles(store, OTHER_CHAT) == ["1  *", "2 secret"]


async def test_a_title_is_one_line_cut_at_a_word(store: Store) -> None:
    await converse(store, "please  explain\tto me " + "at great length " * 9)
    [title] = await titles(store)
    assert title == "1 please explain to me at great length at great length at… *"
    assert len(title) <= TITLE_CHARS + 4
    await begin_new(store)
    await converse(store, "请" * 99)
    assert (await titles(store))[0] == f"1 {'请' * (TITLE_CHARS - 1)}… *"


async def test_a_title_comes_from_a_person_only(store: Store) -> None:
    """A goal's or a subagent's text, and a command, name nothing; a file without words does."""
    await begin_new(store)
    turn = await claimed(store, inbound("the outcome", "o", origin=Origin.SUBAGENT, meta={"outcome": "done"}))
    await store.turns.finish(
        turn, Ending(state=TurnState.DONE, rows=({"role": "user", "content": "[Background task “sum” ended]"},))
    )
    assert await titles(store) == ["1  *"]
    picture = inbound("", "p", attachments=(Attachment(kind="image", name="roof.jpg"),))
    turn = await claimed(store, picture)
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=({"role": "user", "content": "[roof]"},)))
    assert await titles(store) == ["1 roof.jpg *"]


async def test_a_title_given_with_new_stays(store: Store) -> None:
    await begin_new(store, title="Holiday\nplans")
    await converse(store, "where to?")
    assert await titles(store) == ["1 Holiday plans *"]


async def test_what_a_job_reports_goes_to_the_conversation_it_was_made_in(store: Store, clock: FakeClock) -> None:
    first = await converse(store, "plan it")
    schedule = reminder_at(clock.now_us() + US_PER_S).schedule
    job = new_job(schedule, clock.now_us() + US_PER_S, kind=JobKind.TASK, session_id=first.session_id)
    made = await store.jobs.add(job, limit_per_chat=9)
    await begin_new(store)
    second = await converse(store, "something else")
    clock.advance(2)
    assert await store.jobs.fire(COMPOSER, catch_up_max_age_us=DAY_US) == 1
    await store.jobs.remove(made.id)  # it may remove itself while it runs
    [run] = await store.turns.claim(limit=1)
    report = {"role": "assistant", "content": "the report"}
    ending = Ending(state=TurnState.DONE, chat_rows=(report,), run_id=run.meta["run_id"], run_state=RunState.OK)
    await store.turns.finish(run, ending)
    assert texts((await store.history.window(first.session_id, limit_tokens=999)).rows)[-1] == "the report"
    assert "the report" not in texts((await store.history.window(second.session_id, limit_tokens=999)).rows)


async def test_what_was_born_in_a_conversation_that_is_gone_goes_to_the_current_one(
    store: Store, clock: FakeClock
) -> None:
    first = await converse(store, "plan it")
    await begin_new(store)
    clock.advance(3 * DAY_S)
    second = await converse(store, "something else")
    await store.overview.retire(older_than_us=clock.now_us() - DAY_US)
    meta = {"outcome": "done", "session_id": first.session_id}
    turn = await claimed(store, inbound("the outcome", "o", origin=Origin.SUBAGENT, meta=meta))
    assert turn.session_id == second.session_id


async def test_a_person_cannot_name_the_conversation_a_message_belongs_to(store: Store) -> None:
    first = await converse(store, "first")
    await begin_new(store)
    turn = await claimed(store, inbound("hello", "h", meta={"session_id": first.session_id}))
    assert turn.session_id != first.session_id


async def test_a_subagent_remembers_where_it_was_spawned(store: Store, clock: FakeClock) -> None:
    turn = await claimed(store, inbound("go"))
    subagent = Subagent(
        id="sub-1",
        address=CHAT,
        parent_lane=CHAT.key,
        label="sum",
        task="add",
        state=SubagentState.RUNNING,
        reply_to="",
        creator_id="111",
        chat_type=turn.messages[0].message.chat_type,
        started_us=clock.now_us(),
        session_id=turn.session_id,
    )

    def work(unit: Unit) -> CallResult:
        unit.add_subagent(subagent)
        return CallResult(call_id="c", text="")

    await store.steps.once(turn, "c", work)
    assert await store.subagents.get("sub-1") == subagent


async def test_usage_counts_the_tasks_and_helpers_of_a_chat_and_nobody_elses(store: Store, clock: FakeClock) -> None:
    midnight = clock.now_us()
    clock.advance(1)
    spent = Usage(input_tokens=100, output_tokens=10, cached_tokens=40, cost_micros=7)
    messages = [
        inbound("a"),
        inbound("run", "r", origin=Origin.JOB, lane="job:x:1"),
        inbound("help", "s", origin=Origin.SUBAGENT, lane="sub:y"),
        inbound("b", "b", OTHER_CHAT),
    ]
    for message in messages:
        turn = await claimed(store, message)
        await store.turns.finish(turn, Ending(state=TurnState.DONE, usage=spent))
    total = Usage(input_tokens=300, output_tokens=30, cached_tokens=120, cost_micros=21)
    assert await store.overview.usage(CHAT, since_us=midnight) == total
    assert await store.overview.usage(CHAT, since_us=clock.now_us() + 1) == Usage()


async def test_the_state_of_a_chat_tells_its_conversation_and_the_last_request(store: Store) -> None:
    assert (await store.sessions.state(CHAT)).session_id is None
    turn = await claimed(store, inbound("hi"))
    rows = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"})
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=rows, context_tokens=812))
    turn = await claimed(store, inbound("/status", "2"))  # asks no model and leaves the figure as it is
    await store.turns.finish(turn, Ending(state=TurnState.DONE))
    state = await store.sessions.state(CHAT)
    assert (state.title, state.messages, state.context_tokens, state.model) == ("hi", 2, 812, "")
