"""How a repetition reads to a person, in short phrases of each language."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from bot.crontab import Crontab

_MOST_NAMED = 4  # a longer list of times or days is no easier to read than the expression
_MINUTES_AN_HOUR = 60
_HOURS_A_DAY = 24
_DAYS_A_WEEK = 7
_DAYS_A_MONTH = 31
_MONTHS_A_YEAR = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """One language's words and the sentences they go into."""

    days: tuple[str, ...]  # Sunday first, as crontab counts
    months: tuple[str, ...]
    comma: str
    last_comma: str
    day_number: str
    day_space: str  # between day numbers and a month, in their order
    every_day: str
    every_workday: str
    on_weekdays: str
    in_months: str
    on_month_days: str
    on_year_days: str
    at_times: str
    with_days: str  # an hourly rhythm on some days only
    units: tuple[tuple[str, str], ...]  # hour, minute, second: one and many
    every_one: tuple[str, str, str]
    every_many: str
    count: str
    between: str
    from_minute: str
    at_minute: str

    def join(self, words: list[str]) -> str:
        """Return "a", "a and b" or "a, b and c"."""
        return words[0] if len(words) == 1 else f"{self.comma.join(words[:-1])}{self.last_comma}{words[-1]}"


_ENGLISH = _Words(
    days=("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    months=(
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    ),
    comma=", ",
    last_comma=" and ",
    day_number="{}",
    day_space="{days} {month}",
    every_day="every day",
    every_workday="every weekday",
    on_weekdays="every {}",
    in_months="every day in {}",
    on_month_days="every month on day {}",
    on_year_days="every year on {}",
    at_times="{days} at {times}",
    with_days="{often}, {days}",
    units=(("hour", "hours"), ("minute", "minutes"), ("second", "seconds")),
    every_one=("every hour", "every minute", "every second"),
    every_many="every {}",
    count="{count} {unit}",
    between=" ",
    from_minute=" from minute {}",
    at_minute=" at minute {}",
)  # fmt: skip

_GERMAN = _Words(
    days=("Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"),
    months=(
        "Januar", "Februar", "März", "April", "Mai", "Juni",
        "Juli", "August", "September", "Oktober", "November", "Dezember",
    ),
    comma=", ",
    last_comma=" und ",
    day_number="{}.",
    day_space="{days} {month}",
    every_day="täglich",
    every_workday="jeden Werktag",
    on_weekdays="jeden {}",
    in_months="täglich im {}",
    on_month_days="jeden Monat am {}",
    on_year_days="jedes Jahr am {}",
    at_times="{days} um {times}",
    with_days="{often}, {days}",
    units=(("Stunde", "Stunden"), ("Minute", "Minuten"), ("Sekunde", "Sekunden")),
    every_one=("jede Stunde", "jede Minute", "jede Sekunde"),
    every_many="alle {}",
    count="{count} {unit}",
    between=" ",
    from_minute=" ab Minute {}",
    at_minute=" zur Minute {}",
)  # fmt: skip

_CHINESE = _Words(
    days=("周日", "周一", "周二", "周三", "周四", "周五", "周六"),
    months=tuple(f"{number}月" for number in range(1, 13)),
    comma="、",
    last_comma="、",
    day_number="{}日",
    day_space="{month}{days}",
    every_day="每天",
    every_workday="每个工作日",
    on_weekdays="每{}",
    in_months="{}的每天",
    on_month_days="每月{}",
    on_year_days="每年{}",
    at_times="{days} {times}",
    with_days="{days}{often}",
    units=(("小时", "小时"), ("分钟", "分钟"), ("秒", "秒")),
    every_one=("每小时", "每分钟", "每秒"),
    every_many="每{}",
    count="{count}{unit}",
    between="",
    from_minute="(从第{}分钟起)",
    at_minute="的第{}分钟",
)

_WORDS = {"en": _ENGLISH, "de": _GERMAN, "zh": _CHINESE}


def crontab_phrase(crontab: Crontab, language: str = "en") -> str | None:
    """Return a short phrase for a common form ("every weekday at 09:00"), None for the others."""
    words = _WORDS.get(language, _ENGLISH)
    days = _days_phrase(crontab, words)
    if days is None:
        return None
    times = crontab.times()
    if len(times) <= _MOST_NAMED:
        clocks = words.join([f"{time // 60:02}:{time % 60:02}" for time in times])
        return words.at_times.format(days=days, times=clocks)
    if len(crontab.hours) != _HOURS_A_DAY:
        return None
    first = min(crontab.minutes)
    steps = {b - a for a, b in itertools.pairwise([*sorted(crontab.minutes), first + _MINUTES_AN_HOUR])}
    if len(steps) != 1:
        return None
    step = steps.pop()
    often = interval_phrase(step * 60, language)
    if first:
        often += (words.from_minute if step < _MINUTES_AN_HOUR else words.at_minute).format(first)
    return often if days == words.every_day else words.with_days.format(often=often, days=days)


def _days_phrase(crontab: Crontab, words: _Words) -> str | None:
    all_months, all_days = len(crontab.months) == _MONTHS_A_YEAR, len(crontab.days) == _DAYS_A_MONTH
    all_weekdays = len(crontab.weekdays) == _DAYS_A_WEEK
    if crontab.either_day:
        return words.every_day if all_months and (all_days or all_weekdays) else None
    if not all_weekdays:
        return _weekdays_phrase(crontab.weekdays, words) if all_months and all_days else None
    months = [words.months[month - 1] for month in sorted(crontab.months)]
    if all_days:
        if all_months:
            return words.every_day
        return words.in_months.format(words.join(months)) if len(months) <= _MOST_NAMED else None
    if len(crontab.days) > _MOST_NAMED:
        return None
    days = words.join([words.day_number.format(day) for day in sorted(crontab.days)])
    if all_months:
        return words.on_month_days.format(days)
    if len(months) != 1:
        return None
    return words.on_year_days.format(words.day_space.format(days=days, month=months[0]))


def _weekdays_phrase(weekdays: frozenset[int], words: _Words) -> str:
    if weekdays == {1, 2, 3, 4, 5}:
        return words.every_workday
    monday_first = sorted(weekdays, key=lambda day: (day - 1) % 7)
    return words.on_weekdays.format(words.join([words.days[day] for day in monday_first]))


def interval_phrase(every_s: int, language: str = "en") -> str:
    """Return "every 30 minutes", "every hour", "every 1 hour 30 minutes" for an interval in seconds."""
    words = _WORDS.get(language, _ENGLISH)
    parts = []
    for place, size in enumerate((3600, 60, 1)):
        count, every_s = divmod(every_s, size)
        if count:
            parts.append((count, place))
    if len(parts) == 1 and parts[0][0] == 1:
        return words.every_one[parts[0][1]]
    spans = [words.count.format(count=count, unit=words.units[place][count > 1]) for count, place in parts]
    return words.every_many.format(words.between.join(spans))
