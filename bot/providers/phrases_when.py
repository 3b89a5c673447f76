"""What was said about time, as values, and the schedule that follows from it.

Language-free: the scanners of `phrases_en.py`, `phrases_de.py` and `phrases_zh.py` build a `When` from each
expression, `merge` joins expressions that belong together ("tomorrow" + "at 9"), `schedule` turns the whole
into one argument of the cron tool. Local times are naive; what happens to them at a clock change is the
scheduler's.

Readings that a person could dispute, decided here once:
- A day without a time is 09:00; parts of a day have the hour in `_PART_HOURS`. When that hour has passed but the
  part still goes on, the next full hour at least half an hour ahead is taken ("tonight" said at 22:14 is 23:00).
- A *loose* hour (1 to 11 without am, pm or a 24-hour form) without a day is the next time a 12-hour clock shows
  it: being early is a smaller harm than being late. With a day or a repetition, 1 to 5 is the afternoon and the
  rest is as written. "Today at 8" said at nine in the morning is therefore past, and refused.
- A weekday or date without a year is the next one that is still ahead.
- "Every week" is Monday, "every month" the 1st, unless the sentence names the day.
- Days and longer steps keep the time on the clock, so they become `at`; hours and shorter become `in_seconds`.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Any

from bot.providers.phrases_intents import RefuseReason

DAY_S = 86_400
_DEFAULT_HOUR = 9
_SHORTEST_EVERY_S = 60
_FARTHEST_S = 100 * 366 * DAY_S  # beyond a century a number is a slip of the finger
_DAY_ENDS = 22  # "today" without a time is not later than this


class Part(StrEnum):
    """A part of the day."""

    MORNING = "morning"
    NOON = "noon"
    AFTERNOON = "afternoon"
    EVENING = "evening"
    NIGHT = "night"  # "tonight": late evening, and the small hours when an hour says so


_PART_HOURS = {Part.MORNING: 9, Part.NOON: 12, Part.AFTERNOON: 15, Part.EVENING: 18, Part.NIGHT: 20}
_PART_LAST_HOURS = {Part.MORNING: 11, Part.NOON: 13, Part.AFTERNOON: 17, Part.EVENING: 23, Part.NIGHT: 23}


class Unit(StrEnum):
    """A step of the calendar."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day. Hour 24 is the midnight that ends the day; `loose` as in the module's rules."""

    hour: int
    minute: int = 0
    loose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day: an offset from today, a weekday (0 = Monday) or a date; `weeks`, `months` count from this one."""

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
    """A repetition: every `seconds`, or every `n` units, or on `weekdays` (0 = Monday), or on `days` of the month."""

    seconds: int | None = None
    n: int = 1
    unit: Unit | None = None
    weekdays: tuple[int, ...] = ()
    days: tuple[int, ...] = ()
    month: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Everything one expression says about time; `reason` set means it says something no schedule can hold."""

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


def merge(first: When, second: When) -> When | None:
    """Return both as one, or None when they say different things about the same aspect."""
    if first.reason or second.reason:
        if first.reason is RefuseReason.PAST or second.reason is RefuseReason.PAST:
            return None
        return When(reason=first.reason or second.reason)
    if first.delay and second.delay:
        return None
    if first.clocks and second.clocks:
        return None
    if first.part and second.part and first.part is not second.part:
        return None
    delay = first.delay or second.delay
    if delay and (delay.seconds or first.day or second.day or first.every or second.every):
        return None
    day = first.day or second.day
    if first.day and second.day:
        day = _merge_days(first.day, second.day)
        if day is None:
            return None
    every = first.every or second.every
    if first.every and second.every:
        every = _merge_every(first.every, second.every)
        if every is None:
            return None
    if every and day:
        every = _every_on(every, day)
        if every is None:
            return When(reason=RefuseReason.UNSUPPORTED)
        day = None
    if every and every.seconds and (first.part or second.part):
        return None
    return When(
        delay=delay,
        day=day,
        clocks=first.clocks or second.clocks,
        part=first.part or second.part,
        every=every,
    )


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
        years, rest = divmod(delay.months, 12)
        return Every(unit=Unit.MONTH, n=delay.months) if rest else Every(unit=Unit.YEAR, n=years)
    if delay.seconds:
        return Every(seconds=delay.seconds + delay.days * DAY_S)
    weeks, rest = divmod(delay.days, 7)
    return Every(unit=Unit.WEEK, n=weeks) if weeks and not rest else Every(unit=Unit.DAY, n=delay.days)


