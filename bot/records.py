"""What the store hands back: frozen snapshots of rows, and the values its verbs take.

A record is true at the moment it was read; the row is the truth afterwards. All instants are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from textwrap import shorten
from typing import Any

from bot.memories import MemoryStep
from bot.messages import Address, ChatType, InboundMessage, Origin, OutboundMessage, ToolCall, Usage
from bot.schedule import Schedule

Message = dict[str, Any]
"""One chat.completions message, as it is stored in history and sent to a provider."""


MOVED = "moved:"
"""How the cursors begin that say which chats have another id now: `moved:channel:new id` holds the old one."""


def moved_prefix(channel: str) -> str:
    """Return how the cursors of `MOVED` begin for a channel."""
    return f"{MOVED}{channel}:"


def moved_variant(variant: str, old_chat_id: str) -> str:
    """Return the variant of a message's identity after its chat got another id, where message ids begin anew."""
    return f"{variant}@{old_chat_id}"


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


class SendState(StrEnum):
    """How far an outbound message has come."""

    QUEUED = "queued"  # waits for its turn, its time or its channel
    SENDING = "sending"  # committed before the platform is called
    SENT = "sent"  # the platform confirmed it
    UNCERTAIN = "uncertain"  # may have arrived; not repeated any more
    DEAD = "dead"  # gave up; listed by `dutiful status`


class JobKind(StrEnum):
    """What a due job does."""

    REMINDER = "reminder"  # its text is delivered as it is, no model involved
    TASK = "task"  # its text starts an agent turn in a lane of its own


class JobState(StrEnum):
    """Whether a job will fire."""

    ACTIVE = "active"  # has a next due time
    PAUSED = "paused"  # keeps its schedule, does not fire
    DONE = "done"  # has no further due time


class RunState(StrEnum):
    """How one firing of a job ended."""

    RUNNING = "running"  # queued or in progress
    OK = "ok"  # its message is in the outbox, or its turn ended well
    FAILED = "failed"  # its turn failed; the chat was told
    INTERRUPTED = "interrupted"  # cut by a crash; resumed once the process is back
    SKIPPED = "skipped"  # the previous run was still going
    MISSED = "missed"  # found too late to be worth catching up


class SubagentState(StrEnum):
    """How a background subagent stands."""

    RUNNING = "running"  # queued or working
    DONE = "done"  # answered
    UNFINISHED = "unfinished"  # out of steps or time; partial result
    FAILED = "failed"  # ended by an error
    INTERRUPTED = "interrupted"  # stopped or killed too often


class GoalState(StrEnum):
    """How a sustained goal stands."""

    OPEN = "open"  # its next turn is queued or running
    PAUSED = "paused"  # goes on when somebody has written and was answered
    DONE = "done"  # the model says it is reached
    BLOCKED = "blocked"  # the model cannot go on
    CANCELLED = "cancelled"  # not wanted any more, as the model was told
    STOPPED = "stopped"  # ended by /stop or /new
    SPENT = "spent"  # its budget is used up
    STALLED = "stalled"  # turn after turn did nothing
    FAILED = "failed"  # its turn was buried

    @property
    def is_current(self) -> bool:
        """Whether the goal is still under way."""
        return self in (GoalState.OPEN, GoalState.PAUSED)


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


TRIED_PART = "?"
"""Last in a row's `sent_ids`: the next part was sent once with an unknown outcome, and is sent once more, since an
answer lost is worse than one doubled (design 4)."""

