"""Background subagents: who works for which chat."""

from __future__ import annotations

import sqlite3

from bot.messages import Address, ChatType, Origin
from bot.records import Subagent, SubagentState
from bot.store.database import Database

_COLUMNS = (
    "id, channel, chat_id, thread_id, parent_lane, chat_type, creator_id, label, task, reply_to, state, started_us, "
    "session_id"
)


def insert_subagent(conn: sqlite3.Connection, item: Subagent) -> None:
    """Store a new subagent."""
    address = item.address
    conn.execute(
        f"INSERT INTO subagents ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
        (
            item.id,
            address.channel,
            address.chat_id,
            address.thread_id,
            item.parent_lane,
            item.chat_type,
            item.creator_id,
            item.label,
            item.task,
            item.reply_to,
            item.state,
            item.started_us,
            item.session_id,
        ),
    )


def running_subagents(conn: sqlite3.Connection, address: Address) -> int:
    """Return how many subagents work for a chat, all its threads taken together."""
    row = conn.execute(
        "SELECT count(*) FROM subagents WHERE channel = ? AND chat_id = ? AND state = 'running'",
        (address.channel, address.chat_id),
    ).fetchone()
    return int(row[0])


def withdraw_subagents(conn: sqlite3.Connection, address: Address, *, now_us: int) -> int:
    """Interrupt the subagents of an address whose work nobody has begun; return how many."""
    orders = conn.execute(
        "UPDATE inbox SET state = 'done', error = 'stopped by /stop' WHERE state = 'queued' AND channel = ?"
        " AND chat_id = ? AND thread_id IS ? AND origin = ? AND lane = 'sub:' || message_id RETURNING message_id",
        (address.channel, address.chat_id, address.thread_id, Origin.SUBAGENT),
    ).fetchall()
    conn.executemany(
        "UPDATE subagents SET state = ?, ended_us = ? WHERE id = ?",
        [(SubagentState.INTERRUPTED, now_us, subagent_id) for (subagent_id,) in orders],
    )
    return len(orders)


class SqlSubagents:
    """See `bot.interfaces.Subagents`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, subagent_id: str) -> Subagent | None:
        """See `Subagents.get`."""

        def work(conn: sqlite3.Connection) -> Subagent | None:
            row = conn.execute(f"SELECT {_COLUMNS} FROM subagents WHERE id = ?", (subagent_id,)).fetchone()  # noqa: S608
            if row is None:
                return None
            return Subagent(
                id=row[0],
                address=Address(channel=row[1], chat_id=row[2], thread_id=row[3]),
                parent_lane=row[4],
                chat_type=ChatType(row[5]),
                creator_id=row[6],
                label=row[7],
                task=row[8],
                reply_to=row[9],
                state=SubagentState(row[10]),
                started_us=row[11],
                session_id=row[12],
            )

        return await self._database.read(work)

    async def running(self, lane: str) -> int:
        """See `Subagents.running`."""
        sql = "SELECT count(*) FROM subagents WHERE parent_lane = ? AND state = 'running'"
        return await self._database.read(lambda conn: int(conn.execute(sql, (lane,)).fetchone()[0]))
