"""How English says when: spans, times of day, days, dates and repetitions."""

from __future__ import annotations

import re

from bot.providers.phrases_en_words import MONTH_NAMES, UNITS, WEEKDAY_NAMES, WORDS, number
from bot.providers.phrases_intents import RefuseReason
from bot.providers.phrases_when import (
    MONTHS,
    NOON,
    Clock,
    Day,
    Delay,
    Every,
    Part,
    Unit,
    When,
    before_hour,
    clock_at,
    clocks_at,
    delayed,
    full_year,
    month_days,
    repeated,
    weekday_run,
)

_rule = WORDS.rule
_SPAN_PART = WORDS.compile(
    r"(?P<odd>HALFSPAN|QUARTERSPAN)|(?P<n>NUM)(?P<more> and a (?:half|quarter))?[\s-]*(?P<u>UNIT)"
)
_UNSUPPORTED = When(reason=RefuseReason.UNSUPPORTED)
_PAST = When(reason=RefuseReason.PAST)
_DAILY = Every(unit=Unit.DAY)


def read_duration(text: str) -> Delay | None:
    """Return the span that `text` (one match of DURATION) stands for, None for a fraction of a month."""
    total = unit = Delay()
    end = 0
    for match in _SPAN_PART.finditer(text):
        end = match.end()
        odd = match["odd"]
        if odd:
            unit = Delay(seconds=3600)
            seconds = 5400 if "and" in odd else 2700 if "three" in odd else 900 if "quarter" in odd else 1800
            total += Delay(seconds=30 if "minute" in odd else 43_200 if "day" in odd else seconds)
            continue
        name = match["u"]
        unit = UNITS["mo" if name.startswith("mo") else name[0]]
        more = {"half": 0.5, "rter": 0.25}.get((match["more"] or "")[-4:], 0.0)
        part = unit.times(number(match["n"]) + more)
        if part is None:
            return None
        total += part
    if text[end:].strip() == "and a half":
        half = unit.times(0.5)
        return None if half is None else total + half
    return total


def _delay(match: re.Match[str]) -> When | None:
    return delayed(read_duration(match["in"]))


def _every_span(match: re.Match[str]) -> When | None:
    return repeated(read_duration(match["in"]))


_CLOCK = re.compile(
    r"(?:(\d{1,2})(?:[:.](\d{2}))?"
    r"|([a-z]+)(?: ([a-z -]+?))?)\s*(?:([ap])\.?\s?m\b\.?)?(?:\s*o'?\s?clock)?(?: \w+)?$"
)


def _clock(text: str) -> Clock | None:
    """Return "9", "9:30 pm", "eight thirty" as a time of day."""
    match = _CLOCK.match(text.strip())
    if match is None:
        return None
    digits, minutes, word, minute_word, meridiem = match.groups()
    hour = int(digits) if digits else int(number(word))
    minute = int(minutes or 0)
    if minute_word:
        minute = 5 if minute_word.startswith("oh") else int(number(minute_word))
    return _with_meridiem(hour, minute, meridiem, padded=bool(digits) and digits.startswith("0"))


def _with_meridiem(hour: int, minute: int, meridiem: str | None, *, padded: bool = False) -> Clock | None:
    if not meridiem:
        return clock_at(hour, minute, loose=not padded)
    return clock_at(hour % NOON + (NOON if meridiem == "p" else 0), minute) if 1 <= hour <= NOON else None


_BETWEEN_CLOCKS = re.compile(r"\s*(?:,|&|\band\b)\s*(?:and\s+)?(?:at\s+)?")


def _clocks(match: re.Match[str]) -> When:
    """Return one time of day or a list of them."""
    return clocks_at(_clock(text) for text in _BETWEEN_CLOCKS.split(match["at"]) if text)


def _past_hour(match: re.Match[str]) -> When:
    """Return "half past eight", "quarter to eight", "ten past nine"."""
    spoken = match["q"].removesuffix(" minutes").removeprefix("a ")
    minute = {"half": 30, "quarter": 15}.get(spoken) or int(number(spoken))
    hour = int(number(match["h"]))
    if match["side"] in ("to", "before", "till"):
        hour, minute = before_hour(hour, minute)
    return clocks_at([_with_meridiem(hour, minute, match["m"])])


