"""Plugins whose class, section or import is wrong: each costs itself, never the start or another command."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.toolkit.loader import ToolLoader
from bot.toolkit.registry import ToolRegistry

ROOT = Path(__file__).parents[2]

TOOL = """
from pydantic import BaseModel, field_validator
from bot.toolkit.base import Tool


class Options(BaseModel):
    size: int = 1


class PlugTool(Tool):
    name = "plug"
    description = "A plugin."
    parameters = {"type": "object", "properties": {}}

    async def execute(self, **kwargs):
        return "done"
"""
SECTION = """
    config_key = "KEY"

    @classmethod
    def config_cls(cls):
        return Options
"""


def install(folder: Path, source: str) -> Path:
    """Lay out an installed distribution with one tool plugin; return the folder for the module path."""
    site = folder / "site"
    info = site / "plug-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "plugmod.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dutiful.tools]\nplug = plugmod:PlugTool\n")
    return site


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Let each test import its own `plugmod`."""
    yield
    sys.modules.pop("plugmod", None)


def load(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[ToolLoader, list[str]]:
    monkeypatch.syspath_prepend(str(install(folder, source)))
    importlib.invalidate_caches()
    loader = ToolLoader(test_classes=[])
    return loader, loader.load(None, ToolRegistry())


def dutiful_tools(folder: Path, source: str, config: str = "") -> subprocess.CompletedProcess[str]:
    """Run `dutiful tools --json` with the plugin installed."""
    site = install(folder, source)
    file = folder / "dutiful.toml"
    file.write_text(f'[bot]\ndata_dir = "{folder}/data"\n[llm]\nprovider = "offline"\n{config}')
    command = [sys.executable, "-m", "bot.cli", "tools", "--json", "--config", str(file)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{site}", "HOME": str(folder)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def status_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    [row] = [row for row in json.loads(done.stdout) if row["name"] == "plug"]
    return str(row["status"])


@pytest.mark.parametrize(
    "key", ["llm", "tools", "web", "disabled", "tools.web", "channels", "channels.telegram", "cli_apps", "a.b", "a b"]
)
def test_a_section_name_that_has_a_meaning_or_is_no_word_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    loader, loaded = load(tmp_path, TOOL + SECTION.replace("KEY", key), monkeypatch)
    assert loaded == []
    assert loader.failures == {"plug": f"its config_key {key!r} is no name for a plugin's section"}
    assert loader.config_sections() == {}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SECTION.replace("return Options", "return dict"), "its config_cls gives no pydantic model"),
        (SECTION.replace("return Options", "return 5"), "its config_cls gives no pydantic model"),
        (SECTION.replace("return Options", "raise SystemExit(3)"), "its config_cls failed: SystemExit: 3"),
        (SECTION.replace("return Options", "raise KeyError('x')"), "its config_cls failed: KeyError: 'x'"),
        ("    config_key = 5\n", "config_key is of type int, not text"),
        ("    @property\n    def config_key(self):\n        return 'x'\n", "config_key is of type property, not text"),
    ],
)
def test_a_section_that_cannot_be_had_leaves_its_plugin_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    loader, loaded = load(tmp_path, TOOL + source.replace("KEY", "weather"), monkeypatch)
    assert loaded == []
    assert reason in loader.failures["plug"]


def test_what_a_plugin_prints_is_not_in_the_answer_of_a_command(tmp_path: Path) -> None:
    done = dutiful_tools(tmp_path, "print('hello from the plugin')\n" + TOOL)
    assert status_of(done) == "on"
    assert "hello from the plugin" in done.stderr


def test_a_plugin_that_does_not_import_does_not_stop_the_start_by_its_section(tmp_path: Path) -> None:
    done = dutiful_tools(tmp_path, "import a_module_that_nobody_has\n" + TOOL, "[plug]\nsize = 2\n")
    assert "a_module_that_nobody_has" in status_of(done)


def test_a_section_whose_check_fails_is_a_problem_of_the_file_without_traceback(tmp_path: Path) -> None:
    check = "    @field_validator('size')\n    @classmethod\n    def check(cls, value):\n"
    check += "        raise RuntimeError(value)\n"
    source = TOOL.replace("size: int = 1\n", f"size: int = 1\n{check}") + SECTION.replace("KEY", "weather")
    done = dutiful_tools(tmp_path, source, "[weather]\nsize = 2\n")
    assert done.returncode == 78
    assert done.stderr.strip().endswith("dutiful.toml: weather: its check failed (RuntimeError)")


def test_a_class_with_an_unusable_property_is_listed_with_the_reason(tmp_path: Path) -> None:
    done = dutiful_tools(tmp_path, TOOL + "    @property\n    def risk(self):\n        raise RuntimeError('no key')\n")
    assert status_of(done) == "off: its properties cannot be read: RuntimeError: no key"
