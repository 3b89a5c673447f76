"""Turns and what they are made of: messages that wait, model calls' tool calls, and how a turn ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bot.memories import MemoryStep
from bot.messages import Address, InboundMessage, Origin, OutboundMessage, ToolCall, Usage
from bot.records.goals import Goal, GoalStep
from bot.records.jobs import RunState
from bot.records.subagents import SubagentState

Message = dict[str, Any]
"""One chat.completions message, as it is stored in history and sent to a provider."""


class Acceptance(StrEnum):
    """What became of an inbound message."""

    ACCEPTED = "accepted"  # committed; the platform may be told
    DUPLICATE = "duplicate"  # committed before; the platform may be told again
    REFUSED = "refused"  # the sender may not speak here; nothing is stored
    UPDATED = "updated"  # an edit replaced the text of a message that still waits


@dataclass(frozen=True, slots=True, kw_only=True)
class PressOutcome:
    """What became of a button press. `label` is that of the button that counts, '' where there is none.

    ACCEPTED: this press counts. DUPLICATE: the message was answered before, by the button `label`. REFUSED: the
    person may not speak here, or there is no such button any more.
    """

    acceptance: Acceptance
    label: str = ""


class TurnState(StrEnum):
    """How a turn stands."""

    RUNNING = "running"  # a worker has it, or had it when it died
    DONE = "done"  # answered
    FAILED = "failed"  # ended with a visible failure notice
    STOPPED = "stopped"  # ended by /stop
    DEAD = "dead"  # killed the process too often; dead letter and notice


class CallState(StrEnum):
    """How far a tool call has come."""

    PENDING = "pending"  # the model asked for it
    STARTED = "started"  # a call of class `once` may have had its effect
    DONE = "done"  # its result is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """An inbound message with its row id and the instant it was committed."""

    id: int
    message: InboundMessage
    received_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A claimed turn: proof of a lease, to be shown with every write (`owner`, `fence`).

    `attempt` counts claims from 1; above 1 the turn is being resumed. `step` is the number of steps already
    recorded, `has_rows` says that its user message is in the session's history already.
    """

    id: int
    lane: str
    session_id: int
    owner: str
    fence: int
    attempt: int
    step: int
    messages: tuple[QueuedMessage, ...]
    has_rows: bool = False
    zone: str = ""  # the sender's own time zone; empty: the configured default
    draft_id: str = ""
    goal: Goal | None = None  # the session's goal under way, as it was when the turn was claimed
    shares_memory: bool = False  # its sender lets groups know what their memory marks as shared
    model: str = ""  # the preset it runs with from its beginning to its end; "" is the default model

    @property
    def address(self) -> Address:
        """Where its answer goes."""
        return self.messages[0].message.address

    @property
    def origin(self) -> Origin:
        """Who caused it."""
        return self.messages[0].message.origin

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the origin attached to the first message."""
        return self.messages[0].message.meta

    @property
    def home_session_id(self) -> int:
        """The conversation that what this turn starts belongs to: a scheduled task's is the one it was made in."""
        return int(self.meta.get("session_id") or self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """How things stand for showing a turn's unfinished text.

    `draft_id` is the platform message that shows it now, '' when there is none (any more). Before `held_until_us`
    (on the scale of waits) nothing may go to the chat. `is_next` says that nothing else waits to be sent to the
    turn's address.
    `newest_outbox_id` (over all chats) and `message_count` (of the turn) tell later whether anything was added.
    """

    draft_id: str
    held_until_us: int
    is_next: bool
    newest_outbox_id: int
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The outcome of one call, as recorded and as the model will see it."""

    call_id: str
    text: str
    is_error: bool = False
    blocks: tuple[Message, ...] = ()  # content blocks beside the text, such as images


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A tool call of a turn and, once it is done, its result."""

    call: ToolCall
    state: CallState
    result: CallResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Everything that becomes true when a turn ends, written in one transaction.

    `rows` go to the turn's session, `chat_rows` to the chat's conversation that the turn was born in, or to the
    current one when that is gone (a job's final text belongs to the chat's history although the job has a lane of
    its own). `session_title` is that of the new session. `context_tokens` is the estimate of the last request.
    """

    state: TurnState
    rows: tuple[Message, ...] = ()
    chat_rows: tuple[Message, ...] = ()
    outbound: tuple[OutboundMessage, ...] = ()
    inbound: tuple[InboundMessage, ...] = ()
    new_session: bool = False
    session_title: str = ""
    context_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    error: str = ""
    run_id: int | None = None
    run_state: RunState | None = None
    pause_job: bool = False  # the run's job does not fire again until somebody resumes it
    subagent_id: str = ""
    subagent_state: SubagentState | None = None
    goal: GoalStep | None = None
    memory: MemoryStep | None = None
