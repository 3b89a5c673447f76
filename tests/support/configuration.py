"""Two stand-in channel sections, and loading a text as a configuration file with them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from bot.config import Config, SecretText, Section, load_config
from bot.errors import ConfigError

TOKEN = "123456789:AAF-abcdefghijklmnopqrstuvwxyz012345"


class ChatSection(Section):
    """A channel's section as a plugin would write it."""

    token: SecretText
    allow_from: list[str] | Literal["*"] = Field(default_factory=list)
    spare_tokens: list[SecretText] = Field(default_factory=list)
    proxy: str = ""


SECTIONS: dict[str, type[BaseModel]] = {"channels.telegram": ChatSection, "channels.console": Section}


def load(tmp_path: Path, text: str | bytes) -> Config:
    file = tmp_path / "c.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file, sections=SECTIONS)


def problems(tmp_path: Path, text: str | bytes) -> list[str]:
    """Load a bad file and return its problems without the file's name, which must stand before each."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    lines = str(caught.value).splitlines()
    prefix = f"{tmp_path / 'c.toml'}: "
    assert all(line.startswith(prefix) for line in lines)
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, OSError)
    return [line.removeprefix(prefix) for line in lines]


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing of the machine's own environment reach the loader: home and folder are new and empty."""
    for name in ("DUTIFUL_CONFIG", "STATE_DIRECTORY", "XDG_DATA_HOME", "CREDENTIALS_DIRECTORY", "TZ"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "cwd").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "cwd")
