"""The stage of every journey: both platforms on the loopback interface, and an installation that talks to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.support.service import Service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.journey)


@pytest.fixture
async def telegram() -> AsyncIterator[BotApi]:
    """Telegram, as one bot sees it."""
    async with BotApi(token="123:ABC") as api:
        yield api


@pytest.fixture
async def model() -> AsyncIterator[OpenAIApi]:
    """The model's endpoint; it echoes unless scripted. No request may break a provider's rules."""
    async with OpenAIApi(strict=True) as api:
        yield api
        assert api.violations == []


@pytest.fixture
async def service(tmp_path: Path, telegram: BotApi, model: OpenAIApi) -> AsyncIterator[Service]:
    """An installation that is not started yet; its process is gone at the end, whatever happened."""
    async with Service(tmp_path, telegram=telegram, model=model) as installed:
        yield installed
        assert telegram.token not in installed.log_text()
