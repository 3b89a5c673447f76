"""The seams, all on one page: what the engine asks of a store, a signal, a channel, a provider.

Implementations live on higher floors (`bot/store`, `bot/bus.py`, `channels`, `bot/providers`) and are put
together in `bot/app.py` only. Verbs that write are atomic: they return after the commit, or raise
`StoreUnavailable` with nothing changed. Verbs that take a `Turn` raise `StaleLease` when its lease is lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel

from bot.clock import Clock
from bot.conversation import (
    HistoryRow,
    MemoryVersion,
    NewSummary,
    Session,
    SessionPage,
    SessionState,
    SessionWindow,
    Uncovered,
)
from bot.memories import MemoryDue, MemoryHome
from bot.messages import (
    Address,
    Attachment,
    InboundMessage,
    OutboundMessage,
    Replay,
    ToolCall,
    Usage,
)
from bot.records import (
    Acceptance,
    CallRecord,
    CallResult,
    DeadLetter,
    Ending,
    Goal,
    HistoryFindings,
    HistoryQuery,
    Job,
    Message,
    NewJob,
    OutboxRow,
    Person,
    QueuedMessage,
    StoreStatus,
    Subagent,
    Turn,
)

T = TypeVar("T")


# --- store -----------------------------------------------------------------------------------------------


class Inbox(Protocol):
    """Messages that came in, until they are answered."""

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Commit a message durably (power loss included). Raises `QueueFull` at the limit of waiting rows."""

    async def accept_unparsed(self, *, channel: str, account: str, update_id: str, raw: str, error: str) -> None:
        """Keep an update nobody could parse as a dead letter. Idempotent by `update_id`."""

    async def replace_queued(self, message: InboundMessage) -> bool:
        """Give a still queued message the text of its edit; False when it is not queued any more."""


class Turns(Protocol):
    """Claims of work. A claim is a lease of the turn and, through it, of its lane."""

    async def claim(
        self, *, limit: int, channels: Collection[str] | None = None, immediate_only: bool = False
    ) -> list[Turn]:
        """Begin or resume one turn in each of up to `limit` idle lanes with work, oldest message first.

        `attempt` of a resumed turn counts on, without end: the caller buries what came too often. Turns that
        were cut short twice are handed out one at a time, so that only the one that kills the process uses up
        its third attempt. Lines of one sender that waited through an outage come as one turn. `immediate_only`
        leaves everything but commands that act at once for later.
        """

    async def save_draft(self, turn: Turn, draft_id: str) -> None:
        """Remember the platform message that shows the turn's unfinished text."""

    async def finish(self, turn: Turn, ending: Ending) -> bool:
        """End the turn, durably: history, outbox, inbox rows, lease, all in one transaction.

        Returns whether new work waits, in the turn's lane or put there by the ending.
        """

    async def release(self, turn: Turn, *, counts: bool = False) -> None:
        """Give a turn back unfinished; it will be resumed. `counts` says whether this was one of its attempts."""

    async def renew(self, turn_ids: Collection[int]) -> None:
        """Prolong the leases that this instance holds on these turns."""


class Steps(Protocol):
    """What happens inside a turn, recorded so that a crash is a pause."""

    async def record_reply(
        self,
        turn: Turn,
        rows: Sequence[Message],
        calls: Sequence[ToolCall],
        results: Sequence[CallResult] = (),
        usage: Usage | None = None,
    ) -> None:
        """Store new history rows, the last one being a reply that asks for `calls`.

        `usage` is what was used since the last recording; it counts for the turn at once, whatever becomes of it.
        `results` are those of calls that will not be run: why they cannot be used may not be known after a crash.
        """

    async def start_call(self, turn: Turn, call_id: str) -> None:
        """Mark a `once` call as started, before it can have an effect."""

    async def record_result(self, turn: Turn, result: CallResult) -> None:
        """Store one call's result at once; needed when other calls of the step are still open."""

    async def record_step(
        self,
        turn: Turn,
        results: Sequence[CallResult],
        rows: Sequence[Message],
        compose: Callable[[QueuedMessage], Message],
    ) -> tuple[Turn, list[Message]]:
        """Close a step: its results, its tool messages in call order, and what the user wrote meanwhile.

        Waiting messages of the same sender, origin and chat type join the turn; `compose` makes their history
        rows, which are stored after `rows` and returned with the turn as it now is.
        """

    async def calls_of(self, turn: Turn, step: int) -> list[CallRecord]:
        """Return the calls of one step in call order; for `turn.step`, those that a crash left open."""

    async def once(self, turn: Turn, call_id: str, work: Callable[[Unit], CallResult]) -> CallResult:
        """Run `work` and store its result in one durable transaction; a call with a result returns that."""

    async def recall(self, turn: Turn, call_id: str) -> CallResult | None:
        """Return what `once` stored under this id in this turn, None if nothing."""

    async def take_answer(
        self, turn: Turn, message_id: str, compose: Callable[[InboundMessage], CallResult]
    ) -> CallResult | None:
        """Let the message of this id that waits in the turn's lane be a call's result, as `compose` has it, not a turn.

        One durable transaction: the message is done and the result stored. None while no such message waits there.
        """


