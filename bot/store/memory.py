"""What long-term memory keeps beside its files: their versions, and how far the conversations have been read."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from bot.clock import Clock
from bot.conversation import HistoryRow, MemoryVersion
from bot.memories import HomeKind, MemoryDue, MemoryHome, MemoryStep
from bot.messages import Address, ChatType, InboundMessage, Origin, clean_text
from bot.store.database import Database
from bot.store.history import history_row
from bot.store.inbox import insert_inbound

VERSIONS_KEPT = 50
"""Versions of one memory; the oldest go first."""

_PLANNED = "memory:planned"
_ACCOUNT = "memory"
# The rows of chats, each with the first message that its turn answers: who spoke, and where. CROSS JOIN: SQLite keeps
# this order, from the inbox, which is pruned, while history, most of it other people's, grows for ever.
_SPOKEN = (
    "FROM inbox i CROSS JOIN history h ON h.turn_id = i.turn_id"
    " AND i.id = (SELECT min(id) FROM inbox WHERE turn_id = i.turn_id)"
    " CROSS JOIN sessions s ON s.id = h.session_id"
    " AND NOT (s.lane GLOB 'job:*' OR s.lane GLOB 'sub:*' OR s.lane GLOB 'mem:*')"
)


def end_memory_run(conn: sqlite3.Connection, step: MemoryStep, *, now_us: int) -> None:
    """Move the mark of a home on and keep what its file says now, unless the home was forgotten meanwhile."""
    key = step.home.key
    if mark_of(conn, key) != step.after:
        return
    if step.upto > step.after:
        _set_mark(conn, key, step.upto)
    if step.body is not None:
        keep_version(conn, key, step.body, reason=step.reason, now_us=now_us)


def mark_of(conn: sqlite3.Connection, key: str) -> int:
    """Return the last row that was read for a home's memory."""
    row = conn.execute("SELECT history_id FROM memory_marks WHERE home = ?", (key,)).fetchone()
    return 0 if row is None else int(row[0])


def keep_version(conn: sqlite3.Connection, key: str, body: str, *, reason: str, now_us: int) -> bool:
    """Keep what a memory says, unless the newest version says the same; False then."""
    row = conn.execute("SELECT body FROM memory_versions WHERE home = ? ORDER BY id DESC LIMIT 1", (key,)).fetchone()
    if ("" if row is None else row[0]) == body:
        return False
    conn.execute(
        "INSERT INTO memory_versions (home, at_us, reason, body) VALUES (?,?,?,?)", (key, now_us, reason, body)
    )
    conn.execute(
        "DELETE FROM memory_versions WHERE home = ? AND id NOT IN"
        " (SELECT id FROM memory_versions WHERE home = ? ORDER BY id DESC LIMIT ?)",
        (key, key, VERSIONS_KEPT),
    )
    return True


def migrate_memory(conn: sqlite3.Connection, old: MemoryHome, new: MemoryHome) -> None:
    """Give the versions and the mark of a home another one's key."""
    conn.execute("UPDATE memory_versions SET home = ? WHERE home = ?", (new.key, old.key))
    conn.execute("UPDATE OR REPLACE memory_marks SET home = ? WHERE home = ?", (new.key, old.key))


