"""Jobs as people speak of them: made from a tool's arguments, receipted, listed, found, changed.

Shared by the cron tool and the slash commands, so that both mean the same. Storing and firing are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.clock import from_us
from bot.config import JobsSection
from bot.errors import ScheduleError
from bot.interfaces import Unit
from bot.messages import Role
from bot.records import Job, JobKind, JobState, NewJob
from bot.schedule import Schedule, parse_schedule
from bot.texts import say
from bot.toolkit.context import RequestContext
from bot.toolkit.presets import preset_of
from bot.zones import local_text

TEXT_LIMIT_CHARS = 4_000
NAME_LIMIT_CHARS = 100
_SHOWN_JOBS = 50
_TIMES = ("at", "in_seconds", "every_seconds", "cron_expr")
_SCHEDULE_KEYS = (*_TIMES, "tz", "until", "jitter_s", "quiet_hours", "urgent")


class JobDesk:
    """Takes orders for jobs. `delivers` is False when nothing in this process will fire them."""

    def __init__(self, section: JobsSection, *, delivers: bool = True) -> None:
        self._section = section
        self._delivers = delivers

    def add(self, unit: Unit, arguments: Mapping[str, Any], request: RequestContext) -> str:
        """Store a job from the cron tool's `add` arguments and return its receipt.

        Raises:
            ScheduleError: the schedule cannot be kept, or a field is bad; nothing is stored.
        """
        kind = JobKind(arguments.get("kind") or JobKind.REMINDER)
        text = _text(arguments)
        now_us = unit.now_us()
        schedule = self._schedule(arguments, request, now_us)
        next_us = schedule.next_after(now_us)
        if next_us is None:
            raise ScheduleError("this schedule has no time in the future")
        job = unit.add_job(
            NewJob(
                address=request.address,
                chat_type=request.chat_type,
                creator_id=request.sender_id,
                kind=kind,
                name=_name(arguments),
                text=text,
                schedule=schedule,
                next_us=next_us,
                max_runs=arguments.get("max_runs"),
                catch_up=arguments.get("catch_up", True),
                session_id=request.turn.home_session_id,
                model=preset_of(arguments.get("model") or ""),
            ),
            limit_per_chat=self._section.max_per_chat,
        )
        return self.receipt("task_set" if kind is JobKind.TASK else "reminder_set", job, request)

    def update(self, unit: Unit, job: Job, arguments: Mapping[str, Any], request: RequestContext) -> str:
        """Change what the arguments name, keep the rest, and return the receipt.

        Raises:
            ScheduleError: the new schedule cannot be kept; the job stays as it was.
        """
        changed = job
        if any(arguments.get(key) is not None for key in _SCHEDULE_KEYS):
            now_us = unit.now_us()
            schedule = self._schedule({**_time_of(job.schedule, arguments), **_given(arguments)}, request, now_us)
            next_us = schedule.next_after(now_us, seed=job.id)
            changed = replace(changed, schedule=schedule, next_us=next_us, state=JobState.ACTIVE)
        if arguments.get("text") is not None:
            changed = replace(changed, text=_text(arguments))
        if arguments.get("name") is not None:
            changed = replace(changed, name=_name(arguments))
        if arguments.get("kind") is not None:
            changed = replace(changed, kind=JobKind(arguments["kind"]))
        if arguments.get("max_runs") is not None:
            changed = replace(changed, max_runs=arguments["max_runs"])
        if arguments.get("catch_up") is not None:
            changed = replace(changed, catch_up=arguments["catch_up"])
        if arguments.get("model") is not None:
            changed = replace(changed, model=preset_of(arguments["model"]))
        unit.save_job(changed)
        return self.receipt("job_changed", changed, request)

    def resume(self, unit: Unit, job: Job, request: RequestContext) -> str:
        """Let a paused job fire again and return the receipt.

        Raises:
            ScheduleError: its time has passed.
        """
        next_us = job.schedule.next_after(unit.now_us(), seed=job.id)
        if next_us is None:
            raise ScheduleError(f"the time of {job.id} has passed; give it a new one with action update")
        changed = replace(job, state=JobState.ACTIVE, next_us=next_us)
        unit.save_job(changed)
        return self.receipt("job_changed", changed, request)

    def receipt(self, key: str, job: Job, request: RequestContext) -> str:
        """Return the confirmation of a job: what, when with date, year and zone, and its id."""
        language = request.language
        when = say(language, "paused") if job.next_us is None else _when(job, job.next_us, request)
        text = say(language, key, title=job.title, when=when, id=job.id)
        return text if self._delivers else f"{text}\n{say(language, 'nobody_delivers')}"

    def _schedule(self, arguments: Mapping[str, Any], request: RequestContext, now_us: int) -> Schedule:
        wanted = {key: arguments[key] for key in _SCHEDULE_KEYS if arguments.get(key) is not None}
        return parse_schedule(
            now_us=now_us, default_zone=request.zone, min_interval_s=self._section.min_interval_s, **wanted
        )


def _when(job: Job, next_us: int, request: RequestContext) -> str:
    """Return rhythm and next time; the zone is named once unless the job has another one than the person."""
    language = request.language
    first = local_text(next_us, request.tz, language)
    if job.schedule.kind == "at":
        return first
    rhythm = job.schedule.describe(language, zone=job.schedule.zone != request.zone)
    return say(language, "next_time", when=rhythm, first=first)


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if value is not None}


def _time_of(schedule: Schedule, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schedule's own arguments, less what the new arguments replace."""
    known: dict[str, Any] = {"tz": schedule.zone, "urgent": schedule.urgent}
    if schedule.jitter_s:
        known["jitter_s"] = schedule.jitter_s
    if schedule.quiet is not None:
        known["quiet_hours"] = str(schedule.quiet)
    if schedule.until_us is not None:
        known["until"] = _iso(schedule.until_us)
    if not any(arguments.get(key) is not None for key in _TIMES):
        if schedule.at_us is not None:
            known["at"] = _iso(schedule.at_us)
        elif schedule.every_s is not None:
            known["every_seconds"] = schedule.every_s
        else:
            known["cron_expr"] = schedule.cron_expr
    return known


