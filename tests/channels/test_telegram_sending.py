"""What goes out to the Bot API, and what each refusal becomes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import (
    ChannelAuthError,
    ChannelError,
    ChatGone,
    ChatMigrated,
    RateLimited,
    SendRejected,
    SendUncertain,
)
from bot.messages import Address, Attachment, Button, OutboundKind, OutboundMessage
from tests.channels.harness_telegram import PRIVATE, TOPIC, TelegramHarness, served
from tests.platforms.bot_api_faults import (
    Fault,
    bad_gateway,
    blocked,
    cannot_parse,
    too_many_requests,
    upgraded,
)
from tests.support.outbox_rows import sending_row
from tests.support.recording_intake import RecordingProgress


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        yield made


def refuse(description: str, *, times: int | None = 1, status: int = 400) -> Fault:
    return Fault(method="sendMessage", status=status, description=description, times=times)


# --- sending ---------------------------------------------------------------------------------------------


async def test_every_call_for_a_topic_names_it(harness: TelegramHarness, tmp_path: Path) -> None:
    """C034: text, long text, notice, typing, file, button, all in topic 42."""
    (tmp_path / "a.txt").write_text("content")
    file = Attachment(kind="document", name="a.txt", path=str(tmp_path / "a.txt"))
    await harness.send(OutboundMessage(address=TOPIC, text="word " * 2000))
    await harness.send(OutboundMessage(address=TOPIC, text="failed", kind=OutboundKind.NOTICE))
    await harness.send(OutboundMessage(address=TOPIC, text="file", attachments=(file,)))
    await harness.send(OutboundMessage(address=TOPIC, text="ok?", buttons=((Button(label="Yes", data="y"),),)))
    await harness.channel.typing(TOPIC)
    calls = harness.api.all_calls
    assert {call.method for call in calls} == {"sendMessage", "sendDocument", "sendChatAction"}
    assert {call.thread_id for call in calls} == {42}
    assert all(call.ok for call in calls)


async def test_general_is_addressed_without_a_thread(harness: TelegramHarness) -> None:
    general = Address(channel="telegram", chat_id="-1001")
    await harness.send(OutboundMessage(address=general, text="hello"))
    assert "message_thread_id" not in harness.api.sent[0].params


async def test_a_topic_that_is_gone_falls_back_to_the_chat_with_a_warning(
    harness: TelegramHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    """C015"""
    harness.api.delete_topic(-1001, 42)
    await harness.send(OutboundMessage(address=TOPIC, text="reminder " * 900, kind=OutboundKind.REMINDER))
    assert [call.thread_id for call in harness.api.calls("sendMessage")] == [42, None, None]
    assert len(harness.shown(TOPIC)) == 2
    captured = capsys.readouterr()
    assert "topic is gone" in captured.out + captured.err


async def test_only_the_first_part_replies_and_only_the_last_has_buttons(harness: TelegramHarness) -> None:
    harness.person_says(PRIVATE, "question")
    buttons = ((Button(label="A", data="a"), Button(label="B", data="b")), (Button(label="C", data="c"),))
    await harness.send(OutboundMessage(address=PRIVATE, text="word " * 2000, reply_to="1", buttons=buttons))
    shown = harness.shown(PRIVATE)
    assert [part.reply_to for part in shown] == ["1", "", ""]
    assert [part.buttons for part in shown] == [(), (), ("A", "B", "C")]


async def test_an_answer_to_a_deleted_message_is_sent_all_the_same(harness: TelegramHarness) -> None:
    await harness.send(OutboundMessage(address=PRIVATE, text="answer", reply_to="99"))
    assert [(part.text, part.reply_to) for part in harness.shown(PRIVATE)] == [("answer", "")]


async def test_a_button_carries_a_token_so_that_its_words_may_be_long(harness: TelegramHarness) -> None:
    rows = (
        (Button(label="é" * 60, data="é" * 60), Button(label="No", data="/approve A12")),
        (),
        (Button(label="?", data="?"),),
    )
    await harness.channel.send(
        OutboundMessage(address=PRIVATE, text="x", buttons=rows), RecordingProgress(outbox_id=9_000_000)
    )
    markup = harness.api.calls("sendMessage")[0].params["reply_markup"]
    data = [[button["callback_data"] for button in row] for row in markup["inline_keyboard"]]
    assert data == [["b9000000.0", "b9000000.1"], ["b9000000.2"]]


async def test_refused_markup_is_sent_again_as_plain_text(harness: TelegramHarness) -> None:
    harness.api.faults.add(cannot_parse())
    await harness.send(OutboundMessage(address=TOPIC, text="**bold** words"))
    (shown,) = harness.shown(TOPIC)
    assert (shown.text, shown.bold, shown.thread_id) == ("bold words", (), "42")


async def test_plain_text_that_is_refused_is_not_sent_twice(harness: TelegramHarness) -> None:
    fault = harness.api.faults.add(cannot_parse(times=None))
    with pytest.raises(SendRejected):
        await harness.send(OutboundMessage(address=PRIVATE, text="no markup here"))
    assert harness.api.faults.hits(fault) == 1


async def test_a_failure_in_the_middle_is_resumed_at_the_part_that_failed(harness: TelegramHarness) -> None:
    message = OutboundMessage(address=PRIVATE, text="".join(f"w{number} " for number in range(1800)), reply_to="1")
    harness.person_says(PRIVATE, "question")
    progress = RecordingProgress()
    harness.api.faults.add(Fault(method="sendMessage", times=1, delay_s=0))
    harness.api.faults.add(bad_gateway("sendMessage"))
    with pytest.raises(ChannelError):
        await harness.channel.send(message, progress)
    assert len(progress.sent_ids) == 1
    await harness.channel.send(message, progress)
    shown = harness.shown(PRIVATE)
    assert len(progress.sent_ids) == len(shown)
    assert " ".join(part.text.strip() for part in shown) == message.text.strip()
    assert [part.reply_to for part in shown] == ["1"] + [""] * (len(shown) - 1)


# --- drafts ----------------------------------------------------------------------------------------------


async def test_a_draft_becomes_the_first_part(harness: TelegramHarness) -> None:
    draft = await harness.send(OutboundMessage(address=TOPIC, text="thinking", kind=OutboundKind.NOTICE))
    message = OutboundMessage(address=TOPIC, text="**Done** " + "word " * 1000, draft_id=draft.sent_ids[0])
    progress = await harness.send(message)
    shown = harness.shown(TOPIC)
    assert len(shown) == 2
    assert progress.sent_ids[0] == draft.sent_ids[0]
    assert shown[0].text.startswith("Done word")
    assert shown[0].bold == ("Done",)
    assert shown[1].thread_id == "42"


async def test_a_draft_that_already_says_so_is_a_success(harness: TelegramHarness) -> None:
    """C026"""
    draft = await harness.send(OutboundMessage(address=PRIVATE, text="the same"))
    progress = await harness.send(OutboundMessage(address=PRIVATE, text="the same", draft_id=draft.sent_ids[0]))
    assert progress.sent_ids == draft.sent_ids
    assert len(harness.shown(PRIVATE)) == 1


async def test_a_draft_that_was_deleted_is_replaced_by_a_message(harness: TelegramHarness) -> None:
    progress = await harness.send(OutboundMessage(address=PRIVATE, text="final", draft_id="77"))
    assert [part.text for part in harness.shown(PRIVATE)] == ["final"]
    assert progress.sent_ids != ["77"]


async def test_a_draft_whose_markup_is_refused_becomes_plain_text(harness: TelegramHarness) -> None:
    draft = await harness.send(OutboundMessage(address=PRIVATE, text="thinking"))
    harness.api.faults.add(cannot_parse("editMessageText"))
    await harness.send(OutboundMessage(address=PRIVATE, text="**final**", draft_id=draft.sent_ids[0]))
    assert [(part.text, part.bold) for part in harness.shown(PRIVATE)] == [("final", ())]


async def test_an_edit_whose_answer_is_lost_may_simply_be_repeated(harness: TelegramHarness) -> None:
    draft = await harness.send(OutboundMessage(address=PRIVATE, text="thinking"))
    message = OutboundMessage(address=PRIVATE, text="final", draft_id=draft.sent_ids[0])
    harness.api.faults.add(Fault(method="editMessageText", drop_after=True))
    with pytest.raises(ChannelError) as caught:
        await harness.send(message)
    assert type(caught.value) is ChannelError
    await harness.send(message)
    assert [part.text for part in harness.shown(PRIVATE)] == ["final"]


# --- files -----------------------------------------------------------------------------------------------


def saved(folder: Path, name: str, content: bytes = b"bytes", kind: str = "document") -> Attachment:
    path = folder / name
    path.write_bytes(content)
    return Attachment(kind=kind, name=name, path=str(path))


async def test_a_short_text_is_the_caption_of_the_first_file(harness: TelegramHarness, tmp_path: Path) -> None:
    files = (saved(tmp_path, "cat.png", kind="image"), saved(tmp_path, "list.txt"))
    button = Button(label="Ok", data="ok")
    message = OutboundMessage(address=PRIVATE, text="**Look**", attachments=files, buttons=((button,),))
    progress = await harness.send(message)
    photo, document = harness.api.sent
    assert (photo.method, photo.text, document.method, document.text) == ("sendPhoto", "Look", "sendDocument", "")
    assert [part.bold for part in harness.shown(PRIVATE)] == [("Look",), ()]
    assert [part.buttons for part in harness.shown(PRIVATE)] == [(), ("Ok",)]
    assert len(progress.sent_ids) == 2
    contents = [content for _, content, _ in harness.api.world.files.values()]
    assert contents == [b"bytes", b"bytes"]


async def test_a_long_text_goes_before_its_files(harness: TelegramHarness, tmp_path: Path) -> None:
    text = "word " * 300
    await harness.send(OutboundMessage(address=PRIVATE, text=text, attachments=(saved(tmp_path, "a.txt"),)))
    assert [call.method for call in harness.api.sent] == ["sendMessage", "sendDocument"]


async def test_a_file_needs_no_text(harness: TelegramHarness, tmp_path: Path) -> None:
    await harness.send(OutboundMessage(address=PRIVATE, text="", attachments=(saved(tmp_path, "a.txt"),)))
    assert [(call.method, call.text) for call in harness.api.sent] == [("sendDocument", "")]


async def test_a_voice_follows_the_text_that_it_reads(harness: TelegramHarness, tmp_path: Path) -> None:
    message = OutboundMessage(address=PRIVATE, text="Yes.", attachments=(saved(tmp_path, "voice.ogg", kind="voice"),))
    await harness.send(message)
    assert [(call.method, call.text) for call in harness.api.sent] == [("sendMessage", "Yes."), ("sendVoice", "")]


async def test_a_voice_the_person_does_not_take_goes_as_document(harness: TelegramHarness, tmp_path: Path) -> None:
    harness.api.faults.add(Fault(method="sendVoice", status=400, description="Bad Request: VOICE_MESSAGES_FORBIDDEN"))
    message = OutboundMessage(address=PRIVATE, text="", attachments=(saved(tmp_path, "voice.ogg", kind="voice"),))
    await harness.send(message)
    assert [call.method for call in harness.api.sent] == ["sendDocument"]


async def test_a_picture_the_platform_does_not_take_goes_as_document(harness: TelegramHarness, tmp_path: Path) -> None:
    harness.api.faults.add(Fault(method="sendPhoto", status=400, description="Bad Request: PHOTO_INVALID_DIMENSIONS"))
    await harness.send(
        OutboundMessage(address=TOPIC, text="map", attachments=(saved(tmp_path, "map.png", kind="image"),))
    )
    (call,) = harness.api.sent
    assert (call.method, call.text, call.thread_id) == ("sendDocument", "map", 42)


@pytest.mark.parametrize(("name", "content", "why"), [("empty.txt", b"", "is empty"), (None, b"", "cannot be read")])
async def test_a_file_that_cannot_go_is_refused_by_name_without_its_folder(
    harness: TelegramHarness, tmp_path: Path, name: str | None, content: bytes, why: str
) -> None:
    file = saved(tmp_path, name, content) if name else Attachment(kind="document", path=str(tmp_path / "no.txt"))
    with pytest.raises(SendRejected, match=why) as caught:
        await harness.send(OutboundMessage(address=PRIVATE, text="", attachments=(file,)))
    assert str(tmp_path) not in str(caught.value)
    assert harness.api.sent == []


# --- errors ----------------------------------------------------------------------------------------------


async def send_into(harness: TelegramHarness, fault: Fault) -> ChannelError:
    harness.api.faults.add(fault)
    with pytest.raises(ChannelError) as caught:
        await harness.send(OutboundMessage(address=PRIVATE, text="hello"))
    return caught.value


async def test_a_rate_limit_carries_the_platforms_wait(harness: TelegramHarness) -> None:
    error = await send_into(harness, too_many_requests("sendMessage", 35))
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == 35


async def test_an_upgraded_group_carries_its_new_id(harness: TelegramHarness) -> None:
    """C035: the answer to a send."""
    error = await send_into(harness, upgraded(5, -1009))
    assert isinstance(error, ChatMigrated)
    assert error.new_chat_id == "-1009"


@pytest.mark.parametrize(
    "fault",
    [
        blocked(5),
        refuse("Bad Request: chat not found"),
        refuse("Bad Request: not enough rights to send text messages to the chat"),
        refuse("Forbidden: bot was kicked from the supergroup chat", status=403),
        refuse("Forbidden: user is deactivated", status=403),
    ],
)
async def test_a_chat_that_cannot_be_written_to_is_gone(harness: TelegramHarness, fault: Fault) -> None:
    """C036"""
    assert isinstance(await send_into(harness, fault), ChatGone)


async def test_any_other_refusal_is_final(harness: TelegramHarness) -> None:
    error = await send_into(harness, refuse("Bad Request: something new"))
    assert type(error) is SendRejected
    assert "something new" in str(error).lower()


async def test_a_request_the_platform_finds_too_large_is_final(harness: TelegramHarness) -> None:
    error = await send_into(harness, refuse("Request Entity Too Large", status=413))
    assert type(error) is SendRejected


async def test_a_refused_token_is_an_auth_error(harness: TelegramHarness) -> None:
    assert isinstance(await send_into(harness, refuse("Unauthorized", status=401)), ChannelAuthError)


async def test_a_server_that_does_not_know_how_to_send_may_learn_it_and_says_nothing_about_the_token(
    harness: TelegramHarness,
) -> None:
    assert type(await send_into(harness, refuse("Not Found", status=404))) is ChannelError


async def test_a_404_of_something_that_is_no_bot_api_may_be_repeated(harness: TelegramHarness) -> None:
    page = Fault(method="sendMessage", status=404, garbage=b"<html>404 Not Found</html>")
    error = await send_into(harness, page)
    assert type(error) is ChannelError
    assert error.retryable


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"ok": false, "description": "no"}', SendRejected),
        (b'{"ok":false,"error_code":429,"description":"slow","parameters":{"retry_after":3}}', RateLimited),
        (b'{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}', ChatGone),
        (b'{"ok":false,"error_code":"odd"}', SendRejected),
        (b"[]", SendUncertain),
    ],
)
async def test_what_an_answer_says_counts_for_more_than_its_status(
    harness: TelegramHarness, body: bytes, kind: type[ChannelError]
) -> None:
    assert type(await send_into(harness, Fault(method="sendMessage", garbage=body))) is kind


@pytest.mark.parametrize("result", [b"true", b"{}"])
async def test_a_message_taken_without_an_id_is_sent(harness: TelegramHarness, result: bytes) -> None:
    harness.api.faults.add(Fault(method="sendMessage", garbage=b'{"ok":true,"result":' + result + b"}"))
    progress = await harness.send(OutboundMessage(address=PRIVATE, text="hello"))
    assert progress.sent_ids == ["unknown"]


@pytest.mark.parametrize("fault", [bad_gateway("sendMessage"), refuse("Internal Server Error", status=500)])
async def test_a_gateway_error_may_simply_be_repeated(harness: TelegramHarness, fault: Fault) -> None:
    error = await send_into(harness, fault)
    assert type(error) is ChannelError
    assert error.retryable


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="sendMessage", drop_before=True),
        Fault(method="sendMessage", drop_after=True),
        Fault(method="sendMessage", garbage=b"nonsense"),
    ],
)
async def test_a_request_that_left_without_a_readable_answer_is_uncertain(
    harness: TelegramHarness, fault: Fault
) -> None:
    """C027"""
    assert isinstance(await send_into(harness, fault), SendUncertain)


async def test_whether_an_uncertain_send_arrived_cannot_be_known(harness: TelegramHarness) -> None:
    assert await harness.channel.find_sent(sending_row(OutboundMessage(address=PRIVATE, text="x"))) is None


async def test_the_token_is_in_no_error_and_no_log_line(
    harness: TelegramHarness, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    leaky = f"Bad Request: see https://api.telegram.org/bot{harness.secret}/sendMessage"
    error = await send_into(harness, refuse(leaky))
    said = "".join(traceback.format_exception(error))
    assert "<token>" in str(error)
    await harness.server_down()
    with pytest.raises(ChannelError) as caught:
        await harness.send(OutboundMessage(address=PRIVATE, text="hello"))
    said += "".join(traceback.format_exception(caught.value))
    captured = capsys.readouterr()
    everything = said + caplog.text + captured.out + captured.err
    assert harness.secret.lower() not in everything.lower()
