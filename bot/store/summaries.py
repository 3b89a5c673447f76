"""Summaries of conversations' older rows. The rows themselves stay: search and export read them for ever."""

from __future__ import annotations

import sqlite3

from bot.conversation import NewSummary, Uncovered
from bot.messages import Usage, clean_text
from bot.store.database import Database
from bot.store.history import history_row
from bot.store.turns import add_usage


class SqlSummaries:
    """See `bot.interfaces.Summaries`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def uncovered(self, session_id: int) -> Uncovered:
        """See `Summaries.uncovered`."""

        def work(conn: sqlite3.Connection) -> Uncovered:
            row = conn.execute("SELECT summary, summary_upto FROM sessions WHERE id = ?", (session_id,)).fetchone()
            summary, upto = row or ("", 0)
            stored = conn.execute(
                "SELECT id, turn_id, CAST(body AS BLOB), created_us FROM history"
                " WHERE session_id = ? AND id > ? ORDER BY id",
                (session_id, upto),
            ).fetchall()
            (running,) = conn.execute(
                "SELECT min(h.id) FROM turns t JOIN history h ON h.turn_id = t.id"
                " WHERE t.session_id = ? AND h.session_id = t.session_id AND t.state = 'running'",
                (session_id,),
            ).fetchone()
            rows = tuple(history_row(*item) for item in stored if running is None or item[0] < running)
            return Uncovered(
                session_id=session_id, summary=summary, upto=upto, rows=rows, running=len(stored) - len(rows)
            )

        return await self._database.read(work)

    async def save(self, summary: NewSummary) -> bool:
        """See `Summaries.save`."""
        return await self._database.write(lambda conn: save_summary(conn, summary), durable=True)

    async def charge(self, turn_id: int, usage: Usage) -> None:
        """See `Summaries.charge`."""
        await self._database.write(lambda conn: add_usage(conn, turn_id, usage))


def save_summary(conn: sqlite3.Connection, summary: NewSummary) -> bool:
    """Put a summary in place of the one it was made from; False, with nothing changed, when that is gone."""
    cursor = conn.execute(
        "UPDATE sessions SET summary = ?, summary_upto = ? WHERE id = ? AND summary_upto = ?",
        (clean_text(summary.text), summary.upto, summary.session_id, summary.replaces_upto),
    )
    return cursor.rowcount == 1
