"""Settings changed at run time, and the notes of a conversation."""

from __future__ import annotations

import sqlite3

import orjson

from bot.messages import Address
from bot.store.database import Database


def put_setting(conn: sqlite3.Connection, key: str, value: int | None) -> None:
    """Keep a setting; None forgets it."""
    if value is None:
        conn.execute("DELETE FROM settings WHERE key = ?", (key,))
        return
    conn.execute(
        "INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
        (key, orjson.dumps(value).decode()),
    )


def notes_of(conn: sqlite3.Connection, session_id: int) -> dict[str, str]:
    """Return a conversation's notes by key, in the order of the keys."""
    rows = conn.execute("SELECT key, value FROM notes WHERE session_id = ? ORDER BY key", (session_id,))
    return dict(rows.fetchall())


def put_note(conn: sqlite3.Connection, session_id: int, key: str, value: str | None) -> None:
    """Keep a note; None forgets it."""
    if value is None:
        conn.execute("DELETE FROM notes WHERE session_id = ? AND key = ?", (session_id, key))
        return
    conn.execute(
        "INSERT INTO notes (session_id, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
        (session_id, key, value),
    )


def chosen_model(conn: sqlite3.Connection, address: Address) -> str:
    """Return the preset a chat has chosen."""
    row = conn.execute("SELECT model FROM lanes WHERE key = ?", (address.key,)).fetchone()
    return "" if row is None else str(row[0])


class SqlSettings:
    """See `bot.interfaces.Settings`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> dict[str, int]:
        """See `Settings.all`."""
        rows = await self._database.read(lambda conn: conn.execute("SELECT key, value FROM settings").fetchall())
        return {key: int(orjson.loads(value)) for key, value in rows}

    async def chosen_model(self, address: Address) -> str:
        """See `Settings.chosen_model`."""
        return await self._database.read(lambda conn: chosen_model(conn, address))

    async def voice(self, address: Address) -> bool:
        """See `Settings.voice`."""
        query = "SELECT voice FROM lanes WHERE key = ?"
        row = await self._database.read(lambda conn: conn.execute(query, (address.key,)).fetchone())
        return row is not None and bool(row[0])

    async def set_voice(self, address: Address, *, on: bool) -> None:
        """See `Settings.set_voice`."""
        change, values = "UPDATE lanes SET voice = ? WHERE key = ?", (int(on), address.key)
        await self._database.write(lambda conn: conn.execute(change, values).close(), durable=True)

    async def notes(self, session_id: int) -> dict[str, str]:
        """See `Settings.notes`."""
        return await self._database.read(lambda conn: notes_of(conn, session_id))
