"""The configuration contract: where the file is and what it means."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.config import find_config, load_config
from bot.errors import ConfigError
from tests.support.configuration import TOKEN, ChatSection, isolate, load, problems


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def test_an_empty_file_means_defaults_that_allow_nobody_and_need_no_network(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert config.llm.provider == "offline"
    assert config.channels == {}
    assert config.access.owners == []
    assert config.server.address == ("127.0.0.1", 8787)
    assert config.limits.steps_per_turn == 40
    assert config.jobs.min_interval_s == 60
    assert config.bot.data_dir == tmp_path / "home/.local/share/dutiful"
    assert config.bot.workspace == tmp_path / "home/.local/share/dutiful/workspace"
    assert config.secrets() == frozenset()


def test_a_channel_is_on_when_its_section_is_present(tmp_path: Path) -> None:
    config = load(tmp_path, f'[channels.telegram]\ntoken = "{TOKEN}"\n')
    assert list(config.channels) == ["telegram"]
    section = config.channels["telegram"]
    assert isinstance(section, ChatSection)
    assert section.token.get_secret_value() == TOKEN
    assert section.allow_from == []


# --- where the file is -----------------------------------------------------------------------------------


def test_files_are_looked_for_in_the_documented_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home/.config/dutiful/config.toml"
    home.parent.mkdir(parents=True)
    home.touch()
    assert find_config() == home
    Path("dutiful.toml").touch()
    assert find_config() == Path("dutiful.toml")
    other = tmp_path / "other.toml"
    other.touch()
    monkeypatch.setenv("DUTIFUL_CONFIG", str(other))
    assert find_config() == other
    named = tmp_path / "named.toml"
    named.touch()
    assert find_config(named) == named


def test_a_named_file_that_is_missing_is_an_error_and_no_other_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("dutiful.toml").touch()
    with pytest.raises(ConfigError, match=r"no\.toml: there is no such file"):
        load_config(tmp_path / "no.toml", sections={})
    monkeypatch.setenv("DUTIFUL_CONFIG", str(tmp_path / "env.toml"))
    with pytest.raises(ConfigError, match=r"env\.toml \(from \$DUTIFUL_CONFIG\): there is no such file"):
        load_config(sections={})
    with pytest.raises(ConfigError, match="not a usable path"):
        load_config("a\0b", sections={})


def test_a_found_file_that_cannot_be_used_is_an_error_and_no_other_is_taken(tmp_path: Path) -> None:
    home = tmp_path / "home/.config/dutiful/config.toml"
    home.parent.mkdir(parents=True)
    home.touch()
    Path("dutiful.toml").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"dutiful\.toml: cannot be read: No such file"):
        load_config(sections={})


def test_a_folder_a_pipe_and_a_large_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        load_config(tmp_path, sections={})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not an ordinary file"):
        load_config(tmp_path / "pipe", sections={})
    with (tmp_path / "large").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    with pytest.raises(ConfigError, match="is larger than 1048576 bytes"):
        load_config(tmp_path / "large", sections={})
    assert load_config("/dev/null", sections={}).llm.provider == "offline"


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.toml").symlink_to("c.toml")
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        load_config(tmp_path / "c.toml", sections={})


def test_text_must_be_utf8_and_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    assert load(tmp_path, b'\xef\xbb\xbf[bot]\nname = "B"\n').bot.name == "B"
    assert problems(tmp_path, b'[bot]\nname = "\xff"\n') == ["is not UTF-8 text (byte 14)"]
    assert problems(tmp_path, b"\x00")[0].startswith("is not valid TOML: ")


@pytest.mark.parametrize(
    "text", ["[bot]\nname = 'x',\n", "[bot\n", "[bot]\n\n[bot]\n", "x = " + "[" * 5000, "x = " + "9" * 5000]
)
def test_broken_toml_is_one_error(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(("is not valid TOML: ", "is nested too deeply"))


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "[bot]\nname = 'x',\n")
    assert "line 2" in problem


# --- what defaults depend on -----------------------------------------------------------------------------


def test_the_provider_follows_from_key_and_url_unless_it_is_named(tmp_path: Path) -> None:
    assert load(tmp_path, "[llm]\napi_key = 'k'").llm.provider == "openai"
    assert load(tmp_path, "[llm]\nbase_url = 'http://127.0.0.1:1/v1/'").llm.provider == "openai"
    assert load(tmp_path, "[llm]\napi_key = 'k'\nprovider = 'offline'").llm.provider == "offline"


def test_data_lives_in_the_state_directory_then_xdg_then_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg")
    assert load(tmp_path, "").bot.data_dir == Path("/xdg/dutiful")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/dutiful:/var/lib/other")
    assert load(tmp_path, "").bot.data_dir == Path("/var/lib/dutiful")
    config = load(tmp_path, "[bot]\ndata_dir = '~/d'")
    assert config.bot.data_dir == tmp_path / "home/d"
    assert config.bot.workspace == tmp_path / "home/d/workspace"


def test_relative_paths_start_at_the_files_folder(tmp_path: Path) -> None:
    config = load(tmp_path, "[bot]\ndata_dir = 'data'\nworkspace = 'files'")
    assert (config.bot.data_dir, config.bot.workspace) == (tmp_path / "data", tmp_path / "files")


def test_importing_the_configuration_needs_neither_the_network_nor_the_sdks() -> None:
    code = "import sys, bot.config; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "pydantic" in loaded
    assert loaded.isdisjoint({"structlog", "rich", "aiohttp", "telegram", "openai", "httpx"})


def test_a_secret_that_was_not_read_is_listed_and_is_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "dutiful.toml"
    file.write_text('[llm]\napi_key = "file:absent"\n')
    loaded = load_config(file, sections={}, secrets=False)
    assert loaded.unread == {"llm.api_key": "file:absent cannot be read: No such file or directory"}
    assert loaded.secrets() == frozenset()
    with pytest.raises(ConfigError, match=r"llm\.api_key: file:absent cannot be read"):
        loaded.require_secrets()
