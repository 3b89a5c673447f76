"""What happens to a chat as a whole: closing and opening, and living on under another id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.interfaces import Store, Unit
from bot.messages import Address, Attachment, ChatType
from bot.records import CallResult, Ending, Job, JobState, OutboxRow, Turn, TurnState, moved_prefix, moved_variant
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, COMPOSER, DAY_S, MEMORY, daily, inbound, new_job, opened, outbound, reminder_at

OLD, NEW = Address(channel="memory", chat_id="-5"), Address(channel="memory", chat_id="-1009")
TOPIC = replace(OLD, thread_id="42")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


async def claim(store: Store) -> list[OutboxRow]:
    return (await store.outbox.claim(limit=9, channels=MEMORY))[0]


async def job(store: Store, job_id: str) -> Job:
    found = await store.jobs.get(job_id)
    assert found is not None
    return found


async def talk(store: Store, text: str, message_id: str, address: Address) -> None:
    """Let something be said and answered."""
    await store.inbox.accept(inbound(text, message_id, address, chat_type=ChatType.GROUP, reply_to=message_id))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=({"role": "user", "content": text},)))


async def claim_turn(store: Store, address: Address = CHAT) -> list[Turn]:
    """Have a turn of an address under way."""
    await store.inbox.accept(inbound("please", "99", address, chat_type=ChatType.GROUP))
    return await store.turns.claim(limit=1)


def pause(unit: Unit, job: Job) -> CallResult:
    unit.save_job(job)
    return CallResult(call_id="pause", text="ok")


def choose(unit: Unit, address: Address) -> CallResult:
    unit.choose_model(address, "quick")
    return CallResult(call_id="choose", text="ok")


# --- closed and open again -------------------------------------------------------------------------------


async def test_jobs_that_the_closing_paused_go_on_when_the_chat_is_open_again(store: Store, clock: FakeClock) -> None:
    """C036: what was due meanwhile once is due now, a rhythm goes on with its next time."""
    once = await store.jobs.add(reminder_at(clock.now_us() + 60 * US_PER_S), limit_per_chat=9)
    later = await store.jobs.add(reminder_at(clock.now_us() + 9 * DAY_S * US_PER_S), limit_per_chat=9)
    schedule = daily(9)
    first_us = schedule.next_after(clock.now_us())
    assert first_us is not None
    rhythm = await store.jobs.add(new_job(schedule, first_us), limit_per_chat=9)
    assert await store.outbox.close_chat(CHAT, "bot was blocked by the user") == 3
    clock.advance(2 * DAY_S)
    assert await store.outbox.reopen_chat(CHAT) == 3
    jobs = [await job(store, each.id) for each in (once, later, rhythm)]
    assert [each.state for each in jobs] == [JobState.ACTIVE] * 3
    assert [each.next_us for each in jobs] == [once.next_us, later.next_us, schedule.next_after(clock.now_us())]
    assert [each.last_error for each in jobs] == ["", "", ""]
    assert await store.jobs.fire(COMPOSER, catch_up_max_age_us=DAY_S * US_PER_S) == 1
    assert len(await claim(store)) == 1


async def test_a_job_that_a_person_paused_stays_paused(store: Store, clock: FakeClock) -> None:
    by_hand = await store.jobs.add(reminder_at(clock.now_us() + DAY_S * US_PER_S), limit_per_chat=9)
    for _ in range(2):  # also when the closing paused it once before
        await store.outbox.close_chat(CHAT, "blocked")
        await store.outbox.reopen_chat(CHAT)
    (turn,) = await claim_turn(store)
    paused = replace(await job(store, by_hand.id), state=JobState.PAUSED, next_us=None)
    await store.steps.once(turn, "pause", lambda unit: pause(unit, paused))
    assert await store.outbox.close_chat(CHAT, "blocked") == 0
    assert await store.outbox.reopen_chat(CHAT) == 0
    assert (await job(store, by_hand.id)).state is JobState.PAUSED


async def test_several_reasons_for_one_closing_leave_no_job_behind(store: Store, clock: FakeClock) -> None:
    """The platform's notice and the refusal of a send under way say it in different words."""
    first = await store.jobs.add(reminder_at(clock.now_us() + DAY_S * US_PER_S), limit_per_chat=9)
    await store.outbox.close_chat(CHAT, "the bot's status in this chat is now kicked")
    second = await store.jobs.add(reminder_at(clock.now_us() + DAY_S * US_PER_S), limit_per_chat=9)
    await store.outbox.close_chat(CHAT, "Forbidden: bot was blocked by the user")
    assert await store.outbox.reopen_chat(CHAT) == 2
    assert {(await job(store, each.id)).state for each in (first, second)} == {JobState.ACTIVE}


