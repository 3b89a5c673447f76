"""What comes in from Discord: in order, committed, and nothing missed in a gap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import ChannelAuthError, ChatGone, QueueFull, StoreUnavailable
from bot.interfaces import ChannelState
from bot.messages import Address, ChatType, OutboundMessage
from tests.channels.harness_discord import (
    CHANNEL,
    DM,
    GUILD,
    IN_CHANNEL,
    IN_THREAD,
    PRIVATE,
    THREAD,
    DiscordHarness,
    position_name,
    running,
    served,
)
from tests.platforms.discord_faults import Fault, bad_gateway, rate_limited
from tests.platforms.discord_gateway import Close
from tests.platforms.discord_objects import Intent, Route
from tests.platforms.discord_world import Event


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as made:
        yield made


@pytest.fixture
async def live(harness: DiscordHarness) -> AsyncIterator[DiscordHarness]:
    async with running(harness) as up:
        yield up


async def restart(harness: DiscordHarness) -> None:
    """Stop the channel and start another one with the same cursors, as a new process would."""
    await harness.stop()
    harness.replace_channel(harness.build())
    harness.start()
    await harness.until(ChannelState.READY)


# --- positions


async def test_a_position_moves_only_after_the_commit(live: DiscordHarness) -> None:
    seen: list[int] = []
    live.intake.before_commit = lambda message: seen.append(live.position(DM))
    first = int(live.person_says(PRIVATE, "one"))
    await live.until_confirmed()
    live.person_says(PRIVATE, "two")
    await live.until_confirmed()
    assert seen[0] < first
    assert seen[1] == first


async def test_a_first_message_is_found_again_if_we_die_before_its_commit(live: DiscordHarness) -> None:
    """C028: the channel has a position before anything is handed on."""
    said: list[int] = []
    live.intake.before_commit = lambda message: said.append(live.position(THREAD))
    message_id = int(live.person_says(IN_THREAD, "hello"))
    await live.until_confirmed()
    assert said == [message_id - 1]
    live.intake.messages.clear()  # as if the commit had not happened
    live.cursors.values[position_name(THREAD)] = (f"{said[0]} {GUILD} {CHANNEL}", 0)
    await restart(live)
    await live.intake.wait_for_texts("hello")
    assert live.intake.messages[0].address == IN_THREAD


@pytest.mark.parametrize("failure", [StoreUnavailable("disk full"), QueueFull("10000 wait")])
async def test_what_cannot_be_stored_holds_up_its_own_channel_only(live: DiscordHarness, failure: Exception) -> None:
    live.intake.failures.extend([failure] * 3)
    live.person_says(PRIVATE, "one")
    live.person_says(PRIVATE, "two")
    await live.intake.wait_for_texts("one", "two")


async def test_a_position_that_cannot_be_written_means_that_the_message_is_committed_once_more(
    live: DiscordHarness,
) -> None:
    live.person_says(PRIVATE, "first")  # behind the look for what was missed, which writes a position as well
    await live.until_confirmed()
    live.cursors.failures.append(StoreUnavailable("disk full"))
    live.person_says(PRIVATE, "once")
    await live.until_confirmed()
    assert live.intake.texts == ["first", "once"]
    assert len(live.intake.duplicates) == 1


# --- gaps


async def test_a_resumed_connection_brings_everything_without_asking(live: DiscordHarness) -> None:
    live.person_says(PRIVATE, "before")
    await live.until_confirmed()
    asked = len(live.api.calls(Route.GET_MESSAGES))
    live.api.gateway.drop()
    live.person_says(PRIVATE, "meanwhile")
    await live.intake.wait_for_texts("before", "meanwhile")
    assert len(live.api.gateway.resumes) == 1
    assert len(live.api.calls(Route.GET_MESSAGES)) == asked


async def test_a_session_that_cannot_be_resumed_is_made_up_for_from_the_history(live: DiscordHarness) -> None:
    """C031"""
    live.person_says(PRIVATE, "before")
    live.person_says(IN_THREAD, "in the thread")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 2)
    await live.until_confirmed()
    live.api.gateway.forget_sessions()
    live.api.gateway.drop()
    live.person_says(PRIVATE, "missed")
    live.person_says(IN_THREAD, "missed too")
    live.api.user_says(CHANNEL, "not for us")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 4)
    await live.until(ChannelState.READY)
    live.person_says(PRIVATE, "after")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 5)
    private = [message.text for message in live.intake.messages if message.chat_type is ChatType.PRIVATE]
    assert private == ["before", "missed", "after"]
    assert live.intake.messages[-2].address.chat_id in {str(DM), str(CHANNEL)}


async def test_more_than_a_page_is_read_in_order(harness: DiscordHarness) -> None:
    texts = [f"line {number}" for number in range(230)]
    for text in texts:
        harness.person_says(PRIVATE, text)
    harness.start()
    await harness.intake.wait_for_texts(*texts)
    assert len(harness.api.calls(Route.GET_MESSAGES)) == 3
    await harness.until_confirmed()


async def test_what_is_said_live_waits_for_the_history_before_it(harness: DiscordHarness) -> None:
    held = asyncio.Event()
    harness.api.faults.add(Fault(route=Route.GET_MESSAGES, hold=held))
    harness.person_says(PRIVATE, "earlier")
    harness.start()
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "live")
    harness.person_says(IN_CHANNEL, "elsewhere")
    await harness.intake.wait_for_texts("elsewhere")
    held.set()
    await harness.intake.wait_for_texts("elsewhere", "earlier", "live")


async def test_a_history_that_cannot_be_read_yet_is_asked_for_again(harness: DiscordHarness) -> None:
    harness.api.faults.add(bad_gateway(Route.GET_MESSAGES, times=2))
    harness.api.faults.add(rate_limited(Route.GET_MESSAGES, 0.05))
    harness.api.faults.add(Fault(route=Route.GET_MESSAGES, garbage=b"<html>"))
    harness.person_says(PRIVATE, "missed")
    harness.start()
    await harness.intake.wait_for_texts("missed")


async def test_a_history_closed_to_us_is_given_up_and_the_channel_goes_on(harness: DiscordHarness) -> None:
    harness.api.faults.add(Fault(route=Route.GET_MESSAGES, status=403, code=50001, message="Missing Access"))
    harness.person_says(PRIVATE, "lost")
    harness.start()
    await harness.until(ChannelState.READY)
    await harness.api.wait_for(lambda: harness.api.calls(Route.GET_MESSAGES))
    harness.person_says(PRIVATE, "live")
    await harness.intake.wait_for_texts("live")


async def test_a_mention_in_a_channel_the_bot_never_spoke_in_is_found_after_a_gap(live: DiscordHarness) -> None:
    live.person_says(PRIVATE, "hello")
    await live.until_confirmed()
    await live.stop()
    live.person_says(IN_CHANNEL, "are you there?")
    live.api.add_thread(1043, CHANNEL)
    live.person_says(Address(channel="discord", chat_id=str(CHANNEL), thread_id="1043"), "and here?")
    live.replace_channel(live.build())
    live.start()
    await live.intake.wait_for(lambda: len(live.intake.messages) == 3)
    assert {message.text for message in live.intake.messages} == {"hello", "are you there?", "and here?"}


async def test_what_was_said_before_the_bot_was_let_in_is_not_read(live: DiscordHarness) -> None:
    live.api.add_channel(2010, 2001)
    live.person_says(PRIVATE, "hello")
    await live.until_confirmed()
    await restart(live)
    live.api.kick(2001)
    live.api.user_says(2010, live.api.mention("old talk"))
    live.api.admit(2001)
    live.api.user_says(2010, live.api.mention("welcome"))
    await live.intake.wait_for_texts("hello", "welcome")
    assert 2010 not in {call.channel_id for call in live.api.calls(Route.GET_MESSAGES)}


async def test_a_channel_where_nothing_was_said_meanwhile_is_not_asked_about(live: DiscordHarness) -> None:
    live.person_says(IN_THREAD, "hello")
    await live.until_confirmed()
    await restart(live)
    live.person_says(IN_THREAD, "again")
    await live.until_confirmed()
    assert THREAD not in {call.channel_id for call in live.api.calls(Route.GET_MESSAGES)}


async def test_a_new_session_after_a_long_outage_needs_no_patience_of_the_sdk(live: DiscordHarness) -> None:
    """C032: what the SDK does not bring back in time is begun anew, with the history."""
    fault = live.api.faults.add(Fault(route=Route.GATEWAY, drop_before=True, times=None))
    live.person_says(PRIVATE, "before")
    await live.until_confirmed()
    live.api.gateway.forget_sessions()
    live.api.gateway.drop()
    await live.until(ChannelState.OFFLINE)
    live.person_says(PRIVATE, "meanwhile")
    await live.api.wait_for(lambda: len(live.api.calls(Route.GET_ME)) >= 2)
    live.api.faults.remove(fault)
    await live.intake.wait_for_texts("before", "meanwhile")
    await live.until(ChannelState.READY)


# --- what is not for us


async def test_own_messages_and_other_bots_are_not_handled(live: DiscordHarness) -> None:
    """C037"""
    live.api.user_says(CHANNEL, "I am a bot too", user_id=333, name="Other", is_bot=True)
    live.api.user_says(CHANNEL, live.api.mention("hello, bot"), user_id=333, name="Other", is_bot=True)
    await live.channel.typing(PRIVATE)
    await live.intake.wait_for_texts("hello, bot")
    assert live.intake.messages[0].meta == {"from_bot": True}


async def test_a_message_that_cannot_be_read_is_kept_and_blocks_nothing(live: DiscordHarness) -> None:
    live.api.user_says(DM, "odd", extra={"message_reference": "yesterday"})
    live.person_says(PRIVATE, "fine")
    await live.intake.wait_for_texts("fine")
    (kept,) = live.intake.unparsed
    assert (kept.channel, kept.account) == ("discord", str(live.api.bot_id))
    assert '"content": "odd"' in kept.raw


async def test_a_link_preview_is_no_edit_and_a_changed_text_is_one(live: DiscordHarness) -> None:
    number = live.api.user_says(DM, "see https://x.example")
    await live.intake.wait_for_texts("see https://x.example")
    channel = live.api.world.channels[DM]
    channel.messages[number]["embeds"] = [{"type": "link", "url": "https://x.example"}]
    live.api.world.publish_message("MESSAGE_UPDATE", channel, channel.messages[number])
    live.api.edit(DM, number, "see https://y.example")
    await live.intake.wait_for(lambda: live.intake.texts == ["see https://y.example"])
    live.api.world.publish_message("MESSAGE_UPDATE", channel, channel.messages[number])
    live.intake.messages.clear()
    live.person_says(PRIVATE, "next")
    await live.intake.wait_for_texts("next")
    assert live.intake.late_edits == []


# --- what goes away


async def test_a_deleted_thread_is_forgotten_and_its_channel_stays_open(live: DiscordHarness) -> None:
    live.person_says(IN_THREAD, "hello there")
    await live.until_confirmed()
    live.api.delete_channel(THREAD)
    await live.cursors.bell.wait_for(lambda: position_name(THREAD) not in live.cursors.values, timeout_s=5)
    assert live.intake.closed == []


async def test_a_deleted_channel_closes_its_chat_once_with_all_its_threads(live: DiscordHarness) -> None:
    live.person_says(IN_CHANNEL, "hello")
    live.person_says(IN_THREAD, "hello there")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 2)
    await live.until_confirmed()
    live.api.delete_channel(CHANNEL)
    await live.cursors.bell.wait_for(lambda: position_name(THREAD) not in live.cursors.values, timeout_s=5)
    assert live.intake.closed == [(IN_CHANNEL, "this channel was deleted")]


async def test_a_server_that_is_left_closes_its_chats_and_one_that_is_down_does_not(live: DiscordHarness) -> None:
    """C036"""
    live.person_says(IN_THREAD, "hello")
    await live.until_confirmed()
    world = live.api.world
    world.publish(Event(name="GUILD_DELETE", data={"id": str(GUILD), "unavailable": True}, intent=Intent.GUILDS))
    live.api.kick(GUILD)
    await live.intake.wait_for(lambda: live.intake.closed)
    assert live.intake.closed == [(IN_CHANNEL, "the bot was removed from this server")]
    live.api.admit(GUILD)
    live.intake.reopened.clear()
    live.person_says(IN_THREAD, "welcome back")
    await live.intake.wait_for(lambda: live.intake.reopened)
    assert live.intake.reopened == [IN_THREAD]


async def test_a_person_who_was_closed_to_us_is_open_again_once_they_write(live: DiscordHarness) -> None:
    live.person_says(PRIVATE, "hello")
    await live.intake.wait_for(lambda: live.intake.reopened == [PRIVATE])
    live.lock_out(PRIVATE)
    with pytest.raises(ChatGone):
        await live.send(OutboundMessage(address=PRIVATE, text="anybody?"))
    live.person_says(PRIVATE, "here I am")
    live.person_says(PRIVATE, "and again")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 3)
    assert live.intake.reopened == [PRIVATE, PRIVATE]


# --- private chats


async def test_a_person_can_be_written_to_once_they_have_written(live: DiscordHarness) -> None:
    assert live.channel.private_address("111") is None
    live.person_says(PRIVATE, "hello")
    await live.intake.wait_for_texts("hello")
    await live.cursors.bell.wait_for(lambda: live.channel.private_address("111"), timeout_s=5)
    await restart(live)
    assert live.channel.private_address("111") == PRIVATE
    assert live.channel.private_address("222") is None


async def test_a_stranger_leaves_no_address_behind(live: DiscordHarness) -> None:
    live.intake.refused_senders.add("111")
    live.person_says(PRIVATE, "hello")
    await live.until_confirmed()
    assert live.channel.private_address("111") is None


# --- intents and tokens


async def test_without_the_content_intent_the_bot_works_and_says_what_is_missing(harness: DiscordHarness) -> None:
    harness.api.disallow(Intent.MESSAGE_CONTENT)
    async with running(harness) as live:
        assert "Message Content Intent" in live.channel.problem
        assert "Developer Portal" in live.channel.problem
        live.person_says(PRIVATE, "in private")
        live.person_says(IN_CHANNEL, "mentioned")
        await live.intake.wait_for(lambda: len(live.intake.messages) == 2)
        assert Close.DISALLOWED_INTENTS not in live.api.gateway.closed


async def test_an_intent_that_is_switched_off_meanwhile_is_noticed_at_the_next_connection(
    live: DiscordHarness,
) -> None:
    live.api.disallow(Intent.MESSAGE_CONTENT)
    live.api.gateway.forget_sessions()
    live.api.gateway.drop()
    await live.until(ChannelState.OFFLINE)
    await live.until(ChannelState.READY)
    assert "Message Content Intent" in live.channel.problem
    assert Close.DISALLOWED_INTENTS in live.api.gateway.closed


async def test_no_privileged_intent_but_message_content_is_asked_for(live: DiscordHarness) -> None:
    (identify,) = live.api.gateway.identifies
    assert Intent(identify["intents"]) == (
        Intent.GUILDS | Intent.GUILD_MESSAGES | Intent.DIRECT_MESSAGES | Intent.MESSAGE_CONTENT
    )


async def test_a_token_that_is_taken_back_while_we_run_ends_the_channel(live: DiscordHarness) -> None:
    await live.api.gateway.close(Close.AUTHENTICATION_FAILED)
    with pytest.raises(ChannelAuthError, match="token"):
        await asyncio.wait_for(live.task, 10)
    assert live.channel.state is ChannelState.FAILED


async def test_the_age_of_the_last_heartbeat_is_known(live: DiscordHarness) -> None:
    age_s = live.channel.last_poll_age_s()
    assert age_s is not None
    assert 0 <= age_s < 10


async def test_a_server_that_is_not_discord_is_told_apart(harness: DiscordHarness) -> None:
    harness.api.faults.add(Fault(route=Route.GET_ME, garbage=b"<html>hello</html>", status=200, times=None))
    harness.start()
    await harness.until(ChannelState.OFFLINE)
    assert "api_url" in harness.channel.problem
