"""Several photos sent at once are one message, which waits for its last part without being confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import StoreUnavailable
from bot.messages import InboundMessage
from tests.channels.harness_telegram import TelegramHarness, running, served
from tests.platforms.bot_api_faults import Fault


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        yield made


async def next_poll(harness: TelegramHarness) -> None:
    before = harness.api.updates.poll_count
    await harness.api.wait_for(lambda: harness.api.updates.poll_count > before)


async def test_an_album_is_one_message_with_all_photos_and_the_caption(harness: TelegramHarness) -> None:
    """C033: three photos, the caption on the first, then 300 ms between the parts."""
    async with running(harness):
        first = harness.api.user_says(5, photo=b"1", caption="our trip", media_group_id="g1")
        for content in (b"2", b"3"):
            await next_poll(harness)
            assert harness.intake.messages == []
            assert harness.api.confirmed_offset <= first
            last = harness.api.user_says(5, photo=content, media_group_id="g1")
        await harness.intake.wait_for_texts("our trip")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == last + 1)
    (message,) = harness.intake.messages
    assert message.message_id == "1"
    assert [item.kind for item in message.attachments] == ["image"] * 3
    assert len({item.ref for item in message.attachments}) == 3


async def test_a_single_photo_does_not_wait_for_others(harness: TelegramHarness) -> None:
    async with running(harness):
        await harness.api.wait_for(lambda: harness.api.updates.poll_count == 1)
        update = harness.api.user_says(5, photo=b"1", caption="look")
        await harness.intake.wait_for_texts("look")
        assert harness.api.updates.poll_count == 1  # it went in with the very answer that brought it
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == update + 1)


async def test_other_chats_do_not_wait_for_an_album_and_its_own_chat_keeps_order(harness: TelegramHarness) -> None:
    async with running(harness):
        gate = asyncio.Event()
        harness.api.faults.add(Fault(method="getUpdates", hold=gate))
        harness.api.user_says(5, photo=b"1", caption="album", media_group_id="g1")
        harness.api.user_says(5, photo=b"2", media_group_id="g1")
        harness.api.user_says(6, "other chat", user_id=222)
        harness.api.user_says(5, "and this goes with it")
        gate.set()
        await harness.intake.wait_for_texts("other chat", "album", "and this goes with it")
    assert [len(message.attachments) for message in harness.intake.messages] == [0, 2, 0]


async def test_an_album_that_waits_is_not_confirmed_by_what_came_after_it(harness: TelegramHarness) -> None:
    confirmed: dict[str, int] = {}

    def note(message: InboundMessage) -> None:
        confirmed[message.text] = harness.api.confirmed_offset

    harness.intake.before_commit = note
    first = harness.api.user_says(5, photo=b"1", caption="album", media_group_id="g1")
    last = harness.api.user_says(6, "other chat", user_id=222)
    async with running(harness):
        await harness.intake.wait_for_texts("other chat", "album")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == last + 1)
    assert confirmed["album"] <= first
    assert harness.intake.duplicates == []


async def test_in_a_group_a_caption_that_mentions_the_bot_speaks_for_the_whole_album(
    harness: TelegramHarness,
) -> None:
    async with running(harness):
        mention = harness.api.mention("what are these")
        harness.api.user_says(-1001, photo=b"1", caption=mention, media_group_id="g1", chat_type="supergroup")
        harness.api.user_says(-1001, photo=b"2", media_group_id="g1", chat_type="supergroup")
        await harness.intake.wait_for_texts("what are these")
    assert len(harness.intake.messages[0].attachments) == 2


async def test_in_a_group_an_album_that_is_not_for_the_bot_is_confirmed_unheard(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.api.user_says(-1001, photo=b"1", caption="our trip", media_group_id="g1", chat_type="supergroup")
        last = harness.api.user_says(-1001, photo=b"2", media_group_id="g1", chat_type="supergroup")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == last + 1)
    assert harness.intake.messages == []


async def test_a_part_that_comes_much_too_late_is_not_lost(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.api.user_says(5, photo=b"1", caption="our trip", media_group_id="g1")
        await harness.intake.wait_for_texts("our trip")
        last = harness.api.user_says(5, photo=b"2", media_group_id="g1")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == last + 1)
    assert [len(message.attachments) for message in harness.intake.messages] == [1, 1]


async def test_an_album_that_could_not_be_stored_comes_again_whole(harness: TelegramHarness) -> None:
    harness.intake.failures.append(StoreUnavailable("disk full"))
    harness.api.user_says(5, photo=b"1", caption="our trip", media_group_id="g1")
    harness.api.user_says(5, photo=b"2", media_group_id="g1")
    async with running(harness):
        await harness.intake.wait_for_texts("our trip")
    assert len(harness.intake.messages[0].attachments) == 2
    assert harness.intake.duplicates == []


async def test_an_edited_caption_of_an_album_that_still_waits_is_used(harness: TelegramHarness) -> None:
    async with running(harness):
        gate = asyncio.Event()
        harness.api.faults.add(Fault(method="getUpdates", hold=gate))
        harness.api.user_says(5, photo=b"1", caption="our tripp", media_group_id="g1")
        harness.api.user_says(5, photo=b"2", media_group_id="g1")
        harness.api.edit(5, 1, "our trip")
        gate.set()
        await harness.intake.wait_for_texts("our trip")
