"""The words that German times are made of: numbers, units, names, and how they combine."""

from __future__ import annotations

from bot.providers.phrases_scan import Words
from bot.providers.phrases_when import Delay, Part

_ONES = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
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
_NUMBERS |= dict.fromkeys(("ein", "eine", "einer", "einem", "einen", "eines", "ner", "'ner"), 1)
MONTH_NAMES = {
    "jan": 1,
    "jän": 1,
    "jae": 1,
    "feb": 2,
    "mär": 3,
    "mae": 3,
    "mrz": 3,
    "apr": 4,
    "mai": 5,
    "jun": 6,
}
MONTH_NAMES |= {"jun": 6, "jul": 7, "aug": 8, "sep": 9, "okt": 10, "nov": 11, "dez": 12}
WEEKDAY_NAMES = {"mo": 0, "di": 1, "mi": 2, "do": 3, "fr": 4, "sa": 5, "so": 6}
PART_NAMES = {"morgen": Part.MORNING, "früh": Part.MORNING, "vormittag": Part.MORNING, "mittag": Part.NOON}
PART_NAMES |= {"nachmittag": Part.AFTERNOON, "abend": Part.EVENING, "nacht": Part.NIGHT}
UNITS = {
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
            r"(?:zwanzig|drei(?:ß|ss)ig|vierzig|fünfzig)|zwanzig|drei(?:ß|ss)ig|vierzig|fünfzig|sechzig"
            r"|neunzig"
            rf"|{'|'.join(reversed(_ONES[13:]))}|(?:anderthalb|(?:ein|zwei|drei)einhalb)|HOURWORD"
            rf"|ein(?:e[rmns]?)?|'?ner|zwo)"
        ),
        "UNIT": (
            r"(?:sekunden?|sek\b\.?|minuten?|min\b\.?|stunden?|std\b\.?|tage?n?|wochen?|monate?n?|jahre?n?"
            r"|(?<=\d)[sm]\b|h\b)"
        ),
        "HALFSPAN": r"(?:(?:(?:ein(?:e[rn]?)?|'?ner) )?(?:halben?|halbe[rn]?) (?:stunde|minute)|einer halbstunde)",
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
            "(?P<mon>januar|jänner|jaenner|februar|feber|märz|maerz|april|mai|juni|juli|august|september"
            "|oktober|november"
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


def number(word: str) -> float:
    """Return the value of a number in digits or words."""
    return _NUMBERS[word] if word in _NUMBERS else _NUMBERS["eins"] if word == "ein" else float(word.replace(",", "."))
