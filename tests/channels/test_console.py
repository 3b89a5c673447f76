"""What only the terminal's channel does: several terminals, confirmations, drafts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.clock import SystemClock
from bot.errors import ChannelError, SendUncertain
from bot.interfaces import ChannelState, Draft
from bot.messages import Attachment, Button, OutboundKind, OutboundMessage
from channels.console import ADDRESS, ConsoleChannel, Event, Terminal
from tests.support.recording_intake import RecordingIntake, RecordingProgress


@pytest.fixture
async def console() -> AsyncIterator[ConsoleChannel]:
    channel = ConsoleChannel(RecordingIntake(), SystemClock())
    running = asyncio.create_task(channel.run(), name="console")
    yield channel
    running.cancel()
    await channel.close()


def events_of(terminal: Terminal) -> list[Event]:
    return [terminal.events.get_nowait() for _ in range(terminal.events.qsize())]


async def test_every_terminal_shows_a_message_and_one_confirmation_is_enough(console: ConsoleChannel) -> None:
    first, second = console.attach(), console.attach()
    progress = RecordingProgress(outbox_id=7)
    sending = asyncio.create_task(console.send(OutboundMessage(address=ADDRESS, text="hi"), progress))
    shown = await first.events.get()
    assert (shown["event"], shown["outbox"], shown["text"]) == ("message", 7, "hi")
    assert events_of(second) == [shown]
    assert progress.sent_ids == []
    console.confirm(7)
    console.confirm(7)
    await sending
    assert progress.sent_ids == ["7"]


async def test_a_terminal_that_goes_away_before_confirming_leaves_the_send_uncertain_at_once(
    console: ConsoleChannel,
) -> None:
    terminal = console.attach()
    sending = asyncio.create_task(console.send(OutboundMessage(address=ADDRESS, text="hi"), RecordingProgress()))
    await terminal.events.get()
    console.detach(terminal)
    console.detach(terminal)
    await asyncio.wait({sending}, timeout=5)  # below what a terminal that stays may take
    assert isinstance(sending.exception(), SendUncertain)


async def test_while_another_terminal_is_there_the_message_waits_for_it(console: ConsoleChannel) -> None:
    first, second = console.attach(), console.attach()
    progress = RecordingProgress(outbox_id=3)
    sending = asyncio.create_task(console.send(OutboundMessage(address=ADDRESS, text="hi"), progress))
    await second.events.get()
    console.detach(first)
    assert console.state is ChannelState.READY
    console.confirm(3)
    await sending
    assert progress.sent_ids == ["3"]


async def test_a_message_that_was_shown_is_not_shown_again(console: ConsoleChannel) -> None:
    terminal = console.attach()
    await console.send(OutboundMessage(address=ADDRESS, text="hi"), RecordingProgress(outbox_id=3, sent_ids=("3",)))
    assert events_of(terminal) == []


async def test_files_buttons_and_kind_come_with_the_message(console: ConsoleChannel) -> None:
    terminal = console.attach()
    message = OutboundMessage(
        address=ADDRESS,
        text="",
        kind=OutboundKind.REMINDER,
        attachments=(Attachment(kind="document", path="shared/a.txt"),),
        buttons=((Button(label="Done", data="d"), Button(label="Later", data="l")), (Button(label="Never", data="n"),)),
    )
    sending = asyncio.create_task(console.send(message, RecordingProgress(outbox_id=1)))
    event = await terminal.events.get()
    console.confirm(1)
    await sending
    assert (event["kind"], event["files"], event["buttons"]) == (
        "reminder", ["shared/a.txt"], [["Done", "Later"], ["Never"]],
    )  # fmt: skip


async def test_drafts_typing_and_ends_of_turns_are_events_in_order(console: ConsoleChannel) -> None:
    terminal = console.attach()
    await console.typing(ADDRESS)
    assert await console.show_draft(Draft(address=ADDRESS, text="so far")) == ""
    console.turn_ended(["line-1", "line-2"], replied=True)
    assert events_of(terminal) == [
        {"event": "typing"},
        {"event": "draft", "text": "so far"},
        {"event": "done", "lines": ["line-1", "line-2"], "replied": True},
    ]


async def test_a_terminal_that_does_not_read_costs_bounded_memory(console: ConsoleChannel) -> None:
    terminal = console.attach()
    for number in range(5_000):
        await console.show_draft(Draft(address=ADDRESS, text=str(number)))
    assert len(events_of(terminal)) == 1_000


async def test_it_says_that_nobody_is_there(console: ConsoleChannel) -> None:
    await asyncio.sleep(0)  # `run` has begun
    assert (console.state, console.problem) == (ChannelState.OFFLINE, "no terminal is attached")
    with pytest.raises(ChannelError, match="no terminal is attached"):
        await console.send(OutboundMessage(address=ADDRESS, text="hi"), RecordingProgress())
