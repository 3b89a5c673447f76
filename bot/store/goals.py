"""Sustained goals: one under way in a session, its next turn queued with the end of the last."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import orjson

from bot.messages import Address, ChatType, Origin, clean_text
from bot.records import Goal, GoalBudget, GoalState, GoalStep, PlanItem
from bot.store.codec import Row, dumps
from bot.store.database import Database
from bot.store.inbox import insert_inbound

_COLUMNS = (
    "id, session_id, channel, chat_id, thread_id, chat_type, creator_id, reply_to, objective, plan, budget, state, "
    "turns, steps, tokens, idle, opened_turn, opened_step, started_us, recap"
)


def current_goal(conn: sqlite3.Connection, session_id: int) -> Goal | None:
    """Return the goal under way in a session, or None."""
    sql = f"SELECT {_COLUMNS} FROM goals WHERE session_id = ? AND ended_us IS NULL"  # noqa: S608
    row = conn.execute(sql, (session_id,)).fetchone()
    return None if row is None else _goal(row)


def goals_of_lane(conn: sqlite3.Connection, lane: str) -> list[Goal]:
    """Return the goals under way in a lane: one that a late outcome opened may be in an archived session."""
    rows = conn.execute(
        f"SELECT {_COLUMNS} FROM goals WHERE ended_us IS NULL"  # noqa: S608 - constants
        " AND session_id IN (SELECT id FROM sessions WHERE lane = ?) ORDER BY started_us, id",
        (lane,),
    )
    return [_goal(row) for row in rows]


def insert_goal(conn: sqlite3.Connection, goal: Goal, *, turn_id: int) -> None:
    """Store a goal that a turn opens. Raises `sqlite3.IntegrityError` when its session has one under way."""
    address, budget = goal.address, goal.budget
    (step,) = conn.execute("SELECT step FROM turns WHERE id = ?", (turn_id,)).fetchone()
    conn.execute(
        f"INSERT INTO goals ({_COLUMNS}) VALUES ({','.join('?' * len(_COLUMNS.split(',')))})",  # noqa: S608
        (
            goal.id,
            goal.session_id,
            address.channel,
            address.chat_id,
            address.thread_id,
            goal.chat_type,
            goal.creator_id,
            goal.reply_to,
            clean_text(goal.objective),
            _plan_json(goal),
            dumps({"steps": budget.steps, "minutes": budget.minutes, "tokens": budget.tokens}),
            goal.state,
            goal.turns,
            goal.steps,
            goal.tokens,
            goal.idle,
            turn_id,
            step,
            goal.started_us,
            clean_text(goal.recap),
        ),
    )


def update_goal(conn: sqlite3.Connection, goal: Goal, *, now_us: int) -> None:
    """Write back plan, state and recap of a goal under way."""
    cursor = conn.execute(
        "UPDATE goals SET plan = ?, state = ?, recap = ?, ended_us = ? WHERE id = ? AND ended_us IS NULL",
        (_plan_json(goal), goal.state, clean_text(goal.recap), _ended_us(goal.state, now_us), goal.id),
    )
    if cursor.rowcount and not goal.state.is_current:
        _take_back(conn, goal.id)


def advance_goal(conn: sqlite3.Connection, step: GoalStep, *, now_us: int) -> None:
    """Count what a turn used, and queue the goal's next turn; nothing happens to a goal that is over.

    A continuation that is queued already, when somebody's message went before it, is not queued again: its
    identity has the number of the turn. In a chat that is closed to us the goal is paused instead.
    """
    inbound, state = step.inbound, step.state
    if inbound is not None and _is_closed(conn, inbound.address):
        inbound, state = None, GoalState.PAUSED
    cursor = conn.execute(
        "UPDATE goals SET state = ?, turns = turns + ?, steps = steps + ?, tokens = tokens + ?, idle = ?, ended_us = ?"
        " WHERE id = ? AND ended_us IS NULL",
        (state, int(step.is_turn), step.steps, step.tokens, step.idle, _ended_us(state, now_us), step.goal_id),
    )
    if cursor.rowcount and inbound is not None:
        insert_inbound(conn, inbound, now_us=now_us)
    elif cursor.rowcount and state is not GoalState.OPEN:
        _take_back(conn, step.goal_id)


def stop_goal(conn: sqlite3.Connection, session_id: int, *, now_us: int) -> None:
    """Close the goal under way in a session whose turn was stopped; it may have been opened by that very turn."""
    if (goal := current_goal(conn, session_id)) is not None:
        update_goal(conn, replace(goal, state=GoalState.STOPPED), now_us=now_us)


def pause_goals(conn: sqlite3.Connection, address: Address) -> None:
    """Pause the goals of a chat, all its threads: nobody would read what they do."""
    rows = conn.execute(
        "UPDATE goals SET state = ? WHERE channel = ? AND chat_id = ? AND ended_us IS NULL RETURNING id",
        (GoalState.PAUSED, address.channel, address.chat_id),
    ).fetchall()
    for (goal_id,) in rows:
        _take_back(conn, goal_id)


def _is_closed(conn: sqlite3.Connection, address: Address) -> bool:
    row = conn.execute("SELECT 1 FROM chats WHERE rate_key = ? AND closed <> ''", (address.rate_key,)).fetchone()
    return row is not None


def _take_back(conn: sqlite3.Connection, goal_id: str) -> None:
    """Remove a goal's queued turn; if the goal goes on one day, it is with a turn of the same number."""
    conn.execute(
        "DELETE FROM inbox WHERE state = 'queued' AND origin = ?"
        " AND lane IN (SELECT s.lane FROM goals g JOIN sessions s ON s.id = g.session_id WHERE g.id = ?)"
        " AND json_extract(body, '$.meta.goal_id') = ?",
        (Origin.GOAL, goal_id, goal_id),
    )


def _ended_us(state: GoalState, now_us: int) -> int | None:
    return None if state.is_current else now_us


def _plan_json(goal: Goal) -> str:
    return dumps([[item.text, item.done] for item in goal.plan])


def _goal(row: Row) -> Goal:
    return Goal(
        id=row[0],
        session_id=row[1],
        address=Address(channel=row[2], chat_id=row[3], thread_id=row[4]),
        chat_type=ChatType(row[5]),
        creator_id=row[6],
        reply_to=row[7],
        objective=row[8],
        plan=tuple(PlanItem(text=text, done=done) for text, done in orjson.loads(row[9])),
        budget=GoalBudget(**orjson.loads(row[10])),
        state=GoalState(row[11]),
        turns=row[12],
        steps=row[13],
        tokens=row[14],
        idle=row[15],
        opened_turn=row[16],
        opened_step=row[17],
        started_us=row[18],
        recap=row[19],
    )


class SqlGoals:
    """See `bot.interfaces.Goals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self, session_id: int) -> Goal | None:
        """See `Goals.current`."""
        return await self._database.read(lambda conn: current_goal(conn, session_id))

    async def get(self, goal_id: str) -> Goal | None:
        """See `Goals.get`."""

        def work(conn: sqlite3.Connection) -> Goal | None:
            row = conn.execute(f"SELECT {_COLUMNS} FROM goals WHERE id = ?", (goal_id,)).fetchone()  # noqa: S608
            return None if row is None else _goal(row)

        return await self._database.read(work)
