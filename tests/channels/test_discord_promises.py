"""What leniency towards a sparse or broken Discord must not cost: messages, rights, the right place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import ChannelError, SendRejected, SendUncertain
from bot.interfaces import ChannelState
from bot.messages import ChatType, OutboundMessage
from channels.config import GroupPolicies, GroupPolicy
from channels.discord.channel import DiscordChannel
from channels.discord.events import policy_at
from channels.discord.places import place_of
from channels.discord.positions import id_at
from tests.channels.harness_discord import CHANNEL, DM, GUILD, PRIVATE, QUICK, DiscordHarness, served
from tests.platforms.discord_api import BOT_ID
from tests.platforms.discord_faults import Fault, bad_gateway
from tests.platforms.discord_objects import Intent, Route
from tests.platforms.discord_world import Event

HIDDEN_CHANNEL, HIDDEN_THREAD = 5005, 5006  # the gateway never announces them
QUIET = 6006  # a channel in which the bot was never spoken to

PASSING = replace(QUICK, overtake_s=0.1, overtake_again_s=0.1, place_s=0.2)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as made:
        made.timing = PASSING
        made.replace_channel(made.build())
        yield made


async def started(harness: DiscordHarness) -> None:
    harness.start()
    await harness.until(ChannelState.READY)


async def heard(harness: DiscordHarness, text: str) -> None:
    await harness.intake.wait_for(lambda: text in harness.intake.texts)


async def restarted(harness: DiscordHarness) -> None:
    """End the channel and start it anew over what it stored."""
    await harness.stop()
    harness.replace_channel(harness.build())
    await started(harness)


def _newest(harness: DiscordHarness) -> int:
    """Return the newest message that is settled, wherever."""
    assert isinstance(harness.channel, DiscordChannel)
    positions = harness.channel._positions
    return 0 if positions is None else positions.newest


# --- gaps that are still to be read


@pytest.mark.parametrize("again", ["restart", "new session"])
async def test_a_gap_that_newer_messages_overtook_is_still_read_after(harness: DiscordHarness, again: str) -> None:
    await started(harness)
    harness.person_says(PRIVATE, "before")
    await heard(harness, "before")
    unreadable = harness.api.faults.add(bad_gateway(Route.GET_MESSAGES, times=None))
    async with harness.gap(resumable=False):
        harness.person_says(PRIVATE, "in the gap")
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "newer")
    await heard(harness, "newer")
    if again == "restart":
        await harness.stop()
        harness.api.faults.remove(unreadable)
        harness.replace_channel(harness.build())
        await started(harness)
    else:
        async with harness.gap(resumable=False):
            harness.api.faults.remove(unreadable)
    await heard(harness, "in the gap")
    assert sorted(harness.intake.texts) == ["before", "in the gap", "newer"]


async def test_a_gap_in_a_channel_without_a_position_is_still_read_after_a_restart(harness: DiscordHarness) -> None:
    """Elsewhere the reading goes on, and with it the mark that tells where such channels are read from."""
    harness.api.add_channel(QUIET, GUILD)
    await started(harness)
    harness.person_says(PRIVATE, "before")
    await heard(harness, "before")
    unreadable = harness.api.faults.add(bad_gateway(Route.GET_MESSAGES, times=None))
    unreadable_at = len(list(harness.api.calls(Route.GET_MESSAGES)))
    async with harness.gap(resumable=False):
        harness.api.user_says(QUIET, harness.api.mention("in the gap"))
    await harness.until(ChannelState.READY)
    await harness.api.wait_for(lambda: len(list(harness.api.calls(Route.GET_MESSAGES))) > unreadable_at)
    harness.person_says(PRIVATE, "newer")
    await heard(harness, "newer")
    await harness.stop()
    harness.api.faults.remove(unreadable)
    harness.replace_channel(harness.build())
    await started(harness)
    await heard(harness, "in the gap")
    await harness.until_confirmed()


async def test_a_position_follows_once_its_gap_is_read(harness: DiscordHarness) -> None:
    await started(harness)
    harness.person_says(PRIVATE, "before")
    await heard(harness, "before")
    unreadable = harness.api.faults.add(bad_gateway(Route.GET_MESSAGES, times=None))
    async with harness.gap(resumable=False):
        missed = int(harness.person_says(PRIVATE, "in the gap"))
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "newer")
    await heard(harness, "newer")
    assert harness.position(DM) < missed
    harness.api.faults.remove(unreadable)
    await heard(harness, "in the gap")
    await harness.until_confirmed()


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_gap_is_read_behind_the_short_outage_of_a_proxy(harness: DiscordHarness, status: int) -> None:
    await started(harness)
    harness.person_says(PRIVATE, "before")
    await heard(harness, "before")
    page = Fault(route=Route.GET_MESSAGES, status=status, garbage=b"<html>no such page</html>", times=None)
    outage = harness.api.faults.add(page)
    async with harness.gap(resumable=False):
        harness.person_says(PRIVATE, "in the gap")
    await harness.until(ChannelState.READY)
    await harness.api.wait_for(lambda: harness.api.faults.hits(outage) > 0)
    harness.person_says(PRIVATE, "newer")
    await heard(harness, "newer")
    harness.api.faults.remove(outage)
    await heard(harness, "in the gap")
    await harness.until_confirmed()


# --- answers behind a proxy


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_an_answer_outlasts_the_short_outage_of_a_proxy(harness: DiscordHarness, status: int) -> None:
    await started(harness)
    page = Fault(route=Route.CREATE_MESSAGE, status=status, garbage=b"<html>no such page</html>")
    harness.api.faults.add(page)
    with pytest.raises(ChannelError) as caught:
        await harness.send(OutboundMessage(address=PRIVATE, text="answer"))
    assert caught.value.retryable
    assert not isinstance(caught.value, SendRejected | SendUncertain)
    await harness.send(OutboundMessage(address=PRIVATE, text="answer"))
    assert harness.api.texts(DM) == ["answer"]


# --- places nobody tells of


async def test_a_place_nobody_tells_of_may_be_one_in_which_the_bot_is_off(harness: DiscordHarness) -> None:
    harness.api.add_channel(HIDDEN_CHANNEL, GUILD)
    harness.api.add_thread(HIDDEN_THREAD, HIDDEN_CHANNEL)
    harness.api.gateway.announces = False
    harness.api.faults.add(bad_gateway(Route.GET_CHANNEL, times=None))
    harness.replace_channel(harness.build(group_policy={"default": "all", str(HIDDEN_CHANNEL): "off"}))
    await started(harness)
    harness.api.user_says(HIDDEN_THREAD, harness.api.mention("psst"))
    last = harness.api.user_says(HIDDEN_THREAD, "all of you")
    await harness.until_true(lambda: _newest(harness) >= last)
    assert harness.intake.texts == []


async def test_a_place_nobody_tells_of_is_not_listened_to_for_more_than_mentions(harness: DiscordHarness) -> None:
    harness.api.add_channel(HIDDEN_CHANNEL, GUILD)
    harness.api.add_thread(HIDDEN_THREAD, HIDDEN_CHANNEL)
    harness.api.gateway.announces = False
    harness.api.faults.add(bad_gateway(Route.GET_CHANNEL, times=None))
    harness.replace_channel(harness.build(group_policy={"default": "all", str(HIDDEN_CHANNEL): "mention"}))
    await started(harness)
    harness.api.user_says(HIDDEN_THREAD, "between people")
    harness.api.user_says(HIDDEN_THREAD, harness.api.mention("and you?"))
    await heard(harness, "and you?")
    assert harness.intake.texts == ["and you?"]


async def test_what_was_said_in_a_server_is_never_private(harness: DiscordHarness) -> None:
    """Whatever is told of the channel: rights go by it."""
    harness.api.add_channel(HIDDEN_CHANNEL, GUILD)
    harness.api.gateway.announces = False
    harness.api.faults.add(
        Fault(route=Route.GET_CHANNEL, garbage=f'{{"id":"{HIDDEN_CHANNEL}","type":1}}'.encode(), times=None)
    )
    await started(harness)
    harness.api.user_says(HIDDEN_CHANNEL, harness.api.mention("who can read this?"))
    await heard(harness, "who can read this?")
    (message,) = harness.intake.messages
    assert message.chat_type is ChatType.GROUP


async def test_a_channel_of_a_server_is_known_where_its_messages_do_not_name_it(harness: DiscordHarness) -> None:
    await started(harness)
    said = {
        "id": str(id_at(harness.clock.now_us())),
        "channel_id": str(CHANNEL),
        "type": 0,
        "author": {"id": harness.person_id, "username": "ada"},
        "content": harness.api.mention("who can read this?"),
        "mentions": [{"id": str(BOT_ID)}],
    }
    harness.api.world.publish(Event(name="MESSAGE_CREATE", data=said, intent=Intent.GUILD_MESSAGES))
    await heard(harness, "who can read this?")
    (message,) = harness.intake.messages
    assert message.chat_type is ChatType.GROUP


def test_a_thread_that_does_not_name_its_channel_may_be_of_any() -> None:
    policies = GroupPolicies(default=GroupPolicy.ALL, chats={"10": GroupPolicy.OFF})
    thread = place_of({"id": "42", "type": 11}, "1")
    assert policy_at(policies, thread) is GroupPolicy.OFF
    assert policy_at(policies, place_of({"id": "42", "type": 11, "parent_id": "9"}, "1")) is GroupPolicy.ALL
    named = GroupPolicies(default=GroupPolicy.OFF, chats={"42": GroupPolicy.ALL, "10": GroupPolicy.OFF})
    assert policy_at(named, thread) is GroupPolicy.ALL
