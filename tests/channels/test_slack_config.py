"""The `[channels.slack]` section, and that the channel is found and built without its SDK."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from bot.config import load_config
from bot.parts import config_sections
from channels.config import GroupPolicy
from channels.slack import SlackChannel
from channels.slack.config import SlackConfig

TOKENS = {"bot_token": "xoxb-1-secret", "app_token": "xapp-1-secret"}


def test_defaults_let_nobody_in_and_answer_in_channels_when_mentioned() -> None:
    config = SlackConfig.model_validate(TOKENS)
    assert config.allow_from == []
    assert config.group_policy.of("C1") is GroupPolicy.MENTION
    assert config.api_url == "https://slack.com/api/"


def test_ids_of_people_and_bots_are_taken_and_everybody() -> None:
    config = SlackConfig.model_validate({**TOKENS, "allow_from": ["U0ADA", " W123AB ", "B0OTHER"]})
    assert config.allow_from == ["U0ADA", "W123AB", "B0OTHER"]
    assert SlackConfig.model_validate({**TOKENS, "allow_from": "*"}).allow_from == "*"


@pytest.mark.parametrize("entry", ["@ada", "ada", "Ada Lovelace", "", "u0ada", "C0TEAM00001", "U", "U0ÄDA"])
def test_names_are_refused_with_the_reason(entry: str) -> None:
    with pytest.raises(ValidationError, match="names can be changed"):
        SlackConfig.model_validate({**TOKENS, "allow_from": [entry]})


@pytest.mark.parametrize("entry", [True, 5, None, ["U0ADA"]])
def test_what_is_no_id_at_all_is_refused(entry: object) -> None:
    with pytest.raises(ValidationError, match="ids are text"):
        SlackConfig.model_validate({**TOKENS, "allow_from": [entry]})


def test_a_channel_may_have_a_policy_of_its_own() -> None:
    section = {**TOKENS, "group_policy": {"default": "off", "C0TEAM00001": "all"}}
    policies = SlackConfig.model_validate(section).group_policy
    assert policies.of("C0TEAM00001") is GroupPolicy.ALL
    assert policies.of("C0OTHER") is GroupPolicy.OFF


@pytest.mark.parametrize("name", ["#general", "general", "U0ADA000001"])
def test_a_policy_for_what_is_no_channels_id_is_refused_since_it_would_never_hold(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a channel's id such as C0123ABCD"):
        SlackConfig.model_validate({**TOKENS, "group_policy": {name: "off"}})


@pytest.mark.parametrize(
    ("mixed", "words"),
    [
        ({"bot_token": "xapp-1-secret"}, "is an app-level token.*bot_token takes the Bot User OAuth Token"),
        ({"bot_token": "xoxp-1-secret"}, "is a user's token"),
        ({"app_token": "xoxb-1-secret"}, "is a bot token.*app_token takes the App-Level Token"),
        ({"bot_token": "xoxb-1 secret"}, "white space"),
        ({"app_token": ""}, "app_token"),
        ({"bot_token": None}, "bot_token"),
    ],
)
def test_tokens_that_were_mixed_up_are_told_plainly_and_not_shown(mixed: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        SlackConfig.model_validate({**TOKENS, **mixed})
    assert "secret" not in str(caught.value)


def test_tokens_are_never_shown() -> None:
    assert "secret" not in repr(SlackConfig.model_validate(TOKENS))


def test_tokens_may_be_named_instead_of_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-from-env")
    (tmp_path / "token").write_text("xoxb-from-file\n")
    lines = ["[channels.slack]", 'bot_token = "file:token"', 'app_token = "env:SLACK_APP_TOKEN"']
    (tmp_path / "dutiful.toml").write_text("\n".join(lines))
    section = load_config(tmp_path / "dutiful.toml", sections=config_sections()).channels["slack"]
    assert isinstance(section, SlackConfig)
    assert section.bot_token.get_secret_value() == "xoxb-from-file"
    assert section.app_token.get_secret_value() == "xapp-from-env"


def test_the_package_imports_without_its_sdk() -> None:
    heavy = "{'slack_sdk', 'slack_bolt', 'aiohttp', 'pyromark'}"
    code = f"import sys, channels.slack; print([n for n in sys.modules if n.split('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_channel_is_the_packages_only_one() -> None:
    assert SlackChannel.name == "slack"
    assert SlackChannel.config_cls is SlackConfig


# --- the newcomer's page

PAGE = (Path(__file__).parents[2] / "deploy" / "SLACK.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_pages_manifest_has_every_scope_and_socket_mode() -> None:
    from channels.slack.api import NEEDED_SCOPE, WANTED_SCOPES  # the SDK

    manifest = yaml.safe_load(blocks("yaml")[0])
    assert {NEEDED_SCOPE, *WANTED_SCOPES, "commands", "reactions:read"} <= set(
        manifest["oauth_config"]["scopes"]["bot"]
    )
    settings = manifest["settings"]
    assert settings["socket_mode_enabled"] is settings["interactivity"]["is_enabled"] is True
    events = settings["event_subscriptions"]["bot_events"]
    assert {"app_mention", "message.im", "message.channels", "message.groups", "message.mpim"} <= set(events)
    assert manifest["features"]["app_home"]["messages_tab_enabled"] is True
    assert [command["command"] for command in manifest["features"]["slash_commands"]] == ["/dutiful"]


def test_the_pages_configuration_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-1")
    (tmp_path / "dutiful.toml").write_text(blocks("toml")[0])
    section = load_config(tmp_path / "dutiful.toml", sections=config_sections()).channels["slack"]
    assert isinstance(section, SlackConfig)
    assert section.allow_from == ["U0123ABCD"]
    policies = re.search(r"^# (group_policy = \{.*)$", PAGE, re.MULTILINE)
    assert policies is not None
    (tmp_path / "dutiful.toml").write_text(blocks("toml")[0] + policies[1])
    section = load_config(tmp_path / "dutiful.toml", sections=config_sections()).channels["slack"]
    assert isinstance(section, SlackConfig)
    assert section.group_policy.of("C0123ABCD") is GroupPolicy.ALL
