"""What the words after `/remind` mean, whatever the bot's language."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.clock import to_us
from bot.providers.phrases_orders import read_reminder

NOW_US = to_us(datetime(2026, 11, 29, 12, 0, tzinfo=UTC))


def read(text: str, language: str = "en") -> object:
    return read_reminder(text, now_us=NOW_US, zone="Europe/Berlin", language=language)


@pytest.mark.parametrize("language", ["en", "de", "zh"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("in 2 minutes stretch", "stretch"),
        ("me in 2 minutes to stretch", "stretch"),
        ("me to stretch in 2 minutes", "stretch"),
        ("in 2 Minuten an den Tee", "Tee"),
        ("mich in 2 Minuten an den Tee", "Tee"),
        ("2分钟后喝水", "喝水"),
        ("我2分钟后喝水", "喝水"),
    ],
)
def test_the_command_reads_on_as_a_sentence_in_any_language(text: str, said: str, language: str) -> None:
    assert read(text, language) == {"action": "add", "kind": "reminder", "text": said, "in_seconds": 120}


def test_a_word_that_only_begins_like_me_belongs_to_the_reminder() -> None:
    assert read("message Bob in 2 minutes") == {
        "action": "add", "kind": "reminder", "text": "message Bob", "in_seconds": 120,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [("yesterday at 9 stretch", "offline.past"), ("stretch", "offline.no_time"), ("me", "remind_usage")],
)
def test_what_is_missing_is_named(text: str, reason: str) -> None:
    assert read(text) == reason
