"""How Chinese says when: spans, times with their part of the day, days, dates and repetitions.

Traditional signs arrive as their simplified twins (see `phrases.py`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from bot.providers.phrases_intents import RefuseReason
from bot.providers.phrases_scan import Words
from bot.providers.phrases_when import (
    MIDNIGHT,
    MONTHS,
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
    hour_in_part,
    repeated,
    weekday_run,
)

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_WEEKDAYS = {c: i for i, c in enumerate("一二三四五六日")} | {"天": 6, "末": 5} | {str(i + 1): i for i in range(7)}
_PARTS = dict.fromkeys(("凌晨", "清晨", "清早", "早上", "早晨", "上午", "早", "一早", "大早"), Part.MORNING)
_PARTS |= dict.fromkeys(("中午", "正午"), Part.NOON) | dict.fromkeys(("下午", "午后"), Part.AFTERNOON)
_PARTS |= dict.fromkeys(("晚上", "夜里", "深夜", "半夜", "夜晚", "晚间", "晚", "午夜"), Part.NIGHT) | {
    "傍晚": Part.EVENING
}
_UNITS = {
    "秒": Delay(seconds=1),
    "分": Delay(seconds=60),
    "小": Delay(seconds=3600),
    "钟": Delay(seconds=3600),
    "天": Delay(days=1),
    "日": Delay(days=1),
    "星": Delay(days=7),
    "周": Delay(days=7),
    "礼": Delay(days=7),
    "月": Delay(months=1),
    "年": Delay(months=12),
}
WORDS = Words(
    {
        "NUM": r"(?:\d{1,9}(?:\.\d{1,2})?|[零〇一二两三四五六七八九十百]{1,5})",
        "SMALL": r"(?:\d{1,2}|[零〇一二两三四五六七八九十]{1,3})",
        "UNIT": r"(?:秒钟?|分钟?|个?小时|个?钟头|天|日|个?星期|周|个?礼拜|个月|年)",
        "SPAN": r"(?:半个?(?:小时|钟头)|半天|半分钟|[一三]刻钟|NUM\s*个半(?:小时|钟头|月)|NUM\s*UNIT半?)",
        "DURATION": r"(?:SPAN(?:[零又]?\s*SPAN){0,3})",
        "ANYPART": "(?:凌晨|清[晨早]|早[上晨]|[上中正下]午|午[后夜]|傍晚|晚[上间]|夜[里晚]|[深半]夜)",
        "PART": "(?P<part>ANYPART)",
        "WEEK": "(?:周|星期|礼拜)",
        "WD": "(?:WEEK[一二三四五六日天末1-7])",
        "AND": r"(?:\s*(?:、|和|与|跟|及|以及|,|还有)\s*)",
        "BEGIN": "(?:(?<!现)[在于])?",
        "END": "",
        "TIME": (
            r"(?:SMALL\s*[点时](?![间候])(?:钟|整|半|[一三]刻|过?SMALL分?(?!钟)|差SMALL分)?|\d{1,2}:[0-5]\d"
            r"|差SMALL分(?:钟)?SMALL点)"
        ),
    }
)
_rule = WORDS.rule
_SPAN_PART = WORDS.compile(
    r"(?P<odd>半个?(?:小时|钟头)|半天|半分钟|[一三]刻钟)|(?P<n>NUM)\s*(?P<half>个半)?(?P<u>UNIT|小时|钟头"
    r"|月)(?P<more>半?)"
)
_UNSUPPORTED = When(reason=RefuseReason.UNSUPPORTED)
_PAST = When(reason=RefuseReason.PAST)
_DAILY = Every(unit=Unit.DAY)
_WORKDAYS = When(every=Every(weekdays=(0, 1, 2, 3, 4)))
_ODD_S = {"半天": 43_200, "半分钟": 30, "一刻钟": 900, "三刻钟": 2_700}


def number(text: str) -> float:
    """Return the value of digits or numerals up to 999 ("三十五", "两百", "二〇")."""
    if text[0].isascii():
        return float(text)
    if not set(text) & set("十百"):
        return float("".join(str(_DIGITS[c]) for c in text))
    total, digit = 0, None
    for sign in text:
        if sign in "十百":
            total += (1 if digit is None else digit) * (10 if sign == "十" else 100)
            digit = None
        else:
            digit = _DIGITS[sign]
    return float(total + (digit or 0))


def read_duration(text: str) -> Delay | None:
    """Return the span that `text` (one match of DURATION) stands for, None for a fraction of a month."""
    total = Delay()
    for match in _SPAN_PART.finditer(text):
        if match["odd"]:
            total += Delay(seconds=_ODD_S.get(match["odd"], 1_800))
            continue
        unit = _UNITS[match["u"].removeprefix("个")[0]]
        part = unit.times(number(match["n"]) + (0.5 if match["half"] or match["more"] else 0))
        if part is None:
            return None
        total += part
    return total


def _delay(match: re.Match[str]) -> When | None:
    return delayed(read_duration(match["in"]))


def _every_span(match: re.Match[str]) -> When | None:
    delay = read_duration(match["in"])
    if delay == Delay(days=1) and "隔" in match[0]:
        delay = Delay(days=2)  # 每隔一天 leaves one day out
    return repeated(delay)


_CLOCK = WORDS.compile(
    r"(?:PART\s*)?(?:差(?P<less>SMALL)分钟?(?P<next>SMALL)点"
    r"|(?P<h>SMALL)\s*[点时:](?:(?P<half>半)|(?P<q>[一三])刻|过?(?P<m>SMALL)分?|差(?P<to>SMALL)分)?)"
)


def _clock(match: re.Match[str]) -> Clock | None:
    """Return "三点半", "8点一刻", "差五分八点", "20:30" as a time of day; an hour in 点 is loose."""
    less = match["less"] or match["to"]
    hour = int(number(match["next"] or match["h"]))
    minute = 30 if match["half"] else {"一": 15, "三": 45}.get(match["q"] or "", 0)
    minute = int(number(match["m"])) if match["m"] else minute
    if less:
        hour, minute = before_hour(hour, int(number(less)))
    return clock_at(hour, minute, loose=":" not in match[0])


def _clocks(match: re.Match[str]) -> When | None:
    """Return one time of day or several ("9点和18点"), with the part of the day in front of the first."""
    if match[0] == "一点" and match.string[match.start() - 1 : match.start()] not in tuple("天日号晚早末周"):
        return None  # "a bit", as in 快一点
    spoken = list(_CLOCK.finditer(match["at"]))
    clocks = [_clock(one) for one in spoken]
    parts = [_part(one) for one in spoken]
    if len(set(parts)) == 1:
        return replace(clocks_at(clocks), part=parts[0])
    last: Part | None = None  # "早上7点和晚上9点": each hour goes with the part in front of it
    for i, (clock, part) in enumerate(zip(clocks, parts, strict=True)):
        last = part or last
        clocks[i] = clock and clock_at(hour_in_part(clock, last) % MIDNIGHT, clock.minute)
    return clocks_at(clocks)


def _part(match: re.Match[str]) -> Part | None:
    said = match.groupdict().get("part")
    return _PARTS[said] if said else None


def _weekday(match: re.Match[str]) -> When:
    said = match["p"] or ""
    weeks = said.count("下") if "下" in said else 0 if said else None
    return When(day=Day(weekday=_WEEKDAYS[match["d"]], weeks=weeks), part=_part(match))


def _weekdays(match: re.Match[str]) -> When:
    said = re.findall(r"[一二三四五六日天末1-7]", match["l"])
    days = [_WEEKDAYS[sign] for sign in said]
    return When(every=Every(weekdays=tuple(days + ([6] if "末" in said else []))))


def _weekday_range(match: re.Match[str]) -> When:
    return weekday_run(_WEEKDAYS[match["a"]], _WEEKDAYS[match["b"]])


def _date(match: re.Match[str]) -> When:
    month, day = int(number(match["mon"])), int(number(match["d"]))
    said = match["y"]
    years = {"今年": 0, "明年": 1, "后年": 2}.get(said or "")
    year = int(number(said.rstrip("年"))) if said and years is None else None
    return When(day=Day(month=month, day=day, year=year, years=years))


def _month_days(match: re.Match[str]) -> When:
    days = tuple(int(number(d)) for d in re.findall(r"\d+|[一二三四五六七八九十]+", match["l"]))
    return When(every=Every(days=days))


def _month_day(match: re.Match[str]) -> When:
    day = int(number(match["d"]))
    if match["p"]:
        return When(day=Day(months=1 if match["p"].startswith("下") else 0, day=day))
    return When(day=Day(day=day))


_SINGLE = {
    "小时": Every(seconds=3600),
    "钟头": Every(seconds=3600),
    "分钟": Every(seconds=60),
    "秒": Every(seconds=1),
}
_SINGLE |= {"天": _DAILY, "日": _DAILY, "周": Every(unit=Unit.WEEK), "星期": Every(unit=Unit.WEEK)}
_SINGLE |= {"礼拜": Every(unit=Unit.WEEK), "月": Every(unit=Unit.MONTH), "年": Every(unit=Unit.YEAR)}
_OFTEN = {
    "一": (9,),
    "两": (9, 18),
    "二": (9, 18),
    "2": (9, 18),
    "三": (9, 14, 19),
    "3": (9, 14, 19),
    "1": (9,),
}
_NEAR = {"今": 0, "明": 1, "后": 2}


def _near(match: re.Match[str]) -> When:
    return When(day=Day(offset=_NEAR[match["d"]]), part=_PARTS[match["s"]])


_REPEATS = (
    _rule(
        r"(?:每天|一天|每日)(?P<n>[一两二三123])次",
        lambda m: When(every=_DAILY, clocks=tuple(Clock(hour=h) for h in _OFTEN[m["n"]])),
    ),
    _rule(r"(?:每周|每个?星期|每个?月|每年|一周|一个月)(?:NUM)次", _UNSUPPORTED),
    _rule(
        r"(?:每|从|每个)?WEEK(?P<a>[一二三四五六日天])(?:到|至|-|~)(?:WEEK)?(?P<b>[一二三四五六日天])",
        _weekday_range,
    ),
    _rule(r"(?:每逢|每个?|逢)(?P<l>WD(?:AND?(?:每个?)?(?:WEEK)?[一二三四五六日天末])*)", _weekdays),
    _rule(r"(?:每个?)?(?:工作日|平日|上班日)", _WORKDAYS),
    _rule(r"每个?月(?:的)?(?:最后一天|月底)|每个?月底", _UNSUPPORTED),
    _rule(r"每个?月(?:的)?第.个?WD|每月第.个?WD", _UNSUPPORTED),
    _rule(r"每个?月(?:的)?(?P<l>SMALL[号日]?(?:AND?SMALL[号日])*)(?<=[号日])", _month_days),
    _rule(
        r"每年(?:的)?(?P<mon>SMALL)月(?P<d>SMALL)[号日]?",
        lambda m: When(every=Every(days=(int(number(m["d"])),), month=int(number(m["mon"])))),
    ),
    _rule(r"每隔?(?P<in>DURATION)(?:一次)?", _every_span),
    _rule(
        r"每隔?(?:一)?个?(?P<u>小时|钟头|分钟|秒|天|日|周|星期|礼拜|月|年)钟?",
        lambda m: When(every=_SINGLE[m["u"]]),
    ),
    _rule(r"每(?P<s>早|晚)(?!上)", lambda m: When(every=_DAILY, part=_PARTS[m["s"]])),
    _rule("每个?PART", lambda m: When(every=_DAILY, part=_part(m))),
    _rule("天天", When(every=_DAILY)),
)
_DAY_RULES = (
    _rule("(?:昨天|昨日|前天|昨晚|昨夜|上周.?|上个?月|去年|刚才)(?:PART)?", _PAST),
    _rule("DURATION(?:之前|以前|前)", _PAST),
    _rule("(?:今天|今日|今儿)", When(day=Day(offset=0))),
    _rule("(?:明天|明日|明儿)(?:一早|大早)?", When(day=Day(offset=1))),
    _rule("大后天", When(day=Day(offset=3))),
    _rule("后天|后日", When(day=Day(offset=2))),
    _rule("(?P<d>[今明后])(?P<s>早|晚)(?:上)?", _near),
    _rule("PART", lambda m: When(part=_part(m))),
    _rule("(?P<p>下下个?|下个?|这个?|本)?WEEK(?P<d>[一二三四五六日天末])(?!月)", _weekday),
    _rule("下个?(?:周|星期|礼拜)", When(day=Day(weeks=1))),
    _rule(
        "(?P<y>(?:\\d{4}|[二〇零一二三四五六七八九]{4})年|今年|明年|后年)?(?P<mon>SMALL)月(?P<d>SMALL)[号日]?",
        _date,
    ),
    _rule(r"(?P<p>下个?月|这个?月|本月)?(?P<d>SMALL)[号日](?![线楼院])", _month_day),
    _rule("下个?月", When(day=Day(months=1))),
    _rule(
        r"(?<![\d/])(?P<mon>\d{1,2})/(?P<d>\d{1,2})(?![\d/])(?P<y>)",
        lambda m: _date(m) if int(m["mon"]) <= MONTHS else None,
    ),
    _rule(r"(?P<y>\d{4})/(?P<mon>\d{1,2})/(?P<d>\d{1,2})(?!\d)", _date),
    _rule("圣诞节", When(day=Day(month=12, day=25))),
    _rule("平安夜", When(day=Day(month=12, day=24))),
    _rule("元旦", When(day=Day(month=1, day=1))),
)
_LIMIT_RULES = (  # said, but no argument of a schedule holds them: better refused than dropped
    _rule("从?(?:ANYPART)?TIME(?:到|至|-|~)(?:ANYPART)?TIME(?:之间)?", _UNSUPPORTED),
    _rule("(?:除了?)WD(?:AND?WD)*(?:以外|之外|外)?", _UNSUPPORTED),
    _rule("直到", _UNSUPPORTED),
    _rule("提前DURATION", When(reason=RefuseReason.UNCLEAR)),
)
_CLOCK_RULES = (
    _rule(r"(?:再过|过|在|等)?(?P<in>DURATION)(?:之后|以后|过后|后)(?!天)", _delay),
    _rule(r"(?:再过|过|再等)(?P<in>DURATION)", _delay),
    _rule(r"(?P<at>(?:ANYPART\s*)?TIME(?:AND(?:ANYPART\s*)?TIME)*)", _clocks),
    _rule("正午", When(clocks=(Clock(hour=12),))),
    _rule("(?:今天)?(?:午夜|零点)", When(clocks=(Clock(hour=24),))),
)
LEAD_RULES = (_rule("(?P<in>DURATION)(?!前|之前|以前)", _delay),)
RULES = (*_REPEATS, *_DAY_RULES, *_LIMIT_RULES, *_CLOCK_RULES)
