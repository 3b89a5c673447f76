"""How German says when: spans, times of day with their halves and quarters, days, dates and repetitions."""

from __future__ import annotations

import re

from bot.providers.phrases_de_words import MONTH_NAMES, PART_NAMES, UNITS, WEEKDAY_NAMES, WORDS, number
from bot.providers.phrases_intents import RefuseReason
from bot.providers.phrases_when import (
    HOUR_MINUTES,
    MONTHS,
    NOON,
    Clock,
    Day,
    Delay,
    Every,
    Part,
    Unit,
    When,
    clock_at,
    clocks_at,
    delayed,
    full_year,
    month_days,
    repeated,
    weekday_run,
)

_rule = WORDS.rule
_SPAN_PART = WORDS.compile(r"(?P<odd>HALFSPAN|QUARTERSPAN)|(?P<n>NUM)[\s-]*(?P<u>UNIT)")
_UNSUPPORTED = When(reason=RefuseReason.UNSUPPORTED)
_PAST = When(reason=RefuseReason.PAST)
_DAILY = Every(unit=Unit.DAY)
_WORKDAYS = When(every=Every(weekdays=(0, 1, 2, 3, 4)))


def read_duration(text: str) -> Delay | None:
    """Return the span that `text` (one match of DURATION) stands for, None for a fraction of a month."""
    total = Delay()
    for match in _SPAN_PART.finditer(text):
        odd = match["odd"]
        if odd:
            seconds = 2700 if "dreiviertel" in odd else 900 if "viertel" in odd else 30 if "minute" in odd else 1800
            total += Delay(seconds=seconds)
            continue
        name = match["u"]
        part = UNITS[name[:2] if name[:2] in ("st", "mo") else name[0]].times(number(match["n"]))
        if part is None:
            return None
        total += part
    return total


def _delay(match: re.Match[str]) -> When | None:
    return delayed(read_duration(match["in"]))


def _every_span(match: re.Match[str]) -> When | None:
    return repeated(read_duration(match["in"]))


_CLOCK = re.compile(r"(?:(\d{1,2})(?:[:.](\d{2}))?|([a-zöü]+))(\s*uhr(?:\s*(\d{1,2}))?)?$")


def _clock(text: str) -> Clock | None:
    """Return "9", "9 Uhr", "9:30", "9 Uhr 30" as a time of day; only the bare hour is loose."""
    match = _CLOCK.match(text.strip())
    if match is None:
        return None
    digits, minutes, word, oclock, after = match.groups()
    hour, minute = int(digits) if digits else int(number(word)), int(minutes or after or 0)
    return clock_at(hour, minute, loose=not (oclock or minutes or (digits or "").startswith("0")))


_BETWEEN_CLOCKS = re.compile(r"\s*(?:,|&|\bund\b)\s*(?:um\s+)?")


def _clocks(match: re.Match[str]) -> When:
    """Return one time of day or a list of them ("um 9 und 18 Uhr")."""
    return clocks_at(_clock(text) for text in _BETWEEN_CLOCKS.split(match["at"]) if text)


