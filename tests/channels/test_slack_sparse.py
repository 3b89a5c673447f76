"""A Slack that says little: fields left out, methods that are not there, answers that do not come."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.errors import ChannelError, RateLimited, SendUncertain
from bot.interfaces import ChannelState, Draft
from bot.messages import OutboundMessage
from channels.slack.api import WebApi
from channels.slack.config import SlackConfig, Timing
from channels.slack.errors import Refused, ServerTrouble
from channels.slack.extras import Extras
from channels.slack.feedback import place_of_press
from tests.channels.harness_slack import DM, PRIVATE, QUICK, THREAD, SlackHarness, built, running, served
from tests.platforms.slack_faults import Fault, bad_gateway, refused
from tests.platforms.slack_objects import BOT_ID, BOT_USER_ID
from tests.support.clock import FakeClock
from tests.support.outbox_rows import sending_row

ABSENT = [
    Fault(error="unknown_method"),
    Fault(status=404, garbage=b"404: Not Found"),
    Fault(status=501, garbage=b"<html>"),
]
"""How servers answer what they do not have."""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SlackHarness]:
    async with served(tmp_path) as made:
        yield made


@pytest.fixture
async def live(harness: SlackHarness) -> AsyncIterator[SlackHarness]:
    async with running(harness):
        yield harness


def saying(**answer: Any) -> Fault:
    """Have auth.test answer no more than this."""
    return Fault(method="auth.test", garbage=json.dumps({"ok": True, **answer}).encode(), times=None)


async def test_the_bots_user_id_is_all_that_has_to_be_known(harness: SlackHarness) -> None:
    harness.api.faults.add(saying(user_id=BOT_USER_ID))
    harness.start()
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "hello")
    harness.bot_says(PRIVATE, "I am another bot", mentions=False)
    harness.person_says(PRIVATE, "still there?")
    await harness.intake.wait_for_texts("hello", "still there?")
    assert BOT_ID  # there is one, and nobody told it


@pytest.mark.parametrize("fault", ABSENT)
async def test_an_auth_test_that_is_not_there_is_no_refused_token(harness: SlackHarness, fault: Fault) -> None:
    absent = harness.api.faults.add(replace(fault, method="auth.test", times=None))
    harness.start()
    await harness.until(ChannelState.OFFLINE)
    harness.api.faults.remove(absent)
    await harness.until(ChannelState.READY)


@pytest.mark.parametrize("fault", [*ABSENT, bad_gateway(), Fault(drop_before=True)])
async def test_what_nobody_needs_is_asked_for_once_where_it_fails(live: SlackHarness, fault: Fault) -> None:
    live.api.faults.add(replace(fault, method="reactions.add", times=None))
    for number in range(3):
        message_id = live.person_says(PRIVATE, f"message {number}")
        await live.channel.seen(PRIVATE, message_id)
    assert len(list(live.api.calls("reactions.add"))) == 1


async def test_an_extra_is_tried_again_after_a_while(live: SlackHarness) -> None:
    clock = FakeClock()
    section = SlackConfig.model_validate(
        {"bot_token": live.secret, "app_token": live.app_secret, "api_url": live.api.url}
    )
    api = WebApi(section, QUICK)
    extras = Extras(api, clock)
    fault = live.api.faults.add(Fault(method="users.info", status=404, garbage=b"no"))
    with pytest.raises(Refused):
        await extras.call("users.info", {"user": "U0ADA000001"})
    with pytest.raises(ChannelError, match="left out"):
        await extras.call("users.info", {"user": "U0ADA000001"})
    assert live.api.faults.hits(fault) == 1
    clock.advance(601)
    assert (await extras.call("users.info", {"user": "U0ADA000001"}))["ok"]
    await api.close()


@pytest.mark.parametrize("fault", [bad_gateway(), Fault(garbage=b""), Fault(drop_before=True), Fault(delay_s=3600.0)])
async def test_what_waits_for_a_history_goes_first_after_a_while_and_is_not_lost(
    harness: SlackHarness, fault: Fault
) -> None:
    """Whoever speaks Slack's protocol in the least way does not send again what was not acknowledged."""
    harness.replace_channel(built(harness, replace(QUICK, gate_s=0.1, overtake_s=0.3)))
    harness.start()
    await harness.until(ChannelState.READY)
    harness.person_says(PRIVATE, "before")
    await harness.intake.wait_for_texts("before")
    await harness.until_confirmed()
    harness.api.faults.add(replace(fault, method="conversations.history", times=None))
    harness.api.socket.retries_s = ()
    harness.api.socket.drop()
    await harness.until(ChannelState.OFFLINE)
    await harness.until(ChannelState.READY)
    for text in ("one", "two"):
        harness.person_says(PRIVATE, text)
    await harness.intake.wait_for_texts("before", "one", "two")


