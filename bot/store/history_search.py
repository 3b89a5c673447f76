"""Finding what was said in a chat, in all of its sessions, by words.

The index (SQLite FTS5) is brought up to date for one chat when that chat searches, in portions between which
other writes get their chance. Only what people and the bot said is in it: no tool results, no system text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from bot.messages import Address, clean_text
from bot.records import HistoryFindings, HistoryHit, HistoryQuery, Message
from bot.store.database import Database
from bot.store.replay import decoded

PORTION = 200
"""Rows read into the index in one transaction, at most; some 10 ms."""

PORTION_CHARS = 50_000
"""After so many characters a portion is full: Chinese text takes a millisecond for 1,000 of them."""

MAX_INDEXED_CHARS = 100_000
"""Of a longer message only its beginning is found."""

MAX_COUNTED = 1_000
"""Matches are counted up to here."""

_MAX_WORDS = 30
_MAX_WORD_CHARS = 200
_MAX_SESSIONS_IN_QUERY = 200
_ROLES = ("user", "assistant")
# What the prompt puts after each message; nothing that a person writes can look like it.
_NOT_SAID = re.compile(r"\[(?:Runtime Context — metadata only|Requested skill “)")

# Scripts that write words without spaces: each letter becomes a word, and a word a sequence of them.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # kana and Han
)
_UNSPACED_LETTER = re.compile(f"([{_UNSPACED}])")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]{{3,}}")


class SqlHistorySearch:
    """See `bot.interfaces.HistorySearch`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, address: Address, query: HistoryQuery) -> HistoryFindings:
        """See `HistorySearch.search`."""
        lane = address.key
        while await self._database.read(lambda conn: _unread(conn, lane) is not None):
            await self._database.write(lambda conn: _read_on(conn, lane))
        return await self._database.read(lambda conn: _find(conn, lane, query))


def text_of(row: Message) -> str:
    """Return what a row says to people: without skills and runtime context, '' when it says nothing."""
    if row.get("role") not in _ROLES:
        return ""
    content: Any = row.get("content")
    if isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "text"]
        content = "\n".join(str(block.get("text", "")) for block in blocks)
    text = str(content or "")
    return (_NOT_SAID.split(text, maxsplit=1)[0] if row["role"] == "user" else text).strip()


def _unread(conn: sqlite3.Connection, lane: str) -> tuple[int, int] | None:
    """Return a session of the lane with rows that are not in the index, and the last row that is."""
    row: tuple[int, int] | None = conn.execute(
        "SELECT s.id, coalesce(r.history_id, 0) AS known FROM sessions s"
        " LEFT JOIN history_read r ON r.session_id = s.id"
        " WHERE s.lane = ? AND EXISTS (SELECT 1 FROM history h WHERE h.session_id = s.id AND h.id > known)"
        " ORDER BY s.id DESC LIMIT 1",
        (lane,),
    ).fetchone()
    return row


def _read_on(conn: sqlite3.Connection, lane: str) -> None:
    """Read one portion of rows into the index."""
    unread = _unread(conn, lane)
    if unread is None:
        return  # another search was faster
    session_id, known = unread
    rows = conn.execute(
        "SELECT id, CAST(body AS BLOB) FROM history WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?",
        (session_id, known, PORTION),
    )
    said: list[tuple[int, str, str]] = []
    last = chars = 0
    for last, body in rows:
        if text := _indexed_text(body):
            said.append((last, f"s{session_id}", _spaced(text)))
            chars += len(text)
        if chars >= PORTION_CHARS:
            break
    rows.close()
    conn.executemany("INSERT INTO history_words (rowid, session, words) VALUES (?,?,?)", said)
    conn.execute(
        "INSERT INTO history_read (session_id, history_id) VALUES (?,?)"
        " ON CONFLICT DO UPDATE SET history_id = excluded.history_id",
        (session_id, last),
    )


def _indexed_text(body: bytes) -> str:
    row = decoded(body)
    return "" if row is None else text_of(row)[:MAX_INDEXED_CHARS]


