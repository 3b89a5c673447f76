"""What the engine asks of a store about conversations: their rows, summaries, and what is remembered of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from bot.conversation import (
    HistoryRow,
    MemoryVersion,
    NewSummary,
    SessionPage,
    SessionState,
    SessionWindow,
    Uncovered,
)
from bot.memories import MemoryDue, MemoryHome
from bot.messages import (
    Address,
    Usage,
)
from bot.records import (
    HistoryFindings,
    HistoryQuery,
)


class History(Protocol):
    """The rows of sessions."""

    async def window(self, session_id: int, *, limit_tokens: int) -> SessionWindow:
        """Return the newest rows that no summary covers, at least `limit_tokens` of them, and what was before.

        They begin with a user row if one is near, and where they begin stays for many turns. What is stored but is no
        message is left out. The rows must not be changed: later windows hold the same ones.
        """

    def forget(self, session_id: int) -> None:
        """Drop what is kept of a conversation in memory for its next turn; must not block or raise."""

    async def count(self, address: Address) -> int:
        """Return how many messages people and the bot wrote in the current session of an address.

        Calls of tools and their results do not count: nobody in the chat saw them.
        """


class Sessions(Protocol):
    """Conversations of an address, the current and the archived ones. They change by `Unit` and by endings."""

    async def page(self, address: Address, *, limit: int, offset: int = 0) -> SessionPage:
        """Return a part of the list of exactly this address, the one begun last first.

        Archived ones in which nothing was said are left out.
        """

    async def state(self, address: Address) -> SessionState:
        """Return how the current conversation of an address stands; one without rows where there is none yet."""


class Summaries(Protocol):
    """Summaries of what is older than the replayed rows of a session."""

    async def uncovered(self, session_id: int) -> Uncovered:
        """Return the rows that no summary covers, without those from the first row of a running turn on."""

    async def save(self, summary: NewSummary) -> bool:
        """Commit text and position together, durably; False when the one it replaces is not there any more."""

    async def charge(self, turn_id: int, usage: Usage) -> None:
        """Count what a summary cost to the turn that gave rise to it."""


class Memory(Protocol):
    """What long-term memory keeps beside its files."""

    async def planned_us(self, channels: Collection[str] | None = None) -> int:
        """Return when runs of these channels (None: of all) were last planned; now, from now on, if never."""

    async def due(self, channels: Collection[str] | None = None) -> list[MemoryDue]:
        """Return the homes in whose conversations something was said since they were last read."""

    async def plan(self, due: Sequence[MemoryDue], *, due_us: int, channels: Collection[str] | None = None) -> int:
        """Queue a run for each home that has none under way, and note the time, in one durable transaction.

        A home and due time get one run, ever. Returns how many were queued.
        """

    async def rows(self, home: MemoryHome, *, after: int, upto: int, limit: int) -> list[HistoryRow]:
        """Return what was said where a home's memory comes from, oldest first, of rows after `after` up to `upto`."""

    async def mark(self, home: MemoryHome) -> int:
        """Return the last row that was read for a home."""

    async def keep(self, home: MemoryHome, body: str, *, reason: str) -> bool:
        """Keep what a memory says as its newest version; False when that says the same already."""

    async def versions(self, home: MemoryHome, *, limit: int) -> list[MemoryVersion]:
        """Return the newest versions, newest first."""

    async def version(self, home: MemoryHome, version_id: int) -> MemoryVersion | None:
        """Return one version of exactly this home, or None."""

    async def forget(self, home: MemoryHome) -> None:
        """Delete all versions, durably; what was said until now will not be read for this memory again."""


class HistorySearch(Protocol):
    """What was said in a chat, by words."""

    async def search(self, address: Address, query: HistoryQuery) -> HistoryFindings:
        """Return messages of people and the bot in all sessions of exactly this address.

        Rows that were not searched before are read first: long for a chat's first search, nothing to a turn.
        """