async def test_a_draft_whose_changes_always_break_down_keeps_its_answer_back_for_three_tries(
    live: SlackHarness,
) -> None:
    draft_id = await live.channel.show_draft(Draft(address=PRIVATE, text="Let me", key="turn-7"))
    live.api.faults.add(bad_gateway("chat.update", times=None))
    final = OutboundMessage(address=PRIVATE, text="answer", draft_id=draft_id)
    for _ in range(2):
        with pytest.raises(ChannelError):
            await live.send(final)
    await live.send(final)
    assert [message.text for message in live.shown(PRIVATE)] == ["answer"]


async def test_an_envelope_before_the_hello_is_a_message_as_any_other(harness: SlackHarness) -> None:
    harness.api.socket.says_hello = False
    harness.start()
    await harness.api.wait_for(lambda: bool(harness.api.socket.connected))
    harness.person_says(PRIVATE, "hello")
    await harness.intake.wait_for_texts("hello")
    await harness.until(ChannelState.READY)


@pytest.mark.parametrize(("body", "wait_s"), [(b'{"ok":false}', 5.0), (b'{"ok":false,"retry_after":2.5}', 2.5)])
async def test_a_refusal_for_haste_that_has_no_header_is_waited_for_shortly(
    live: SlackHarness, body: bytes, wait_s: float
) -> None:
    live.api.faults.add(Fault(method="chat.postMessage", status=429, garbage=body))
    with pytest.raises(RateLimited) as caught:
        await live.send(OutboundMessage(address=PRIVATE, text="hello"))
    assert caught.value.retry_after_s == wait_s


@pytest.mark.parametrize("fault", ABSENT[1:])
async def test_a_server_that_is_not_there_has_not_sent_anything(live: SlackHarness, fault: Fault) -> None:
    live.api.faults.add(replace(fault, method="chat.postMessage"))
    with pytest.raises(ChannelError) as caught:
        await live.send(OutboundMessage(address=THREAD, text="hello"))
    assert caught.value.retryable
    assert not isinstance(caught.value, SendUncertain)


async def test_a_server_error_is_no_doubt_where_no_history_can_settle_it(live: SlackHarness) -> None:
    """Else a second one in a row would be the end of the answer."""
    message = OutboundMessage(address=PRIVATE, text="hello")
    live.api.faults.add(bad_gateway("chat.postMessage", times=2))
    with pytest.raises(SendUncertain):
        await live.send(message)
    live.api.faults.add(refused("conversations.history", "unknown_method", times=None))
    assert await live.channel.find_sent(sending_row(message)) is None
    with pytest.raises(ServerTrouble) as caught:
        await live.send(message)
    assert caught.value.retryable


def test_a_file_may_be_on_another_port_of_the_server_that_was_configured() -> None:
    section = SlackConfig.model_validate(
        {"bot_token": "xoxb-1", "app_token": "xapp-1", "api_url": "http://127.0.0.1:8080/api/"}
    )
    api = WebApi(section, Timing())
    assert api.is_own_host("http://127.0.0.1:9090/files/a.txt")
    assert not api.is_own_host("http://127.0.0.2:8080/files/a.txt")
    assert not api.is_own_host("http://127.0.0.1.example.org/files/a.txt")


def test_the_place_of_a_press_is_told_in_two_ways() -> None:
    body: dict[str, Any] = {"channel": {"id": DM}, "message": {"ts": "1.2"}}
    assert place_of_press(body) == (DM, "1.2")
    assert place_of_press({**body, "container": {"channel_id": "C1", "message_ts": "3.4"}}) == ("C1", "3.4")
    assert place_of_press({}) == ("", "")
