"""A chat platform in memory: what the bot sends is kept, and sends fail as the test wants."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from bot.errors import SendRejected
from bot.interfaces import Channel, ChannelContext, ChannelState, Draft, SendProgress
from bot.messages import Address, Attachment, OutboundKind, OutboundMessage
from bot.records import OutboxRow
from tests.platforms.loopback import Bell


class MemoryConfig(BaseModel):
    """No keys."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """One message as people see it; a part of one where the platform splits."""

    address: Address
    text: str
    kind: OutboundKind
    id: str
    reply_to: str
    message: OutboundMessage


class MemoryChannel(Channel):
    """Holds everything that was sent. `part_chars` splits longer texts.

    `failures` are taken one per send (None: that one succeeds); a pair (n, error) fails after n parts are out.
    A chat in `held` does not get its message until the event is set. `draft_failures` are taken one per draft.
    `screens` is what people see now, by address and platform id.
    """

    name: ClassVar[str] = "memory"
    config_cls: ClassVar[type[BaseModel]] = MemoryConfig

    def __init__(self, *, part_chars: int = 100_000) -> None:
        self.arrived: list[Arrived] = []
        self.attempts: list[OutboundMessage] = []
        self.drafts: list[tuple[str, str]] = []
        self.draft_failures: deque[BaseException | None] = deque()
        self.draft_gate: asyncio.Event | None = None  # drafts are shown once it is set
        self.drafts_asked = 0
        self.dropped: list[str] = []
        self.knows_keys = False  # a repeated first draft is told by its key
        self.seen_ids: list[str] = []
        self.screens: dict[Address, dict[str, str]] = {}
        self._keys: dict[str, str] = {}
        self.typing_at: list[Address] = []
        self.failures: deque[BaseException | tuple[int, BaseException] | None] = deque()
        self.found: tuple[str, ...] | None = None
        self.held: dict[str, asyncio.Event] = {}
        self.bell = Bell()
        self.part_chars = part_chars
        self.fetched: dict[str, str] = {}
        self._next_id = 100
        self.state = ChannelState.READY

    @classmethod
    def create(cls, context: ChannelContext) -> MemoryChannel:
        """See `Channel.create`."""
        return cls()

    async def run(self) -> None:
        """See `Channel.run`."""
        await asyncio.Event().wait()

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        self.attempts.append(message)
        self.bell.ring()
        failure = self.failures.popleft() if self.failures else None
        limit, error = failure if isinstance(failure, tuple) else (0, failure)
        if message.address.chat_id in self.held:
            await self.held[message.address.chat_id].wait()
        parts = [message.text[at : at + self.part_chars] for at in range(0, len(message.text), self.part_chars)]
        for index, part in enumerate(parts or [""]):
            if index < len(progress.sent_ids):
                continue
            if error is not None and index >= limit:
                raise error
            identity = self._put(message, part, edit=message.draft_id if index == 0 else "")
            await progress.sent(identity, more=index < len(parts) - 1)

    def _put(self, message: OutboundMessage, text: str, *, edit: str) -> str:
        screen = self.screens.setdefault(message.address, {})
        identity = edit if edit in screen else f"m{self._next_id}"
        self._next_id += 1
        screen[identity] = text
        self.arrived.append(
            Arrived(
                address=message.address,
                text=text,
                kind=message.kind,
                id=identity,
                reply_to=message.reply_to,
                message=message,
            )
        )
        self.bell.ring()
        return identity

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:
        """See `Channel.find_sent`."""
        return self.found

    async def typing(self, address: Address) -> None:
        """See `Channel.typing`."""
        self.typing_at.append(address)
        self.bell.ring()

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:
        """See `Channel.fetch`; `fetched` maps refs to paths."""
        if attachment.ref not in self.fetched:
            return replace(attachment, error="the file is gone")
        return replace(attachment, path=self.fetched[attachment.ref])

    async def show_draft(self, draft: Draft) -> str:
        """See `Channel.show_draft`."""
        self.drafts_asked += 1
        self.bell.ring()
        failure = self.draft_failures.popleft() if self.draft_failures else None
        if failure is not None:
            raise failure
        known = self._keys.get(draft.key, "") if self.knows_keys else ""
        identity = draft.draft_id or known or f"d{self._next_id}"
        self._next_id += 1
        if self.draft_gate is not None:
            await self.draft_gate.wait()
        screen = self.screens.setdefault(draft.address, {})
        if draft.draft_id and draft.draft_id not in screen:
            raise SendRejected("there is no such message")
        self._keys[draft.key] = identity
        screen[identity] = draft.text
        self.drafts.append((identity, draft.text))
        self.bell.ring()
        return identity

    async def drop_draft(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`; fails as a send does."""
        failure = self.failures.popleft() if self.failures else None
        if isinstance(failure, BaseException):
            raise failure
        self.dropped.append(draft_id)
        self.screens.get(address, {}).pop(draft_id, None)
        self.bell.ring()

    async def seen(self, address: Address, message_id: str) -> None:
        """See `Channel.seen`."""
        self.seen_ids.append(message_id)
        self.bell.ring()

    def screen(self, chat_id: str = "c1", thread_id: str | None = None) -> list[str]:
        """Return what people see in a chat now, drafts included, in order."""
        return list(self.screens.get(Address(channel=self.name, chat_id=chat_id, thread_id=thread_id), {}).values())

    def texts(self, chat_id: str = "c1", thread_id: str | None = None) -> list[str]:
        """Return what people read in a chat, in order."""
        address = Address(channel=self.name, chat_id=chat_id, thread_id=thread_id)
        return [item.text for item in self.arrived if item.address == address]


class DraftingChannel(MemoryChannel):
    """A platform that can show unfinished text."""

    draft_interval_s: ClassVar[float | None] = 0.0


class SecondChannel(MemoryChannel):
    """Another platform."""

    name: ClassVar[str] = "second"
