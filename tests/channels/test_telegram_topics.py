"""Topics of a forum: everything about one stays in it, General has no id, and one that is gone loses no words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.messages import Address, Attachment, Button, OutboundKind, OutboundMessage
from tests.channels.harness_telegram import PRIVATE, TOPIC, TelegramHarness, running, served
from tests.platforms.bot_api_faults import Fault

GENERAL = Address(channel="telegram", chat_id="-1001")
BUTTONS = ((Button(label="Yes", data="y"),),)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        made.intake.button_labels = ["Yes"]
        yield made


def saved(folder: Path, *names: str) -> tuple[Attachment, ...]:
    kinds = {".jpg": "image", ".ogg": "voice", ".mp3": "audio", ".mp4": "video"}
    for name in names:
        (folder / name).write_bytes(name.encode())
    return tuple(
        Attachment(kind=kinds.get(Path(name).suffix, "document"), name=name, path=str(folder / name)) for name in names
    )


def everything(address: Address, folder: Path) -> list[OutboundMessage]:
    """Return a message of each kind, with each thing that a message can carry."""
    words = [OutboundMessage(address=address, text=f"about {kind}", kind=kind) for kind in OutboundKind]
    return [
        *words,
        OutboundMessage(address=address, text="long " * 2000),
        OutboundMessage(address=address, text="ok?", buttons=BUTTONS),
        *(
            OutboundMessage(address=address, text="file", attachments=saved(folder, name), buttons=BUTTONS)
            for name in ("a.txt", "a.jpg", "a.ogg", "a.mp3", "a.mp4")
        ),
        OutboundMessage(address=address, text="album", attachments=saved(folder, "1.jpg", "2.jpg")),
    ]


async def test_whatever_goes_out_for_a_topic_goes_into_it(harness: TelegramHarness, tmp_path: Path) -> None:
    """C034: topics 42 and 43 of one group."""
    for thread_id in ("42", "43"):
        address = Address(channel="telegram", chat_id="-1001", thread_id=thread_id)
        before = len(harness.api.all_calls)
        for message in everything(address, tmp_path):
            await harness.send(message)
        await harness.channel.typing(address)
        calls = harness.api.all_calls[before:]
        assert {call.thread_id for call in calls} == {int(thread_id)}
        assert all(call.ok for call in calls)


async def test_whatever_goes_out_for_general_names_no_topic(harness: TelegramHarness, tmp_path: Path) -> None:
    """C034"""
    for message in everything(GENERAL, tmp_path):
        await harness.send(message)
    assert all(call.ok and "message_thread_id" not in call.params for call in harness.api.all_calls)


async def test_edits_marks_and_presses_of_a_topic_stay_with_their_message(harness: TelegramHarness) -> None:
    """C034: what names a message needs no topic, and is in it all the same."""
    async with running(harness):
        said = harness.person_says(TOPIC, "hello")
        await harness.intake.wait_for_texts("hello")
        await harness.channel.seen(TOPIC, said)
        draft = await harness.send(OutboundMessage(address=TOPIC, text="thinking", kind=OutboundKind.NOTICE))
        await harness.send(
            OutboundMessage(address=TOPIC, text="final", draft_id=draft.sent_ids[0], buttons=BUTTONS, reply_to=said)
        )
        harness.api.press(-1001, int(draft.sent_ids[0]), "b1.0")
        await harness.api.wait_for(lambda: harness.shown(TOPIC)[0].buttons == ("✓ Yes",))
        harness.api.react(-1001, int(draft.sent_ids[0]), "👍")
        await harness.intake.wait_for(lambda: harness.intake.reactions)
    assert [(part.text, part.thread_id) for part in harness.shown(TOPIC)] == [("final", "42")]
    assert all(call.ok for call in harness.api.all_calls if call.chat_id != harness.api.world.bot["id"])


async def test_only_typing_names_general(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.person_says(GENERAL, "hello")
        harness.person_says(PRIVATE, "hello")
        await harness.intake.wait_for_texts("hello", "hello")
        for address in (GENERAL, TOPIC, PRIVATE):
            await harness.channel.typing(address)
        await harness.send(OutboundMessage(address=GENERAL, text="answer"))
    assert [call.thread_id for call in harness.api.calls("sendChatAction")] == [1, 42, None]
    assert harness.api.sent[-1].thread_id is None


async def test_a_group_that_is_no_forum_any_more_has_no_general(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.person_says(GENERAL, "hello")
        await harness.intake.wait_for_texts("hello")
        harness.api.user_says(-1001, harness.api.mention("plain now"), is_forum=False)
        await harness.intake.wait_for_texts("hello", "plain now")
        await harness.channel.typing(GENERAL)
    assert harness.api.calls("sendChatAction")[-1].thread_id is None


@pytest.mark.parametrize("why", ["TOPIC_CLOSED", "TOPIC_DELETED", "message thread not found", "TOPIC_ID_INVALID"])
async def test_words_for_a_topic_that_is_closed_or_gone_reach_the_chat(
    harness: TelegramHarness, tmp_path: Path, why: str
) -> None:
    """C015: with their buttons and files."""
    for method in ("sendMessage", "sendDocument"):
        harness.api.faults.add(Fault(method=method, status=400, description=f"Bad Request: {why}"))
    await harness.send(OutboundMessage(address=TOPIC, text="reminder", kind=OutboundKind.REMINDER, buttons=BUTTONS))
    await harness.send(OutboundMessage(address=TOPIC, text="file", attachments=saved(tmp_path, "a.txt")))
    shown = [(part.text, part.thread_id, part.buttons) for part in harness.shown(TOPIC)]
    assert shown == [("reminder", None, ("Yes",)), ("file", None, ())]


async def test_typing_in_a_topic_that_is_gone_raises_nothing(harness: TelegramHarness) -> None:
    harness.api.delete_topic(-1001, 42)
    await harness.channel.typing(TOPIC)
    assert [call.ok for call in harness.api.calls("sendChatAction")] == [False]
