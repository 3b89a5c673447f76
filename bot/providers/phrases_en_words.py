"""The words that English times are made of: numbers, units, names, and how they combine."""

from __future__ import annotations

from bot.providers.phrases_scan import Words
from bot.providers.phrases_when import Delay

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
_NUMBERS: dict[str, float] = {word: i for i, word in enumerate(_ONES)}
_NUMBERS |= {f"{ten}{gap}{_ONES[i]}": n + i for ten, n in _TENS.items() for gap in "- " for i in range(1, 10)}
_NUMBERS |= {
    **_TENS,
    "an": 1,
    "a": 1,
    "half a": 0.5,
    "half": 0.5,
    "a couple of": 2,
    "couple of": 2,
    "a couple": 2,
}
MONTH_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAY_NAMES = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
UNITS = {
    "s": Delay(seconds=1),
    "m": Delay(seconds=60),
    "h": Delay(seconds=3600),
    "d": Delay(days=1),
    "w": Delay(days=7),
    "f": Delay(days=14),
    "mo": Delay(months=1),
    "y": Delay(months=12),
}
_SHORT = r"(?:(?:tues|thurs|thur|mon|tue|wed|thu|fri|sat|sun)\b\.?)"
WORDS = Words(
    {
        "NUM": (
            r"(?:\d{1,9}(?:[.,]\d{1,2})?|(?:twenty|thirty|forty|fifty|sixty|ninety)(?:[- ]HOURWORD)?"
            rf"|{'|'.join(reversed(_ONES[10:]))}|HOURWORD|a couple of|couple of|a couple|half a|half|an?)"
        ),
        "UNIT": (
            r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|wks?|months?|years?|yrs?|fortnights?"
            r"|(?<=\d)[smhdw])"
        ),
        "HALFSPAN": "(?:half an? (?:hour|minute|day)|half[- ]hour|(?:an?|one) hour and a half)",
        "QUARTERSPAN": "(?:(?:an? |one )?quarter (?:of an )?hour|three quarters of an hour)",
        "MIXEDSPAN": r"NUM and a (?:half|quarter)\s+(?:hours?|minutes?)",
        "SPAN": r"(?:HALFSPAN|QUARTERSPAN|MIXEDSPAN|NUM[\s-]*UNIT)(?![a-z]|'s\b|-[a-z])",
        "DURATION": r"(?:SPAN(?:(?:\s*,\s*and |\s*,\s*| and |\s*)SPAN){0,3}(?: and a half)?)",
        "HOURWORD": "(?:twelve|eleven|ten|nine|eight|seven|six|five|four|three|two|one)",
        "MINUTEWORD": "(?:oh five|ten|fifteen|twenty|thirty|forty[- ]five|forty|fifty)",
        "MERIDIEM": r"(?:\s*[ap]\.?\s?m\b\.?)",
        "TIME": (
            r"(?:\d{1,2}(?:[:.]\d{2})?MERIDIEM?|HOURWORD(?: MINUTEWORD)?MERIDIEM?)"
            r"(?:\s*o'?\s?clock)?(?: (?:sharp|exactly))?"
        ),
        "NOTCLOCK": r"(?![\w/%€$]|[:.]\d|\s*(?:UNIT|percent|people|dollars?|euros?|times|ORD)END)",
        "ABOUT": r"(?:(?:about|around|roughly|exactly|precisely) )",
        "AT": r"(?:(?:(?:at|by|around|about|after|from|starting at) |@\s*)ABOUT?)",
        "PART": "(?P<part>morning|afternoon|evening|night)",
        "FULLDAY": "(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)",
        "WD": rf"(?:FULLDAY|{_SHORT})",
        "MONTH": (
            "(?P<mon>january|february|march|april|may|june|july|august|september|october|november|december"
            r"|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?)"
        ),
        "DAYNUM": r"(?P<d>\d{1,2})ORD?",
        "YEAR": r"(?:,?\s+(?P<y>20\d\d|19\d\d)(?![:\d]))?",
        "ORD": "(?:st|nd|rd|th)",
        "EVERY": "(?:(?:every|each) (?:single )?)",
        "AND": r"(?:\s*(?:,\s*and\b|,|&|/|\band\b)\s*)",
        "EACHMONTH": "(?:(?: day)? of (?:the|each|every) month)",
        "BEGIN": r"(?<![\w'])",
        "END": r"(?!\w|'s\b|-\w)",
    }
)


def number(word: str) -> float:
    """Return the value of a number in digits or words."""
    word = " ".join(word.split())
    return _NUMBERS[word] if word in _NUMBERS else float(word.replace(",", "."))
