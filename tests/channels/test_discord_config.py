from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import discord
import pytest
from pydantic import ValidationError

from bot.config import load_config
from bot.parts import config_sections
from channels.config import GroupPolicy
from channels.discord import DiscordChannel
from channels.discord.config import DiscordConfig


def test_defaults_let_nobody_in_and_answer_in_servers_when_mentioned() -> None:
    config = DiscordConfig.model_validate({"token": "x.y.z"})
    assert config.allow_from == []
    assert config.group_policy.of("1", "2") is GroupPolicy.MENTION
    assert config.api_url == "https://discord.com/api/v10"
    assert config.gateway_url == "wss://gateway.discord.gg/"
    assert config.commands
    assert config.long_answers_in_threads


def test_ids_may_be_numbers_or_text_and_are_kept_as_text() -> None:
    config = DiscordConfig.model_validate({"token": "x", "allow_from": [80351110224678912, " 222 "]})
    assert config.allow_from == ["80351110224678912", "222"]
    assert DiscordConfig.model_validate({"token": "x", "allow_from": "*"}).allow_from == "*"


@pytest.mark.parametrize("entry", ["@ada", "ada#1234", "", "-5", "1.5", "١٢"])
def test_names_are_refused_with_the_reason(entry: str) -> None:
    with pytest.raises(ValidationError, match="names can be changed and taken by others"):
        DiscordConfig.model_validate({"token": "x", "allow_from": [entry]})


@pytest.mark.parametrize("entry", [True, 1.5, None, ["1"]])
def test_what_is_no_id_at_all_is_refused(entry: object) -> None:
    with pytest.raises(ValidationError, match="ids are numbers"):
        DiscordConfig.model_validate({"token": "x", "allow_from": [entry]})


@pytest.mark.parametrize("token", ["", "  ", "Bot abc.def", "gehe\u00efm", None, 5])
def test_a_token_that_cannot_be_one_is_refused_without_being_shown(token: object) -> None:
    with pytest.raises(ValidationError) as caught:
        DiscordConfig.model_validate({"token": token})
    assert "abc.def" not in str(caught.value)


def test_the_policy_of_the_narrowest_place_wins() -> None:
    policies = {"default": "off", "1": "mention", "10": "all", "42": "off"}
    policy = DiscordConfig.model_validate({"token": "x", "group_policy": policies}).group_policy
    assert policy.of("42", "10", "1") is GroupPolicy.OFF
    assert policy.of("43", "10", "1") is GroupPolicy.ALL
    assert policy.of("11", "1") is GroupPolicy.MENTION
    assert policy.of("99", "2") is GroupPolicy.OFF


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("api_url", "ftp://x"),
        ("gateway_url", "https://gateway.discord.gg/"),
        ("group_policy", "some"),
        ("group_policy", {"10": "sometimes"}),
        ("group_policy", {"general": "off"}),  # a name: it would hold for no channel
        ("commands", "perhaps"),
        ("guild", 1),
    ],
)
def test_what_cannot_be_meant_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError):
        DiscordConfig.model_validate({"token": "x", key: value})


def test_the_section_is_found_by_its_name() -> None:
    assert config_sections()["channels.discord"] is DiscordConfig
    assert DiscordChannel.config_cls is DiscordConfig


def test_the_package_imports_without_the_sdk() -> None:
    code = (
        "import sys; from channels.discord import DiscordChannel; "
        "print([name for name in ('discord', 'aiohttp', 'pyromark') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # our own code
    assert result.stdout.strip() == "[]"


# --- the newcomer's page

PAGE = (Path(__file__).parents[2] / "deploy" / "DISCORD.md").read_text(encoding="utf-8")


def blocks() -> list[str]:
    """Return the page's pieces of configuration."""
    return re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def section_of(text: str, folder: Path) -> DiscordConfig:
    (folder / "dutiful.toml").write_text(text)
    section = load_config(folder / "dutiful.toml", sections=config_sections()).channels["discord"]
    assert isinstance(section, DiscordConfig)
    return section


def test_the_pages_configuration_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "x.y.z")
    first, policies = blocks()
    assert section_of(first, tmp_path).allow_from == ["80351110224678912"]
    policy = section_of(first + policies, tmp_path).group_policy
    assert policy.of("41771983423143937", "197038439483310086") is GroupPolicy.ALL
    assert policy.of("5", "197038439483310086") is GroupPolicy.MENTION
    assert policy.of("5", "6") is GroupPolicy.OFF


def test_what_the_page_leaves_commented_out_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "x.y.z")
    first = blocks()[0]
    assert section_of(re.sub(r"^#", "", first, flags=re.MULTILINE), tmp_path) == section_of(first, tmp_path)


def test_the_pages_address_asks_for_the_permissions_it_lists() -> None:
    listed = re.findall(r"^   \| ([A-Z][A-Za-z ]+?) \|", PAGE, re.MULTILINE)
    number = re.search(r"permissions=(\d+)", PAGE)
    assert number is not None
    # The SDK's names are those of the page, but for these.
    renamed = {"view_channels": "view_channel"}
    names = [name.lower().replace(" ", "_") for name in listed]
    assert len(names) == 7
    assert discord.Permissions(**{renamed.get(name, name): True for name in names}).value == int(number[1])
