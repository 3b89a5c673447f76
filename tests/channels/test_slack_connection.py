"""The connection: tokens checked at the start, renewed in time, given up when silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from slack_bolt.request.async_request import AsyncBoltRequest

from bot.errors import ChannelAuthError, StoreUnavailable
from bot.interfaces import ChannelState
from channels.slack.content import Identity
from channels.slack.dispatch import build_app
from tests.channels.harness_slack import PRIVATE, QUICK, SlackHarness, running, served
from tests.platforms.slack_faults import Fault, refused, too_many_requests


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
