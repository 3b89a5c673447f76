"""Discord for the channel contract suite."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from bot.clock import Clock
from bot.interfaces import ChannelState
from bot.messages import Address, OutboundMessage
from channels.discord import DiscordChannel
from channels.discord.config import Timing
from channels.discord.positions import id_at
from tests.platforms.discord_api import BOT_ID, DiscordApi
from tests.platforms.discord_faults import Fault, answer_lost, rate_limited
from tests.platforms.discord_objects import Route, buttons_of
from tests.platforms.loopback import Bell
from tests.support.channel_harness import ChannelHarness, Feature, Shown
from tests.support.recording_intake import MemoryCursors, RecordingProgress

GUILD, CHANNEL, THREAD, DM = 1001, 1010, 1042, 1005

OTHER_BOT = 777

PRIVATE = Address(channel="discord", chat_id=str(DM))
IN_CHANNEL = Address(channel="discord", chat_id=str(CHANNEL))
IN_THREAD = Address(channel="discord", chat_id=str(CHANNEL), thread_id=str(THREAD))

QUICK = Timing(reconnect_s=2.0, identify_s=0.0, retry_base_s=0.01, retry_cap_s=0.05, close_s=0.5)
"""The channel's waits, short enough for tests."""

_BOLD = re.compile(r"(?<!\\)\*\*(.+?)(?<!\\)\*\*", re.DOTALL)
_ESCAPED = re.compile(r"\\([^0-9A-Za-z\s])")


