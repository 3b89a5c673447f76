"""The example file cannot drift from the code: every key is there, explained, and with its real default."""

from __future__ import annotations

import itertools
import json
import operator
import re
import tomllib
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from bot.config import (
    AccessSection,
    BotSection,
    CliAppSection,
    Config,
    ExecSection,
    FilesSection,
    ImageSection,
    JobsSection,
    LimitsSection,
    LlmSection,
    LogSection,
    MemorySection,
    SearchEngine,
    ServerSection,
    SessionsSection,
    SkillsSection,
    SpeechSection,
    ToolsSection,
    TranscriptionSection,
    WebSection,
    default_config_text,
    load_config,
)
from bot.parts import config_sections

CORE: dict[str, type[BaseModel]] = {
    "bot": BotSection,
    "llm": LlmSection,
    "access": AccessSection,
    "jobs": JobsSection,
    "sessions": SessionsSection,
    "memory": MemorySection,
    "skills": SkillsSection,
    "transcription": TranscriptionSection,
    "speech": SpeechSection,
    "limits": LimitsSection,
    "server": ServerSection,
    "log": LogSection,
    "tools": ToolsSection,
    "tools.web": WebSection,
    "tools.exec": ExecSection,
    "tools.files": FilesSection,
    "tools.image": ImageSection,
}
NAMED: dict[str, type[BaseModel]] = {
    "tools.web.search_engines.brave": SearchEngine,
    "cli_apps.weather": CliAppSection,
}
"""Sections of which there may be several: what the example sets is an example, not a default."""
TOKEN = "123456789:AAF-abcdefghijklmnopqrstuvwxyz012345"
PLATFORM_TOKENS = {
    "TELEGRAM_BOT_TOKEN": TOKEN,
    "DISCORD_BOT_TOKEN": "MTIz.abc.def",
    "SLACK_BOT_TOKEN": "xoxb-1-2-abc",
    "SLACK_APP_TOKEN": "xapp-1-A1-2-abc",
}


def load(tmp_path: Path, text: str) -> Config:
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    return load_config(tmp_path / "c.toml", sections={"channels.telegram": BaseModel})


def uncommented() -> dict[str, Any]:
    """Return the example with every key set; there, `#key` is a key and `# text` a remark."""
    return tomllib.loads(re.sub(r"(?m)^#(?=[a-z_]+ = |\[)", "", default_config_text()))


def test_the_example_is_valid_as_it_stands_and_changes_nothing(tmp_path: Path) -> None:
    example, empty = load(tmp_path, default_config_text()), load(tmp_path, "")
    assert example == empty


def test_the_example_shows_every_key_of_every_core_section_with_its_default() -> None:
    shown = uncommented()
    depends_on_machine = {("bot", "timezone"), ("bot", "data_dir"), ("bot", "workspace")}
    for name, model in (CORE | NAMED).items():
        section = reduce(operator.getitem, name.split("."), shown)
        keys = {key for key in section if f"{name}.{key}" not in CORE}  # without the sections below it
        assert keys == set(model.model_fields), name
        for key in () if name in NAMED else keys - {"search_engines"}:
            default = model.model_fields[key].get_default()
            if default not in (None, PydanticUndefined) and (name, key) not in depends_on_machine:
                assert section[key] == default, f"{name}.{key}"


def test_the_example_is_valid_with_every_key_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "BRAVE_API_KEY", "FALLBACK_KEY", "TICKETS_KEY", "WIKI_CLIENT_SECRET"):
        monkeypatch.setenv(name, "k")
    for variable, token in PLATFORM_TOKENS.items():
        monkeypatch.setenv(variable, token)
    text = re.sub(r"(?m)^#(?=[a-z_]+ = |\[)", "", default_config_text())
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    config = load_config(tmp_path / "c.toml", sections=config_sections())
    assert config.llm.provider == "openai"
    assert config.access.owners == ["telegram:111"]
    assert list(config.tools.web.search_engines) == ["brave"]
    assert config.tools.cli_apps["weather"].command == ["wttr", "--plain"]


def test_each_key_of_the_example_is_explained() -> None:
    lines = default_config_text().splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"#[a-z_]+ = ", line):
            assert before.startswith("# "), line


@pytest.mark.parametrize("name", ["telegram", "discord", "slack", "console"])
def test_the_example_shows_every_key_of_a_channel_and_is_valid(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip(f"channels.{name}", reason="this channel is not part of the checkout")
    for variable, token in PLATFORM_TOKENS.items():
        monkeypatch.setenv(variable, token)
    (cls,) = {
        value.config_cls
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith(f"channels.{name}") and hasattr(value, "config_cls")
    }
    section = uncommented()["channels"][name]
    assert set(section) == set(cls.model_fields)
    lines = "\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in section.items())
    (tmp_path / "c.toml").write_text(f"[channels.{name}]\n{lines}\n")
    config = load_config(tmp_path / "c.toml", sections={f"channels.{name}": cls})
    assert list(config.channels) == [name]
