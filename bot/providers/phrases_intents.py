"""What a sentence about reminders can mean, as values.

Reading sentences is `phrases.py`; acting on an intent (calling the cron tool, wording an answer) is the
provider's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RefuseReason(StrEnum):
    """Why a sentence that is about a reminder cannot become one."""

    PAST = "past"  # the moment lies behind: "yesterday", "today at 8" said at nine
    NO_TIME = "no_time"  # what is known, when is not: "remind me to stretch"
    NO_TEXT = "no_text"  # a repeating reminder of nothing: "remind me every day at 8"
    UNCLEAR = "unclear"  # about a reminder, but not understood: "remind me if it rains", "on 31 February"
    TOO_OFTEN = "too_often"  # more often than once a minute
    UNSUPPORTED = "unsupported"  # understood, but no schedule says it: "every second Monday at 9"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """One job as the cron tool lists it; the order of a sequence is the order the person saw."""

    id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """Set a reminder. `arguments` are exactly those of the cron tool; `text` is the text within them."""

    arguments: dict[str, Any]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListJobs:
    """Show the chat's jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedJobs:
    """About removing, pausing or resuming: list the jobs, then ask `understand` again with `jobs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove these jobs, one call each; several only for a sentence that said "all"."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Pause these jobs; see `Remove`."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Resume these jobs; see `Remove`."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """More than one job fits what was said: ask which, never guess."""

    candidates: tuple[KnownJob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """No job fits. `wanted` is how the person named it, "" when there are no jobs at all."""

    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """About a reminder, but none can be set from it."""

    reason: RefuseReason


Intent = Add | ListJobs | NeedJobs | Remove | Pause | Resume | Ambiguous | NotFound | Refuse