def _iso(instant_us: int) -> str:
    return from_us(instant_us).isoformat()


def _text(arguments: Mapping[str, Any]) -> str:
    text = str(arguments.get("text") or "").strip()
    if not text:
        raise ScheduleError("text: say what the reminder or task is about")
    if len(text) > TEXT_LIMIT_CHARS:
        raise ScheduleError(f"text: {len(text)} characters are too many, the limit is {TEXT_LIMIT_CHARS}")
    return text


def _name(arguments: Mapping[str, Any]) -> str:
    return " ".join(str(arguments.get("name") or "").split())[:NAME_LIMIT_CHARS]


def find_job(jobs: Sequence[Job], wanted: str) -> Job | None:
    """Return the job that an id means, with or without its prefix."""
    wanted = wanted.strip().strip("[]").lower()
    return next((job for job in jobs if wanted in (job.id, job.id.removeprefix("job-"))), None)


def may_change(job: Job, request: RequestContext) -> bool:
    """Say whether the sender may change a job of this chat: its creator or an owner may."""
    return request.role is Role.OWNER or job.creator_id == request.sender_id


def list_jobs(jobs: Sequence[Job], request: RequestContext) -> str:
    """Return the list a person reads: what, when with zone, id."""
    language = request.language
    if not jobs:
        return say(language, "no_jobs")
    lines = [say(language, "jobs_title")]
    for job in jobs[:_SHOWN_JOBS]:
        if job.state is JobState.PAUSED or job.next_us is None:
            when = say(language, "paused")
        else:
            when = _when(job, job.next_us, request)
        lines.append(f"• {job.title} — {when} [{job.id}]")
    if len(jobs) > _SHOWN_JOBS:
        lines.append(f"… +{len(jobs) - _SHOWN_JOBS}")
    return "\n".join(lines)
