"""A growing answer on Telegram: what calls it takes, and what becomes of refused ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.errors import ChannelError, RateLimited, SendRejected, SendUncertain
from bot.interfaces import Draft
from bot.messages import OutboundMessage
from tests.channels.harness_telegram import PRIVATE, TOPIC, TelegramHarness, running, served
from tests.platforms.bot_api_faults import Fault, cannot_parse, too_many_requests
from tests.support.outbox_rows import sending_row


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made, running(made) as started:
        yield started


async def show(harness: TelegramHarness, text: str, draft_id: str = "", **fields: Any) -> str:
    return await harness.channel.show_draft(Draft(address=PRIVATE, text=text, draft_id=draft_id, **fields))


def edits(harness: TelegramHarness) -> int:
    in_chats = [call for call in harness.api.calls("editMessageText") if call.chat_id != harness.api.world.bot["id"]]
    return len(in_chats)


async def test_a_draft_is_sent_once_as_a_reply_in_its_topic_and_then_edited(harness: TelegramHarness) -> None:
    question = harness.person_says(TOPIC, "why?")
    draft = Draft(address=TOPIC, text="It **is", reply_to=question)
    draft_id = await harness.channel.show_draft(draft)
    again = Draft(address=TOPIC, text="It **is** so", draft_id=draft_id, reply_to=question)
    assert await harness.channel.show_draft(again) == draft_id
    (shown,) = harness.shown(TOPIC)
    assert (shown.text, shown.bold, shown.thread_id, shown.reply_to) == ("It is so", ("is",), "42", question)


async def test_a_draft_looks_as_the_final_text_will_and_becomes_it(harness: TelegramHarness) -> None:
    text = "# Title\n\n- one\n- **two**\n\n`code` <b>x</b>"
    draft_id = await show(harness, text)
    before = harness.shown(PRIVATE)
    await harness.send(OutboundMessage(address=PRIVATE, text=text, draft_id=draft_id))
    assert harness.shown(PRIVATE) == before


async def test_a_last_edit_that_a_crash_cut_short_is_simply_made_again(harness: TelegramHarness) -> None:
    """Unless an error is known: it may be of the new message that takes the place of a draft that is gone."""
    draft_id = await show(harness, "It is")
    message = OutboundMessage(address=PRIVATE, text="It is so.", draft_id=draft_id)
    await harness.send(message)
    assert await harness.channel.find_sent(sending_row(message)) == ()
    await harness.send(message)
    assert [shown.text for shown in harness.shown(PRIVATE)] == ["It is so."]
    assert await harness.channel.find_sent(replace(sending_row(message), error="connection lost")) is None
    assert await harness.channel.find_sent(sending_row(message, sent_ids=[draft_id])) is None
    assert await harness.channel.find_sent(sending_row(OutboundMessage(address=PRIVATE, text="new"))) is None


async def test_what_is_too_long_shows_its_first_part_and_is_not_sent_again(harness: TelegramHarness) -> None:
    text = "".join(f"word{number} " for number in range(900))
    draft_id = await show(harness, "word0 word1")
    for end in (6_000, 6_500, 7_000):
        assert await show(harness, text[:end], draft_id) == draft_id
    assert edits(harness) == 1
    progress = await harness.send(OutboundMessage(address=PRIVATE, text=text, draft_id=draft_id))
    assert progress.sent_ids[0] == draft_id
    parts = harness.shown(PRIVATE)
    assert len(parts) == 2
    assert " ".join(part.text.strip() for part in parts) == text.strip()


async def test_white_space_is_no_draft(harness: TelegramHarness) -> None:
    assert await show(harness, " \n ") == ""
    assert harness.shown(PRIVATE) == []


async def test_an_edit_that_changes_nothing_is_a_success(harness: TelegramHarness) -> None:
    """C026, for drafts: the text was there before this process began."""
    sent = await harness.send(OutboundMessage(address=PRIVATE, text="the same"))
    assert await show(harness, "the same", sent.sent_ids[0]) == sent.sent_ids[0]
    assert await show(harness, "and more", sent.sent_ids[0]) == sent.sent_ids[0]
    assert [part.text for part in harness.shown(PRIVATE)] == ["and more"]


async def test_markup_that_is_refused_is_shown_plain(harness: TelegramHarness) -> None:
    harness.api.faults.add(cannot_parse("sendMessage"))
    draft_id = await show(harness, "**one**")
    harness.api.faults.add(cannot_parse("editMessageText"))
    await show(harness, "**two**", draft_id)
    assert [(part.text, part.bold) for part in harness.shown(PRIVATE)] == [("two", ())]


async def test_a_draft_that_the_person_deleted_is_not_sent_anew(harness: TelegramHarness) -> None:
    with pytest.raises(SendRejected):
        await show(harness, "more", "77")
    assert harness.shown(PRIVATE) == []


async def test_flood_control_is_told_with_its_wait(harness: TelegramHarness) -> None:
    draft_id = await show(harness, "one")
    harness.api.faults.add(too_many_requests("editMessageText", 10, chat_id=5))
    with pytest.raises(RateLimited) as caught:
        await show(harness, "two", draft_id)
    assert caught.value.retry_after_s == 10


async def test_of_a_lost_answer_only_the_first_draft_is_uncertain(harness: TelegramHarness) -> None:
    draft_id = await show(harness, "one")
    harness.api.faults.add(Fault(method="editMessageText", drop_after=True))
    with pytest.raises(ChannelError) as edit:
        await show(harness, "two", draft_id)
    assert type(edit.value) is ChannelError
    harness.api.faults.add(Fault(method="sendMessage", drop_after=True))
    with pytest.raises(SendUncertain):
        await show(harness, "one")


async def test_a_dropped_draft_is_gone_and_dropping_it_again_is_no_error(harness: TelegramHarness) -> None:
    draft_id = await show(harness, "one")
    await harness.channel.drop_draft(PRIVATE, draft_id)
    await harness.channel.drop_draft(PRIVATE, draft_id)
    assert harness.shown(PRIVATE) == []


async def test_a_removal_whose_answer_is_lost_may_simply_be_repeated(harness: TelegramHarness) -> None:
    draft_id = await show(harness, "one")
    harness.api.faults.add(Fault(method="deleteMessage", drop_after=True))
    with pytest.raises(ChannelError) as caught:
        await harness.channel.drop_draft(PRIVATE, draft_id)
    assert type(caught.value) is ChannelError
    await harness.channel.drop_draft(PRIVATE, draft_id)
