"""Reminders and scheduled tasks, and how their firings ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from textwrap import shorten

from bot.messages import Address, ChatType
from bot.schedule import Schedule


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
