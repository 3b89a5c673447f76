"""Time zones by IANA name, and the way between a zone's wall clock and instants.

Owns which names are zones, how an instant reads on a person's clock, and which instant a wall-clock reading
means when clocks change. What is due when belongs to `bot.schedule`.

The rule for clock changes, used everywhere: a reading that does not exist means the first instant after the
gap, a reading that exists twice means the first of the two.
"""

from __future__ import annotations

import importlib.util
import re
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.clock import US_PER_S, from_us, to_us
from bot.errors import ScheduleError

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS_DE = ("Mo", "Di", "Mi", "Do", "Fr", "Sa", "So")
_MONTHS_DE = ("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez.")
_WEEKDAYS_ZH = "一二三四五六日"
_ABBREVIATION_CHARS = 5
_LONGEST_SHOWN_CHARS = 60
_OFFSET = re.compile(r"\s*(Z|UTC|(?<=[\s\d])[+-][0-9]{2}:?[0-9]{2})$")
_DATE_ONLY = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}|[0-9]{4}-?W[0-9]{2}(-?[0-9])?")


def shown(value: object) -> str:
    """Return a person's input for an error text: quoted, one line, escaped, at most 60 characters of it."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN_CHARS else text[:_LONGEST_SHOWN_CHARS] + "…"


def load_zone(name: str, *, field: str = "tz") -> ZoneInfo:
    """Return the zone with this IANA name, upper and lower case alike; its `key` is the canonical spelling.

    Only names listed by the tzdata package are looked up, so no name can reach another file.

    Args:
        name: such as "Europe/Berlin" or "UTC".
        field: what the error text calls the place the name came from.

    Raises:
        ScheduleError: no such zone; the text names `field`, the value and close names.
    """
    if isinstance(name, str):
        zone = _known_zone(name)
        if zone is not None:
            return zone
    raise ScheduleError(f"{field}: {shown(name)} is not a time zone. {_hint(name)}")


@lru_cache(maxsize=1024)
def _known_zone(name: str) -> ZoneInfo | None:
    key = _names_by_folded().get(name.strip().lower())
    if key is None:
        return None
    try:
        return ZoneInfo(key)
    except (ZoneInfoNotFoundError, OSError, ValueError):  # a damaged zone file on this machine
        return None


@lru_cache(maxsize=1)
def _names_by_folded() -> dict[str, str]:
    spec = importlib.util.find_spec("tzdata")  # importlib.resources would cost 60 ms at every start
    if spec is None or not spec.submodule_search_locations:
        raise ScheduleError("The tzdata package is not installed, so no time zone can be used.")
    listing = Path(spec.submodule_search_locations[0]) / "zones"
    names = listing.read_text(encoding="utf-8").split()
    return {name.lower(): name for name in names if name != "Factory"}  # "Factory" means: not set up


def _hint(name: object) -> str:
    close = similar_zones(name) if isinstance(name, str) else []
    if close:
        return f"Did you mean {', '.join(close)}?"
    return "Give an IANA name such as Europe/Berlin, Asia/Shanghai or UTC, not an offset or an abbreviation."


def similar_zones(name: str) -> list[str]:
    """Return names of zones that somebody could have meant, best first; none for most mistakes."""
    import difflib  # late: 11 ms that only a wrong name needs to pay

    wanted = name.strip().lower().replace(" ", "_")[:100]
    if not wanted or (name.strip().isupper() and len(wanted) <= _ABBREVIATION_CHARS):
        return []  # "CEST" looks like the name of many a place, and means none of them
    places = {key: value for key, value in _names_by_folded().items() if "/" in key and not key.startswith("etc/")}
    by_city = {key.rpartition("/")[2]: value for key, value in places.items()}
    close = [places[key] for key in difflib.get_close_matches(wanted, places, n=3, cutoff=0.7)]
    close += [by_city[key] for key in difflib.get_close_matches(wanted, by_city, n=2, cutoff=0.75)]
    return list(dict.fromkeys(close))


def wall_to_us(wall: datetime, zone: ZoneInfo) -> int:
    """Return the instant at which the clocks of `zone` show the naive `wall`, by the rule given above."""
    first = wall.replace(tzinfo=zone, fold=0)
    before, after = first.utcoffset(), first.replace(fold=1).utcoffset()
    instant_us = to_us(first)
    if before is None or after is None or after <= before:
        return instant_us
    # In a gap, fold=0 reckons with the offset from before it and so lands behind the change, at most a gap's
    # length behind it: halve the distance down to the second of the change itself.
    low_s, high_s = instant_us // US_PER_S - (after - before) // timedelta(seconds=1), instant_us // US_PER_S
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        if from_us(middle_s * US_PER_S, zone).utcoffset() == before:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s * US_PER_S


def parse_moment(text: str, zone: ZoneInfo, *, field: str) -> int:
    """Return the instant meant by an ISO 8601 date and time; without an offset it is local time in `zone`.

    A blank instead of the T and before the offset is accepted, as are Z and UTC for the offset.

    Raises:
        ScheduleError: not of that form or without a time of day; the text names `field` and the value.
    """
    if not isinstance(text, str):
        raise ScheduleError(f"{field}: {shown(text)} is not text.")
    iso = _OFFSET.sub(lambda match: "Z" if match[1] in ("Z", "UTC") else match[1], text.strip().upper())
    if _DATE_ONLY.fullmatch(iso):
        raise ScheduleError(f"{field}: {shown(text)} has no time of day; write it like 2026-07-29T15:45.")
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError as exc:
        raise ScheduleError(f"{field}: {shown(text)} is not a date and time like 2026-07-29T15:45.") from exc
    return wall_to_us(moment, zone) if moment.tzinfo is None else to_us(moment)


def us_to_wall(instant_us: int, zone: ZoneInfo) -> datetime:
    """Return what the clocks of `zone` show at the instant, as a naive datetime."""
    return from_us(instant_us, zone).replace(tzinfo=None, fold=0)


def local_text(instant_us: int, zone: ZoneInfo, language: str = "en") -> str:
    """Return the instant for a person: "Tue 10 Feb 2026 08:00 (+07, Asia/Ho_Chi_Minh)".

    Seconds are shown only when there are any; the process's locale plays no part.
    """
    local = from_us(instant_us, zone)
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    abbreviation = local.tzname() or ""
    if abbreviation == zone.key.rpartition("/")[2]:
        where = abbreviation  # "UTC" says as much as "UTC, Etc/UTC"
    else:
        where = f"{abbreviation}, {zone.key}" if abbreviation else zone.key
    return f"{_day_text(local, language)} {clock} ({where})"


def _day_text(local: datetime, language: str) -> str:
    if language == "zh":
        return f"{local.year}年{local.month}月{local.day}日 周{_WEEKDAYS_ZH[local.weekday()]}"
    if language == "de":
        return f"{_WEEKDAYS_DE[local.weekday()]} {local.day}. {_MONTHS_DE[local.month - 1]} {local.year}"
    return f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} {local.year}"


def start_of_day_us(instant_us: int, zone: ZoneInfo) -> int:
    """Return the instant at which the day of `instant_us` began on a zone's clock."""
    return wall_to_us(us_to_wall(instant_us, zone).replace(hour=0, minute=0, second=0, microsecond=0), zone)
