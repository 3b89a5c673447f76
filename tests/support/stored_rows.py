"""Rows put straight into the table of history, past everything that would have checked them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from bot.messages import Address
from bot.store.store import SqlStore


async def session_of(store: SqlStore, address: Address) -> int:
    """Return the current session of an address, which must have been spoken to."""
    query = "SELECT session_id FROM lanes WHERE key = ?"
    return int(await store._database.read(lambda conn: conn.execute(query, (address.key,)).fetchone()[0]))


async def store_rows(store: SqlStore, session_id: int, rows: Iterable[Any]) -> None:
    """Append rows to a session: text and bytes as they are, anything else as JSON."""
    bodies = [row if isinstance(row, str | bytes) else orjson.dumps(row).decode() for row in rows]

    def work(conn: Any) -> None:
        conn.executemany(
            "INSERT INTO history (session_id, turn_id, body, created_us) VALUES (?, 0, CAST(? AS TEXT), 0)",
            [(session_id, body) for body in bodies],
        )

    await store._database.write(work)


async def stored_bodies(store: SqlStore, session_id: int) -> list[bytes]:
    """Return the bodies of a session's rows, oldest first, byte for byte."""
    query = "SELECT CAST(body AS BLOB) FROM history WHERE session_id = ? ORDER BY id"
    rows = await store._database.read(lambda conn: conn.execute(query, (session_id,)).fetchall())
    return [body for (body,) in rows]
