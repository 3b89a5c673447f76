"""Journeys: a sustained goal whose process is killed at every point of its chain, and goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply, text_of
from tests.support.service import Service

ADA, BEN = 111, 222
NEXT_TURN = "[Sustained goal: its next turn"
GOAL = {"objective": "count the sheep", "plan": ["left field", "right field"]}
CLOSING = {"outcome": "done", "recap": "There are 7 sheep."}


def shepherd(request: dict[str, Any]) -> Reply:
    """Play the model at whatever point it is asked: one plan item in each turn of the goal, then the recap."""
    rows = request["messages"]
    turns = sum(text_of(row).startswith(NEXT_TURN) for row in rows if row["role"] == "user")
    if rows[-1]["role"] == "tool":
        return Reply(text=["I have begun.", "The left field has 3.", "The right field has 4."][turns])
    if turns == 0:
        return Reply(tool_calls=[("task", GOAL)])
    return Reply(tool_calls=[("task", {"done": [turns]})] if turns <= 2 else [("complete_goal", CLOSING)])


TEXTS = ["I have begun.", "The left field has 3.", "The right field has 4.", "There are 7 sheep."]

# Ada's message and three turns of the goal; the last one has a single request.
POINTS = (
    *("after-call:1", "finished:1", "claimed:2", "recorded:2", "finished:2"),
    *("after-call:4", "recorded:4", "finished:4"),
)


@pytest.mark.parametrize("point", POINTS)
async def test_a_goal_goes_on_where_the_process_was_killed(
    telegram: BotApi, model: OpenAIApi, service: Service, point: str
) -> None:
    model.when("sheep", shepherd)
    model.when(NEXT_TURN, shepherd)
    await service.start(fault=point)
    telegram.user_says(ADA, "count the sheep")
    await service.die()
    await service.start()
    await telegram.wait_for(lambda: TEXTS[-1] in telegram.texts(ADA))
    telegram.user_says(ADA, "thanks")
    await telegram.wait_for(lambda: "thanks" in telegram.texts(ADA))
    texts = telegram.texts(ADA)
    uncertain = (await service.status())["uncertain_sends"]  # a send that the kill cut short may come twice
    assert [text for index, text in enumerate(texts) if text not in texts[:index]] == [*TEXTS, "thanks"]
    assert len(texts) - len(TEXTS) - 1 <= uncertain <= 1


async def test_a_goal_stops_at_once_and_leaves_other_chats_alone(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    model.when("sheep", [Reply(tool_calls=[("task", GOAL)]), Reply(text="I have begun.")])
    stuck = model.when(NEXT_TURN, [Reply(hold=asyncio.Event())])
    await service.start()
    telegram.user_says(ADA, "count the sheep")
    await model.wait_for(lambda: stuck.hits)
    telegram.user_says(BEN, "hello")
    await telegram.wait_for(lambda: telegram.texts(BEN) == ["hello"])
    telegram.user_says(ADA, "/stop")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA)[1] == "Stopped.\nThe goal “count the sheep” is closed."
    telegram.user_says(ADA, "hello")
    await telegram.wait_for(lambda: telegram.texts(ADA)[-1] == "hello")
    assert stuck.hits == 1
