"""The outbox: messages on their way out, in order per (channel, chat, thread)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from bot.clock import US_PER_S, Clock
from bot.messages import Address, OutboundKind, OutboundMessage, clean_text
from bot.records import OutboxRow, SendState
from bot.store.chats import close_chat, migrate_chat, reopen_chat
from bot.store.codec import OUTBOX_COLUMNS, dumps, outbound_body, outbox_row
from bot.store.database import Database

SEND_LEASE_US = 300 * US_PER_S
"""A row that has been in `sending` this long belongs to a worker that died; longer than any send may take."""


CLAIMABLE = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE channel = ? AND due_us = 0 ORDER BY id LIMIT ?"  # noqa: S608
"""The rows of a channel that may be sent, the oldest of each order key; reads no row but these."""

UNSENT = (  # each part is what one of the table's indexes holds
    "(SELECT id FROM outbox WHERE state IN ('queued', 'sending') UNION ALL SELECT id FROM outbox WHERE state = 'dead'"
    " UNION ALL SELECT id FROM outbox WHERE uncertain > 0 AND state = 'uncertain')"
)
"""The ids of the rows that are not well sent: each of them may be sent again."""

_LOOK_BACK_US = 24 * 3_600 * US_PER_S
"""How far back what arrived is looked for when it is not known when it was sent."""

_LET_GO_AT_ONCE = 1_000  # rows in one transaction; a few milliseconds


def insert_outbound(
    conn: sqlite3.Connection,
    message: OutboundMessage,
    *,
    now_us: int,
    turn_id: int | None = None,
) -> int:
    """Queue a message; returns its id."""
    address = message.address
    cursor = conn.execute(
        "INSERT INTO outbox (order_key, rate_key, channel, chat_id, thread_id, kind, text, body, turn_id, job_id,"
        " state, created_us) VALUES (?,?,?,?,?,?,?,?,?,?,'queued',?)",
        (
            address.key,
            address.rate_key,
            address.channel,
            address.chat_id,
            address.thread_id,
            message.kind,
            clean_text(message.text),
            outbound_body(message),
            turn_id,
            message.job_id or None,
            now_us,
        ),
    )
    return int(cursor.lastrowid or 0)


def put_withdrawal(
    conn: sqlite3.Connection, address: Address, draft_id: str, *, now_us: int, turn_id: int | None = None
) -> None:
    """Queue the removal of a draft (`OutboundMessage.withdraws`)."""
    withdrawal = OutboundMessage(address=address, text="", kind=OutboundKind.NOTICE, draft_id=draft_id)
    insert_outbound(conn, withdrawal, now_us=now_us, turn_id=turn_id)


def _let_go(conn: sqlite3.Connection, channel: str, now: int) -> None:
    """Let rows whose wait is over be claimed: from here on they stand in line by their age alone."""
    conn.execute(
        "UPDATE outbox SET due_us = 0 WHERE id IN"
        " (SELECT id FROM outbox WHERE channel = ? AND due_us > 0 AND due_us <= ? LIMIT ?)",
        (channel, now, _LET_GO_AT_ONCE),
    )


def _next_due_us(conn: sqlite3.Connection, channels: Collection[str]) -> int | None:
    """Return when the next row of the channels may be claimed; each one's is the first entry of an index."""
    sql = "SELECT min(due_us) FROM outbox WHERE channel = ? AND due_us IS NOT NULL"
    found = [conn.execute(sql, (name,)).fetchone()[0] for name in dict.fromkeys(channels)]
    return min((due_us for due_us in found if due_us is not None), default=None)


