"""The newcomer's page for Telegram: what it tells people to paste is taken."""

from __future__ import annotations

import re
import tomllib

import pytest

from channels.config import GroupPolicy
from channels.telegram.config import TelegramConfig
from tests.support.service import ROOT

PAGE = (ROOT / "deploy" / "TELEGRAM.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_each_block_is_a_configuration(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "1:x")
    section = tomllib.loads(block)["channels"]["telegram"]
    TelegramConfig.model_validate({"token": "env:TELEGRAM_BOT_TOKEN", **section})


def test_the_page_names_each_policy_and_each_key_of_the_webhook() -> None:
    assert len(BLOCKS) == 3
    assert all(f'"{policy}"' in PAGE for policy in GroupPolicy)
    assert all(key in PAGE for key in TelegramConfig.model_fields if key != "api_url")
