"""Turns: claiming work, holding the lease, ending a turn in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from enum import IntEnum

from bot.clock import US_PER_S, Clock
from bot.errors import StaleLease
from bot.messages import InboundMessage, Origin, Usage, clean_text
from bot.records import DraftState, Ending, QueuedMessage, Turn, TurnState
from bot.store.codec import INBOX_COLUMNS, Row, inbox_row
from bot.store.database import Database
from bot.store.drafts import draft_state, put_ending, was_overtaken, withdraw_draft
from bot.store.goals import advance_goal, current_goal, stop_goal
from bot.store.inbox import ensure_lane, insert_inbound
from bot.store.memory import end_memory_run
from bot.store.sessions import append_history, begin_session, give_title, session_for
from bot.store.settings import chosen_model

LEASE_US = 30 * US_PER_S
"""How long a claim holds without renewal (design 4)."""

MEMORY_RUNS_AT_ONCE = 2
"""Memory runs that are claimed at the same time: all become due together, and people must not wait behind them."""


class _Rank(IntEnum):
    """What a lane is for, by its key: the column `rank`."""

    COMMAND = 0  # one that acts at once
    OTHER = 1
    MEMORY = 2  # a memory run


_SUSPECT_ATTEMPTS = 2
"""Turns cut short this often are resumed one at a time, so that only the one that kills is buried."""


def check_lease(conn: sqlite3.Connection, turn: Turn) -> None:
    """Raise `StaleLease` unless the turn still runs under this claim."""
    row = conn.execute("SELECT owner, fence, state FROM turns WHERE id = ?", (turn.id,)).fetchone()
    if row != (turn.owner, turn.fence, TurnState.RUNNING):
        raise StaleLease(f"turn {turn.id} is no longer held by this worker")


def add_usage(conn: sqlite3.Connection, turn_id: int, usage: Usage) -> None:
    """Count what a turn has used."""
    conn.execute(
        "UPDATE turns SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
        " cached_tokens = cached_tokens + ?, cost_micros = cost_micros + ? WHERE id = ?",
        (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost_micros, turn_id),
    )


def _preset_of(conn: sqlite3.Connection, message: InboundMessage) -> str:
    """Return the preset a new turn runs with: that of its job or subagent, else what its chat has chosen."""
    named = message.meta.get("model")
    return str(named) if named is not None else chosen_model(conn, message.address)


def messages_of(conn: sqlite3.Connection, turn_id: int) -> tuple[QueuedMessage, ...]:
    """Return the inbound messages a turn answers, oldest first."""
    rows = conn.execute(f"SELECT {INBOX_COLUMNS} FROM inbox WHERE turn_id = ? ORDER BY id", (turn_id,))  # noqa: S608
    return tuple(inbox_row(row) for row in rows)


class SqlTurns:
    """See `bot.interfaces.Turns`. `owner` names this instance in leases."""

    def __init__(self, database: Database, clock: Clock, *, owner: str) -> None:
        self._database = database
        self._clock = clock
        self._owner = owner
        self._opened_us = clock.now_us()

    async def claim(
        self, *, limit: int, channels: Collection[str] | None = None, immediate_only: bool = False
    ) -> list[Turn]:
        """See `Turns.claim`."""
        clause, values = _lane_filter(channels, immediate_only=immediate_only)

        def work(conn: sqlite3.Connection) -> list[Turn]:
            now = self._clock.now_us()
            steady = self._clock.steady_us()
            interrupted = _interrupted(conn, limit, steady, clause, values)
            turns = [self._resume(conn, turn_id, steady + LEASE_US) for turn_id in interrupted]
            ranks = (_Rank.COMMAND,) if immediate_only else tuple(_Rank)
            lanes = _waiting(conn, limit - len(turns), ranks, clause, values)
            turns += [self._begin(conn, lane, now, steady + LEASE_US) for lane in lanes]
            return turns

        return await self._database.write(work)

    async def save_draft(self, turn: Turn, draft_id: str, *, before: DraftState | None = None) -> None:
        """See `Turns.save_draft`."""

        def work(conn: sqlite3.Connection) -> None:
            check_lease(conn, turn)
            conn.execute("UPDATE turns SET draft_id = ? WHERE id = ?", (draft_id, turn.id))
            if before is not None and was_overtaken(conn, turn.id, turn.address, before):
                withdraw_draft(conn, turn.id, turn.address, now_us=self._clock.now_us())

        await self._database.write(work)

    async def draft_state(self, turn: Turn) -> DraftState:
        """See `Turns.draft_state`."""
        return await self._database.read(lambda conn: draft_state(conn, turn.id, turn.address))

    async def finish(self, turn: Turn, ending: Ending) -> bool:
        """See `Turns.finish`."""

        def work(conn: sqlite3.Connection) -> bool:
            check_lease(conn, turn)
            waiting = conn.execute(
                "SELECT 1 FROM inbox WHERE state = 'queued'"
                " AND lane = (SELECT key FROM lanes WHERE turn_id = ?) LIMIT 1",
                (turn.id,),
            ).fetchone()
            _finish(conn, turn, ending, self._clock.now_us())
            goes_on = ending.goal is not None and ending.goal.inbound is not None
            return waiting is not None or bool(ending.inbound) or goes_on

        return await self._database.write(work, durable=True)

    async def release(self, turn: Turn, *, counts: bool = False) -> None:
        """See `Turns.release`."""

        def work(conn: sqlite3.Connection) -> None:
            conn.execute(
                "UPDATE turns SET owner = '', lease_us = 0, attempts = attempts - ?"
                " WHERE id = ? AND owner = ? AND fence = ? AND state = 'running'",
                (int(not counts), turn.id, turn.owner, turn.fence),
            )

        await self._database.write(work)

    async def renew(self, turn_ids: Collection[int]) -> None:
        """See `Turns.renew`."""

        def work(conn: sqlite3.Connection) -> None:
            until = self._clock.steady_us() + LEASE_US
            conn.executemany(
                "UPDATE turns SET lease_us = ? WHERE id = ? AND owner = ? AND state = 'running'",
                [(until, turn_id, self._owner) for turn_id in turn_ids],
            )

        await self._database.write(work)

    def _begin(self, conn: sqlite3.Connection, lane: str, now: int, lease_us: int) -> Turn:
        messages = self._first_messages(conn, lane)
        home = lane
        if lane.startswith("now:"):  # a command beside the chat's turn speaks about the chat's conversation
            address = messages[0].message.address
            home = address.key
            ensure_lane(conn, home, address)
        session_id = session_for(conn, home, messages[0].message, now)
        model = _preset_of(conn, messages[0].message)
        cursor = conn.execute(
            "INSERT INTO turns (session_id, state, attempts, owner, fence, lease_us, started_us, model)"
            " VALUES (?, 'running', 1, ?, 1, ?, ?, ?)",
            (session_id, self._owner, lease_us, now, model),
        )
        turn_id = int(cursor.lastrowid or 0)
        conn.execute("UPDATE lanes SET turn_id = ? WHERE key = ?", (turn_id, lane))
        conn.executemany(
            "UPDATE inbox SET state = 'claimed', turn_id = ? WHERE id = ?",
            [(turn_id, item.id) for item in messages],
        )
        zone, shares_memory = _settings_of(conn, messages[0])
        return Turn(
            id=turn_id,
            lane=lane,
            session_id=session_id,
            owner=self._owner,
            fence=1,
            attempt=1,
            step=0,
            messages=messages,
            zone=zone,
            shares_memory=shares_memory,
            goal=current_goal(conn, session_id),
            model=model,
        )

    def _first_messages(self, conn: sqlite3.Connection, lane: str) -> tuple[QueuedMessage, ...]:
        """Return the lane's oldest waiting message; after an outage with what the same sender wrote next.

        A goal goes on when nothing else waits, however long ago its next turn was queued.
        """
        sql = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE lane = ? AND state = 'queued' {{}} ORDER BY id LIMIT 50"  # noqa: S608
        rows = conn.execute(sql.format("AND origin <> 'goal'"), (lane,))
        row = next(rows, None)
        if row is None:
            return (inbox_row(conn.execute(sql.format(""), (lane,)).fetchone()),)
        first = inbox_row(row)
        taken = [first]
        if _may_join(first, first) and first.received_us < self._opened_us:
            for row in rows:
                item = inbox_row(row)
                if not _may_join(first, item) or item.received_us >= self._opened_us:
                    break
                taken.append(item)
        rows.close()
        return tuple(taken)

    def _resume(self, conn: sqlite3.Connection, turn_id: int, lease_us: int) -> Turn:
        conn.execute(
            "UPDATE turns SET owner = ?, fence = fence + 1, attempts = attempts + 1, lease_us = ? WHERE id = ?",
            (self._owner, lease_us, turn_id),
        )
        session_id, attempts, step, fence, draft_id, model = conn.execute(
            "SELECT session_id, attempts, step, fence, draft_id, model FROM turns WHERE id = ?", (turn_id,)
        ).fetchone()
        (lane,) = conn.execute("SELECT key FROM lanes WHERE turn_id = ?", (turn_id,)).fetchone()
        messages = messages_of(conn, turn_id)
        if run_id := messages[0].message.meta.get("run_id"):
            conn.execute("UPDATE runs SET state = 'interrupted', interrupted = interrupted + 1 WHERE id = ?", (run_id,))
        has_rows = conn.execute("SELECT 1 FROM history WHERE turn_id = ? LIMIT 1", (turn_id,)).fetchone() is not None
        zone, shares_memory = _settings_of(conn, messages[0])
        return Turn(
            id=turn_id,
            lane=lane,
            session_id=session_id,
            owner=self._owner,
            fence=fence,
            attempt=attempts,
            step=step,
            messages=messages,
            has_rows=has_rows,
            zone=zone,
            shares_memory=shares_memory,
            draft_id=draft_id,
            goal=current_goal(conn, session_id),
            model=model,
        )


def joinable(conn: sqlite3.Connection, turn: Turn) -> list[QueuedMessage]:
    """Return the waiting messages at the head of the lane that may join a running turn."""
    first = turn.messages[0]
    taken: list[QueuedMessage] = []
    if not _may_join(first, first):
        return taken
    (lane,) = conn.execute("SELECT key FROM lanes WHERE turn_id = ?", (turn.id,)).fetchone()
    rows = conn.execute(
        f"SELECT {INBOX_COLUMNS} FROM inbox WHERE lane = ? AND state = 'queued' AND origin <> 'goal'"  # noqa: S608
        " ORDER BY id LIMIT 20",
        (lane,),
    )
    for row in rows:
        item = inbox_row(row)
        if not _may_join(first, item) or _needs_fetching(item):
            break
        taken.append(item)
    rows.close()
    return taken


def _needs_fetching(item: QueuedMessage) -> bool:
    """Say whether a message's row cannot be made inside a transaction: files to download, a job to look up."""
    message = item.message
    return bool(message.attachments) or (message.quote is not None and message.quote.author == "bot")


