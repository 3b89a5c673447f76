"""The terminal as a chat: whoever sits at this machine, through the control socket.

The channel is ready while at least one terminal is attached. What is due meanwhile waits in the outbox. A
terminal confirms each message it has shown; only then the message counts as sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from bot.clock import Clock
from bot.errors import ChannelError, SendRejected, SendUncertain
from bot.interfaces import Channel, ChannelContext, ChannelState, Draft, Intake, SendProgress
from bot.messages import Address, InboundMessage, OutboundMessage, new_id
from bot.records import Acceptance

ADDRESS = Address(channel="console", chat_id="local")
"""The one conversation of the terminal."""

USER_ID = "local"
"""Whoever can open the control socket (mode 0600) is the owner of the data."""

CONFIRM_S = 10.0  # how long a terminal may take to show a message
_NOBODY = "no terminal is attached"
_BACKLOG = 1_000  # events kept for a terminal that reads slowly

Event = dict[str, Any]


class ConsoleConfig(BaseModel):
    """The section has no keys: its presence lets `dutiful run` start without any other channel."""

    model_config = ConfigDict(extra="forbid")


class Terminal:
    """One attached terminal: events to show, in order."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue(_BACKLOG)

    def push(self, event: Event) -> None:
        """Queue an event; a terminal that does not read loses events rather than memory."""
        if not self.events.full():
            self.events.put_nowait(event)


class ConsoleChannel(Channel):
    """See the module."""

    name: ClassVar[str] = "console"
    config_cls: ClassVar[type[BaseModel]] = ConsoleConfig
    format_hint: ClassVar[str] = "You are talking in a terminal; Markdown is rendered there."
    draft_interval_s: ClassVar[float | None] = 0.05
    draft_least_bytes: ClassVar[int] = 1  # a draft is no message here
    needed: ClassVar[bool] = False

    def __init__(self, intake: Intake, clock: Clock) -> None:
        self._intake = intake
        self._clock = clock
        self._terminals: list[Terminal] = []
        self._confirmations: dict[int, asyncio.Future[None]] = {}

    @classmethod
    def create(cls, context: ChannelContext) -> ConsoleChannel:
        """See `Channel.create`."""
        return cls(context.intake, context.clock)

    async def run(self) -> None:
        """Wait until cancelled: terminals come by themselves."""
        if not self._terminals:
            self._go_offline()
        await asyncio.Event().wait()

    def attach(self) -> Terminal:
        """Add a terminal."""
        terminal = Terminal()
        self._terminals.append(terminal)
        self.problem = ""
        self.state = ChannelState.READY
        return terminal

    def detach(self, terminal: Terminal) -> None:
        """Remove a terminal; messages it did not confirm are shown to the next one. Idempotent."""
        if terminal in self._terminals:
            self._terminals.remove(terminal)
            if not self._terminals:
                self._go_offline()

    async def close(self) -> None:
        """See `Channel.close`."""
        for terminal in list(self._terminals):
            self.detach(terminal)

    async def say(self, text: str, message_id: str = "") -> Acceptance:
        """Publish what somebody typed; `message_id` makes a repeated line harmless."""
        message = InboundMessage(
            address=ADDRESS,
            message_id=message_id or new_id("line-", 12),
            text=text,
            sender_id=USER_ID,
            account="terminal",
            sent_us=self._clock.now_us(),
        )
        return await self._intake.publish_inbound(message)

    def confirm(self, outbox_id: int) -> None:
        """A terminal has shown this message."""
        waiting = self._confirmations.get(outbox_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`: show it and wait for a terminal to confirm."""
        if progress.sent_ids:
            return
        if not message.text.strip() and not message.attachments:
            raise SendRejected("the message is empty")
        if not self._terminals:
            raise ChannelError(_NOBODY)
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirmations[progress.outbox_id] = waiting
        event = {
            "event": "message",
            "outbox": progress.outbox_id,
            "kind": message.kind,
            "text": message.text,
            "answers": message.answers,
            "files": [attachment.path for attachment in message.attachments],
            "buttons": [[button.label for button in row] for row in message.buttons],
        }
        try:
            self._push(event)
            async with asyncio.timeout(CONFIRM_S):
                await waiting
        except TimeoutError as exc:
            raise SendUncertain("no terminal confirmed the message") from exc
        finally:
            del self._confirmations[progress.outbox_id]
        await progress.sent(str(progress.outbox_id))

    async def typing(self, address: Address) -> None:  # noqa: ARG002 - there is one address
        """See `Channel.typing`."""
        self._push({"event": "typing"})

    async def show_draft(self, draft: Draft) -> str:
        """See `Channel.show_draft`; a terminal replaces its own draft and needs no id."""
        self._push({"event": "draft", "text": draft.text})
        return ""

    def turn_ended(self, message_ids: Sequence[str], *, replied: bool) -> None:
        """Tell terminals that the turn of these lines is over; `replied`: a message answering it follows."""
        self._push({"event": "done", "lines": list(message_ids), "replied": replied})

    def _go_offline(self) -> None:
        self.problem = _NOBODY
        self.state = ChannelState.OFFLINE
        for waiting in self._confirmations.values():
            if not waiting.done():
                waiting.set_exception(SendUncertain("the terminal went away"))

    def _push(self, event: Event) -> None:
        for terminal in self._terminals:
            terminal.push(event)
