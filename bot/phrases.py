"""How a repetition reads to a person, in short English phrases."""

from __future__ import annotations

import itertools

from bot.crontab import Crontab

_DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_MOST_NAMED = 4  # a longer list of times or days is no easier to read than the expression
_MINUTES_AN_HOUR = 60
_HOURS_A_DAY = 24
_DAYS_A_MONTH = 31


def crontab_phrase(crontab: Crontab) -> str | None:
    """Return a short English phrase for a common form ("every weekday at 09:00"), None for the others."""
    days = _days_phrase(crontab)
    if days is None:
        return None
    times = crontab.times()
    if len(times) <= _MOST_NAMED:
        return f"{days} at {_and([f'{time // 60:02}:{time % 60:02}' for time in times])}"
    if len(crontab.hours) != _HOURS_A_DAY:
        return None
    first = min(crontab.minutes)
    steps = {b - a for a, b in itertools.pairwise([*sorted(crontab.minutes), first + _MINUTES_AN_HOUR])}
    if len(steps) != 1:
        return None
    step = steps.pop()
    often = {1: "every minute", _MINUTES_AN_HOUR: "every hour"}.get(step, f"every {step} minutes")
    if first:
        often += f" from minute {first}" if step < _MINUTES_AN_HOUR else f" at minute {first}"
    return often if days == "every day" else f"{often}, {days}"


def _days_phrase(crontab: Crontab) -> str | None:
    all_months, all_days = len(crontab.months) == len(_MONTH_NAMES), len(crontab.days) == _DAYS_A_MONTH
    all_weekdays = len(crontab.weekdays) == len(_DAY_NAMES)
    if crontab.either_day:
        return "every day" if all_months and (all_days or all_weekdays) else None
    if not all_weekdays:
        return _weekdays_phrase(crontab.weekdays) if all_months and all_days else None
    if all_days:
        if all_months:
            return "every day"
        months = [_MONTH_NAMES[month - 1] for month in sorted(crontab.months)]
        return f"every day in {_and(months)}" if len(months) <= _MOST_NAMED else None
    if len(crontab.days) > _MOST_NAMED:
        return None
    days = _and([str(day) for day in sorted(crontab.days)])
    if all_months:
        return f"every month on day {days}"
    months = [_MONTH_NAMES[month - 1] for month in sorted(crontab.months)]
    return f"every year on {days} {_and(months)}" if len(months) == 1 else None


def _weekdays_phrase(weekdays: frozenset[int]) -> str:
    if weekdays == {1, 2, 3, 4, 5}:
        return "every weekday"
    monday_first = sorted(weekdays, key=lambda day: (day - 1) % 7)
    return "every " + _and([_DAY_NAMES[day] for day in monday_first])


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def interval_phrase(every_s: int) -> str:
    """Return "every 30 minutes", "every hour", "every 1 hour 30 minutes" for an interval in seconds."""
    parts = []
    for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")):
        count, every_s = divmod(every_s, size)
        if count:
            parts.append((count, unit))
    if len(parts) == 1 and parts[0][0] == 1:
        return f"every {parts[0][1]}"
    return "every " + " ".join(f"{count} {unit}{'s' * (count > 1)}" for count, unit in parts)
