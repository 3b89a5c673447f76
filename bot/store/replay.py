"""The newest rows of conversations, kept between turns, so that a turn reads what is new and no more.

Rows of history are only ever added, or deleted by retention, and each has an id that is never used again: what is kept
is right as long as there are as many rows between its first and its last. Which rows a request holds in the end is the
governor's decision.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from dataclasses import dataclass, field

import orjson

from bot.log import get_logger
from bot.records import Message

_BYTES_PER_TOKEN = 6
"""Upper bound of JSON bytes a token of history takes, so that a window never holds less than asked for."""

_SLACK = 1.5
"""A window grows to so many times its limit before its oldest rows go: its beginning stays for many turns, and with it
the beginning of requests, which providers cache."""

_MOST = 16
"""A window begins with a user row, also where that makes it larger than its limit, up to so many times that: else it
would begin with results whose calls are left behind, and a turn with long output would be forgotten as a whole."""

_KEPT_BYTES = 16 * 1024 * 1024
"""JSON of all rows that are kept; beyond it the conversation that was longest unused is read anew."""

_KEPT_SESSIONS = 64
"""As many as the governor remembers prefixes of."""

_log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Window:
    """The newest rows of one conversation. `after_id` is the last row that its summary stands for."""

    after_id: int
    limit_bytes: int
    ids: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    rows: list[Message | None] = field(default_factory=list)  # None: what is stored is no message
    size_bytes: int = 0

    def is_whole(self, conn: sqlite3.Connection, session_id: int) -> bool:
        if not self.ids:
            return True
        (count,) = conn.execute(
            "SELECT count(*) FROM history WHERE session_id = ? AND id BETWEEN ? AND ?",
            (session_id, self.ids[0], self.ids[-1]),
        ).fetchone()
        return bool(count == len(self.ids))

    def add(self, row_id: int, body: bytes) -> None:
        self.ids.append(row_id)
        self.sizes.append(len(body))
        self.rows.append(_message(body))
        self.size_bytes += len(body)

    def trim(self) -> None:
        """Drop the oldest rows that the limit does not need, once there is much more than that."""
        if self.size_bytes <= self.limit_bytes * _SLACK:
            return
        first, rest = 0, self.size_bytes
        begin = 0
        while rest - self.sizes[first] > self.limit_bytes:
            rest -= self.sizes[first]
            first += 1
            if _is_user(self.rows[first]) or rest > self.limit_bytes * _MOST:
                begin = first
        self.size_bytes -= sum(self.sizes[:begin])
        del self.ids[:begin], self.sizes[:begin], self.rows[:begin]


class ReplayedRows:
    """Reads the newest rows of conversations. To be used on one thread only, the reader's."""

    def __init__(self, *, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._windows: OrderedDict[int, _Window] = OrderedDict()
        self._size_bytes = 0

    def read(self, conn: sqlite3.Connection, session_id: int, *, after_id: int, limit_tokens: int) -> list[Message]:
        """Return the newest rows behind `after_id`, at least those that fit `limit_tokens`, oldest first.

        The list is the caller's; its rows are shared with later reads and must not be changed. What is no message in
        JSON is logged and left out.
        """
        window = self._windows.pop(session_id, None)
        if window is not None:
            self._size_bytes -= window.size_bytes
        limit_bytes = limit_tokens * _BYTES_PER_TOKEN
        if window is None or (window.after_id, window.limit_bytes) != (after_id, limit_bytes):
            window = _load(conn, session_id, after_id, limit_bytes)
        elif window.is_whole(conn, session_id):
            _read_on(conn, session_id, window)
        else:
            window = _load(conn, session_id, after_id, limit_bytes)
        self._keep(session_id, window)
        return [row for row in window.rows if row is not None]

    def forget(self, session_id: int) -> None:
        """Drop what is kept of a conversation; its next read begins anew."""
        window = self._windows.pop(session_id, None)
        if window is not None:
            self._size_bytes -= window.size_bytes

    def _keep(self, session_id: int, window: _Window) -> None:
        self._windows[session_id] = window
        self._size_bytes += window.size_bytes
        while self._size_bytes > self._kept_bytes or len(self._windows) > _KEPT_SESSIONS:
            self._size_bytes -= self._windows.popitem(last=False)[1].size_bytes


def decoded(body: bytes) -> Message | None:
    """Return a stored message, or None for a body that is none."""
    try:
        row = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _message(body: bytes) -> Message | None:
    row = decoded(body)
    if row is None:
        _log.warning("a row of history is no message and is left out", size_bytes=len(body))
    return row


def _is_user(row: Message | None) -> bool:
    return row is not None and row.get("role") == "user"


# CAST: a body that is not valid UTF-8 must not fail the whole query.
_COLUMNS = "id, CAST(body AS BLOB)"


def _load(conn: sqlite3.Connection, session_id: int, after_id: int, limit_bytes: int) -> _Window:
    window = _Window(after_id=after_id, limit_bytes=limit_bytes)
    for row_id, body in conn.execute(
        f"SELECT {_COLUMNS} FROM history WHERE session_id = ? AND id > ? ORDER BY id DESC",  # noqa: S608 - a constant
        (session_id, after_id),
    ):
        window.add(row_id, body)
        size = window.size_bytes
        if size > limit_bytes and (_is_user(window.rows[-1]) or size > limit_bytes * _MOST):
            break
    for column in (window.ids, window.sizes, window.rows):
        column.reverse()  # they came newest first
    return window


def _read_on(conn: sqlite3.Connection, session_id: int, window: _Window) -> None:
    last = window.ids[-1] if window.ids else window.after_id
    for row_id, body in conn.execute(
        f"SELECT {_COLUMNS} FROM history WHERE session_id = ? AND id > ? ORDER BY id",  # noqa: S608 - a constant
        (session_id, last),
    ):
        window.add(row_id, body)
    window.trim()
