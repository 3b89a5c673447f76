"""Telegram for the channel contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from bot.interfaces import ChannelState
from bot.messages import Address
from channels.telegram import TelegramChannel
from channels.telegram.config import Timing
from channels.text import utf16_length
from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault, too_many_requests
from tests.support.channel_harness import ChannelHarness, Shown
from tests.support.service import free_port

PRIVATE = Address(channel="telegram", chat_id="5")
TOPIC = Address(channel="telegram", chat_id="-1001", thread_id="42")

PUBLIC = "https://bot.example"

QUICK = Timing(retry_base_s=0.01, retry_cap_s=0.05, conflict_s=0.01, album_quiet_s=0.4, webhook_check_s=0.05)
"""The channel's waits, short enough for tests."""


class TelegramHarness(ChannelHarness):
    """The Telegram channel beside the loopback Bot API."""

    name: ClassVar[str] = "telegram"
    limit: ClassVar[int] = 4096
    secret: ClassVar[str] = "123:very-secret_Token"

    def __init__(self, workspace: Path) -> None:
        self.api = BotApi(self.secret)
        self.api.add_chat(5)
        self.api.add_chat(-1001, chat_type="supergroup", is_forum=True, topics=(42, 43))
        self._last_update = 0
        super().__init__(workspace)

    @property
    def private(self) -> Address:
        return PRIVATE

    @property
    def thread(self) -> Address:
        return TOPIC

    def build(self, *, token: str = "", **section: object) -> TelegramChannel:
        # The port is known once the server was up; before that the channel waits for it anyway.
        values = {"token": token or self.secret, "api_url": self.api.url, "allow_from": "*", **section}
        return TelegramChannel.create(self.context(TelegramChannel.config_cls.model_validate(values)), QUICK)

    async def server_up(self) -> None:
        first_time = not self.api.port
        await self.api.come_up()
        if first_time:
            self.replace_channel(self.build())

    async def server_down(self) -> None:
        await self.api.go_down()

    def person_says(self, address: Address, text: str) -> str:
        chat_id = int(address.chat_id)
        thread_id = int(address.thread_id) if address.thread_id else None
        said = text if chat_id > 0 else self.api.mention(text)
        self._last_update = self.api.user_says(chat_id, said, thread_id=thread_id, user_id=int(self.person_id))
        return str(self.api.world.chats[chat_id].last_message_id)

    def person_edits(self, address: Address, message_id: str, text: str) -> None:
        self._last_update = self.api.edit(int(address.chat_id), int(message_id), text)

    def redeliver(self) -> None:
        self.api.redeliver(self._last_update)

    async def until_confirmed(self) -> None:
        await self.api.wait_for(self.is_confirmed)

    def is_confirmed(self) -> bool:
        return self.api.confirmed_offset > self._last_update

    def shown(self, address: Address) -> list[Shown]:
        chat = self.api.world.chats[int(address.chat_id)]
        return [_shown(message) for message in chat.messages.values() if self.api.world.is_own(message)]

    def typing_at(self) -> list[Address]:
        return [
            Address(
                channel="telegram",
                chat_id=str(call.chat_id),
                thread_id=None if call.thread_id is None else str(call.thread_id),
            )
            for call in self.api.calls("sendChatAction")
        ]

    def rate_limit(self, address: Address, seconds: int) -> None:
        self.api.faults.add(too_many_requests("sendMessage", seconds, chat_id=int(address.chat_id)))

    def lock_out(self, address: Address) -> None:
        self.api.world.chats[int(address.chat_id)].gone = "bot was blocked by the user"

    def lose_answer(self) -> None:
        self.api.faults.add(Fault(method="sendMessage", drop_after=True))


class WebhookHarness(TelegramHarness):
    """The same with a webhook: Telegram posts to a proxy, which passes on to where the channel listens."""

    def __init__(self, workspace: Path) -> None:
        self.listen_port = free_port()
        super().__init__(workspace)
        self.api.webhook.proxy[PUBLIC] = f"http://127.0.0.1:{self.listen_port}"

    def build(self, *, token: str = "", **section: object) -> TelegramChannel:
        hook = {
            "mode": "webhook",
            "webhook_url": f"{PUBLIC}/telegram",
            "webhook_listen": f"127.0.0.1:{self.listen_port}",
        }
        return super().build(token=token, **{**hook, **section})

    def is_confirmed(self) -> bool:
        return self.api.updates.pending_count == 0


@asynccontextmanager
async def served(workspace: Path, make: type[TelegramHarness] = TelegramHarness) -> AsyncIterator[TelegramHarness]:
    """Have the platform up and the channel built but not started."""
    made = make(workspace)
    await made.server_up()
    try:
        yield made
    finally:
        await made.stop()
        await made.server_down()


@asynccontextmanager
async def running(harness: TelegramHarness) -> AsyncIterator[TelegramHarness]:
    """Start the channel and wait until it is connected; the fixture stops it."""
    harness.start()
    await harness.until(ChannelState.READY)
    yield harness


def _shown(message: dict[str, object]) -> Shown:
    text = str(message.get("text", message.get("caption", "")))
    entities = message.get("entities") or message.get("caption_entities") or []
    assert isinstance(entities, list)
    bold = [_passage(text, e["offset"], e["length"]) for e in entities if e["type"] == "bold"]
    reply = message.get("reply_to_message")
    thread_id = message.get("message_thread_id")
    markup = message.get("reply_markup")
    rows = markup["inline_keyboard"] if isinstance(markup, dict) else []
    return Shown(
        text=text,
        thread_id=None if thread_id is None else str(thread_id),
        reply_to=str(reply["message_id"]) if isinstance(reply, dict) else "",
        bold=tuple(bold),
        buttons=tuple(str(button["text"]) for row in rows for button in row),
    )


def _passage(text: str, offset: int, length: int) -> str:
    units = text.encode("utf-16-le")
    assert utf16_length(text) >= offset + length
    return units[offset * 2 : (offset + length) * 2].decode("utf-16-le")
