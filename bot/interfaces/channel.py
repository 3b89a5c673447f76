"""What the engine asks of a chat platform, what it gives it, and the doorbell between its parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Protocol

from pydantic import BaseModel

from bot.clock import Clock
from bot.interfaces.store import Cursors
from bot.messages import (
    Address,
    Attachment,
    ButtonPress,
    InboundMessage,
    OutboundMessage,
    Quote,
    Reaction,
)
from bot.records import Acceptance, OutboxRow, PressOutcome


class Topic(StrEnum):
    """What a doorbell rings for."""

    INBOUND = "inbound"  # a message waits for a turn
    OUTBOUND = "outbound"  # a message waits to be sent
    JOBS = "jobs"  # the next due time may have changed


class Signal(Protocol):
    """A doorbell that may be lost: whoever waits must also look at the rows now and then."""

    def notify(self, topic: Topic) -> None:
        """Wake whoever waits for the topic; never blocks."""

    async def wait(self, topic: Topic, timeout_s: float | None) -> bool:
        """Wait until the topic was notified since the last wait; False after `timeout_s`."""


class ChannelState(StrEnum):
    """How a channel stands, for status and readiness."""

    STARTING = "starting"  # not connected yet, trying
    READY = "ready"  # receives and sends
    OFFLINE = "offline"  # lost its platform, trying again
    FAILED = "failed"  # its configuration is refused; off until that changes


class Intake(Protocol):
    """What a channel may do with what it receives; implemented by the bus."""

    async def publish_inbound(self, message: InboundMessage) -> Acceptance:
        """Commit a message. Only after this returned may the platform be told that it was received."""

    async def publish_edit(self, message: InboundMessage) -> Acceptance:
        """Replace the text of a message that still waits; an edit of a handled one is ignored."""

    async def publish_press(self, press: ButtonPress) -> PressOutcome:
        """Commit the press of a button under one of our messages: what it says is looked up, never taken from outside.

        The first press of a message counts. Only after this returned may the platform be told.
        """

    async def publish_reaction(self, reaction: Reaction) -> Acceptance:
        """Commit a reaction to one of our messages; one to anything else is refused."""

    async def note_zone(self, channel: str, user_id: str, zone: str) -> None:
        """Keep the time zone that a person's profile on the platform names; what they chose themselves wins."""

    async def publish_unparsed(self, *, channel: str, account: str, update_id: str, raw: str, error: str) -> None:
        """Keep an update that could not be parsed."""

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Move everything of a chat to its new id."""

    async def close_chat(self, address: Address, error: str) -> int:
        """The bot was blocked or removed: stop sending there, pause its jobs."""

    async def reopen_chat(self, address: Address) -> None:
        """The bot was let in again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuCommand:
    """A slash command for a platform's menu: its name without the slash, and one line about it."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelContext:
    """What a channel is built from. `section` is an instance of the channel's own `config_cls`.

    `menu` gives the slash commands once the channel runs; they are not known before.
    """

    section: BaseModel
    intake: Intake
    cursors: Cursors
    clock: Clock
    workspace: str
    bot_name: str = "Dutiful"
    language: str = "en"  # of the channel's own few words
    menu: Callable[[], Sequence[MenuCommand]] = field(default=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The unfinished text of a turn, to be shown as one message that is edited as it grows.

    `draft_id` is the platform's id of that message, empty for the first time. `key` is the same for all drafts of
    a turn and of no other: where a platform can tell a repeated send by such a mark, it shall. `maybe_since_us` is
    when a process that died may have begun to show it, 0 where none can have.
    """

    address: Address
    text: str
    draft_id: str = ""
    reply_to: str = ""
    key: str = ""
    maybe_since_us: int = 0


class SendProgress(Protocol):
    """The parts of one message that are already on the platform."""

    outbox_id: int
    sent_ids: list[str]

    async def sent(self, platform_id: str, *, more: bool = False) -> None:
        """Note that the next part is out, before `more` parts are tried; committed here unless it is the last."""


