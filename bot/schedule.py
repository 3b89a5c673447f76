"""What a schedule is, and when it is due: one-shot, fixed interval, or crontab.

Everything here is a pure function of its arguments. Job rows, catching up after an outage, timers and firing
belong to others; they ask `Schedule.next_after` and keep what it answers.

How due times are found. A cron's occurrences are computed on the local wall clock and then mapped to
instants, so that a clock change neither drops nor doubles one (rule: `bot.zones`; readings that land on
one instant fire once). An interval counts from its anchor in real time. Occurrences in quiet hours are
left out, except that a one-shot waits for the end of the window. Jitter delays each occurrence by a
stable amount, always less than the way to the next occurrence and never into quiet hours or past
`until_us`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from bot.clock import US_PER_S
from bot.crontab import parse_crontab
from bot.errors import ScheduleError
from bot.phrases import crontab_phrase, interval_phrase
from bot.quiet import QuietHours
from bot.zones import load_zone, local_text, parse_moment, shown, us_to_wall, wall_to_us

__all__ = [
    "MAX_JITTER_S",
    "QuietHours",
    "Schedule",
    "ScheduleKind",
    "load_zone",
    "local_text",
    "parse_schedule",
]

MAX_JITTER_S = 86_400
_MAX_QUIET_SKIPS = 1000  # of an interval that stays in step with the day, before it counts as never due
_LAST_US = 13_569_465_600 * US_PER_S  # start of 2400: nothing is due later, and every datetime still fits
_FIRST_US = -86_400 * US_PER_S
_MAX_AHEAD_S = 36_525 * 86_400  # 100 years: beyond it is a slip of the pen, and datetimes soon end


class ScheduleKind(StrEnum):
    """How a schedule repeats."""

    AT = "at"  # once, at `at_us`
    EVERY = "every"  # at `anchor_us` + n * `every_s`, n >= 1
    CRON = "cron"  # by `cron_expr` on the wall clock of `zone`


_FIELDS_BY_KIND = {
    ScheduleKind.AT: ("at_us",),
    ScheduleKind.EVERY: ("every_s", "anchor_us"),
    ScheduleKind.CRON: ("cron_expr",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When something is due. Exactly the fields of its kind are set.

    Args:
        kind: which of the fields below applies.
        zone: IANA name; the clock of cron, quiet hours and texts.
        at_us: for AT, the instant.
        every_s: for EVERY, the interval in whole seconds.
        anchor_us: for EVERY, the instant from which the interval is counted.
        cron_expr: for CRON, the expression as the person gave it.
        until_us: the last instant at which it may still be due, inclusive.
        jitter_s: each occurrence is delayed by 0 to this many seconds.
        quiet: hours in which it stays silent.
        urgent: whether it ignores `quiet`.

    Raises:
        ScheduleError: fields that do not fit together, an unknown zone or a bad expression.
    """

    kind: ScheduleKind
    zone: str
    at_us: int | None = None
    every_s: int | None = None
    anchor_us: int | None = None
    cron_expr: str | None = None
    until_us: int | None = None
    jitter_s: int = 0
    quiet: QuietHours | None = None
    urgent: bool = False

    def __post_init__(self) -> None:
        load_zone(self.zone)
        own = [name for names in _FIELDS_BY_KIND.values() for name in names if getattr(self, name) is not None]
        if tuple(own) != _FIELDS_BY_KIND[self.kind]:
            raise ScheduleError(f"The fields of this schedule do not fit its kind {self.kind}.")
        if self.every_s is not None and self.every_s < 1:
            raise ScheduleError("every_s must be at least 1.")
        for instant_us in (self.at_us, self.anchor_us, self.until_us):
            if instant_us is not None and not _FIRST_US <= instant_us < _LAST_US:
                raise ScheduleError("An instant of this schedule is before 1970 or after 2399.")
        if not 0 <= self.jitter_s <= MAX_JITTER_S:
            raise ScheduleError(f"jitter_s must be between 0 and {MAX_JITTER_S}.")
        if self.cron_expr is not None:
            parse_crontab(self.cron_expr)

    def next_after(self, after_us: int, seed: str = "") -> int | None:
        """Return the first due instant strictly after `after_us`, None when there is none any more.

        The same arguments always give the same answer. With jitter it depends on `seed` (a job's id), and
        walking from one to the next with the same seed visits every occurrence once, in order. An interval
        that meets quiet hours 1,000 times in a row counts as over.
        """
        zone = load_zone(self.zone)
        quiet = None if self.urgent else self.quiet
        if quiet is not None and self.cron_expr is not None and _always_quiet(self.cron_expr, quiet):
            return None
        nominal_us = self._start(after_us, zone)
        for _ in range(_MAX_QUIET_SKIPS):
            if nominal_us is None:
                return None
            if quiet is not None and quiet.contains(nominal_us, zone):
                end_us = quiet.end_after(nominal_us, zone)
                nominal_us = end_us if self.kind is ScheduleKind.AT else self._nominal(end_us - 1, zone)
                continue
            if self.until_us is not None and nominal_us > self.until_us:
                return None
            due_us = self._delayed(nominal_us, zone, quiet, seed) if self.jitter_s else nominal_us
            if due_us > after_us:
                return due_us
            nominal_us = self._nominal(nominal_us, zone)
        return None

    def _start(self, after_us: int, zone: ZoneInfo) -> int | None:
        """Return the earliest occurrence that may come out after the instant, delays included."""
        if self.at_us is not None:
            return self.at_us
        if self.every_s is not None:
            return self._nominal(after_us - min(self.every_s, self.jitter_s) * US_PER_S, zone)
        found_us = self._nominal(after_us - self.jitter_s * US_PER_S, zone)
        # A delay ends before the next occurrence, so of those before the instant only the latest matters:
        # halve the way to it rather than walk through a whole jitter's length of minutes.
        high_us = after_us
        while found_us is not None and found_us < high_us - US_PER_S:
            middle_us = (found_us + high_us) // 2
            later_us = self._nominal(middle_us, zone)
            if later_us is not None and later_us <= after_us:
                found_us = later_us
            else:
                high_us = middle_us
        return found_us

    def _nominal(self, after_us: int, zone: ZoneInfo) -> int | None:
        """Return the first occurrence after the instant, before quiet hours, jitter and until."""
        if self.at_us is not None or after_us >= _LAST_US:
            return None
        if self.every_s is not None and self.anchor_us is not None:
            step_us = self.every_s * US_PER_S
            found_us = self.anchor_us + max(1, (after_us - self.anchor_us) // step_us + 1) * step_us
            return found_us if found_us < _LAST_US else None
        crontab = parse_crontab(self.cron_expr or "")
        after_us = max(after_us, _FIRST_US)
        wall = crontab.next_wall(us_to_wall(after_us, zone))
        while wall is not None:
            found_us = wall_to_us(wall, zone)
            if found_us > after_us:
                return found_us
            wall = crontab.next_wall(wall)  # it had its turn in the first pass of a doubled hour
        return None

    def _delayed(self, nominal_us: int, zone: ZoneInfo, quiet: QuietHours | None, seed: str) -> int:
        room_s = self.jitter_s
        following_us = self._nominal(nominal_us, zone)
        if following_us is not None:
            room_s = min(room_s, (following_us - nominal_us - 1) // US_PER_S)
        if self.until_us is not None:
            room_s = min(room_s, (self.until_us - nominal_us) // US_PER_S)
        digest = hashlib.blake2b(f"{seed}:{nominal_us}".encode("utf-8", "replace"), digest_size=8).digest()
        due_us = nominal_us + int.from_bytes(digest, "big") % (room_s + 1) * US_PER_S
        return nominal_us if quiet is not None and quiet.contains(due_us, zone) else due_us

    def describe(self, language: str = "en", *, zone: bool = True) -> str:
        """Return a short line: "once", "every 30 minutes", "every day at 08:00 (Asia/Tokyo)".

        `zone` False leaves the zone out, where the reader sees it anyway.
        """
        if self.kind is ScheduleKind.AT:
            return "once"
        if self.every_s is not None:
            return interval_phrase(self.every_s, language)
        phrase = crontab_phrase(parse_crontab(self.cron_expr or ""), language) or f"cron {self.cron_expr!r}"
        return f"{phrase} ({self.zone})" if zone else phrase

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values; `kind` and `quiet` in their text form."""
        return {
            "kind": str(self.kind),
            "zone": self.zone,
            "at_us": self.at_us,
            "every_s": self.every_s,
            "anchor_us": self.anchor_us,
            "cron_expr": self.cron_expr,
            "until_us": self.until_us,
            "jitter_s": self.jitter_s,
            "quiet": None if self.quiet is None else str(self.quiet),
            "urgent": self.urgent,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schedule:
        """Return the schedule that `to_json` described; fields that may be absent have their defaults.

        Raises:
            ScheduleError: a field is missing, has a wrong type or cannot be used.
        """
        for name, wanted in _JSON_TYPES.items():
            value = data.get(name)
            if value is not None and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
                raise ScheduleError(f"stored schedule: {name} is {shown(value)}, which is not a {wanted.__name__}.")
        kind, zone, quiet = data.get("kind"), data.get("zone"), data.get("quiet")
        if kind not in list(ScheduleKind) or zone is None:
            raise ScheduleError(f"stored schedule: kind {shown(kind)} and zone {shown(zone)} are no schedule.")
        return cls(
            kind=ScheduleKind(kind),
            zone=zone,
            at_us=data.get("at_us"),
            every_s=data.get("every_s"),
            anchor_us=data.get("anchor_us"),
            cron_expr=data.get("cron_expr"),
            until_us=data.get("until_us"),
            jitter_s=data.get("jitter_s") or 0,
            quiet=None if quiet is None else QuietHours.parse(quiet),
            urgent=data.get("urgent") or False,
        )


_JSON_TYPES: dict[str, type] = {
    "kind": str,
    "zone": str,
    "at_us": int,
    "every_s": int,
    "anchor_us": int,
    "cron_expr": str,
    "until_us": int,
    "jitter_s": int,
    "quiet": str,
    "urgent": bool,
}


def parse_schedule(
    *,
    now_us: int,
    default_zone: str,
    at: str | None = None,
    in_seconds: float | None = None,
    every_seconds: float | None = None,
    cron_expr: str | None = None,
    tz: str | None = None,
    min_interval_s: int = 60,
    until: str | None = None,
    jitter_s: int = 0,
    quiet_hours: str | None = None,
    urgent: bool = False,
) -> Schedule:
    """Return the schedule a person or a model asked for, checked so that it will be due at least once.

    Args:
        now_us: the current instant; intervals are counted from it.
        default_zone: the person's zone, used unless `tz` is given.
        at: ISO 8601 date and time, local unless it carries an offset. Exactly one of this and the next three.
        in_seconds: a delay from now.
        every_seconds: an interval in whole seconds.
        cron_expr: crontab expression, see `bot.crontab`.
        tz: IANA zone name.
        min_interval_s: the shortest allowed time between two occurrences.
        until: ISO 8601 date and time, like `at`; the last instant, inclusive.
        jitter_s: see `Schedule`.
        quiet_hours: such as "22:00-06:00", on the local clock.
        urgent: see `Schedule`.

    Raises:
        ScheduleError: naming the bad field and the current local time; also for what is over 100 years ahead.
    """
    wanted = _Wanted(now_us=now_us, zone=_best_zone(tz, default_zone), min_interval_s=min_interval_s)
    try:
        load_zone(default_zone if tz is None else tz)
        schedule = wanted.build(at, in_seconds, every_seconds, cron_expr)
        schedule = replace(
            schedule,
            until_us=None if until is None else wanted.instant("until", until),
            jitter_s=_whole("jitter_s", jitter_s, least=0, most=MAX_JITTER_S),
            quiet=None if quiet_hours is None else QuietHours.parse(quiet_hours),
            urgent=urgent is True,
        )
        wanted.check_due(schedule)
    except ScheduleError as exc:
        raise ScheduleError(f"{exc} It is now {local_text(now_us, wanted.zone)}.") from exc
    return schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The situation in which a schedule is asked for."""

    now_us: int
    zone: ZoneInfo
    min_interval_s: int

    def build(
        self, at: str | None, in_seconds: float | None, every_seconds: float | None, cron_expr: str | None
    ) -> Schedule:
        if sum(value is not None for value in (at, in_seconds, every_seconds, cron_expr)) != 1:
            raise ScheduleError("Give exactly one of at, in_seconds, every_seconds and cron_expr.")
        zone = self.zone.key
        if at is not None:
            return Schedule(kind=ScheduleKind.AT, zone=zone, at_us=self.instant("at", at))
        if in_seconds is not None:
            delay_us = math.ceil(_number("in_seconds", in_seconds) * US_PER_S)
            return Schedule(kind=ScheduleKind.AT, zone=zone, at_us=self.now_us + delay_us)
        if every_seconds is not None:
            every_s = _whole("every_seconds", every_seconds, least=1, most=_MAX_AHEAD_S)
            if every_s < self.min_interval_s:
                raise ScheduleError(f"every_seconds: {every_s} is below the minimum of {self.min_interval_s}.")
            return Schedule(kind=ScheduleKind.EVERY, zone=zone, every_s=every_s, anchor_us=self.now_us)
        if not isinstance(cron_expr, str):
            raise ScheduleError(f"cron_expr: {shown(cron_expr)} is not text.")
        schedule = Schedule(kind=ScheduleKind.CRON, zone=zone, cron_expr=cron_expr)
        gap_s = parse_crontab(cron_expr).shortest_gap_min(us_to_wall(self.now_us, self.zone)) * 60
        if gap_s < self.min_interval_s:
            raise ScheduleError(
                f"cron_expr: {shown(cron_expr)} is due again after {gap_s} seconds; "
                f"the minimum is {self.min_interval_s}."
            )
        return schedule

    def instant(self, field: str, text: str) -> int:
        instant_us = parse_moment(text, self.zone, field=field)
        if instant_us <= self.now_us:
            raise ScheduleError(f"{field}: {shown(text)} is in the past.")
        if instant_us > self.now_us + _MAX_AHEAD_S * US_PER_S:
            raise ScheduleError(f"{field}: {shown(text)} is more than 100 years ahead.")
        return instant_us

    def check_due(self, schedule: Schedule) -> None:
        if schedule.next_after(self.now_us) is not None:
            return
        if replace(schedule, until_us=None).next_after(self.now_us) is not None:
            raise ScheduleError("until: that is before the first occurrence.")
        if schedule.quiet is not None and replace(schedule, urgent=True, until_us=None).next_after(self.now_us):
            raise ScheduleError(f"quiet_hours: every occurrence falls into {schedule.quiet}, so it would never speak.")
        raise ScheduleError("This schedule has no occurrence in the future.")


def _best_zone(tz: str | None, default_zone: str) -> ZoneInfo:
    """Return the zone to work in; while the names are still to be judged, the one an error text can use."""
    for name in (tz, default_zone):
        if name is not None:
            try:
                return load_zone(name)
            except ScheduleError:
                continue
    return load_zone("UTC")


def _number(field: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScheduleError(f"{field}: {shown(value)} is not a number of seconds.")
    if not 0 < value <= _MAX_AHEAD_S:  # also false for nan
        raise ScheduleError(f"{field}: {shown(value)} is not between 0 and 100 years ({_MAX_AHEAD_S} seconds).")
    return value


def _whole(field: str, value: float, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScheduleError(f"{field}: {shown(value)} is not a number of seconds.")
    if not least <= value <= most or value != int(value):
        raise ScheduleError(f"{field}: {shown(value)} is not a whole number of seconds from {least} to {most}.")
    return int(value)


@lru_cache(maxsize=4096)
def _always_quiet(cron_expr: str, quiet: QuietHours) -> bool:
    return all(quiet.covers(minute) for minute in parse_crontab(cron_expr).times())
