"""Servers that speak little more of the Bot API than getMe, getUpdates and sendMessage: nothing optional is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from bot.errors import ChannelError
from bot.interfaces import ChannelState, Draft
from bot.messages import Attachment, OutboundMessage
from channels.telegram.courtesies import FAILURES_LIMIT
from channels.telegram.webhook import SECRET_HEADER
from tests.channels.harness_telegram import GROUP, PRIVATE, PUBLIC, TelegramHarness, WebhookHarness, running, served
from tests.platforms.bot_api_faults import Fault, bad_gateway

OPTIONAL = (
    "getMyCommands",
    "setMyCommands",
    "getWebhookInfo",
    "deleteWebhook",
    "setWebhook",
    "editMessageText",
    "deleteMessage",
    "setMessageReaction",
    "sendChatAction",
    "answerCallbackQuery",
)
WAYS = {
    "404": Fault(status=404, description="Not Found"),
    "404 of a web server": Fault(status=404, garbage=b"404: Not Found"),
    "501": Fault(status=501, description="Not Implemented"),
    "500": Fault(status=500, garbage=b"<html>boom</html>"),
    "empty": Fault(garbage=b""),
    "no result": Fault(garbage=b'{"ok":true}'),
    "reset": Fault(drop_before=True),
    "silence": Fault(),  # held, see `lacks`
}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        yield made


@pytest.fixture
async def by_webhook(tmp_path: Path) -> AsyncIterator[WebhookHarness]:
    async with served(tmp_path, WebhookHarness) as made:
        assert isinstance(made, WebhookHarness)
        yield made


def lacks(harness: TelegramHarness, way: str, *methods: str) -> list[Fault]:
    """Let the server answer these methods in one of the ways of servers that do not have them."""
    like = WAYS[way]
    hold = asyncio.Event() if way == "silence" else None
    fields = {"status": like.status, "description": like.description, "garbage": like.garbage, "hold": hold}
    return [
        harness.api.faults.add(Fault(method=method, times=None, drop_before=like.drop_before, **fields))  # type: ignore[arg-type]
        for method in methods
    ]


# --- receiving -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_polling_needs_nothing_but_polling(harness: TelegramHarness, way: str) -> None:
    lacks(harness, way, *OPTIONAL)
    harness.api.user_says(5, "hello")
    harness.start()
    await harness.intake.wait_for_texts("hello")
    assert harness.channel.state is ChannelState.READY


@pytest.mark.parametrize("way", WAYS)
async def test_a_webhook_is_listened_on_whatever_the_server_says_of_it(by_webhook: WebhookHarness, way: str) -> None:
    lacks(by_webhook, way, *OPTIONAL)
    by_webhook.start()
    await ChannelReady(by_webhook).wait()
    secret = by_webhook.build()._section.webhook_password
    update = {"update_id": 7, "message": {"message_id": 3, "chat": {"id": 5}, "text": "posted"}}
    async with (
        aiohttp.ClientSession(headers={SECRET_HEADER: secret}) as session,
        session.post(f"http://127.0.0.1:{by_webhook.listen_port}/telegram", json=update) as answer,
    ):
        assert answer.status == 200
    await by_webhook.intake.wait_for_texts("posted")
    assert by_webhook.channel.state is ChannelState.READY


class ChannelReady:
    """READY without the wait for what only drafts need."""

    def __init__(self, harness: TelegramHarness) -> None:
        self._harness = harness

    async def wait(self) -> None:
        """Return when the channel is ready."""
        await self._harness.until_true(lambda: self._harness.channel.state is ChannelState.READY)


async def test_a_server_that_does_not_tell_of_its_webhook_is_told_once(by_webhook: WebhookHarness) -> None:
    (fault,) = lacks(by_webhook, "404", "getWebhookInfo")
    by_webhook.api.user_says(5, "hello")
    async with running(by_webhook):
        await by_webhook.intake.wait_for_texts("hello")
        await by_webhook.api.wait_for(lambda: by_webhook.api.faults.hits(fault) > 3)
    assert len(by_webhook.api.calls("setWebhook")) == 1


async def test_an_address_that_telegram_refuses_is_a_problem_but_sending_goes_on(by_webhook: WebhookHarness) -> None:
    why = "Bad Request: bad webhook: An HTTPS URL must be provided for webhook"
    fault = by_webhook.api.faults.add(Fault(method="setWebhook", status=400, description=why, times=None))
    async with running(by_webhook):
        assert "https url must be provided" in by_webhook.channel.problem
        await by_webhook.api.wait_for(lambda: by_webhook.api.faults.hits(fault) > 2)
        assert by_webhook.channel.state is ChannelState.READY
        by_webhook.api.faults.clear()
        await by_webhook.api.wait_for(lambda: by_webhook.api.webhook.url == f"{PUBLIC}/telegram")
        await by_webhook.until_true(lambda: by_webhook.channel.problem == "")


# --- what nobody misses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["404", "501"])
async def test_a_courtesy_the_server_does_not_know_is_asked_for_once(harness: TelegramHarness, way: str) -> None:
    async with running(harness):
        faults = lacks(harness, way, "setMessageReaction", "sendChatAction")
        for address in (PRIVATE, GROUP):
            for _ in range(3):
                await harness.channel.seen(address, harness.person_says(address, "hello"))
                await harness.channel.typing(address)
    assert [harness.api.faults.hits(fault) for fault in faults] == [1, 1]


@pytest.mark.parametrize("way", ["404 of a web server", "500", "empty", "reset"])
async def test_a_courtesy_that_fails_again_and_again_rests(harness: TelegramHarness, way: str) -> None:
    async with running(harness):
        faults = lacks(harness, way, "setMessageReaction", "sendChatAction")
        for _ in range(FAILURES_LIMIT + 4):
            await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
            await harness.channel.typing(PRIVATE)
    assert [harness.api.faults.hits(fault) for fault in faults] == [FAILURES_LIMIT, FAILURES_LIMIT]


async def test_failures_with_a_success_between_them_count_anew(harness: TelegramHarness) -> None:
    async with running(harness):
        for _ in range(3):
            for _ in range(FAILURES_LIMIT - 1):
                harness.api.faults.add(bad_gateway("setMessageReaction"))
                await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
            await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
    assert len(harness.api.world.reactions) == 3


# --- answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["404", "501"])
async def test_where_nothing_can_be_edited_no_second_draft_is_shown(harness: TelegramHarness, way: str) -> None:
    async with running(harness):
        lacks(harness, way, "editMessageText")
        draft_id = await harness.channel.show_draft(Draft(address=PRIVATE, text="It is", key="k"))
        with pytest.raises(ChannelError):
            await harness.channel.show_draft(Draft(address=PRIVATE, text="It is so", key="k", draft_id=draft_id))
        await harness.send(OutboundMessage(address=PRIVATE, text="It is so.", draft_id=draft_id))
        assert await harness.channel.show_draft(Draft(address=PRIVATE, text="And", key="l")) == ""
    assert [shown.text for shown in harness.shown(PRIVATE)] == ["It is so."]


@pytest.mark.parametrize("way", ["404", "501"])
async def test_a_draft_that_cannot_become_the_answer_gives_way_to_it(harness: TelegramHarness, way: str) -> None:
    """The server is another one, or a lesser one, than when the draft was shown."""
    async with running(harness):
        draft_id = await harness.channel.show_draft(Draft(address=PRIVATE, text="It is", key="k"))
        lacks(harness, way, "editMessageText")
        await harness.send(OutboundMessage(address=PRIVATE, text="It is **so**.", draft_id=draft_id))
        assert [shown.text for shown in harness.shown(PRIVATE)] == ["It is so."]
        lacks(harness, way, "deleteMessage")
        await harness.send(OutboundMessage(address=PRIVATE, text="And so on.", draft_id="77"))
    assert [shown.text for shown in harness.shown(PRIVATE)] == ["It is so.", "And so on."]


async def test_a_yes_without_a_result_is_not_sent_again(harness: TelegramHarness) -> None:
    async with running(harness):
        fault = harness.api.faults.add(Fault(method="sendMessage", garbage=b'{"ok":true}', times=None))
        progress = await harness.send(OutboundMessage(address=PRIVATE, text="hello"))
    assert progress.sent_ids == ["unknown"]
    assert harness.api.faults.hits(fault) == 1


@pytest.mark.parametrize("way", ["404", "501"])
async def test_words_arrive_where_files_cannot(harness: TelegramHarness, tmp_path: Path, way: str) -> None:
    paths = [tmp_path / "plan.pdf", tmp_path / "data.csv"]
    for path in paths:
        path.write_text(path.name)
    files = tuple(Attachment(kind="document", name=path.name, path=str(path)) for path in paths)
    async with running(harness):
        lacks(harness, way, "sendDocument", "sendMediaGroup")
        await harness.send(OutboundMessage(address=PRIVATE, text="Here **it** is", attachments=files))
    shown = [(message.text, message.bold) for message in harness.shown(PRIVATE)]
    assert shown == [
        ("Here it is\n\n⚠️ Not sent: plan.pdf (it was not accepted here)", ("it",)),
        ("⚠️ Not sent: data.csv (it was not accepted here)", ()),
    ]