def schedule(when: When, now: datetime) -> dict[str, Any] | RefuseReason:
    """Return the one schedule argument of the cron tool: `at`, `in_seconds`, `every_seconds` or `cron_expr`.

    `now` is aware and in the person's zone; `at` is local and naive in ISO form.
    """
    if when.reason:
        return when.reason
    try:
        if when.every:
            return _repeating(when.every, when)
        if len(when.clocks) > 1:
            return RefuseReason.UNSUPPORTED
        if when.delay:
            return _delayed(when.delay, when, now)
        return _once(when, now.replace(tzinfo=None))
    except (ValueError, OverflowError):
        return RefuseReason.UNCLEAR  # 31 February, the year 0, a million years


def _at(moment: datetime) -> dict[str, Any]:
    return {"at": moment.isoformat(timespec="seconds" if moment.second else "minutes")}


def _delayed(delay: Delay, when: When, now: datetime) -> dict[str, Any] | RefuseReason:
    if delay.seconds + delay.days * DAY_S + delay.months * 31 * DAY_S > _FARTHEST_S:
        return RefuseReason.UNCLEAR
    if not (delay.days or delay.months):
        return {"in_seconds": delay.seconds} if delay.seconds > 0 else RefuseReason.UNCLEAR
    local = now.replace(tzinfo=None, microsecond=0)
    day = _add_months(local.date(), delay.months) + timedelta(days=delay.days)
    if when.clocks or when.part:
        return _at(_clocked(day, when))
    return _at(datetime.combine(day, local.time()) + timedelta(seconds=delay.seconds))


def _add_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _hour(clock: Clock, part: Part | None, *, dated: bool) -> int:
    """Return the hour in 0 to 24+ after the part of the day, or the looseness of the word, had its say."""
    hour = clock.hour
    if part is Part.NIGHT:
        if hour == 12:
            return 24
        if 6 <= hour < 12:
            return hour + 12
        return hour + 24 if hour < 6 else hour  # "tonight at 2" belongs to the night that begins today
    if part is Part.MORNING:
        return 0 if hour == 12 else hour
    if part is Part.EVENING and hour == 12:
        return 24
    if part in (Part.AFTERNOON, Part.EVENING) and hour < 12:
        return hour + 12
    if part is Part.NOON and hour < 6:
        return hour + 12
    if part is None and clock.loose and dated and 1 <= hour <= 5:
        return hour + 12
    return hour


def _clocked(day: date, when: When) -> datetime:
    """Return the moment on `day` that clock, part or default give."""
    if not when.clocks:
        return datetime.combine(day, time(_PART_HOURS[when.part] if when.part else _DEFAULT_HOUR))
    clock = when.clocks[0]
    hour = _hour(clock, when.part, dated=True)
    if clock.minute > 59 or hour > 30:
        raise ValueError("not a time of day")
    return datetime.combine(day, time()) + timedelta(hours=hour, minutes=clock.minute)


def _once(when: When, now: datetime) -> dict[str, Any] | RefuseReason:
    today = now.date()
    if when.day is None:
        moment = _next_loose(when, now)
        return _at(moment)
    day = when.day
    if day.offset == 0:
        moment = _clocked(today, when)
        if moment <= now and not when.clocks:
            later = _still_going(when.part, now)
            if later is None:
                return RefuseReason.PAST
            moment = later
    else:
        moment = _clocked(_resolve_day(day, when, now), when)
    return _at(moment) if moment > now else RefuseReason.PAST


def _still_going(part: Part | None, now: datetime) -> datetime | None:
    last = _PART_LAST_HOURS[part] if part else _DAY_ENDS
    later = (now + timedelta(minutes=89)).replace(minute=0, second=0, microsecond=0)
    return later if later.date() == now.date() and later.hour <= last else None


def _next_loose(when: When, now: datetime) -> datetime:
    """Return the next moment of a time without a day."""
    today = now.date()
    if not when.clocks:
        moment = _clocked(today, when)
        return moment if moment > now else moment + timedelta(days=1)
    clock = when.clocks[0]
    if clock.minute > 59 or clock.hour > 24:
        raise ValueError("not a time of day")
    start = datetime.combine(today, time()) + timedelta(minutes=clock.minute)
    moment = start + timedelta(hours=_hour(clock, when.part, dated=False))
    if when.part is Part.NIGHT and moment - timedelta(days=1) > now:
        return moment - timedelta(days=1)  # "at 2 at night", said at one
    step = timedelta(hours=12 if clock.loose and not when.part and 1 <= clock.hour <= 11 else 24)
    while moment <= now:
        moment += step
    return moment


