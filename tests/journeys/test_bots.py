"""Journeys: other bots in a group."""

from __future__ import annotations

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.support.service import Service

GROUP, ADA, ROBOT = -5, 111, 999


async def test_a_bot_that_answers_every_answer_is_left_alone_until_a_person_speaks(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C037: a cap ends the chain. The bus counts, for all platforms."""
    await service.start()
    telegram.add_chat(GROUP, chat_type="supergroup", name="Lab")
    for number in range(8):
        telegram.user_says(GROUP, telegram.mention(f"beep {number}"), user_id=ROBOT, is_bot=True)
        if number < 5:
            await telegram.wait_for(lambda number=number: len(telegram.texts(GROUP)) > number)  # type: ignore[misc]
    telegram.user_says(GROUP, "only talking among bots", user_id=ROBOT, is_bot=True)
    telegram.user_says(GROUP, telegram.mention("stop that"), user_id=ADA)
    await telegram.wait_for(lambda: "stop that" in telegram.texts(GROUP))
    telegram.user_says(GROUP, telegram.mention("beep again"), user_id=ROBOT, is_bot=True)
    await telegram.wait_for(lambda: "beep again" in telegram.texts(GROUP))
    assert telegram.texts(GROUP) == [*(f"beep {number}" for number in range(5)), "stop that", "beep again"]
    assert model.request_count == 7