async def test_opening_a_chat_that_was_never_closed_changes_nothing(store: Store, clock: FakeClock) -> None:
    await store.jobs.add(reminder_at(clock.now_us() + DAY_S * US_PER_S), limit_per_chat=9)
    assert await store.outbox.reopen_chat(CHAT) == 0


# --- another id ------------------------------------------------------------------------------------------


async def test_a_chats_choices_go_with_it(store: Store) -> None:
    """C035: session, model, voice, each thread its own."""
    await talk(store, "hi", "1", OLD)
    await talk(store, "in the topic", "2", TOPIC)
    await store.settings.set_voice(TOPIC, on=True)
    (turn,) = await claim_turn(store, OLD)
    await store.steps.once(turn, "choose", lambda unit: choose(unit, OLD))
    await store.turns.release(turn)
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    assert await store.settings.chosen_model(NEW) == "quick"
    assert await store.settings.voice(replace(NEW, thread_id="42"))
    assert not await store.settings.voice(NEW)
    assert await store.history.count(replace(NEW, thread_id="42")) == 1


async def test_message_ids_of_the_old_chat_mean_nothing_in_the_new_one(store: Store, clock: FakeClock) -> None:
    """There they begin anew: neither replies, drafts, identities nor what a reaction is about may be mistaken."""
    await talk(store, "hi", "7", OLD)
    await store.outbox.put(outbound("sent already", OLD))
    (sent,) = await claim(store)
    await store.outbox.settle(sent.id, ["8"])
    file = Attachment(kind="document", name="a.txt", path="/a.txt")
    await store.outbox.put(outbound("waits", OLD, reply_to="7", draft_id="9", attachments=(file,)))
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    (row,) = await claim(store)
    message = row.message
    assert (message.address, message.reply_to, message.draft_id, message.attachments) == (NEW, "", "", (file,))
    assert await store.outbox.sent_as("memory", "-1009", "8") is None
    assert await store.inbox.accept(inbound("new chat's own seventh", "7", NEW)) == "accepted"


async def test_an_old_message_that_comes_again_is_still_known(store: Store) -> None:
    await talk(store, "hi", "7", OLD)
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    again = inbound("hi", "7", NEW, variant=moved_variant("", "-5"), chat_type=ChatType.GROUP)
    assert await store.inbox.accept(again) == "duplicate"


async def test_moving_again_keeps_what_moved_and_takes_what_came_since(store: Store) -> None:
    """A turn that was under way writes to the old id once more."""
    await talk(store, "long ago", "1", OLD)
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    await talk(store, "stray", "2", OLD)
    await store.outbox.put(outbound("stray answer", OLD))
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    (row,) = await claim(store)
    assert row.message.address == NEW
    await store.inbox.accept(inbound("next", "3", NEW))
    (turn,) = await store.turns.claim(limit=9)
    rows = (await store.history.window(turn.session_id, limit_tokens=99)).rows
    assert [item["content"] for item in rows] == ["long ago"]


async def test_a_move_is_kept_for_what_the_configuration_says_of_the_old_id(store: Store) -> None:
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    assert await store.cursors.starting_with(moved_prefix("memory")) == {"moved:memory:-1009": "-5"}


async def test_a_chat_that_was_closed_on_its_way_is_open_under_its_new_id(store: Store, clock: FakeClock) -> None:
    """C035: the platform may say that the bot left the old chat before it says that the chat has moved."""
    job_id = (await store.jobs.add(reminder_at(clock.now_us() + 60 * US_PER_S, address=OLD), limit_per_chat=9)).id
    await store.outbox.close_chat(OLD, "the bot's status in this chat is now left")
    await store.outbox.migrate_chat("memory", "-5", "-1009")
    await store.outbox.close_chat(OLD, "the bot's status in this chat is now left")  # or after it
    moved = await job(store, job_id)
    assert (moved.address, moved.state) == (NEW, JobState.ACTIVE)
