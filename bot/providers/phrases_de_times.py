"""How German says when: spans, times of day with their halves and quarters, days, dates and repetitions."""

from __future__ import annotations

import re

from bot.providers.phrases_intents import RefuseReason
from bot.providers.phrases_scan import Words
from bot.providers.phrases_when import Clock, Day, Delay, Every, Part, Unit, When, every_delay

_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
).split()
_TENS = {
    "zwanzig": 20,
    "dreißig": 30,
    "dreissig": 30,
    "vierzig": 40,
    "fünfzig": 50,
    "sechzig": 60,
    "neunzig": 90,
}
_NUMBERS: dict[str, float] = {word: i for i, word in enumerate(_ONES)}
_NUMBERS |= {f"{'ein' if i == 1 else _ONES[i]}und{ten}": n + i for ten, n in _TENS.items() for i in range(1, 10)}
_NUMBERS |= {**_TENS, "zwo": 2, "anderthalb": 1.5, "eineinhalb": 1.5, "zweieinhalb": 2.5, "dreieinhalb": 3.5}
_NUMBERS |= dict.fromkeys(("ein", "eine", "einer", "einem", "einen", "eines", "'ner"), 1)
_MONTHS = {"jan": 1, "jän": 1, "jae": 1, "feb": 2, "mär": 3, "mae": 3, "mrz": 3, "apr": 4, "mai": 5, "jun": 6}
_MONTHS |= {"jul": 7, "aug": 8, "sep": 9, "okt": 10, "nov": 11, "dez": 12}
_WEEKDAYS = {"mo": 0, "di": 1, "mi": 2, "do": 3, "fr": 4, "sa": 5, "so": 6}
_PARTS = {"morgen": Part.MORNING, "früh": Part.MORNING, "vormittag": Part.MORNING, "mittag": Part.NOON}
_PARTS |= {"nachmittag": Part.AFTERNOON, "abend": Part.EVENING, "nacht": Part.NIGHT}
_UNITS = {
    "s": Delay(seconds=1),
    "m": Delay(seconds=60),
    "h": Delay(seconds=3600),
    "st": Delay(seconds=3600),
    "t": Delay(days=1),
    "w": Delay(days=7),
    "mo": Delay(months=1),
    "j": Delay(months=12),
}
WORDS = Words(
    {
        "NUM": (
            r"(?:\d{1,9}(?:[.,]\d{1,2})?|(?:ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und"
            r"(?:zwanzig|drei(?:ß|ss)ig|vierzig|fünfzig)|zwanzig|drei(?:ß|ss)ig|vierzig|fünfzig|sechzig|neunzig"
            rf"|{'|'.join(reversed(_ONES[13:]))}|(?:anderthalb|(?:ein|zwei|drei)einhalb)|HOURWORD|ein(?:e[rmns]?)?|zwo)"
        ),
        "UNIT": (
            r"(?:sekunden?|sek\b\.?|minuten?|min\b\.?|stunden?|std\b\.?|tage?n?|wochen?|monate?n?|jahre?n?|(?<=\d)[sm]\b|h\b)"
        ),
        "HALFSPAN": r"(?:(?:ein(?:e[rn]?)? )?(?:halben?|halbe[rn]?) (?:stunde|minute)|einer halbstunde)",
        "QUARTERSPAN": r"(?:(?:ein(?:e[rn]?)? )?(?:dreiviertel|viertel)[ -]?stunden?)",
        "SPAN": r"(?:HALFSPAN|QUARTERSPAN|NUM[\s-]*UNIT)(?!\w)",
        "DURATION": r"(?:SPAN(?:(?:\s*,\s*| und |\s*)SPAN){0,3})",
        "HOURWORD": "(?:zwölf|elf|zehn|neun|acht|sieben|sechs|fünf|vier|drei|zwei|eins?)",
        "HOUR": r"(?:\d{1,2}|HOURWORD)",
        "PART": "(?P<part>morgen|früh|vormittag|mittag|nachmittag|abend|nacht)s?",
        "NOONPART": "(?P<part>vormittag|mittag|nachmittag|abend|nacht|früh)",
        "FULLDAY": "(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag)",
        "WD": r"(?:FULLDAY|(?:mo|di|mi|do|fr|sa|so)\b\.?)",
        "MONTH": (
            "(?P<mon>januar|jänner|jaenner|februar|feber|märz|maerz|april|mai|juni|juli|august|september|oktober|november"
            r"|dezember|(?:jan|feb|mär|mrz|apr|jun|jul|aug|sept|sep|okt|nov|dez)\b\.?)"
        ),
        "YEAR": r"(?:\s+(?P<y>20\d\d|19\d\d)(?![:\d]))?",
        "EVERY": r"(?:(?:jede[nmrs]?|an jedem) (?:einzelnen )?)",
        "AND": r"(?:\s*(?:,\s*und\b|,|&|/|\bund\b)\s*)",
        "ABOUT": r"(?:(?:etwa|ungefähr|circa|ca\.?|genau|punkt|rund) )",
        "AT": r"(?:(?:um|gegen|ab|@|nach) ABOUT?)",
        "OCLOCK": r"(?:\s*uhr\b(?:\s*[0-5]?\d(?!\w|[:.]\d))?)",
        "TIME": r"(?:\d{1,2}(?:[:.][0-5]\d)?OCLOCK?|HOURWORDOCLOCK?)",
        "NOTCLOCK": r"(?![\w/%€$]|[:.]\d|\s*(?:UNIT|prozent|leute|personen|euro|mal)(?!\w))",
        "BEGIN": r"(?<![\w'])",
        "END": r"(?!\w|-\w)",
    }
)
_rule = WORDS.rule
_SPAN_PART = WORDS.compile(r"(?P<odd>HALFSPAN|QUARTERSPAN)|(?P<n>NUM)[\s-]*(?P<u>UNIT)")
_UNSUPPORTED = When(reason=RefuseReason.UNSUPPORTED)
_PAST = When(reason=RefuseReason.PAST)
_DAILY = Every(unit=Unit.DAY)
_WORKDAYS = When(every=Every(weekdays=(0, 1, 2, 3, 4)))


