"""Catching up: what a gap swallowed comes from the histories, in order and before anything newer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.errors import StoreUnavailable
from bot.interfaces import ChannelState
from bot.messages import Address, OutboundMessage
from channels.slack.config import Timing
from channels.slack.positions import Positions
from channels.slack.threads import Threads
from tests.channels.harness_slack import DM, PRIVATE, QUICK, TEAM, THREAD, SlackHarness, built, running, served
from tests.platforms.slack_faults import Fault, refused, too_many_requests
from tests.support.recording_intake import MemoryCursors


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SlackHarness]:
    async with served(tmp_path) as made:
        yield made
        assert made.api.socket.violations == []


@pytest.fixture
async def live(harness: SlackHarness) -> AsyncIterator[SlackHarness]:
    async with running(harness):
        yield harness


async def lose(live: SlackHarness) -> Fault:
    """Drop the connection and what happens from now on; a new one is refused until the fault is removed."""
    live.api.socket.loses_events = True
    refusal = live.api.faults.add(Fault(method="socket", status=503, times=None))
    live.api.socket.drop()
    await live.until(ChannelState.OFFLINE)
    return refusal


async def test_what_a_gap_swallowed_is_read_from_the_histories_in_order(live: SlackHarness) -> None:
    live.person_says(PRIVATE, "before")
    root = live.api.user_says(TEAM, live.api.mention("question"))
    await live.intake.wait_for_texts("before", "question")
    await live.until_confirmed()
    await live.send(OutboundMessage(address=live.intake.messages[1].address, text="answer"))
    refusal = await lose(live)
    live.person_says(PRIVATE, "one")
    live.api.user_says(TEAM, "between people")
    live.api.user_says(TEAM, "and then?", thread_ts=root)
    fresh = live.api.user_says(TEAM, live.api.mention("another"))
    live.api.user_says(TEAM, live.api.mention("more on that"), thread_ts=fresh)
    live.api.user_says("D0BEN000001", "hello from Ben", user_id="U0BEN000001")
    live.person_says(PRIVATE, "two")
    live.api.faults.remove(refusal)
    await live.intake.wait_for(lambda: len(live.intake.messages) == 8)
    texts = live.intake.texts
    assert [text for text in texts if text in {"before", "one", "two"}] == ["before", "one", "two"]
    in_team = [message.text for message in live.intake.messages if message.address.chat_id == TEAM]
    assert in_team == ["question", "and then?", "another", "more on that"]
    assert "hello from Ben" in texts
    live.person_says(PRIVATE, "after")
    await live.intake.wait_for(lambda: live.intake.texts[-1] == "after")


async def test_what_came_after_a_gap_waits_for_what_came_in_it(live: SlackHarness) -> None:
    live.person_says(PRIVATE, "before")
    await live.intake.wait_for_texts("before")
    await live.until_confirmed()
    refusal = await lose(live)
    live.person_says(PRIVATE, "in the gap")
    live.api.socket.loses_events = False
    live.person_says(PRIVATE, "delivered at once")
    live.api.faults.remove(refusal)
    await live.intake.wait_for_texts("before", "in the gap", "delivered at once")


async def test_a_message_that_comes_both_ways_is_one(live: SlackHarness) -> None:
    """C029: redelivery and catching up meet in the identity."""
    live.person_says(PRIVATE, "before")
    await live.intake.wait_for_texts("before")
    refusal = await lose(live)
    live.api.user_says(TEAM, live.api.mention("look"), files=[("a.txt", b"x")])
    live.api.faults.remove(refusal)
    await live.intake.wait_for_texts("before", "look")
    live.redeliver()
    await live.until_confirmed()
    assert live.intake.texts == ["before", "look"]
    look = live.intake.messages[1]
    assert all(copy == look for copy in live.intake.duplicates if copy.message_id == look.message_id)


async def test_a_gap_over_a_restart_is_read_too(live: SlackHarness) -> None:
    live.person_says(PRIVATE, "before")
    await live.intake.wait_for_texts("before")
    await live.until_confirmed()
    await live.stop()
    live.api.socket.loses_events = True
    live.person_says(PRIVATE, "while it was down")
    live.replace_channel(live.build())
    live.start()
    await live.intake.wait_for_texts("before", "while it was down")


async def test_a_first_start_reads_no_old_messages(harness: SlackHarness) -> None:
    harness.api.socket.loses_events = True
    harness.person_says(PRIVATE, "from before there was a bot")
    harness.start()
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "hello")
    await harness.intake.wait_for_texts("hello")


async def test_catching_up_keeps_the_rate_limit_and_goes_on_after_it(live: SlackHarness) -> None:
    live.person_says(PRIVATE, "before")
    await live.intake.wait_for_texts("before")
    await live.until_confirmed()
    refusal = await lose(live)
    live.person_says(PRIVATE, "in the gap")
    live.api.faults.add(too_many_requests("conversations.history", 1))
    live.api.faults.remove(refusal)
    await live.intake.wait_for_texts("before", "in the gap")
    first, second, *_ = live.api.calls("conversations.history")
    assert second.at_monotonic - first.at_monotonic >= 1


@pytest.mark.parametrize("method", ["conversations.history", "users.conversations"])
async def test_what_comes_while_catching_up_has_to_wait_hides_nothing(live: SlackHarness, method: str) -> None:
    live.api.user_says(TEAM, live.api.mention("also before"))
    live.person_says(PRIVATE, "before")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 2)
    await live.until_confirmed()
    refusal = await lose(live)
    live.api.user_says(TEAM, live.api.mention("in the gap"))
    live.api.socket.loses_events = False
    limit = live.api.faults.add(too_many_requests(method, 1))  # the history's is met by the DM, the liveliest
    live.api.faults.remove(refusal)
    await live.api.wait_for(lambda: live.api.faults.hits(limit))
    await live.send(OutboundMessage(address=PRIVATE, text="a call later, the refusal has arrived"))
    live.api.user_says(TEAM, live.api.mention("newer"))
    await live.intake.wait_for(lambda: {"in the gap", "newer"} <= set(live.intake.texts))


async def hanging(harness: SlackHarness, timing: Timing, *, to: Address = PRIVATE) -> asyncio.Event:
    """Have a message missed and a history that hangs until the event is set; connected again."""
    harness.replace_channel(built(harness, timing))
    harness.start()
    await harness.until(ChannelState.READY)
    harness.person_says(to, "before")
    await harness.intake.wait_for_texts("before")
    await harness.until_confirmed()
    refusal = await lose(harness)
    harness.person_says(to, "in the gap")
    harness.api.socket.loses_events = False
    released = asyncio.Event()
    harness.api.faults.add(Fault(method="conversations.history", hold=released, times=None))
    harness.api.faults.remove(refusal)
    await harness.until(ChannelState.READY)
    return released


async def said_and_given_up(harness: SlackHarness, to: Address, *texts: str) -> None:
    """Say something, and wait until Slack got no acknowledgement of it and will not send it again."""
    harness.api.socket.retries_s = ()
    harness.api.socket.ack_limit_s = 0.5
    for text in texts:
        harness.person_says(to, text)
    said = harness.api.socket.envelopes[-len(texts) :]
    await harness.api.wait_for(lambda: all(envelope.lost for envelope in said))


@pytest.mark.parametrize("to", [PRIVATE, THREAD])
async def test_what_comes_while_a_history_hangs_waits_and_is_read_with_it(harness: SlackHarness, to: Address) -> None:
    released = await hanging(harness, replace(QUICK, gate_s=0.1), to=to)
    await said_and_given_up(harness, to, "newer", "newest")
    assert harness.intake.texts == ["before"]
    released.set()
    await harness.intake.wait_for_texts("before", "in the gap", "newer", "newest")


async def test_what_comes_after_the_history_was_read_and_has_to_wait_is_not_forgotten(harness: SlackHarness) -> None:
    """The page is on its way without the newer message; nothing sends that again."""
    released = await hanging(harness, replace(QUICK, gate_s=0.1))
    await said_and_given_up(harness, PRIVATE, "a root")
    root = harness.api.socket.envelopes[-1].ts
    reply = Address(channel="slack", chat_id=DM, thread_id=root)
    await said_and_given_up(harness, reply, "a reply")  # so that the thread is asked for, after the history
    held = asyncio.Event()
    replies = harness.api.faults.add(Fault(method="conversations.replies", hold=held, times=None))
    released.set()
    await harness.api.wait_for(lambda: harness.api.faults.hits(replies))
    await said_and_given_up(harness, PRIVATE, "newer")
    held.set()
    await harness.intake.wait_for(lambda: "newer" in harness.intake.texts)
    assert harness.intake.texts == ["before", "in the gap", "a root", "a reply", "newer"]


async def test_a_history_that_cannot_be_read_for_long_holds_up_nothing_any_more(harness: SlackHarness) -> None:
    released = await hanging(harness, replace(QUICK, gate_s=0.1, overtake_s=0.0))
    harness.person_says(PRIVATE, "newer")
    await harness.intake.wait_for_texts("before", "newer")
    released.set()
    await harness.intake.wait_for_texts("before", "newer", "in the gap")


async def test_a_gap_in_a_conversation_not_known_yet_comes_before_what_is_newer(live: SlackHarness) -> None:
    """Also while the list of conversations is refused for haste."""
    live.person_says(PRIVATE, "before")
    await live.intake.wait_for_texts("before")
    await live.until_confirmed()
    await live.api.wait_for(lambda: any(name.endswith(":alive") for name in live.cursors.values))
    refusal = await lose(live)
    live.api.user_says(TEAM, live.api.mention("in the gap"))
    live.api.socket.loses_events = False
    limit = live.api.faults.add(too_many_requests("users.conversations", 1))
    live.api.faults.remove(refusal)
    await live.api.wait_for(lambda: live.api.faults.hits(limit))
    await live.send(OutboundMessage(address=PRIVATE, text="a call later, the refusal has arrived"))
    live.api.user_says(TEAM, live.api.mention("newer"))
    await live.intake.wait_for_texts("before", "in the gap", "newer")


async def test_a_first_message_that_fails_is_made_good_even_before_anything_was_kept(harness: SlackHarness) -> None:
    harness.cursors.failures = [StoreUnavailable("disk full")] * 10_000
    harness.api.socket.retries_s = ()
    harness.start()
    await harness.until(ChannelState.READY)
    harness.intake.failures.append(StoreUnavailable("disk full"))
    harness.person_says(PRIVATE, "keep me")
    await harness.intake.wait_for_texts("keep me")


@pytest.mark.parametrize("known", [True, False])
async def test_a_commit_that_fails_for_good_is_made_good_from_the_history(live: SlackHarness, known: bool) -> None:
    before = ["before"] if known else []
    for text in before:
        live.person_says(PRIVATE, text)
    await live.intake.wait_for_texts(*before)
    live.api.socket.retries_s = ()  # Slack has given up
    live.intake.failures.append(StoreUnavailable("disk full"))
    live.person_says(PRIVATE, "keep me")
    await live.intake.wait_for_texts(*before, "keep me")


async def test_a_conversation_that_cannot_be_read_keeps_no_other_from_being_caught_up(live: SlackHarness) -> None:
    live.person_says(PRIVATE, "before")
    live.person_says(THREAD, "question")
    await live.intake.wait_for(lambda: len(live.intake.messages) == 2)
    await live.until_confirmed()
    refusal = await lose(live)
    live.person_says(PRIVATE, "in the gap")
    live.api.faults.add(refused("conversations.history", "not_in_channel", channel=TEAM, times=None))
    live.api.faults.remove(refusal)
    await live.intake.wait_for(lambda: "in the gap" in live.intake.texts)
    assert live.channel.state is ChannelState.READY
    assert DM in [call.channel for call in live.api.calls("conversations.history")]


async def test_many_threads_are_caught_up_although_slack_takes_few_calls_at_once(
    live: SlackHarness,
) -> None:
    roots = [live.api.user_says(TEAM, live.api.mention(f"question {number}")) for number in range(6)]
    await live.intake.wait_for(lambda: len(live.intake.messages) == len(roots))
    await live.until_confirmed()
    refusal = await lose(live)
    for root in roots:
        live.api.user_says(TEAM, "missed", thread_ts=root)
    limit = too_many_requests("conversations.replies", 0)
    for _ in range(len(roots)):  # two calls go through, the third does not, and so on
        live.api.faults.add(Fault(method="conversations.replies", times=2))
        live.api.faults.add(limit)
    live.api.faults.remove(refusal)
    await live.intake.wait_for(lambda: live.intake.texts.count("missed") == len(roots))
    asked = [str(call.params["ts"]) for call in live.api.calls("conversations.replies") if call.ok]
    assert sorted(asked) == sorted(roots)


async def test_a_thread_that_could_not_be_written_down_is_with_the_next_flush() -> None:
    clock, threads = SystemClock(), Threads()
    cursors = MemoryCursors(clock)
    positions = Positions(cursors, clock, threads, account="U0BOT", flush_s=1.0)
    threads.we_spoke(TEAM, "1.0", "1.5")
    threads.we_spoke(TEAM, "2.0", "2.5")
    cursors.failures.append(StoreUnavailable("disk full"))
    await positions.flush()
    assert cursors.values == {}
    await positions.flush()
    assert list(cursors.values) == [f"slack:U0BOT:thread:{TEAM}:1.0", f"slack:U0BOT:thread:{TEAM}:2.0"]
    cursors.written.clear()
    await positions.flush()
    assert cursors.written == []
