"""What happens to a chat as a whole: it closes to us, opens again, or lives on under another id."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from bot.memories import HomeKind, MemoryHome
from bot.messages import Address, Origin
from bot.records import Job, JobState, moved_prefix, moved_variant
from bot.schedule import ScheduleKind
from bot.store.codec import JOB_COLUMNS, job_row
from bot.store.goals import pause_goals
from bot.store.memory import migrate_memory


def close_chat(conn: sqlite3.Connection, address: Address, error: str, *, now_us: int) -> int:
    """Bury what is queued for a chat, pause its jobs and goals; returns the number of jobs paused.

    The reason is kept with chat and jobs, the first one if several come, so that opening knows whom it paused.
    """
    conn.execute(
        "INSERT INTO chats (rate_key, closed) VALUES (?, ?) ON CONFLICT (rate_key)"
        " DO UPDATE SET closed = CASE closed WHEN '' THEN excluded.closed ELSE closed END",
        (address.rate_key, error),
    )
    conn.execute(  # a removal of a draft has no words that anybody could miss
        "DELETE FROM outbox WHERE chat_id = ? AND rate_key = ? AND state = 'queued' AND text = ''"
        " AND body ->> '$.draft_id' IS NOT NULL AND body ->> '$.attachments' IS NULL",
        (address.chat_id, address.rate_key),
    )
    conn.execute(
        "UPDATE outbox SET state = 'dead', error = ?, ended_us = ?"
        " WHERE chat_id = ? AND rate_key = ? AND state = 'queued'",
        (error, now_us, address.chat_id, address.rate_key),
    )
    cursor = conn.execute(
        "UPDATE jobs SET state = 'paused', next_us = NULL,"
        " last_error = (SELECT closed FROM chats WHERE rate_key = ?)"
        " WHERE channel = ? AND chat_id = ? AND state = 'active'",
        (address.rate_key, address.channel, address.chat_id),
    )
    pause_goals(conn, address)
    return cursor.rowcount


def reopen_chat(conn: sqlite3.Connection, address: Address, *, now_us: int) -> int:
    """Let the jobs go on that closing the chat paused; returns how many. Those a person paused stay so.

    A one-shot job whose time passed meanwhile is due now; of a recurring one the next time counts.
    """
    row = conn.execute("SELECT closed FROM chats WHERE rate_key = ?", (address.rate_key,)).fetchone()
    if row is None or not row[0]:
        return 0
    paused = conn.execute(
        f"SELECT {JOB_COLUMNS} FROM jobs WHERE channel = ? AND chat_id = ? AND state = 'paused'"  # noqa: S608
        " AND last_error = ?",
        (address.channel, address.chat_id, row[0]),
    ).fetchall()
    jobs = [_resumed(job_row(values), now_us) for values in paused]
    conn.executemany(
        "UPDATE jobs SET state = ?, next_us = ?, last_error = '' WHERE id = ?",
        [(job.state, job.next_us, job.id) for job in jobs],
    )
    conn.execute("UPDATE chats SET closed = '' WHERE rate_key = ?", (address.rate_key,))
    return sum(job.state is JobState.ACTIVE for job in jobs)


def _resumed(job: Job, now_us: int) -> Job:
    next_us = job.schedule.next_after(now_us, seed=job.id)
    if next_us is None and job.schedule.kind is ScheduleKind.AT:
        next_us = job.schedule.at_us
    return replace(job, state=JobState.DONE if next_us is None else JobState.ACTIVE, next_us=next_us)


def migrate_chat(conn: sqlite3.Connection, channel: str, old: str, new: str, *, now_us: int) -> None:
    """Give every row of a chat its new id. Lanes that exist under both ids keep the old history.

    Done again, for rows that a turn under way has written meanwhile, what has moved stays as it is.
    """
    before, after = f"{channel}:{old}", f"{channel}:{new}"
    # Leaving the old chat may have been reported as being thrown out of it.
    reopen_chat(conn, Address(channel=channel, chat_id=old), now_us=now_us)
    _forget_message_ids(conn, channel, old)
    for table in ("inbox", "outbox", "jobs", "subagents", "goals"):
        conn.execute(
            f"UPDATE {table} SET chat_id = ? WHERE channel = ? AND chat_id = ?",  # noqa: S608
            (new, channel, old),
        )
    conn.execute("UPDATE OR REPLACE chats SET rate_key = ? WHERE rate_key = ?", (after, before))
    conn.execute("UPDATE outbox SET rate_key = ? WHERE chat_id = ? AND rate_key = ?", (after, new, before))
    _move_lanes(conn, channel, old, new)
    migrate_memory(
        conn,
        MemoryHome(kind=HomeKind.CHAT, channel=channel, ident=old),
        MemoryHome(kind=HomeKind.CHAT, channel=channel, ident=new),
    )
    conn.execute(
        "UPDATE outbox SET order_key = :after || substr(order_key, length(:before) + 1) WHERE channel = :channel"
        " AND chat_id = :new AND (order_key = :before OR substr(order_key, 1, length(:before) + 1) = :before || ':')",
        {"after": after, "before": before, "channel": channel, "new": new},
    )
    conn.execute(
        "INSERT INTO cursors (name, value, updated_us) VALUES (?,?,?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value, updated_us = excluded.updated_us",
        (f"{moved_prefix(channel)}{new}", old, now_us),
    )


def _move_lanes(conn: sqlite3.Connection, channel: str, old: str, new: str) -> None:
    before, after = f"{channel}:{old}", f"{channel}:{new}"
    moved_before = (f"{moved_prefix(channel)}{new}", old)
    again = conn.execute("SELECT 1 FROM cursors WHERE name = ? AND value = ?", moved_before).fetchone() is not None
    lanes = conn.execute("SELECT key FROM lanes WHERE channel = ? AND chat_id = ?", (channel, old)).fetchall()
    for (lane,) in lanes:
        moved = lane.replace(before, after, 1)
        is_there = conn.execute("SELECT 1 FROM lanes WHERE key = ?", (moved,)).fetchone() is not None
        conn.execute("DELETE FROM lanes WHERE key = ? AND turn_id IS NULL", (lane if again and is_there else moved,))
        conn.execute("UPDATE OR IGNORE lanes SET key = ?, chat_id = ? WHERE key = ?", (moved, new, lane))
        for table, column in (("inbox", "lane"), ("sessions", "lane"), ("subagents", "parent_lane")):
            conn.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (moved, lane))  # noqa: S608


def _forget_message_ids(conn: sqlite3.Connection, channel: str, old: str) -> None:
    """Let nothing of a chat name its messages any more: they stay behind, and the new chat counts from one again.

    What came in keeps its number, but as an identity that no message of the new chat has (see `moved_variant`).
    """
    here = (channel, old)
    conn.execute(
        "UPDATE inbox SET variant = variant || ?, body = json_remove(body, '$.reply_to')"
        " WHERE channel = ? AND chat_id = ? AND origin = ?",
        (moved_variant("", old), *here, Origin.USER),
    )
    conn.execute(
        "UPDATE outbox SET body = json_remove(body, '$.reply_to', '$.draft_id') WHERE channel = ? AND chat_id = ?"
        " AND state IN ('queued', 'sending', 'dead')",
        here,
    )
    conn.execute(
        "UPDATE outbox SET sent_ids = '[]' WHERE channel = ? AND chat_id = ? AND state IN ('sent', 'uncertain')", here
    )
    for table in ("goals", "subagents"):
        conn.execute(f"UPDATE {table} SET reply_to = '' WHERE channel = ? AND chat_id = ?", here)  # noqa: S608
    conn.execute(
        "UPDATE turns SET draft_id = '' WHERE state = 'running'"
        " AND id IN (SELECT turn_id FROM inbox WHERE channel = ? AND chat_id = ? AND state = 'claimed')",
        here,
    )
