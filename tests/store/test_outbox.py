"""What the outbox promises: order per chat and thread, one sender at a time, nothing forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.interfaces import Store
from bot.messages import Address, Attachment, Button, ChatType, OutboundKind
from bot.records import Ending, OutboxRow, SendState, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, COMPOSER, DAY_S, MEMORY, OTHER_CHAT, inbound, opened, outbound, reminder_at

THREAD = Address(channel="memory", chat_id="c1", thread_id="7")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


async def claim(store: Store, limit: int = 9) -> list[OutboxRow]:
    return (await store.outbox.claim(limit=limit, channels=MEMORY))[0]


def words(rows: list[OutboxRow]) -> list[str]:
    return [row.message.text for row in rows]


async def test_everything_of_a_message_comes_back(store: Store) -> None:
    message = outbound(
        "text \x00\ud800",
        kind=OutboundKind.MESSAGE,
        reply_to="5",
        answers="6",
        job_id="job-x",
        draft_id="d1",
        buttons=((Button(label="Yes", data="yes"), Button(label="No", data="no")),),
        attachments=(Attachment(kind="image", name="p\ud800", path="/p"),),
    )
    outbox_id = await store.outbox.put(message)
    (row,) = await claim(store)
    assert row.id == outbox_id
    assert row.message.text == "text \ufffd"
    assert row.message.attachments[0].name == "p\ufffd"
    assert (row.message.kind, row.message.reply_to, row.message.answers) == (OutboundKind.MESSAGE, "5", "6")
    assert (row.message.job_id, row.message.draft_id, row.message.buttons) == ("job-x", "d1", message.buttons)
    assert (row.state, row.attempts, row.uncertain, row.first_try_us, row.sent_ids) == (SendState.QUEUED, 0, 0, 0, ())


async def test_each_chat_and_thread_is_sent_in_order_beside_the_others(store: Store) -> None:
    for address, text in [(CHAT, "a1"), (CHAT, "a2"), (THREAD, "t1"), (OTHER_CHAT, "b1"), (THREAD, "t2")]:
        await store.outbox.put(outbound(text, address))
    rows = await claim(store)
    assert words(rows) == ["a1", "t1", "b1"]
    assert await claim(store) == []
    assert await store.outbox.settle(rows[0].id, ["m1"]) is True
    assert await store.outbox.settle(rows[2].id, ["m2"]) is False
    assert words(await claim(store)) == ["a2"]


async def test_only_open_channels_are_claimed(store: Store) -> None:
    await store.outbox.put(outbound("a"))
    await store.outbox.put(outbound("b", Address(channel="second", chat_id="c1")))
    rows, _ = await store.outbox.claim(limit=9, channels=["second"])
    assert words(rows) == ["b"]


async def test_a_retry_waits_for_its_time_and_holds_back_what_follows(store: Store, clock: FakeClock) -> None:
    await store.outbox.put(outbound("first"))
    await store.outbox.put(outbound("second"))
    (row,) = await claim(store)
    later_us = clock.now_us() + 5 * US_PER_S
    await store.outbox.retry(row.id, not_before_us=later_us, error="try \ud800 again", uncertain=True)
    assert await store.outbox.claim(limit=9, channels=MEMORY) == ([], later_us)
    clock.advance(5)
    (again,) = await claim(store)
    assert (again.message.text, again.attempts, again.uncertain, again.error) == ("first", 1, 1, "try \ufffd again")
    assert again.first_try_us == clock.now_us() - 5 * US_PER_S


async def test_a_rate_limit_holds_back_the_chat_with_all_threads_and_nobody_else(
    store: Store, clock: FakeClock
) -> None:
    until_us = clock.now_us() + 10 * US_PER_S
    await store.outbox.delay_chat(THREAD, until_us)
    await store.outbox.delay_chat(THREAD, until_us - US_PER_S)  # a shorter wait does not shorten it
    for address, text in [(CHAT, "a"), (THREAD, "t"), (OTHER_CHAT, "b")]:
        await store.outbox.put(outbound(text, address))
    assert words(await claim(store)) == ["b"]
    assert await store.outbox.next_due_us(MEMORY) == until_us
    clock.advance(10)
    assert words(await claim(store)) == ["a", "t"]


async def test_a_send_that_was_cut_short_comes_back_as_such(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    await store.outbox.put(outbound("first"))
    (row,) = await claim(store)
    await store.outbox.part_sent(row.id, ["m1", "m2"])
    async with opened(tmp_path / "db", clock) as other:
        assert await claim(other) == []
        clock.advance(301)
        (found,) = await claim(other)
        assert (found.state, found.sent_ids, found.id) == (SendState.SENDING, ("m1", "m2"), row.id)
    async with opened(tmp_path / "db", clock, exclusive=True) as next_process:
        (found,) = await claim(next_process)
        assert found.state is SendState.SENDING


async def test_no_row_is_claimed_by_two_workers(tmp_path: Path, clock: FakeClock, store: Store) -> None:
    for number in range(30):
        await store.outbox.put(outbound(str(number), Address(channel="memory", chat_id=f"c{number}")))
    claimed: list[str] = []
    async with opened(tmp_path / "db", clock) as other:
        for _ in range(10):
            for worker in (store, other):
                claimed += words(await claim(worker, limit=2))
    assert sorted(claimed, key=int) == [str(number) for number in range(30)]


async def test_a_buried_message_is_a_dead_letter_and_the_next_goes(store: Store) -> None:
    await store.outbox.put(outbound("bad"))
    await store.outbox.put(outbound("good"))
    (row,) = await claim(store)
    await store.outbox.bury(row.id, "refused \ud800")
    (letter,) = await store.overview.dead_letters(limit=9)
    assert (letter.direction, letter.text, letter.error, letter.id) == ("out", "bad", "refused \ufffd", row.id)
    assert words(await claim(store)) == ["good"]


async def test_an_uncertain_end_is_counted(store: Store) -> None:
    await store.outbox.put(outbound("perhaps"))
    (row,) = await claim(store)
    await store.outbox.settle(row.id, [], uncertain=True)
    status = await store.overview.status()
    assert (status.outbox_uncertain, status.outbox_queued) == (1, 0)


async def test_a_closed_chat_loses_its_queue_and_its_jobs_sleep(store: Store, clock: FakeClock) -> None:
    due_us = clock.now_us() + 60 * US_PER_S
    job = await store.jobs.add(reminder_at(due_us), limit_per_chat=9)
    elsewhere = await store.jobs.add(reminder_at(due_us, address=OTHER_CHAT), limit_per_chat=9)
    await store.outbox.put(outbound("a"))
    await store.outbox.put(outbound("t", THREAD))
    await store.outbox.put(outbound("b", OTHER_CHAT))
    assert await store.outbox.close_chat(CHAT, "blocked by the user") == 1
    assert words(await claim(store)) == ["b"]
    assert (await store.overview.status()).dead_letter_count == 2
    paused, active = await store.jobs.get(job.id), await store.jobs.get(elsewhere.id)
    assert paused is not None
    assert active is not None
    assert (paused.state, paused.next_us, paused.last_error) == ("paused", None, "blocked by the user")
    assert active.state == "active"
    await store.outbox.reopen_chat(CHAT)
    await store.outbox.put(outbound("back"))
    assert words(await claim(store)) == ["back"]


async def test_a_reminder_is_found_by_any_of_the_messages_it_became(store: Store, clock: FakeClock) -> None:
    job = await store.jobs.add(reminder_at(clock.now_us()), limit_per_chat=9)
    await store.jobs.fire(COMPOSER, catch_up_max_age_us=DAY_S * US_PER_S)
    (row,) = await claim(store)
    await store.outbox.settle(row.id, ["m7", "m8"])
    assert [await store.outbox.job_of(CHAT, name) for name in ("m7", "m8", "m9")] == [job.id, job.id, ""]
    assert await store.outbox.job_of(OTHER_CHAT, "m7") == ""


async def test_a_migrated_chat_keeps_everything_under_its_new_id(store: Store, clock: FakeClock) -> None:
    old, new = Address(channel="memory", chat_id="-5"), Address(channel="memory", chat_id="-1009")
    old_thread = Address(channel="memory", chat_id="-5", thread_id="7")
    near = Address(channel="memory", chat_id="-51")
    for address in (old, old_thread, near):
        await store.inbox.accept(inbound("hi", f"1{address.key}", address, chat_type=ChatType.GROUP))
    for turn in await store.turns.claim(limit=9):
        row = {"role": "user", "content": turn.address.key}
        await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=(row,)))
    due_us = clock.now_us() + 60 * US_PER_S
    job = await store.jobs.add(reminder_at(due_us, address=old_thread), limit_per_chat=9)
    await store.inbox.accept(inbound("waiting", "2", old, chat_type=ChatType.GROUP))
    for address in (old, old_thread, near):
        await store.outbox.put(outbound(address.key, address))
    await store.outbox.delay_chat(old, clock.now_us() + US_PER_S)

    await store.outbox.migrate_chat("memory", "-5", "-1009")

    assert [await store.history.count(address) for address in (old, new, near)] == [0, 1, 1]
    moved = await store.jobs.get(job.id)
    assert moved is not None
    assert moved.address == Address(channel="memory", chat_id="-1009", thread_id="7")
    (turn,) = await store.turns.claim(limit=9)
    assert (turn.address, turn.lane) == (new, new.key)
    assert [row["content"] for row in (await store.history.window(turn.session_id, limit_tokens=99)).rows] == [old.key]
    assert [row.message.address for row in await claim(store)] == [near]
    clock.advance(1)
    assert [row.message.address.key for row in await claim(store)] == ["memory:-1009", "memory:-1009:7"]
    # The new chat counts its messages from one: its own second message is not the old chat's.
    assert await store.inbox.accept(inbound("waiting", "2", new, chat_type=ChatType.GROUP)) == "accepted"


async def test_a_chat_that_wrote_under_its_new_id_first_keeps_the_old_history(store: Store) -> None:
    old, new = Address(channel="memory", chat_id="-5"), Address(channel="memory", chat_id="-1009")
    for address, text in ((old, "long ago"), (new, "already here")):
        await store.inbox.accept(inbound(text, "1", address))
        (turn,) = await store.turns.claim(limit=1)
        await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=({"role": "user", "content": text},)))
    await store.inbox.accept(inbound("next", "2", new))
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    (turn,) = await store.turns.claim(limit=9)
    assert [row["content"] for row in (await store.history.window(turn.session_id, limit_tokens=99)).rows] == [
        "long ago"
    ]
