"""What is remembered by name or id: people's settings and cursors."""

from __future__ import annotations

import sqlite3

from bot.clock import Clock
from bot.records import Person
from bot.store.database import Database


class SqlPeople:
    """See `bot.interfaces.People`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, channel: str, user_id: str) -> Person:
        """See `People.get`."""

        def work(conn: sqlite3.Connection) -> Person:
            row = conn.execute(
                "SELECT zone, shares_memory FROM people WHERE channel = ? AND user_id = ?", (channel, user_id)
            ).fetchone()
            zone, shares = row or ("", 0)
            return Person(channel=channel, user_id=user_id, zone=zone, shares_memory=bool(shares))

        return await self._database.read(work)

    async def save(self, person: Person) -> None:
        """See `People.save`."""
        await self._database.write(
            lambda conn: conn.execute(
                "INSERT INTO people (channel, user_id, zone, shares_memory) VALUES (?,?,?,?)"
                " ON CONFLICT DO UPDATE SET zone = excluded.zone, shares_memory = excluded.shares_memory",
                (person.channel, person.user_id, person.zone, int(person.shares_memory)),
            ).close(),
            durable=True,
        )

    async def note_zone(self, channel: str, user_id: str, zone: str) -> None:
        """See `People.note_zone`."""
        await self._database.write(
            lambda conn: conn.execute(
                "INSERT INTO people (channel, user_id, zone, platform_zone) VALUES (?,?,'',?)"
                " ON CONFLICT DO UPDATE SET platform_zone = excluded.platform_zone",
                (channel, user_id, zone),
            ).close()
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

    async def set(self, name: str, value: str, *, durable: bool = False) -> None:
        """See `Cursors.set`."""
        now = self._clock.now_us()
        await self._database.write(
            lambda conn: conn.execute(
                "INSERT INTO cursors (name, value, updated_us) VALUES (?,?,?)"
                " ON CONFLICT DO UPDATE SET value = excluded.value, updated_us = excluded.updated_us",
                (name, value, now),
            ).close(),
            durable=durable,
        )

    async def starting_with(self, prefix: str) -> dict[str, str]:
        """See `Cursors.starting_with`."""
        return await self._database.read(
            lambda conn: dict(
                conn.execute(
                    "SELECT name, value FROM cursors WHERE substr(name, 1, ?) = ? ORDER BY name", (len(prefix), prefix)
                ).fetchall()
            )
        )

    async def remove(self, name: str) -> None:
        """See `Cursors.remove`."""
        await self._database.write(lambda conn: conn.execute("DELETE FROM cursors WHERE name = ?", (name,)).close())
