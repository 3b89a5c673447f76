"""What the engine asks of a store for messages that came in, and for the turns that answer them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from bot.conversation import NewSummary, Session
from bot.interfaces.jobs import FiringComposer
from bot.messages import Address, InboundMessage, OutboundMessage, ToolCall, Usage
from bot.records import (
    Acceptance,
    CallRecord,
    CallResult,
    DraftState,
    Ending,
    Goal,
    Job,
    Message,
    NewJob,
    PressOutcome,
    QueuedMessage,
    Subagent,
    Turn,
)


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
