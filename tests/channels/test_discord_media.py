"""Files that people send on Discord, and what was said in a thread before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import RateLimited
from bot.messages import Address, Attachment, InboundMessage, Quote
from tests.channels.harness_discord import (
    CHANNEL,
    DM,
    IN_CHANNEL,
    IN_THREAD,
    PRIVATE,
    THREAD,
    DiscordHarness,
    running,
    served,
)
from tests.platforms.discord_faults import Fault, rate_limited
from tests.platforms.discord_objects import Route


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as harness, running(harness) as up:
        yield up


async def received(live: DiscordHarness, *, content: bytes = b"%PDF", name: str = "a b.pdf") -> Attachment:
    live.api.user_says(DM, "look", files=[(name, content, "application/pdf")])
    await live.intake.wait_for_texts("look")
    (file,) = live.intake.messages[0].attachments
    return file


async def test_a_file_is_fetched_into_the_chats_folder_once(live: DiscordHarness, tmp_path: Path) -> None:
    file = await received(live)
    fetched = await live.channel.fetch(file, PRIVATE)
    again = await live.channel.fetch(file, PRIVATE)
    assert fetched.error == ""
    assert Path(fetched.path).read_bytes() == b"%PDF"
    assert Path(fetched.path).is_relative_to(tmp_path / "chats")
    assert (fetched.size_bytes, again.path) == (4, fetched.path)
    assert len(live.api.calls(Route.CDN)) == 1


async def test_a_file_is_fetched_days_later_although_addresses_expire(live: DiscordHarness) -> None:
    file = await received(live)
    live.api.world.clock.advance(3 * 86_400)
    assert (await live.channel.fetch(file, PRIVATE)).error == ""


EXPIRED = Fault(route=Route.CDN, status=404, garbage=b"This content is no longer available.")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(route=Route.CDN, status=404, garbage=b"gone", times=None), "HTTP 404"),
        (Fault(route=Route.CDN, drop_after=True, times=None), "broke off"),
        (Fault(route=Route.GET_MESSAGE, status=404, code=10008, message="Unknown Message"), "Unknown Message"),
        (Fault(route=Route.GET_MESSAGE, garbage=b'{"attachments": []}'), "does not hold this file any more"),
    ],
)
async def test_a_file_that_cannot_be_fetched_says_why(live: DiscordHarness, fault: Fault, reason: str) -> None:
    """C043"""
    file = await received(live)
    if fault.route is Route.GET_MESSAGE:
        live.api.faults.add(EXPIRED)
    live.api.faults.add(fault)
    fetched = await live.channel.fetch(file, PRIVATE)
    assert reason in fetched.error
    assert fetched.path == ""


@pytest.mark.parametrize("status", [404, 500, 501])
async def test_a_file_is_fetched_where_messages_cannot_be_asked_for(live: DiscordHarness, status: int) -> None:
    file = await received(live)
    live.api.faults.add(Fault(route=Route.GET_MESSAGE, status=status, times=None))
    assert (await live.channel.fetch(file, PRIVATE)).error == ""


async def test_a_file_that_is_too_big_is_not_even_asked_for(live: DiscordHarness) -> None:
    """C043"""
    file = replace(await received(live), size_bytes=30 * 1024 * 1024)
    fetched = await live.channel.fetch(file, PRIVATE)
    assert "too big to fetch (31.5 MB)" in fetched.error
    assert live.api.calls(Route.GET_MESSAGE) == []


async def test_a_rate_limit_is_no_failure_of_the_file(live: DiscordHarness) -> None:
    file = await received(live)
    live.api.faults.add(EXPIRED)
    live.api.faults.add(rate_limited(Route.GET_MESSAGE, 3))
    with pytest.raises(RateLimited):
        await live.channel.fetch(file, PRIVATE)


async def test_what_has_no_file_is_left_alone(live: DiscordHarness) -> None:
    sticker = Attachment(kind="sticker", name="Wave")
    assert await live.channel.fetch(sticker, PRIVATE) == sticker


# --- earlier


def asked(address: Address = IN_THREAD, message_id: str = "9" * 19) -> InboundMessage:
    return InboundMessage(address=address, text="well?", sender_id="111", message_id=message_id)


async def test_a_threads_earlier_messages_come_with_its_starter_and_their_authors(live: DiscordHarness) -> None:
    starter = live.api.user_says(CHANNEL, "The roof leaks", user_id=222, name="Ben")
    channel = live.api.world.channels[CHANNEL]
    thread = live.api.world.start_thread(
        channel, live.api.world.users[222], "roof", channel.messages[starter], live.api.world.channels[THREAD].kind
    )
    live.api.user_says(thread.id, "Since when?", user_id=111)
    live.api.user_says(thread.id, "Since May", user_id=222)
    question = live.api.user_says(thread.id, live.api.mention("what now?"), user_id=111)
    message = asked(replace(IN_THREAD, thread_id=str(thread.id)), str(question))
    quotes = await live.channel.earlier(message)
    assert [(quote.author, quote.name, quote.text) for quote in quotes] == [
        ("other", "Ben", "The roof leaks"),
        ("sender", "Ada", "Since when?"),
        ("other", "Ben", "Since May"),
    ]
    assert all(isinstance(quote, Quote) for quote in quotes)


async def test_at_most_twenty_earlier_messages_are_told(live: DiscordHarness) -> None:
    for number in range(30):
        live.api.user_says(THREAD, f"line {number}")
    quotes = await live.channel.earlier(asked())
    assert [quote.text for quote in quotes] == [f"line {number}" for number in range(10, 30)]


async def test_outside_of_threads_nothing_is_asked(live: DiscordHarness) -> None:
    assert await live.channel.earlier(asked(IN_CHANNEL)) == ()


@pytest.mark.parametrize("fault", [Fault(status=403, code=50001), Fault(status=500), Fault(garbage=b"[1]")])
async def test_a_history_that_cannot_be_read_is_no_reason_not_to_answer(live: DiscordHarness, fault: Fault) -> None:
    live.api.faults.add(replace(fault, route=Route.GET_MESSAGES, channel_id=THREAD))
    assert await live.channel.earlier(asked()) == ()
