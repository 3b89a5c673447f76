"""What is looked for in earlier conversations, and what is found."""

from __future__ import annotations

from dataclasses import dataclass


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
