"""The connection: tokens checked at the start, renewed in time, given up when silent, and what a gap swallowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slack_bolt.request.async_request import AsyncBoltRequest

from bot.clock import SystemClock
from bot.errors import ChannelAuthError, StoreUnavailable
from bot.interfaces import ChannelState
from bot.messages import Address, OutboundMessage
from channels.slack.config import Timing
from channels.slack.content import Identity
from channels.slack.dispatch import build_app
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


# --- the start


@pytest.mark.parametrize("code", ["invalid_auth", "token_revoked", "account_inactive", "not_allowed_token_type"])
@pytest.mark.parametrize(("method", "key"), [("auth.test", "bot_token"), ("apps.connections.open", "app_token")])
async def test_a_refused_token_ends_the_channel_and_is_named(
    harness: SlackHarness, method: str, key: str, code: str
) -> None:
    harness.api.faults.add(refused(method, code, times=None))
    with pytest.raises(ChannelAuthError, match=f"{code}.*{key}"):
        await asyncio.wait_for(harness.start(), 10)
    assert harness.channel.state is ChannelState.FAILED
    assert key in harness.channel.problem


async def test_a_missing_scope_is_named(harness: SlackHarness) -> None:
    harness.api.scopes.discard("chat:write")
    with pytest.raises(ChannelAuthError, match="lacks the scope chat:write"):
        await asyncio.wait_for(harness.start(), 10)


async def test_an_app_token_without_its_scope_is_told(harness: SlackHarness) -> None:
    harness.api.faults.add(refused("apps.connections.open", "missing_scope"))
    with pytest.raises(ChannelAuthError, match="app_token lacks the scope connections:write"):
        await asyncio.wait_for(harness.start(), 10)


async def test_scopes_the_bot_can_do_without_are_said_to_be_missing(
    harness: SlackHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.api.scopes.discard("files:read")
    harness.start()
    await harness.until(ChannelState.READY)
    captured = capsys.readouterr()
    assert "files that people send cannot be read" in captured.out + captured.err


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="auth.test", status=502, garbage=b"<html>", times=2),
        too_many_requests("apps.connections.open", 0, times=2),
        Fault(method="socket", drop_before=True, times=2),
        Fault(method="socket", status=404, times=2),
    ],
)
async def test_trouble_at_the_start_is_tried_again(harness: SlackHarness, fault: Fault) -> None:
    """C032."""
    harness.api.faults.add(fault)
    harness.start()
    await harness.until(ChannelState.READY)
    assert harness.api.faults.hits(fault) == 2


async def test_an_app_that_is_removed_while_it_runs_ends_the_channel(live: SlackHarness) -> None:
    live.api.token_error = "account_inactive"
    live.api.push_raw({"type": "app_uninstalled", "event_ts": "1.0"})
    with pytest.raises(ChannelAuthError):
        await asyncio.wait_for(asyncio.shield(live.task), 10)


# --- the connection


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_new_connection_stands_before_the_old_one_ends(live: SlackHarness, reason: str) -> None:
    states: list[ChannelState] = []
    live.channel.on_state_change(lambda: states.append(live.channel.state))
    live.api.socket.disconnect(reason)
    live.person_says(PRIVATE, "meanwhile")
    await live.intake.wait_for_texts("meanwhile")
    await live.api.wait_for(lambda: len(live.api.socket.connections) == 1)
    assert live.api.socket.connection_count == 2
    assert states == []
    assert live.api.calls("conversations.history") == []


async def test_what_an_old_connection_still_delivers_is_taken(live: SlackHarness) -> None:
    old = live.api.socket.connections[0]
    live.api.faults.add(Fault(method="socket", delay_s=0.05))
    live.api.socket.disconnect("refresh_requested")
    old.leaving = False
    live.person_says(PRIVATE, "last words")
    old.leaving = True
    await live.intake.wait_for_texts("last words")
    await live.until_confirmed()
    assert [len(envelope.deliveries) for envelope in live.api.socket.envelopes] == [1]


@pytest.mark.parametrize("how", ["drop", "close", "freeze"])
async def test_a_connection_that_is_gone_or_silent_is_replaced(live: SlackHarness, how: str) -> None:
    """C032."""
    getattr(live.api.socket, how)()
    await live.api.wait_for(lambda: live.api.socket.connection_count == 2)
    await live.until(ChannelState.READY)
    live.person_says(PRIVATE, "back")
    await live.intake.wait_for_texts("back")


async def test_the_age_of_the_last_sign_of_life_is_known(live: SlackHarness) -> None:
    age_s = live.channel.last_poll_age_s()
    assert age_s is not None
    assert 0 <= age_s < QUICK.heartbeat_s * 4


# --- the app, in process


class Recorder:
    """Listeners that note what comes; `failure` is raised instead."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.failure: Exception | None = None

    async def event(self, body: dict[str, Any]) -> None:
        await self._note(body["event"]["type"])

    async def press(self, body: dict[str, Any]) -> None:
        await self._note(body["actions"][0]["value"])

    async def command(self, body: dict[str, Any]) -> None:
        await self._note(body["command"])

    async def _note(self, what: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.heard.append(what)


BODIES: list[dict[str, Any]] = [
    {"type": "event_callback", "team_id": "T1", "event": {"type": "message", "user": "U1", "text": "x"}},
    {"type": "event_callback", "team_id": "T1", "event": {"type": "message", "subtype": "message_changed"}},
    {"type": "event_callback", "team_id": "T1", "event": {"type": "app_mention", "user": "U1", "text": "x"}},
    {"type": "block_actions", "team": {"id": "T1"}, "actions": [{"type": "button", "action_id": "a", "value": "v"}]},
    {"command": "/dutiful", "team_id": "T1", "text": "", "user_id": "U1"},
]


@pytest.mark.parametrize("body", BODIES)
async def test_the_app_answers_after_its_listener_and_never_when_that_failed(body: dict[str, Any]) -> None:
    recorder = Recorder()
    app = build_app(Identity(user_id="U0BOT", bot_id="B0BOT", team_id="T1"), recorder)
    done = await app.async_dispatch(AsyncBoltRequest(mode="socket_mode", body=body))
    assert done.status == 200
    assert len(recorder.heard) == 1
    recorder.failure = StoreUnavailable("disk full")
    failed = await app.async_dispatch(AsyncBoltRequest(mode="socket_mode", body=body))
    assert failed.status == 503


# --- gaps


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
