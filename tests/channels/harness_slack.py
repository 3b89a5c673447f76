"""Slack for the channel contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from bot.interfaces import ChannelState, MenuCommand
from bot.messages import Address
from channels.slack import SlackChannel
from channels.slack.config import Timing
from channels.slack.rendering import PART_UNITS
from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_faults import Fault, too_many_requests
from tests.platforms.slack_objects import BOT_ID, BOT_USER_ID, block_text
from tests.support.channel_harness import ChannelHarness, Feature, Shown

ADA = "U0ADA000001"
DM = "D0ADA000001"
TEAM = "C0TEAM00001"
ROOT = "1700000000.000100"

PRIVATE = Address(channel="slack", chat_id=DM)
GROUP = Address(channel="slack", chat_id=TEAM)
THREAD = Address(channel="slack", chat_id=TEAM, thread_id=ROOT)

QUICK = Timing(retry_base_s=0.01, retry_cap_s=0.05, heartbeat_s=0.5, connect_s=2.0, flush_s=0.01, rescan_s=0.05)
"""The channel's waits, short enough for tests."""


class SlackHarness(ChannelHarness):
    """The Slack channel beside the loopback Slack."""

    name: ClassVar[str] = "slack"
    limit: ClassVar[int] = PART_UNITS
    secret: ClassVar[str] = "xoxb-very-secret-Token"
    app_secret: ClassVar[str] = "xapp-very-secret-Token"
    person_id: ClassVar[str] = ADA
    # A reply is a message in a thread here: it points at no message in particular.
    features: ClassVar[frozenset[Feature]] = frozenset(Feature) - {Feature.QUOTES, Feature.FRAGMENTS}

    def __init__(self, workspace: Path) -> None:
        self.api = SlackApi(self.secret, self.app_secret)
        self.api.add_dm(channel_id=DM)
        self.api.add_channel(TEAM, "team")
        self.api.add_thread(TEAM, "root", ts=ROOT)
        super().__init__(workspace)

    @property
    def private(self) -> Address:
        return PRIVATE

    @property
    def thread(self) -> Address:
        return THREAD

    @property
    def group(self) -> Address:
        return GROUP

    def build(self, *, token: str = "", **section: object) -> SlackChannel:
        # The port is known once the server was up; before that the channel waits for it anyway.
        values = {"bot_token": f"xoxb-{token}" if token else self.secret, "app_token": self.app_secret}
        values |= {"api_url": self.api.url, "allow_from": "*"}
        return SlackChannel.create(self.context(SlackChannel.config_cls.model_validate({**values, **section})), QUICK)

    async def server_up(self) -> None:
        first_time = not self.api.port
        await self.api.come_up()
        if first_time:
            self.replace_channel(self.build())

    async def server_down(self) -> None:
        await self.api.go_down()

    def person_says(self, address: Address, text: str) -> str:
        said = text if address.chat_id.startswith("D") else self.api.mention(text)
        return self.api.user_says(address.chat_id, said, thread_ts=address.thread_id)

    def person_mutters(self, address: Address, text: str) -> str:
        return self.api.user_says(address.chat_id, text, thread_ts=address.thread_id)

    def person_replies(self, address: Address, message_id: str, text: str, *, fragment: str = "") -> str:
        return self.api.user_says(address.chat_id, text, thread_ts=message_id)

    def bot_says(self, address: Address, text: str, *, mentions: bool) -> str:
        said = self.api.mention(text) if mentions else text
        return self.api.other_bot_says(address.chat_id, said, thread_ts=address.thread_id)

    def echo(self, address: Address, text: str) -> None:
        self.api.user_says(address.chat_id, text, user_id=BOT_USER_ID, extra={"bot_id": BOT_ID})

    def person_sends_file(
        self, address: Address, name: str, content: bytes, caption: str = "", *, size_bytes: int | None = None
    ) -> str:
        stored = self.api.add_file(name, content, size_bytes=size_bytes)
        said = caption if address.chat_id.startswith("D") else self.api.mention(caption)
        return self.api.user_says(address.chat_id, said, files=[stored], thread_ts=address.thread_id)

    def fail_download(self) -> None:
        self.api.faults.add(Fault(method="file", drop_before=True, times=None))

    def press_button(self, address: Address, message_id: str, label: str) -> None:
        self.api.press(address.chat_id, message_id, label)

    def press_forged(self, address: Address, message_id: str, data: str) -> None:
        messages = self.api.world.conversations[address.chat_id].messages
        now = messages[message_id]
        text = {"type": "plain_text", "text": "?"}
        button = {"type": "button", "text": text, "action_id": f"dutiful_{data}", "value": data}
        forged = {"type": "actions", "block_id": "forged", "elements": [button]}
        messages[message_id] = {**now, "blocks": [*now["blocks"], forged]}
        self.api.press(address.chat_id, message_id, data)
        messages[message_id] = now

    def told_presser(self) -> list[str]:
        return [ephemeral.text for ephemeral in self.api.ephemerals]

    def person_reacts(self, address: Address, message_id: str, emoji: str) -> None:
        self.api.react(address.chat_id, message_id, {"👍": "+1"}[emoji])

    def rate_limit_edits(self, address: Address, seconds: int) -> None:
        self.api.faults.add(too_many_requests("chat.update", seconds, channel=address.chat_id))

    @asynccontextmanager
    async def gap(self, *, resumable: bool) -> AsyncIterator[None]:
        self.api.socket.loses_events = not resumable
        try:
            async with super().gap(resumable=resumable):
                yield
        finally:
            self.api.socket.loses_events = False

    def person_edits(self, address: Address, message_id: str, text: str) -> None:
        self.api.edit(address.chat_id, message_id, text)

    def redeliver(self) -> None:
        self.api.redeliver()

    async def until_confirmed(self) -> None:
        await self.api.wait_for(self.is_confirmed)

    def is_confirmed(self) -> bool:
        return self.api.is_acknowledged()

    def shown(self, address: Address) -> list[Shown]:
        return [self._shown(address, message) for message in self.api.messages(address.chat_id)]

    def typing_at(self) -> list[Address]:
        return [
            Address(channel="slack", chat_id=channel, thread_id=ts)
            for channel, ts, status in self.api.world.statuses
            if status
        ]

    def rate_limit(self, address: Address, seconds: int) -> None:
        self.api.faults.add(too_many_requests("chat.postMessage", seconds, channel=address.chat_id))

    def lock_out(self, address: Address) -> None:
        self.api.world.conversations[address.chat_id].members.discard(BOT_USER_ID)

    def lose_answer(self) -> None:
        self.api.faults.add(Fault(method="chat.postMessage", drop_after=True))

    def lose_later_answer(self) -> None:
        self.api.faults.add(Fault(method="chat.postMessage"))  # the first goes through
        self.lose_answer()

    def lose_request(self) -> None:
        self.api.faults.add(Fault(method="chat.postMessage", drop_before=True))

    def _shown(self, address: Address, message: dict[str, Any]) -> Shown:
        blocks = message.get("blocks", [])
        text = "\n".join(filter(None, (block_text(block) for block in blocks if block["type"] != "context")))
        thread_ts = message.get("thread_ts")
        return Shown(
            text=text if blocks else str(message.get("text", "")),
            id=str(message["ts"]),
            thread_id=thread_ts,
            reply_to=self._above(address, message) if thread_ts else "",
            bold=tuple(element["text"] for element in _runs(blocks) if element.get("style", {}).get("bold")),
            buttons=tuple(_labels(blocks)),
            files=tuple(self.api.world.files[item["id"]].content or b"" for item in message.get("files", [])),
        )

    def _above(self, address: Address, message: dict[str, Any]) -> str:
        """Return what a message in a thread answers: what people wrote last before it. Slack has no other link."""
        replies = self.api.world.conversations[address.chat_id].replies(message["thread_ts"])
        people = [reply["ts"] for reply in replies if reply["ts"] < message["ts"] and reply["user"] != BOT_USER_ID]
        return str(people[-1]) if people else str(message["thread_ts"])


