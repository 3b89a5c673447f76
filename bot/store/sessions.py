"""Conversations: which one is current at an address, their rows' coming, their titles, and lists of them.

What a turn starts from is `bot/store/history.py`'s, when they are forgotten `bot/store/maintenance.py`'s.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from textwrap import shorten

from bot.conversation import Session, SessionEntry, SessionPage, SessionState
from bot.messages import Address, InboundMessage, Origin, clean_text
from bot.records import Message, Turn
from bot.store.codec import dumps
from bot.store.database import Database
from bot.store.history import SAID, SESSION_COLUMNS, session_row
from bot.store.history_search import text_of
from bot.store.replay import decoded

TITLE_CHARS = 60
"""Longer titles are cut at a word."""

_UNTITLED_ROWS = 20
"""Rows of a conversation from before there were titles, among which its first words are looked for."""

# What the list of an address shows: an archived conversation in which nothing was said is nothing to go back to.
_LISTED = (
    "FROM sessions s JOIN lanes l ON l.key = s.lane WHERE s.lane = ?"
    " AND (s.id = l.session_id OR EXISTS (SELECT 1 FROM history h WHERE h.session_id = s.id))"
)
_COLUMNS = ", ".join(f"s.{name}" for name in SESSION_COLUMNS.split(", "))


# --- writing


def append_history(
    conn: sqlite3.Connection, session_id: int, turn_id: int, rows: Sequence[Message], now_us: int
) -> None:
    """Append messages to a session."""
    if not rows:
        return
    conn.executemany(
        "INSERT INTO history (session_id, turn_id, body, created_us) VALUES (?,?,?,?)",
        [(session_id, turn_id, dumps(row), now_us) for row in rows],
    )
    conn.execute("UPDATE sessions SET used_us = ? WHERE id = ?", (now_us, session_id))


def give_title(conn: sqlite3.Connection, turn: Turn) -> None:
    """Name a turn's session after the person's message that began it, unless it has a title."""
    if turn.origin is Origin.USER and (title := title_of(turn.messages[0].message)):
        conn.execute("UPDATE sessions SET title = ? WHERE id = ? AND title = ''", (title, turn.session_id))


def title_of(message: InboundMessage) -> str:
    """Return the beginning of a message on one line; of a file without words its name; '' when there is neither."""
    names = [attachment.name or attachment.kind for attachment in message.attachments]
    return _cut(message.text) or _cut(", ".join(names))


def current_session(conn: sqlite3.Connection, lane: str, now_us: int) -> int:
    """Return the lane's current session, made on first use."""
    (session_id,) = conn.execute("SELECT session_id FROM lanes WHERE key = ?", (lane,)).fetchone()
    return begin_session(conn, lane, now_us) if session_id is None else int(session_id)


def begin_session(conn: sqlite3.Connection, lane: str, now_us: int, *, title: str = "") -> int:
    """Begin a session and archive the one before; return its id."""
    cursor = conn.execute(
        "INSERT INTO sessions (lane, title, created_us, used_us) VALUES (?,?,?,?)", (lane, _cut(title), now_us, now_us)
    )
    _make_current(conn, lane, int(cursor.lastrowid or 0), now_us)
    return int(cursor.lastrowid or 0)


def switch_session(conn: sqlite3.Connection, lane: str, session_id: int, now_us: int) -> bool:
    """Let a lane go on with one of its archived sessions; False when it has none of this id."""
    cursor = conn.execute(
        "UPDATE sessions SET archived_us = NULL, used_us = ? WHERE id = ? AND lane = ?", (now_us, session_id, lane)
    )
    if cursor.rowcount:
        _make_current(conn, lane, session_id, now_us)
    return cursor.rowcount == 1


def _make_current(conn: sqlite3.Connection, lane: str, session_id: int, now_us: int) -> None:
    conn.execute(
        "UPDATE sessions SET archived_us = ? WHERE id = (SELECT session_id FROM lanes WHERE key = ?) AND id != ?",
        (now_us, lane, session_id),
    )
    conn.execute("UPDATE lanes SET session_id = ? WHERE key = ?", (session_id, lane))


