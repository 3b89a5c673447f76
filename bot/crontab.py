"""Crontab expressions: from text to sets of minutes, hours, days, and to the next reading of a wall clock.

The five fields mean what they mean in crontab(5) of Vixie cron
(https://man7.org/linux/man-pages/man5/crontab.5.html, read 2026-11-29), not what they mean to
APScheduler, whose weekday 0 is Monday and which joins the two day fields with "and". APScheduler's
trigger is fed with the translated sets and does the calendar arithmetic. Everything here is about naive
wall-clock readings; zones and clock changes belong to `bot.zones` and `bot.schedule`.

Choices where crontabs differ: a step after a single number runs to the end of the field (`5/15` is
`5-59/15`); ranges of weekdays and months may wrap (`FRI-MON`, `NOV-FEB`); a step wider than its field is
refused, since `*/90` never means what its writer hoped; as in Vixie cron a day field that begins with `*`
restricts together with the other one ("and"), two that do not are alternatives ("or").
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from bot.errors import ScheduleError
from bot.zones import shown

LAST_YEAR = 2400  # no search goes further; a schedule's own limits lie well before
MINUTES_PER_DAY = 1440
_MAX_EXPRESSION_CHARS = 1000
_GAPS_LOOKED_AT = 200
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ITEM = re.compile(r"(?:(\*)|([0-9]{1,4}|[a-z]{3})(?:-([0-9]{1,4}|[a-z]{3}))?)(?:/([0-9]{1,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One of the five places: its name in error texts, its range, its words."""

    label: str
    low: int
    high: int
    words: tuple[str, ...] = ()
    first_word: int = 0
    wraps: bool = False

    def number(self, text: str) -> int:
        """Return the value of a number or word.

        Raises:
            ValueError: not one of this field.
        """
        if text.isdigit():
            value = int(text)
            if not self.low <= value <= self.high:
                raise ValueError(f"{text} is not between {self.low} and {self.high}")
            return value
        if text not in self.words:
            raise ValueError(f"{text!r} is not a {self.label}")
        return self.words.index(text) + self.first_word

    def items(self, text: str) -> frozenset[int]:
        """Return the values of a comma list of numbers, ranges and steps.

        Raises:
            ValueError: with what is wrong, not yet naming the field.
        """
        values: set[int] = set()
        for item in text.lower().split(","):
            match = _ITEM.fullmatch(item)
            if match is None:
                raise ValueError(f"{shown(item)} is not a number, range, list or step")
            star, first_text, last_text, step_text = match.groups()
            first = self.low if star else self.number(first_text)
            last = first if last_text is None else self.number(last_text)
            if star or (step_text and last_text is None):
                last = self.high
            values.update(self._span(first, last, int(step_text) if step_text else 1))
        return frozenset(values)

    def _span(self, first: int, last: int, step: int) -> range | list[int]:
        if step < 1:
            raise ValueError("a step must be at least 1")
        if step > self.high - self.low + 1:
            raise ValueError(f"step {step} is wider than the field; for such intervals use every_seconds")
        if first <= last:
            return range(first, last + 1, step)
        if not self.wraps:
            raise ValueError(f"the range {first}-{last} runs backwards; write {first}-{self.high},{self.low}-{last}")
        size = len(self.words)
        length = (last - first) % size + 1
        return [(first - self.low + i) % size + self.low for i in range(0, length, step)]


