"""The schedule that follows from what was said about time.

Local times are naive; what happens to them at a clock change is the scheduler's.

Readings that a person could dispute, decided here once:
- A day without a time is 09:00; parts of a day have the hour in `_PART_HOURS`. When that hour has passed but
  the part still goes on, the next full hour at least half an hour ahead is taken ("tonight" said at 22:14 is
  23:00).
- A *loose* hour (1 to 11 without am, pm or a 24-hour form) without a day is the next time that a 12-hour
  clock shows it, the small hours of another day left out: being early is a smaller harm than being late.
  With a day or a repetition, 1 to 5 is the afternoon and the rest is as written; "today at 8" said at nine in
  the morning is therefore past, and refused.
- A weekday or date without a year is the next one that is still ahead.
- "Every week" is Monday, "every month" the 1st, unless the sentence names the day.
- Days and longer steps keep the time on the clock, so they are `at`; hours and shorter are `in_seconds`.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, time, timedelta
from typing import Any

from bot.providers.phrases_intents import RefuseReason
from bot.providers.phrases_when import (
    DAWN,
    DAY_S,
    MIDNIGHT,
    WEEKDAYS,
    Clock,
    Day,
    Delay,
    Every,
    Part,
    Unit,
    When,
    hour_in_part,
)

_DEFAULT_HOUR = 9
_LONGEST_MONTH = 31
_SHORTEST_RUN = 3  # weekdays written as 1-5 rather than 1,2
_SHORTEST_EVERY_S = 60
_FARTHEST_S = 100 * 366 * DAY_S  # beyond a century a number is a slip of the finger
_DAY_ENDS = 22  # "today" without a time is not later than this


_PART_HOURS = {Part.MORNING: 9, Part.NOON: 12, Part.AFTERNOON: 15, Part.EVENING: 18, Part.NIGHT: 20}
_PART_LAST_HOURS = {Part.MORNING: 11, Part.NOON: 13, Part.AFTERNOON: 17, Part.EVENING: 23, Part.NIGHT: 23}


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


def _clocked(day: date, when: When) -> datetime:
    """Return the moment on `day` that clock, part or default give."""
    if not when.clocks:
        return datetime.combine(day, time(_PART_HOURS[when.part] if when.part else _DEFAULT_HOUR))
    clock = when.clocks[0]
    hours = timedelta(hours=hour_in_part(clock, when.part), minutes=clock.minute)
    return datetime.combine(day, time()) + hours


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
    hours = hour_in_part(clock, when.part, dated=False)
    moment = datetime.combine(today, time()) + timedelta(hours=hours, minutes=clock.minute)
    if when.part is Part.NIGHT and moment - timedelta(days=1) > now:
        return moment - timedelta(days=1)  # "at 2 at night", said at one
    loose = clock.loose and not when.part
    while moment <= now or (loose and moment.hour < DAWN and moment.date() > today):
        moment += timedelta(hours=12 if loose else 24)
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
        if every.unit not in spans or when.clocks or when.part or every.n > _FARTHEST_S // DAY_S:
            return RefuseReason.UNSUPPORTED  # crontab cannot count days across the end of a month
        return {"every_seconds": every.n * spans[every.unit]} if every.n else RefuseReason.UNCLEAR
    if every.unit is Unit.YEAR:
        return RefuseReason.NO_TIME  # "every year", and no date
    clocks = when.clocks or (Clock(hour=_PART_HOURS[when.part] if when.part else _DEFAULT_HOUR),)
    hours = sorted({hour_in_part(clock, when.part) % MIDNIGHT for clock in clocks})
    minutes = {clock.minute for clock in clocks}
    if len(minutes) > 1:
        return RefuseReason.UNSUPPORTED  # 9:00 and 17:30 are two crontab lines
    if not all(1 <= day <= _LONGEST_MONTH for day in every.days):
        return RefuseReason.UNCLEAR
    if every.month is not None:
        date(2028, every.month, every.days[0])  # raises for 31 February; 2028 has a 29th
    day, month, weekday = _cron_days(every)
    return {"cron_expr": f"{minutes.pop()} {','.join(map(str, hours))} {day} {month} {weekday}"}


def _cron_days(every: Every) -> tuple[str, str, str]:
    """Return day of month, month and weekday as crontab writes them (0 = Sunday)."""
    if every.weekdays:
        numbers = sorted({(d + 1) % WEEKDAYS for d in every.weekdays})
        if len(numbers) == WEEKDAYS:
            return "*", "*", "*"
        run = len(numbers) >= _SHORTEST_RUN and numbers[-1] - numbers[0] == len(numbers) - 1
        return "*", "*", f"{numbers[0]}-{numbers[-1]}" if run else ",".join(map(str, numbers))
    if every.days:
        days = ",".join(str(d) for d in sorted(set(every.days)))
        return days, str(every.month) if every.month else "*", "*"
    if every.unit is Unit.WEEK:
        return "*", "*", "1"
    return ("1" if every.unit is Unit.MONTH else "*"), "*", "*"