def _may_join(first: QueuedMessage, other: QueuedMessage) -> bool:
    """Say whether two messages may share a turn: same person, same rights, and neither a command."""
    a, b = first.message, other.message
    return (
        a.origin is Origin.USER
        and b.origin is Origin.USER
        and a.sender_id == b.sender_id
        and a.chat_type is b.chat_type
        and not a.text.lstrip().startswith("/")
        and not b.text.lstrip().startswith("/")
    )


def _lane_filter(channels: Collection[str] | None, *, immediate_only: bool) -> tuple[str, list[str]]:
    """Return a condition on lanes `l` and its values."""
    clause = f" AND l.rank = {_Rank.COMMAND}" if immediate_only else ""
    if channels is None:
        return clause, []
    return f"{clause} AND l.channel IN ({','.join('?' * len(channels))})", list(channels)


def _interrupted(conn: sqlite3.Connection, limit: int, now: int, clause: str, values: list[str]) -> list[int]:
    """Return running turns whose lease is void; of those cut short twice already, only one at a time."""
    rows = conn.execute(
        "SELECT t.id, t.attempts FROM lanes l JOIN turns t ON t.id = l.turn_id"  # noqa: S608
        f" WHERE t.lease_us < ?{clause} ORDER BY t.attempts >= {_SUSPECT_ATTEMPTS}, t.id LIMIT ?",
        (now, *values, limit),
    ).fetchall()
    fresh = [turn_id for turn_id, attempts in rows if attempts < _SUSPECT_ATTEMPTS]
    suspects = [turn_id for turn_id, attempts in rows if attempts >= _SUSPECT_ATTEMPTS]
    if suspects:
        on_trial = conn.execute(
            "SELECT 1 FROM lanes l JOIN turns t ON t.id = l.turn_id WHERE t.attempts > ? AND t.lease_us >= ?",
            (_SUSPECT_ATTEMPTS, now),
        ).fetchone()
        if on_trial is None:
            fresh.append(suspects[0])
    return fresh


def _waiting(
    conn: sqlite3.Connection, limit: int, ranks: Collection[_Rank], clause: str, values: list[str]
) -> list[str]:
    """Return idle lanes with waiting messages, longest wait first; those of memory runs last, and only a few."""
    found: list[tuple[int, str]] = []
    for rank in ranks:
        if rank is not _Rank.MEMORY:
            found += conn.execute(waiting_lanes(clause), (rank, *values, limit))
    lanes = [lane for _, lane in sorted(found)][:limit]
    if _Rank.MEMORY in ranks and len(lanes) < limit:
        (running,) = conn.execute(
            "SELECT count(*) FROM lanes WHERE turn_id IS NOT NULL AND rank = ?", (_Rank.MEMORY,)
        ).fetchone()
        room = min(limit - len(lanes), MEMORY_RUNS_AT_ONCE - int(running))
        if room > 0:
            lanes += [lane for _, lane in conn.execute(waiting_lanes(clause), (_Rank.MEMORY, *values, room))]
    return lanes


def waiting_lanes(clause: str = "") -> str:
    """Return the query of a rank's idle lanes that wait, oldest first; it reads the index `lanes_waiting` in order."""
    return (
        "SELECT l.waiting_id, l.key FROM lanes l"  # noqa: S608 - see `_lane_filter`
        f" WHERE l.rank = ? AND l.turn_id IS NULL AND l.waiting_id IS NOT NULL{clause} ORDER BY l.waiting_id LIMIT ?"
    )


