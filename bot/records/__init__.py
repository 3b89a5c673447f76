"""What the store hands back: frozen snapshots of rows, and the values its verbs take.

A record is true at the moment it was read; the row is the truth afterwards. All instants are microseconds.
"""

from __future__ import annotations

from bot.records.goals import Goal, GoalBudget, GoalState, GoalStep, PlanItem
from bot.records.history import HistoryFindings, HistoryHit, HistoryQuery
from bot.records.jobs import Job, JobKind, JobState, NewJob, RunState
from bot.records.outbox import (
    MOVED,
    TRIED_PART,
    UNKNOWN_PART,
    DeadLetter,
    OutboxChange,
    OutboxEntry,
    OutboxPage,
    OutboxRow,
    SendState,
    moved_prefix,
    moved_variant,
)
from bot.records.overview import Person, StoreStatus
from bot.records.subagents import Subagent, SubagentState, outcome_id
from bot.records.turns import (
    Acceptance,
    CallRecord,
    CallResult,
    CallState,
    DraftState,
    Ending,
    Message,
    PressOutcome,
    QueuedMessage,
    Turn,
    TurnState,
)

__all__ = [
    "MOVED",
    "TRIED_PART",
    "UNKNOWN_PART",
    "Acceptance",
    "CallRecord",
    "CallResult",
    "CallState",
    "DeadLetter",
    "DraftState",
    "Ending",
    "Goal",
    "GoalBudget",
    "GoalState",
    "GoalStep",
    "HistoryFindings",
    "HistoryHit",
    "HistoryQuery",
    "Job",
    "JobKind",
    "JobState",
    "Message",
    "NewJob",
    "OutboxChange",
    "OutboxEntry",
    "OutboxPage",
    "OutboxRow",
    "Person",
    "PlanItem",
    "PressOutcome",
    "QueuedMessage",
    "RunState",
    "SendState",
    "StoreStatus",
    "Subagent",
    "SubagentState",
    "Turn",
    "TurnState",
    "moved_prefix",
    "moved_variant",
    "outcome_id",
]
