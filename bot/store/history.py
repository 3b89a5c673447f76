"""The rows of sessions, and what a turn starts from."""

from __future__ import annotations

import sqlite3

from bot.conversation import HistoryRow, Session, SessionPast, SessionWindow
from bot.messages import Address
from bot.store.database import Database
from bot.store.history_search import text_of
from bot.store.replay import ReplayedRows, decoded

RECENT_SESSIONS = 5
"""Earlier conversations that a turn is told of."""

SAID = (
    "CASE WHEN json_valid(body) THEN json_extract(body, '$.role') != 'tool'"
    " AND json_extract(body, '$.content') != '' END"
)
"""Condition on rows: what people and the bot wrote. Calls of tools and their results nobody in the chat saw."""

SESSION_COLUMNS = "id, lane, title, created_us, used_us, archived_us, summary"


def session_row(row: tuple[int, str, str, int, int, int | None, str]) -> Session:
    """Return the record of a row of SESSION_COLUMNS."""
    return Session(
        id=row[0],
        lane=row[1],
        title=row[2],
        created_us=row[3],
        used_us=row[4],
        archived_us=row[5],
        summary=row[6],
    )


def history_row(row_id: int, turn_id: int, body: bytes, created_us: int, sender_id: str = "") -> HistoryRow:
    """Return a row of a conversation; one that is no message says nothing, so that it stops no reader for ever."""
    message = decoded(body) or {}
    return HistoryRow(
        id=row_id, turn_id=turn_id, message=message, text=text_of(message), at_us=created_us, sender_id=sender_id
    )


class SqlHistory:
    """See `bot.interfaces.History`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._replayed = ReplayedRows()

    async def window(self, session_id: int, *, limit_tokens: int) -> SessionWindow:
        """See `History.window`."""

        def work(conn: sqlite3.Connection) -> SessionWindow:
            past, upto = _past(conn, session_id)
            rows = self._replayed.read(conn, session_id, after_id=upto, limit_tokens=limit_tokens)
            return SessionWindow(rows=rows, past=past)

        return await self._database.read(work)

    def forget(self, session_id: int) -> None:
        """See `History.forget`."""
        self._database.read_soon(lambda _conn: self._replayed.forget(session_id))

    async def count(self, address: Address) -> int:
        """See `History.count`."""

        def work(conn: sqlite3.Connection) -> int:
            row = conn.execute(
                "SELECT count(*) FROM history WHERE session_id = (SELECT session_id FROM lanes WHERE key = ?)"  # noqa: S608
                f" AND {SAID}",
                (address.key,),
            ).fetchone()
            return int(row[0])

        return await self._database.read(work)


def _past(conn: sqlite3.Connection, session_id: int) -> tuple[SessionPast, int]:
    """Return what was before a session's replayed rows, and the last row that its summary covers."""
    row = conn.execute("SELECT lane, summary, summary_upto FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        return SessionPast(), 0
    lane, summary, upto = row
    recent = conn.execute(
        f"SELECT {SESSION_COLUMNS} FROM sessions WHERE lane = ? AND archived_us IS NOT NULL AND id != ?"  # noqa: S608
        " AND (title != '' OR summary != '') ORDER BY archived_us DESC, id DESC LIMIT ?",
        (lane, session_id, RECENT_SESSIONS),
    ).fetchall()
    return SessionPast(summary=summary, recent=tuple(map(session_row, recent))), int(upto)
