"""What is done with each thing Slack tells: committed, acknowledged once and in time, and what comes after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SystemClock
from bot.errors import QueueFull, StoreUnavailable
from bot.interfaces import ChannelState, MenuCommand
from bot.messages import Address, Button, ChatType, InboundMessage, OutboundMessage
from channels.config import GroupPolicies
from channels.slack.content import Identity
from channels.slack.events import Reader
from channels.slack.positions import Positions
from channels.slack.receiving import Errands, Receiver
from channels.slack.threads import Threads
from tests.channels.harness_slack import (
    ADA,
    DM,
    PRIVATE,
    QUICK,
    ROOT,
    TEAM,
    THREAD,
    SlackHarness,
    built,
    running,
    served,
)
from tests.platforms.slack_faults import Fault, too_many_requests
from tests.platforms.slack_objects import BOT_ID, BOT_USER_ID, Conversation, Kind
from tests.support.recording_intake import MemoryCursors, RecordingIntake

YES_NO = ((Button(label="Yes", data="yes please"), Button(label="No", data="no thanks")),)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SlackHarness]:
    async with served(tmp_path) as made:
        yield made
        assert made.api.socket.violations == []


@pytest.fixture
async def live(harness: SlackHarness) -> AsyncIterator[SlackHarness]:
    async with running(harness):
        yield harness


# --- acknowledging


async def test_a_mention_that_comes_as_two_events_is_one_message(live: SlackHarness) -> None:
    """C038."""
    live.api.user_says(TEAM, live.api.mention("hello"), files=[("a.txt", b"x")])
    await live.until_confirmed()
    assert live.intake.texts == ["hello"]
    (copy,) = live.intake.duplicates
    assert copy == live.intake.messages[0]


@pytest.mark.parametrize("failure", [StoreUnavailable("disk full"), QueueFull("10000 wait")])
async def test_what_is_not_committed_is_not_acknowledged_and_comes_again_in_order(
    live: SlackHarness, failure: Exception
) -> None:
    live.api.socket.ack_limit_s = 0.2
    live.intake.failures.append(failure)
    first = live.person_says(PRIVATE, "one")
    await live.intake.wait_for(lambda: not live.intake.failures)
    assert not live.api.is_acknowledged(first)
    live.person_says(PRIVATE, "two")
    await live.intake.wait_for_texts("one", "two")
    await live.until_confirmed()
    assert live.channel.state is ChannelState.READY


async def test_a_failed_commit_is_never_acknowledged(live: SlackHarness) -> None:
    live.api.socket.retries_s = ()
    live.intake.failures.append(StoreUnavailable("disk full"))
    live.person_says(PRIVATE, "keep me")
    (envelope,) = live.api.socket.envelopes
    await live.intake.wait_for_texts("keep me")  # out of the history
    live.person_says(PRIVATE, "next")
    await live.api.wait_for(lambda: live.api.socket.envelopes[-1].acknowledged)
    assert not envelope.acknowledged


async def test_a_commit_that_takes_too_long_is_not_acknowledged(harness: SlackHarness) -> None:
    """C038: Slack sends again, and gets its acknowledgement then."""
    harness.replace_channel(built(harness, replace(QUICK, ack_s=0.0)))
    harness.api.socket.retries_s = ()
    harness.start()
    await harness.until(ChannelState.READY)
    ts = harness.person_says(PRIVATE, "slow")
    await harness.intake.wait_for_texts("slow")
    await harness.intake.wait_for(lambda: harness.intake.zones)
    assert not harness.api.is_acknowledged(ts)


async def test_an_event_nobody_can_read_is_kept_and_acknowledged(live: SlackHarness) -> None:
    files: Any = [{"id": "F1", "name": ["no", "name"], "mimetype": {}, "size": "big"}]
    live.api.push_raw({"type": "message", "channel": DM, "user": ADA, "ts": ["?"], "text": "x", "files": files})
    live.api.push_raw({"type": "message", "channel": 5, "ts": None})
    live.api.push_raw({"type": "star_added"})
    live.person_says(PRIVATE, "next")
    await live.intake.wait_for(lambda: "next" in live.intake.texts)
    await live.until_confirmed()
    assert [(kept.channel, kept.account) for kept in live.intake.unparsed] == [("slack", BOT_USER_ID)]
    assert '"channel":5' in live.intake.unparsed[0].raw


async def test_an_edit_is_an_edit_and_a_preview_or_a_deletion_is_not(live: SlackHarness) -> None:
    ts = live.person_says(PRIVATE, "at nin")
    live.api.edit(DM, ts, "at nine")
    await live.intake.wait_for(lambda: live.intake.texts == ["at nine"])
    live.intake.messages.clear()
    live.api.edit(DM, ts, "at ten")
    await live.intake.wait_for(lambda: live.intake.late_edits)
    live.api.delete(DM, ts)
    live.person_says(PRIVATE, "next")
    await live.intake.wait_for_texts("next")
    assert len(live.intake.late_edits) == 1


async def test_our_own_words_and_those_of_other_bots_are_not_handled(live: SlackHarness) -> None:
    """C037."""
    await live.send(OutboundMessage(address=THREAD, text="<@U0LOOP00001> echo"))
    live.api.other_bot_says(TEAM, "beep")
    live.api.other_bot_says(TEAM, live.api.mention("beep"))
    live.api.push_raw(
        {"type": "message", "channel": DM, "user": BOT_USER_ID, "bot_id": BOT_ID, "ts": "1.2", "text": "x"}
    )
    live.person_says(PRIVATE, "next")
    await live.intake.wait_for_texts("beep", "next")
    assert [message.meta for message in live.intake.messages] == [{"from_bot": True}, {}]


# --- threads


async def test_a_reply_below_our_message_needs_no_mention_and_one_below_a_persons_does(live: SlackHarness) -> None:
    """C040."""
    progress = await live.send(OutboundMessage(address=Address(channel="slack", chat_id=TEAM), text="Pay rent"))
    theirs = live.api.user_says(TEAM, "lunch?")
    live.api.user_says(TEAM, "yes", thread_ts=theirs)
    live.api.user_says(TEAM, "done, ask again tomorrow", thread_ts=progress.sent_ids[0])
    await live.intake.wait_for_texts("done, ask again tomorrow")
    (message,) = live.intake.messages
    assert message.address.thread_id == progress.sent_ids[0]
    assert message.quote is not None
    assert (message.quote.message_id, message.quote.author) == (progress.sent_ids[0], "bot")
    (earlier,) = await live.channel.earlier(message)
    assert (earlier.author, earlier.text) == ("bot", "Pay rent")


async def test_a_talk_in_a_thread_goes_on_without_mentions_also_after_a_restart(live: SlackHarness) -> None:
    root = live.api.user_says(TEAM, live.api.mention("question"))
    await live.intake.wait_for_texts("question")
    answer = Address(channel="slack", chat_id=TEAM, thread_id=root)
    assert live.intake.messages[0].address == answer
    await live.send(OutboundMessage(address=answer, text="answer"))
    live.api.user_says(TEAM, "and then?", thread_ts=root)
    await live.intake.wait_for_texts("question", "and then?")
    await live.stop()
    live.replace_channel(live.build())
    live.start()
    await live.until(ChannelState.READY)
    live.api.user_says(TEAM, "go on", thread_ts=root)
    await live.intake.wait_for_texts("question", "and then?", "go on")


async def test_a_thread_with_the_assistant_is_a_talk_of_its_own(live: SlackHarness) -> None:
    root = live.api.open_assistant()
    live.api.user_says(DM, "hello", thread_ts=root)
    await live.intake.wait_for_texts("hello")
    (message,) = live.intake.messages
    assert message.address == Address(channel="slack", chat_id=DM, thread_id=root)
    assert message.chat_type is ChatType.PRIVATE
    await live.channel.typing(message.address)
    assert live.api.status(DM, root) != ""


# --- after the commit


async def test_the_profiles_time_zone_comes_after_the_acknowledgement_and_is_asked_for_once(live: SlackHarness) -> None:
    held = asyncio.Event()
    live.api.faults.add(Fault(method="users.info", hold=held))
    live.person_says(PRIVATE, "one")
    live.person_says(PRIVATE, "two")
    await live.until_confirmed()
    assert live.intake.zones == {}
    held.set()
    await live.intake.wait_for(lambda: live.intake.zones)
    assert live.intake.zones == {("slack", ADA): "Europe/Berlin"}
    live.person_says(PRIVATE, "three")
    await live.intake.wait_for_texts("one", "two", "three")
    assert live.intake.messages[2].sender_name == "ada"
    live.intake.zones.clear()
    live.person_says(PRIVATE, "four")
    live.api.user_says("D0BEN000001", "hello", user_id="U0BEN000001")
    await live.intake.wait_for(lambda: live.intake.zones)
    assert list(live.intake.zones) == [("slack", "U0BEN000001")]
    assert len(live.api.calls("users.info")) == 2


async def test_nothing_is_asked_about_strangers_or_kept_of_them(live: SlackHarness) -> None:
    live.intake.refused_senders.add("U0EVE000001")
    live.api.user_says("D0EVE000001", "hello", user_id="U0EVE000001")
    live.api.user_says(TEAM, live.api.mention("hello"), user_id="U0EVE000001")
    live.person_says(PRIVATE, "hello")
    await live.intake.wait_for(lambda: live.intake.zones)
    await live.stop()  # what is kept is written now
    assert any(":dm:" in name for name in live.cursors.values)
    assert not any(":thread:" in name or ":dm:U0EVE" in name for name in live.cursors.values)
    assert [call.params["user"] for call in live.api.calls("users.info")] == [ADA]


async def test_a_person_can_be_written_to_in_private_once_they_wrote(live: SlackHarness) -> None:
    assert live.channel.private_address(ADA) is None
    live.person_says(PRIVATE, "hello")
    await live.intake.wait_for_texts("hello")
    assert live.channel.private_address(ADA) == PRIVATE
    await live.stop()
    live.replace_channel(live.build())
    live.start()
    await live.until(ChannelState.READY)
    assert live.channel.private_address(ADA) == PRIVATE


async def test_a_channel_that_closes_and_opens_again_is_told(live: SlackHarness) -> None:
    """C036."""
    live.api.push_raw({"type": "channel_left", "channel": TEAM, "event_ts": "1.0"})
    live.api.push_raw({"type": "member_left_channel", "channel": TEAM, "user": ADA, "event_ts": "1.1"})
    live.api.push_raw({"type": "group_archive", "channel": "G0OLD", "user": ADA, "event_ts": "1.2"})
    live.api.join(TEAM, ADA)
    live.api.join(TEAM)
    await live.intake.wait_for(lambda: live.intake.reopened)
    assert [address.chat_id for address, _ in live.intake.closed] == [TEAM, "G0OLD"]
    assert [address.chat_id for address in live.intake.reopened] == [TEAM]


async def test_a_reaction_to_our_message_is_heard(live: SlackHarness) -> None:
    progress = await live.send(OutboundMessage(address=PRIVATE, text="done"))
    ts = live.person_says(PRIVATE, "thanks")
    live.api.react(DM, ts, "heart")
    live.api.react(DM, progress.sent_ids[0], "+1")
    (reaction,) = await live.intake.wait_for(lambda: list(live.intake.reactions))
    assert (reaction.message_id, reaction.emoji, reaction.sender_id) == (progress.sent_ids[0], "👍", ADA)


# --- buttons


async def test_a_press_is_committed_then_acknowledged_and_shown(live: SlackHarness) -> None:
    progress = await live.send(OutboundMessage(address=THREAD, text="**Shall** I?", buttons=YES_NO))
    live.intake.button_labels = ["Yes", "No"]
    envelope = live.api.press(TEAM, progress.sent_ids[0], "No")
    await live.api.wait_for(lambda: envelope.acknowledged)
    (press,) = live.intake.presses
    assert (press.outbox_id, press.index, press.chat_id, press.sender_id) == (1, 1, TEAM, ADA)
    assert press.chat_type is ChatType.GROUP
    await live.api.wait_for(lambda: live.shown(THREAD)[0].buttons == ("✓ No",))
    assert (live.shown(THREAD)[0].text, live.shown(THREAD)[0].bold) == ("Shall I?", ("Shall",))


async def test_who_presses_late_is_told_for_themselves(live: SlackHarness) -> None:
    progress = await live.send(OutboundMessage(address=THREAD, text="Shall I?", buttons=YES_NO))
    live.intake.button_labels = ["Yes", "No"]
    live.api.faults.add(Fault(method="chat.update", error="ratelimited"))
    live.api.press(TEAM, progress.sent_ids[0], "No")
    live.api.press(TEAM, progress.sent_ids[0], "Yes")
    await live.api.wait_for(lambda: live.api.ephemerals)
    (told,) = live.api.ephemerals
    assert (told.user, told.thread_ts) == (ADA, ROOT)
    assert "No" in told.text
    assert len(live.intake.presses) == 1
    await live.api.wait_for(lambda: live.shown(THREAD)[0].buttons == ("✓ No",))  # mended by the second press


@pytest.mark.parametrize("value", ["b99.0", "rm -rf /", "b1.99"])
async def test_a_button_that_is_none_of_ours_is_harmless_and_told(live: SlackHarness, value: str) -> None:
    progress = await live.send(OutboundMessage(address=PRIVATE, text="Shall I?", buttons=YES_NO))
    forged = {"type": "button", "action_id": "x", "value": value, "text": {"type": "plain_text", "text": "?"}}
    message = live.api.world.conversations[DM].messages[progress.sent_ids[0]]
    blocks = message["blocks"]
    message["blocks"] = [*blocks, {"type": "actions", "block_id": "forged", "elements": [forged]}]
    envelope = live.api.press(DM, progress.sent_ids[0], value)
    message["blocks"] = blocks
    await live.api.wait_for(lambda: envelope.acknowledged and live.api.ephemerals)
    assert live.intake.presses == []
    assert live.shown(PRIVATE)[0].buttons == ("Yes", "No")


async def test_a_press_that_cannot_be_committed_is_not_acknowledged(live: SlackHarness) -> None:
    progress = await live.send(OutboundMessage(address=PRIVATE, text="Shall I?", buttons=YES_NO))
    live.api.socket.ack_limit_s = 0.2
    live.intake.failures.append(StoreUnavailable("disk full"))
    envelope = live.api.press(DM, progress.sent_ids[0], "No")
    await live.api.wait_for(lambda: envelope.lost)
    assert not envelope.acknowledged


async def test_a_press_is_shown_although_slack_wants_a_pause(live: SlackHarness) -> None:
    progress = await live.send(OutboundMessage(address=PRIVATE, text="Shall I?", buttons=YES_NO))
    live.intake.button_labels = ["Yes", "No"]
    live.api.faults.add(too_many_requests("chat.update", 1))
    live.api.press(DM, progress.sent_ids[0], "No")
    await live.api.wait_for(lambda: live.shown(PRIVATE)[0].buttons == ("✓ No",))


@pytest.mark.parametrize("actions", [[None], ["x"], {"a": 1}, 7])
async def test_a_press_of_another_shape_is_kept_without_its_secrets_and_does_not_come_again(
    live: SlackHarness, actions: object
) -> None:
    secrets = {"token": "verify-me", "response_url": "https://hooks.slack.com/actions/secret", "trigger_id": "1.secret"}
    body = {"type": "block_actions", "team": {"id": "T1"}, "actions": actions, **secrets}
    envelope = live.api.socket.publish("interactive", body)
    await live.api.wait_for(lambda: envelope.acknowledged)
    (kept,) = live.intake.unparsed
    assert "block_actions" in kept.raw
    assert not [value for value in secrets.values() if value in kept.raw]


# --- commands


async def test_slash_commands_become_commands_or_messages_and_are_acknowledged(harness: SlackHarness) -> None:
    menu = (MenuCommand(name="remind", description="set a reminder"), MenuCommand(name="help", description="help"))
    harness.replace_channel(built(harness, QUICK, menu=menu))
    harness.start()
    await harness.until(ChannelState.READY)
    first = harness.api.command(DM, "/dutiful", "remind in 10 minutes tea")
    second = harness.api.command(TEAM, "/remind", "in 10 minutes tea")
    harness.api.command(DM, "/dutiful", "how are you?")
    texts = ["/remind in 10 minutes tea", "/remind in 10 minutes tea", "how are you?"]
    await harness.intake.wait_for_texts(*texts)
    await harness.api.wait_for(lambda: first.acknowledged and second.acknowledged)
    assert [message.address.chat_id for message in harness.intake.messages] == [DM, TEAM, DM]
    assert len({message.message_id for message in harness.intake.messages}) == 3


@pytest.mark.parametrize("kind", [Kind.IM, Kind.CHANNEL, Kind.GROUP])
async def test_a_command_from_where_we_are_not_is_answered_with_a_word_to_its_author(
    live: SlackHarness, kind: Kind
) -> None:
    live.person_says(PRIVATE, "hello")
    await live.intake.wait_for_texts("hello")
    elsewhere = "D0OTHERS001" if kind is Kind.IM else "C0OTHERS001"
    live.api.world.add_conversation(Conversation(id=elsewhere, kind=kind, members={ADA}))
    live.api.command(elsewhere, "/dutiful", "help me")
    await live.api.wait_for(lambda: live.api.ephemerals)
    (told,) = live.api.ephemerals
    assert (told.channel, told.user) == (elsewhere, ADA)
    assert "not in this conversation" in told.text
    assert live.channel.private_address(ADA) == PRIVATE
    live.api.command(DM, "/dutiful", "help me")
    live.api.command(TEAM, "/dutiful", "help me")
    await live.api.wait_for(lambda: len(live.api.calls("conversations.info")) == 3)
    assert len(live.api.ephemerals) == 1


async def test_a_command_is_committed_before_it_is_acknowledged(live: SlackHarness) -> None:
    known: list[bool] = []

    def look(message: InboundMessage) -> None:
        known.append(live.api.socket.envelopes[-1].acknowledged)

    live.intake.before_commit = look
    envelope = live.api.command(DM, "/dutiful", "help me")
    await live.api.wait_for(lambda: envelope.acknowledged)
    assert known == [False]


async def test_a_message_of_the_history_that_nobody_can_read_is_kept_and_stops_nothing() -> None:
    intake = RecordingIntake()
    threads = Threads()

    def names(user_id: str) -> str:
        raise ValueError(user_id)

    async def nothing(*ignored: object) -> None:
        del ignored

    me = Identity(user_id=BOT_USER_ID, bot_id=BOT_ID, team_id="T1")
    clock = SystemClock()
    receiver = Receiver(
        reader=Reader(me=me, policies=GroupPolicies(), names=names, in_talk=lambda event: False),
        intake=intake,
        positions=Positions(MemoryCursors(clock), clock, threads, account=me.account, flush_s=1.0),
        threads=threads,
        errands=Errands(),
        menu=tuple,
        learn=nothing,
        show_outcome=nothing,
        check_place=nothing,
    )
    await receiver.missed({"channel": DM, "ts": "1.0", "user": ADA, "text": "hello"})
    (kept,) = intake.unparsed
    assert (kept.error, '"hello"' in kept.raw) == (f"ValueError: {ADA}", True)