class Channel(ABC):
    """One chat platform. A module or package `channels.NAME` exposes exactly one concrete subclass.

    Life: `create`, then `run` until cancelled (it supervises its own connection and never ends by itself
    except with `ChannelAuthError`), sends at any time while state is ready, then `close`.
    """

    name: ClassVar[str]
    config_cls: ClassVar[type[BaseModel]]
    format_hint: ClassVar[str] = "Markdown is fine."  # one line for the system prompt
    draft_interval_s: ClassVar[float | None] = None  # how often a draft may change; None: no drafts
    draft_group_interval_s: ClassVar[float | None] = None  # the same in groups; None: as in private chats
    draft_least_bytes: ClassVar[int] = (
        24  # of UTF-8: what is shorter is no message yet; some words, in Chinese a clause
    )
    draft_gap_s: ClassVar[float] = 0.0  # between any two drafts of the channel, whatever chats they are in
    finds_drafts: ClassVar[bool] = False  # by `Draft.key`, also the one that a process which died has shown
    needed: ClassVar[bool] = True  # whether the bot is unready while this channel is not ready

    problem: str = ""  # why it is not ready, free of secrets
    _state = ChannelState.STARTING
    _listener: Callable[[], None] | None = None

    @property
    def state(self) -> ChannelState:
        """How the channel stands."""
        return self._state

    @state.setter
    def state(self, state: ChannelState) -> None:
        changed = state is not self._state
        self._state = state
        if changed and self._listener is not None:
            self._listener()

    def on_state_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the state changes; one listener only."""
        self._listener = listener

    @classmethod
    @abstractmethod
    def create(cls, context: ChannelContext) -> Channel:
        """Build without network or slow imports."""

    @abstractmethod
    async def run(self) -> None:
        """Receive until cancelled. Raises `ChannelAuthError` when the platform refuses the token."""

    @abstractmethod
    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """Send all parts that are not in `progress.sent_ids`, reporting each as soon as it is out.

        When this returns, `progress.sent_ids` has the platform's id of every part, in order. How a message is
        parted must not change from one try to the next: a later one goes on behind the parts that are out.

        Raises:
            SendUncertain: the next part may have arrived.
            RateLimited: nothing may be sent for a while, to this chat or `everywhere`.
            SendRejected, ChatGone, ChatMigrated, ChannelAuthError: see `bot/errors.py`.
            ChannelError: the next part did not arrive and may be tried again.
        """

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:  # noqa: ARG002 - part of the seam
        """Look up which parts of a send with an unknown outcome arrived.

        `row.sent_ids` are the parts known to be out; where the outcome of one stays unknown for good, an entry
        stands for it that is no id of the platform. Returns the platform ids of the parts that are out, from the
        first one on: all, some, or () when the next one can be sent without doubling anything. None when that
        cannot be known.

        Raises:
            ChannelError: it cannot be looked up now; asked again later if it is retryable.
        """
        return None

    async def typing(self, address: Address) -> None:
        """Show that an answer is being worked on; errors are the channel's own affair."""

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:  # noqa: ARG002 - the seam
        """Download an inbound file to the chat's folder; returns it with `path`, or with `error` set."""
        return replace(attachment, error="this channel cannot fetch files")

    async def earlier(self, message: InboundMessage) -> tuple[Quote, ...]:  # noqa: ARG002 - part of the seam
        """Return what was said in the message's thread before it, oldest first; asked when a conversation begins."""
        return ()

    async def seen(self, address: Address, message_id: str) -> None:
        """Mark a message as seen by the bot, where the platform has such a mark; best effort."""

    async def show_draft(self, draft: Draft) -> str:
        """Show unfinished text and return the id of the message it stands in, '' where none is needed.

        What is too long for one message is shown as far as it fits. Called at this channel's own pace, one call
        of a turn after the other, and never cancelled while the platform is asked but for a shutdown.

        Raises:
            RateLimited: nothing may be shown in this chat for `retry_after_s`.
            SendUncertain: a first draft may stand there, and `key` cannot tell; there will be no other.
            ChannelError: it was not shown; the next one may be if `retryable`, else none of this turn.
        """
        return draft.draft_id

    async def drop_draft(self, address: Address, draft_id: str) -> None:
        """Remove a draft that no final text will replace; one that is gone already is a success.

        Raises:
            ChannelError: it may stand there still; asked again if that helps. Never `SendUncertain`.
        """

    def private_address(self, user_id: str) -> Address | None:  # noqa: ARG002 - part of the seam
        """Return where one person can be written to in private, if the id alone tells."""
        return None

    def last_poll_age_s(self) -> float | None:
        """Seconds since the platform was last asked for news; None where that means nothing."""
        return None

    async def close(self) -> None:
        """Let go of connections; idempotent."""
