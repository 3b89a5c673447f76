"""Buttons: what a press does, and what people see of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import StoreUnavailable
from bot.messages import Address, Attachment, Button, OutboundMessage
from tests.channels.harness_telegram import PRIVATE, TOPIC, TelegramHarness, WebhookHarness, running, served
from tests.platforms.bot_api_faults import Fault
from tests.support.recording_intake import RecordingProgress

BUTTONS = ((Button(label="Yes, please", data="yes"), Button(label="No", data="no")),)


@pytest.fixture(params=[TelegramHarness, WebhookHarness], ids=["polling", "webhook"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path, request.param) as made:
        made.intake.button_labels = ["Yes, please", "No"]
        async with running(made):
            yield made


async def ask(harness: TelegramHarness, *, address: Address = PRIVATE, outbox_id: int = 7) -> int:
    """Let the bot ask something with two buttons; return the message's id."""
    progress = RecordingProgress(outbox_id=outbox_id)
    await harness.channel.send(OutboundMessage(address=address, text="Sure?", buttons=BUTTONS), progress)
    return int(progress.sent_ids[-1])


async def toast(harness: TelegramHarness, count: int = 1) -> str:
    """Return the words of the newest toast; "" for a press that was only acknowledged."""
    await harness.api.wait_for(lambda: len(harness.api.calls("answerCallbackQuery")) == count)
    return str(harness.api.calls("answerCallbackQuery")[-1].params.get("text", ""))


async def test_a_press_is_committed_then_answered_and_the_choice_stays(harness: TelegramHarness) -> None:
    message_id = await ask(harness)
    harness.api.press(5, message_id, "b7.0")
    assert await toast(harness) == ""
    await harness.api.wait_for(lambda: harness.shown(PRIVATE)[0].buttons == ("✓ Yes, please",))
    (press,) = harness.intake.presses
    assert (press.outbox_id, press.index, press.sender_id, press.message_id) == (7, 0, "111", str(message_id))
    assert harness.shown(PRIVATE)[0].text == "Sure?"


async def test_a_press_that_cannot_be_stored_is_not_answered_before_it_is(harness: TelegramHarness) -> None:
    message_id = await ask(harness)
    harness.intake.failures.append(StoreUnavailable("disk full"))
    harness.api.press(5, message_id, "b7.0")
    assert await toast(harness) == ""
    assert len(harness.intake.presses) == 1


async def test_a_second_press_is_told_what_was_chosen(harness: TelegramHarness) -> None:
    message_id = await ask(harness, address=TOPIC)
    harness.api.press(-1001, message_id, "b7.0")
    await harness.api.wait_for(lambda: harness.shown(TOPIC)[0].buttons == ("✓ Yes, please",))
    harness.api.press(-1001, message_id, "b7.0", user_id=222)
    assert await toast(harness, 2) == "This was answered already: Yes, please"
    assert len(harness.intake.presses) == 1


async def test_the_keyboard_is_mended_by_a_second_press(harness: TelegramHarness) -> None:
    message_id = await ask(harness)
    harness.api.faults.add(Fault(method="editMessageReplyMarkup", status=500, description="Internal Server Error"))
    harness.api.press(5, message_id, "b7.1")
    await harness.api.wait_for(lambda: harness.api.calls("editMessageReplyMarkup"))
    harness.api.press(5, message_id, "b7.0")
    await harness.api.wait_for(lambda: harness.shown(PRIVATE)[0].buttons == ("✓ No",))


async def test_an_unknown_button_and_old_raw_data_are_told_to_be_void(harness: TelegramHarness) -> None:
    chat = harness.api.world.chats[5]
    data = [["b7.5", "/approve A12"]]
    keyboard = [[{"text": text, "callback_data": text} for text in row] for row in data]
    body = {"text": "Old", "reply_markup": {"inline_keyboard": keyboard}}
    old = harness.api.world.new_message(chat, harness.api.world.bot, body)["message_id"]
    harness.api.press(5, old, "b7.5")
    assert await toast(harness) == "This button is not valid any more."
    harness.api.press(5, old, "/approve A12")
    assert await toast(harness, 2) == "This button is not valid any more."
    assert harness.intake.presses == []
    assert harness.intake.messages == []
    assert harness.api.calls("editMessageReplyMarkup") == []


async def test_a_stranger_learns_nothing_else(harness: TelegramHarness) -> None:
    harness.intake.refused_senders.add("666")
    harness.api.press(5, await ask(harness), "b7.0", user_id=666)
    assert await toast(harness) == "This button is not valid any more."
    assert harness.shown(PRIVATE)[0].buttons == ("Yes, please", "No")


async def test_a_toast_that_comes_too_late_changes_nothing(harness: TelegramHarness) -> None:
    message_id = await ask(harness)
    stale = Fault(method="answerCallbackQuery", status=400, description="Bad Request: query is too old")
    harness.api.faults.add(stale)
    harness.api.press(5, message_id, "b7.0")
    await harness.api.wait_for(lambda: harness.shown(PRIVATE)[0].buttons == ("✓ Yes, please",))


async def test_buttons_under_a_file_stay_under_it(harness: TelegramHarness, tmp_path: Path) -> None:
    path = tmp_path / "bill.pdf"
    path.write_bytes(b"%PDF")
    file = Attachment(kind="document", name="bill.pdf", path=str(path))
    message = OutboundMessage(address=TOPIC, text="Pay it?", attachments=(file,), buttons=BUTTONS)
    progress = RecordingProgress(outbox_id=7)
    await harness.channel.send(message, progress)
    harness.api.press(-1001, int(progress.sent_ids[-1]), "b7.1")
    await harness.api.wait_for(lambda: harness.shown(TOPIC)[0].buttons == ("✓ No",))
    assert harness.shown(TOPIC)[0].text == "Pay it?"
    assert harness.shown(TOPIC)[0].thread_id == "42"


async def test_a_reaction_comes_in(harness: TelegramHarness) -> None:
    message_id = await ask(harness)
    update = harness.api.react(5, message_id, "👍")
    await harness.intake.wait_for(lambda: harness.intake.reactions)
    (reaction,) = harness.intake.reactions
    assert (reaction.chat_id, reaction.message_id, reaction.emoji) == ("5", str(message_id), "👍")
    await harness.api.wait_for(lambda: harness.api.confirmed_offset > update)
    harness.api.redeliver(update)
    harness.api.user_says(5, "next")
    await harness.intake.wait_for_texts("next")
    assert len(harness.intake.reactions) == 1
