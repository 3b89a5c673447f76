"""The inbox: messages that came in, committed before the platform is told."""

from __future__ import annotations

import sqlite3

from bot.clock import Clock
from bot.errors import QueueFull
from bot.messages import Address, InboundMessage, Origin, clean_text
from bot.records import Acceptance, PressOutcome
from bot.store.codec import buttons_of, inbound_body
from bot.store.database import Database


def insert_inbound(conn: sqlite3.Connection, message: InboundMessage, *, now_us: int) -> bool:
    """Insert a message and its lane; False when its identity is known already."""
    address = message.address
    lane = message.lane or address.key
    ensure_lane(conn, lane, address)
    cursor = conn.execute(
        "INSERT INTO inbox (lane, channel, account, chat_id, thread_id, message_id, variant, origin, sender_id,"
        " chat_type, text, body, received_us, state) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,'queued')"
        " ON CONFLICT DO NOTHING",
        (
            lane,
            address.channel,
            message.account,
            address.chat_id,
            address.thread_id,
            message.message_id,
            message.variant,
            message.origin,
            message.sender_id,
            message.chat_type,
            clean_text(message.text),
            inbound_body(message),
            now_us,
        ),
    )
    return cursor.rowcount == 1


def ensure_lane(conn: sqlite3.Connection, lane: str, address: Address) -> None:
    """Make sure a lane exists."""
    conn.execute(
        "INSERT OR IGNORE INTO lanes (key, channel, chat_id, thread_id) VALUES (?,?,?,?)",
        (lane, address.channel, address.chat_id, address.thread_id),
    )


class SqlInbox:
    """See `bot.interfaces.Inbox`."""

    def __init__(self, database: Database, clock: Clock, *, max_waiting: int) -> None:
        self._database = database
        self._clock = clock
        self._max_waiting = max_waiting

    async def accept(self, message: InboundMessage) -> Acceptance:
        """See `Inbox.accept`."""
        return await self._database.write(lambda conn: self._insert(conn, message), durable=True)

    async def accept_press(self, message: InboundMessage, outbox_id: int, index: int) -> PressOutcome:
        """See `Inbox.accept_press`."""

        def work(conn: sqlite3.Connection) -> PressOutcome:
            row = conn.execute("SELECT pressed, body FROM outbox WHERE id = ?", (outbox_id,)).fetchone()
            labels = [] if row is None else [button.label for line in buttons_of(row[1]) for button in line]
            if not 0 <= index < len(labels):
                return PressOutcome(acceptance=Acceptance.REFUSED)
            if (pressed := row[0]) is not None:
                return PressOutcome(acceptance=Acceptance.DUPLICATE, label=labels[pressed])
            conn.execute("UPDATE outbox SET pressed = ? WHERE id = ?", (index, outbox_id))
            return PressOutcome(acceptance=self._insert(conn, message), label=labels[index])

        return await self._database.write(work, durable=True)

    def _insert(self, conn: sqlite3.Connection, message: InboundMessage) -> Acceptance:
        fresh = insert_inbound(conn, message, now_us=self._clock.now_us())
        if not fresh:
            return Acceptance.DUPLICATE
        if message.origin is Origin.USER:
            waiting = conn.execute("SELECT count(*) FROM inbox WHERE state = 'queued'").fetchone()[0]
            if waiting > self._max_waiting:
                raise QueueFull(f"{self._max_waiting} messages wait already")
        return Acceptance.ACCEPTED

    async def accept_unparsed(self, *, channel: str, account: str, update_id: str, raw: str, error: str) -> None:
        """See `Inbox.accept_unparsed`."""

        def work(conn: sqlite3.Connection) -> None:
            conn.execute(
                "INSERT INTO inbox (lane, channel, account, chat_id, message_id, variant, origin, sender_id,"
                " chat_type, text, body, received_us, state, error)"
                " VALUES ('', ?, ?, '', ?, 'unparsed', 'user', '', 'private', ?, '{}', ?, 'dead', ?)"
                " ON CONFLICT DO NOTHING",
                (channel, account, update_id, clean_text(raw), self._clock.now_us(), clean_text(error)),
            )

        await self._database.write(work, durable=True)

    async def replace_queued(self, message: InboundMessage) -> bool:
        """See `Inbox.replace_queued`."""

        def work(conn: sqlite3.Connection) -> bool:
            cursor = conn.execute(
                "UPDATE inbox SET text = ?, body = ? WHERE channel = ? AND account = ? AND chat_id = ?"
                " AND message_id = ? AND variant = ? AND state = 'queued'",
                (
                    clean_text(message.text),
                    inbound_body(message),
                    message.address.channel,
                    message.account,
                    message.address.chat_id,
                    message.message_id,
                    message.variant,
                ),
            )
            return cursor.rowcount == 1

        return await self._database.write(work, durable=True)
