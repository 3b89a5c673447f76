"""The writes a keyed tool may make inside the transaction that stores its result."""

from __future__ import annotations

import sqlite3

from bot.conversation import NewSummary, Session
from bot.interfaces import FiringComposer
from bot.messages import Address, InboundMessage, OutboundMessage
from bot.records import Goal, Job, NewJob, Subagent
from bot.store.drafts import put_in_order
from bot.store.goals import current_goal, goals_of_lane, insert_goal, update_goal
from bot.store.inbox import ensure_lane, insert_inbound
from bot.store.jobs import delete_job, fire_now, insert_job, jobs_of_chat, update_job
from bot.store.sessions import find_session, switch_session
from bot.store.settings import notes_of, put_note, put_setting
from bot.store.subagents import insert_subagent, running_subagents, withdraw_subagents
from bot.store.summaries import save_summary


class SqlUnit:
    """See `bot.interfaces.Unit`."""

    def __init__(self, conn: sqlite3.Connection, *, now_us: int, turn_id: int) -> None:
        self._conn = conn
        self._now_us = now_us
        self._turn_id = turn_id

    def now_us(self) -> int:
        """See `Unit.now_us`."""
        return self._now_us

    def put_outbound(self, message: OutboundMessage) -> int:
        """See `Unit.put_outbound`."""
        return put_in_order(self._conn, self._turn_id, message, now_us=self._now_us)

    def put_inbound(self, message: InboundMessage) -> None:
        """See `Unit.put_inbound`."""
        insert_inbound(self._conn, message, now_us=self._now_us)

    def add_job(self, job: NewJob, *, limit_per_chat: int) -> Job:
        """See `Unit.add_job`."""
        return insert_job(self._conn, job, now_us=self._now_us, limit_per_chat=limit_per_chat)

    def list_jobs(self, address: Address) -> list[Job]:
        """See `Unit.list_jobs`."""
        return jobs_of_chat(self._conn, address)

    def save_job(self, job: Job) -> None:
        """See `Unit.save_job`."""
        update_job(self._conn, job)

    def remove_job(self, job_id: str) -> bool:
        """See `Unit.remove_job`."""
        return delete_job(self._conn, job_id)

    def run_job_now(self, job_id: str, composer: FiringComposer) -> bool:
        """See `Unit.run_job_now`."""
        return fire_now(self._conn, job_id, composer, now_us=self._now_us)

    def add_subagent(self, subagent: Subagent) -> None:
        """See `Unit.add_subagent`."""
        insert_subagent(self._conn, subagent)

    def count_subagents(self, address: Address) -> int:
        """See `Unit.count_subagents`."""
        return running_subagents(self._conn, address)

    def withdraw_subagents(self, address: Address) -> int:
        """See `Unit.withdraw_subagents`."""
        return withdraw_subagents(self._conn, address, now_us=self._now_us)

    def current_goal(self, session_id: int) -> Goal | None:
        """See `Unit.current_goal`."""
        return current_goal(self._conn, session_id)

    def goals_of(self, address: Address) -> list[Goal]:
        """See `Unit.goals_of`."""
        return goals_of_lane(self._conn, address.key)

    def add_goal(self, goal: Goal) -> None:
        """See `Unit.add_goal`."""
        insert_goal(self._conn, goal, turn_id=self._turn_id)

    def save_goal(self, goal: Goal) -> None:
        """See `Unit.save_goal`."""
        update_goal(self._conn, goal, now_us=self._now_us)

    def find_session(self, address: Address, *, number: int = 0, session_id: int = 0) -> Session | None:
        """See `Unit.find_session`."""
        return find_session(self._conn, address.key, number=number, session_id=session_id)

    def switch_session(self, address: Address, session_id: int) -> bool:
        """See `Unit.switch_session`."""
        return switch_session(self._conn, address.key, session_id, self._now_us)

    def put_setting(self, key: str, value: int | None) -> None:
        """See `Unit.put_setting`."""
        put_setting(self._conn, key, value)

    def notes(self, session_id: int) -> dict[str, str]:
        """See `Unit.notes`."""
        return notes_of(self._conn, session_id)

    def choose_model(self, address: Address, preset: str) -> None:
        """See `Unit.choose_model`."""
        ensure_lane(self._conn, address.key, address)
        self._conn.execute("UPDATE lanes SET model = ? WHERE key = ?", (preset, address.key))

    def put_note(self, session_id: int, key: str, value: str | None) -> None:
        """See `Unit.put_note`."""
        put_note(self._conn, session_id, key, value)

    def save_summary(self, summary: NewSummary) -> bool:
        """See `Unit.save_summary`."""
        return save_summary(self._conn, summary)