UNKNOWN_PART = "??"
"""In a row's `sent_ids` in place of a platform id: sent twice, nobody knows whether it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A message the delivery worker holds.

    `sent_ids` has one entry for each part that need not be sent any more: its platform id, or a mark when
    its outcome is unknown. The first try is told twice: by the wall clock, to be compared to what platforms say,
    and on the scale of waits (`Clock.steady_us`), to be compared to now; 0 before it.
    """

    id: int
    message: OutboundMessage
    state: SendState
    attempts: int
    uncertain: int
    created_us: int
    first_try_us: int
    tried_us: int = 0
    sent_ids: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A line of the list of messages. `next_us`: when it is tried, or looked into, next; None where it is not."""

    row: OutboxRow
    next_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPage:
    """A part of the list of messages that are not well sent, of which there are `total`."""

    entries: tuple[OutboxEntry, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxChange:
    """What was changed: `rows`, as they were before; nothing at all if any was `refused`.

    `refused` has the state of each message that cannot be changed so; None: there is no such message.
    """

    rows: tuple[OutboxRow, ...]
    refused: Mapping[int, SendState | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as asked for; the store adds id and state."""

    address: Address
    chat_type: ChatType
    creator_id: str
    kind: JobKind
    text: str
    schedule: Schedule
    next_us: int
    name: str = ""
    max_runs: int | None = None
    catch_up: bool = True
    session_id: int | None = None  # the conversation it is made in; its reports belong there
    model: str = ""  # the preset of a task's turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job. `next_us` is None once it has no further due time."""

    id: str
    address: Address
    chat_type: ChatType
    creator_id: str
    kind: JobKind
    name: str
    text: str
    schedule: Schedule
    state: JobState
    next_us: int | None
    created_us: int
    runs: int
    max_runs: int | None
    catch_up: bool
    last_state: str = ""
    last_error: str = ""
    model: str = ""  # the preset of a task's turns; "": what its chat has chosen by then

    @property
    def title(self) -> str:
        """A short human name: the name, else the beginning of the text."""
        return self.name or shorten(self.text, width=60, placeholder="…")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subagent:
    """A background helper of a chat."""

    id: str
    address: Address
    parent_lane: str
    label: str
    task: str
    state: SubagentState
    reply_to: str
    creator_id: str
    chat_type: ChatType
    started_us: int
    session_id: int | None = None  # the conversation it was spawned in; its outcome belongs there


def outcome_id(subagent_id: str) -> str:
    """Return the message id under which a subagent's outcome comes back."""
    return f"{subagent_id}-outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """What is looked for in a chat's history. Words are matched from their beginning, without case and accents."""

    text: str
    limit: int
    role: str = ""  # "user" or "assistant"; empty: both
    after_us: int | None = None  # from then on
    before_us: int | None = None  # up to, without then
    except_turn_id: int | None = None  # a turn that is not old yet


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryHit:
    """One message that was found: what it says, without what the system added to it."""

    id: int
    role: str
    text: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFindings:
    """What was found, newest first; `is_loose`: no message has all the words, these have some, best first.

    `total` counts beyond the limit of the query, up to 1,000.
    """

    hits: tuple[HistoryHit, ...] = ()
    total: int = 0
    is_loose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem:
    """One item of a goal's plan."""

    text: str
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalBudget:
    """How much a goal may use up: model calls, minutes since its start (time off included), tokens in and out."""

    steps: int
    minutes: int
    tokens: int | None = None  # None: no limit of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A sustained goal of a session.

    `turns`, `steps`, `tokens` and `idle` count the goal's own turns that have ended: its continuations and, from
    `opened_step` on, the turn that opened it.
    """

    id: str
    session_id: int
    address: Address
    chat_type: ChatType
    creator_id: str
    objective: str
    plan: tuple[PlanItem, ...]
    budget: GoalBudget
    started_us: int
    state: GoalState = GoalState.OPEN
    reply_to: str = ""
    opened_turn: int = 0  # set by the store, with the step
    opened_step: int = 0
    turns: int = 0
    steps: int = 0
    tokens: int = 0
    idle: int = 0
    recap: str = ""

    @property
    def title(self) -> str:
        """The beginning of its objective."""
        return shorten(self.objective, width=60, placeholder="…")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalStep:
    """What the end of a turn means for a goal; without effect on a goal that is over already.

    `steps` and `tokens` are added to what was used; `is_turn` says that a continuation of the goal has ended;
    `inbound` is its next continuation, None when none is to be queued now.
    """

    goal_id: str
    state: GoalState
    is_turn: bool = False
    steps: int = 0
    tokens: int = 0
    idle: int = 0
    inbound: InboundMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What is known of a person by their platform id."""

    channel: str
    user_id: str
    zone: str = ""
    shares_memory: bool = False  # what their memory marks as shared may be shown in groups they write in


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that could not be handled or delivered, kept for a human to look at."""

    id: int
    direction: str  # "in" or "out"
    address: Address
    text: str
    error: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Counts for `status`; computed by queries, never kept up by hand."""

    sessions: int
    inbox_queued: int
    turns_running: int
    outbox_queued: int
    outbox_delayed: int  # of those queued, the ones that were tried already and wait for another try
    outbox_uncertain: int
    jobs_active: int
    dead_letters: tuple[DeadLetter, ...]
    dead_letter_count: int
