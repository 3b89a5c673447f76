"""What was said about time, as values, whatever the language.

The scanners of `phrases_en.py`, `phrases_de.py` and `phrases_zh.py` build a `When` from each
expression, `merge` joins expressions that belong together ("tomorrow" + "at 9"). Turning the whole into an
argument of the cron tool is `phrases_schedule.py`.

"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from bot.providers.phrases_intents import RefuseReason

DAY_S = 86_400
NOON = 12
MIDNIGHT = 24  # the one that ends the day
HOUR_MINUTES = 60
MONTHS = 12
WEEKDAYS = 7
DAWN = 6  # a loose hour before it means the afternoon, and at night the small hours
_CENTURY = 100
_T = TypeVar("_T")


class Part(StrEnum):
    """A part of the day."""

    MORNING = "morning"
    NOON = "noon"
    AFTERNOON = "afternoon"
    EVENING = "evening"
    NIGHT = "night"  # "tonight": late evening, and the small hours when an hour says so


class Unit(StrEnum):
    """A step of the calendar."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day. Hour 24 is the midnight that ends the day; `loose`: no am or pm was said."""

    hour: int
    minute: int = 0
    loose: bool = False


def clock_at(hour: int, minute: int = 0, *, loose: bool = False) -> Clock | None:
    """Return the time of day, None when there is no such one; only 1 to 11 can be loose."""
    if not (0 <= hour <= MIDNIGHT and 0 <= minute < HOUR_MINUTES):
        return None
    return Clock(hour=hour, minute=minute, loose=loose and 0 < hour < NOON)


def clocks_at(clocks: Iterable[Clock | None]) -> When:
    """Return the expression that names these times; one that does not exist (25:00) spoils it."""
    good = list(clocks)
    existing = tuple(clock for clock in good if clock)
    return When(clocks=existing) if len(existing) == len(good) else When(reason=RefuseReason.UNCLEAR)


def hour_in_part(clock: Clock, part: Part | None, *, dated: bool = True) -> int:
    """Return the hour that `part` makes of the clock's; 24 and more belong to the night that ends the day."""
    hour = clock.hour
    if part is None:
        return hour + NOON if clock.loose and dated and hour < DAWN else hour
    if part is Part.MORNING:
        return 0 if hour == NOON else hour
    if part is Part.NOON:
        return hour + NOON if hour < DAWN else hour
    if hour >= NOON:
        return MIDNIGHT if hour == NOON and part is not Part.AFTERNOON else hour
    if part is Part.EVENING and hour == 0:
        return MIDNIGHT
    if part is Part.NIGHT and hour < DAWN:
        return hour + MIDNIGHT  # "tonight at 2"
    return hour + NOON


def full_year(year: int | None) -> int | None:
    """Return a year of two digits as one of this century."""
    return year + 20 * _CENTURY if year is not None and year < _CENTURY else year


