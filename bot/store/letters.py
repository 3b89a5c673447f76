"""What people who look after the bot see and do with messages on their way out: list them, try again, drop them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from itertools import takewhile

from bot.records import UNKNOWN_PART, OutboxChange, OutboxEntry, OutboxPage, OutboxRow, SendState
from bot.store.codec import OUTBOX_COLUMNS, dumps, outbox_row
from bot.store.outbox import UNSENT, put_withdrawal

_COLUMNS = ", ".join(f"o.{name}" for name in OUTBOX_COLUMNS.split(", "))


def page(conn: sqlite3.Connection, *, before_id: int | None, limit: int) -> OutboxPage:
    """Return the newest messages that are not well sent, oldest first; `next_us` is on the scale of waits."""
    sql = (
        f"SELECT {_COLUMNS}, CASE o.state WHEN 'queued' THEN n.at_us WHEN 'sending' THEN o.lease_us END"  # noqa: S608
        " FROM outbox o JOIN outbox_next n ON n.id = o.id"
        f" WHERE o.id IN {UNSENT} AND (? IS NULL OR o.id < ?) ORDER BY o.id DESC LIMIT ?"
    )
    rows = conn.execute(sql, (before_id, before_id, limit)).fetchall()
    (total,) = conn.execute(f"SELECT count(*) FROM {UNSENT}").fetchone()  # noqa: S608
    entries = [OutboxEntry(row=outbox_row(row[:-1]), next_us=row[-1]) for row in reversed(rows)]
    return OutboxPage(entries=tuple(entries), total=total)


def resend(conn: sqlite3.Connection, ids: Collection[int] | None) -> OutboxChange:
    """Queue messages again, and let what waits be tried now. See `Overview.resend`."""
    allowed = {SendState.DEAD, SendState.QUEUED, SendState.UNCERTAIN}
    rows, refused = _chosen(conn, ids, allowed=allowed)
    if not refused:
        conn.executemany(
            "UPDATE outbox SET state = 'queued', not_before_us = 0, attempts = 0, first_try_us = 0, tried_us = 0,"
            " ended_us = NULL, error = '', sent_ids = ? WHERE id = ?",
            [(dumps(_known(row)), row.id) for row in rows],
        )
    return OutboxChange(rows=rows, refused=refused)


def _known(row: OutboxRow) -> list[str]:
    """Return the parts of a message that are out for sure: whoever sends it again wants the others."""
    return list(takewhile(lambda part: part != UNKNOWN_PART, row.sent_ids))


def drop(conn: sqlite3.Connection, ids: Collection[int] | None, *, now_us: int, leased_us: int) -> OutboxChange:
    """Forget messages that are not being sent, and let their drafts be removed. See `Overview.drop`.

    Those of a lease that ended before `leased_us` are not being sent.
    """
    allowed = {SendState.DEAD, SendState.QUEUED, SendState.UNCERTAIN}
    rows, refused = _chosen(conn, ids, allowed=allowed, cut_short_before_us=leased_us)
    if not refused:
        conn.executemany("DELETE FROM outbox WHERE id = ?", [(row.id,) for row in rows])
        for row in rows:
            if row.message.draft_id and not row.message.withdraws and not row.sent_ids:
                put_withdrawal(conn, row.message.address, row.message.draft_id, now_us=now_us)
    return OutboxChange(rows=rows, refused=refused)


def _chosen(
    conn: sqlite3.Connection,
    ids: Collection[int] | None,
    *,
    allowed: Collection[SendState],
    cut_short_before_us: int = 0,
) -> tuple[tuple[OutboxRow, ...], dict[int, SendState | None]]:
    """Return the rows that are meant, and those of the ids that stand in the way, with their state.

    A row whose sending lease ended before `cut_short_before_us` is in nobody's hand, and may be chosen, too.
    """
    if ids is None:
        rows = conn.execute(f"SELECT {_COLUMNS} FROM outbox o WHERE o.state = 'dead' ORDER BY o.id")  # noqa: S608
        return tuple(outbox_row(row) for row in rows), {}
    found: list[OutboxRow] = []
    refused: dict[int, SendState | None] = {}
    for wanted in dict.fromkeys(ids):
        sql = f"SELECT {_COLUMNS}, o.lease_us FROM outbox o WHERE o.id = ?"  # noqa: S608
        values = conn.execute(sql, (wanted,)).fetchone()
        if values is None:
            refused[wanted] = None
            continue
        row = outbox_row(values[:-1])
        cut_short = row.state is SendState.SENDING and values[-1] < cut_short_before_us
        if row.state in allowed or cut_short:
            found.append(row)
        else:
            refused[wanted] = row.state
    return tuple(found), refused