def session_for(conn: sqlite3.Connection, lane: str, message: InboundMessage, now_us: int) -> int:
    """Return the session that a message belongs to: what it was born in, else the current one."""
    return born_session(conn, lane, message) or current_session(conn, lane, now_us)


def born_session(conn: sqlite3.Connection, lane: str, message: InboundMessage) -> int | None:
    """Return the session of the lane that a message of the bot's own was born in; None when it is gone."""
    session_id = message.meta.get("session_id")
    if session_id is None or message.origin is Origin.USER:
        return None
    row = conn.execute("SELECT id FROM sessions WHERE id = ? AND lane = ?", (session_id, lane)).fetchone()
    return None if row is None else int(row[0])


# --- looking


def find_session(conn: sqlite3.Connection, lane: str, *, number: int = 0, session_id: int = 0) -> Session | None:
    """Return a listed session by its number in the list, or by its id."""
    if session_id:
        condition, values = " AND s.id = ?", (lane, session_id)
    else:
        condition, values = " ORDER BY s.id DESC LIMIT 1 OFFSET ?", (lane, number - 1)
    row = conn.execute(f"SELECT {_COLUMNS} {_LISTED}{condition}", values).fetchone()
    return None if row is None else _titled(conn, session_row(row))


def count_said(conn: sqlite3.Connection, session_id: int) -> int:
    """Return how many messages people and the bot wrote in a session."""
    sql = f"SELECT count(*) FROM history WHERE session_id = ? AND {SAID}"  # noqa: S608 - a constant
    return int(conn.execute(sql, (session_id,)).fetchone()[0])


def _titled(conn: sqlite3.Connection, session: Session) -> Session:
    """Return the session with a title, that of one from before there were titles from its first words."""
    if session.title:
        return session
    rows = conn.execute(
        "SELECT CAST(body AS BLOB) FROM history WHERE session_id = ? ORDER BY id LIMIT ?", (session.id, _UNTITLED_ROWS)
    )
    said = (text_of(row) for (body,) in rows if (row := decoded(body)) is not None and row.get("role") == "user")
    # What the bot puts into a conversation itself, and around quoted words, stands in brackets.
    title = next((title for text in said if (title := _cut(text)) and not title.startswith("[")), "")
    rows.close()
    return replace(session, title=title)


def _cut(text: str) -> str:
    line = " ".join(clean_text(text).split())
    return shorten(line, width=TITLE_CHARS, placeholder="…") if " " in line[:TITLE_CHARS] else _cut_hard(line)


def _cut_hard(line: str) -> str:
    """Cut a line without spaces, as Chinese has none."""
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


class SqlSessions:
    """See `bot.interfaces.Sessions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, address: Address, *, limit: int, offset: int = 0) -> SessionPage:
        """See `Sessions.page`."""

        def work(conn: sqlite3.Connection) -> SessionPage:
            lane = address.key
            (total,) = conn.execute(f"SELECT count(*) {_LISTED}", (lane,)).fetchone()
            rows = conn.execute(
                f"SELECT s.id = l.session_id, {_COLUMNS} {_LISTED} ORDER BY s.id DESC LIMIT ? OFFSET ?",
                (lane, limit, offset),
            ).fetchall()
            entries = tuple(
                SessionEntry(
                    number=number,
                    session=_titled(conn, session_row(tuple(columns))),
                    messages=count_said(conn, columns[0]),
                    is_current=bool(is_current),
                )
                for number, (is_current, *columns) in enumerate(rows, offset + 1)
            )
            return SessionPage(entries=entries, total=int(total))

        return await self._database.read(work)

    async def state(self, address: Address) -> SessionState:
        """See `Sessions.state`."""

        def work(conn: sqlite3.Connection) -> SessionState:
            row = conn.execute(
                f"SELECT l.model, s.context_tokens, {_COLUMNS} FROM lanes l"  # noqa: S608 - constants
                " LEFT JOIN sessions s ON s.id = l.session_id WHERE l.key = ?",
                (address.key,),
            ).fetchone()
            if row is None or row[2] is None:
                return SessionState(model="" if row is None else row[0])
            session = _titled(conn, session_row(row[2:]))
            return SessionState(
                session_id=session.id,
                title=session.title,
                messages=count_said(conn, session.id),
                context_tokens=row[1],
                model=row[0],
            )

        return await self._database.read(work)