def _part(match: re.Match[str]) -> Part | None:
    said = match.groupdict().get("part")
    return Part(said) if said else None


def _wd(text: str) -> int:
    return WEEKDAY_NAMES.index(text[:3])


def _weekday(match: re.Match[str]) -> When:
    is_next = match["p"] is not None and match["p"].startswith("next")
    return When(day=Day(weekday=_wd(match["wd"]), weeks=1 if is_next else None), part=_part(match))


_ANY_WD = WORDS.compile("WD")


def _weekdays(match: re.Match[str]) -> When:
    return When(every=Every(weekdays=tuple(_wd(d) for d in _ANY_WD.findall(match["l"]))), part=_part(match))


def _weekday_range(match: re.Match[str]) -> When:
    return weekday_run(_wd(match["a"]), _wd(match["b"]))


def _month(match: re.Match[str]) -> int:
    return MONTH_NAMES.index(match["mon"][:3]) + 1


def _date(match: re.Match[str]) -> When:
    year = int(match["y"]) if match["y"] else None
    return When(day=Day(month=_month(match), day=int(match["d"]), year=year))


def _every_date(match: re.Match[str]) -> When:
    return When(every=Every(days=(int(match["d"]),), month=_month(match)))


def _month_days(match: re.Match[str]) -> When:
    return month_days(re.findall(r"\d+", match["l"]))


def _slashes(match: re.Match[str]) -> When | None:
    """Return 12/24: month first, unless only the other order is a date; 1/2 alone is a half."""
    a, b, year = int(match["a"]), int(match["b"]), int(match["y"]) if match["y"] else None
    if not (match["on"] or match["y"] or max(a, b) > MONTHS or "0" in match["a"][0] + match["b"][0]):
        return None
    month, day = (b, a) if a > MONTHS >= b else (a, b)
    return When(day=Day(month=month, day=day, year=full_year(year)))


_OTHER = {"other": 2, "second": 2, "third": 3, "fourth": 4, "2nd": 2, "3rd": 3, "4th": 4}
_ADVERBS = {
    "hourly": Every(seconds=3600),
    "weekly": Every(unit=Unit.WEEK),
    "monthly": Every(unit=Unit.MONTH),
    "yearly": Every(unit=Unit.YEAR),
    "annually": Every(unit=Unit.YEAR),
}
_ADVERBS |= dict.fromkeys(("daily", "everyday", "nightly"), _DAILY)
_OFTEN = {"once": (9,), "one time": (9,), "twice": (9, 18), "two times": (9, 18), "2 times": (9, 18)}
_OFTEN |= dict.fromkeys(("three times", "3 times", "thrice"), (9, 14, 19))
_HOLIDAYS = {
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "new year's eve": (12, 31),
    "new year's day": (1, 1),
}


def _each_other(match: re.Match[str]) -> When:
    n, unit = _OTHER[match["o"]], match["u"]
    if unit in ("hour", "minute"):
        return When(every=Every(seconds=n * (3600 if unit == "hour" else 60)))
    return When(every=Every(unit=Unit(unit), n=n))


def _each_one(match: re.Match[str]) -> When:
    unit = match["u"]
    if unit in ("hour", "minute", "second"):
        return When(every=Every(seconds={"hour": 3600, "minute": 60, "second": 1}[unit]))
    return When(every=Every(unit=Unit(unit)))


def _often(match: re.Match[str]) -> When:
    return When(every=_DAILY, clocks=tuple(Clock(hour=hour) for hour in _OFTEN[match["n"]]))


def _offset(days: int) -> When:
    return When(day=Day(offset=days))


def _holiday(match: re.Match[str]) -> When:
    month, day = _HOLIDAYS[match["n"]]
    return When(day=Day(month=month, day=day))


def _next_unit(match: re.Match[str]) -> When:
    if match["u"] == "week":
        return When(day=Day(weeks=1))
    return When(day=Day(months=1) if match["u"] == "month" else Day(years=1, month=1, day=1))


