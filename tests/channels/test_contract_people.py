"""What every channel must do with what people do in it: groups, quotes, files, buttons, reactions, other bots."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.messages import Button, ChatType, OutboundMessage
from channels.buttons import button_token
from tests.support.channel_harness import ChannelHarness, Feature

YES_NO = ((Button(label="Yes", data="yes please"), Button(label="No", data="no thanks")),)


@pytest.mark.needs(Feature.MENTIONS)
async def test_in_a_group_only_what_mentions_the_bot_is_for_it(live: ChannelHarness) -> None:
    live.person_mutters(live.group, "nice weather")
    message_id = live.person_says(live.group, "what is the weather?")
    await live.intake.wait_for_texts("what is the weather?")
    (message,) = live.intake.messages
    assert (message.address.channel, message.address.chat_id) == (live.group.channel, live.group.chat_id)
    assert (message.chat_type, message.reply_to) == (ChatType.GROUP, message_id)


@pytest.mark.needs(Feature.MENTIONS)
async def test_a_reply_to_the_bot_needs_no_mention_and_one_to_a_person_is_not_for_it(live: ChannelHarness) -> None:
    """C040."""
    progress = await live.send(OutboundMessage(address=live.group, text="Shall I?"))
    of_a_person = live.person_mutters(live.group, "I think so")
    live.person_replies(live.group, of_a_person, "why?")
    live.person_replies(live.group, progress.sent_ids[0], "yes, do")
    await live.intake.wait_for_texts("yes, do")
    (message,) = live.intake.messages
    if Feature.QUOTES in live.features:
        assert message.quote is not None
        assert (message.quote.author, message.quote.text) == ("bot", "Shall I?")


@pytest.mark.needs(Feature.MENTIONS, Feature.FILES_IN)
async def test_a_mention_in_a_caption_counts_and_does_not_stay_in_the_text(live: ChannelHarness) -> None:
    """C041: the mention is in other letters than the bot's name."""
    live.person_sends_file(live.group, "photo.jpg", b"pixels", "what is this")
    await live.intake.wait_for_texts("what is this")
    (message,) = live.intake.messages
    assert [file.name for file in message.attachments] == ["photo.jpg"]


@pytest.mark.needs(Feature.QUOTES)
async def test_a_reply_brings_the_message_it_replies_to(live: ChannelHarness) -> None:
    """C042."""
    progress = await live.send(OutboundMessage(address=live.private, text="Pay rent"))
    live.person_replies(live.private, progress.sent_ids[0], "done, ask again tomorrow")
    await live.intake.wait_for_texts("done, ask again tomorrow")
    quote = live.intake.messages[0].quote
    assert quote is not None
    assert (quote.message_id, quote.author, quote.text) == (progress.sent_ids[0], "bot", "Pay rent")
    assert not quote.is_fragment


@pytest.mark.needs(Feature.FRAGMENTS)
async def test_a_highlighted_part_stands_for_the_message_it_is_of(live: ChannelHarness) -> None:
    """C042, with a fragment."""
    progress = await live.send(OutboundMessage(address=live.private, text="Pay rent and call Ben"))
    live.person_replies(live.private, progress.sent_ids[0], "done", fragment="call Ben")
    await live.intake.wait_for_texts("done")
    quote = live.intake.messages[0].quote
    assert quote is not None
    assert (quote.author, quote.text, quote.is_fragment) == ("bot", "call Ben", True)


@pytest.mark.needs(Feature.BOTS)
async def test_other_bots_are_heard_only_when_they_mention_us_and_we_ourselves_never(live: ChannelHarness) -> None:
    """C037; the bus ends chains of what is marked as a bot's."""
    live.echo(live.group, "my own words")
    live.bot_says(live.group, "beep", mentions=False)
    live.bot_says(live.group, "are you there?", mentions=True)
    live.person_says(live.group, "and I?")
    await live.intake.wait_for_texts("are you there?", "and I?")
    of_bot, of_person = live.intake.messages
    assert of_bot.meta.get("from_bot") is True
    assert "from_bot" not in of_person.meta


@pytest.mark.needs(Feature.FILES_IN)
async def test_a_file_comes_with_its_caption_and_is_fetched_into_the_chats_folder(live: ChannelHarness) -> None:
    live.person_sends_file(live.private, "notes.txt", b"buy eggs", "read this")
    await live.intake.wait_for_texts("read this")
    (file,) = live.intake.messages[0].attachments
    assert (file.name, file.path, file.error) == ("notes.txt", "", "")
    fetched = await live.channel.fetch(file, live.private)
    assert fetched.error == ""
    assert Path(fetched.path).is_relative_to(live.workspace)
    assert Path(fetched.path).read_bytes() == b"buy eggs"
    assert fetched.size_bytes == 8


