"""The draft of a turn: which platform message shows it, and what becomes of it when it is out of place."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from bot.messages import Address, OutboundMessage
from bot.records import DraftState
from bot.store.outbox import insert_outbound, put_withdrawal


def draft_state(conn: sqlite3.Connection, turn_id: int, address: Address) -> DraftState:
    """Return how things stand for showing a draft of the turn at its address."""
    (draft_id,) = conn.execute("SELECT draft_id FROM turns WHERE id = ?", (turn_id,)).fetchone()
    held = conn.execute("SELECT not_before_us FROM chats WHERE rate_key = ?", (address.rate_key,)).fetchone()
    waiting = conn.execute(
        "SELECT 1 FROM outbox WHERE order_key = ? AND state IN ('queued', 'sending') LIMIT 1", (address.key,)
    ).fetchone()
    (newest_id,) = conn.execute("SELECT coalesce(max(id), 0) FROM outbox").fetchone()
    return DraftState(
        draft_id=draft_id,
        held_until_us=0 if held is None else held[0],
        is_next=waiting is None,
        newest_outbox_id=newest_id,
        message_count=_message_count(conn, turn_id),
    )


def was_overtaken(conn: sqlite3.Connection, turn_id: int, address: Address, before: DraftState) -> bool:
    """Say whether something was queued for the turn's address, or said to the turn, since then."""
    queued = conn.execute(
        "SELECT 1 FROM outbox WHERE id > ? AND order_key = ? LIMIT 1", (before.newest_outbox_id, address.key)
    ).fetchone()
    return queued is not None or _message_count(conn, turn_id) > before.message_count


def _message_count(conn: sqlite3.Connection, turn_id: int) -> int:
    (count,) = conn.execute("SELECT count(*) FROM inbox WHERE turn_id = ?", (turn_id,)).fetchone()
    return int(count)


def put_in_order(conn: sqlite3.Connection, turn_id: int, message: OutboundMessage, *, now_us: int) -> int:
    """Queue a message that a turn sends on its way; a draft that stands above it there already is withdrawn."""
    if message.address == _address_of(conn, turn_id):
        withdraw_draft(conn, turn_id, message.address, now_us=now_us)
    return insert_outbound(conn, message, now_us=now_us, turn_id=turn_id)


def withdraw_draft(conn: sqlite3.Connection, turn_id: int, address: Address, *, now_us: int) -> None:
    """Queue the removal of the turn's draft, if it has one; what it shows next is a new message."""
    draft_id = _taken(conn, turn_id)
    if draft_id:
        put_withdrawal(conn, address, draft_id, now_us=now_us, turn_id=turn_id)


def put_ending(
    conn: sqlite3.Connection, turn_id: int, address: Address, outbound: tuple[OutboundMessage, ...], *, now_us: int
) -> None:
    """Queue what a turn ends with. Its first message replaces the draft where it can, else the draft is withdrawn."""
    draft_id = ""
    first = outbound[0] if outbound else None
    if first is not None and first.address == address and first.text.strip() and not first.attachments:
        draft_id = _taken(conn, turn_id)
    else:
        withdraw_draft(conn, turn_id, address, now_us=now_us)
    for message in outbound:
        insert_outbound(conn, replace(message, draft_id=draft_id), now_us=now_us, turn_id=turn_id)
        draft_id = ""


def _taken(conn: sqlite3.Connection, turn_id: int) -> str:
    """Return the turn's draft and forget it there, so that it is edited into one message only."""
    row = conn.execute("SELECT draft_id FROM turns WHERE id = ?", (turn_id,)).fetchone()
    if row is None or not row[0]:
        return ""
    conn.execute("UPDATE turns SET draft_id = '' WHERE id = ?", (turn_id,))
    return str(row[0])


def _address_of(conn: sqlite3.Connection, turn_id: int) -> Address | None:
    row = conn.execute(
        "SELECT channel, chat_id, thread_id FROM inbox WHERE turn_id = ? ORDER BY id LIMIT 1", (turn_id,)
    ).fetchone()
    return None if row is None else Address(channel=row[0], chat_id=row[1], thread_id=row[2])
