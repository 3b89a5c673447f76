"""What claims, leases and endings promise, also between two workers on one file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bot.clock import US_PER_S
from bot.errors import StaleLease
from bot.interfaces import Store
from bot.messages import Address, Attachment, ChatType, Origin, Quote, Usage
from bot.records import CallResult, Ending, Person, Turn, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, MEMORY, OTHER_CHAT, as_row, asks_for, inbound, opened, outbound, texts

DONE = Ending(state=TurnState.DONE)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


@pytest.fixture
async def other(tmp_path: Path, clock: FakeClock, store: Store) -> AsyncIterator[Store]:
    """A second worker on the same file."""
    async with opened(tmp_path / "db", clock) as second:
        yield second


def lines(turn: Turn) -> list[str]:
    return [item.message.text for item in turn.messages]


# --- claiming


async def test_lanes_come_oldest_message_first_and_one_turn_each(store: Store) -> None:
    await store.inbox.accept(inbound("b1", "1", OTHER_CHAT))
    await store.inbox.accept(inbound("a1", "1"))
    await store.inbox.accept(inbound("b2", "2", OTHER_CHAT))
    turns = await store.turns.claim(limit=9)
    assert [lines(turn) for turn in turns] == [["b1"], ["a1"]]
    assert await store.turns.claim(limit=9) == []
    assert await store.turns.finish(turns[0], DONE) is True
    (following,) = await store.turns.claim(limit=9)
    assert lines(following) == ["b2"]
    assert await store.turns.finish(following, DONE) is False


async def test_the_limit_bounds_one_claim(store: Store) -> None:
    for number in range(5):
        await store.inbox.accept(inbound(str(number), "1", Address(channel="memory", chat_id=f"c{number}")))
    assert [lines(turn) for turn in await store.turns.claim(limit=2)] == [["0"], ["1"]]
    assert [lines(turn) for turn in await store.turns.claim(limit=9)] == [["2"], ["3"], ["4"]]


async def test_threads_and_lanes_of_a_chat_do_not_wait_for_each_other(store: Store) -> None:
    thread = Address(channel="memory", chat_id="c1", thread_id="7")
    await store.inbox.accept(inbound("chat", "1"))
    await store.inbox.accept(inbound("thread", "2", thread))
    await store.inbox.accept(inbound("job", "3", origin=Origin.JOB, lane="job:x"))
    assert [lines(turn) for turn in await store.turns.claim(limit=9)] == [["chat"], ["thread"], ["job"]]


async def test_only_the_wanted_channels_are_claimed(store: Store) -> None:
    await store.inbox.accept(inbound("a"))
    await store.inbox.accept(inbound("b", address=Address(channel="second", chat_id="c1")))
    assert [lines(turn) for turn in await store.turns.claim(limit=9, channels=["second"])] == [["b"]]
    assert [lines(turn) for turn in await store.turns.claim(limit=9)] == [["a"]]


async def test_commands_that_act_at_once_can_be_claimed_alone_and_speak_about_the_chats_session(store: Store) -> None:
    await store.inbox.accept(inbound("chat", "1"))
    (chat,) = await store.turns.claim(limit=1)
    await store.inbox.accept(inbound("other", "2", OTHER_CHAT))
    await store.inbox.accept(inbound("/stop", "3", lane=f"now:{CHAT.key}"))
    (command,) = await store.turns.claim(limit=9, immediate_only=True)
    assert lines(command) == ["/stop"]
    assert command.session_id == chat.session_id
    assert [lines(turn) for turn in await store.turns.claim(limit=9)] == [["other"]]


async def test_no_message_is_claimed_by_two_workers(store: Store, other: Store) -> None:
    for number in range(30):
        await store.inbox.accept(inbound(str(number), "1", Address(channel="memory", chat_id=f"c{number}")))
    claimed: list[str] = []
    for _ in range(10):
        for worker in (store, other):
            claimed += [line for turn in await worker.turns.claim(limit=2) for line in lines(turn)]
    assert sorted(claimed, key=int) == [str(number) for number in range(30)]


async def test_a_turn_knows_its_senders_zone(store: Store) -> None:
    await store.people.save(Person(channel="memory", user_id="111", zone="Asia/Karachi"))
    await store.inbox.accept(inbound())
    await store.inbox.accept(inbound(address=OTHER_CHAT, sender_id="222"))
    mine, theirs = await store.turns.claim(limit=2)
    assert (mine.zone, theirs.zone) == ("Asia/Karachi", "")


# --- leases


async def test_a_lease_runs_out_by_the_clock_and_the_turn_is_resumed_elsewhere(
    store: Store, other: Store, clock: FakeClock
) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    clock.advance(30)
    assert await other.turns.claim(limit=1) == []
    clock.advance(0.1)
    (resumed,) = await other.turns.claim(limit=1)
    assert (resumed.id, resumed.attempt, resumed.fence) == (turn.id, 2, turn.fence + 1)
    assert resumed.owner != turn.owner
    assert resumed.session_id == turn.session_id


async def test_a_renewed_lease_lasts_from_the_renewal(store: Store, other: Store, clock: FakeClock) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    clock.advance(20)
    await store.turns.renew([turn.id])
    clock.advance(20)
    assert await other.turns.claim(limit=1) == []
    clock.advance(10.1)
    assert len(await other.turns.claim(limit=1)) == 1


async def test_a_worker_cannot_renew_what_it_lost(store: Store, other: Store, clock: FakeClock) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    clock.advance(31)
    await other.turns.claim(limit=1)
    clock.advance(20)
    await store.turns.renew([turn.id])
    clock.advance(11)
    (again,) = await store.turns.claim(limit=1)
    assert again.attempt == 3


@pytest.mark.parametrize(
    "verb", ["finish", "record_reply", "start_call", "record_result", "record_step", "once", "draft"]
)
async def test_every_write_of_a_stale_worker_is_refused_and_changes_nothing(
    store: Store, other: Store, clock: FakeClock, verb: str
) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, rows, calls)
    clock.advance(31)
    (resumed,) = await other.turns.claim(limit=1)
    done = CallResult(call_id="a", text="stale")

    def never(unit: object) -> CallResult:
        raise AssertionError("ran for a stale worker")

    ending = Ending(state=TurnState.DONE, outbound=(outbound("stale"),))
    writes: dict[str, Coroutine[Any, Any, object]] = {
        "finish": store.turns.finish(turn, ending),
        "record_reply": store.steps.record_reply(turn, [{"role": "assistant", "content": "stale"}], []),
        "start_call": store.steps.start_call(turn, "a"),
        "record_result": store.steps.record_result(turn, done),
        "record_step": store.steps.record_step(turn, [done], [], as_row),
        "once": store.steps.once(turn, "b", never),
        "draft": store.turns.save_draft(turn, "stale"),
    }
    write = writes.pop(verb)
    for unused in writes.values():
        unused.close()
    with pytest.raises(StaleLease):
        await write
    assert (await other.history.window(resumed.session_id, limit_tokens=1000)).rows == rows
    (record,) = await other.steps.calls_of(resumed, 0)
    assert (str(record.state), record.result) == ("pending", None)
    assert await other.outbox.next_due_us(MEMORY) is None
    assert await other.turns.finish(resumed, DONE) is False


async def test_an_ended_turn_cannot_be_ended_again(store: Store) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, DONE)
    with pytest.raises(StaleLease):
        await store.turns.finish(turn, DONE)


async def test_a_released_turn_is_resumed_at_once_without_a_lost_attempt(store: Store, other: Store) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.release(turn)
    (resumed,) = await other.turns.claim(limit=1)
    assert (resumed.id, resumed.attempt) == (turn.id, 1)
    await store.turns.release(turn)  # not its own any more: without effect
    with pytest.raises(StaleLease):
        await store.turns.finish(turn, DONE)
    await other.turns.release(resumed, counts=True)
    (counted,) = await store.turns.claim(limit=1)
    assert counted.attempt == 2


async def test_opening_alone_voids_every_lease(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    async with opened(tmp_path / "db", clock, exclusive=True) as next_process:
        (resumed,) = await next_process.turns.claim(limit=1)
        assert (resumed.id, resumed.attempt) == (turn.id, 2)


# --- crash suspects


async def test_turns_cut_short_twice_are_tried_one_at_a_time(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    for name in ("a", "b", "c"):
        await store.inbox.accept(inbound(name, address=Address(channel="memory", chat_id=name)))
    attempts: list[list[tuple[str, int]]] = []
    for _ in range(5):
        async with opened(tmp_path / "db", clock, exclusive=True) as process:
            turns = await process.turns.claim(limit=9)
            assert await process.turns.claim(limit=9) == []  # a suspect is on trial
            attempts.append([(lines(turn)[0], turn.attempt) for turn in turns])
    assert attempts == [
        [("a", 1), ("b", 1), ("c", 1)],
        [("a", 2), ("b", 2), ("c", 2)],
        [("a", 3)],
        [("a", 4)],
        [("a", 5)],
    ]


async def test_when_a_suspect_has_ended_the_next_is_tried(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    for name in ("a", "b"):
        await store.inbox.accept(inbound(name, address=Address(channel="memory", chat_id=name)))
    for _ in range(2):
        async with opened(tmp_path / "db", clock, exclusive=True) as process:
            await process.turns.claim(limit=9)
    async with opened(tmp_path / "db", clock, exclusive=True) as process:
        (first,) = await process.turns.claim(limit=9)
        await process.turns.finish(first, DONE)
        (second,) = await process.turns.claim(limit=9)
        assert (lines(second), second.attempt) == (["b"], 3)


async def test_suspects_do_not_hide_others_behind_them(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    for name in ("a", "b", "c"):
        await store.inbox.accept(inbound(name, address=Address(channel="memory", chat_id=name)))
    for _ in range(2):
        async with opened(tmp_path / "db", clock, exclusive=True) as process:
            await process.turns.claim(limit=3)
    await store.inbox.accept(inbound("d", address=Address(channel="memory", chat_id="d")))
    await store.turns.claim(limit=1)  # d, cut short once; a is the suspect before it
    async with opened(tmp_path / "db", clock, exclusive=True) as process:
        claimed = await process.turns.claim(limit=2)
    assert "d" in [lines(turn)[0] for turn in claimed]


# --- joining


async def test_lines_of_one_sender_that_waited_through_an_outage_are_one_turn(
    tmp_path: Path, clock: FakeClock, store: Store
) -> None:
    await store.inbox.accept(inbound("one", "1"))
    await store.inbox.accept(inbound("two", "2", attachments=(Attachment(kind="image", ref="r"),)))
    await store.inbox.accept(inbound("three", "3", sender_id="222"))
    clock.advance(60)
    async with opened(tmp_path / "db", clock, exclusive=True) as process:
        (turn,) = await process.turns.claim(limit=1)
        assert lines(turn) == ["one", "two"]
        await process.turns.finish(turn, DONE)
        (following,) = await process.turns.claim(limit=1)
        assert lines(following) == ["three"]


@pytest.mark.parametrize("command", ["/new", "  /new"])
async def test_a_command_has_a_turn_of_its_own(tmp_path: Path, clock: FakeClock, store: Store, command: str) -> None:
    for number, text in enumerate(["one", command, "two"]):
        await store.inbox.accept(inbound(text, str(number)))
    clock.advance(60)
    async with opened(tmp_path / "db", clock, exclusive=True) as process:
        for expected in (["one"], [command], ["two"]):
            (turn,) = await process.turns.claim(limit=1)
            assert lines(turn) == expected
            await process.turns.finish(turn, DONE)


async def test_what_the_sender_writes_meanwhile_joins_at_the_next_step(store: Store) -> None:
    await store.inbox.accept(inbound("do it", "1"))
    (turn,) = await store.turns.claim(limit=1)
    await store.inbox.accept(inbound("and quickly", "2"))
    await store.inbox.accept(inbound("please", "3"))
    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, [{"role": "user", "content": "do it"}, *rows], calls)
    turn, joined = await store.steps.record_step(turn, [], [{"role": "tool", "content": "r"}], as_row)
    assert texts(joined) == ["and quickly", "please"]
    assert lines(turn) == ["do it", "and quickly", "please"]
    assert (turn.step, turn.has_rows) == (1, True)
    assert await store.turns.finish(turn, DONE) is False
    assert await store.turns.claim(limit=1) == []


@pytest.mark.parametrize(
    "waiting",
    [
        inbound("other sender", "2", sender_id="222"),
        inbound("other rights", "2", chat_type=ChatType.GROUP),
        inbound("/status", "2"),
        inbound("a picture", "2", attachments=(Attachment(kind="image", ref="r"),)),
        inbound("this one", "2", quote=Quote(message_id="9", author="bot", text="Pay rent")),
        inbound("an outcome", "2", origin=Origin.SUBAGENT),
    ],
    ids=lambda message: message.text,
)
async def test_other_messages_wait_for_a_turn_of_their_own_and_keep_those_behind_them_waiting(
    store: Store, waiting: object
) -> None:
    await store.inbox.accept(inbound("do it", "1"))
    (turn,) = await store.turns.claim(limit=1)
    await store.inbox.accept(waiting)  # type: ignore[arg-type]
    await store.inbox.accept(inbound("after that", "3"))
    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, rows, calls)
    turn, joined = await store.steps.record_step(turn, [], [], as_row)
    assert joined == []
    assert await store.turns.finish(turn, DONE) is True


async def test_a_resumed_turn_has_what_joined_it(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    await store.inbox.accept(inbound("do it", "1"))
    (turn,) = await store.turns.claim(limit=1)
    await store.inbox.accept(inbound("quickly", "2"))
    rows, calls = asks_for("a")
    await store.steps.record_reply(turn, rows, calls)
    await store.steps.record_step(turn, [], [], as_row)
    async with opened(tmp_path / "db", clock, exclusive=True) as process:
        (resumed,) = await process.turns.claim(limit=1)
        assert lines(resumed) == ["do it", "quickly"]
        assert (resumed.step, resumed.has_rows, resumed.attempt) == (1, True, 2)


# --- ending


async def test_an_ending_is_whole(store: Store) -> None:
    await store.inbox.accept(inbound("question", "1"))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.save_draft(turn, "d1")
    ending = Ending(
        state=TurnState.DONE,
        rows=({"role": "user", "content": "question"}, {"role": "assistant", "content": "answer \ud800"}),
        outbound=(outbound("answer"), outbound("more")),
        inbound=(inbound("to the helper", "sub-1", origin=Origin.SUBAGENT, lane="sub:1"),),
        usage=Usage(input_tokens=5, output_tokens=2),
    )
    assert await store.turns.finish(turn, ending) is True
    history = (await store.history.window(turn.session_id, limit_tokens=1000)).rows
    assert texts(history) == ["question", "answer \ufffd"]
    sent = []
    for _ in range(2):
        ((row,), _due) = await store.outbox.claim(limit=9, channels=MEMORY)
        sent.append((row.message.text, row.message.draft_id))
        await store.outbox.settle(row.id, ["m1"])
    assert sent == [("answer", "d1"), ("more", "")]
    assert [lines(item) for item in await store.turns.claim(limit=9)] == [["to the helper"]]


async def test_a_new_session_leaves_the_old_rows_behind(store: Store) -> None:
    await store.inbox.accept(inbound("before", "1"))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=({"role": "user", "content": "before"},)))
    assert await store.history.count(CHAT) == 1
    await store.inbox.accept(inbound("/new", "2"))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DONE, new_session=True))
    assert await store.history.count(CHAT) == 0
    await store.inbox.accept(inbound("after", "3"))
    (fresh,) = await store.turns.claim(limit=1)
    assert fresh.session_id != turn.session_id
    assert (await store.history.window(fresh.session_id, limit_tokens=1000)).rows == []


async def test_a_jobs_report_is_remembered_by_its_chat(store: Store) -> None:
    await store.inbox.accept(inbound("report", "run-1", origin=Origin.JOB, lane="job:j:1"))
    (turn,) = await store.turns.claim(limit=1)
    own = ({"role": "user", "content": "order"}, {"role": "assistant", "content": "long work"})
    await store.turns.finish(
        turn, Ending(state=TurnState.DONE, rows=own, chat_rows=({"role": "assistant", "content": "report"},))
    )
    assert await store.history.count(CHAT) == 1
    assert texts((await store.history.window(turn.session_id, limit_tokens=1000)).rows) == ["order", "long work"]


async def test_history_gives_at_least_the_newest_rows_that_fit(store: Store) -> None:
    await store.inbox.accept(inbound())
    (turn,) = await store.turns.claim(limit=1)
    rows = tuple({"role": "user", "content": f"{number} " + "x" * 1000} for number in range(50))
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=rows))
    tail = (await store.history.window(turn.session_id, limit_tokens=500)).rows
    assert tail == list(rows[-len(tail) :])
    assert 3 <= len(tail) <= 5
    assert US_PER_S == 1_000_000
