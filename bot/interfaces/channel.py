"""What the engine asks of a chat platform, what it gives it, and the doorbell between its parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Protocol

from pydantic import BaseModel

from bot.clock import Clock
from bot.interfaces.store import Cursors
from bot.messages import (
    Address,
    Attachment,
    InboundMessage,
    OutboundMessage,
)
from bot.records import (
    Acceptance,
)


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

    async def publish_unparsed(self, *, channel: str, account: str, update_id: str, raw: str, error: str) -> None:
        """Keep an update that could not be parsed."""

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Move everything of a chat to its new id."""

    async def close_chat(self, address: Address, error: str) -> int:
        """The bot was blocked or removed: stop sending there, pause its jobs."""

    async def reopen_chat(self, address: Address) -> None:
        """The bot was let in again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelContext:
    """What a channel is built from. `section` is an instance of the channel's own `config_cls`."""

    section: BaseModel
    intake: Intake
    cursors: Cursors
    clock: Clock
    workspace: str
    bot_name: str = "Dutiful"


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
        """Send all parts not in `progress.sent_ids`, reporting each. Raises a `ChannelError`."""

    async def find_sent(
        self,
        message: OutboundMessage,  # noqa: ARG002 - part of the seam
        outbox_id: int,  # noqa: ARG002 - part of the seam
    ) -> tuple[str, ...] | None:
        """Look up whether an uncertain send arrived: its ids, () when surely not, None when unknowable."""
        return None

    async def typing(self, address: Address) -> None:
        """Show that an answer is being worked on; errors are the channel's own affair."""

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:  # noqa: ARG002 - the seam
        """Download an inbound file to the chat's folder; returns it with `path`, or with `error` set."""
        return replace(attachment, error="this channel cannot fetch files")

    async def show_draft(self, address: Address, text: str, draft_id: str) -> str:  # noqa: ARG002 - the seam
        """Show unfinished text, editing `draft_id` if given; returns the draft's id. Best effort."""
        return draft_id

    def private_address(self, user_id: str) -> Address | None:  # noqa: ARG002 - part of the seam
        """Return where one person can be written to in private, if the id alone tells."""
        return None

    def last_poll_age_s(self) -> float | None:
        """Seconds since the platform was last asked for news; None where that means nothing."""
        return None

    async def close(self) -> None:
        """Let go of connections; idempotent."""
