"""Two questions others ask of the phrases: what does `/remind …` mean, and what does a message order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from bot.clock import from_us
from bot.messages import InboundMessage
from bot.providers.phrases import understand
from bot.providers.phrases_intents import Add, NeedJobs, Refuse

# "/remind me in 10 minutes to stretch": the command is read as the sentence's verb.
_SELF = re.compile(r"(?:me\b|mich\b|我)\s*", re.IGNORECASE)


def read_reminder(text: str, *, now_us: int, zone: str, language: str) -> Mapping[str, object] | str:
    """Return the cron tool's arguments for the words after `/remind`, or the key of the text that says why not."""
    now = from_us(now_us, ZoneInfo(zone))
    if own := _SELF.match(text := text.strip()):
        text = text[own.end() :]
    if not text:
        return "remind_usage"
    refused: Refuse | None = None
    # The bare words first, as people type them after the command; then as a sentence of each language.
    for sentence in (text, f"remind me {text}", f"erinnere mich {text}", f"提醒我{text}"):
        intent = understand(sentence, now=now, language=language)
        if isinstance(intent, Add):
            return intent.arguments
        if isinstance(intent, Refuse):
            refused = refused or intent  # one language's riddle may be another one's plain words
    return "remind_usage" if refused is None else f"offline.{refused.reason}"


# Words without which no text orders a reminder; looked for first, since every answered message comes by here.
_HINT = re.compile(
    r"remind|notify|alarm|timer|wake|every|daily|schedul|erinner|weck|jede[nrsm]?\b|täglich|alle\b|提醒|闹钟|闹铃|叫我|每|定时",
    re.IGNORECASE,
)
_REMINDER = re.compile(r"remind|alarm|timer|erinner|wecker|提醒|闹钟|闹铃", re.IGNORECASE)
_END = re.compile(
    r"\b(?:stop|cancel|remove|delete|end|drop|unschedule)\b|no more|not any\s?more|"
    r"\b(?:stopp?e?|lösch\w*|entfern\w*|beende\w*|streich\w*)\b|nicht mehr|停止|取消|删除|删掉|不要再|别再",
    re.IGNORECASE,
)
_SHORT_CHARS = 200  # a longer reply to a reminder tells a story


def read_order(message: InboundMessage, *, now_us: int, zone: str, language: str) -> str:
    """Say what a person's message orders of reminders, whoever answers it: "add", "remove" or ""."""
    text = message.text
    if message.meta.get("quoted_job") and len(text) <= _SHORT_CHARS and _END.search(text):
        return "remove"
    if not _HINT.search(text):
        return ""
    intent = understand(text, now=from_us(now_us, ZoneInfo(zone)), language=language)
    if isinstance(intent, Add):
        return "add"
    return "remove" if isinstance(intent, NeedJobs) and _REMINDER.search(text) and _END.search(text) else ""