_MONTH_WORDS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_WORDS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field(label="minute", low=0, high=59),
    _Field(label="hour", low=0, high=23),
    _Field(label="day of month", low=1, high=31),
    _Field(label="month", low=1, high=12, words=_MONTH_WORDS, first_word=1, wraps=True),
    _Field(label="day of week", low=0, high=7, words=_DAY_WORDS, wraps=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """A parsed expression; weekdays are 0-6 from Sunday, `either_day` joins days and weekdays by "or"."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def times(self) -> list[int]:
        """Return the minutes of a matching day at which it fires, ascending, counted from midnight."""
        return [hour * 60 + minute for hour in sorted(self.hours) for minute in sorted(self.minutes)]

    def shortest_gap_min(self, wall: datetime) -> int:
        """Return the least minutes between two readings; over midnight, of the next 200 after `wall`."""
        times = self.times()
        within = min((b - a for a, b in itertools.pairwise(times)), default=MINUTES_PER_DAY)
        if times[0] + MINUTES_PER_DAY - times[-1] >= within:
            return within  # midnight is no closer, so which days follow one another does not matter
        reading = self.next_wall(wall)
        for _ in range(_GAPS_LOOKED_AT):
            following = None if reading is None else self.next_wall(reading)
            if reading is None or following is None:
                break
            within = min(within, (following - reading) // timedelta(minutes=1))
            reading = following
        return within

    def next_wall(self, wall: datetime) -> datetime | None:
        """Return the first matching naive reading strictly after `wall`, None beyond the year 2400."""
        if wall.year >= LAST_YEAR:
            return None
        start = wall.replace(second=0, microsecond=0, tzinfo=UTC) + timedelta(minutes=1)
        found = [t.get_next_fire_time(None, start) for t in _triggers(self)]
        walls: list[datetime] = [moment.replace(tzinfo=None) for moment in found if moment is not None]
        return min(walls, default=None)


@lru_cache(maxsize=4096)
def parse_crontab(expression: str) -> Crontab:
    """Return the meaning of a crontab expression of five fields, or of a nickname such as @daily.

    Raises:
        ScheduleError: the text names the field and the value that cannot be used.
    """
    text = expression.strip()
    if len(text) > _MAX_EXPRESSION_CHARS:
        raise ScheduleError(f"cron_expr is longer than {_MAX_EXPRESSION_CHARS} characters.")
    if text.startswith("@"):
        text = _expand(text.lower())
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(_wrong_count(expression, len(parts)))
    sets = []
    for field, part in zip(_FIELDS, parts, strict=True):
        try:
            sets.append(field.items(part))
        except ValueError as exc:
            raise ScheduleError(f"cron_expr {shown(expression)}: bad {field.label} {shown(part)}: {exc}.") from exc
    minutes, hours, days, months, weekdays = sets
    crontab = Crontab(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not parts[2].startswith("*") and not parts[4].startswith("*"),
    )
    if not crontab.either_day and all(min(days) > _MONTH_DAYS[month - 1] for month in months):
        raise ScheduleError(
            f"cron_expr {shown(expression)} never fires: no such month has a day {min(days)} "
            f"(bad day of month {shown(parts[2])})."
        )
    return crontab


def _expand(nickname: str) -> str:
    if nickname == "@reboot":
        raise ScheduleError("cron_expr '@reboot' is refused: a restart of the bot is not a time. Give a time of day.")
    if nickname not in _NICKNAMES:
        raise ScheduleError(f"cron_expr {shown(nickname)} is unknown; nicknames are {', '.join(_NICKNAMES)}.")
    return _NICKNAMES[nickname]


def _wrong_count(expression: str, count: int) -> str:
    text = (
        f"cron_expr {shown(expression)} has {count} fields; it must have 5: "
        "minute, hour, day of month, month, day of week."
    )
    return f"{text} Leave out seconds and year." if count in (6, 7) else text


@lru_cache(maxsize=4096)
def _triggers(crontab: Crontab) -> tuple[Any, ...]:
    """Return APScheduler triggers on UTC as a stand-in for the wall clock; the earliest of them is meant."""
    from apscheduler.triggers.cron import CronTrigger  # late: 60-130 ms to import (it pulls in tzlocal)

    def trigger(days: frozenset[int] | None, weekdays: frozenset[int] | None) -> Any:
        return CronTrigger(
            year=f"1970-{LAST_YEAR}",
            month=_compact(crontab.months, 1, 12),
            day="*" if days is None else _compact(days, 1, 31),
            day_of_week="*" if weekdays is None else _compact(frozenset((d - 1) % 7 for d in weekdays), 0, 6),
            hour=_compact(crontab.hours, 0, 23),
            minute=_compact(crontab.minutes, 0, 59),
            second=0,
            timezone=UTC,
        )

    if not crontab.either_day:
        return (trigger(crontab.days, crontab.weekdays),)
    by_weekday = trigger(None, crontab.weekdays)
    if all(min(crontab.days) > _MONTH_DAYS[month - 1] for month in crontab.months):
        return (by_weekday,)  # the other half would search all years in vain
    return (trigger(crontab.days, None), by_weekday)


def _compact(values: frozenset[int], low: int, high: int) -> str:
    """Return the set as APScheduler writes it, in one expression if possible: it walks them one by one."""
    ordered = sorted(values)
    if len(ordered) == high - low + 1:
        return "*"
    steps = {b - a for a, b in itertools.pairwise(ordered)}
    if len(steps) == 1:
        return f"{ordered[0]}-{ordered[-1]}/{steps.pop()}"
    return ",".join(map(str, ordered))
