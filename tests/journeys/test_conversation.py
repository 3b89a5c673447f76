"""Journeys: talking to the running service."""

from __future__ import annotations

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA = 111


async def test_a_message_is_answered_by_the_model(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    await service.start()
    telegram.user_says(ADA, "hello there")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["hello there"]
    assert await service.stop() == 0
    assert telegram.texts(ADA) == ["hello there"]
    assert model.request_count == 1


async def test_a_tool_call_is_carried_out_and_its_result_reaches_the_model(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    model.when("what is in", [Reply(tool_calls=[("list_dir", {"path": "."}, "call_a")]), Reply(text="It is empty.")])
    await service.start()
    telegram.user_says(ADA, "what is in my folder?")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["It is empty."]
    result = model.requests[-1]["messages"][-1]
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_a")


async def test_a_reminder_arrives_word_for_word_without_the_model(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    wanted = "Take the *pills*, both of them. <b>Now</b>!"
    order = {"action": "add", "in_seconds": 2, "text": wanted}
    model.when("pills", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    await service.start()
    telegram.user_says(ADA, "remind me of the pills in two seconds")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) >= 2)
    assert telegram.texts(ADA) == ["I will.", wanted]
    assert model.request_count == 2
