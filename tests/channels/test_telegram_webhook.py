"""Receiving by webhook: what Telegram is told when, who is let in, and how the webhook is looked after."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import orjson
import pytest

from bot.errors import ChannelAuthError, StoreUnavailable
from bot.interfaces import ChannelState
from bot.messages import ButtonPress
from bot.records import PressOutcome
from channels.telegram.updates import ALLOWED_UPDATES
from channels.telegram.webhook import SECRET_HEADER
from tests.channels.harness_telegram import PUBLIC, TelegramHarness, WebhookHarness, running, served
from tests.platforms.bot_api_faults import Fault, bad_gateway, too_many_requests

UPDATE = {
    "update_id": 5000,
    "message": {"message_id": 900, "date": 1, "chat": {"id": 5, "type": "private"}, "text": "injected"},
}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WebhookHarness]:
    async with served(tmp_path, WebhookHarness) as made:
        assert isinstance(made, WebhookHarness)
        yield made


async def knock(
    harness: WebhookHarness,
    body: bytes | None = None,
    *,
    secret: str | None = None,
    method: str = "POST",
    path: str = "",
) -> int:
    """Send something to the webhook as anybody on the net may; return the status. The secret is the right one."""
    shown = harness.api.webhook.secret if secret is None else secret
    content = io.BytesIO(orjson.dumps(UPDATE) if body is None else body)
    address = f"http://127.0.0.1:{harness.listen_port}{path or '/telegram'}"
    async with (
        aiohttp.ClientSession(headers={SECRET_HEADER: shown} if shown else {}) as session,
        session.request(method, address, data=content) as answer,
    ):
        assert await answer.read() == b"" or answer.status >= 400
        return answer.status


# --- what Telegram is told -------------------------------------------------------------------------------


async def test_an_update_is_taken_only_after_it_was_committed(harness: WebhookHarness) -> None:
    taken_before: list[int] = []
    harness.intake.before_commit = lambda message: taken_before.append(len(harness.api.webhook.posts))
    async with running(harness):
        harness.api.user_says(5, "one")
        harness.api.user_says(5, "two")
        await harness.intake.wait_for_texts("one", "two")
        await harness.until_confirmed()
    assert taken_before == [0, 1]


async def test_an_update_the_store_refuses_is_repeated_by_telegram(harness: WebhookHarness) -> None:
    harness.intake.failures += [StoreUnavailable("disk full"), StoreUnavailable("disk full")]
    async with running(harness):
        update = harness.api.user_says(5, "keep me")
        await harness.intake.wait_for_texts("keep me")
        await harness.until_confirmed()
    assert [(post.update_id, post.status) for post in harness.api.webhook.posts] == [
        (update, 503),
        (update, 503),
        (update, 200),
    ]


async def test_an_update_whose_answer_got_lost_is_taken_once(harness: WebhookHarness) -> None:
    async with running(harness):
        harness.api.faults.add(Fault(method="webhook", drop_after=True))
        harness.api.user_says(5, "once")
        await harness.intake.wait_for(lambda: harness.intake.duplicates)
        await harness.until_confirmed()
    assert harness.intake.texts == ["once"]


async def test_a_chat_that_is_slow_to_be_stored_holds_up_no_other(harness: WebhookHarness) -> None:
    gate = asyncio.Event()
    async with running(harness):
        harness.api.faults.add(Fault(method="webhook", chat_id=5, hold=gate))
        harness.api.user_says(5, "first chat")
        harness.api.user_says(6, "second chat", user_id=222)
        await harness.intake.wait_for_texts("second chat")
        gate.set()
        await harness.intake.wait_for_texts("second chat", "first chat")


async def test_an_unreadable_update_is_kept_and_blocks_nobody(harness: WebhookHarness) -> None:
    async with running(harness):
        harness.api.push_raw({"message": {"message_id": 8, "date": 10**18, "chat": {"id": 5, "type": "private"}}})
        harness.api.user_says(5, "after")
        await harness.intake.wait_for_texts("after")
    assert len(harness.intake.unparsed) == 1


# --- who is let in ---------------------------------------------------------------------------------------


async def test_whoever_does_not_know_the_secret_is_refused_without_a_word(
    harness: WebhookHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(harness):
        capsys.readouterr()
        statuses = [await knock(harness, secret=secret) for secret in ("", "wrong", harness.api.webhook.secret + "x")]
        statuses.append(await knock(harness, b"x" * 3_000_000, secret="wrong"))
        said = capsys.readouterr()
        assert statuses == [401] * 4
        assert said.out + said.err == ""
        assert harness.intake.messages == []
        assert await knock(harness) == 200
        await harness.intake.wait_for_texts("injected")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "", b"", 405),
        ("PUT", "", b"{}", 405),
        ("POST", "/", b"{}", 404),
        ("POST", "/telegram/x", b"{}", 404),
        ("POST", "", b"", 400),
        ("POST", "", b"not json", 400),
        ("POST", "", b"\xff\xfe", 400),
        ("POST", "", b"[" * 100_000, 400),
        ("POST", "", b"1" * 1_100_000, 413),
    ],
)
async def test_what_is_no_update_is_refused(
    harness: WebhookHarness, method: str, path: str, body: bytes, status: int
) -> None:
    async with running(harness):
        assert await knock(harness, body, method=method, path=path) == status
        assert harness.intake.unparsed == []


async def test_the_secret_is_that_of_the_configuration_or_derived_from_the_token(harness: WebhookHarness) -> None:
    async with running(harness):
        derived = harness.api.webhook.secret
    assert len(derived) == 64
    assert harness.secret not in derived
    await harness.stop()
    harness.replace_channel(harness.build(webhook_secret="my-own_Secret"))
    harness.start()
    await harness.api.wait_for(lambda: harness.api.webhook.secret == "my-own_Secret")
    harness.api.user_says(5, "hello")
    await harness.intake.wait_for_texts("hello")


# --- looking after it ------------------------------------------------------------------------------------


async def test_the_webhook_is_set_once_with_all_it_needs(harness: WebhookHarness) -> None:
    async with running(harness):
        pass
    await harness.stop()
    harness.replace_channel(harness.build())
    async with running(harness):
        (call,) = harness.api.calls("setWebhook")
    assert call.params["url"] == f"{PUBLIC}/telegram"
    assert call.params["secret_token"] == harness.api.webhook.secret
    assert call.params["allowed_updates"] == list(ALLOWED_UPDATES)
    assert "message_reaction" in ALLOWED_UPDATES
    assert str(call.params["drop_pending_updates"]).lower() == "false"


async def test_a_webhook_that_somebody_changed_is_set_again(harness: WebhookHarness) -> None:
    async with running(harness):
        harness.api.updates.webhook_url = "https://other.example/hook"
        await harness.api.wait_for(lambda: harness.api.webhook.url == f"{PUBLIC}/telegram")
        harness.api.user_says(5, "still here")
        await harness.intake.wait_for_texts("still here")


async def test_what_waited_for_polling_comes_by_webhook_and_the_other_way_round(harness: WebhookHarness) -> None:
    harness.api.user_says(5, "from before")
    async with running(harness):
        await harness.intake.wait_for_texts("from before")
        await harness.until_confirmed()
    await harness.stop()
    harness.api.user_says(5, "while down")
    harness.replace_channel(TelegramHarness.build(harness))
    async with running(harness):
        await harness.intake.wait_for_texts("from before", "while down")
    assert harness.api.webhook.url == ""


async def test_telegram_not_getting_through_is_a_problem_but_sending_goes_on(harness: WebhookHarness) -> None:
    async with running(harness):
        harness.api.webhook.proxy.clear()
        harness.api.user_says(5, "hello?")
        await harness.api.wait_for(lambda: "does not get through to webhook_url" in harness.channel.problem)
        assert "Failed to resolve host" in harness.channel.problem
        assert harness.channel.state is ChannelState.READY
        harness.api.webhook.proxy[PUBLIC] = f"http://127.0.0.1:{harness.listen_port}"
        await harness.intake.wait_for_texts("hello?")
        await harness.api.wait_for(lambda: harness.channel.problem == "")


async def test_a_port_that_is_taken_is_named_and_tried_again(harness: WebhookHarness) -> None:
    with socket.create_server(("127.0.0.1", harness.listen_port)):
        harness.start()
        await harness.until(ChannelState.OFFLINE)
        assert f"webhook_listen: cannot listen on 127.0.0.1:{harness.listen_port}" in harness.channel.problem
        assert harness.api.calls("setWebhook") == []
    await harness.until(ChannelState.READY)
    assert harness.channel.problem == ""


async def test_errors_while_connecting_are_retried(harness: WebhookHarness) -> None:
    """C032: start-up errors are retried too."""
    harness.api.faults.add(bad_gateway("getMe"))
    harness.api.faults.add(bad_gateway("getWebhookInfo"))
    harness.api.faults.add(Fault(method="setWebhook", drop_before=True))
    harness.api.faults.add(Fault(method="getWebhookInfo", garbage=b'{"ok":true,"result":true}'))
    harness.start()
    await harness.until(ChannelState.READY)


async def test_a_rate_limit_on_looking_after_is_waited_out(harness: WebhookHarness) -> None:
    async with running(harness):
        fault = harness.api.faults.add(too_many_requests("getWebhookInfo", 1))
        await harness.api.wait_for(lambda: harness.api.faults.hits(fault) == 1)
        asked = len(harness.api.calls("getWebhookInfo"))
        await harness.api.wait_for(lambda: len(harness.api.calls("getWebhookInfo")) > asked)
        assert harness.channel.state is ChannelState.READY


async def test_a_token_revoked_while_running_ends_the_channel(harness: WebhookHarness) -> None:
    async with running(harness):
        harness.api.token = "123:another-one"
        with pytest.raises(ChannelAuthError):
            await asyncio.wait_for(harness.task, 10)
    assert harness.channel.state is ChannelState.FAILED


async def test_the_age_of_the_last_question_is_known(harness: WebhookHarness) -> None:
    assert harness.channel.last_poll_age_s() is None
    async with running(harness):
        age_s = harness.channel.last_poll_age_s()
    assert age_s is not None
    assert 0 <= age_s < 60


async def test_after_the_end_nothing_listens_and_the_webhook_stays_set(harness: WebhookHarness) -> None:
    async with running(harness):
        pass
    await harness.stop()
    with pytest.raises(aiohttp.ClientConnectorError):
        await knock(harness)
    assert harness.api.webhook.url == f"{PUBLIC}/telegram"


async def test_an_update_that_is_being_committed_at_the_end_is_still_taken(harness: WebhookHarness) -> None:
    """A press, whose answer would go on beside: it is committed and confirmed, the toast is left out."""
    harness.intake.button_labels = ["Yes"]
    gate, waits = asyncio.Event(), asyncio.Event()
    commit = harness.intake.publish_press

    async def slowly(press: ButtonPress) -> PressOutcome:
        waits.set()
        await gate.wait()
        return await commit(press)

    harness.intake.publish_press = slowly  # type: ignore[method-assign]
    markup = {"inline_keyboard": [[{"text": "Yes", "callback_data": "b1.0"}]]}
    chat = harness.api.world.chats[5]
    asked = harness.api.world.new_message(chat, harness.api.world.bot, {"text": "Sure?", "reply_markup": markup})
    async with running(harness):
        update = harness.api.press(5, asked["message_id"], "b1.0")
        await waits.wait()
        stopping = asyncio.create_task(harness.stop())
        await asyncio.sleep(0)
        gate.set()
        await harness.api.wait_for(lambda: harness.api.webhook.posts)
        await stopping
    assert [(post.update_id, post.status) for post in harness.api.webhook.posts[:1]] == [(update, 200)]
    assert len(harness.intake.presses) == 1
