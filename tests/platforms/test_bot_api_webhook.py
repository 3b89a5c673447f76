"""The webhook side of the Bot API server: order per chat, repeats, and what getWebhookInfo tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault
from tests.platforms.loopback import LoopbackServer

PUBLIC = "https://bot.example"


class Listener(LoopbackServer):
    """A bot's webhook: `statuses` are answered first, one a post, then 200."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[tuple[int, str]] = []
        self.secrets: set[str] = set()
        self.statuses: list[int] = []
        self.hold: asyncio.Event | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        update = await request.json()
        if self.hold is not None and update["message"]["chat"]["id"] == 5:
            await self.hold.wait()
        self.got.append((update["message"]["chat"]["id"], update["message"]["text"]))
        self.secrets.add(request.headers.get("X-Telegram-Bot-Api-Secret-Token", ""))
        self.bell.ring()
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.got]


@pytest.fixture
async def bot() -> AsyncIterator[Listener]:
    async with Listener() as listener:
        yield listener


@pytest.fixture
async def api(bot: Listener) -> AsyncIterator[BotApi]:
    async with BotApi() as made:
        made.webhook.proxy[PUBLIC] = bot.origin
        yield made


async def call(api: BotApi, method: str, **params: Any) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{api.url}/bot{api.token}/{method}", json=params) as answer,
    ):
        return await answer.json()


async def test_what_waited_is_posted_with_the_secret_once_a_webhook_is_set(api: BotApi, bot: Listener) -> None:
    api.user_says(5, "one")
    api.user_says(5, "two")
    assert (await call(api, "setWebhook", url=f"{PUBLIC}/x", secret_token="s3cret"))["ok"]
    await bot.wait_for(lambda: bot.texts == ["one", "two"])
    await api.wait_for(lambda: api.updates.pending_count == 0)
    assert bot.secrets == {"s3cret"}


async def test_an_update_is_repeated_until_it_is_taken_and_the_next_waits(api: BotApi, bot: Listener) -> None:
    bot.statuses = [503, 500]
    await call(api, "setWebhook", url=f"{PUBLIC}/x")
    api.user_says(5, "one")
    api.user_says(5, "two")
    await bot.wait_for(lambda: bot.texts == ["one", "one", "one", "two"])


async def test_chats_do_not_wait_for_each_other(api: BotApi, bot: Listener) -> None:
    bot.hold = asyncio.Event()
    await call(api, "setWebhook", url=f"{PUBLIC}/x")
    api.user_says(5, "held")
    api.user_says(6, "quick")
    await bot.wait_for(lambda: bot.texts == ["quick"])
    bot.hold.set()
    await bot.wait_for(lambda: bot.texts == ["quick", "held"])


async def test_a_lost_answer_repeats_and_a_refused_connection_is_told(api: BotApi, bot: Listener) -> None:
    await call(api, "setWebhook", url=f"{PUBLIC}/x")
    api.faults.add(Fault(method="webhook", drop_after=True))
    api.user_says(5, "once")
    await bot.wait_for(lambda: bot.texts == ["once", "once"])
    info = (await call(api, "getWebhookInfo"))["result"]
    assert info["last_error_message"] == "Read timeout expired"
    assert info["url"] == f"{PUBLIC}/x"


@pytest.mark.parametrize("url", ["http://bot.example/x", "https://bot.example:9000/x"])
async def test_an_address_telegram_does_not_call_is_refused(api: BotApi, url: str) -> None:
    answer = await call(api, "setWebhook", url=url)
    assert answer["description"].startswith("Bad Request: bad webhook")


async def test_polling_is_forbidden_while_a_webhook_is_set_and_allowed_after(api: BotApi, bot: Listener) -> None:
    await call(api, "setWebhook", url=f"{PUBLIC}/x")
    assert (await call(api, "getUpdates"))["error_code"] == 409
    await call(api, "deleteWebhook")
    api.user_says(5, "polled")
    assert len((await call(api, "getUpdates"))["result"]) == 1
    assert bot.got == []