class SqlMemory:
    """See `bot.interfaces.Memory`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def planned_us(self, channels: Collection[str] | None = None) -> int:
        """See `Memory.planned_us`."""
        value = await self._database.read(lambda conn: _planned(conn, channels))
        if value is not None:
            return value
        now = self._clock.now_us()
        await self._database.write(lambda conn: _set_planned(conn, channels, now))
        return now

    async def due(self, channels: Collection[str] | None = None) -> list[MemoryDue]:
        """See `Memory.due`."""

        def work(conn: sqlite3.Connection) -> list[MemoryDue]:
            marks = dict(conn.execute("SELECT home, history_id FROM memory_marks").fetchall())
            # With max() the other columns are those of the newest row:
            # https://sqlite.org/lang_select.html#bareagg.
            rows = conn.execute(
                f"SELECT i.channel, i.chat_type, i.chat_id, i.sender_id, max(h.id) {_SPOKEN}"
                " GROUP BY i.channel, i.chat_type, CASE i.chat_type WHEN ? THEN i.sender_id ELSE i.chat_id END",
                (ChatType.PRIVATE,),
            )
            found = []
            for channel, chat_type, chat_id, sender_id, upto in rows:
                address = Address(channel=channel, chat_id=chat_id)
                home = MemoryHome.of(private=chat_type == ChatType.PRIVATE, address=address, sender_id=sender_id)
                after = marks.get(home.key, 0)
                if upto > after and (channels is None or channel in channels):
                    found.append(
                        MemoryDue(home=home, address=address, sender_id=sender_id, after=after, upto=int(upto))
                    )
            return found

        return await self._database.read(work)

    async def plan(self, due: Sequence[MemoryDue], *, due_us: int, channels: Collection[str] | None = None) -> int:
        """See `Memory.plan`."""

        def work(conn: sqlite3.Connection) -> int:
            now, queued = self._clock.now_us(), 0
            for item in due:
                if not _is_under_way(conn, item):
                    queued += insert_inbound(conn, _order(item, due_us), now_us=now)
            _set_planned(conn, channels, now)
            return queued

        return await self._database.write(work, durable=True)

    async def rows(self, home: MemoryHome, *, after: int, upto: int, limit: int) -> list[HistoryRow]:
        """See `Memory.rows`."""
        is_person = home.kind is HomeKind.PERSON
        whose = "i.chat_type = ? AND i.sender_id = ?" if is_person else "i.chat_type = ? AND i.chat_id = ?"
        chat_type = ChatType.PRIVATE if is_person else ChatType.GROUP

        def work(conn: sqlite3.Connection) -> list[HistoryRow]:
            rows = conn.execute(
                f"SELECT h.id, h.turn_id, CAST(h.body AS BLOB), h.created_us, i.sender_id {_SPOKEN}"
                f" WHERE h.id > ? AND h.id <= ? AND i.channel = ? AND {whose} ORDER BY h.id LIMIT ?",
                (after, upto, home.channel, chat_type, home.ident, limit),
            )
            return [history_row(*row) for row in rows]

        return await self._database.read(work)

    async def mark(self, home: MemoryHome) -> int:
        """See `Memory.mark`."""
        return await self._database.read(lambda conn: mark_of(conn, home.key))

    async def keep(self, home: MemoryHome, body: str, *, reason: str) -> bool:
        """See `Memory.keep`."""
        return await self._database.write(
            lambda conn: keep_version(conn, home.key, body, reason=reason, now_us=self._clock.now_us()), durable=True
        )

    async def versions(self, home: MemoryHome, *, limit: int) -> list[MemoryVersion]:
        """See `Memory.versions`."""

        def work(conn: sqlite3.Connection) -> list[MemoryVersion]:
            rows = conn.execute(
                "SELECT id, home, at_us, reason, body FROM memory_versions WHERE home = ? ORDER BY id DESC LIMIT ?",
                (home.key, limit),
            )
            return [_version(*row) for row in rows]

        return await self._database.read(work)

    async def version(self, home: MemoryHome, version_id: int) -> MemoryVersion | None:
        """See `Memory.version`."""

        def work(conn: sqlite3.Connection) -> MemoryVersion | None:
            row = conn.execute(
                "SELECT id, home, at_us, reason, body FROM memory_versions WHERE home = ? AND id = ?",
                (home.key, version_id),
            ).fetchone()
            return None if row is None else _version(*row)

        return await self._database.read(work)

    async def forget(self, home: MemoryHome) -> None:
        """See `Memory.forget`."""

        def work(conn: sqlite3.Connection) -> None:
            conn.execute("DELETE FROM memory_versions WHERE home = ?", (home.key,))
            _forget_runs(conn, home)
            (newest,) = conn.execute("SELECT coalesce(max(id), 0) FROM history").fetchone()
            _set_mark(conn, home.key, newest)

        await self._database.write(work, durable=True)


def _planned(conn: sqlite3.Connection, channels: Collection[str] | None) -> int | None:
    row = conn.execute("SELECT value FROM cursors WHERE name = ?", (_cursor(channels),)).fetchone()
    return None if row is None else int(row[0])


def _cursor(channels: Collection[str] | None) -> str:
    return _PLANNED if channels is None else f"{_PLANNED}:{','.join(sorted(channels))}"


def _set_planned(conn: sqlite3.Connection, channels: Collection[str] | None, now_us: int) -> None:
    conn.execute(
        "INSERT INTO cursors (name, value, updated_us) VALUES (?,?,?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value, updated_us = excluded.updated_us",
        (_cursor(channels), str(now_us), now_us),
    )


def _set_mark(conn: sqlite3.Connection, key: str, history_id: int) -> None:
    conn.execute(
        "INSERT INTO memory_marks (home, history_id) VALUES (?,?)"
        " ON CONFLICT DO UPDATE SET history_id = excluded.history_id",
        (key, history_id),
    )


def _forget_runs(conn: sqlite3.Connection, home: MemoryHome) -> None:
    """Remove what a home's runs read, wrote and answered: their calls hold the text of its file."""
    prefix = f"mem:{home.key}:"
    rows = conn.execute("SELECT id, lane FROM sessions WHERE lane >= ? AND lane < ?", (prefix, prefix[:-1] + ";"))
    # What follows is when a run was due; another home's id may begin like this one's.
    sessions = [(number,) for number, lane in rows.fetchall() if lane[len(prefix) :].isdecimal()]
    conn.executemany("DELETE FROM history WHERE session_id = ?", sessions)
    conn.executemany("DELETE FROM calls WHERE turn_id IN (SELECT id FROM turns WHERE session_id = ?)", sessions)


def _is_under_way(conn: sqlite3.Connection, item: MemoryDue) -> bool:
    """Say whether an earlier run of the home has not ended, or the mark has moved since the home was found due."""
    waiting = conn.execute(
        "SELECT 1 FROM inbox WHERE channel = ? AND account = ? AND variant = ? AND state IN ('queued', 'claimed')",
        (item.home.channel, _ACCOUNT, item.home.key),
    ).fetchone()
    return waiting is not None or mark_of(conn, item.home.key) != item.after


def _order(item: MemoryDue, due_us: int) -> InboundMessage:
    """Return what starts a home's run: once for each due time, in a lane of its own."""
    return InboundMessage(
        address=item.address,
        account=_ACCOUNT,
        message_id=f"memory-{due_us}",
        variant=item.home.key,
        text="",
        sender_id=item.sender_id,
        origin=Origin.MEMORY,
        lane=f"mem:{item.home.key}:{due_us}",
        meta={"home": item.home.key, "after": item.after, "upto": item.upto},
    )


def _version(row_id: int, home: str, at_us: int, reason: str, body: str) -> MemoryVersion:
    return MemoryVersion(id=row_id, home=home, at_us=at_us, reason=reason, body=clean_text(body))
