"""People, and the numbers of `dutiful status`."""

from __future__ import annotations

from dataclasses import dataclass

from bot.records.outbox import DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What is known of a person by their platform id."""

    channel: str
    user_id: str
    zone: str = ""
    shares_memory: bool = False  # what their memory marks as shared may be shown in groups they write in


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
