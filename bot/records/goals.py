"""Sustained goals: their plan, their budget, and each turn's step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from textwrap import shorten

from bot.messages import Address, ChatType, InboundMessage


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