@asynccontextmanager
async def served(workspace: Path) -> AsyncIterator[SlackHarness]:
    """Have the platform up and the channel built but not started."""
    made = SlackHarness(workspace)
    await made.server_up()
    try:
        yield made
    finally:
        await made.stop()
        await made.server_down()


@asynccontextmanager
async def running(harness: SlackHarness) -> AsyncIterator[SlackHarness]:
    """Start the channel and wait until it is connected; the fixture stops it."""
    harness.start()
    await harness.until(ChannelState.READY)
    yield harness


def built(harness: SlackHarness, timing: Timing, *, menu: Sequence[MenuCommand] = ()) -> SlackChannel:
    """Return a channel for the harness's platform with other waits, or with slash commands."""
    values = {"bot_token": harness.secret, "app_token": harness.app_secret, "api_url": harness.api.url}
    section = SlackChannel.config_cls.model_validate({**values, "allow_from": "*"})
    return SlackChannel.create(replace(harness.context(section), menu=lambda: menu), timing)


def _runs(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the text elements of rich text blocks, in order."""
    found: list[dict[str, Any]] = []
    for block in blocks:
        if "elements" in block and block["type"].startswith("rich_text"):
            found += _runs(block["elements"])
        elif block["type"] in {"text", "link"}:
            found.append(block)
    return found


def _labels(blocks: list[dict[str, Any]]) -> list[str]:
    """Return what people see of buttons: those that can be pressed, and the one that was."""
    return [
        element["text"]["text"] if block["type"] == "actions" else element["text"]
        for block in blocks
        if block["type"] in {"actions", "context"}
        for element in block["elements"]
    ]
