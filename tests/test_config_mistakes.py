"""Every mistake in a configuration is named with file, key and problem; no error shows a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config.fields import check_owner
from bot.errors import ConfigError
from tests.support.configuration import TOKEN, isolate, load, problems


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        (
            "[channels.telegram]\ntoken = 'x'\nalow_from = ['1']",
            "channels.telegram.alow_from",
            "unknown key; did you mean 'allow_from'?",
        ),
        ("[bot]\nTimezone = 'UTC'", "bot.Timezone", "unknown key; did you mean 'timezone'?"),
        ("[bot]\nowners = ['telegram:1']", "bot.owners", "unknown key; it belongs in [access]"),
        ("owners = ['telegram:1']", "owners", "unknown key; it belongs in [access]"),
        ("[chanels.telegram]\ntoken = 'x'", "chanels", "unknown section; did you mean 'channels'?"),
        (
            "[channels.telegran]\ntoken = 'x'",
            "channels.telegran",
            "unknown channel; did you mean 'telegram'?",
        ),
        ("[channels.matrix]", "channels.matrix", "unknown channel; known: console, telegram"),
        (
            "[access]\nowners = ['telegran:1']",
            "access.owners[0]",
            "unknown channel 'telegran'; did you mean 'telegram'?",
        ),
        ("channels = 1", "channels", "must be a table of sections such as [channels.NAME]"),
        (
            "[channels]\ntelegram = true",
            "channels.telegram",
            "must be a section, [channels.telegram], not true or false",
        ),
        ("bot = 'x'", "bot", "must be a section, [bot], not text"),
        ("[jobs]\nmin_interval_s = '60'", "jobs.min_interval_s", "must be a whole number, not text"),
        ("[jobs]\nmin_interval_s = true", "jobs.min_interval_s", "must be a whole number, not true or false"),
        ("[jobs]\nmin_interval_s = 1.5", "jobs.min_interval_s", "must be a whole number, not a number"),
        ("[jobs]\nmin_interval_s = 0", "jobs.min_interval_s", "must be greater than or equal to 1, not 0"),
        ("[limits]\ntool_timeout_s = inf", "limits.tool_timeout_s", "must be a finite number, not a number"),
        ("[limits]\npreview_chars = 20_000", "limits", "preview_chars is larger than tool_result_chars"),
        ("[bot]\nname = 7", "bot.name", "must be text in quotes, not a whole number"),
        ("[bot]\nlanguage = 'fr'", "bot.language", "must be 'en', 'de' or 'zh'"),
        ("[bot]\nname = 2026-01-01", "bot.name", "must be text in quotes, not a date or time"),
        ("[bot]\ndata_dir = 1", "bot.data_dir", "must be text in quotes, not a whole number"),
        ('[bot]\nworkspace = "a\\u0000b"', "bot.workspace", "is not a usable path"),
        ("[access]\nowners = 'telegram:1'", "access.owners", "must be a list, not text"),
        ("[access]\nowners = [5]", "access.owners[0]", "must be text in quotes, not a whole number"),
        ("[log]\nlevel = 'loud'", "log.level", "must be 'debug', 'info', 'warning' or 'error'"),
        ("[llm]\nprovider = 'openai'", "llm", "provider 'openai' needs api_key or base_url"),
        (
            "[llm]\nbase_url = 'localhost:11434'",
            "llm.base_url",
            "must be a URL that begins with http:// or https:// and names a host",
        ),
        ("[llm]\ntemperature = 3", "llm.temperature", "must be less than or equal to 2, not 3"),
        ("[channels.telegram]", "channels.telegram.token", "is required"),
        (
            "[channels.telegram]\ntoken = 'x'\nallow_from = [1]",
            "channels.telegram.allow_from[0]",
            "must be text in quotes, not a whole number",
        ),
    ],
)
def test_a_mistake_is_named_with_file_key_and_problem(tmp_path: Path, text: str, key: str, problem: str) -> None:
    assert problems(tmp_path, text) == [f"{key}: {problem}"]


def test_all_problems_of_a_file_are_listed_at_once(tmp_path: Path) -> None:
    text = "[bto]\n[bot]\nname = 1\ntimezone = 'x'\n[log]\nlevel = 1\n[channels.telegram]\nalow_from = []\n"
    keys = {problem.partition(":")[0] for problem in problems(tmp_path, text)}
    assert keys == {
        "bto",
        "bot.name",
        "bot.timezone",
        "log.level",
        "channels.telegram.alow_from",
        "channels.telegram.token",
    }


def test_a_bad_zone_is_refused_with_key_value_and_close_names(tmp_path: Path) -> None:
    (mars,) = problems(tmp_path, "[bot]\ntimezone = 'Mars/Phobos'")
    assert mars.startswith("bot.timezone: 'Mars/Phobos' is not a time zone")
    (berlin,) = problems(tmp_path, "[bot]\ntimezone = 'Europe/Berln'")
    assert "Europe/Berlin" in berlin
    for name in ("", "CST+8", "/etc/passwd", "../UTC", "Europe", "a\\u0000"):
        (problem,) = problems(tmp_path, f'[bot]\ntimezone = "{name}"')
        assert problem.startswith("bot.timezone: ")


def test_the_machines_zone_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Asia/Shanghai")
    assert load(tmp_path, "").bot.zone.key == "Asia/Shanghai"
    assert load(tmp_path, "[bot]\ntimezone = 'Europe/Berlin'").bot.zone.key == "Europe/Berlin"


@pytest.mark.parametrize(
    "owner",
    [
        "telegram:@bob",
        "telegram:Bob",
        "telegram:-100123",
        "telegram:",
        "111",
        "telegram:1 2",
        "Telegram:1",
        "discord:bob",
        "discord:012",
        "slack:bob",
    ],
)
def test_an_owner_is_a_stable_id_and_never_a_name(tmp_path: Path, owner: str) -> None:
    (problem,) = problems(tmp_path, f"[access]\nowners = ['{owner}']")
    assert problem.startswith("access.owners: ")
    assert repr(owner) in problem


@pytest.mark.parametrize("owner", ["discord:12", "discord:80351110224678912", "slack:U1", "slack:W012AB3CD"])
def test_an_id_may_be_short_where_a_server_gives_short_ones(owner: str) -> None:
    check_owner(owner)


def test_good_owners_are_taken_as_they_are(tmp_path: Path) -> None:
    owners = ["telegram:111", "console:local"]
    assert load(tmp_path, f"[access]\nowners = {owners}").access.owners == owners


@pytest.mark.parametrize(
    "listen", ["8787", "host:", ":8787", "host:99999", "host:8x", "a b:1", "http://h:1", "host:1\\n"]
)
def test_a_listener_needs_host_and_port(tmp_path: Path, listen: str) -> None:
    (problem,) = problems(tmp_path, f'[server]\nlisten = "{listen}"')
    assert problem.startswith("server.listen: ")


def test_a_listener_may_be_off_or_ipv6(tmp_path: Path) -> None:
    assert load(tmp_path, '[server]\nlisten = "off"').server.address is None
    assert load(tmp_path, '[server]\nlisten = ""').server.address is None
    assert load(tmp_path, '[server]\nlisten = "[::1]:0"').server.address == ("::1", 0)


# --- secrets ---------------------------------------------------------------------------------------------


def test_secrets_come_from_environment_file_credential_or_the_text_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", " from-env ")
    (tmp_path / "key").write_text("from-file\n")
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials/key").write_text("from-credential\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    config = load(
        tmp_path,
        "[llm]\napi_key = 'env:MY_KEY'\nbase_url = 'http://user:pass-word@host/v1'\n[channels.telegram]\n"
        "token = 'file:key'\nspare_tokens = ['credential:key', 'literal']\nproxy = 'http://u:proxy-pw@h'\n",
    )
    assert config.secrets() == {
        "from-env",
        "from-file",
        "from-credential",
        "literal",
        "pass-word",
        "proxy-pw",
    }
    assert not any(secret in f"{config} {config.channels}" for secret in config.secrets() - {"pass-word", "proxy-pw"})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("env:NOPE", "the environment variable 'NOPE' is not set"),
        ("env:EMPTY", "the environment variable 'EMPTY' is not set"),
        ("env:", "the environment variable '' is not set"),
        ("file:gone", "file:gone cannot be read: No such file or directory"),
        ("file:.", "file:. cannot be read: Is a directory"),
        ("file:empty", "file:empty is empty"),
        ("file:binary", "file:binary is not UTF-8 text"),
        ("file:large", "file:large is larger than 65536 bytes"),
        ("file:two", "file:two contains line breaks or control characters"),
        ("credential:key", "credential:key needs $CREDENTIALS_DIRECTORY (LoadCredential= of a systemd unit)"),
        ("", "the value is empty"),
    ],
)
def test_a_secret_that_is_missing_or_unusable_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    monkeypatch.setenv("EMPTY", "  ")
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    (tmp_path / "two").write_text("one\ntwo")
    assert problems(tmp_path, f"[llm]\napi_key = '{value}'") == [f"llm.api_key: {problem}"]


def test_a_credential_cannot_name_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "secret").write_text("x")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    (problem,) = problems(tmp_path, "[llm]\napi_key = 'credential:../secret'")
    assert problem == "llm.api_key: credential:../secret is not the name of a credential"


@pytest.mark.parametrize(
    "text",
    [
        f"[channels.telegram]\ntokn = '{TOKEN}'",
        f"[channels.telegram]\ntoken = ['{TOKEN}']",
        f"[channels.telegram]\ntoken = '{TOKEN}'\nallow_from = 3",
        f"[access]\nowners = ['{TOKEN}']",
        f"[bot]\ntimezone = '{TOKEN}'",
        f"[log]\nlevel = '{TOKEN}'",
        f"[llm]\nbase_url = '{TOKEN}'",
        f"[channels]\ntelegram = '{TOKEN}'",
        f"[channels.telegram]\ntoken = '{TOKEN}",
    ],
)
def test_no_error_shows_a_secret_wherever_it_was_written(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None
