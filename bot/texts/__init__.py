"""Every sentence the bot itself writes to people, in one catalogue, kept by subject in the modules beside this one.

Each text exists in English, German and Chinese under the same key with the same `{names}`; a test holds them
to that. Text for models and for logs is English and stays where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.texts import channels, discord, general, memory, models, sessions, skills, voice

LANGUAGES = ("en", "de", "zh")

_SUBJECTS = (channels, discord, general, memory, models, sessions, skills, voice)
_CATALOGUE: Mapping[str, tuple[str, str, str]] = {
    key: texts for subject in _SUBJECTS for key, texts in subject.SENTENCES.items()
}

_GERMAN_MARKS = str.maketrans(",.", ".,")


def say(language: str, key: str, **values: object) -> str:
    """Return the text under `key` in a language (English when it is not one of `LANGUAGES`).

    Raises:
        KeyError: no such text, or a value it needs is missing.
    """
    index = LANGUAGES.index(language) if language in LANGUAGES else 0
    return _CATALOGUE[key][index].format(**values)


def figure(language: str, value: float, *, decimals: int = 0) -> str:
    """Return a number as the language writes it: 1,234.5 in English and Chinese, 1.234,5 in German."""
    text = f"{value:,.{decimals}f}"
    return text.translate(_GERMAN_MARKS) if language == "de" else text


def keys() -> list[str]:
    """Return all keys."""
    return list(_CATALOGUE)