_REPEATS = (
    _rule("EVERYPART", lambda m: When(every=_DAILY, part=_part(m))),
    _rule(
        "(?:EVERY|on )(?:weekdays?|work(?:ing)?[- ]?days?|business days?)",
        When(every=Every(weekdays=(0, 1, 2, 3, 4))),
    ),
    _rule("weekdays|workdays", When(every=Every(weekdays=(0, 1, 2, 3, 4)))),
    _rule("EVERYweekend|(?:(?:on|at) )?(?:the )?weekends", When(every=Every(weekdays=(5, 6)))),
    _rule(r"EVERY(?P<l>WDs?(?:AND(?:on |every )?WDs?)*)(?: PARTs?)?", _weekdays),
    _rule(r"(?:on )?(?P<l>FULLDAYs(?:AND(?:on )?FULLDAYs)*)(?: PARTs?)?", _weekdays),
    _rule(r"(?:EVERY|from )?(?P<a>WD)(?: (?:to|through|thru|till|until) |\s*[-–]\s*)(?P<b>WD)", _weekday_range),
    _rule("EVERY(?P<in>DURATION)", _every_span),
    _rule("EVERY(?P<u>day|week|month|year|hour|minute|second)", _each_one),
    _rule(
        "EVERY(?P<o>other|second|third|fourth|2nd|3rd|4th) (?P<u>day|week|month|year|hour|minute)",
        _each_other,
    ),
    _rule("EVERY(?:other|first|second|third|fourth|last|[1-5]ORD) WDEACHMONTH?", _UNSUPPORTED),
    _rule("(?:on )?the (?:first|second|third|fourth|last|[1-5]ORD) WDEACHMONTH", _UNSUPPORTED),
    _rule(
        "(?:EVERY|on the |the )last (?:week|working |business )?day(?: of (?:the|each|every) month)?",
        _UNSUPPORTED,
    ),
    _rule(f"(?P<a>{'|'.join(_ADVERBS)})", lambda m: When(every=_ADVERBS[m["a"]])),
    _rule(f"(?P<n>{'|'.join(_OFTEN)})(?: a| per| every| each)? (?:day|daily)", _often),
    _rule("once (?:an?|per|every|each) (?P<u>week|month|year|hour|minute)", _each_one),
    _rule(r"(?:twice|thrice|\w{1,9} times) (?:an?|per|every|each) (?:week|month|hour|year|minute)", _UNSUPPORTED),
    _rule(r"(?:EVERY|(?:on )?the )(?P<l>\d{1,2}ORD(?:AND(?:the )?\d{1,2}ORD)*)EACHMONTH", _month_days),
    _rule("(?:EVERY|(?:on )?the )first(?: day)? of (?:the|each|every) month", When(every=Every(days=(1,)))),
    _rule(r"EVERY(?P<l>\d{1,2}ORD)", _month_days),
    _rule("EVERYMONTH (?:the )?DAYNUM", _every_date),
    _rule("EVERYDAYNUM (?:of )?MONTH", _every_date),
)
_DAY_RULES = (
    _rule("DURATION ago", _PAST),
    _rule("yesterday(?: PART)?|last (?:night|week|month|year|WD)|the day before yesterday", _PAST),
    _rule("(?:(?:later|sometime|some time) )?today", _offset(0)),
    _rule("(?:later )?(?:tonight|tonite|this night)", When(day=Day(offset=0), part=Part.NIGHT)),
    _rule("(?:later )?this PART", lambda m: When(day=Day(offset=0), part=_part(m))),
    _rule(
        "(?:early |late |first thing |sometime )?(?:2morrow|tomm?orr?ow|tmrw|tmr"
        "|tmw)(?: (?:in the )?(?P<part>morning|noon|afternoon|evening|night))?",
        lambda m: When(day=Day(offset=1), part=_part(m)),
    ),
    _rule("(?:the )?day after tomorrow(?: PART)?", lambda m: When(day=Day(offset=2), part=_part(m))),
    _rule("(?:first thing )?(?:early )?in the PART", lambda m: When(part=_part(m))),
    _rule("at night", When(part=Part.NIGHT)),
    _rule(
        "(?P<p>(?:on|this|next|coming|by|on next|on the next) )(?:(?:the )?(?:coming|following) )?(?P<wd>WD)(?: PART)?",
        _weekday,
    ),
    _rule("(?P<p>next )?(?P<wd>FULLDAY)(?: PART)?", _weekday),
    _rule("(?:on )?(?:FULLDAY)AND(?:on )?FULLDAY|on WDAND(?:on )?WD", _UNSUPPORTED),
    _rule("(?:on |by )?(?:the )?DAYNUM (?:of )?MONTHYEAR", _date),
    _rule("(?:on |by )?MONTH (?:the )?DAYNUMYEAR(?!:)", _date),
    _rule(
        r"(?:on |by )the (?P<d>\d{1,2})ORD(?! (?:floor|street|avenue|page|chapter|day|time))",
        lambda m: When(day=Day(day=int(m["d"]))),
    ),
    _rule(r"(?P<on>on |by )?(?<![/.-])(?P<a>\d{1,2})/(?P<b>\d{1,2})(?:/(?P<y>\d{4}|\d{2}))?(?!/)", _slashes),
    _rule(
        f"(?:on |at )?(?P<n>{'|'.join(_HOLIDAYS)})(?: day)?(?! (?:present|gift|tree|card|shop|dinner|part))",
        _holiday,
    ),
    _rule("(?:sometime )?next (?P<u>week|month|year)", _next_unit),
    _rule("(?:(?:on|at|over) )?(?:the|this) weekend", When(day=Day(weekday=5))),
    _rule("next weekend", When(day=Day(weekday=5, weeks=1))),
)
_LIMIT_RULES = (  # said, but no argument of a schedule holds them: better refused than dropped
    _rule("(?:between|from) TIME(?: (?:and|to|until|till) |\\s*[-–]\\s*)TIME", _UNSUPPORTED),
    _rule(
        "(?:except|but not|excluding)(?: for)?(?: on)?(?: the)? (?:WDs?|weekends?|holidays?)(?:AND(?:on )?WDs?)*",
        _UNSUPPORTED,
    ),
    _rule(
        "(?:until|till)(?: the end of)?(?: next| this| the)? (?:WD|MONTH|christmas|tomorrow|week|month|year|\\d)\\S*",
        _UNSUPPORTED,
    ),
    _rule("DURATION (?:before(?:hand)?|earlier|prior|in advance|ahead)(?=\\W*$)", When(reason=RefuseReason.UNCLEAR)),
)
_CLOCK_RULES = (
    _rule(
        "(?:in|within|after) (?:ABOUT|the next |another )?(?P<in>DURATION)(?:'s?)?(?: time)?(?: from now)?",
        _delay,
    ),
    _rule("(?P<in>DURATION) (?:from now|later)", _delay),
    _rule(r"(?:AT)?(?:12 )?(?:noon|midday)", When(clocks=(Clock(hour=12),))),
    _rule(r"(?:AT)?(?:12 )?midnight", When(clocks=(Clock(hour=24),))),
    _rule(
        r"(?:AT)?(?P<q>half|a quarter|quarter|(?:twenty[- ]five|twenty|ten|five|\d{1,2})(?: minutes)?)"
        r" (?P<side>past|to|after|before|till) (?P<h>\d{1,2}|HOURWORD)(?:\s*(?P<m>[ap])\.?m\b)?NOTCLOCK",
        _past_hour,
    ),
    _rule(r"(?:AT)(?P<at>TIME(?:AND(?:at )?TIME)*)NOTCLOCK", _clocks),
    _rule(
        r"(?P<at>(?:\d{1,2}(?:[:.]\d{2})?|HOURWORD)MERIDIEM|\d{1,2}:\d{2}|(?:\d{1,2}"
        r"|HOURWORD) o'?\s?clock)NOTCLOCK",
        _clocks,
    ),
    _rule(
        r"at (?P<h>[01]\d|2[0-3])(?P<mi>[0-5]\d)(?:\s*(?:h|hrs|hours))?",
        lambda m: When(clocks=(Clock(hour=int(m["h"]), minute=int(m["mi"])),)),
    ),
)
LEAD_RULES = (
    _rule("(?P<in>DURATION)(?! (?:before|after|early|earlier|prior|ago))", _delay),
    _rule("(?<=for )(?P<at>TIME)NOTCLOCK", _clocks),
)
RULES = (*_REPEATS, *_DAY_RULES, *_LIMIT_RULES, *_CLOCK_RULES)
