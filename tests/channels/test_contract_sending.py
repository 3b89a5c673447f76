"""What every channel must do with what it sends: drafts, files, splitting, sends in doubt, lost connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import ChannelError, RateLimited, SendRejected, SendUncertain
from bot.interfaces import ChannelState, Draft
from bot.messages import Attachment, Button, OutboundKind, OutboundMessage
from tests.support.channel_harness import ChannelHarness, Feature
from tests.support.outbox_rows import sending_row
from tests.support.recording_intake import RecordingProgress


def three_parts(live: ChannelHarness) -> str:
    """Return a text of three messages on this platform."""
    return " ".join(f"word{number}" for number in range(2000))[: 2 * live.limit + 800]


# --- drafts


@pytest.mark.needs(Feature.DRAFTS)
async def test_a_draft_grows_in_place_and_becomes_the_answer(live: ChannelHarness) -> None:
    draft = Draft(address=live.private, text="It is", key="k1")
    draft_id = await live.channel.show_draft(draft)
    again = await live.channel.show_draft(
        Draft(address=live.private, text="It is **half**", draft_id=draft_id, key="k1")
    )
    assert again == draft_id
    assert len(live.shown(live.private)) == 1
    buttons = ((Button(label="More", data="more"),),)
    final = OutboundMessage(address=live.private, text="It is half **past** ten", draft_id=draft_id, buttons=buttons)
    progress = await live.send(final)
    (shown,) = live.shown(live.private)
    assert (shown.text, shown.bold, shown.buttons) == ("It is half past ten", ("past",), ("More",))
    assert progress.sent_ids == [draft_id] == [shown.id]


@pytest.mark.needs(Feature.DRAFTS, Feature.PARTS)
async def test_an_answer_longer_than_one_message_begins_in_its_draft(live: ChannelHarness) -> None:
    draft_id = await live.channel.show_draft(Draft(address=live.private, text="word0 word1", key="k1"))
    text = three_parts(live)
    progress = await live.send(OutboundMessage(address=live.private, text=text, draft_id=draft_id))
    shown = live.shown(live.private)
    assert [part.id for part in shown] == progress.sent_ids
    assert shown[0].id == draft_id
    assert " ".join(part.text.strip() for part in shown) == text.strip()


@pytest.mark.needs(Feature.DRAFTS)
async def test_an_answer_equal_to_its_draft_is_well_sent(live: ChannelHarness) -> None:
    """C026: nothing to change is no failure."""
    draft_id = await live.channel.show_draft(Draft(address=live.private, text="ten", key="k1"))
    first = OutboundMessage(address=live.private, text="ten", draft_id=draft_id)
    await live.send(first)
    await live.send(first)
    assert [shown.text for shown in live.shown(live.private)] == ["ten"]


@pytest.mark.needs(Feature.DRAFTS)
async def test_a_rate_limit_of_a_draft_is_told_and_the_answer_still_lands_in_it(live: ChannelHarness) -> None:
    """C024 and C025: the wait is for the caller to keep; one copy in the end."""
    draft_id = await live.channel.show_draft(Draft(address=live.private, text="It", key="k1"))
    live.rate_limit_edits(live.private, 10)
    with pytest.raises(RateLimited) as caught:
        await live.channel.show_draft(Draft(address=live.private, text="It is", draft_id=draft_id, key="k1"))
    assert caught.value.retry_after_s == 10
    live.rate_limit_edits(live.private, 5)
    final = OutboundMessage(address=live.private, text="It is ten", draft_id=draft_id)
    with pytest.raises(RateLimited) as caught:
        await live.send(final)
    assert caught.value.retry_after_s == 5
    await live.send(final)
    assert [shown.text for shown in live.shown(live.private)] == ["It is ten"]


@pytest.mark.needs(Feature.DRAFTS)
async def test_a_draft_that_no_answer_follows_is_taken_away(live: ChannelHarness) -> None:
    draft_id = await live.channel.show_draft(Draft(address=live.private, text="It is", key="k1"))
    await live.channel.drop_draft(live.private, draft_id)
    assert live.shown(live.private) == []
    await live.channel.drop_draft(live.private, draft_id)  # gone already: nothing to say about it


@pytest.mark.needs(Feature.DRAFTS, Feature.THREADS)
async def test_a_draft_is_shown_where_the_answer_will_be(live: ChannelHarness) -> None:
    message_id = live.person_says(live.thread, "question")
    await live.intake.wait_for_texts("question")
    await live.channel.show_draft(Draft(address=live.thread, text="so", reply_to=message_id, key="k1"))
    (shown,) = live.shown(live.thread)
    assert (shown.thread_id, shown.reply_to) == (live.thread.thread_id, message_id)


# --- files and splitting


@pytest.mark.needs(Feature.FILES_OUT)
async def test_files_go_out_with_the_text_that_belongs_to_them(live: ChannelHarness, tmp_path: Path) -> None:
    paths = [tmp_path / "report.txt", tmp_path / "data.csv"]
    for path in paths:
        path.write_text(path.name)
    files = tuple(Attachment(kind="document", name=path.name, path=str(path)) for path in paths)
    await live.send(OutboundMessage(address=live.private, text="Here you are", attachments=files))
    shown = live.shown(live.private)
    assert [content for message in shown for content in message.files] == [b"report.txt", b"data.csv"]
    assert [message.text for message in shown if message.text] == ["Here you are"]


@pytest.mark.needs(Feature.FILES_OUT)
@pytest.mark.parametrize("missing", ["report.txt", "data.csv", "notes.txt"])
async def test_a_file_that_cannot_go_leaves_a_line_and_everything_else_goes(
    live: ChannelHarness, tmp_path: Path, missing: str
) -> None:
    names = ["report.txt", "data.csv", "notes.txt"]
    files = tuple(Attachment(kind="document", name=name, path=str(tmp_path / name)) for name in names)
    for name in names:
        (tmp_path / name).write_text("" if name == missing else name)
    message = OutboundMessage(address=live.private, text="Here you are", attachments=files)
    progress = await live.send(message)
    shown = live.shown(live.private)
    assert [content.decode() for part in shown for content in part.files] == [name for name in names if name != missing]
    words = " | ".join(part.text for part in shown if part.text)
    assert words.startswith("Here you are")
    assert f"Not sent: {missing} (the file is empty)" in words
    await live.channel.send(message, progress)  # all of its parts are out
    assert live.shown(live.private) == shown


@pytest.mark.needs(Feature.FILES_OUT)
async def test_words_go_out_without_their_only_file(live: ChannelHarness, tmp_path: Path) -> None:
    gone = Attachment(kind="image", name="plot.png", path=str(tmp_path / "plot.png"))
    await live.send(OutboundMessage(address=live.private, text="Your **plot**", attachments=(gone,)))
    words = " | ".join(part.text for part in live.shown(live.private))
    assert words.startswith("Your plot")
    assert "Not sent: plot.png (the file is not there any more)" in words


@pytest.mark.needs(Feature.FILES_OUT)
async def test_many_files_that_cannot_go_leave_a_text_that_fits(live: ChannelHarness, tmp_path: Path) -> None:
    files = tuple(
        Attachment(kind="document", name=f"{'x' * 90}{number}.txt", path=str(tmp_path / "gone.txt"))
        for number in range(10)
    )
    text = " ".join(["word"] * 5000)[: live.limit - 1].rstrip()
    await live.send(OutboundMessage(address=live.private, text=text, attachments=files))
    shown = live.shown(live.private)
    assert shown[0].text.startswith("word word")
    assert sum("Not sent" in part.text for part in shown) in {1, 10}
    assert " ".join(part.text for part in shown).count("word") == text.count("word")


@pytest.mark.needs(Feature.FILES_OUT)
async def test_a_file_that_is_not_there_is_refused_and_nothing_is_shown(live: ChannelHarness, tmp_path: Path) -> None:
    gone = Attachment(kind="document", name="gone.txt", path=str(tmp_path / "gone.txt"))
    with pytest.raises(SendRejected, match=r"gone\.txt"):
        await live.send(OutboundMessage(address=live.private, text="", attachments=(gone,)))
    assert live.shown(live.private) == []


@pytest.mark.needs(Feature.PARTS)
async def test_no_part_ends_in_the_middle_of_an_emoji(live: ChannelHarness) -> None:
    """C023: a letter less than the limit, then an emoji and more text."""
    text = "a" * (live.limit - 1) + "😀" + "b" * 20
    await live.send(OutboundMessage(address=live.private, text=text))
    parts = [shown.text for shown in live.shown(live.private)]
    assert len(parts) == 2
    assert "".join(parts) == text
    for part in parts:
        part.encode()  # half a pair has no UTF-8 form


# --- sends in doubt


async def test_a_send_in_doubt_that_arrived_is_found_or_left_open_but_never_called_missing(
    live: ChannelHarness,
) -> None:
    """C027 and the rule of design 4: what `find_sent` says leads to one copy, or at most one extra."""
    message = OutboundMessage(address=live.private, text="did it arrive?")
    live.lose_answer()
    with pytest.raises(SendUncertain):
        await live.channel.send(message, RecordingProgress(outbox_id=50))
    if live.channel.state is not ChannelState.READY:  # with a terminal's answer the terminal is gone
        await live.server_down()
        await live.server_up()
    found = await live.channel.find_sent(sending_row(message, outbox_id=50))
    await live.channel.send(message, RecordingProgress(outbox_id=50, sent_ids=found or ()))
    texts = [shown.text for shown in live.shown(live.private)]
    assert texts == ["did it arrive?"] * (2 if found is None else 1)
    if found:
        assert list(found) == [live.shown(live.private)[0].id]


@pytest.mark.needs(Feature.PARTS)
async def test_a_send_in_doubt_goes_on_behind_the_parts_that_are_out(live: ChannelHarness) -> None:
    message = OutboundMessage(address=live.private, text=three_parts(live))
    whole = await live.send(message)
    parts = [shown.text for shown in live.shown(live.private)]
    again = RecordingProgress(outbox_id=50)
    live.lose_later_answer()
    with pytest.raises(SendUncertain):
        await live.channel.send(message, again)
    assert len(again.sent_ids) == 1
    found = await live.channel.find_sent(sending_row(message, outbox_id=50, sent_ids=tuple(again.sent_ids)))
    rest = RecordingProgress(outbox_id=50, sent_ids=tuple(again.sent_ids) if found is None else found)
    await live.channel.send(message, rest)
    copies = [shown.text for shown in live.shown(live.private)][len(whole.sent_ids) :]
    assert copies == ([parts[0], parts[1], parts[1], parts[2]] if found is None else parts)
    assert len(rest.sent_ids) == 3


@pytest.mark.needs(Feature.PARTS)
async def test_a_send_in_doubt_that_never_arrived_is_sent(live: ChannelHarness) -> None:
    message = OutboundMessage(address=live.private, text="did it arrive?")
    live.lose_request()
    with pytest.raises(ChannelError) as caught:
        await live.channel.send(message, RecordingProgress(outbox_id=50))
    found = None
    if isinstance(caught.value, SendUncertain):
        found = await live.channel.find_sent(sending_row(message, outbox_id=50))
        assert not found
    await live.channel.send(message, RecordingProgress(outbox_id=50, sent_ids=found or ()))
    assert [shown.text for shown in live.shown(live.private)] == ["did it arrive?"]


# --- connections


@pytest.mark.parametrize("resumable", [True, False])
async def test_what_is_said_during_a_gap_comes_in_once_and_in_order(live: ChannelHarness, resumable: bool) -> None:
    live.person_says(live.private, "before")
    await live.intake.wait_for_texts("before")
    await live.until_confirmed()
    async with live.gap(resumable=resumable):
        live.person_says(live.private, "meanwhile one")
        live.person_says(live.private, "meanwhile two")
    await live.until(ChannelState.READY)
    await live.intake.wait_for_texts("before", "meanwhile one", "meanwhile two")
    live.person_says(live.private, "after")
    await live.intake.wait_for_texts("before", "meanwhile one", "meanwhile two", "after")


@pytest.mark.needs(Feature.MENTIONS)
async def test_what_mentions_the_bot_during_a_gap_comes_in_and_nothing_else_does(live: ChannelHarness) -> None:
    live.person_says(live.group, "before")
    await live.intake.wait_for_texts("before")
    await live.until_confirmed()
    async with live.gap(resumable=False):
        live.person_mutters(live.group, "between us")
        live.person_says(live.group, "meanwhile")
    await live.intake.wait_for_texts("before", "meanwhile")
    live.person_says(live.group, "after")
    await live.intake.wait_for_texts("before", "meanwhile", "after")


@pytest.mark.needs(Feature.LOCKS, Feature.THREADS)
async def test_a_chat_that_is_closed_to_us_closes_no_other(live: ChannelHarness) -> None:
    """C036, the channel's part."""
    live.lock_out(live.private)
    with pytest.raises(ChannelError):
        await live.send(OutboundMessage(address=live.private, text="pay rent", kind=OutboundKind.REMINDER))
    await live.send(OutboundMessage(address=live.thread, text="pay rent", kind=OutboundKind.REMINDER))
    assert [shown.text for shown in live.shown(live.thread)] == ["pay rent"]
    assert live.channel.state is ChannelState.READY