class SqlOutbox:
    """See `bot.interfaces.Outbox`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, message: OutboundMessage) -> int:
        """See `Outbox.put`."""
        return await self._database.write(
            lambda conn: insert_outbound(conn, message, now_us=self._clock.now_us()), durable=True
        )

    async def claim(self, *, limit: int, channels: Collection[str]) -> tuple[list[OutboxRow], int | None]:
        """See `Outbox.claim`."""

        def work(conn: sqlite3.Connection) -> tuple[list[OutboxRow], int | None]:
            now = self._clock.steady_us()
            rows: list[OutboxRow] = []
            for name in dict.fromkeys(channels):
                _let_go(conn, name, now)
                rows += [outbox_row(row) for row in conn.execute(CLAIMABLE, (name, limit))]
            rows = sorted(rows, key=lambda row: row.id)[:limit]
            conn.executemany(
                "UPDATE outbox SET state = 'sending', lease_us = ?, attempts = attempts + 1,"
                " first_try_us = CASE first_try_us WHEN 0 THEN ? ELSE first_try_us END,"
                " tried_us = CASE tried_us WHEN 0 THEN ? ELSE tried_us END WHERE id = ?",
                [(now + SEND_LEASE_US, self._clock.now_us(), now, row.id) for row in rows],
            )
            # A full claim says nothing about the rest, so that it is looked at again at once.
            return rows, now if len(rows) == limit else _next_due_us(conn, channels)

        return await self._database.write(work)

    async def next_due_us(self, channels: Collection[str]) -> int | None:
        """See `Outbox.next_due_us`."""
        return await self._database.read(lambda conn: _next_due_us(conn, channels))

    async def part_sent(self, outbox_id: int, sent_ids: Sequence[str]) -> None:
        """See `Outbox.part_sent`."""
        lease_us = self._clock.steady_us() + SEND_LEASE_US
        await self._update(
            "UPDATE outbox SET sent_ids = ?, lease_us = ? WHERE id = ?", (dumps(list(sent_ids)), lease_us, outbox_id)
        )

    async def settle(self, outbox_id: int, sent_ids: Sequence[str], *, uncertain: bool = False) -> bool:
        """See `Outbox.settle`."""
        state = SendState.UNCERTAIN if uncertain else SendState.SENT

        def work(conn: sqlite3.Connection) -> bool:
            conn.execute(
                "UPDATE outbox SET state = ?, uncertain = uncertain + ?, sent_ids = ?, ended_us = ?, error = ''"
                " WHERE id = ?",
                (state, int(uncertain), dumps(list(sent_ids)), self._clock.now_us(), outbox_id),
            )
            more = conn.execute(
                "SELECT 1 FROM outbox WHERE order_key = (SELECT order_key FROM outbox WHERE id = ?)"
                " AND state IN ('queued', 'sending') LIMIT 1",
                (outbox_id,),
            )
            return more.fetchone() is not None

        return await self._database.write(work)

    async def retry(
        self,
        outbox_id: int,
        *,
        not_before_us: int,
        error: str,
        uncertain: bool = False,
        sent_ids: Sequence[str] | None = None,
        counts: bool = True,
    ) -> None:
        """See `Outbox.retry`."""
        parts = None if sent_ids is None else dumps(list(sent_ids))
        hold_us = max(0, not_before_us - self._clock.steady_us())
        await self._update(
            "UPDATE outbox SET state = 'queued', not_before_us = ?, hold_us = ?, error = ?, uncertain = uncertain + ?,"
            " sent_ids = coalesce(?, sent_ids), attempts = attempts - ? WHERE id = ?",
            (not_before_us, hold_us, clean_text(error), int(uncertain), parts, int(not counts), outbox_id),
        )

    async def doubt(self, outbox_id: int, *, look_at_us: int, error: str, sent_ids: Sequence[str]) -> None:
        """See `Outbox.doubt`."""
        await self._update(
            "UPDATE outbox SET state = 'sending', lease_us = ?, error = ?, sent_ids = ? WHERE id = ?",
            (look_at_us - 1, clean_text(error), dumps(list(sent_ids)), outbox_id),
        )

    async def delay_chat(self, address: Address, until_us: int) -> None:
        """See `Outbox.delay_chat`."""
        await self._update(
            "INSERT INTO chats (rate_key, not_before_us, hold_us) VALUES (?, ?, ?) ON CONFLICT (rate_key)"
            " DO UPDATE SET not_before_us = excluded.not_before_us, hold_us = excluded.hold_us"
            " WHERE excluded.not_before_us > not_before_us",
            (address.rate_key, until_us, max(0, until_us - self._clock.steady_us())),
        )

    async def bury(self, outbox_id: int, error: str, *, uncertain: bool = False) -> None:
        """See `Outbox.bury`."""
        await self._update(
            "UPDATE outbox SET state = 'dead', error = ?, ended_us = ?, uncertain = uncertain + ? WHERE id = ?",
            (clean_text(error), self._clock.now_us(), int(uncertain), outbox_id),
        )

    async def close_chat(self, address: Address, error: str) -> int:
        """See `Outbox.close_chat`."""

        def work(conn: sqlite3.Connection) -> int:
            return close_chat(conn, address, error, now_us=self._clock.now_us())

        return await self._database.write(work, durable=True)

    async def reopen_chat(self, address: Address) -> int:
        """See `Outbox.reopen_chat`."""
        return await self._database.write(
            lambda conn: reopen_chat(conn, address, now_us=self._clock.now_us()), durable=True
        )

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """See `Outbox.migrate_chat`."""

        def work(conn: sqlite3.Connection) -> None:
            migrate_chat(conn, channel, old_chat_id, new_chat_id, now_us=self._clock.now_us())

        await self._database.write(work, durable=True)

    async def job_of(self, address: Address, platform_id: str) -> str:
        """See `Outbox.job_of`."""

        def work(conn: sqlite3.Connection) -> str:
            row = conn.execute(
                "SELECT job_id FROM outbox WHERE channel = ? AND chat_id = ? AND job_id IS NOT NULL"
                " AND EXISTS (SELECT 1 FROM json_each(sent_ids) WHERE value = ?) ORDER BY id DESC LIMIT 1",
                (address.channel, address.chat_id, platform_id),
            ).fetchone()
            return "" if row is None else str(row[0])

        return await self._database.read(work)

    async def get(self, outbox_id: int) -> OutboxRow | None:
        """See `Outbox.get`."""
        sql = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = ?"  # noqa: S608 - a constant
        return await self._database.read(lambda conn: _one(conn.execute(sql, (outbox_id,))))

    async def copied_files(self) -> set[str]:
        """See `Outbox.copied_files`."""
        sql = (
            "SELECT a.value ->> '$.copy' AS copy FROM outbox o, json_each(o.body, '$.attachments') a"  # noqa: S608
            f" WHERE o.id IN {UNSENT} AND copy IS NOT NULL"
        )
        return await self._database.read(lambda conn: {str(row[0]) for row in conn.execute(sql)})

    async def sent_as(self, channel: str, chat_id: str, platform_id: str) -> OutboxRow | None:
        """See `Outbox.sent_as`."""
        sql = (
            f"SELECT {OUTBOX_COLUMNS} FROM (SELECT * FROM outbox WHERE channel = ? AND chat_id = ?"  # noqa: S608
            " ORDER BY id DESC LIMIT 1000) WHERE EXISTS (SELECT 1 FROM json_each(sent_ids) WHERE value = ?) LIMIT 1"
        )
        return await self._database.read(lambda conn: _one(conn.execute(sql, (channel, chat_id, platform_id))))

    async def _update(self, sql: str, values: tuple[object, ...]) -> None:
        await self._database.write(lambda conn: conn.execute(sql, values).close())


def resume_waits(conn: sqlite3.Connection, *, now_us: int) -> None:
    """Take up the waits of a process before this one: none can last longer than it was to last in all.

    One that seems to was set by a clock that was ahead. Patience with a message begins anew: how long nobody tried
    to send it, as nothing ran, is not known. `now_us` is on the scale of waits. A lease has nobody
    who holds it.
    """
    conn.execute("UPDATE outbox SET lease_us = 0 WHERE state = 'sending'")
    conn.execute(
        "UPDATE outbox SET not_before_us = :now + hold_us WHERE state = 'queued' AND not_before_us > :now + hold_us",
        {"now": now_us},
    )
    conn.execute(
        "UPDATE chats SET not_before_us = :now + hold_us WHERE not_before_us > :now + hold_us", {"now": now_us}
    )
    conn.execute(  # with a clock that was ahead, nobody knows by how much: what arrived is looked for from well before
        "UPDATE outbox SET tried_us = :now, first_try_us = min(first_try_us, :since)"
        " WHERE state IN ('queued', 'sending') AND tried_us > :now",
        {"now": now_us, "since": now_us - _LOOK_BACK_US},
    )
    conn.execute("UPDATE outbox SET tried_us = :now WHERE state = 'queued' AND tried_us > 0", {"now": now_us})


def _one(rows: sqlite3.Cursor) -> OutboxRow | None:
    row = rows.fetchone()
    return None if row is None else outbox_row(row)
