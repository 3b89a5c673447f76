"""Telegram for the channel contract suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

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
GROUP = Address(channel="telegram", chat_id="-1001")
TOPIC = Address(channel="telegram", chat_id="-1001", thread_id="42")

OTHER_BOT = 777
PUBLIC = "https://bot.example"

QUICK = Timing(retry_base_s=0.01, retry_cap_s=0.05, conflict_s=0.01, album_quiet_s=1.0, webhook_check_s=0.05)
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
        self._keyboards: dict[tuple[str, str], Any] = {}  # as clients saw them before the first press
        super().__init__(workspace)

    @property
    def private(self) -> Address:
        return PRIVATE

    @property
    def thread(self) -> Address:
        return TOPIC

    @property
    def group(self) -> Address:
        return GROUP

    def build(self, *, token: str = "", **section: object) -> TelegramChannel:
        # The port is known once the server was up; before that the channel waits for it anyway.
        values = {"token": token or self.secret, "api_url": self.api.url, "allow_from": "*", **section}
        return TelegramChannel.create(self.context(TelegramChannel.config_cls.model_validate(values)), QUICK)

    async def server_up(self) -> None:
        first_time = not self.api.port
        await self.api.come_up()
        if first_time:
            self.replace_channel(self.build())

    async def until(self, state: ChannelState) -> None:
        await super().until(state)
        if state is ChannelState.READY and isinstance(self.channel, TelegramChannel):
            async with asyncio.timeout(10):
                await self.channel.editing.known.wait()  # before that there are no drafts

    async def server_down(self) -> None:
        await self.api.go_down()

    def person_says(self, address: Address, text: str) -> str:
        return self._say(address, text=text if int(address.chat_id) > 0 else self.api.mention(text))

    def person_mutters(self, address: Address, text: str) -> str:
        return self._say(address, text=text)

    def person_replies(self, address: Address, message_id: str, text: str, *, fragment: str = "") -> str:
        return self._say(address, text=text, reply_to=int(message_id), quote=fragment or None)

    def bot_says(self, address: Address, text: str, *, mentions: bool) -> str:
        said = self.api.mention(text) if mentions else text
        return self._say(address, text=said, is_bot=True, user_id=OTHER_BOT, first_name="Other")

    def echo(self, address: Address, text: str) -> None:
        me = self.api.world.bot
        self._say(address, text=text, is_bot=True, user_id=me["id"], first_name=me["first_name"])

    def person_sends_file(
        self, address: Address, name: str, content: bytes, caption: str = "", *, size_bytes: int | None = None
    ) -> str:
        ref = self.api.add_file(content, name, size_bytes=size_bytes)
        size = len(content) if size_bytes is None else size_bytes
        document = {"file_id": ref, "file_unique_id": f"u{ref}", "file_name": name, "file_size": size}
        said = caption if int(address.chat_id) > 0 else f"{self.api.mention().upper()} {caption}"
        return self._say(address, caption=said, extra={"document": document})

    def _say(self, address: Address, **said: Any) -> str:
        chat_id = int(address.chat_id)
        thread_id = int(address.thread_id) if address.thread_id else None
        who = {"user_id": int(self.person_id), **said}
        self._last_update = self.api.user_says(chat_id, thread_id=thread_id, **who)
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
        return [self._shown(message) for message in chat.messages.values() if self.api.world.is_own(message)]

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

    def lose_later_answer(self) -> None:
        self.api.faults.add(Fault(method="sendMessage"))  # the first goes through
        self.lose_answer()

    def lose_request(self) -> None:
        self.api.faults.add(Fault(method="sendMessage", drop_before=True))

    def fail_download(self) -> None:
        self.api.faults.add(Fault(method="getFile", drop_before=True))

    def press_button(self, address: Address, message_id: str, label: str) -> None:
        message = self.api.world.chats[int(address.chat_id)].messages[int(message_id)]
        shown: dict[str, Any] = message.get("reply_markup") or {"inline_keyboard": []}
        rows = self._keyboards.setdefault((address.chat_id, message_id), shown)["inline_keyboard"]
        data = next(button["callback_data"] for row in rows for button in row if button["text"] == label)
        self.press_forged(address, message_id, data)

    def press_forged(self, address: Address, message_id: str, data: str) -> None:
        chat = self.api.world.chats[int(address.chat_id)]
        now = chat.messages[int(message_id)]
        button = {"text": "?", "callback_data": data}
        chat.messages[int(message_id)] = {**now, "reply_markup": {"inline_keyboard": [[button]]}}
        self._last_update = self.api.press(chat.id, int(message_id), data, user_id=int(self.person_id))
        chat.messages[int(message_id)] = now

    def told_presser(self) -> list[str]:
        return [str(call.params.get("text", "")) for call in self.api.calls("answerCallbackQuery") if call.ok]

    def person_reacts(self, address: Address, message_id: str, emoji: str) -> None:
        self._last_update = self.api.react(int(address.chat_id), int(message_id), emoji, user_id=int(self.person_id))

    def rate_limit_edits(self, address: Address, seconds: int) -> None:
        self.api.faults.add(too_many_requests("editMessageText", seconds, chat_id=int(address.chat_id)))

    def _shown(self, message: dict[str, Any]) -> Shown:
        text = str(message.get("text", message.get("caption", "")))
        entities = message.get("entities") or message.get("caption_entities") or []
        bold = [_passage(text, e["offset"], e["length"]) for e in entities if e["type"] == "bold"]
        thread_id = message.get("message_thread_id")
        rows = message.get("reply_markup", {}).get("inline_keyboard", [])
        files = [self.api.world.files[ref][1] for ref in _file_ids(message)]
        return Shown(
            text=text,
            id=str(message["message_id"]),
            thread_id=None if thread_id is None else str(thread_id),
            reply_to=str(message.get("reply_to_message", {}).get("message_id", "")),
            bold=tuple(bold),
            buttons=tuple(str(button["text"]) for row in rows for button in row),
            files=tuple(files),
        )


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


def _file_ids(message: dict[str, Any]) -> list[str]:
    """Return the platform's handles of the files in a message; of a picture, that of its largest size."""
    media = [message[kind] for kind in ("document", "voice", "audio", "video") if kind in message]
    return [str(item["file_id"]) for item in [*media, *message.get("photo", [])[-1:]]]


def _passage(text: str, offset: int, length: int) -> str:
    units = text.encode("utf-16-le")
    assert utf16_length(text) >= offset + length
    return units[offset * 2 : (offset + length) * 2].decode("utf-16-le")
