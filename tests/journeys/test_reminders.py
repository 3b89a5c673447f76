"""Journeys: reminders across outages, clock jumps, topics and chats."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA = 111
FORUM, TOPIC = -1001, 42


def orders(model: OpenAIApi, fragment: str, **arguments: Any) -> None:
    """Let the model order one job for a message with `fragment`, and confirm it."""
    call = ("cron", {"action": "add", **arguments})
    model.when(fragment, [Reply(tool_calls=[call]), Reply(text="I will.")])


def shifted(**ahead: float) -> Mapping[str, str]:
    """Return the environment of a process whose wall clock runs so far ahead; skips without libfaketime."""
    seconds = timedelta(**ahead).total_seconds()
    return {**faketime(), "FAKETIME": f"+{seconds:.0f}s"}


def faketime() -> Mapping[str, str]:
    """Return the environment that preloads libfaketime, which is left to the wall clock."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("libfaketime is not installed")
    # Its fix for the monotonic clock makes waits on locks, the interpreter's own included, return too early.
    monotonic = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    return {"LD_PRELOAD": str(found[0]), "NO_FAKE_STAT": "1", **monotonic}


async def test_a_reminder_arrives_word_for_word_without_the_model(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    wanted = "Take the *pills*, both of them. <b>Now</b>!"
    orders(model, "pills", in_seconds=2, text=wanted)
    await service.start()
    telegram.user_says(ADA, "remind me of the pills in two seconds")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA) == ["I will.", wanted]
    answer, reminder = telegram.sent
    assert 0 <= reminder.at_monotonic - answer.at_monotonic < 2.5
    assert reminder.entities == ()
    assert model.request_count == 2


async def test_a_reminder_due_shortly_before_the_start_arrives_once_and_unmarked(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    orders(model, "pills", in_seconds=1, text="take the pills")
    await service.start(fault="finished")
    telegram.user_says(ADA, "pills")
    await service.die()
    await service.start(env=shifted(seconds=30))
    telegram.user_says(ADA, "/reminders")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 3)
    assert sorted(telegram.texts(ADA)[:2]) == ["I will.", "take the pills"]
    assert "pills" not in telegram.texts(ADA)[2]


async def test_a_reminder_due_while_the_service_was_down_arrives_once_and_says_that_it_is_late(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    orders(model, "pills", in_seconds=60, text="take the pills")
    await service.start()
    telegram.user_says(ADA, "pills")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    for count in (3, 4):
        await service.start(env=shifted(minutes=10))
        telegram.user_says(ADA, "/reminders")
        await telegram.wait_for(lambda count=count: len(telegram.texts(ADA)) == count)  # type: ignore[misc]
        assert await service.stop() == 0
    _, reminder, *listings = telegram.texts(ADA)
    assert reminder.startswith("take the pills\n\n(late: this was due ")
    assert len(listings) == 2
    assert not any("pills" in listing for listing in listings)


async def test_a_reminder_that_fell_due_long_ago_is_delivered_and_not_forgotten(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    orders(model, "passport", in_seconds=3_600, text="renew the passport")
    await service.start()
    telegram.user_says(ADA, "passport")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    await service.start(env=shifted(days=200))
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    reminder = telegram.texts(ADA)[1]
    due = datetime.now(UTC) + timedelta(hours=1)
    assert reminder.startswith("renew the passport\n\n(late: ")
    assert str(due.year) in reminder


async def test_a_daily_reminder_notices_that_the_clock_has_jumped_to_the_next_day(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    dial = tmp_path / "clock"
    dial.write_text("+0s")
    env = {**faketime(), "FAKETIME_TIMESTAMP_FILE": str(dial), "FAKETIME_CACHE_DURATION": "1"}
    past = datetime.now(UTC) - timedelta(minutes=5)  # over for today, but not for tomorrow
    orders(model, "every day", cron_expr=f"{past.minute} {past.hour} * * *", tz="UTC", text="daily bread")
    await service.start(env=env)
    telegram.user_says(ADA, "every day, please")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    due = past.replace(second=0, microsecond=0) + timedelta(days=1)
    dial.write_text(f"+{(due - datetime.now(UTC)).total_seconds() + 2:.0f}s")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2, timeout_s=75)
    assert telegram.texts(ADA) == ["I will.", "daily bread"]


async def test_a_reminder_set_in_a_topic_comes_to_that_topic(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    orders(model, "kettle", in_seconds=1, text="kettle!")
    await service.start()
    telegram.add_chat(FORUM, chat_type="supergroup", name="Club", is_forum=True, topics=[TOPIC])
    telegram.user_says(FORUM, telegram.mention("kettle, please"), thread_id=TOPIC)
    await telegram.wait_for(lambda: len(telegram.texts(FORUM)) == 2)
    assert [(call.text, call.thread_id) for call in telegram.sent] == [("I will.", TOPIC), ("kettle!", TOPIC)]


async def test_a_recurring_reminder_that_missed_many_times_comes_once(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    orders(model, "water", every_seconds=60, text="drink water")
    await service.start()
    telegram.user_says(ADA, "water")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    await service.start(env=shifted(seconds=60 * 20 + 30))
    telegram.user_says(ADA, "next")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) >= 3)
    assert sorted(text.partition("\n")[0] for text in telegram.texts(ADA)) == ["I will.", "drink water", "next"]
