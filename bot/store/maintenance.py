"""Forgetting what is long settled, in portions, so that nobody waits for it.

`prune` removes bookkeeping: answered inbox rows, sent outbox rows, ended turns with their calls, finished jobs with
their runs, goals that are over, and the lanes and rows of single runs, memory runs and subagents. What a chat said
stays until `retire` finds that it has been silent for longer than its retention; then it goes with its notes, goals
and words in the index. Files that tools wrote stay.
"""

from __future__ import annotations

import sqlite3

from bot.store.history_search import unlearn

PORTION = 2_000
"""Rows of one table removed in one transaction; a few milliseconds."""

MAX_ARCHIVED = 10_000
"""Archived conversations of one address that are kept; of more the oldest go, whatever the retention."""

_UNLEARN_PORTION = 200
"""Rows with words in the index that are removed in one transaction: their words are looked up one by one."""

_SESSIONS_PORTION = 200
_GONE = "gone:"
"""Lane prefix of conversations on their way out: no chat lists, searches or continues them any more."""

_OLD_ROWS = {
    "inbox": "received_us < ? AND state IN ('done', 'dropped')",
    "outbox": "ended_us < ? AND state IN ('sent', 'uncertain')",
    "calls": "turn_id IN (SELECT id FROM turns WHERE ended_us < ?)",
    "turns": "ended_us < ? AND id NOT IN (SELECT turn_id FROM calls)",
    "runs": "ended_us < ?",
    "jobs": "state = 'done' AND created_us < ? AND id NOT IN (SELECT job_id FROM runs)",
    "subagents": "ended_us < ?",
    "goals": "ended_us < ?",
}
_SIDE_LANES = "(lane GLOB 'job:*' OR lane GLOB 'sub:*' OR lane GLOB 'mem:*')"
# A turn runs in it, a message waits for it, or it never was a chat's.
_IN_USE = (
    "(s.lane GLOB 'job:*' OR s.lane GLOB 'sub:*' OR s.lane GLOB 'mem:*' OR s.lane GLOB 'gone:*'"
    " OR s.id IN (SELECT t.session_id FROM lanes l JOIN turns t ON t.id = l.turn_id)"
    " OR EXISTS (SELECT 1 FROM inbox i WHERE i.lane = s.lane AND i.state = 'queued'))"
)


def prune(conn: sqlite3.Connection, older_than_us: int) -> int:
    """Remove one portion from each table; returns how many rows went, 0 when there is nothing left to do."""
    removed = 0
    for table, condition in _OLD_ROWS.items():
        key = "turn_id, call_id" if table == "calls" else "rowid"
        removed += conn.execute(
            f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {condition} LIMIT {PORTION})",  # noqa: S608
            (older_than_us,),
        ).rowcount
    old_sessions = f"SELECT id FROM sessions WHERE created_us < ? AND {_SIDE_LANES}"  # noqa: S608 - constants
    removed += conn.execute(
        f"DELETE FROM history WHERE rowid IN (SELECT rowid FROM history WHERE session_id IN ({old_sessions})"  # noqa: S608
        f" LIMIT {PORTION})",
        (older_than_us,),
    ).rowcount
    removed += conn.execute("DELETE FROM notes WHERE session_id NOT IN (SELECT id FROM sessions)").rowcount
    removed += conn.execute(
        f"DELETE FROM sessions WHERE id IN ({old_sessions} AND id NOT IN (SELECT session_id FROM history)"  # noqa: S608
        f" AND lane NOT IN (SELECT key FROM lanes WHERE turn_id IS NOT NULL) LIMIT {PORTION})",
        (older_than_us,),
    ).rowcount
    removed += conn.execute(
        "DELETE FROM lanes WHERE turn_id IS NULL"
        " AND (key GLOB 'job:*' OR key GLOB 'sub:*' OR key GLOB 'mem:*' OR key GLOB 'now:*')"
        " AND key NOT IN (SELECT lane FROM inbox) AND key NOT IN (SELECT lane FROM sessions)"
    ).rowcount
    return removed


def retire(conn: sqlite3.Connection, older_than_us: int | None, *, max_archived: int = MAX_ARCHIVED) -> int:
    """Remove one portion of conversations without a row since then; None: only of an address's too many archived.

    A conversation is first taken from its chat, whole, and then removed row by row: what a crash leaves is
    removed by the next call. Returns how many rows and conversations were touched, 0 when there is nothing left.
    """
    touched = 0
    if older_than_us is not None:
        due = f"SELECT s.id FROM sessions s WHERE s.used_us < ? AND NOT {_IN_USE} LIMIT {_SESSIONS_PORTION}"  # noqa: S608
        touched += _take_away(conn, [row[0] for row in conn.execute(due, (older_than_us,))])
    crowded = "SELECT lane FROM sessions WHERE archived_us IS NOT NULL GROUP BY lane HAVING count(*) > ?"
    for (lane,) in conn.execute(crowded, (max_archived,)).fetchall():
        surplus = (
            f"SELECT s.id FROM sessions s WHERE s.lane = ? AND s.archived_us IS NOT NULL AND NOT {_IN_USE}"  # noqa: S608
            " ORDER BY s.used_us DESC, s.id DESC LIMIT ? OFFSET ?"
        )
        rows = conn.execute(surplus, (lane, _SESSIONS_PORTION, max_archived))
        touched += _take_away(conn, [row[0] for row in rows])
    gone = conn.execute(f"SELECT id FROM sessions WHERE lane GLOB '{_GONE}*' LIMIT {_SESSIONS_PORTION}").fetchall()  # noqa: S608
    budget = PORTION
    for (session_id,) in gone:
        if budget <= 0:
            break
        removed, is_empty = _remove_rows(conn, session_id, budget)
        budget -= removed
        touched += removed
        if is_empty:
            touched += _remove_session(conn, session_id)
    return touched


def _take_away(conn: sqlite3.Connection, session_ids: list[int]) -> int:
    """Take conversations from their chats; a chat whose current one it was begins a new one with its next message."""
    conn.executemany("UPDATE lanes SET session_id = NULL WHERE session_id = ?", [(number,) for number in session_ids])
    conn.executemany(
        f"UPDATE sessions SET lane = '{_GONE}' || lane WHERE id = ?",  # noqa: S608 - a constant
        [(number,) for number in session_ids],
    )
    return len(session_ids)


def _remove_rows(conn: sqlite3.Connection, session_id: int, limit: int) -> tuple[int, bool]:
    """Remove the oldest rows of a conversation, with their words; returns how many, and whether none is left."""
    row = conn.execute("SELECT history_id FROM history_read WHERE session_id = ?", (session_id,)).fetchone()
    known = 0 if row is None else int(row[0])
    indexed = conn.execute(
        "SELECT id, CAST(body AS BLOB) FROM history WHERE session_id = ? AND id <= ? ORDER BY id LIMIT ?",
        (session_id, known, min(limit, _UNLEARN_PORTION)),
    ).fetchall()
    if indexed:
        for row_id, body in indexed:
            unlearn(conn, session_id, row_id, body)
        conn.executemany("DELETE FROM history WHERE id = ?", [(row_id,) for row_id, _ in indexed])
        return len(indexed), False
    removed = conn.execute(
        "DELETE FROM history WHERE id IN (SELECT id FROM history WHERE session_id = ? ORDER BY id LIMIT ?)",
        (session_id, limit),
    ).rowcount
    return removed, removed < limit


def _remove_session(conn: sqlite3.Connection, session_id: int) -> int:
    for table in ("notes", "goals", "history_read"):
        conn.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608 - constants
    return conn.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount
