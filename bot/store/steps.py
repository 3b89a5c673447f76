"""Steps of a running turn: the reply, its calls and their results, recorded as they happen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

from bot.clock import Clock
from bot.interfaces import Unit
from bot.messages import InboundMessage, ToolCall, Usage, clean_text
from bot.records import CallRecord, CallResult, CallState, Message, QueuedMessage, Turn
from bot.store.codec import INBOX_COLUMNS, call_result, call_result_json, inbox_row
from bot.store.database import Database
from bot.store.drafts import withdraw_draft
from bot.store.sessions import append_history, give_title
from bot.store.turns import add_usage, check_lease, joinable
from bot.store.unit import SqlUnit


class SqlSteps:
    """See `bot.interfaces.Steps`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def record_reply(
        self,
        turn: Turn,
        rows: Sequence[Message],
        calls: Sequence[ToolCall],
        results: Sequence[CallResult] = (),
        usage: Usage | None = None,
    ) -> None:
        """See `Steps.record_reply`."""

        def work(conn: sqlite3.Connection) -> None:
            check_lease(conn, turn)
            append_history(conn, turn.session_id, turn.id, rows, self._clock.now_us())
            give_title(conn, turn)
            conn.executemany(
                "INSERT INTO calls (turn_id, call_id, step, position, name, arguments, state)"
                " VALUES (?,?,?,?,?,?,'pending')",
                [
                    (turn.id, call.id, turn.step, position, clean_text(call.name), clean_text(call.arguments))
                    for position, call in enumerate(calls)
                ],
            )
            for result in results:
                _save_result(conn, turn.id, result)
            if usage is not None:
                add_usage(conn, turn.id, usage)

        await self._database.write(work)

    async def start_call(self, turn: Turn, call_id: str) -> None:
        """See `Steps.start_call`."""

        def work(conn: sqlite3.Connection) -> None:
            check_lease(conn, turn)
            conn.execute(
                "UPDATE calls SET state = 'started' WHERE turn_id = ? AND call_id = ? AND state = 'pending'",
                (turn.id, call_id),
            )

        await self._database.write(work)

    async def record_result(self, turn: Turn, result: CallResult) -> None:
        """See `Steps.record_result`."""

        def work(conn: sqlite3.Connection) -> None:
            check_lease(conn, turn)
            _save_result(conn, turn.id, result)

        await self._database.write(work)

    async def record_step(
        self,
        turn: Turn,
        results: Sequence[CallResult],
        rows: Sequence[Message],
        compose: Callable[[QueuedMessage], Message],
    ) -> tuple[Turn, list[Message]]:
        """See `Steps.record_step`."""

        def work(conn: sqlite3.Connection) -> tuple[Turn, list[Message]]:
            check_lease(conn, turn)
            for result in results:
                _save_result(conn, turn.id, result)
            joined = joinable(conn, turn)
            fresh = [compose(item) for item in joined]
            append_history(conn, turn.session_id, turn.id, [*rows, *fresh], self._clock.now_us())
            conn.executemany(
                "UPDATE inbox SET state = 'claimed', turn_id = ? WHERE id = ?",
                [(turn.id, item.id) for item in joined],
            )
            conn.execute("UPDATE turns SET step = ? WHERE id = ?", (turn.step + 1, turn.id))
            if joined:  # what answers them belongs below them
                withdraw_draft(conn, turn.id, turn.address, now_us=self._clock.now_us())
            grown = replace(turn, step=turn.step + 1, messages=(*turn.messages, *joined), has_rows=True)
            return grown, fresh

        return await self._database.write(work)

    async def calls_of(self, turn: Turn, step: int) -> list[CallRecord]:
        """See `Steps.calls_of`."""

        def work(conn: sqlite3.Connection) -> list[CallRecord]:
            rows = conn.execute(
                "SELECT call_id, name, arguments, state, result FROM calls WHERE turn_id = ? AND step = ?"
                " AND position >= 0 ORDER BY position",
                (turn.id, step),
            )
            return [
                CallRecord(
                    call=ToolCall(id=call_id, name=name, arguments=arguments),
                    state=CallState(state),
                    result=None if raw is None else call_result(call_id, raw),
                )
                for call_id, name, arguments, state, raw in rows
            ]

        return await self._database.read(work)

    async def once(self, turn: Turn, call_id: str, work: Callable[[Unit], CallResult]) -> CallResult:
        """See `Steps.once`."""

        def unit(conn: sqlite3.Connection) -> CallResult:
            check_lease(conn, turn)
            row = conn.execute(
                "SELECT result FROM calls WHERE turn_id = ? AND call_id = ?", (turn.id, call_id)
            ).fetchone()
            if row is None:  # a slash command: no model asked for it, position -1 keeps it out of the steps
                conn.execute(
                    "INSERT INTO calls (turn_id, call_id, step, position, name, arguments, state)"
                    " VALUES (?, ?, ?, -1, 'command', '', 'pending')",
                    (turn.id, call_id, turn.step),
                )
            elif row[0] is not None:
                return call_result(call_id, row[0])
            result = work(SqlUnit(conn, now_us=self._clock.now_us(), turn_id=turn.id))
            _save_result(conn, turn.id, result)
            return result

        return await self._database.write(unit, durable=True)

    async def recall(self, turn: Turn, call_id: str) -> CallResult | None:
        """See `Steps.recall`."""
        query = "SELECT result FROM calls WHERE turn_id = ? AND call_id = ? AND result IS NOT NULL"
        row = await self._database.read(lambda conn: conn.execute(query, (turn.id, call_id)).fetchone())
        return None if row is None else call_result(call_id, row[0])

    async def take_answer(
        self, turn: Turn, message_id: str, compose: Callable[[InboundMessage], CallResult]
    ) -> CallResult | None:
        """See `Steps.take_answer`."""
        waiting = "lane = (SELECT key FROM lanes WHERE turn_id = ?) AND message_id = ? AND state = 'queued'"

        def look(conn: sqlite3.Connection) -> QueuedMessage | None:
            check_lease(conn, turn)
            row = conn.execute(
                f"SELECT {INBOX_COLUMNS} FROM inbox WHERE {waiting}",  # noqa: S608
                (turn.id, message_id),
            ).fetchone()
            return None if row is None else inbox_row(row)

        def take(conn: sqlite3.Connection) -> CallResult | None:
            item = look(conn)
            if item is None:
                return None
            result = compose(item.message)
            conn.execute("UPDATE inbox SET state = 'done' WHERE id = ?", (item.id,))  # not one of the turn's messages
            _save_result(conn, turn.id, result)
            return result

        # Asked again and again while somebody waits: only an answer is worth a durable commit.
        found = await self._database.read(look)
        return None if found is None else await self._database.write(take, durable=True)


def _save_result(conn: sqlite3.Connection, turn_id: int, result: CallResult) -> None:
    conn.execute(
        "UPDATE calls SET state = 'done', result = ? WHERE turn_id = ? AND call_id = ?",
        (call_result_json(result), turn_id, result.call_id),
    )