class History(Protocol):
    """The rows of sessions."""

    async def window(self, session_id: int, *, limit_tokens: int) -> SessionWindow:
        """Return the newest rows that no summary covers, at least `limit_tokens` of them, and what was before.

        They begin with a user row if one is near, and where they begin stays for many turns. What is stored but is no
        message is left out. The rows must not be changed: later windows hold the same ones.
        """

    def forget(self, session_id: int) -> None:
        """Drop what is kept of a conversation in memory for its next turn; must not block or raise."""

    async def count(self, address: Address) -> int:
        """Return how many messages people and the bot wrote in the current session of an address.

        Calls of tools and their results do not count: nobody in the chat saw them.
        """


class Sessions(Protocol):
    """Conversations of an address, the current and the archived ones. They change by `Unit` and by endings."""

    async def page(self, address: Address, *, limit: int, offset: int = 0) -> SessionPage:
        """Return a part of the list of exactly this address, the one begun last first.

        Archived ones in which nothing was said are left out.
        """

    async def state(self, address: Address) -> SessionState:
        """Return how the current conversation of an address stands; one without rows where there is none yet."""


class Summaries(Protocol):
    """Summaries of what is older than the replayed rows of a session."""

    async def uncovered(self, session_id: int) -> Uncovered:
        """Return the rows that no summary covers, without those from the first row of a running turn on."""

    async def save(self, summary: NewSummary) -> bool:
        """Commit text and position together, durably; False when the one it replaces is not there any more."""

    async def charge(self, turn_id: int, usage: Usage) -> None:
        """Count what a summary cost to the turn that gave rise to it."""


class Memory(Protocol):
    """What long-term memory keeps beside its files."""

    async def planned_us(self, channels: Collection[str] | None = None) -> int:
        """Return when runs of these channels (None: of all) were last planned; now, from now on, if never."""

    async def due(self, channels: Collection[str] | None = None) -> list[MemoryDue]:
        """Return the homes in whose conversations something was said since they were last read."""

    async def plan(self, due: Sequence[MemoryDue], *, due_us: int, channels: Collection[str] | None = None) -> int:
        """Queue a run for each home that has none under way, and note the time, in one durable transaction.

        A home and due time get one run, ever. Returns how many were queued.
        """

    async def rows(self, home: MemoryHome, *, after: int, upto: int, limit: int) -> list[HistoryRow]:
        """Return what was said where a home's memory comes from, oldest first, of rows after `after` up to `upto`."""

    async def mark(self, home: MemoryHome) -> int:
        """Return the last row that was read for a home."""

    async def keep(self, home: MemoryHome, body: str, *, reason: str) -> bool:
        """Keep what a memory says as its newest version; False when that says the same already."""

    async def versions(self, home: MemoryHome, *, limit: int) -> list[MemoryVersion]:
        """Return the newest versions, newest first."""

    async def version(self, home: MemoryHome, version_id: int) -> MemoryVersion | None:
        """Return one version of exactly this home, or None."""

    async def forget(self, home: MemoryHome) -> None:
        """Delete all versions, durably; what was said until now will not be read for this memory again."""


class HistorySearch(Protocol):
    """What was said in a chat, by words."""

    async def search(self, address: Address, query: HistoryQuery) -> HistoryFindings:
        """Return messages of people and the bot in all sessions of exactly this address.

        Rows that were not searched before are read first: long for a chat's first search, nothing to a turn.
        """


