"""What the engine asks of a store for scheduled jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from bot.messages import Address, InboundMessage, OutboundMessage
from bot.records import Job, NewJob


class FiringComposer(Protocol):
    """Writes the messages of a firing; called on the writer's thread, must be pure."""

    def reminder(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        """Return what the chat reads."""

    def task(self, job: Job, *, run_id: int, due_us: int, now_us: int) -> InboundMessage:
        """Return what the task's own lane works on."""

    def missed(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        """Return the notice that a task was due too long ago to be run."""


class Jobs(Protocol):
    """Scheduled jobs."""

    async def add(self, job: NewJob, *, limit_per_chat: int) -> Job:
        """Commit a job durably. Raises `ScheduleError` at the limit of jobs for the chat."""

    async def list(self, address: Address | None = None) -> list[Job]:
        """Return jobs that are not over, soonest first; of the address's chat, or of all."""

    async def get(self, job_id: str) -> Job | None:
        """Return a job that is not removed, or None."""

    async def remove(self, job_id: str) -> bool:
        """Delete a job; False when there is none."""

    async def run_now(self, job_id: str, composer: FiringComposer) -> bool:
        """Fire a job once now, beside its schedule; False when there is none."""

    async def next_due_us(self, channels: Collection[str] | None = None) -> int | None:
        """Return the earliest due time of all active jobs."""

    async def fire(
        self, composer: FiringComposer, *, catch_up_max_age_us: int, channels: Collection[str] | None = None
    ) -> int:
        """Fire all due jobs in one durable transaction: runs, messages, turns, next due times.

        Several missed due times of one job become one late firing. A recurring job or a task found later than
        `catch_up_max_age_us` is recorded as missed; a one-shot reminder is delivered however late it is.
        Returns how many jobs were due.
        """