@pytest.mark.needs(Feature.FILES_IN)
async def test_a_file_without_words_is_a_message_of_its_own(live: ChannelHarness) -> None:
    live.person_sends_file(live.private, "notes.txt", b"buy eggs")
    await live.intake.wait_for_texts("")
    assert [file.name for file in live.intake.messages[0].attachments] == ["notes.txt"]


@pytest.mark.needs(Feature.FILES_IN)
async def test_a_file_that_cannot_be_fetched_says_so_and_its_caption_stays(live: ChannelHarness) -> None:
    """C043: the download fails."""
    live.person_sends_file(live.private, "voice.ogg", b"ogg", "listen to this")
    await live.intake.wait_for_texts("listen to this")
    (file,) = live.intake.messages[0].attachments
    live.fail_download()
    fetched = await live.channel.fetch(file, live.private)
    assert fetched.error != ""
    assert (fetched.name, fetched.path) == ("voice.ogg", "")
    assert live.secret not in fetched.error


@pytest.mark.needs(Feature.FILES_IN)
async def test_a_file_that_is_too_big_is_not_loaded(live: ChannelHarness) -> None:
    """C043: 25 MB; how much a platform carries differs, so that here it is 25 GB."""
    live.person_sends_file(live.private, "film.bin", b"short", "watch this", size_bytes=25_000_000_000)
    await live.intake.wait_for_texts("watch this")
    (file,) = live.intake.messages[0].attachments
    assert file.size_bytes == 25_000_000_000
    fetched = await live.channel.fetch(file, live.private)
    assert fetched.path == ""
    assert "too big" in fetched.error
    assert "25000" in fetched.error


@pytest.mark.needs(Feature.BUTTONS)
async def test_a_press_names_the_button_and_its_outcome_is_shown(live: ChannelHarness) -> None:
    progress = await live.send(OutboundMessage(address=live.private, text="Shall I?", buttons=YES_NO))
    message_id = progress.sent_ids[-1]
    assert [shown.buttons for shown in live.shown(live.private)] == [("Yes", "No")]
    live.intake.button_labels = ["Yes", "No"]
    live.press_button(live.private, message_id, "No")
    (press,) = await live.intake.wait_for(lambda: list(live.intake.presses))
    assert (press.outbox_id, press.index, press.sender_id) == (progress.outbox_id, 1, live.person_id)
    assert (press.channel, press.chat_id) == (live.private.channel, live.private.chat_id)
    await live.until_true(lambda: [shown.buttons for shown in live.shown(live.private)] == [("✓ No",)])
    assert [shown.text for shown in live.shown(live.private)] == ["Shall I?"]


@pytest.mark.needs(Feature.BUTTONS)
async def test_who_presses_after_another_is_told_that_it_is_answered(live: ChannelHarness) -> None:
    progress = await live.send(OutboundMessage(address=live.private, text="Shall I?", buttons=YES_NO))
    live.intake.button_labels = ["Yes", "No"]
    live.press_button(live.private, progress.sent_ids[-1], "No")
    await live.until_true(lambda: [shown.buttons for shown in live.shown(live.private)] == [("✓ No",)])
    live.press_forged(live.private, progress.sent_ids[-1], button_token(progress.outbox_id, 0))
    await live.until_true(lambda: any(live.told_presser()))
    assert len(live.intake.presses) == 1
    assert [shown.buttons for shown in live.shown(live.private)] == [("✓ No",)]


@pytest.mark.needs(Feature.BUTTONS)
@pytest.mark.parametrize("data", [button_token(987_654, 0), "rm -rf /", "b1.9999"])
async def test_a_press_of_no_button_of_ours_is_harmless_and_told(live: ChannelHarness, data: str) -> None:
    progress = await live.send(OutboundMessage(address=live.private, text="Shall I?", buttons=YES_NO))
    live.press_forged(live.private, progress.sent_ids[-1], data)
    await live.until_true(lambda: any(live.told_presser()))
    live.person_says(live.private, "next")
    await live.intake.wait_for_texts("next")
    assert live.intake.presses == []
    assert [shown.buttons for shown in live.shown(live.private)] == [("Yes", "No")]


@pytest.mark.needs(Feature.REACTIONS)
async def test_a_reaction_to_the_bots_message_is_heard(live: ChannelHarness) -> None:
    progress = await live.send(OutboundMessage(address=live.private, text="All done."))
    live.person_reacts(live.private, progress.sent_ids[0], "👍")
    (reaction,) = await live.intake.wait_for(lambda: list(live.intake.reactions))
    assert (reaction.message_id, reaction.emoji) == (progress.sent_ids[0], "👍")
    assert (reaction.channel, reaction.chat_id) == (live.private.channel, live.private.chat_id)
    assert reaction.sender_id == live.person_id
    assert live.intake.messages == []
