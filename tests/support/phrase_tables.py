"""The moment, the jobs and the short forms that the tables of phrases are written with."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot.providers.phrases_intents import Add, Ambiguous, Intent, KnownJob, ListJobs, Refuse, RefuseReason

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 29, 22, 14, tzinfo=BERLIN)  # a Sunday

STRETCH, WASSER, DRINK = "job-aaa111", "job-bbb222", "job-ccc333"
ALL = (STRETCH, WASSER, DRINK)
JOBS = (
    KnownJob(id=STRETCH, name="", text="stretch"),
    KnownJob(id=WASSER, name="Wasser", text="Wasser trinken"),
    KnownJob(id=DRINK, name="", text="喝水"),
)

LIST = ListJobs()
WHICH = Ambiguous(candidates=JOBS)
PAST = Refuse(reason=RefuseReason.PAST)
NO_TIME = Refuse(reason=RefuseReason.NO_TIME)
NO_TEXT = Refuse(reason=RefuseReason.NO_TEXT)
UNCLEAR = Refuse(reason=RefuseReason.UNCLEAR)
TOO_OFTEN = Refuse(reason=RefuseReason.TOO_OFTEN)
UNSUPPORTED = Refuse(reason=RefuseReason.UNSUPPORTED)

Table = tuple[tuple[str, Intent | None], ...]


def _add(text: str, field: str, value: Any) -> Add:
    return Add(arguments={"action": "add", "kind": "reminder", "text": text, field: value}, text=text)


def at(moment: str, text: str) -> Add:
    return _add(text, "at", moment)


def after(seconds: int, text: str) -> Add:
    return _add(text, "in_seconds", seconds)


def every(seconds: int, text: str) -> Add:
    return _add(text, "every_seconds", seconds)


def cron(expression: str, text: str) -> Add:
    return _add(text, "cron_expr", expression)