def _resolve_day(day: Day, when: When, now: datetime) -> date:
    today = now.date()
    if day.offset is not None:
        return today + timedelta(days=day.offset)
    if day.weekday is not None:
        if day.weeks is not None:
            monday = today - timedelta(days=today.weekday())
            return monday + timedelta(days=7 * day.weeks + day.weekday)
        found = today + timedelta(days=(day.weekday - today.weekday()) % 7)
        passed = found == today and (day.after_today or _clocked(found, when) <= now)
        return found + timedelta(days=7) if passed else found
    if day.weeks is not None:
        return today - timedelta(days=today.weekday()) + timedelta(days=7 * day.weeks)
    if day.months is not None:
        return _add_months(today.replace(day=1), day.months).replace(day=day.day or 1)
    if day.month is None:
        return _next_day_of_month(day.day or 1, when, now)
    if day.years is not None:
        return date(today.year + day.years, day.month, day.day or 1)
    if day.year is not None:
        return date(day.year, day.month, day.day or 1)
    for year in range(today.year, today.year + 9):  # nine years always hold a 29 February
        if (day.day or 1) <= monthrange(year, day.month)[1]:
            found = date(year, day.month, day.day or 1)
            if found >= today:
                return found
    raise ValueError("no such date")


def _next_day_of_month(number: int, when: When, now: datetime) -> date:
    first = now.date().replace(day=1)
    for ahead in range(13):
        month = _add_months(first, ahead)
        if number <= monthrange(month.year, month.month)[1]:
            found = month.replace(day=number)
            if found >= now.date() and _clocked(found, when) > now:
                return found
    raise ValueError("no such day")


def _repeating(every: Every, when: When) -> dict[str, Any] | RefuseReason:
    if every.seconds is not None:
        if when.clocks:
            return RefuseReason.UNSUPPORTED
        if every.seconds < _SHORTEST_EVERY_S:
            return RefuseReason.TOO_OFTEN
        return {"every_seconds": every.seconds} if every.seconds <= _FARTHEST_S else RefuseReason.UNCLEAR
    if every.n != 1:
        spans = {Unit.DAY: DAY_S, Unit.WEEK: 7 * DAY_S}
        if every.unit not in spans or when.clocks or when.part or every.n > 5000:
            return RefuseReason.UNSUPPORTED  # crontab cannot count days across the end of a month
        return {"every_seconds": every.n * spans[every.unit]} if every.n else RefuseReason.UNCLEAR
    if every.unit is Unit.YEAR:
        return RefuseReason.NO_TIME  # "every year", and no date
    clocks = when.clocks or (Clock(hour=_PART_HOURS[when.part] if when.part else _DEFAULT_HOUR),)
    times = sorted((_hour(c, when.part, dated=True) % 24, c.minute) for c in clocks)
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        return RefuseReason.UNSUPPORTED  # 9:00 and 17:30 are two crontab lines
    if any(c.hour > 24 or c.minute > 59 for c in clocks):
        return RefuseReason.UNCLEAR
    fields = [str(minutes.pop()), ",".join(str(h) for h in sorted({h for h, _ in times})), *_cron_days(every)]
    if every.days and not all(1 <= d <= 31 for d in every.days):
        return RefuseReason.UNCLEAR
    if every.month is not None:
        date(2028, every.month, every.days[0])  # raises for 31 February; 2028 has a 29th
    return {"cron_expr": " ".join(fields)}


def _cron_days(every: Every) -> tuple[str, str, str]:
    """Return day of month, month and weekday as crontab writes them (0 = Sunday)."""
    if every.weekdays:
        numbers = sorted({(d + 1) % 7 for d in every.weekdays})
        if len(numbers) == 7:
            return "*", "*", "*"
        run = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        return "*", "*", f"{numbers[0]}-{numbers[-1]}" if run else ",".join(map(str, numbers))
    if every.days:
        days = ",".join(str(d) for d in sorted(set(every.days)))
        return days, str(every.month) if every.month else "*", "*"
    if every.unit is Unit.WEEK:
        return "*", "*", "1"
    return ("1" if every.unit is Unit.MONTH else "*"), "*", "*"
