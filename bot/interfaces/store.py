"""What the engine asks of a store, noun by noun, and of its unit of work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from bot.conversation import (
    NewSummary,
    Session,
)
from bot.interfaces.conversations import History, HistorySearch, Memory, Sessions, Summaries
from bot.messages import (
    Address,
    InboundMessage,
    OutboundMessage,
    ToolCall,
    Usage,
)
from bot.records import (
    Acceptance,
    CallRecord,
    CallResult,
    DeadLetter,
    DraftState,
    Ending,
    Goal,
    Job,
    Message,
    NewJob,
    OutboxChange,
    OutboxPage,
    OutboxRow,
    Person,
    PressOutcome,
    QueuedMessage,
    StoreStatus,
    Subagent,
    Turn,
)

T = TypeVar("T")


class Inbox(Protocol):
    """Messages that came in, until they are answered."""

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Commit a message durably (power loss included). Raises `QueueFull` at the limit of waiting rows."""

    async def accept_press(self, message: InboundMessage, outbox_id: int, index: int) -> PressOutcome:
        """Commit what button `index` of a sent message says, unless one of its buttons was pressed before."""

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

    async def save_draft(self, turn: Turn, draft_id: str, *, before: DraftState | None = None) -> None:
        """Remember the platform message that shows the turn's unfinished text.

        It becomes the first message the turn ends with, if that goes to the turn's address and is text alone.
        Else it is withdrawn: also when the turn sends something else there first, or the person wrote below it.
        `before` is how things stood when the platform was asked for it: what came meanwhile counts, too.
        """

    async def draft_state(self, turn: Turn) -> DraftState:
        """Return which message shows the turn's unfinished text, and whether the chat may be shown anything now."""

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


class Outbox(Protocol):
    """Messages on their way out, ordered per (channel, chat, thread).

    Waits and leases are on the scale of `Clock.steady_us`: setting the wall clock moves none of them. A wait that
    another process left lasts no longer than it was to last in all.
    """

    async def put(self, message: OutboundMessage) -> int:
        """Commit one message that belongs to no turn; returns its outbox id."""

    async def claim(self, *, limit: int, channels: Collection[str]) -> tuple[list[OutboxRow], int | None]:
        """Mark the sendable heads of up to `limit` order keys as sending, and return them.

        A row that comes in state `sending` is one whose send was cut short: its fate is unknown. The second
        value is when the next row may be sent, None when none waits; after `limit` rows it is now.
        """

    async def next_due_us(self, channels: Collection[str]) -> int | None:
        """Return when the next queued row may be sent, None when nothing is queued."""

    async def part_sent(self, outbox_id: int, sent_ids: Sequence[str]) -> None:
        """Store the platform ids of the parts sent so far; the next part has a whole lease again."""

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
        counts: bool = True,
    ) -> None:
        """Queue a row again for later; `uncertain` counts a send that may have arrived. None keeps the parts.

        `counts`: whether this claim was a try; being asked to wait, or looking what arrived, is none.
        """

    async def doubt(self, outbox_id: int, *, look_at_us: int, error: str, sent_ids: Sequence[str]) -> None:
        """Keep a row in state sending, its fate unknown: at `look_at_us` it is claimed to be looked into."""

    async def delay_chat(self, address: Address, until_us: int) -> None:
        """Hold back everything for a chat until then (rate limit)."""

    async def bury(self, outbox_id: int, error: str, *, uncertain: bool = False) -> None:
        """Make a row a dead letter, so that the next of its key can go; `uncertain`: it may have arrived after all."""

    async def close_chat(self, address: Address, error: str) -> int:
        """Bury what is queued for a chat that is gone, pause its jobs and goals; returns the number of jobs paused."""

    async def reopen_chat(self, address: Address) -> int:
        """Note that the chat speaks to us again; jobs that its closing paused go on. Returns how many."""

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Move keys, sessions, jobs and queued rows of a chat to its new id, in one transaction.

        A cursor `moved_prefix(channel)` + new id keeps the old one, for what the configuration says of it.
        """

    async def job_of(self, address: Address, platform_id: str) -> str:
        """Return the id of the job whose reminder was sent as this platform message, or ''."""

    async def get(self, outbox_id: int) -> OutboxRow | None:
        """Return a message by its id, None when there is none (any more)."""

    async def copied_files(self) -> set[str]:
        """Return the paths of the copies (`Attachment.copy`) that messages name which may still be sent."""

    async def sent_as(self, channel: str, chat_id: str, platform_id: str) -> OutboxRow | None:
        """Return the message of a chat of which a part has this platform id; of the newest thousand of the chat."""


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

    async def note_zone(self, channel: str, user_id: str, zone: str) -> None:
        """Keep the zone of a person's profile; it counts until they choose one themselves."""


class Cursors(Protocol):
    """Named positions in platform streams, such as Telegram's update offset."""

    async def get(self, name: str, *, max_age_us: int | None = None) -> str | None:
        """Return a cursor, or None when unset or older than `max_age_us`."""

    async def set(self, name: str, value: str, *, durable: bool = False) -> None:
        """Commit a cursor; `durable`: so that power loss does not undo it."""

    async def starting_with(self, prefix: str) -> dict[str, str]:
        """Return all cursors whose names begin so, by name."""

    async def remove(self, name: str) -> None:
        """Forget a cursor; nothing happens where there is none."""


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

    async def outbox(self, *, before_id: int | None = None, limit: int) -> OutboxPage:
        """Return the newest messages (below an id) that wait, are being sent, are dead or uncertain; oldest first."""

    async def resend(self, ids: Collection[int] | None) -> OutboxChange:
        """Queue dead letters again in their old place, None: all of them; what waits is tried now.

        Parts that are out stay out, and a chat that was closed is tried. One that was named although it is uncertain
        goes out from its first part in doubt on. All or none.
        """

    async def drop(self, ids: Collection[int] | None) -> OutboxChange:
        """Forget messages that are not being sent, None: all dead letters. All or none."""

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
