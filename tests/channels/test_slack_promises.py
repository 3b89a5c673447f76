"""What leniency towards a sparse or broken Slack must not cost: messages of a gap, and answers sent once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import SendUncertain
from bot.interfaces import ChannelState
from bot.messages import OutboundMessage
from channels.slack.blindness import Blindness
from channels.slack.errors import ServerTrouble
from tests.channels.harness_slack import DM, PRIVATE, QUICK, THREAD, SlackHarness, built, served
from tests.platforms.slack_faults import Fault, bad_gateway, refused
from tests.support.clock import FakeClock
from tests.support.outbox_rows import sending_row

OUTAGES = [Fault(status=404, garbage=b"<html>no such page</html>"), Fault(status=501, garbage=b"<html>")]
"""What a proxy says while what is behind it is away."""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SlackHarness]:
    async with served(tmp_path) as made:
        made.replace_channel(built(made, replace(QUICK, gate_s=0.1, rescan_s=0.05)))
        yield made
        assert made.api.socket.violations == []


async def with_a_gap(harness: SlackHarness, fault: Fault) -> Fault:
    """Start, hear "before", miss "in the gap", and be connected again while a fault stands."""
    harness.start()
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "before")
    await harness.intake.wait_for_texts("before")
    await harness.until_confirmed()
    outage = harness.api.faults.add(replace(fault, times=None))
    harness.api.socket.loses_events = True
    refusal = harness.api.faults.add(Fault(method="socket", status=503, times=None))
    harness.api.socket.drop()
    await harness.until(ChannelState.OFFLINE)
    harness.person_says(PRIVATE, "in the gap")
    harness.api.socket.loses_events = False
    harness.api.faults.remove(refusal)
    await harness.until(ChannelState.READY)
    return outage


@pytest.mark.parametrize("fault", OUTAGES)
async def test_a_gap_is_read_behind_the_short_outage_of_a_proxy(harness: SlackHarness, fault: Fault) -> None:
    outage = await with_a_gap(harness, replace(fault, method="conversations.history"))
    await harness.api.wait_for(lambda: harness.api.faults.hits(outage) > 0)
    harness.person_says(PRIVATE, "newer")  # does not wait for it
    await harness.intake.wait_for_texts("before", "newer")
    harness.api.faults.remove(outage)
    await harness.intake.wait_for_texts("before", "newer", "in the gap")


async def test_a_gap_that_newer_messages_overtook_is_still_read_after_a_restart(harness: SlackHarness) -> None:
    harness.replace_channel(built(harness, replace(QUICK, gate_s=0.1, overtake_s=0.2)))
    outage = await with_a_gap(harness, bad_gateway("conversations.history", times=None))
    harness.person_says(PRIVATE, "newer")
    await harness.intake.wait_for_texts("before", "newer")
    await harness.until_confirmed()
    await harness.stop()
    harness.api.faults.remove(outage)
    harness.replace_channel(harness.build())
    harness.start()
    await harness.intake.wait_for_texts("before", "newer", "in the gap")


async def test_conversations_are_listed_behind_the_short_outage_of_a_proxy(harness: SlackHarness) -> None:
    outage = await with_a_gap(harness, replace(OUTAGES[0], method="users.conversations"))
    await harness.api.wait_for(lambda: harness.api.faults.hits(outage) > 0)
    harness.api.faults.remove(outage)
    listed = len(list(harness.api.calls("users.conversations")))
    await harness.api.wait_for(lambda: len(list(harness.api.calls("users.conversations"))) > listed)
    await harness.intake.wait_for_texts("before", "in the gap")


async def test_what_is_edited_while_it_waits_is_taken_as_it_is_now(harness: SlackHarness) -> None:
    harness.replace_channel(built(harness, replace(QUICK, gate_s=0.05, overtake_s=1.5)))
    await with_a_gap(harness, bad_gateway("conversations.history", times=None))
    harness.api.socket.retries_s = ()
    message_id = harness.person_says(PRIVATE, "at nine")
    harness.person_edits(PRIVATE, message_id, "at ten")
    await harness.intake.wait_for(lambda: len(harness.intake.messages) == 2)
    assert harness.intake.texts == ["before", "at ten"]


# --- sends in doubt


async def test_a_history_that_is_closed_in_one_place_settles_the_sends_of_the_others(harness: SlackHarness) -> None:
    harness.start()
    await harness.until(ChannelState.READY)
    closed = harness.api.faults.add(refused("conversations.replies", "missing_scope", times=None))
    row = sending_row(OutboundMessage(address=THREAD, text="hello"))
    assert await harness.channel.find_sent(row) is None
    assert harness.api.faults.hits(closed) == 1
    harness.api.faults.add(bad_gateway("chat.postMessage", times=None))
    with pytest.raises(ServerTrouble):
        await harness.send(OutboundMessage(address=THREAD, text="hello"))
    with pytest.raises(SendUncertain):  # here it can be looked up
        await harness.send(OutboundMessage(address=PRIVATE, text="hello"))


def test_a_history_that_was_away_once_is_looked_into_again_later() -> None:
    clock = FakeClock()
    blindness = Blindness(clock)
    blindness.note(DM, could_look=False)
    assert blindness.holds(DM)
    clock.advance(3600)
    assert not blindness.holds(DM)
    blindness.note(DM, could_look=False)
    blindness.note(DM, could_look=True)
    assert not blindness.holds(DM)
