"""Journeys: one model fails and the next one answers; all fail and the bot still does what needs none."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA = 111
FIRST_KEY, SECOND_KEY = "sk-first-key-0123456789", "sk-second-key-0123456789"


@pytest.fixture
async def other() -> AsyncIterator[OpenAIApi]:
    """Another model's endpoint."""
    async with OpenAIApi() as api:
        api.default = lambda request: Reply(text=f"{request['model']} here.")
        yield api
        assert api.violations == []


def chain(service: Service, other: OpenAIApi) -> None:
    """Configure the second endpoint as a fallback of the first."""
    service.configure(service.sections, {"llm": {"api_key": FIRST_KEY}, "access": {"owners": [f"telegram:{ADA}"]}})
    fallback = f'[[llm.fallbacks]]\nmodel = "second"\nbase_url = "{other.url}"\napi_key = "{SECOND_KEY}"\n'
    service.config.write_text(service.config.read_text() + fallback)


async def says(telegram: BotApi, text: str) -> str:
    """Write a message and return the next answer."""
    before = len(telegram.texts(ADA))
    telegram.user_says(ADA, text)
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) > before)
    return telegram.texts(ADA)[before]


async def test_a_fallback_answers_and_the_log_says_why(
    telegram: BotApi, model: OpenAIApi, other: OpenAIApi, service: Service
) -> None:
    chain(service, other)
    model.default = lambda request: Reply(status=503, body={"error": {"message": f"overloaded, key {FIRST_KEY}"}})
    await service.start()
    assert await says(telegram, "hello") == "second here."
    asked = model.request_count
    assert await says(telegram, "and again") == "second here."
    assert model.request_count == asked  # left alone for a while
    assert await service.stop() == 0
    log = service.log_text()
    assert "model test-model at http://127.0.0.1" in log
    assert "HTTP 503: overloaded" in log
    assert FIRST_KEY not in log
    assert SECOND_KEY not in log


async def test_with_the_whole_chain_down_reminders_and_commands_still_work(
    telegram: BotApi, model: OpenAIApi, other: OpenAIApi, service: Service
) -> None:
    chain(service, other)
    await model.go_down()
    other.default = lambda request: Reply(status=500)
    await service.start()
    assert await says(telegram, "write a poem") == "I cannot reach the model right now. Please try again later."
    set_up = await says(telegram, "remind me in 2 seconds to drink water")
    assert "drink water" in set_up
    assert "The model cannot be reached; I handled this myself." in set_up
    await telegram.wait_for(lambda: "drink water" in telegram.texts(ADA))
    assert "Dutiful" in await says(telegram, "/status")
    assert await service.stop() == 0
    assert "no model of the chain answered" in service.log_text()


async def test_a_chosen_preset_answers_also_after_a_kill(
    telegram: BotApi, model: OpenAIApi, other: OpenAIApi, service: Service
) -> None:
    service.configure(
        service.sections,
        {
            "access": {"owners": [f"telegram:{ADA}"]},
            "llm.presets.strong": {"model": "strong-model", "base_url": other.url},
        },
    )
    await service.start()
    assert await says(telegram, "hello") == "hello"
    assert "strong-model" in await says(telegram, "/model strong")
    assert await says(telegram, "hello") == "strong-model here."
    await service.kill()
    await service.start()
    assert await says(telegram, "hello once more") == "strong-model here."
    assert model.request_count == 1


async def test_a_preset_without_its_secret_ends_the_start(telegram: BotApi, service: Service) -> None:
    service.configure(service.sections, {"llm.presets.strong": {"model": "m", "api_key": "env:NO_SUCH_KEY"}})
    await service.launch()
    assert await service.wait_exit() == 78
    assert "llm.presets.strong.api_key: the environment variable 'NO_SUCH_KEY' is not set" in service.log_text()
    assert telegram.all_calls == []