def number(word: str) -> float:
    """Return the value of a number in digits or words."""
    return _NUMBERS[word] if word in _NUMBERS else _NUMBERS["eins"] if word == "ein" else float(word.replace(",", "."))


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
        part = _UNITS[name[:2] if name[:2] in ("st", "mo") else name[0]].times(number(match["n"]))
        if part is None:
            return None
        total += part
    return total


def _delay(match: re.Match[str]) -> When | None:
    delay = read_duration(match["in"])
    return When(delay=delay) if delay else None


def _every_span(match: re.Match[str]) -> When | None:
    delay = read_duration(match["in"])
    every = delay and every_delay(delay)
    return When(every=every) if every else None


_CLOCK = re.compile(r"(?:(\d{1,2})(?:[:.](\d{2}))?|([a-zöü]+))(\s*uhr(?:\s*(\d{1,2}))?)?$")


def _clock(text: str) -> Clock | None:
    """Return "9", "9 Uhr", "9:30", "9 Uhr 30" as a time of day; only the bare hour is loose."""
    match = _CLOCK.match(text.strip())
    if match is None:
        return None
    digits, minutes, word, oclock, after = match.groups()
    hour, minute = int(digits) if digits else int(number(word)), int(minutes or after or 0)
    if hour > 24 or minute > 59:
        return None
    loose = not (oclock or minutes) and 1 <= hour <= 11 and not (digits or "").startswith("0")
    return Clock(hour=hour, minute=minute, loose=loose)


_BETWEEN_CLOCKS = re.compile(r"\s*(?:,|&|\bund\b)\s*(?:um\s+)?")


def _clocks(match: re.Match[str]) -> When | None:
    """Return one time of day or a list of them ("um 9 und 18 Uhr")."""
    clocks = [_clock(text) for text in _BETWEEN_CLOCKS.split(match["at"]) if text]
    good = tuple(clock for clock in clocks if clock)
    return When(clocks=good) if good and len(good) == len(clocks) else None


