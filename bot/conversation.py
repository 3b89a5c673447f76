"""What the store knows of conversations (sessions) as a whole: frozen snapshots of rows.

Rows of a conversation are `bot.records.Message`; all instants are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.records import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation at an address. `archived_us` is None for the one that goes on."""

    id: int
    lane: str
    title: str
    created_us: int
    used_us: int
    archived_us: int | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """One line in the list of an address's conversations. `number` counts from 1, which is the one begun last.

    `messages` counts what people and the bot wrote, without calls of tools and their results.
    """

    number: int
    session: Session
    messages: int
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A part of the list of an address's conversations, and how many there are in all."""

    entries: tuple[SessionEntry, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """How the current conversation of an address stands.

    `context_tokens` is the estimate of its last request, 0 when it has made none; `model` is the preset that the
    chat has chosen, "" for the default one.
    """

    session_id: int | None = None
    title: str = ""
    messages: int = 0
    context_tokens: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPast:
    """What a prompt shows of earlier times; the same until something is summarised or archived.

    `summary` is that of this conversation's older rows, which are not replayed any more; `recent` are earlier
    conversations of the same address, newest first.
    """

    summary: str = ""
    recent: tuple[Session, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow:
    """What a turn starts from: the newest rows of its conversation, oldest first, and what was before them."""

    rows: list[Message]
    past: SessionPast = SessionPast()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVersion:
    """What a memory file said at an instant, and why it was kept."""

    id: int
    home: str
    at_us: int
    reason: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A stored row of a conversation. `text` is what it says to people, without what the system added to it."""

    id: int
    turn_id: int
    message: Message
    text: str
    at_us: int
    sender_id: str = ""  # who wrote it, of a person's row, where that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """The rows of a conversation that no summary covers and no running turn needs, oldest first.

    `summary` is what covers the rows up to `upto`. `running` are rows of turns under way, which are not among `rows`.
    """

    session_id: int
    summary: str
    upto: int
    rows: tuple[HistoryRow, ...]
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSummary:
    """A summary of a conversation's rows up to `upto`, to take the place of the one that ended at `replaces_upto`."""

    session_id: int
    text: str
    upto: int
    replaces_upto: int
