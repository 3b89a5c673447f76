"""Journeys: scheduled tasks and background helpers beside their chat."""

from __future__ import annotations

import asyncio

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA = 111
FORUM, TOPIC = -1001, 42


async def test_a_chat_goes_on_while_its_scheduled_task_is_under_way(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    gate = asyncio.Event()
    order = {"action": "add", "kind": "task", "in_seconds": 1, "text": "count the sheep"}
    model.when("sleep", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    task = model.when("count the sheep", [Reply(text="There are 7 sheep.", hold=gate)])
    await service.start()
    telegram.user_says(ADA, "I cannot sleep")
    await model.wait_for(lambda: task.hits)
    telegram.user_says(ADA, "still here?")
    await telegram.wait_for(lambda: "still here?" in telegram.texts(ADA))
    gate.set()
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 3)
    assert telegram.texts(ADA) == ["I will.", "still here?", "There are 7 sheep."]
    telegram.user_says(ADA, "how many?")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 4)
    assert "There are 7 sheep." in str(model.requests[-1]["messages"])


async def test_a_task_cut_by_sigkill_is_done_once_after_the_restart(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    order = {"action": "add", "kind": "task", "in_seconds": 0.5, "text": "count the sheep"}
    model.when("sleep", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    task = model.when("count the sheep", [Reply(stall_after=0), Reply(text="There are 7 sheep.")])
    await service.start()
    telegram.user_says(ADA, "I cannot sleep")
    await model.wait_for(lambda: task.hits and telegram.texts(ADA))
    await service.kill()
    await service.start()
    await telegram.wait_for(lambda: "There are 7 sheep." in telegram.texts(ADA))
    telegram.user_says(ADA, "/reminders")
    await telegram.wait_for(lambda: "sheep" not in telegram.texts(ADA)[-1])
    assert telegram.texts(ADA).count("There are 7 sheep.") == 1
    assert task.hits == 2


async def test_a_helpers_result_comes_to_the_topic_and_answers_the_message_that_asked(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    model.when("add up", [Reply(tool_calls=[("spawn", {"task": "sum of 40 and 2"})]), Reply(text="Working on it.")])
    model.when("sum of 40 and 2", [Reply(text="Total is 42")])
    model.when("Total is 42", [Reply(text="The helper says 42.")])
    await service.start()
    telegram.add_chat(FORUM, chat_type="supergroup", name="Club", is_forum=True, topics=[TOPIC])
    telegram.user_says(FORUM, telegram.mention("add up"), thread_id=TOPIC, message_id=7)
    await telegram.wait_for(lambda: len(telegram.texts(FORUM)) == 2)
    assert [(call.text, call.thread_id, call.reply_to) for call in telegram.sent] == [
        ("Working on it.", TOPIC, 7),
        ("The helper says 42.", TOPIC, 7),
    ]


async def test_a_helper_that_ends_while_its_chat_is_busy_reports_after_the_turn_exactly_once(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    gate = asyncio.Event()
    model.when("add up", [Reply(tool_calls=[("spawn", {"task": "sum of 40 and 2"})]), Reply(text="ok", hold=gate)])
    helper = model.when("sum of 40 and 2", [Reply(text="Total is 42")])
    await service.start()
    telegram.user_says(ADA, "add up")
    await model.wait_for(lambda: helper.hits and model.request_count == 3)
    model.when("Total is 42", [Reply(text="The helper says 42.")])
    gate.set()
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    telegram.user_says(ADA, "thanks")
    await telegram.wait_for(lambda: "thanks" in telegram.texts(ADA))
    assert telegram.texts(ADA) == ["ok", "The helper says 42.", "thanks"]


async def test_a_helper_survives_sigkill_and_reports_once(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    model.when("add up", [Reply(tool_calls=[("spawn", {"task": "sum of 40 and 2"})]), Reply(text="ok")])
    helper = model.when("sum of 40 and 2", [Reply(stall_after=0), Reply(text="Total is 42")])
    model.when("Total is 42", [Reply(text="The helper says 42.")])
    await service.start()
    telegram.user_says(ADA, "add up")
    await model.wait_for(lambda: helper.hits)
    await telegram.wait_for(lambda: telegram.texts(ADA))
    await service.kill()
    await service.start()
    await telegram.wait_for(lambda: "The helper says 42." in telegram.texts(ADA))
    telegram.user_says(ADA, "thanks")
    await telegram.wait_for(lambda: "thanks" in telegram.texts(ADA))
    assert telegram.texts(ADA).count("The helper says 42.") == 1