def unlearn(conn: sqlite3.Connection, session_id: int, row_id: int, body: bytes) -> None:
    """Take an indexed row out of the index, which must be told what it holds: it keeps no text of its own."""
    if text := _indexed_text(body):
        conn.execute(
            "INSERT INTO history_words (history_words, rowid, session, words) VALUES ('delete',?,?,?)",
            (row_id, f"s{session_id}", _spaced(text)),
        )


def _find(conn: sqlite3.Connection, lane: str, query: HistoryQuery) -> HistoryFindings:
    words = _words(query.text)
    if not words:
        return HistoryFindings()
    sessions = [row[0] for row in conn.execute("SELECT id FROM sessions WHERE lane = ?", (lane,))]
    found = _matches(conn, lane, sessions, query, " AND ".join(map(_quoted, words)), order="w.rowid DESC")
    if found.hits:
        return found
    parts = [part for word in words for part in _parts(word)]
    if len(parts) == 1:
        return found
    loose = _matches(conn, lane, sessions, query, " OR ".join(map(_quoted, parts)), order="w.rank")
    return HistoryFindings(hits=loose.hits, total=loose.total, is_loose=True)


def _matches(
    conn: sqlite3.Connection, lane: str, sessions: Sequence[int], query: HistoryQuery, expression: str, *, order: str
) -> HistoryFindings:
    match = f"words : ({expression})"
    if len(sessions) <= _MAX_SESSIONS_IN_QUERY:  # only to be fast among other chats; the lane below decides
        match += f" AND session : ({' OR '.join(f's{number}' for number in sessions)})" if sessions else ""
    clause, values = _conditions(query)
    # CROSS JOIN: SQLite keeps this order, from the few rows with the words to their sessions.
    source = (
        "FROM history_words w CROSS JOIN history h ON h.id = w.rowid CROSS JOIN sessions s ON s.id = h.session_id"
        f" WHERE history_words MATCH ? AND s.lane = ?{clause}"
    )
    rows = conn.execute(
        f"SELECT h.id, h.body, h.created_us {source} ORDER BY {order} LIMIT ?",
        (match, lane, *values, query.limit),
    ).fetchall()
    total = len(rows)
    if total == query.limit:
        (total,) = conn.execute(
            f"SELECT count(*) FROM (SELECT 1 {source} LIMIT {MAX_COUNTED})",  # noqa: S608 - constants
            (match, lane, *values),
        ).fetchone()
    return HistoryFindings(hits=tuple(_hit(*row) for row in rows), total=total)


def _conditions(query: HistoryQuery) -> tuple[str, list[Any]]:
    conditions: list[tuple[str, Any]] = []
    if query.role:
        conditions.append(("json_extract(h.body, '$.role') = ?", query.role))
    if query.after_us is not None:
        conditions.append(("h.created_us >= ?", query.after_us))
    if query.before_us is not None:
        conditions.append(("h.created_us < ?", query.before_us))
    if query.except_turn_id is not None:
        conditions.append(("h.turn_id != ?", query.except_turn_id))
    return "".join(f" AND {text}" for text, _ in conditions), [value for _, value in conditions]


def _hit(row_id: int, body: str, created_us: int) -> HistoryHit:
    row = orjson.loads(body)
    return HistoryHit(id=row_id, role=row["role"], text=text_of(row), at_us=created_us)


def _spaced(text: str) -> str:
    return _UNSPACED_LETTER.sub(r" \1 ", text)


def _words(text: str) -> list[str]:
    """Return what is between spaces, as far as there is a letter or digit in it: the rest is no word to FTS5."""
    words = (word[:_MAX_WORD_CHARS] for word in clean_text(text).replace("\0", " ").split())
    return [word for word in words if any(char.isalnum() for char in word)][:_MAX_WORDS]


def _parts(word: str) -> list[str]:
    """Return a word, or of a longer text without spaces its pairs of letters: it may be several words."""
    if not _UNSPACED_RUN.search(word):
        return [word]
    pairs = [word[at : at + 2] for at in range(len(word) - 1)]
    return [pair for pair in pairs if all(char.isalnum() for char in pair)][:_MAX_WORDS] or [word]


def _quoted(word: str) -> str:
    """Return a word as FTS5's string, which has no syntax inside, also for words that begin with it."""
    escaped = _spaced(word).replace('"', '""')
    return f'"{escaped}" *'
