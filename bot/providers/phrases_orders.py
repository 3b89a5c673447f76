"""Two questions others ask of the phrases: what does `/remind …` mean, and does a text order a reminder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from bot.clock import from_us
from bot.providers.phrases import understand
from bot.providers.phrases_intents import Add, Refuse

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


def orders_reminder(text: str, *, now_us: int, zone: str, language: str) -> bool:
    """Say whether a person's text asks for a new reminder, whoever answers it."""
    if not _HINT.search(text):
        return False
    return isinstance(understand(text, now=from_us(now_us, ZoneInfo(zone)), language=language), Add)
