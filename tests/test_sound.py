"""`[transcription]` and `[speech]`: what they take, whose key they use, and that nothing is loaded for nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.errors import ConfigError
from bot.sound import Sound, build_sound
from tests.support.configuration import isolate, load, problems

SECTIONS = ("transcription", "speech")


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def built(tmp_path: Path, text: str) -> Sound:
    return build_sound(load(tmp_path, text), SystemClock())


def test_without_a_model_nobody_hears_or_speaks(tmp_path: Path) -> None:
    assert built(tmp_path, "") == Sound()
    assert built(tmp_path, '[transcription]\nbase_url = "http://127.0.0.1:1"\n[speech]\napi_key = "k"') == Sound()


def test_each_section_is_for_itself(tmp_path: Path) -> None:
    hearing = built(tmp_path, '[transcription]\nmodel = "m"')
    assert (hearing.transcriber is not None, hearing.speaker) == (True, None)
    speaking = built(tmp_path, '[speech]\nmodel = "m"')
    assert (speaking.transcriber, speaking.speaker is not None) == (None, True)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("model = 5", "model"),
        ('model = ""', "model"),
        ('base_url = "ftp://example.org"', "base_url"),
        ("base_url = true", "base_url"),
        ("api_key = 17", "api_key"),
        ('api_key = "env:NOT_SET_ANYWHERE"', "api_key: the environment variable 'NOT_SET_ANYWHERE' is not set"),
        ('voice = "alloy"', "voice"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_key(tmp_path: Path, section: str, line: str, problem: str) -> None:
    (found,) = problems(tmp_path, f"[{section}]\n{line}\n")
    assert f"{section}.{problem}" in found


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("form", ["env:SOUND_KEY", "file:sound.key", "sound-key-1"])
def test_a_key_comes_in_every_form_of_a_secret_and_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, form: str
) -> None:
    monkeypatch.setenv("SOUND_KEY", "sound-key-1")
    (tmp_path / "sound.key").write_text("sound-key-1\n")
    config = load(tmp_path, f'[{section}]\nmodel = "m"\napi_key = "{form}"\n')
    assert "sound-key-1" in config.secrets()
    assert "sound-key-1" not in repr(config)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_key_that_no_header_can_carry_stops_the_start(tmp_path: Path, section: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{section}\.api_key") as caught:
        built(tmp_path, f'[{section}]\nmodel = "m"\napi_key = "schlüssel"\n')
    assert "schl" not in str(caught.value)


def test_the_start_loads_no_client_for_an_installation_without_sound() -> None:
    script = "import sys; from bot.app import Engine;print({'openai', 'bot.providers.openai_audio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