class ObservedCursors(MemoryCursors):
    """Cursors that ring when one was set."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.bell = Bell()

    async def set(self, name: str, value: str, *, durable: bool = False) -> None:
        """See `Cursors.set`."""
        await super().set(name, value, durable=durable)
        self.bell.ring()

    async def remove(self, name: str) -> None:
        """See `Cursors.remove`."""
        await super().remove(name)
        self.bell.ring()


class DiscordHarness(ChannelHarness):
    """The Discord channel beside the loopback Discord. The bot was spoken to in private before."""

    name: ClassVar[str] = "discord"
    limit: ClassVar[int] = 2000
    # A reply is to a whole message here, and the channel does not listen to reactions.
    features: ClassVar[frozenset[Feature]] = frozenset(Feature) - {Feature.FRAGMENTS, Feature.REACTIONS}
    secret: ClassVar[str] = "MTIz.very-secret_Token.4567"

    def __init__(self, workspace: Path) -> None:
        self.api = DiscordApi(self.secret)
        self.api.add_dm(int(self.person_id), channel_id=DM)
        self.api.add_channel(CHANNEL, GUILD)
        self.api.add_thread(THREAD, CHANNEL)
        self._last: tuple[int, int] = (DM, 0)  # channel and id of the newest message
        self._outbox_id = 100
        self.timing = QUICK
        super().__init__(workspace)
        self.cursors: ObservedCursors = ObservedCursors(self.clock)
        self.cursors.values[position_name(DM)] = (str(id_at(self.clock.now_us()) - 1), self.clock.now_us())
        self.channel = self.build()

    @property
    def private(self) -> Address:
        return PRIVATE

    @property
    def thread(self) -> Address:
        return IN_THREAD

    @property
    def group(self) -> Address:
        return IN_CHANNEL

    def build(self, *, token: str = "", **section: object) -> DiscordChannel:
        # The port is known once the server was up; before that the channel waits for it anyway.
        values = {
            "token": token or self.secret,
            "api_url": self.api.url,
            "gateway_url": self.api.gateway_url,
            "allow_from": "*",
            **section,
        }
        return DiscordChannel.create(self.context(DiscordChannel.config_cls.model_validate(values)), self.timing)

    async def server_up(self) -> None:
        first_time = not self.api.port
        await self.api.come_up()
        if first_time:
            self.replace_channel(self.build())

    async def server_down(self) -> None:
        await self.api.go_down()

    async def send(self, message: OutboundMessage) -> RecordingProgress:
        # As in the outbox, no two messages have the same id: Discord knows a repeated send by it.
        self._outbox_id += 1
        progress = RecordingProgress(outbox_id=self._outbox_id)
        await self.channel.send(message, progress)
        return progress

    def person_says(self, address: Address, text: str) -> str:
        channel_id = _target(address)
        said = text if channel_id == DM else self.api.mention(text)
        number = self.api.user_says(channel_id, said, user_id=int(self.person_id))
        self._last = channel_id, number
        return str(number)

    def person_mutters(self, address: Address, text: str) -> str:
        return str(self.api.user_says(_target(address), text, user_id=int(self.person_id)))

    def person_replies(self, address: Address, message_id: str, text: str, *, fragment: str = "") -> str:
        where, who = _target(address), int(self.person_id)
        return str(self.api.user_says(where, text, user_id=who, reply_to=int(message_id), ping=False))

    def bot_says(self, address: Address, text: str, *, mentions: bool) -> str:
        said = self.api.mention(text) if mentions else text
        return str(self.api.user_says(_target(address), said, user_id=OTHER_BOT, name="Other", is_bot=True))

    def echo(self, address: Address, text: str) -> None:
        self.api.user_says(_target(address), text, user_id=BOT_ID, is_bot=True)

    def person_sends_file(
        self, address: Address, name: str, content: bytes, caption: str = "", *, size_bytes: int | None = None
    ) -> str:
        channel_id = _target(address)
        stored = self.api.world.store_file(self.api.world.channels[channel_id], name, content, "")
        stored["size"] = len(content) if size_bytes is None else size_bytes
        said = caption if channel_id == DM else self.api.mention(caption)
        number = self.api.user_says(channel_id, said, user_id=int(self.person_id), extra={"attachments": [stored]})
        self._last = channel_id, number
        return str(number)

    def fail_download(self) -> None:
        self.api.faults.add(Fault(route=Route.CDN, drop_before=True, times=None))

    def press_button(self, address: Address, message_id: str, label: str) -> None:
        message = self.api.world.channels[_target(address)].messages[int(message_id)]
        chosen = next(button for button in buttons_of(message) if button["label"] == label)
        self.press_forged(address, message_id, str(chosen["custom_id"]))

    def press_forged(self, address: Address, message_id: str, data: str) -> None:
        message = self.api.world.channels[_target(address)].messages[int(message_id)]
        now = message["components"]
        message["components"] = [{"type": 1, "components": [{"type": 2, "label": "?", "custom_id": data}]}]
        self.api.press(_target(address), int(message_id), data, user_id=int(self.person_id))
        message["components"] = now

    def told_presser(self) -> list[str]:
        made = [one for one in self.api.interactions.by_id.values() if one.ephemeral]
        return [str(message["content"]) for one in made for message in one.messages.values()]

    def person_reacts(self, address: Address, message_id: str, emoji: str) -> None:
        self.api.react(_target(address), int(message_id), emoji, user_id=int(self.person_id))

    def rate_limit_edits(self, address: Address, seconds: int) -> None:
        self.api.faults.add(rate_limited(Route.EDIT_MESSAGE, seconds, channel_id=_target(address)))

    @asynccontextmanager
    async def gap(self, *, resumable: bool) -> AsyncIterator[None]:
        async with super().gap(resumable=resumable):
            yield
            if not resumable:
                self.api.gateway.forget_sessions()

    def person_edits(self, address: Address, message_id: str, text: str) -> None:
        self.api.edit(_target(address), int(message_id), text)

    def redeliver(self) -> None:
        self.api.redeliver()

    async def until_confirmed(self) -> None:
        await self.cursors.bell.wait_for(self.is_confirmed, timeout_s=10)

    def is_confirmed(self) -> bool:
        channel_id, number = self._last
        return self.position(channel_id) >= number

    def position(self, channel_id: int) -> int:
        """Return how far a channel was read, as it is stored."""
        value, _ = self.cursors.values.get(position_name(channel_id), ("0", 0))
        return int(value.split()[0])

    def shown(self, address: Address) -> list[Shown]:
        thread_id = address.thread_id
        return [self._shown(message, thread_id) for message in self.api.own_messages(_target(address))]

    def typing_at(self) -> list[Address]:
        return [self._address(channel_id) for channel_id in self.api.typing]

    def _address(self, channel_id: int) -> Address:
        channel = self.api.world.channels[channel_id]
        if channel.parent_id is None:
            return Address(channel="discord", chat_id=str(channel_id))
        return Address(channel="discord", chat_id=str(channel.parent_id), thread_id=str(channel_id))

    def rate_limit(self, address: Address, seconds: int) -> None:
        self.api.faults.add(rate_limited(Route.CREATE_MESSAGE, seconds, channel_id=_target(address)))

    def lock_out(self, address: Address) -> None:
        if _target(address) == DM:
            self.api.close_dms(int(self.person_id))
        else:
            self.api.hide(_target(address))

    def lose_answer(self) -> None:
        self.api.faults.add(answer_lost())

    def lose_later_answer(self) -> None:
        self.api.faults.add(Fault(route=Route.CREATE_MESSAGE))  # the first goes through
        self.lose_answer()

    def lose_request(self) -> None:
        self.api.faults.add(Fault(route=Route.CREATE_MESSAGE, drop_before=True))

    def _shown(self, message: Mapping[str, Any], thread_id: str | None) -> Shown:
        text, bold = as_seen(str(message["content"]))
        reference = message.get("message_reference") or {}
        return Shown(
            text=text,
            id=str(message["id"]),
            thread_id=thread_id,
            reply_to=str(reference.get("message_id") or ""),
            bold=bold,
            buttons=tuple(str(button["label"]) for button in buttons_of(dict(message))),
            files=tuple(self.api.world.files[item["path"]].content for item in message["attachments"]),
        )


def position_name(channel_id: int) -> str:
    """Return the cursor of a channel's position."""
    return f"discord:{BOT_ID}:at:{channel_id}"


@asynccontextmanager
async def served(workspace: Path, harness: type[DiscordHarness] | None = None) -> AsyncIterator[DiscordHarness]:
    """Have the platform up and the channel built but not started."""
    made = (harness or DiscordHarness)(workspace)
    await made.server_up()
    try:
        yield made
    finally:
        await made.stop()
        await made.server_down()


@asynccontextmanager
async def running(harness: DiscordHarness) -> AsyncIterator[DiscordHarness]:
    """Start the channel and wait until it is connected; the fixture stops it."""
    harness.start()
    await harness.until(ChannelState.READY)
    yield harness


def as_seen(content: str) -> tuple[str, tuple[str, ...]]:
    """Return what people see of a message's text, and its bold passages, as far as the suite needs Discord's markup."""
    bold = tuple(_plain(found) for found in _BOLD.findall(content))
    return _plain(_BOLD.sub(r"\1", content)), bold


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _target(address: Address) -> int:
    return int(address.thread_id or address.chat_id)
