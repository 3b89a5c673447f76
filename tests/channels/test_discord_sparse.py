"""A Discord that says little: fields left out, calls that are not there, answers that do not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.errors import ChannelError
from bot.interfaces import ChannelState, Draft
from bot.messages import OutboundMessage
from channels.discord.client import GatewayClient
from channels.discord.config import Timing
from channels.discord.histories import first_of_gap
from channels.discord.leniency import parsed, whole_user
from channels.discord.positions import id_at
from tests.channels.harness_discord import CHANNEL, DM, GUILD, IN_CHANNEL, PRIVATE, QUICK, DiscordHarness, served
from tests.platforms.discord_faults import Fault, bad_gateway
from tests.platforms.discord_objects import Intent, Route

UNFAMILIAR = 5005  # a channel that the gateway never announced

ABSENT = [
    Fault(status=404),
    Fault(status=501, garbage=b"not implemented"),
    Fault(garbage=b""),
    Fault(garbage=b"{}"),
    Fault(garbage=b"[]"),
]
"""How servers answer what they do not have."""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as made:
        yield made


async def started(harness: DiscordHarness, timing: Timing = QUICK) -> DiscordHarness:
    """Start the channel with its waits, and wait until it is connected."""
    harness.timing = timing
    harness.replace_channel(harness.build())
    harness.start()
    await harness.until(ChannelState.READY)
    return harness


async def heard(harness: DiscordHarness, text: str) -> None:
    """Wait until a text is taken."""
    await harness.intake.wait_for(lambda: text in harness.intake.texts)


async def answered(harness: DiscordHarness, text: str) -> None:
    """Say something in private and have it answered."""
    harness.person_says(PRIVATE, text)
    await harness.intake.wait_for(lambda: text in harness.intake.texts)
    await harness.send(OutboundMessage(address=PRIVATE, text=f"answer to {text}"))
    assert harness.api.texts(DM)[-1] == f"answer to {text}"


# --- signing in


@pytest.mark.parametrize("fault", [*ABSENT, bad_gateway(), Fault(drop_before=True)])
async def test_the_bot_starts_where_its_application_cannot_be_asked_for(harness: DiscordHarness, fault: Fault) -> None:
    harness.api.faults.add(replace(fault, route=Route.GET_APPLICATION, times=None))
    await answered(await started(harness), "hello")


async def test_the_first_answer_does_not_wait_for_an_application_that_hangs(harness: DiscordHarness) -> None:
    never = asyncio.Event()
    harness.api.faults.add(Fault(route=Route.GET_APPLICATION, hold=never, times=None))
    await answered(await started(harness, replace(QUICK, application_s=0.05)), "hello")
    never.set()


async def test_an_intent_that_only_the_gateway_refuses_is_not_asked_for_again(harness: DiscordHarness) -> None:
    harness.api.faults.add(Fault(route=Route.GET_APPLICATION, status=404, times=None))
    harness.api.disallow(Intent.MESSAGE_CONTENT)
    await started(harness)
    asked = [bool(Intent.MESSAGE_CONTENT & int(one["intents"])) for one in harness.api.gateway.identifies]
    assert asked == [True, False]
    assert "Message Content Intent" in harness.channel.problem


async def test_json_is_read_whatever_its_content_type_adds(harness: DiscordHarness) -> None:
    harness.api.content_type = "application/json; charset=utf-8"
    await answered(await started(harness), "hello")
    draft_id = await harness.channel.show_draft(Draft(address=PRIVATE, text="Let me", key="turn-7"))
    del harness.api.world.channels[DM].messages[int(draft_id)]
    await harness.send(OutboundMessage(address=PRIVATE, text="anew", draft_id=draft_id))  # knows "Unknown Message"
    assert harness.api.texts(DM)[-1] == "anew"


# --- the gateway


@pytest.mark.parametrize(
    "unsaid", [{"resume_gateway_url"}, {"application"}, {"guilds"}, {"v", "session_type", "shard"}, {"user"}]
)
async def test_a_bare_ready_is_enough_and_can_be_resumed(harness: DiscordHarness, unsaid: set[str]) -> None:
    harness.api.gateway.unsaid = unsaid
    await started(harness)
    await answered(harness, "hello")
    count = harness.api.gateway.ready_count
    harness.api.gateway.drop()
    await harness.api.wait_for(lambda: harness.api.gateway.ready_count > count)
    await answered(harness, "again")
    assert len(harness.api.gateway.resumes) == 1


async def test_frames_that_make_no_sense_end_nothing(harness: DiscordHarness) -> None:
    client = GatewayClient(QUICK, content=True)
    assert parsed('{"a": 1}') == {"a": 1}
    assert parsed("{") == "{"
    assert parsed("<html>") == "<html>"
    assert whole_user({"id": "1"}) == {"id": "1", "username": "", "discriminator": "0", "avatar": None}
    for odd in ({"name": "ada"}, {"id": "ada"}, None, "ada"):
        with pytest.raises(ValueError, match="no user"):
            whole_user(odd)
    await client.close()


# --- places


@pytest.mark.parametrize("fault", [*ABSENT, bad_gateway(), Fault(drop_before=True)])
async def test_a_mention_in_a_channel_nobody_tells_of_is_answered_there(harness: DiscordHarness, fault: Fault) -> None:
    harness.api.add_channel(UNFAMILIAR, GUILD)
    harness.api.gateway.announces = False
    harness.api.faults.add(replace(fault, route=Route.GET_CHANNEL, times=None))
    await started(harness, replace(QUICK, place_s=0.2))
    for text in ("well?", "and now?"):
        harness.api.user_says(UNFAMILIAR, harness.api.mention(text))
        await heard(harness, text)
    assert {message.address.chat_id for message in harness.intake.messages} == {str(UNFAMILIAR)}
    assert harness.intake.unparsed == []


# --- histories


@pytest.mark.parametrize("fault", [bad_gateway(), Fault(garbage=b""), Fault(drop_before=True), Fault(delay_s=3600.0)])
async def test_a_history_that_is_never_readable_holds_new_messages_up_for_a_while_only(
    harness: DiscordHarness, fault: Fault
) -> None:
    await started(harness, replace(QUICK, overtake_s=0.1, overtake_again_s=0.1))
    await answered(harness, "before")
    unreadable = harness.api.faults.add(replace(fault, route=Route.GET_MESSAGES, times=None))
    async with harness.gap(resumable=False):
        harness.person_says(PRIVATE, "in the gap")
    await harness.until(ChannelState.READY)
    for text in ("newer", "newest"):
        harness.person_says(PRIVATE, text)
        await heard(harness, text)
    assert harness.intake.texts == ["before", "newer", "newest"]
    harness.api.faults.remove(unreadable)
    await harness.intake.wait_for(lambda: "in the gap" in harness.intake.texts)  # late, not lost
    assert harness.intake.texts == ["before", "newer", "newest", "in the gap"]


async def test_a_channel_whose_history_was_not_there_once_is_caught_up_the_next_time(harness: DiscordHarness) -> None:
    await started(harness)
    await answered(harness, "before")
    absent = harness.api.faults.add(Fault(route=Route.GET_MESSAGES, status=404, times=None))
    async with harness.gap(resumable=False):
        harness.person_says(PRIVATE, "nobody tells of this now")
    await harness.api.wait_for(lambda: harness.api.faults.hits(absent) > 0)
    harness.api.faults.remove(absent)
    async with harness.gap(resumable=False):
        harness.person_says(PRIVATE, "missed")
    await harness.intake.wait_for_texts("before", "nobody tells of this now", "missed")


def test_ids_that_are_not_made_of_time_are_read_from_where_they_are() -> None:
    now_us = SystemClock().now_us()
    assert first_of_gap(1234, now_us) == 1234
    week_ago = id_at(now_us - 7 * 86_400 * 1_000_000) - 1
    assert first_of_gap(id_at(0) + (1 << 50), now_us) == week_ago
    assert first_of_gap(week_ago + 5, now_us) == week_ago + 5


# --- messages


@pytest.mark.parametrize("timestamp", ["2026-11-30T12:00:00", "yesterday", "2026-11-30T12:00:00Z", None])
async def test_a_message_is_taken_whatever_it_says_of_its_time(harness: DiscordHarness, timestamp: str | None) -> None:
    await started(harness)
    harness.api.user_says(DM, "hello", extra={"timestamp": timestamp})
    await harness.intake.wait_for_texts("hello")


# --- drafts


@pytest.mark.parametrize("fault", [Fault(status=404), Fault(status=405, garbage=b"no"), Fault(status=403, code=50005)])
async def test_an_answer_whose_draft_cannot_be_edited_is_sent_anew(harness: DiscordHarness, fault: Fault) -> None:
    await started(harness)
    draft_id = await harness.channel.show_draft(Draft(address=IN_CHANNEL, text="Let me", key="turn-7"))
    harness.api.faults.add(replace(fault, route=Route.EDIT_MESSAGE, times=None))
    await harness.send(OutboundMessage(address=IN_CHANNEL, text="answer", draft_id=draft_id))
    assert harness.api.texts(CHANNEL) == ["answer"]


async def test_a_draft_whose_edits_always_break_down_keeps_its_answer_back_for_three_tries(
    harness: DiscordHarness,
) -> None:
    await started(harness)
    draft_id = await harness.channel.show_draft(Draft(address=PRIVATE, text="Let me", key="turn-7"))
    harness.api.faults.add(bad_gateway(Route.EDIT_MESSAGE, times=None))
    final = OutboundMessage(address=PRIVATE, text="answer", draft_id=draft_id)
    for _ in range(2):
        with pytest.raises(ChannelError):
            await harness.send(final)
    await harness.send(final)
    assert harness.api.texts(DM) == ["answer"]