def _settings_of(conn: sqlite3.Connection, item: QueuedMessage) -> tuple[str, bool]:
    """Return the sender's time zone, and whether they share what is remembered of them."""
    row: Row | None = conn.execute(
        "SELECT CASE zone WHEN '' THEN platform_zone ELSE zone END, shares_memory FROM people"
        " WHERE channel = ? AND user_id = ?",
        (item.message.address.channel, item.message.sender_id),
    ).fetchone()
    return ("", False) if row is None else (str(row[0]), bool(row[1]))


def _finish(conn: sqlite3.Connection, turn: Turn, ending: Ending, now: int) -> None:
    append_history(conn, turn.session_id, turn.id, ending.rows, now)
    if ending.rows:
        give_title(conn, turn)
    if ending.context_tokens:
        conn.execute("UPDATE sessions SET context_tokens = ? WHERE id = ?", (ending.context_tokens, turn.session_id))
    address = turn.address
    if ending.new_session:
        ensure_lane(conn, address.key, address)
        begin_session(conn, address.key, now, title=ending.session_title)
    if ending.chat_rows:
        ensure_lane(conn, address.key, address)
        session_id = session_for(conn, address.key, turn.messages[0].message, now)
        append_history(conn, session_id, turn.id, ending.chat_rows, now)
    put_ending(conn, turn.id, address, ending.outbound, now_us=now)
    for inbound in ending.inbound:
        insert_inbound(conn, inbound, now_us=now)
    error = clean_text(ending.error)
    conn.execute(
        "UPDATE inbox SET state = ?, error = ? WHERE turn_id = ?",
        ("dead" if ending.state is TurnState.DEAD else "done", error, turn.id),
    )
    conn.execute(
        "UPDATE turns SET state = ?, error = ?, ended_us = ? WHERE id = ?", (ending.state, error, now, turn.id)
    )
    add_usage(conn, turn.id, ending.usage)
    conn.execute("UPDATE lanes SET turn_id = NULL WHERE turn_id = ?", (turn.id,))
    if ending.run_id is not None and ending.run_state is not None:
        _end_run(conn, ending, error, now)
    if ending.subagent_state is not None:
        conn.execute(
            "UPDATE subagents SET state = ?, ended_us = ? WHERE id = ?",
            (ending.subagent_state, now, ending.subagent_id),
        )
    if ending.goal is not None:
        advance_goal(conn, ending.goal, now_us=now)
    if ending.memory is not None:
        end_memory_run(conn, ending.memory, now_us=now)
    if ending.state is TurnState.STOPPED:
        stop_goal(conn, turn.session_id, now_us=now)


def _end_run(conn: sqlite3.Connection, ending: Ending, error: str, now: int) -> None:
    if ending.pause_job:
        conn.execute(
            "UPDATE jobs SET state = 'paused', next_us = NULL WHERE id = (SELECT job_id FROM runs WHERE id = ?)",
            (ending.run_id,),
        )
    conn.execute(
        "UPDATE runs SET state = ?, error = ?, ended_us = ? WHERE id = ?",
        (ending.run_state, error, now, ending.run_id),
    )
    conn.execute(
        "UPDATE jobs SET last_state = ?, last_error = ? WHERE id = (SELECT job_id FROM runs WHERE id = ?)",
        (ending.run_state, error, ending.run_id),
    )