def before_hour(hour: int, minutes: int) -> tuple[int, int]:
    """Return hour and minute of "ten to eight", on a 12-hour clock when the hour is one."""
    return (hour - 1) or NOON, HOUR_MINUTES - minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day: an offset from today, a weekday (0 = Monday) or a date; `weeks` to `years` count from now."""

    offset: int | None = None
    weekday: int | None = None
    after_today: bool = False  # the weekday is never today: German "nächsten Freitag"
    weeks: int | None = None
    months: int | None = None
    years: int | None = None
    year: int | None = None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A span from now."""

    seconds: int = 0
    days: int = 0
    months: int = 0

    def __add__(self, other: Delay) -> Delay:
        return Delay(
            seconds=self.seconds + other.seconds,
            days=self.days + other.days,
            months=self.months + other.months,
        )

    def times(self, n: float) -> Delay | None:
        """Return this unit `n` times; None for a fraction of a month."""
        if n == int(n):
            return Delay(seconds=self.seconds * int(n), days=self.days * int(n), months=self.months * int(n))
        return None if self.months else Delay(seconds=round((self.seconds + self.days * DAY_S) * n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """A repetition: every `seconds`, every `n` units, on `weekdays` (0 = Monday) or `days` of the month."""

    seconds: int | None = None
    n: int = 1
    unit: Unit | None = None
    weekdays: tuple[int, ...] = ()
    days: tuple[int, ...] = ()
    month: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """All that one expression says about time; with `reason`, it says something no schedule can hold."""

    delay: Delay | None = None
    day: Day | None = None
    clocks: tuple[Clock, ...] = ()
    part: Part | None = None
    every: Every | None = None
    reason: RefuseReason | None = None

    @property
    def complete(self) -> bool:
        """Whether another expression elsewhere in the sentence can no longer belong to this one."""
        if self.reason or (self.delay and self.delay.seconds) or (self.every and self.every.seconds):
            return True
        return bool(self.clocks) and bool(self.day or self.every or self.delay)


_TODAY = When(day=Day(offset=0))


def merge(first: When, second: When) -> When | None:
    """Return both as one, or None when they say different things about the same aspect."""
    reasons = {first.reason, second.reason} - {None}
    if reasons:
        return None if RefuseReason.PAST in reasons else When(reason=first.reason or second.reason)
    if (first.delay and second == _TODAY) or (second.delay and first == _TODAY):
        return first if first.delay else second  # "today in two hours"
    if _clash(first, second):
        return None
    both = When(
        delay=first.delay or second.delay,
        day=_joined(first.day, second.day, _merge_days),
        clocks=first.clocks or second.clocks,
        part=first.part or second.part,
        every=_joined(first.every, second.every, _merge_every),
    )
    if (first.day and not both.day) or (first.every and not both.every):
        return None
    if both.delay and (both.delay.seconds or both.day or both.every):
        return None
    if both.every and both.every.seconds and both.part:
        return None
    if both.every and both.day:
        every = _every_on(both.every, both.day)
        return replace(both, every=every, day=None) if every else When(reason=RefuseReason.UNSUPPORTED)
    return both


def _clash(first: When, second: When) -> bool:
    if (first.delay and second.delay) or (first.clocks and second.clocks):
        return True
    return bool(first.part and second.part and first.part is not second.part)


def _joined(first: _T | None, second: _T | None, join: Callable[[_T, _T], _T | None]) -> _T | None:
    return join(first, second) if first and second else first or second


def _merge_days(first: Day, second: Day) -> Day | None:
    for a, b in ((first, second), (second, first)):
        if a.weekday is not None and b.weekday is None:
            if b.weeks is not None:
                return replace(a, weeks=b.weeks, after_today=False)
            return b  # "Friday, 4 December": the date is the firmer word
        if a.months is not None and a.day is None and b.day is not None and b.month is None:
            return replace(a, day=b.day)
        if a.offset is not None and b.day is not None:
            return b
    return None


def _merge_every(first: Every, second: Every) -> Every | None:
    for a, b in ((first, second), (second, first)):
        if a.unit in (Unit.DAY, Unit.WEEK) and a.n == 1 and b.weekdays:
            return b
        if a.unit is Unit.MONTH and a.n == 1 and b.days:
            return b
    return None


def _every_on(every: Every, day: Day) -> Every | None:
    """Return "every week" + "on Monday" as one; None when the pair has no schedule."""
    plain = not every.weekdays and not every.days and every.n == 1
    if plain and every.unit is Unit.WEEK and day.weekday is not None and not day.weeks:
        return Every(weekdays=(day.weekday,))
    if plain and every.unit is Unit.MONTH and day.day is not None and day.month is None:
        return Every(days=(day.day,))
    if plain and every.unit is Unit.YEAR and day.month is not None and day.day is not None and not day.year:
        return Every(days=(day.day,), month=day.month)
    if day == Day(offset=0) or (every.weekdays and day == Day(weekday=every.weekdays[0])):
        return every
    return None


def every_delay(delay: Delay) -> Every | None:
    """Return "every SPAN"; whole days, weeks and months keep their calendar meaning."""
    if delay.months:
        if delay.seconds or delay.days:
            return None
        years, rest = divmod(delay.months, MONTHS)
        return Every(unit=Unit.MONTH, n=delay.months) if rest else Every(unit=Unit.YEAR, n=years)
    if delay.seconds:
        return Every(seconds=delay.seconds + delay.days * DAY_S)
    weeks, rest = divmod(delay.days, 7)
    return Every(unit=Unit.WEEK, n=weeks) if weeks and not rest else Every(unit=Unit.DAY, n=delay.days)


def delayed(delay: Delay | None) -> When | None:
    """Return "in SPAN"."""
    return When(delay=delay) if delay else None


def repeated(delay: Delay | None) -> When | None:
    """Return "every SPAN"."""
    every = delay and every_delay(delay)
    return When(every=every) if every else None


def weekday_run(first: int, last: int) -> When:
    """Return "every FIRST to LAST", over the weekend when the last comes before the first."""
    length = (last - first) % WEEKDAYS + 1
    return When(every=Every(weekdays=tuple((first + i) % WEEKDAYS for i in range(length))))


def month_days(days: Iterable[str]) -> When:
    """Return "on these days of every month"."""
    return When(every=Every(days=tuple(int(day) for day in days)))
