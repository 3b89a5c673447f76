"""Fires jobs when they are due. The job table is the truth; APScheduler is the alarm clock.

One APScheduler job stands for the earliest due time. It rings a doorbell; the rows then say what is due, and
one transaction turns all of it into runs, messages and next due times. What a schedule means is decided in
`bot/schedule.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from bot.clock import US_PER_S, Clock
from bot.errors import StoreUnavailable
from bot.interfaces import Signal, Store, Topic
from bot.log import get_logger
from bot.messages import InboundMessage, Origin, OutboundKind, OutboundMessage
from bot.records import Job
from bot.texts import say
from bot.zones import local_text

LOOK_AGAIN_S = 30.0
"""Longest sleep. Timers run on the monotonic clock; a jump of the wall clock is noticed within this time."""

_RETRY_S = 1.0
_LATE_US = 60 * US_PER_S
_SECONDS_AN_HOUR = 3600

_log = get_logger(__name__)


class JobComposer:
    """Writes the messages of a firing; see `bot.interfaces.FiringComposer`."""

    def __init__(self, language: str) -> None:
        self._language = language

    def reminder(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        """See `FiringComposer.reminder`. The person's words stay as they are; lateness is said below them."""
        text = job.text
        if now_us - due_us > _LATE_US:
            text += "\n\n" + say(self._language, "late", when=_when(job, due_us, self._language))
        return OutboundMessage(address=job.address, text=text, kind=OutboundKind.REMINDER, job_id=job.id)

    def task(self, job: Job, *, run_id: int, due_us: int, now_us: int) -> InboundMessage:
        """See `FiringComposer.task`."""
        text = job.text
        if now_us - due_us > _LATE_US:
            text += f"\n\n[This task was due {_when(job, due_us, self._language)} and runs late.]"
        return InboundMessage(
            address=job.address,
            account="jobs",
            message_id=f"run-{run_id}",
            text=text,
            sender_id=job.creator_id,
            chat_type=job.chat_type,
            origin=Origin.JOB,
            lane=f"job:{job.id}:{run_id}",
            meta={"run_id": run_id, "job_id": job.id, "title": job.title} | ({"model": job.model} if job.model else {}),
        )

    def missed(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:  # noqa: ARG002 - part of the seam
        """See `FiringComposer.missed`."""
        text = say(self._language, "task_missed", title=job.title, when=_when(job, due_us, self._language))
        return OutboundMessage(address=job.address, text=text, kind=OutboundKind.NOTICE, job_id=job.id)


def _when(job: Job, instant_us: int, language: str) -> str:
    return local_text(instant_us, ZoneInfo(job.schedule.zone), language)


class Scheduler:
    """The alarm clock of one process. `channels` limits it to jobs of some channels, None means all."""

    def __init__(
        self,
        store: Store,
        signal: Signal,
        clock: Clock,
        composer: JobComposer,
        *,
        catch_up_max_age_h: float,
        channels: Collection[str] | None = None,
    ) -> None:
        self._store = store
        self._signal = signal
        self._clock = clock
        self._composer = composer
        self._catch_up_max_age_us = int(catch_up_max_age_h * _SECONDS_AN_HOUR * US_PER_S)
        self._channels = channels

    async def run(self) -> None:
        """Fire jobs until cancelled. A database that cannot be written now is tried again, nothing is skipped."""
        # 90 ms of import that only a process which fires jobs has to pay.
        from apscheduler.schedulers.asyncio import AsyncIOScheduler
        from apscheduler.triggers.date import DateTrigger

        alarm = AsyncIOScheduler(timezone=UTC)
        alarm.start()
        try:
            while True:
                wake_us = await self._fire_due()
                alarm.add_job(
                    self._signal.notify,
                    # By the machine's clock, since that is what the alarm goes by; what is due goes by ours.
                    DateTrigger(datetime.now(UTC) + timedelta(microseconds=wake_us - self._clock.now_us())),
                    args=[Topic.JOBS],
                    id="next-due",
                    replace_existing=True,
                    misfire_grace_time=None,  # the default drops an alarm that is a second late
                )
                await self._signal.wait(Topic.JOBS, None)
        finally:
            alarm.shutdown(wait=False)

    async def _fire_due(self) -> int:
        """Fire what is due and return when to look again, in microseconds."""
        while True:
            try:
                due_us = await self._store.jobs.next_due_us(self._channels)
                now_us = self._clock.now_us()
                if due_us is None or due_us > now_us:
                    latest = now_us + int(LOOK_AGAIN_S * US_PER_S)
                    return latest if due_us is None else min(due_us, latest)
                count = await self._store.jobs.fire(
                    self._composer, catch_up_max_age_us=self._catch_up_max_age_us, channels=self._channels
                )
                _log.info("jobs fired", count=count)
                self._signal.notify(Topic.OUTBOUND)
                self._signal.notify(Topic.INBOUND)
            except StoreUnavailable as exc:
                _log.error("jobs cannot be fired now", error=str(exc))
                await asyncio.sleep(_RETRY_S)
