"""Forgetting what is long settled, in portions, so that nobody waits for it.

What a chat said stays: conversations have a retention of their own. What goes is bookkeeping: answered inbox
rows, sent outbox rows, ended turns with their calls, finished jobs with their runs, goals that are over, and the
lanes and rows of single runs, memory runs and subagents.
"""

from __future__ import annotations

import sqlite3

PORTION = 2_000
"""Rows of one table removed in one transaction; a few milliseconds."""

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
