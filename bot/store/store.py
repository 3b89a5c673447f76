"""The store put together: one database, one object per noun."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from bot.clock import Clock
from bot.interfaces import (
    Cursors,
    Goals,
    History,
    HistorySearch,
    Inbox,
    Jobs,
    Memory,
    Outbox,
    Overview,
    People,
    Sessions,
    Settings,
    Steps,
    Subagents,
    Summaries,
    Turns,
)
from bot.messages import new_id
from bot.store.database import Database
from bot.store.goals import SqlGoals
from bot.store.history import SqlHistory
from bot.store.history_search import SqlHistorySearch
from bot.store.inbox import SqlInbox
from bot.store.jobs import SqlJobs
from bot.store.memory import SqlMemory
from bot.store.outbox import SqlOutbox, resume_waits
from bot.store.overview import SqlOverview
from bot.store.people import SqlCursors, SqlPeople
from bot.store.sessions import SqlSessions
from bot.store.settings import SqlSettings
from bot.store.steps import SqlSteps
from bot.store.subagents import SqlSubagents
from bot.store.summaries import SqlSummaries
from bot.store.turns import SqlTurns


class SqlStore:
    """See `bot.interfaces.Store`."""

    def __init__(self, database: Database, clock: Clock, *, owner: str, max_waiting: int) -> None:
        self._database = database
        self.inbox: Inbox = SqlInbox(database, clock, max_waiting=max_waiting)
        self.turns: Turns = SqlTurns(database, clock, owner=owner)
        self.steps: Steps = SqlSteps(database, clock)
        self.history: History = SqlHistory(database)
        self.sessions: Sessions = SqlSessions(database)
        self.history_search: HistorySearch = SqlHistorySearch(database)
        self.summaries: Summaries = SqlSummaries(database)
        self.memory: Memory = SqlMemory(database, clock)
        self.outbox: Outbox = SqlOutbox(database, clock)
        self.jobs: Jobs = SqlJobs(database, clock)
        self.people: People = SqlPeople(database)
        self.cursors: Cursors = SqlCursors(database, clock)
        self.subagents: Subagents = SqlSubagents(database)
        self.goals: Goals = SqlGoals(database)
        self.settings: Settings = SqlSettings(database)
        self.overview: Overview = SqlOverview(database, clock)

    @classmethod
    async def open(cls, path: Path, clock: Clock, *, exclusive: bool, max_waiting: int = 10_000) -> SqlStore:
        """Open the database at `path`.

        `exclusive` says that the caller holds the data directory's lock, so that no other instance can be
        alive: every lease is void at once. Without it leases of other instances run out by themselves.

        Raises:
            StoreUnavailable: the file cannot be written.
            StoreError: the file is damaged or newer than this version.
        """
        opening = asyncio.create_task(_open(path, clock, exclusive=exclusive), name="open the store")
        try:
            database = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # A thread cannot be cancelled. Left alone it would end after its loop, which the process reports
            # as a crash, with the file open.
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
            raise
        return cls(database, clock, owner=new_id("w-", 10), max_waiting=max_waiting)

    async def close(self) -> None:
        """Finish queued writes and close; idempotent."""
        await self._database.close()


async def _open(path: Path, clock: Clock, *, exclusive: bool) -> Database:
    database = await Database.open(path)
    if exclusive:
        try:
            await database.write(lambda conn: _take_over(conn, clock.steady_us()))
        except BaseException:
            await database.close()
            raise
    return database


def _take_over(conn: sqlite3.Connection, now_us: int) -> None:
    """Void the leases of the process before this one, and take up its waits."""
    conn.execute("UPDATE turns SET lease_us = 0 WHERE state = 'running'")
    resume_waits(conn, now_us=now_us)
