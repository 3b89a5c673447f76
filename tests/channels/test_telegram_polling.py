"""The receiving loop beside a Bot API server: what is confirmed when, and what no fault can stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bot.errors import ChannelAuthError, StoreUnavailable
from bot.interfaces import ChannelState
from bot.messages import Address
from tests.channels.harness_telegram import TelegramHarness, running, served
from tests.platforms.bot_api_faults import Fault, bad_gateway, conflict, too_many_requests

DAY_S = 24 * 3600
CURSOR = "telegram:123:offset"
CHAT = Address(channel="telegram", chat_id="5")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        yield made


async def stored_offset(harness: TelegramHarness, wanted: int) -> None:
    """Wait until the offset is kept; it is written just before the next poll, which rings."""
    await harness.api.wait_for(lambda: harness.cursors.values.get(CURSOR, ("", 0))[0] == str(wanted))


# --- offset ----------------------------------------------------------------------------------------------


async def test_an_update_is_confirmed_only_after_it_was_committed(harness: TelegramHarness) -> None:
    seen: list[int] = []
    harness.intake.before_commit = lambda message: seen.append(harness.api.confirmed_offset)
    first = harness.api.user_says(5, "one")
    second = harness.api.user_says(5, "two")
    async with running(harness):
        await harness.intake.wait_for_texts("one", "two")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == second + 1)
    assert all(offset <= first for offset in seen)
    assert harness.cursors.values[CURSOR][0] == str(second + 1)


async def test_a_restart_goes_on_behind_what_was_handled(harness: TelegramHarness) -> None:
    """C030: a command whose confirmation never reached the platform is not run by the next process."""
    update = harness.api.user_says(5, "/restart")

    def cut_off() -> None:
        harness.api.faults.add(Fault(method="getUpdates", drop_before=True, times=None))

    harness.intake.before_commit = lambda message: cut_off()
    async with running(harness):
        await harness.intake.wait_for_texts("/restart")
        await stored_offset(harness, update + 1)
    await harness.stop()
    assert harness.api.confirmed_offset <= update
    harness.api.faults.clear()
    harness.intake.before_commit = lambda message: None
    harness.replace_channel(harness.build())
    harness.start()
    await harness.api.wait_for(lambda: harness.api.confirmed_offset == update + 1)
    next_one = harness.api.user_says(5, "are you back?")
    await harness.api.wait_for(lambda: harness.api.confirmed_offset == next_one + 1)
    assert harness.intake.texts == ["/restart", "are you back?"]
    assert harness.intake.duplicates == []


async def test_an_update_that_is_handed_out_again_does_not_move_the_offset_back(harness: TelegramHarness) -> None:
    first = harness.api.user_says(5, "one")
    async with running(harness):
        second = harness.api.user_says(5, "two")
        await harness.intake.wait_for_texts("one", "two")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == second + 1)
        harness.api.redeliver(first)
        await harness.intake.wait_for(lambda: harness.intake.duplicates)
        third = harness.api.user_says(5, "three")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == third + 1)
    assert [message.text for message in harness.intake.duplicates] == ["one"]
    kept = [int(value) for value in harness.cursors.written]
    assert kept == sorted(kept)
    assert kept[-1] == third + 1


async def test_an_offset_of_a_week_ago_does_not_hide_updates_with_new_ids(tmp_path: Path) -> None:
    """After an idle week the platform may begin again at any id."""
    harness = TelegramHarness(tmp_path)
    clock = harness.cursors._clock
    harness.cursors.values[CURSOR] = ("900000", clock.now_us() - 7 * DAY_S * 1_000_000)
    await harness.server_up()
    try:
        async with running(harness):
            harness.api.user_says(5, "hello after a long time")
            await harness.intake.wait_for_texts("hello after a long time")
    finally:
        await harness.stop()
        await harness.server_down()


async def test_an_offset_of_yesterday_is_used(harness: TelegramHarness) -> None:
    harness.cursors.values[CURSOR] = ("1001", harness.clock.now_us() - DAY_S * 1_000_000)
    harness.api.user_says(5, "handled yesterday")  # update 1000
    harness.api.user_says(5, "new")
    async with running(harness):
        await harness.intake.wait_for_texts("new")


async def test_a_refused_sender_is_confirmed_too(harness: TelegramHarness) -> None:
    harness.intake.refused_senders.add("666")
    update = harness.api.user_says(5, "let me in", user_id=666)
    async with running(harness):
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == update + 1)
    assert harness.intake.messages == []


async def test_a_cursor_that_cannot_be_written_loses_and_doubles_nothing(harness: TelegramHarness) -> None:
    harness.cursors.failures.append(StoreUnavailable("disk full"))
    async with running(harness):
        harness.api.user_says(5, "one")
        await harness.intake.wait_for_texts("one")
        update = harness.api.user_says(5, "two")
        await harness.intake.wait_for_texts("one", "two")
        await stored_offset(harness, update + 1)
    assert harness.intake.duplicates == []


async def test_what_comes_before_a_failure_is_not_handed_in_twice(harness: TelegramHarness) -> None:
    async with running(harness):
        failed: list[str] = []

        def fail_once(message: object) -> None:
            if not failed and getattr(message, "text", "") == "two":
                failed.append("two")
                raise StoreUnavailable("disk full")

        harness.intake.before_commit = fail_once
        gate = asyncio.Event()
        harness.api.faults.add(Fault(method="getUpdates", hold=gate))
        for text in ("one", "two", "three"):
            harness.api.user_says(5, text)
        gate.set()
        await harness.intake.wait_for_texts("one", "two", "three")
    assert failed == ["two"]
    assert harness.intake.duplicates == []


# --- faults of the network -------------------------------------------------------------------------------


async def test_resets_gateway_errors_and_timeouts_end_nothing(harness: TelegramHarness) -> None:
    """C032: reset five times, 502, an answer that is not JSON, then updates."""
    harness.api.faults.add(Fault(method="getUpdates", times=5, drop_before=True))
    harness.api.faults.add(bad_gateway("getUpdates"))
    harness.api.faults.add(Fault(method="getUpdates", garbage=b"not json"))
    harness.api.faults.add(Fault(method="getUpdates", status=500, description="Internal Server Error"))
    harness.api.user_says(5, "still there?")
    harness.start()
    await harness.intake.wait_for_texts("still there?")
    await harness.until(ChannelState.READY)


async def test_errors_while_connecting_are_retried(harness: TelegramHarness) -> None:
    """C032: start-up errors are retried too."""
    harness.api.faults.add(Fault(method="getMe", drop_before=True))
    harness.api.faults.add(bad_gateway("getMe"))
    harness.api.faults.add(too_many_requests("getMe", 1))
    harness.api.faults.add(bad_gateway("getWebhookInfo"))
    harness.start()
    await harness.until(ChannelState.READY)


async def test_a_rate_limit_on_polling_is_waited_out(harness: TelegramHarness) -> None:
    fault = harness.api.faults.add(too_many_requests("getUpdates", 1))
    harness.api.user_says(5, "hello")
    harness.start()
    await harness.intake.wait_for_texts("hello")
    assert harness.api.faults.hits(fault) == 1


async def test_a_second_poller_is_outlasted_without_bad_health(harness: TelegramHarness) -> None:
    states: list[ChannelState] = []
    harness.api.faults.add(conflict(times=3))
    harness.api.user_says(5, "hello")
    harness.channel.on_state_change(lambda: states.append(harness.channel.state))
    harness.start()
    await harness.intake.wait_for_texts("hello")
    assert states == [ChannelState.READY]


async def test_a_second_poller_that_stays_is_reported(harness: TelegramHarness) -> None:
    fault = harness.api.faults.add(conflict(times=None))
    harness.start()
    await harness.until(ChannelState.OFFLINE)
    assert "another process polls with the same token" in harness.channel.problem
    assert harness.api.faults.hits(fault) == 4
    harness.api.faults.clear()
    await harness.until(ChannelState.READY)
    assert harness.channel.problem == ""


async def test_a_webhook_is_removed_without_dropping_what_waits(harness: TelegramHarness) -> None:
    harness.api.updates.webhook_url = "https://old.example/hook"
    harness.api.user_says(5, "waiting for the webhook")
    harness.start()
    await harness.intake.wait_for_texts("waiting for the webhook")


async def test_a_webhook_set_by_somebody_while_polling_is_removed(harness: TelegramHarness) -> None:
    async with running(harness):
        gate = asyncio.Event()
        fault = harness.api.faults.add(Fault(method="getUpdates", hold=gate))
        harness.api.user_says(5, "one")
        await harness.api.wait_for(lambda: harness.api.faults.hits(fault))
        harness.api.updates.webhook_url = "https://other.example/hook"
        gate.set()
        await harness.api.wait_for(lambda: not harness.api.updates.webhook_url)
        harness.api.user_says(5, "two")
        await harness.intake.wait_for(lambda: "two" in harness.intake.texts)


@pytest.mark.parametrize(
    "answer", [b'{"ok":false,"error_code":404,"description":"Not Found"}', b'{"ok":true,"result":true}']
)
async def test_a_server_without_webhooks_is_polled(harness: TelegramHarness, answer: bytes) -> None:
    status = 404 if b"404" in answer else 0
    harness.api.faults.add(Fault(method="getWebhookInfo", status=status, garbage=answer))
    harness.api.user_says(5, "hello")
    harness.start()
    await harness.intake.wait_for_texts("hello")


async def test_a_server_that_holds_no_poll_is_not_asked_without_a_pause(harness: TelegramHarness) -> None:
    nothing = harness.api.faults.add(Fault(method="getUpdates", garbage=b'{"ok":true,"result":[]}', times=None))
    async with running(harness):
        started_s = asyncio.get_running_loop().time()
        await harness.api.wait_for(lambda: harness.api.faults.hits(nothing) >= 5)
        # Doubling from half of 0.1 s: no load of the machine makes four pauses shorter than this.
        assert asyncio.get_running_loop().time() - started_s >= 0.05 + 0.1 + 0.2
        harness.api.faults.clear()
        harness.api.user_says(5, "hello")
        await harness.intake.wait_for_texts("hello")


async def test_a_server_that_takes_no_note_of_the_offset_is_not_asked_without_a_pause(
    harness: TelegramHarness,
) -> None:
    answer = b'{"ok":true,"result":[{"update_id":7,"message":{"message_id":3,"chat":{"id":5},"text":"again"}}]}'
    same = harness.api.faults.add(Fault(method="getUpdates", garbage=answer, times=None))
    async with running(harness):
        await harness.intake.wait_for_texts("again")
        started_s, asked = asyncio.get_running_loop().time(), harness.api.faults.hits(same)
        await harness.api.wait_for(lambda: harness.api.faults.hits(same) >= asked + 5)
        assert asyncio.get_running_loop().time() - started_s >= 0.05 + 0.1 + 0.2
    assert harness.intake.texts == ["again"]


async def test_a_bot_that_does_not_say_who_it_is_is_asked_again(harness: TelegramHarness) -> None:
    harness.api.faults.add(Fault(method="getMe", garbage=b'{"ok":true,"result":{"first_name":"x"}}'))
    problems: list[str] = []
    harness.channel.on_state_change(lambda: problems.append(harness.channel.problem))
    harness.api.user_says(5, "hello")
    harness.start()
    await harness.intake.wait_for_texts("hello")
    assert "api_url" in problems[0]


async def test_a_token_revoked_while_running_ends_the_channel(harness: TelegramHarness) -> None:
    async with running(harness):
        harness.api.token = "123:another-one"
        harness.api.user_says(5, "x")  # ends the long poll
        with pytest.raises(ChannelAuthError):
            await asyncio.wait_for(harness.task, 10)
    assert harness.channel.state is ChannelState.FAILED


async def test_an_error_of_our_own_does_not_end_receiving(harness: TelegramHarness) -> None:
    harness.intake.failures.append(RuntimeError("a bug"))
    harness.api.user_says(5, "hello")
    harness.start()
    await harness.intake.wait_for_texts("hello")
    assert not harness.task.done()


async def test_the_age_of_the_last_poll_is_known(harness: TelegramHarness) -> None:
    assert harness.channel.last_poll_age_s() is None
    async with running(harness):
        harness.api.user_says(5, "x")
        await harness.intake.wait_for_texts("x")
        age_s = harness.channel.last_poll_age_s()
    assert age_s is not None
    assert 0 <= age_s < 60


# --- updates nobody can read -----------------------------------------------------------------------------


async def test_an_unreadable_update_is_kept_and_blocks_nobody(harness: TelegramHarness) -> None:
    harness.api.user_says(5, "before")
    broken = harness.api.push_raw({"message": {"message_id": "seven", "chat": 5}})
    harness.api.push_raw({"message": {"message_id": 8, "date": 10**18, "chat": {"id": 5, "type": "private"}}})
    last = harness.api.user_says(5, "after")
    async with running(harness):
        await harness.intake.wait_for_texts("before", "after")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == last + 1)
    kept = harness.intake.unparsed[0]
    assert len(harness.intake.unparsed) == 2
    assert (kept.channel, kept.account, kept.update_id) == ("telegram", "123", str(broken))
    assert '"seven"' in kept.raw
    assert kept.error != ""


async def test_an_update_without_an_id_is_kept_and_blocks_nobody(harness: TelegramHarness) -> None:
    harness.api.push_raw(b'{"surprise":1}')
    last = harness.api.user_says(5, "after")
    async with running(harness):
        await harness.intake.wait_for_texts("after")
        await harness.api.wait_for(lambda: harness.api.confirmed_offset == last + 1)
    assert [kept.raw for kept in harness.intake.unparsed] == ['{"surprise": 1}']


# --- events ----------------------------------------------------------------------------------------------


async def wait_for_event(harness: TelegramHarness, act: Callable[[], object], seen: Callable[[], object]) -> None:
    async with running(harness):
        act()
        await harness.intake.wait_for(seen)


async def test_a_group_that_becomes_a_supergroup_is_moved(harness: TelegramHarness) -> None:
    """C035: the service message."""
    harness.api.add_chat(-5, chat_type="group")
    moved = ("telegram", "-5", "-1009")
    await wait_for_event(harness, lambda: harness.api.migrate(-5, -1009), lambda: moved in harness.intake.migrations)


async def test_a_blocked_bot_closes_the_chat_and_an_unblocked_one_opens_it(harness: TelegramHarness) -> None:
    """C036"""
    await wait_for_event(harness, lambda: harness.api.block(5), lambda: harness.intake.closed)
    assert harness.intake.closed[0][0] == CHAT
    harness.api.unblock(5)
    await harness.intake.wait_for(lambda: harness.intake.reopened)
    assert harness.intake.reopened == [CHAT]
