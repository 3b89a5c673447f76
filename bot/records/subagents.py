"""Background subagents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.messages import Address, ChatType


class SubagentState(StrEnum):
    """How a background subagent stands."""

    RUNNING = "running"  # queued or working
    DONE = "done"  # answered
    UNFINISHED = "unfinished"  # out of steps or time; partial result
    FAILED = "failed"  # ended by an error
    INTERRUPTED = "interrupted"  # stopped or killed too often


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
