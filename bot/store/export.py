"""Reading whole conversations out of the file, beside whatever process works with it.

A connection of its own that only reads; WAL lets it read while others write. Rows come in portions, each a
transaction of its own, so that a long export holds back no checkpoint; what is appended meanwhile may be in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from bot.conversation import Session
from bot.errors import StoreError, StoreUnavailable
from bot.messages import Address
from bot.records import Message
from bot.store.database import BUSY_TIMEOUT_S
from bot.store.history import SESSION_COLUMNS, session_row
from bot.store.replay import decoded

PORTION = 500
"""Rows read at once."""

_COLUMNS = ", ".join(f"s.{name}" for name in SESSION_COLUMNS.split(", "))
_RUNS = "(s.lane GLOB 'job:*' OR s.lane GLOB 'sub:*' OR s.lane GLOB 'mem:*')"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportScope:
    """Which conversations are meant; what is None or empty does not narrow.

    `chat` is CHANNEL:CHAT[:THREAD]; without a thread all threads of the chat are meant. `runs` says whether those of
    scheduled tasks and subagents are, too; one that `session_id` names always is.
    """

    chat: str = ""
    session_id: int | None = None
    runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSession:
    """A conversation with its address; `rows` counts all that it has, calls of tools and results included."""

    session: Session
    address: Address
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRow:
    """A row of a conversation as it is stored; one that is no message has its text under `damaged`."""

    id: int
    turn_id: int
    at_us: int
    body: Message


class HistoryReader:
    """Reads conversations; blocks. Use `open_history`."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def sessions(self, scope: ExportScope) -> list[ExportedSession]:
        """Return the conversations of a scope by id."""
        conditions = ["s.lane NOT GLOB 'gone:*'"]
        values: list[str | int] = []
        if scope.session_id is not None:
            conditions.append("s.id = ?")
            values.append(scope.session_id)
        elif not scope.runs:
            conditions.append(f"NOT {_RUNS}")
        if scope.chat:
            key = "l.channel || ':' || l.chat_id"
            conditions.append(f"? IN ({key}, {key} || ':' || coalesce(l.thread_id, ''))")
            values.append(scope.chat)
        rows = self._conn.execute(
            "SELECT l.channel, l.chat_id, l.thread_id,"  # noqa: S608 - conditions are constants
            f" (SELECT count(*) FROM history h WHERE h.session_id = s.id), {_COLUMNS}"
            f" FROM sessions s JOIN lanes l ON l.key = s.lane WHERE {' AND '.join(conditions)} ORDER BY s.id",
            values,
        )
        return [
            ExportedSession(
                session=session_row(tuple(columns)),
                address=Address(channel=channel, chat_id=chat_id, thread_id=thread_id),
                rows=count,
            )
            for channel, chat_id, thread_id, count, *columns in rows
        ]

    def rows(self, session_id: int) -> Iterator[ExportedRow]:
        """Yield the rows of a conversation, oldest first, as many in memory as a portion has."""
        last = 0
        while portion := self._portion(session_id, last):
            for row_id, turn_id, at_us, body in portion:
                yield ExportedRow(id=row_id, turn_id=turn_id, at_us=at_us, body=_parsed(body))
            last = portion[-1][0]

    def _portion(self, session_id: int, last: int) -> list[tuple[int, int, int, bytes]]:
        return self._conn.execute(
            "SELECT id, turn_id, created_us, CAST(body AS BLOB) FROM history WHERE session_id = ? AND id > ?"
            " ORDER BY id LIMIT ?",
            (session_id, last, PORTION),
        ).fetchall()


def _parsed(body: bytes) -> Message:
    row = decoded(body)
    return {"damaged": body.decode("utf-8", "replace")} if row is None else row


@contextmanager
def open_history(path: Path) -> Iterator[HistoryReader]:
    """Have the conversations of a database file at hand; nothing is written or migrated.

    Raises:
        StoreUnavailable: there is no such file, or it cannot be read.
        StoreError: the file is damaged, or of another version's schema.
    """
    if not path.exists():
        raise StoreUnavailable(f"{path} does not exist: nothing was ever stored there")
    try:
        # Not mode=ro: a reader of a WAL file must be able to make its index when nobody else has it open.
        conn = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        with closing(conn):
            conn.execute("PRAGMA query_only = ON").close()
            _check_schema(conn, path)
            yield HistoryReader(conn)
    except sqlite3.OperationalError as exc:
        raise StoreUnavailable(f"{path}: {exc}") from exc
    except sqlite3.Error as exc:
        raise StoreError(f"{path}: {exc}") from exc


def _check_schema(conn: sqlite3.Connection, path: Path) -> None:
    (found,) = conn.execute("PRAGMA user_version").fetchone()
    folder = resources.files("bot.store").joinpath("migrations")
    known = sum(entry.name.endswith(".sql") for entry in folder.iterdir())
    if found < known:
        raise StoreError(
            f"{path} is at schema version {found}, this version of dutiful reads {known}; "
            "bring it up to date first: `dutiful status` does"
        )
    if found > known:
        raise StoreError(f"{path} is at schema version {found}, which is newer than this dutiful ({known})")
