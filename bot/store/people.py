"""What is remembered by name or id: people's settings, cursors, the rows of sessions."""

from __future__ import annotations

import sqlite3

import orjson

from bot.clock import Clock
from bot.messages import Address
from bot.records import Message, Person
from bot.store.database import Database

_BYTES_PER_TOKEN = 6
"""Upper bound of JSON bytes a token of history takes, so that `tail` never returns less than asked for."""


class SqlPeople:
    """See `bot.interfaces.People`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, channel: str, user_id: str) -> Person:
        """See `People.get`."""

        def work(conn: sqlite3.Connection) -> Person:
            row = conn.execute(
                "SELECT zone FROM people WHERE channel = ? AND user_id = ?", (channel, user_id)
            ).fetchone()
            return Person(channel=channel, user_id=user_id, zone=row[0] if row else "")

        return await self._database.read(work)

    async def save(self, person: Person) -> None:
        """See `People.save`."""
        await self._database.write(
            lambda conn: conn.execute(
                "INSERT INTO people (channel, user_id, zone) VALUES (?,?,?)"
                " ON CONFLICT DO UPDATE SET zone = excluded.zone",
                (person.channel, person.user_id, person.zone),
            ).close(),
            durable=True,
        )


class SqlCursors:
    """See `bot.interfaces.Cursors`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def get(self, name: str, *, max_age_us: int | None = None) -> str | None:
        """See `Cursors.get`."""

        def work(conn: sqlite3.Connection) -> str | None:
            row = conn.execute("SELECT value, updated_us FROM cursors WHERE name = ?", (name,)).fetchone()
            if row is None or (max_age_us is not None and self._clock.now_us() - row[1] > max_age_us):
                return None
            return str(row[0])

        return await self._database.read(work)

    async def set(self, name: str, value: str) -> None:
        """See `Cursors.set`."""
        now = self._clock.now_us()
        await self._database.write(
            lambda conn: conn.execute(
                "INSERT INTO cursors (name, value, updated_us) VALUES (?,?,?)"
                " ON CONFLICT DO UPDATE SET value = excluded.value, updated_us = excluded.updated_us",
                (name, value, now),
            ).close()
        )


class SqlHistory:
    """See `bot.interfaces.History`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tail(self, session_id: int, *, limit_tokens: int) -> list[Message]:
        """See `History.tail`."""

        def work(conn: sqlite3.Connection) -> list[str]:
            left = limit_tokens * _BYTES_PER_TOKEN
            bodies: list[str] = []
            for (body,) in conn.execute(
                "SELECT body FROM history WHERE session_id = ? ORDER BY id DESC", (session_id,)
            ):
                bodies.append(body)
                left -= len(body)
                if left < 0:
                    break
            return bodies[::-1]

        return [orjson.loads(body) for body in await self._database.read(work)]

    async def count(self, address: Address) -> int:
        """See `History.count`."""

        def work(conn: sqlite3.Connection) -> int:
            row = conn.execute(
                "SELECT count(*) FROM history WHERE session_id = (SELECT session_id FROM lanes WHERE key = ?)"
                " AND json_extract(body, '$.role') != 'tool' AND json_extract(body, '$.content') != ''",
                (address.key,),
            ).fetchone()
            return int(row[0])

        return await self._database.read(work)
