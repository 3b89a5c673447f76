"""Jobs and their runs: what was promised, and the one transaction in which promises fall due."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import replace

from bot.clock import US_PER_S, Clock
from bot.errors import ScheduleError
from bot.interfaces import FiringComposer
from bot.messages import Address, new_id
from bot.records import Job, JobKind, JobState, NewJob, RunState
from bot.schedule import ScheduleKind
from bot.store.codec import JOB_COLUMNS, job_row, job_values
from bot.store.database import Database
from bot.store.inbox import insert_inbound
from bot.store.outbox import insert_outbound

LATE_US = 60 * US_PER_S
"""A firing this long after its due time counts as late (design, G4)."""

_FIRE_BATCH = 2_000
"""Jobs fired in one transaction; more due at once take the next one."""

_CATCH_UP_STEPS = 48
"""How many missed due times are walked to find the newest; more of them than that, and a late firing names an
earlier one."""


def insert_job(conn: sqlite3.Connection, new: NewJob, *, now_us: int, limit_per_chat: int) -> Job:
    """Store a job under a fresh id."""
    address = new.address
    (count,) = conn.execute(
        "SELECT count(*) FROM jobs WHERE channel = ? AND chat_id = ? AND state != 'done'",
        (address.channel, address.chat_id),
    ).fetchone()
    if count >= limit_per_chat:
        raise ScheduleError(f"this chat already has {count} jobs, the limit is {limit_per_chat}; remove some first")
    job = Job(
        id=_free_id(conn),
        address=address,
        chat_type=new.chat_type,
        creator_id=new.creator_id,
        kind=new.kind,
        name=new.name,
        text=new.text,
        schedule=new.schedule,
        state=JobState.ACTIVE,
        next_us=new.next_us,
        created_us=now_us,
        runs=0,
        max_runs=new.max_runs,
        catch_up=new.catch_up,
        model=new.model,
    )
    values = (*job_values(job), new.session_id)
    marks = ",".join("?" * len(values))
    conn.execute(f"INSERT INTO jobs ({JOB_COLUMNS}, session_id) VALUES ({marks})", values)  # noqa: S608
    return job


def _free_id(conn: sqlite3.Connection) -> str:
    while True:
        job_id = new_id("job-")
        if conn.execute("SELECT 1 FROM jobs WHERE id = ?", (job_id,)).fetchone() is None:
            return job_id


def update_job(conn: sqlite3.Connection, job: Job) -> None:
    """Write back everything but the id."""
    columns = JOB_COLUMNS.split(", ")[1:]
    assignments = ", ".join(f"{name} = ?" for name in columns)
    conn.execute(f"UPDATE jobs SET {assignments} WHERE id = ?", (*job_values(job)[1:], job.id))  # noqa: S608


def delete_job(conn: sqlite3.Connection, job_id: str) -> bool:
    """Remove a job and the record of its runs."""
    conn.execute("DELETE FROM runs WHERE job_id = ? AND state != 'running'", (job_id,))
    return conn.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount == 1


def job_by_id(conn: sqlite3.Connection, job_id: str) -> Job | None:
    """Return a job or None."""
    row = conn.execute(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?", (job_id,)).fetchone()  # noqa: S608
    return None if row is None else job_row(row)


def jobs_of_chat(conn: sqlite3.Connection, address: Address | None) -> list[Job]:
    """Return jobs that are not over, soonest first, paused ones last; of a chat with all its threads, or all."""
    where: str = ""
    values: tuple[str, ...] = ()
    if address is not None:
        where, values = " AND channel = ? AND chat_id = ?", (address.channel, address.chat_id)
    rows = conn.execute(
        f"SELECT {JOB_COLUMNS} FROM jobs WHERE state != 'done'{where} ORDER BY next_us IS NULL, next_us, id",  # noqa: S608
        values,
    )
    return [job_row(row) for row in rows]


def fire_now(conn: sqlite3.Connection, job_id: str, composer: FiringComposer, *, now_us: int) -> bool:
    """Fire a job beside its schedule; its next due time stays as it is."""
    job = job_by_id(conn, job_id)
    if job is None:
        return False
    _start_run(conn, job, composer, due_us=now_us, now_us=now_us)
    update_job(conn, replace(job, runs=job.runs + 1, last_state=_last_state(job)))
    return True


def _last_state(job: Job) -> RunState:
    return RunState.OK if job.kind is JobKind.REMINDER else RunState.RUNNING


def _start_run(conn: sqlite3.Connection, job: Job, composer: FiringComposer, *, due_us: int, now_us: int) -> RunState:
    """Record one firing and queue its consequence; the unique key makes a second one for this due time nothing."""
    busy = (
        job.kind is JobKind.TASK
        and conn.execute(
            "SELECT 1 FROM runs WHERE job_id = ? AND state IN ('running', 'interrupted')", (job.id,)
        ).fetchone()
    )
    state = RunState.SKIPPED if busy else _last_state(job)
    cursor = conn.execute(
        "INSERT INTO runs (job_id, due_us, fired_us, state, ended_us) VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING",
        (job.id, due_us, now_us, state, None if state is RunState.RUNNING else now_us),
    )
    if cursor.rowcount == 0 or state is RunState.SKIPPED:
        return RunState.SKIPPED
    run_id = int(cursor.lastrowid or 0)
    if job.kind is JobKind.REMINDER:
        insert_outbound(conn, composer.reminder(job, due_us=due_us, now_us=now_us), now_us=now_us)
    else:
        order = composer.task(job, run_id=run_id, due_us=due_us, now_us=now_us)
        (session_id,) = conn.execute("SELECT session_id FROM jobs WHERE id = ?", (job.id,)).fetchone()
        # In the order, not looked up when it ends: a task may remove itself.
        insert_inbound(conn, replace(order, meta={**order.meta, "session_id": session_id}), now_us=now_us)
    return state


class _Firing:
    """One transaction of due jobs."""

    def __init__(self, conn: sqlite3.Connection, composer: FiringComposer, now_us: int, max_age_us: int) -> None:
        self._conn = conn
        self._composer = composer
        self._now_us = now_us
        self._max_age_us = max_age_us

    def fire(self, job: Job) -> None:
        """Fire one due job, or record why not, and move it to its next due time."""
        due_us = self._due(job)
        state = self._run(job, due_us)
        runs = job.runs + (state is not RunState.MISSED)
        next_us = job.schedule.next_after(self._now_us, seed=job.id)
        if job.max_runs is not None and runs >= job.max_runs:
            next_us = None
        self._conn.execute(
            "UPDATE jobs SET state = ?, next_us = ?, runs = ?, last_state = ? WHERE id = ?",
            (JobState.ACTIVE if next_us is not None else JobState.DONE, next_us, runs, state, job.id),
        )

    def _due(self, job: Job) -> int:
        """Return the due time that this firing stands for: the newest of those that were missed."""
        assert job.next_us is not None
        due_us = job.next_us
        if job.schedule.kind is ScheduleKind.AT or self._now_us - due_us <= LATE_US:
            return due_us
        recent = job.schedule.next_after(max(due_us, self._now_us - self._max_age_us) - 1, seed=job.id)
        for _ in range(_CATCH_UP_STEPS):
            if recent is None or recent > self._now_us:
                break
            due_us = recent
            recent = job.schedule.next_after(due_us, seed=job.id)
        return due_us

    def _run(self, job: Job, due_us: int) -> RunState:
        late_us = self._now_us - due_us
        one_shot_reminder = job.kind is JobKind.REMINDER and job.schedule.kind is ScheduleKind.AT
        too_late = late_us > self._max_age_us and not one_shot_reminder
        if too_late or (late_us > LATE_US and not job.catch_up):
            self._conn.execute(
                "INSERT INTO runs (job_id, due_us, fired_us, state, ended_us) VALUES (?,?,?,'missed',?)"
                " ON CONFLICT DO NOTHING",
                (job.id, due_us, self._now_us, self._now_us),
            )
            if job.schedule.kind is ScheduleKind.AT:  # a recurring job comes again, a one-shot would vanish
                notice = self._composer.missed(job, due_us=due_us, now_us=self._now_us)
                insert_outbound(self._conn, notice, now_us=self._now_us)
            return RunState.MISSED
        return _start_run(self._conn, job, self._composer, due_us=due_us, now_us=self._now_us)


class SqlJobs:
    """See `bot.interfaces.Jobs`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add(self, job: NewJob, *, limit_per_chat: int) -> Job:
        """See `Jobs.add`."""
        return await self._database.write(
            lambda conn: insert_job(conn, job, now_us=self._clock.now_us(), limit_per_chat=limit_per_chat),
            durable=True,
        )

    async def list(self, address: Address | None = None) -> list[Job]:
        """See `Jobs.list`."""
        return await self._database.read(lambda conn: jobs_of_chat(conn, address))

    async def get(self, job_id: str) -> Job | None:
        """See `Jobs.get`."""
        return await self._database.read(lambda conn: job_by_id(conn, job_id))

    async def remove(self, job_id: str) -> bool:
        """See `Jobs.remove`."""
        return await self._database.write(lambda conn: delete_job(conn, job_id), durable=True)

    async def run_now(self, job_id: str, composer: FiringComposer) -> bool:
        """See `Jobs.run_now`."""
        return await self._database.write(
            lambda conn: fire_now(conn, job_id, composer, now_us=self._clock.now_us()), durable=True
        )

    async def next_due_us(self, channels: Collection[str] | None = None) -> int | None:
        """See `Jobs.next_due_us`."""
        where, values = _in_channels(channels)
        sql = f"SELECT min(next_us) FROM jobs WHERE state = 'active'{where}"  # noqa: S608
        row = await self._database.read(lambda conn: conn.execute(sql, values).fetchone())
        return None if row[0] is None else int(row[0])

    async def fire(
        self, composer: FiringComposer, *, catch_up_max_age_us: int, channels: Collection[str] | None = None
    ) -> int:
        """See `Jobs.fire`."""
        where, values = _in_channels(channels)
        sql = (
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE state = 'active' AND next_us <= ?{where}"  # noqa: S608
            " ORDER BY next_us LIMIT ?"
        )

        def work(conn: sqlite3.Connection) -> int:
            now = self._clock.now_us()
            rows = conn.execute(sql, (now, *values, _FIRE_BATCH)).fetchall()
            firing = _Firing(conn, composer, now, catch_up_max_age_us)
            for row in rows:
                firing.fire(job_row(row))
            return len(rows)

        return await self._database.write(work, durable=True)


def _in_channels(channels: Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    if channels is None:
        return "", ()
    return f" AND channel IN ({','.join('?' * len(channels))})", tuple(channels)
