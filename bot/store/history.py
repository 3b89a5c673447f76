"""The rows of sessions, and what a turn starts from."""

from __future__ import annotations

import sqlite3

import orjson

from bot.conversation import Session, SessionPast, SessionWindow
from bot.messages import Address
from bot.store.database import Database

RECENT_SESSIONS = 5
"""Earlier conversations that a turn is told of."""

_BYTES_PER_TOKEN = 6
"""Upper bound of JSON bytes a token of history takes, so that a window never holds less than asked for."""

SAID = "json_extract(body, '$.role') != 'tool' AND json_extract(body, '$.content') != ''"
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


class SqlHistory:
    """See `bot.interfaces.History`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def window(self, session_id: int, *, limit_tokens: int) -> SessionWindow:
        """See `History.window`."""

        def work(conn: sqlite3.Connection) -> tuple[list[str], SessionPast]:
            past, upto = _past(conn, session_id)
            left = limit_tokens * _BYTES_PER_TOKEN
            bodies: list[str] = []
            for (body,) in conn.execute(
                "SELECT body FROM history WHERE session_id = ? AND id > ? ORDER BY id DESC", (session_id, upto)
            ):
                bodies.append(body)
                left -= len(body)
                if left < 0:
                    break
            return bodies[::-1], past

        bodies, past = await self._database.read(work)
        return SessionWindow(rows=[orjson.loads(body) for body in bodies], past=past)

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
