"""The bot's own sentences: complete in every language, and every one of them used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from bot import texts
from bot.agent.skills import SkillProblem, SkillSource
from bot.errors import ProviderErrorKind
from bot.providers.phrases_intents import RefuseReason
from bot.texts import LANGUAGES, say
from bot.toolkit.mcp.forms import Reason
from bot.toolkit.mcp.questions import End
from bot.toolkit.mcp.server_calls import ServerState

ROOT = Path(__file__).parents[1]
KEYS = sorted(texts._CATALOGUE)


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("key", KEYS)
def test_all_languages_say_it_with_the_same_values(key: str) -> None:
    entries = texts._CATALOGUE[key]
    assert len(entries) == len(LANGUAGES)
    assert all(entry.strip() for entry in entries)
    english = placeholders(entries[0])
    assert [placeholders(entry) for entry in entries[1:]] == [english] * (len(LANGUAGES) - 1)


@pytest.mark.parametrize("key", KEYS)
def test_every_sentence_is_used(key: str) -> None:
    made = {f"fail.{kind}" for kind in ProviderErrorKind} | {f"offline.{reason}" for reason in RefuseReason}
    made |= {f"skills.problem.{problem}" for problem in SkillProblem} | {
        f"skills.from.{source}" for source in SkillSource
    }
    made |= {f"mcp.answer.{end}" for end in End} | {f"mcp.state.{state}" for state in ServerState}
    made |= {f"mcp.misfit.{reason}" for reason in Reason}
    if key in made or key.startswith("help."):
        return
    quoted = re.compile(rf"[\"']{re.escape(key)}[\"']")
    files = [path for folder in ("bot", "channels") for path in (ROOT / folder).rglob("*.py")]
    assert any(quoted.search(path.read_text()) for path in files if path.parent.name != "texts"), key


def test_every_kind_of_failure_and_refusal_has_its_sentence() -> None:
    assert {f"fail.{kind}" for kind in ProviderErrorKind} <= set(KEYS)
    assert {f"offline.{reason}" for reason in RefuseReason} <= set(KEYS)


def test_an_unknown_language_is_english_and_values_are_put_in() -> None:
    assert say("fr", "stopped") == "Stopped."
    assert say("de", "job_paused", title="Tee", id="job-a") == "Pausiert: „Tee“ [job-a]"
    with pytest.raises(KeyError):
        say("en", "no such text")