class Outbox(Protocol):
    """Messages on their way out, ordered per (channel, chat, thread)."""

    async def put(self, message: OutboundMessage) -> int:
        """Commit one message that belongs to no turn; returns its outbox id."""

    async def claim(self, *, limit: int, channels: Collection[str]) -> tuple[list[OutboxRow], int | None]:
        """Mark the sendable heads of up to `limit` order keys as sending, and return them.

        A row that comes in state `sending` is one whose send was cut short: its fate is unknown. The second
        value is when the next row may be sent, None when none waits.
        """

    async def next_due_us(self, channels: Collection[str]) -> int | None:
        """Return when the next queued row may be sent, None when nothing is queued."""

    async def part_sent(self, outbox_id: int, sent_ids: Sequence[str]) -> None:
        """Store the platform ids of the parts sent so far."""

    async def settle(self, outbox_id: int, sent_ids: Sequence[str], *, uncertain: bool = False) -> bool:
        """End a row well: sent, or uncertain when nobody can say. True when another row of its key waits."""

    async def retry(
        self,
        outbox_id: int,
        *,
        not_before_us: int,
        error: str,
        uncertain: bool = False,
        sent_ids: Sequence[str] | None = None,
    ) -> None:
        """Queue a row again for later; `uncertain` counts a send that may have arrived. None keeps the parts."""

    async def delay_chat(self, address: Address, until_us: int) -> None:
        """Hold back everything for a chat until then (rate limit)."""

    async def bury(self, outbox_id: int, error: str) -> None:
        """Make a row a dead letter, so that the next of its key can go."""

    async def close_chat(self, address: Address, error: str) -> int:
        """Bury what is queued for a chat that is gone, pause its jobs and goals; returns the number of jobs paused."""

    async def reopen_chat(self, address: Address) -> None:
        """Note that the chat speaks to us again."""

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Move keys, sessions, jobs and queued rows of a chat to its new id, in one transaction."""

    async def job_of(self, address: Address, platform_id: str) -> str:
        """Return the id of the job whose reminder was sent as this platform message, or ''."""


class FiringComposer(Protocol):
    """Writes the messages of a firing; called on the writer's thread, must be pure."""

    def reminder(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        """Return what the chat reads."""

    def task(self, job: Job, *, run_id: int, due_us: int, now_us: int) -> InboundMessage:
        """Return what the task's own lane works on."""

    def missed(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        """Return the notice that a task was due too long ago to be run."""


class Jobs(Protocol):
    """Scheduled jobs."""

    async def add(self, job: NewJob, *, limit_per_chat: int) -> Job:
        """Commit a job durably. Raises `ScheduleError` at the limit of jobs for the chat."""

    async def list(self, address: Address | None = None) -> list[Job]:
        """Return jobs that are not over, soonest first; of the address's chat, or of all."""

    async def get(self, job_id: str) -> Job | None:
        """Return a job that is not removed, or None."""

    async def remove(self, job_id: str) -> bool:
        """Delete a job; False when there is none."""

    async def run_now(self, job_id: str, composer: FiringComposer) -> bool:
        """Fire a job once now, beside its schedule; False when there is none."""

    async def next_due_us(self, channels: Collection[str] | None = None) -> int | None:
        """Return the earliest due time of all active jobs."""

    async def fire(
        self, composer: FiringComposer, *, catch_up_max_age_us: int, channels: Collection[str] | None = None
    ) -> int:
        """Fire all due jobs in one durable transaction: runs, messages, turns, next due times.

        Several missed due times of one job become one late firing. A recurring job or a task found later than
        `catch_up_max_age_us` is recorded as missed; a one-shot reminder is delivered however late it is.
        Returns how many jobs were due.
        """


class Unit(Protocol):
    """The writes a keyed tool may make inside the transaction that also stores its result.

    Synchronous: it lives inside one transaction on the writer's thread and must not outlive it.
    """

    def now_us(self) -> int:
        """Return the transaction's instant."""

    def put_outbound(self, message: OutboundMessage) -> int:
        """Queue a message; returns its outbox id."""

    def put_inbound(self, message: InboundMessage) -> None:
        """Queue work for the loop."""

    def add_job(self, job: NewJob, *, limit_per_chat: int) -> Job:
        """See `Jobs.add`."""

    def list_jobs(self, address: Address) -> list[Job]:
        """Return the jobs of the address's chat that are not over."""

    def save_job(self, job: Job) -> None:
        """Write back a changed job."""

    def remove_job(self, job_id: str) -> bool:
        """See `Jobs.remove`."""

    def run_job_now(self, job_id: str, composer: FiringComposer) -> bool:
        """See `Jobs.run_now`."""

    def add_subagent(self, subagent: Subagent) -> None:
        """Store a subagent; its work is queued by `put_inbound`."""

    def count_subagents(self, address: Address) -> int:
        """Return how many subagents of a chat are still running."""

    def withdraw_subagents(self, address: Address) -> int:
        """Interrupt the subagents of an address, its thread included, that have not begun; returns how many."""

    def current_goal(self, session_id: int) -> Goal | None:
        """See `Goals.current`."""

    def goals_of(self, address: Address) -> list[Goal]:
        """Return the goals under way in all conversations of an address."""

    def add_goal(self, goal: Goal) -> None:
        """Store a new goal as opened by this turn in its present step; its session must have none under way."""

    def save_goal(self, goal: Goal) -> None:
        """Write back plan, state and recap; a goal that is over takes its queued continuation with it."""

    def find_session(self, address: Address, *, number: int = 0, session_id: int = 0) -> Session | None:
        """Return a conversation of exactly this address by its number in `Sessions.page` or by its id, or None."""

    def switch_session(self, address: Address, session_id: int) -> bool:
        """Let the address go on with one of its conversations, and archive the current one; False if it has none such.

        Goals of the one that is left are the caller's affair.
        """

    def put_setting(self, key: str, value: int | None) -> None:
        """Keep a setting for the whole process; None forgets it."""

    def notes(self, session_id: int) -> Mapping[str, str]:
        """See `Settings.notes`."""

    def choose_model(self, address: Address, preset: str) -> None:
        """Let a preset answer in a chat (and thread) from its next turn on; "" is the default model."""

    def put_note(self, session_id: int, key: str, value: str | None) -> None:
        """Keep a note of a conversation; None forgets it."""

    def save_summary(self, summary: NewSummary) -> bool:
        """See `Summaries.save`."""


class People(Protocol):
    """What people told the bot about themselves, by platform id."""

    async def get(self, channel: str, user_id: str) -> Person:
        """Return a person; unknown ones have empty fields."""

    async def save(self, person: Person) -> None:
        """Write a person's settings."""


class Cursors(Protocol):
    """Named positions in platform streams, such as Telegram's update offset."""

    async def get(self, name: str, *, max_age_us: int | None = None) -> str | None:
        """Return a cursor, or None when unset or older than `max_age_us`."""

    async def set(self, name: str, value: str) -> None:
        """Commit a cursor."""


class Subagents(Protocol):
    """Background helpers."""

    async def get(self, subagent_id: str) -> Subagent | None:
        """Return one, or None."""

    async def running(self, lane: str) -> int:
        """Return how many are at work whose outcome comes back to this lane."""


class Goals(Protocol):
    """Sustained goals of sessions. They go on by the endings of turns and change through `Unit`."""

    async def current(self, session_id: int) -> Goal | None:
        """Return the goal that is under way in a session, open or paused, or None."""

    async def get(self, goal_id: str) -> Goal | None:
        """Return one, also when it is over, or None."""


class Settings(Protocol):
    """Settings changed at run time, and notes of conversations, both written by `Unit`; what chats have chosen."""

    async def all(self) -> Mapping[str, int]:
        """Return the changed settings by name."""

    async def chosen_model(self, address: Address) -> str:
        """Return the preset that a chat (and thread) has chosen, "" for the default model."""

    async def voice(self, address: Address) -> bool:
        """Return whether answers at an address are read aloud too."""

    async def set_voice(self, address: Address, *, on: bool) -> None:
        """Commit whether they are; the address must have had a turn."""

    async def notes(self, session_id: int) -> Mapping[str, str]:
        """Return a conversation's notes by key, in the order of the keys."""


class Overview(Protocol):
    """Questions of people who look after the bot."""

    async def status(self) -> StoreStatus:
        """Return counts and the newest dead letters."""

    async def usage(self, address: Address, *, since_us: int) -> Usage:
        """Return what turns of a chat (and thread) used that ended since then, its tasks and subagents included."""

    async def dead_letters(self, *, limit: int) -> list[DeadLetter]:
        """Return the newest dead letters, newest first."""

    async def prune(self, *, older_than_us: int) -> int:
        """Forget bookkeeping that was settled before then, dead letters excepted; returns the rows removed.

        Identities of forgotten messages no longer guard against repeats. Conversations stay.
        """

    async def retire(self, *, older_than_us: int | None) -> int:
        """Forget conversations in which nothing was said since then; returns the rows removed.

        Never one that a turn is running in or a message waits for. None: only the oldest of an address that has
        more than 10,000 archived ones.
        """


class Store(Protocol):
    """All nouns of one database."""

    inbox: Inbox
    turns: Turns
    steps: Steps
    history: History
    sessions: Sessions
    history_search: HistorySearch
    summaries: Summaries
    memory: Memory
    outbox: Outbox
    jobs: Jobs
    people: People
    cursors: Cursors
    subagents: Subagents
    goals: Goals
    settings: Settings
    overview: Overview


# --- signal ----------------------------------------------------------------------------------------------


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


# --- channel ---------------------------------------------------------------------------------------------


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


# --- provider --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. `tools` are OpenAI function definitions; `tools_json` is the same, encoded once.

    `turn_messages` is how many messages the turn answers: the last so many of the people's in `messages`.
    """

    messages: Sequence[Message]
    turn_messages: int = 1
    tools: Sequence[Message] = ()
    tools_json: bytes = b""
    max_output_tokens: int | None = None
    reasoning_effort: str = ""  # instead of the configured one, where one is configured
    zone: str = "UTC"  # the person's, for a provider that reads times itself
    language: str = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A complete reply. `finish_reason` is the provider's: stop, length, tool_calls, content_filter."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # which one answered, by its configured name; "" where that means nothing
    reasoning: str = ""
    reasoning_fields: Mapping[str, Any] = field(default_factory=dict)  # the same as it came, by field name
    malformed_calls: int = 0  # calls that had no usable name or shape and were dropped
    may_repeat: bool = False  # equal calls are no circle: each does what one message asked for
    notice: str = ""  # a sentence to show the person beside the reply, e.g. that a stand-in answered


class Provider(ABC):
    """A source of model replies. A module of `bot.providers` exposes concrete subclasses by `name`."""

    name: ClassVar[str]
    needs_network: ClassVar[bool] = True

    @abstractmethod
    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Return one whole reply; `on_text` gets visible text as it grows (the whole text so far).

        Raises:
            ProviderError: mapped; the caller decides about retries by `retryable`.
        """

    async def warm_up(self) -> None:
        """Import slow SDKs off the loop, so that the first turn does not stall."""

    async def close(self) -> None:
        """Let go of connections; idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Sound as a file's bytes; `suffix` is the ending its format is known by, such as ".ogg"."""

    data: bytes = field(repr=False)
    suffix: str
    mime: str


class Transcriber(Protocol):
    """Turns speech into text."""

    max_bytes: int  # of one recording

    async def transcribe(self, recording: Recording) -> str:
        """Return the words, '' when there are none. Raises `ProviderError`; an error has had its tries."""

    async def close(self) -> None:
        """Let go of connections; idempotent."""


class Speaker(Protocol):
    """Turns text into speech."""

    max_chars: int  # of one call

    async def speak(self, text: str) -> Recording:
        """Return the text read aloud. Raises `ProviderError`; an error has had its tries."""

    async def close(self) -> None:
        """Let go of connections; idempotent."""


# --- agent -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlan:
    """How the runner must treat one call."""

    replay: Replay
    concurrent: bool
    arguments: Mapping[str, Any]


class TurnControl(Protocol):
    """Influence on running turns, for commands and tools."""

    def stop(self, address: Address) -> bool:
        """End the running turn of an address and its subagents; False when none is running."""

    def running(self) -> int:
        """Return how many turns run now."""
