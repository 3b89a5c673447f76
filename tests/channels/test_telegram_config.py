from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from bot.config import load_config
from bot.parts import config_sections
from channels.config import GroupPolicy
from channels.telegram import TelegramChannel
from channels.telegram.config import TelegramConfig


def test_defaults_let_nobody_in_and_answer_in_groups_when_mentioned() -> None:
    config = TelegramConfig.model_validate({"token": "1:x"})
    assert config.allow_from == []
    assert config.group_policy.of("-1001") is GroupPolicy.MENTION
    assert config.api_url == "https://api.telegram.org"


def test_ids_may_be_numbers_or_text_and_are_kept_as_text() -> None:
    config = TelegramConfig.model_validate({"token": "1:x", "allow_from": [111, "222", -1001, " 333 "]})
    assert config.allow_from == ["111", "222", "-1001", "333"]
    assert TelegramConfig.model_validate({"token": "1:x", "allow_from": "*"}).allow_from == "*"


@pytest.mark.parametrize("entry", ["@ada", "ada", "", "1.5", "١٢"])
def test_names_are_refused_with_the_reason(entry: str) -> None:
    with pytest.raises(ValidationError, match="usernames can change hands"):
        TelegramConfig.model_validate({"token": "1:x", "allow_from": [entry]})


@pytest.mark.parametrize("entry", [True, 1.5, None, ["1"]])
def test_what_is_no_id_at_all_is_refused(entry: object) -> None:
    with pytest.raises(ValidationError, match="ids are numbers"):
        TelegramConfig.model_validate({"token": "1:x", "allow_from": [entry]})


@pytest.mark.parametrize("token", ["", "  ", "1: x", None, 5])
def test_a_token_that_cannot_be_one_is_refused_without_being_shown(token: object) -> None:
    with pytest.raises(ValidationError) as caught:
        TelegramConfig.model_validate({"token": token})
    assert "1: x" not in str(caught.value)


def test_a_token_from_a_file_loses_its_newline_and_is_never_shown() -> None:
    config = TelegramConfig.model_validate({"token": "1:secret\n"})
    assert config.token.get_secret_value() == "1:secret"
    assert "1:secret" not in repr(config)


def test_a_token_may_be_named_instead_of_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "1:from-env")
    (tmp_path / "token").write_text("1:from-file\n")
    (tmp_path / "dutiful.toml").write_text('[channels.telegram]\ntoken = "file:token"\n')
    assert TelegramConfig.model_validate({"token": "env:TELEGRAM_BOT_TOKEN"}).token.get_secret_value() == "1:from-env"
    config = load_config(tmp_path / "dutiful.toml", sections=config_sections())
    assert "1:from-file" in config.secrets()  # so that no log line shows it


@pytest.mark.parametrize(
    "extra", [{"tokn": "x"}, {"group_policy": "sometimes"}, {"allow_from": "everybody"}, {"api_url": "ftp://x"}]
)
def test_unknown_keys_and_values_are_refused(extra: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        TelegramConfig.model_validate({"token": "1:x", **extra})


@pytest.mark.parametrize("chat", ["1001234567890", "@lab", "Lab"])
def test_a_policy_for_what_is_no_groups_id_is_refused_since_it_would_never_hold(chat: str) -> None:
    with pytest.raises(ValidationError, match="is not a group's id such as -1001234567890"):
        TelegramConfig.model_validate({"token": "1:x", "group_policy": {chat: "off"}})


def test_importing_the_channel_loads_neither_sdk_nor_renderer() -> None:
    code = (
        "import sys, channels.telegram; "
        "print([m for m in ('telegram', 'httpx', 'telegramify_markdown', 'pyromark') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "[]"


def test_the_package_has_exactly_one_channel() -> None:
    import channels.telegram as package
    from bot.interfaces import Channel

    found = [
        item
        for item in vars(package).values()
        if isinstance(item, type) and issubclass(item, Channel) and item is not Channel
    ]
    assert found == [TelegramChannel]
    assert TelegramChannel.config_cls is TelegramConfig


@pytest.mark.parametrize(
    ("written", "advice"),
    [(111, "must be a list of ids such as"), ("111", "must be a list of ids such as"), (["*"], "without brackets")],
)
def test_a_list_of_people_in_another_form_is_told_how_it_is_written(written: object, advice: str) -> None:
    with pytest.raises(ValidationError, match=advice):
        TelegramConfig.model_validate({"token": "1:x", "allow_from": written})


# --- webhook ---------------------------------------------------------------------------------------------

HOOK = {"token": "1:x", "mode": "webhook", "webhook_url": "https://bot.example/telegram"}


def test_a_webhook_listens_on_this_machine_only_unless_told_otherwise() -> None:
    config = TelegramConfig.model_validate(HOOK)
    assert config.webhook_address == ("127.0.0.1", 8443)
    other = TelegramConfig.model_validate({**HOOK, "webhook_listen": "[::1]:9000"})
    assert other.webhook_address == ("::1", 9000)


def test_a_webhook_without_its_address_is_refused() -> None:
    with pytest.raises(ValidationError, match=r'mode = "webhook" needs webhook_url'):
        TelegramConfig.model_validate({"token": "1:x", "mode": "webhook"})


@pytest.mark.parametrize(
    ("key", "value", "advice"),
    [
        ("mode", "push", "polling"),
        ("webhook_url", "http://bot.example/x", "must begin with https://"),
        ("webhook_url", "bot.example", "must begin with https://"),
        ("webhook_url", "https:///x", "must begin with https://"),
        ("webhook_url", "https://bot.example/a b", "must begin with https://"),
        ("webhook_url", "https://me:pw@bot.example/x", "must have neither a user"),
        ("webhook_url", "https://bot.example/x?key=1", "must have neither a user"),
        ("webhook_url", "https://bot.example:9000/x", "Telegram calls only 443, 80, 88, 8443"),
        ("webhook_url", "https://bot.example:port/x", "is no URL"),
        ("webhook_listen", "8443", "host:port"),
        ("webhook_listen", "off", "host:port"),
        ("webhook_secret", "not allowed!", "letters, digits"),
        ("webhook_secret", "x" * 257, "letters, digits"),
        ("webhook_secret", "", "is empty"),
        ("seen_reaction", "eyes", "one emoji"),
        ("seen_reaction", "👀" * 17, "one emoji"),
    ],
)
def test_mistakes_are_told_with_what_is_right(key: str, value: str, advice: str) -> None:
    with pytest.raises(ValidationError, match=advice) as caught:
        TelegramConfig.model_validate({**HOOK, key: value})
    assert "not allowed!" not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_the_derived_secret_is_stable_depends_on_the_token_and_does_not_show_it() -> None:
    one, same, other = (TelegramConfig.model_validate({**HOOK, "token": token}) for token in ("1:x", "1:x", "2:y"))
    assert one.webhook_password == same.webhook_password != other.webhook_password
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,256}", one.webhook_password)
    assert TelegramConfig.model_validate({**HOOK, "webhook_secret": "own"}).webhook_password == "own"
