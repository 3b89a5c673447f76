"""Unfinished answers on Discord: one message that is edited, and becomes the final text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import ChannelError, RateLimited
from bot.interfaces import Draft
from bot.messages import Button, OutboundMessage
from channels.discord import DiscordChannel
from tests.channels.harness_discord import CHANNEL, DM, IN_CHANNEL, IN_THREAD, PRIVATE, DiscordHarness, running, served
from tests.platforms.discord_faults import answer_lost, rate_limited
from tests.platforms.discord_objects import Route

DRAFT = Draft(address=PRIVATE, text="Let me", key="turn-7")


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as harness, running(harness) as up:
        yield up


async def test_a_draft_is_one_message_that_grows_and_becomes_the_answer(live: DiscordHarness) -> None:
    draft_id = await live.channel.show_draft(DRAFT)
    again = await live.channel.show_draft(replace(DRAFT, text="Let me **see**", draft_id=draft_id))
    final = OutboundMessage(
        address=PRIVATE, text="Let me **see**: 4", draft_id=draft_id, buttons=((Button(label="Ok", data="ok"),),)
    )
    progress = await live.send(final)
    assert again == draft_id
    assert progress.sent_ids == [draft_id]
    assert live.api.texts(DM) == ["Let me **see**: 4"]
    assert [shown.buttons for shown in live.shown(PRIVATE)] == [("Ok",)]


@pytest.mark.parametrize("address", [IN_CHANNEL, IN_THREAD], ids=["channel", "thread"])
async def test_a_draft_stands_where_the_answer_will_and_replies_to_the_question(
    live: DiscordHarness, address: object
) -> None:
    place = IN_CHANNEL if address is IN_CHANNEL else IN_THREAD
    question = live.person_says(place, "well?")
    await live.channel.show_draft(replace(DRAFT, address=place, reply_to=question))
    assert [(shown.text, shown.reply_to) for shown in live.shown(place)] == [("Let me", question)]


async def test_a_first_draft_whose_answer_was_lost_is_not_shown_twice(live: DiscordHarness) -> None:
    live.api.faults.add(answer_lost())
    with pytest.raises(ChannelError) as caught:
        await live.channel.show_draft(DRAFT)
    assert type(caught.value) is ChannelError
    await live.channel.show_draft(replace(DRAFT, text="Let me see"))
    assert len(live.api.texts(DM)) == 1


async def test_text_that_did_not_change_asks_nothing(live: DiscordHarness) -> None:
    """C026: nor would Discord mind."""
    draft_id = await live.channel.show_draft(DRAFT)
    await live.channel.show_draft(replace(DRAFT, draft_id=draft_id))
    assert live.api.calls(Route.EDIT_MESSAGE) == []
    await live.send(OutboundMessage(address=PRIVATE, text="Let me", draft_id=draft_id))
    assert live.api.texts(DM) == ["Let me"]


async def test_a_refused_edit_says_how_long_to_wait(live: DiscordHarness) -> None:
    """C024"""
    draft_id = await live.channel.show_draft(DRAFT)
    live.api.faults.add(rate_limited(Route.EDIT_MESSAGE, 10))
    with pytest.raises(RateLimited) as caught:
        await live.channel.show_draft(replace(DRAFT, text="more", draft_id=draft_id))
    assert caught.value.retry_after_s == 10
    assert len(live.api.calls(Route.EDIT_MESSAGE)) == 1


async def test_a_last_edit_that_has_to_wait_makes_no_second_copy(live: DiscordHarness) -> None:
    """C025"""
    draft_id = await live.channel.show_draft(DRAFT)
    final = OutboundMessage(address=PRIVATE, text="Let me see: 4", draft_id=draft_id)
    live.api.faults.add(rate_limited(Route.EDIT_MESSAGE, 5))
    with pytest.raises(RateLimited):
        await live.send(final)
    await live.send(final)
    assert live.api.texts(DM) == ["Let me see: 4"]


async def test_a_last_edit_whose_answer_was_lost_can_simply_be_repeated(live: DiscordHarness) -> None:
    draft_id = await live.channel.show_draft(DRAFT)
    final = OutboundMessage(address=PRIVATE, text="Let me see: 4", draft_id=draft_id)
    live.api.faults.add(answer_lost(Route.EDIT_MESSAGE))
    with pytest.raises(ChannelError) as caught:
        await live.send(final)
    assert type(caught.value) is ChannelError
    await live.send(final)
    assert live.api.texts(DM) == ["Let me see: 4"]


async def test_a_draft_that_somebody_deleted_is_sent_anew(live: DiscordHarness) -> None:
    draft_id = await live.channel.show_draft(DRAFT)
    live.api.delete(DM, int(draft_id))
    await live.send(OutboundMessage(address=PRIVATE, text="answer", draft_id=draft_id))
    assert live.api.texts(DM) == ["answer"]


async def test_a_long_draft_shows_its_beginning_and_the_rest_comes_at_the_end(live: DiscordHarness) -> None:
    text = " ".join(f"word{number}" for number in range(2000))[:5000]
    draft_id = await live.channel.show_draft(replace(DRAFT, text=text[:3000]))
    before = live.api.texts(DM)
    progress = await live.send(OutboundMessage(address=PRIVATE, text=text, draft_id=draft_id))
    assert live.api.texts(DM)[0] == before[0]
    assert " ".join(live.api.texts(DM)) == text.strip()
    assert progress.sent_ids[0] == draft_id


async def test_a_long_answer_keeps_its_draft_in_the_channel_and_goes_on_in_a_thread(live: DiscordHarness) -> None:
    text = " ".join(f"word{number}" for number in range(2000))[:9000]
    question = live.person_says(IN_CHANNEL, "everything, please")
    draft_id = await live.channel.show_draft(replace(DRAFT, address=IN_CHANNEL, reply_to=question))
    final = OutboundMessage(address=IN_CHANNEL, text=text, reply_to=question, draft_id=draft_id)
    await live.send(final)
    assert [message["id"] for message in live.api.own_messages(CHANNEL)] == [draft_id]
    assert " ".join([*live.api.texts(CHANNEL), *live.api.texts(int(question))]) == text.strip()


async def test_a_draft_that_comes_to_nothing_is_removed(live: DiscordHarness) -> None:
    draft_id = await live.channel.show_draft(DRAFT)
    await live.channel.drop_draft(PRIVATE, draft_id)
    await live.channel.drop_draft(PRIVATE, draft_id)
    assert live.api.texts(DM) == []


async def test_blank_text_shows_nothing(live: DiscordHarness) -> None:
    assert await live.channel.show_draft(replace(DRAFT, text=" \n")) == ""
    assert live.api.sent == []


async def test_drafts_have_a_bounded_rate() -> None:
    """C024"""
    assert DiscordChannel.draft_interval_s is not None
    assert DiscordChannel.draft_interval_s >= 1.2