def _spoken(match: re.Match[str]) -> When | None:
    """Return "halb neun" (8:30), "Viertel nach acht", "dreiviertel acht" (7:45), "fünf vor halb neun" (8:25)."""
    hour = int(number(match["h"]))
    base = (hour - 1) * 60 + {"halb": 30, "dreiviertel": 45, "viertel": 15}[match["k"]] if match["k"] else hour * 60
    if match["q"]:
        spoken = match["q"].removesuffix(" minuten").removesuffix(" min")
        step = 15 if spoken == "viertel" else int(number(spoken))
        base += step if match["side"] == "nach" else -step
    if not 1 <= hour <= 24 or (match["q"] is None and match["k"] is None):
        return None
    base %= 24 * 60
    if hour <= 12 and base < 60:
        base += 12 * 60  # "halb eins" is half past twelve
    return When(clocks=(Clock(hour=base // 60, minute=base % 60, loose=hour <= 12 and 1 <= base // 60 <= 11),))


def _part(match: re.Match[str]) -> Part | None:
    said = match.groupdict().get("part")
    return _PARTS[said] if said else None


def _wd(text: str) -> int:
    return _WEEKDAYS[text[:2]]


def _weekday(match: re.Match[str]) -> When:
    said = match["p"] or ""
    after = "nächst" in said or "naechst" in said or "kommend" in said
    return When(day=Day(weekday=_wd(match["wd"]), after_today=after), part=_part(match))


_ANY_WD = WORDS.compile("WD")


def _weekdays(match: re.Match[str]) -> When:
    return When(every=Every(weekdays=tuple(_wd(d) for d in _ANY_WD.findall(match["l"]))), part=_part(match))


def _weekday_range(match: re.Match[str]) -> When:
    first, last = _wd(match["a"]), _wd(match["b"])
    return When(every=Every(weekdays=tuple((first + i) % 7 for i in range((last - first) % 7 + 1))))


def _month(match: re.Match[str]) -> int:
    return _MONTHS[match["mon"][:3]]


def _date(match: re.Match[str]) -> When:
    year = int(match["y"]) if match["y"] else None
    return When(day=Day(month=_month(match), day=int(match["d"]), year=year))


def _dotted(match: re.Match[str]) -> When | None:
    """Return 24.12., 24.12.2026 or 24/12: the day comes first."""
    day, month, year = int(match["d"]), int(match["mo"]), int(match["y"]) if match["y"] else None
    if month > 12 and not match["on"]:
        return None
    return When(day=Day(month=month, day=day, year=year + 2000 if year is not None and year < 100 else year))


def _month_days(match: re.Match[str]) -> When:
    return When(every=Every(days=tuple(int(d) for d in re.findall(r"\d+", match["l"]))))


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
        r"(?:EVERY|am )(?P<l>\d{1,2}\.(?:AND\d{1,2}\.)*)(?: (?:jede[sn]|eines jeden|des|im|in jedem) monats?)",
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
        "(?P<p>(?:am |an diesem |diesen |dieser |(?:am )?(?:nächsten|naechsten|kommenden|nächster|kommender) ))(?P<wd>WD)(?:[- ]?NOONPART| (?:morgen))?",
        _weekday,
    ),
    _rule("(?P<p>)(?P<wd>FULLDAY)(?:[- ]?NOONPART)?", _weekday),
    _rule("(?:am )?FULLDAYAND(?:am )?FULLDAY", _UNSUPPORTED),
    _rule(r"(?:WD,?\s+)?(?:am |den |zum |der )?(?P<d>\d{1,2})\.?\s*MONTHYEAR", _date),
    _rule(
        r"(?P<on>am |den |zum )?(?<![\d.])(?P<d>\d{1,2})\.(?P<mo>\d{1,2})(?:\.(?P<y>\d{4}|\d{2})(?![:\d])|\.|(?=[\s,]*(?:um|$|[a-z])))(?!\s*uhr)(?![\d:])",
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
RULES = (*_REPEATS, *_DAY_RULES, *_CLOCK_RULES)
