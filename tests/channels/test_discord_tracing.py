"""What became of a send to Discord that was cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.messages import Attachment, OutboundMessage
from bot.records import OutboxRow
from channels.discord.positions import id_at
from tests.channels.harness_discord import DM, IN_CHANNEL, PRIVATE, DiscordHarness, running, served
from tests.platforms.discord_faults import Fault
from tests.platforms.discord_objects import Route
from tests.support.outbox_rows import sending_row
from tests.support.recording_intake import RecordingProgress

LONG = " ".join(f"word{number}" for number in range(2000))


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as harness, running(harness) as up:
        yield up


def old(row: OutboxRow, seconds: int = 600) -> OutboxRow:
    """Return the row as one that was first tried some time ago."""
    return replace(row, first_try_us=row.first_try_us - seconds * US_PER_S)


async def test_while_the_nonce_is_fresh_the_next_part_can_simply_be_sent(live: DiscordHarness) -> None:
    message = OutboundMessage(address=PRIVATE, text=LONG[:3000])
    row = sending_row(message, outbox_id=5)
    await live.channel.send(message, RecordingProgress(outbox_id=5))
    found = await live.channel.find_sent(row)
    assert found == ()
    again = RecordingProgress(outbox_id=5, sent_ids=found)
    await live.channel.send(message, again)
    assert len(live.api.texts(DM)) == 2
    assert live.api.calls(Route.GET_MESSAGES)[1:] == []


async def test_a_part_is_recognised_without_the_file_that_could_not_go(live: DiscordHarness, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    files = tuple(Attachment(kind="document", name=name, path=str(tmp_path / name)) for name in ("a.txt", "gone.txt"))
    message = OutboundMessage(address=PRIVATE, text="here", attachments=files)
    sent = RecordingProgress(outbox_id=5)
    await live.channel.send(message, sent)
    for posted in live.api.own_messages(DM):
        posted.pop("nonce", None)  # as of a message that is some minutes old
    assert await live.channel.find_sent(old(sending_row(message, outbox_id=5))) == tuple(sent.sent_ids)


async def test_parts_that_are_known_stay_known(live: DiscordHarness) -> None:
    row = sending_row(OutboundMessage(address=PRIVATE, text=LONG[:3000]), sent_ids=("11", "?"))
    assert await live.channel.find_sent(row) == ("11",)


async def test_later_the_history_tells_which_parts_are_out(live: DiscordHarness) -> None:
    message = OutboundMessage(address=PRIVATE, text=LONG[:5000])
    whole = RecordingProgress(outbox_id=5)
    await live.channel.send(message, whole)
    live.api.delete(DM, int(whole.sent_ids[2]))
    row = old(sending_row(message, outbox_id=5))
    assert await live.channel.find_sent(row) == tuple(whole.sent_ids[:2])
    assert await live.channel.find_sent(replace(row, sent_ids=(whole.sent_ids[0],))) == tuple(whole.sent_ids[:2])


async def test_later_without_nonces_the_words_are_recognised(live: DiscordHarness) -> None:
    message = OutboundMessage(address=PRIVATE, text="  buy **milk**  ")
    sent = RecordingProgress(outbox_id=5)
    await live.channel.send(message, sent)
    live.api.own_messages(DM)[0].pop("nonce")
    live.api.user_says(DM, "buy **milk**")
    assert await live.channel.find_sent(old(sending_row(message, outbox_id=5))) == tuple(sent.sent_ids)


async def test_later_what_is_not_there_can_be_sent(live: DiscordHarness) -> None:
    live.api.user_says(DM, "hello")
    message = OutboundMessage(address=PRIVATE, text="hello")
    assert await live.channel.find_sent(old(sending_row(message))) == ()


async def test_what_was_sent_before_the_row_is_not_taken_for_it(live: DiscordHarness) -> None:
    now_us = live.clock.now_us()
    world = live.api.world
    for seconds_ago in (86_400, 700):
        number = id_at(now_us - seconds_ago * US_PER_S)
        world.new_message(world.channels[DM], world.bot, "stretch", message_id=number)
    row = sending_row(OutboundMessage(address=PRIVATE, text="stretch"), outbox_id=5)
    assert await live.channel.find_sent(old(row, 600)) == ()
    assert await live.channel.find_sent(old(row, 800)) == (str(number),)


async def test_the_parts_in_a_thread_are_found_there(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "everything, please")
    message = OutboundMessage(address=IN_CHANNEL, text=LONG[:9000], reply_to=question)
    whole = RecordingProgress(outbox_id=5)
    await live.channel.send(message, whole)
    assert await live.channel.find_sent(old(sending_row(message, outbox_id=5))) == tuple(whole.sent_ids)


async def test_a_thread_that_was_not_opened_yet_holds_nothing(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "everything, please")
    message = OutboundMessage(address=IN_CHANNEL, text=LONG[:9000], reply_to=question)
    assert await live.channel.find_sent(old(sending_row(message))) == ()


async def test_an_answer_that_took_the_place_of_is_thinking_is_found_by_its_words(live: DiscordHarness) -> None:
    live.api.rest.commands.append({"id": "1", "name": "help", "description": "x", "options": []})
    interaction = live.api.slash(DM, "help")
    await live.intake.wait_for_texts("/help")
    message = OutboundMessage(address=PRIVATE, text="this list", reply_to=live.intake.messages[0].reply_to)
    row = sending_row(message, outbox_id=5)
    assert await live.channel.find_sent(row) == ()
    sent = RecordingProgress(outbox_id=5)
    await live.channel.send(message, sent)
    assert interaction.original is not None
    assert await live.channel.find_sent(row) == (str(interaction.original["id"]),) == tuple(sent.sent_ids)


async def test_an_edit_of_a_draft_is_simply_made_again(live: DiscordHarness) -> None:
    row = old(sending_row(OutboundMessage(address=PRIVATE, text="x", draft_id="123")))
    assert await live.channel.find_sent(row) == ()


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(garbage=b"<html>"), Fault(garbage=b'{"a": 1}')])
async def test_a_history_that_cannot_be_read_leaves_it_open(live: DiscordHarness, fault: Fault) -> None:
    live.api.faults.add(replace(fault, route=Route.GET_MESSAGES, times=None))
    assert await live.channel.find_sent(old(sending_row(OutboundMessage(address=PRIVATE, text="x")))) is None


async def test_behind_a_part_that_was_passed_over_nothing_can_be_told(live: DiscordHarness) -> None:
    row = sending_row(OutboundMessage(address=PRIVATE, text=LONG[:5000]), sent_ids=("11", "??"))
    assert await live.channel.find_sent(row) is None
