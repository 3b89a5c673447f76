"""Questions of people who look after the bot, answered by queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import replace

from bot.clock import Clock
from bot.messages import Address, Usage
from bot.records import DeadLetter, OutboxChange, OutboxPage, StoreStatus
from bot.store import letters
from bot.store.database import Database
from bot.store.maintenance import prune, retire

_DEAD_IN_STATUS = 10


class SqlOverview:
    """See `bot.interfaces.Overview`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def status(self) -> StoreStatus:
        """See `Overview.status`."""

        def work(conn: sqlite3.Connection) -> StoreStatus:
            def count(sql: str) -> int:
                return int(conn.execute(f"SELECT count(*) FROM {sql}").fetchone()[0])  # noqa: S608

            return StoreStatus(
                sessions=count(
                    "sessions WHERE archived_us IS NULL AND lane NOT GLOB 'job:*' AND lane NOT GLOB 'sub:*'"
                    " AND lane NOT GLOB 'mem:*'"
                ),
                inbox_queued=count("inbox WHERE state = 'queued'"),
                turns_running=count("lanes WHERE turn_id IS NOT NULL"),
                outbox_queued=count("outbox WHERE state IN ('queued', 'sending')"),
                outbox_delayed=count("outbox WHERE due_us IS NOT NULL AND state = 'queued' AND tried_us > 0"),
                outbox_uncertain=count("outbox WHERE uncertain > 0"),
                jobs_active=count("jobs WHERE state = 'active'"),
                dead_letters=tuple(_dead_letters(conn, _DEAD_IN_STATUS)),
                dead_letter_count=count("inbox WHERE state = 'dead'") + count("outbox WHERE state = 'dead'"),
            )

        return await self._database.read(work)

    async def usage(self, address: Address, *, since_us: int) -> Usage:
        """See `Overview.usage`."""

        def work(conn: sqlite3.Connection) -> Usage:
            row = conn.execute(
                "SELECT total(t.input_tokens), total(t.output_tokens), total(t.cached_tokens), total(t.cost_micros)"
                " FROM turns t JOIN sessions s ON s.id = t.session_id JOIN lanes l ON l.key = s.lane"
                " WHERE t.ended_us >= ? AND l.channel = ? AND l.chat_id = ? AND l.thread_id IS ?",
                (since_us, address.channel, address.chat_id, address.thread_id),
            ).fetchone()
            given, made, cached, cost = map(int, row)
            return Usage(input_tokens=given, output_tokens=made, cached_tokens=cached, cost_micros=cost)

        return await self._database.read(work)

    async def dead_letters(self, *, limit: int) -> list[DeadLetter]:
        """See `Overview.dead_letters`."""
        return await self._database.read(lambda conn: _dead_letters(conn, limit))

    async def outbox(self, *, before_id: int | None = None, limit: int) -> OutboxPage:
        """See `Overview.outbox`."""
        page = await self._database.read(lambda conn: letters.page(conn, before_id=before_id, limit=limit))
        wall_us = self._clock.now_us() - self._clock.steady_us()  # people are told by the wall clock
        entries = [replace(entry, next_us=entry.next_us and entry.next_us + wall_us) for entry in page.entries]
        return replace(page, entries=tuple(entries))

    async def resend(self, ids: Collection[int] | None) -> OutboxChange:
        """See `Overview.resend`."""
        return await self._database.write(lambda conn: letters.resend(conn, ids), durable=True)

    async def drop(self, ids: Collection[int] | None) -> OutboxChange:
        """See `Overview.drop`."""
        now_us, leased_us = self._clock.now_us(), self._clock.steady_us()
        return await self._database.write(
            lambda conn: letters.drop(conn, ids, now_us=now_us, leased_us=leased_us), durable=True
        )

    async def prune(self, *, older_than_us: int) -> int:
        """See `Overview.prune`; other writes get their chance between the portions."""
        total = 0
        while removed := await self._database.write(lambda conn: prune(conn, older_than_us)):
            total += removed
        return total

    async def retire(self, *, older_than_us: int | None) -> int:
        """See `Overview.retire`; other writes get their chance between the portions."""
        total = 0
        while touched := await self._database.write(lambda conn: retire(conn, older_than_us)):
            total += touched
        return total


def _dead_letters(conn: sqlite3.Connection, limit: int) -> list[DeadLetter]:
    rows = conn.execute(
        "SELECT id, 'in', channel, chat_id, thread_id, text, error, received_us AS at FROM inbox WHERE state = 'dead'"
        " UNION ALL SELECT id, 'out', channel, chat_id, thread_id, text, error, created_us FROM outbox"
        " WHERE state = 'dead' ORDER BY at DESC LIMIT ?",
        (limit,),
    )
    return [
        DeadLetter(
            id=row[0],
            direction=row[1],
            address=Address(channel=row[2], chat_id=row[3], thread_id=row[4]),
            text=row[5],
            error=row[6],
            at_us=row[7],
        )
        for row in rows
    ]
