"""Several photos sent at once are one message, by polling and by webhook, whatever happens between the parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import StoreUnavailable
from tests.channels.harness_telegram import TelegramHarness, WebhookHarness, running, served
from tests.platforms.bot_api_faults import Fault

GROUP = -1001


@pytest.fixture(params=[TelegramHarness, WebhookHarness], ids=["polling", "webhook"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path, request.param) as made:
        yield made


def parked(harness: TelegramHarness) -> list[str]:
    return [name for name in harness.cursors.values if ":parked:" in name]


async def part(harness: TelegramHarness, content: bytes, caption: str | None = None, *, group: str = "g1") -> int:
    """Let a part of an album come and be confirmed, as Telegram waits for it before it posts the next."""
    update = harness.api.user_says(5, photo=content, caption=caption, media_group_id=group)
    await harness.api.wait_for(lambda: harness.api.confirmed_offset > update)
    return update


async def start_again(harness: TelegramHarness) -> None:
    """End the channel as a kill does, whatever it still had in mind, and let a new one begin."""
    harness.task.cancel()
    await harness.stop()
    harness.replace_channel(harness.build())
    harness.start()


async def test_an_album_is_one_message_with_all_photos_and_the_caption(harness: TelegramHarness) -> None:
    """C033: three photos, the caption on the first; each part is confirmed before the next comes."""
    async with running(harness):
        await part(harness, b"1", "our trip")
        for content in (b"2", b"3"):
            assert harness.intake.messages == []
            await part(harness, content)
        await harness.intake.wait_for_texts("our trip")
        await harness.api.wait_for(lambda: not parked(harness))
    (message,) = harness.intake.messages
    assert message.message_id == "1"
    assert [item.kind for item in message.attachments] == ["image"] * 3
    assert len({item.ref for item in message.attachments}) == 3


async def test_a_single_photo_does_not_wait_for_others(harness: TelegramHarness) -> None:
    """C033"""
    async with running(harness):
        await part(harness, b"0", "first of an album")
        harness.api.user_says(6, photo=b"1", caption="look", user_id=222)
        await harness.intake.wait_for_texts("look")  # the album, which came before it, waits still


async def test_other_chats_do_not_wait_for_an_album_and_its_own_chat_keeps_order(harness: TelegramHarness) -> None:
    async with running(harness):
        await part(harness, b"1", "album")
        await part(harness, b"2")
        harness.api.user_says(6, "other chat", user_id=222)
        await harness.intake.wait_for_texts("other chat")
        harness.api.user_says(5, "and this goes with it")
        await harness.intake.wait_for_texts("other chat", "album", "and this goes with it")
    assert [len(message.attachments) for message in harness.intake.messages] == [0, 2, 0]


async def test_parts_of_before_a_crash_and_after_it_are_one_album(harness: TelegramHarness) -> None:
    """The first part was confirmed, so that the platform never sends it again."""
    async with running(harness):
        await part(harness, b"1", "our trip")
        assert len(parked(harness)) == 1
        await start_again(harness)
        await part(harness, b"2")
        await harness.intake.wait_for_texts("our trip")
    assert len(harness.intake.messages[0].attachments) == 2
    assert harness.intake.duplicates == []


async def test_an_album_whose_last_part_came_before_a_crash_comes_in_after_it(harness: TelegramHarness) -> None:
    async with running(harness):
        await part(harness, b"1", "our trip")
        await part(harness, b"2")
        await start_again(harness)
        await harness.intake.wait_for_texts("our trip")
    assert len(harness.intake.messages[0].attachments) == 2


async def test_a_part_that_is_handed_out_again_after_its_album_is_no_second_message(harness: TelegramHarness) -> None:
    """The platform did not hear our answer, and a restart lies between."""
    async with running(harness):
        await part(harness, b"1", "our trip")
        second = await part(harness, b"2")
        await harness.intake.wait_for_texts("our trip")
        await harness.api.wait_for(lambda: not parked(harness))
        await start_again(harness)
        harness.api.redeliver(second)
        harness.api.user_says(5, "next")
        await harness.intake.wait_for_texts("our trip", "next")
    assert harness.intake.duplicates == []


async def test_in_a_group_a_caption_that_mentions_the_bot_speaks_for_the_whole_album(
    harness: TelegramHarness,
) -> None:
    async with running(harness):
        mention = harness.api.mention("what are these")
        harness.api.user_says(GROUP, photo=b"1", caption=mention, media_group_id="g1")
        harness.api.user_says(GROUP, photo=b"2", media_group_id="g1")
        await harness.intake.wait_for_texts("what are these")
    assert len(harness.intake.messages[0].attachments) == 2


async def test_in_a_group_an_album_that_is_not_for_the_bot_leaves_nothing(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.api.user_says(GROUP, photo=b"1", caption="our trip", media_group_id="g1")
        last = harness.api.user_says(GROUP, photo=b"2", media_group_id="g1")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset > last)
        harness.api.user_says(GROUP, harness.api.mention("hello"))
        await harness.intake.wait_for_texts("hello")
    assert parked(harness) == []


async def test_a_part_that_comes_much_too_late_is_not_lost(harness: TelegramHarness) -> None:
    async with running(harness):
        await part(harness, b"1", "our trip")
        await harness.intake.wait_for_texts("our trip")
        await part(harness, b"2")
        await harness.intake.wait_for(lambda: len(harness.intake.messages) == 2)
    assert [len(message.attachments) for message in harness.intake.messages] == [1, 1]


async def test_an_album_that_cannot_be_stored_yet_waits_whole(harness: TelegramHarness) -> None:
    harness.intake.failures.append(StoreUnavailable("disk full"))
    async with running(harness):
        await part(harness, b"1", "our trip")
        await part(harness, b"2")
        await harness.intake.wait_for_texts("our trip")
    assert len(harness.intake.messages[0].attachments) == 2
    assert harness.intake.duplicates == []


async def test_a_part_that_cannot_be_parked_is_not_confirmed(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.cursors.failures.append(StoreUnavailable("disk full"))
        await part(harness, b"1", "our trip")  # comes again, and is confirmed then
        await harness.intake.wait_for_texts("our trip")
    assert harness.cursors.failures == []


async def test_an_edited_caption_of_an_album_that_still_waits_is_used(harness: TelegramHarness) -> None:
    async with running(harness):
        await part(harness, b"1", "our tripp")
        edit = harness.api.edit(5, 1, "our trip")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset > edit)
        await start_again(harness)  # the edit is parked with its part
        await part(harness, b"2")
        await harness.intake.wait_for_texts("our trip")
    assert len(harness.intake.messages[0].attachments) == 2


async def test_an_edited_caption_of_a_queued_album_keeps_its_photos(harness: TelegramHarness) -> None:
    async with running(harness):
        await part(harness, b"1", "our tripp")
        await part(harness, b"2")
        await harness.intake.wait_for_texts("our tripp")
        harness.api.edit(5, 1, "our trip")
        await harness.intake.wait_for(lambda: harness.intake.texts == ["our trip"])
    assert len(harness.intake.edits[-1].attachments) == 2


async def test_an_edit_of_an_album_of_before_a_restart_takes_no_photos_away(harness: TelegramHarness) -> None:
    async with running(harness):
        await part(harness, b"1", "our tripp")
        await part(harness, b"2")
        await harness.intake.wait_for_texts("our tripp")
        await harness.api.wait_for(lambda: not parked(harness))
        await start_again(harness)
        harness.api.edit(5, 1, "our trip")
        harness.api.user_says(5, "next")
        await harness.intake.wait_for_texts("our tripp", "next")
    assert harness.intake.edits == []


async def test_of_old_albums_only_so_many_are_remembered(harness: TelegramHarness) -> None:
    for number in range(300):
        record = {"at_us": number, "addressed": True, "ids": [str(number)]}
        harness.cursors.values[f"telegram:123:album:telegram:5/old{number}"] = (json.dumps(record), 0)
    async with running(harness):
        await part(harness, b"1", "our trip")
        await harness.intake.wait_for_texts("our trip")
        await harness.api.wait_for(lambda: not parked(harness))
    left = [name for name in harness.cursors.values if ":album:" in name]
    assert len(left) == 256
    assert "telegram:123:album:telegram:5/old44" not in left
    assert "telegram:123:album:telegram:5/old45" in left


async def test_albums_of_several_chats_at_once_come_in_each_whole(harness: TelegramHarness) -> None:
    gate = asyncio.Event()
    async with running(harness):
        harness.api.faults.add(Fault(method="webhook", hold=gate, times=None))
        for chat in (5, 7, 8):
            for content in (b"1", b"2", b"3"):
                harness.api.user_says(chat, photo=content, caption=f"chat {chat}", media_group_id=f"g{chat}")
        gate.set()
        await harness.intake.wait_for(lambda: len(harness.intake.messages) == 3)
    assert sorted(len(message.attachments) for message in harness.intake.messages) == [3, 3, 3]