def _spoken(match: re.Match[str]) -> When | None:
    """Return "halb neun" (8:30), "Viertel nach acht", "dreiviertel acht" (7:45), "fünf vor halb neun"."""
    hour = int(number(match["h"]))
    if match["q"] is None and match["k"] is None:
        return None
    minutes = hour * HOUR_MINUTES
    if match["k"]:
        minutes += {"halb": 30, "dreiviertel": 45, "viertel": 15}[match["k"]] - HOUR_MINUTES
    if match["q"]:
        spoken = match["q"].removesuffix(" minuten").removesuffix(" min")
        step = 15 if spoken == "viertel" else int(number(spoken))
        minutes += step if match["side"] == "nach" else -step
    if 0 <= minutes < HOUR_MINUTES:
        minutes += NOON * HOUR_MINUTES  # "halb eins" is half past twelve
    return clocks_at([clock_at(minutes // HOUR_MINUTES, minutes % HOUR_MINUTES, loose=hour <= NOON)])


def _part(match: re.Match[str]) -> Part | None:
    said = match.groupdict().get("part")
    return PART_NAMES[said] if said else None


def _wd(text: str) -> int:
    return WEEKDAY_NAMES[text[:2]]


def _weekday(match: re.Match[str]) -> When:
    said = match["p"] or ""
    after = "nächst" in said or "naechst" in said or "kommend" in said
    return When(day=Day(weekday=_wd(match["wd"]), after_today=after), part=_part(match))


_ANY_WD = WORDS.compile("WD")


def _weekdays(match: re.Match[str]) -> When:
    return When(every=Every(weekdays=tuple(_wd(d) for d in _ANY_WD.findall(match["l"]))), part=_part(match))


def _weekday_range(match: re.Match[str]) -> When:
    return weekday_run(_wd(match["a"]), _wd(match["b"]))


def _month(match: re.Match[str]) -> int:
    return MONTH_NAMES[match["mon"][:3]]


def _date(match: re.Match[str]) -> When:
    year = int(match["y"]) if match["y"] else None
    return When(day=Day(month=_month(match), day=int(match["d"]), year=year))


def _dotted(match: re.Match[str]) -> When | None:
    """Return 24.12., 24.12.2026 or 24/12: the day comes first."""
    day, month, year = int(match["d"]), int(match["mo"]), int(match["y"]) if match["y"] else None
    if month > MONTHS and not match["on"]:
        return None
    return When(day=Day(month=month, day=day, year=full_year(year)))


def _month_days(match: re.Match[str]) -> When:
    return month_days(re.findall(r"\d+", match["l"]))


_ADVERBS = {
    "stündlich": Every(seconds=3600),
    "stuendlich": Every(seconds=3600),
    "minütlich": Every(seconds=60),
    "täglich": _DAILY,
    "taeglich": _DAILY,
    "wöchentlich": Every(unit=Unit.WEEK),
    "woechentlich": Every(unit=Unit.WEEK),
    "monatlich": Every(unit=Unit.MONTH),
    "jährlich": Every(unit=Unit.YEAR),
    "jaehrlich": Every(unit=Unit.YEAR),
}
_OFTEN = {"einmal": (9,), "1 mal": (9,), "1x": (9,), "zweimal": (9, 18), "2 mal": (9, 18), "2x": (9, 18)}
_OFTEN |= dict.fromkeys(("dreimal", "3 mal", "3x"), (9, 14, 19))
_SINGLE = {
    "tag": _DAILY,
    "woche": Every(unit=Unit.WEEK),
    "monat": Every(unit=Unit.MONTH),
    "jahr": Every(unit=Unit.YEAR),
}
_SINGLE |= {"stunde": Every(seconds=3600), "minute": Every(seconds=60), "sekunde": Every(seconds=1)}
_OTHER = {"zweite": 2, "dritte": 3, "vierte": 4}
_HOLIDAYS = {"heiligabend": (12, 24), "weihnachten": (12, 25), "silvester": (12, 31), "neujahr": (1, 1)}


def _each_other(match: re.Match[str]) -> When:
    n, single = _OTHER[match["o"]], _SINGLE[match["u"]]
    if single.seconds:
        return When(every=Every(seconds=n * single.seconds))
    return When(every=Every(unit=single.unit, n=n))


def _holiday(match: re.Match[str]) -> When:
    month, day = _HOLIDAYS[match["n"]]
    return When(day=Day(month=month, day=day))


def _next_unit(match: re.Match[str]) -> When:
    if match["u"].startswith("woche"):
        return When(day=Day(weeks=1))
    return When(day=Day(months=1) if match["u"].startswith("monat") else Day(years=1, month=1, day=1))


_REPEATS = (
    _rule("EVERYPART", lambda m: When(every=_DAILY, part=_part(m))),
    _rule(
        "morgens|(?P<part>vormittag|mittag|nachmittag|abend|nacht)s",
        lambda m: When(part=_part(m) or Part.MORNING),
    ),
    _rule(
        "(?:EVERY|an )(?:werktage?n?|arbeitstage?n?|wochentage?n?)|werktags|wochentags|unter der woche",
        _WORKDAYS,
    ),
    _rule(
        "(?:EVERY|an )(?:wochenenden?)|am wochenende immer|an den wochenenden",
        When(every=Every(weekdays=(5, 6))),
    ),
    _rule("EVERY(?P<l>WD(?:AND(?:jede[nm] )?WD)*)(?:[- ]?NOONPARTs?| (?P<m>morgen))?", _weekdays),
    _rule("(?P<l>FULLDAYs(?:AND(?:FULLDAY)s)*)", _weekdays),
    _rule(r"(?:EVERY|von )?(?P<a>WD)(?: bis |\s*[-–]\s*)(?P<b>WD)", _weekday_range),
    _rule("(?:alle|jede) (?P<in>DURATION)", _every_span),
    _rule(
        "alle (?P<n>halbe|viertel)[- ]?stunden?",
        lambda m: When(every=Every(seconds=1800 if m["n"] == "halbe" else 900)),
    ),
    _rule(
        "EVERY(?P<u>tag|woche|monat|jahr|stunde|minute|sekunde)(?:e?s)?",
        lambda m: When(every=_SINGLE[m["u"]]),
    ),
    _rule("EVERY(?P<o>zweite|dritte|vierte)[nrsm]? (?P<u>tag|woche|monat|jahr|stunde|minute)s?", _each_other),
    _rule("EVERY(?:erste|zweite|dritte|vierte|letzte)[nrsm]? WD(?: (?:im|des) monats?)?", _UNSUPPORTED),
    _rule(
        "(?:EVERY|am )letzten (?:werk)?tag(?: (?:im|des|jedes|eines jeden) monats?)?|EVERYmonatsende",
        _UNSUPPORTED,
    ),
    _rule(f"(?P<a>{'|'.join(_ADVERBS)})", lambda m: When(every=_ADVERBS[m["a"]])),
    _rule(
        f"(?P<n>{'|'.join(_OFTEN)}) (?:am|pro|jeden) tag|(?P<n2>{'|'.join(_OFTEN)}) t(?:ä|ae)glich",
        lambda m: When(every=_DAILY, clocks=tuple(Clock(hour=h) for h in _OFTEN[m["n"] or m["n2"]])),
    ),
    _rule(
        "einmal (?:pro|die|in der|im|jede) (?P<u>woche|monat|jahr|stunde)",
        lambda m: When(every=_SINGLE[m["u"]]),
    ),
    _rule(r"(?:\w{1,9}mal|\d+ ?(?:mal|x)) (?:pro|die|in der|im) (?:woche|monat|jahr|stunde)", _UNSUPPORTED),
    _rule(
        r"(?:EVERY|am )(?P<l>\d{1,2}\.(?:AND\d{1,2}\.)*)(?: (?:jede[sn]|eines jeden|des|im"
        r"|in jedem) monats?)",
        _month_days,
    ),
    _rule(
        "(?:EVERY|am )ersten(?: tag)? (?:jede[sn]|eines jeden|des|im|in jedem) monats?|EVERYmonatsersten?",
        When(every=Every(days=(1,))),
    ),
    _rule(
        r"EVERY(?P<d>\d{1,2})\.\s*MONTH",
        lambda m: When(every=Every(days=(int(m["d"]),), month=_month(m))),
    ),
)
_DAY_RULES = (
    _rule("vor (?:DURATION)", _PAST),
    _rule(
        "(?:vor)?gestern(?: (?:abend|früh|nacht|morgen|mittag))?|letzte[nrs]? (?:woche|monat|jahr|nacht|WD)",
        _PAST,
    ),
    _rule("(?:später )?heute (?:noch )?(?:PART)", lambda m: When(day=Day(offset=0), part=_part(m))),
    _rule("(?:später )?heute(?: noch| später)?", When(day=Day(offset=0))),
    _rule("diesen (?P<part>vormittag|nachmittag|abend)", lambda m: When(day=Day(offset=0), part=_part(m))),
    _rule(
        "(?<!guten )(?<!am )(?<!jeden )morgen(?: (?:in der )?(?:NOONPART))?",
        lambda m: When(day=Day(offset=1), part=_part(m)),
    ),
    _rule("(?:über|ueber)morgen(?: (?:in der )?(?:PART))?", lambda m: When(day=Day(offset=2), part=_part(m))),
    _rule(
        "(?:am (?:frühen |späten )?|in der )(?P<part>morgen|früh|vormittag|mittag|nachmittag|abend|nacht)",
        lambda m: When(part=_part(m)),
    ),
    _rule(
        "(?P<p>(?:am |an diesem |diesen |dieser |(?:am )?(?:nächsten|naechsten|kommenden|nächster"
        "|kommender) ))(?P<wd>WD)(?:[- ]?NOONPART| (?:morgen))?",
        _weekday,
    ),
    _rule("(?P<p>)(?P<wd>FULLDAY)(?:[- ]?NOONPART)?", _weekday),
    _rule("(?:am )?FULLDAYAND(?:am )?FULLDAY", _UNSUPPORTED),
    _rule(r"(?:WD,?\s+)?(?:am |den |zum |der )?(?P<d>\d{1,2})\.?\s*MONTHYEAR", _date),
    _rule(
        r"(?P<on>am |den |zum )?(?<![\d.])(?P<d>\d{1,2})\.(?P<mo>\d{1,2})(?:\.(?P<y>\d{4}|\d{2})(?![:\d])"
        r"|\.|(?=[\s,]*(?:um|$|[a-z])))(?!\s*uhr)(?![\d:])",
        _dotted,
    ),
    _rule(
        r"(?P<on>am |den )?(?<![\d/])(?P<d>\d{1,2})/(?P<mo>\d{1,2})(?:/(?P<y>\d{4}|\d{2}))?(?!/)",
        lambda m: _dotted(m) if m["on"] or m["y"] else None,
    ),
    _rule(r"(?:am|zum|den) (?P<d>\d{1,2})\.(?!\d)", lambda m: When(day=Day(day=int(m["d"])))),
    _rule(f"(?:an |zu )?(?P<n>{'|'.join(_HOLIDAYS)})", _holiday),
    _rule("(?:in der |im )?(?:nächste[nrs]?|naechste[nrs]?|kommende[nrs]?) (?P<u>woche|monat|jahr)", _next_unit),
    _rule("am (?:kommenden |nächsten )?wochenende|dieses wochenende", When(day=Day(weekday=5))),
    _rule("nächstes wochenende", When(day=Day(weekday=5, weeks=1))),
)
_LIMIT_RULES = (  # said, but no argument of a schedule holds them: better refused than dropped
    _rule("(?:zwischen|von) TIME(?: (?:und|bis) |\\s*[-–]\\s*)TIME", _UNSUPPORTED),
    _rule("(?:außer|ausser|ohne)(?: am| an)? (?:WDs?|wochenenden?|feiertagen?)(?:AND(?:am )?WDs?)*", _UNSUPPORTED),
    _rule(
        "bis(?: zum| ende| nächste[nrs]?)?(?: \\d\\S*)? (?:WD|MONTH|weihnachten|jahresende|woche|monats?|jahr)",
        _UNSUPPORTED,
    ),
    _rule("DURATION (?:vorher|davor|zuvor|im voraus)(?=\\W*$)", When(reason=RefuseReason.UNCLEAR)),
)
_CLOCK_RULES = (
    _rule("(?:in|nach) (?:ABOUT|den nächsten )?(?P<in>DURATION)", _delay),
    _rule(
        "(?P<in>DURATION) (?:später|ab jetzt)|heute in (?P<in2>acht|vierzehn|8|14) tagen",
        lambda m: _delay(m) if m["in"] else When(delay=Delay(days=7 if m["in2"] in ("acht", "8") else 14)),
    ),
    _rule("(?:heute |morgen )?mittags?(?= um )", lambda _: None),
    _rule("(?:um )?(?:12 uhr )?mittags?", When(clocks=(Clock(hour=12),))),
    _rule("(?:um )?mitternacht", When(clocks=(Clock(hour=24),))),
    _rule(
        r"(?:AT)?(?:(?P<q>viertel|(?:fünf|zehn|zwanzig|\d{1,2})(?: minuten| min)?) (?P<side>vor|nach) )?"
        r"(?:(?P<k>halb|dreiviertel|viertel) )?(?P<h>HOUR)(?:\s*uhr)?NOTCLOCK",
        _spoken,
    ),
    _rule(r"(?:AT)(?P<at>TIME(?:AND(?:um )?TIME)*)NOTCLOCK", _clocks),
    _rule(r"(?P<at>HOUROCLOCK|\d{1,2}[:.][0-5]\d\s*uhr|\d{1,2}:[0-5]\d)NOTCLOCK", _clocks),
)
LEAD_RULES = (
    _rule("(?P<in>DURATION)(?! (?:vor|vorher|davor|nach|früher))", _delay),
    _rule("(?:(?<=auf )|(?<=für ))(?P<at>TIME)NOTCLOCK", _clocks),
)
RULES = (*_REPEATS, *_DAY_RULES, *_LIMIT_RULES, *_CLOCK_RULES)
