"""Journeys: how the process ends, by its supervisor or by a person, and what supervisors and people see of it."""

from __future__ import annotations

import asyncio

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA, BEN = 111, 222


async def test_a_turn_that_ends_within_the_grace_is_answered_before_the_process_goes(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    gate = asyncio.Event()
    held = model.when("hold", [Reply(text="just in time", hold=gate)])
    await service.start()
    telegram.user_says(ADA, "hold on")
    await model.wait_for(lambda: held.hits)
    service.terminate()
    await service.wait_notified("STOPPING=1")
    gate.set()
    assert await service.wait_exit() == 0
    assert telegram.texts(ADA) == ["just in time"]


async def test_a_turn_cut_by_the_shutdown_goes_on_at_the_next_start(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"limits": {"shutdown_grace_s": 0.2}})
    calls = [("cron", {"action": "add", "in_seconds": 86_400, "text": "call mum"})]
    held = model.when("mum", [Reply(tool_calls=calls), Reply(stall_after=0), Reply(text="I will.")])
    await service.start()
    telegram.user_says(ADA, "remind me of mum tomorrow")
    await model.wait_for(lambda: held.hits == 2)
    assert await service.stop() == 0
    assert telegram.texts(ADA) == []
    await service.start()
    telegram.user_says(ADA, "/reminders")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    answer, listing = telegram.texts(ADA)
    assert answer == "I will."
    assert listing.count("call mum") == 1
    assert held.hits == 3  # the recorded step was not asked for again


async def test_a_second_signal_does_not_wait_for_running_turns_and_loses_nothing(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"limits": {"shutdown_grace_s": 600}})
    held = model.when("patience", [Reply(stall_after=0), Reply(text="here it is")])
    await service.start()
    telegram.user_says(ADA, "patience")
    await model.wait_for(lambda: held.hits == 1)
    service.terminate()
    await service.wait_notified("STOPPING=1")
    service.terminate()
    assert await service.wait_exit() == 0
    assert telegram.texts(ADA) == []
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["here it is"]


async def test_a_shutdown_is_no_attempt_of_the_turn_it_cuts(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"limits": {"shutdown_grace_s": 0.1}})
    held = model.when("patience", [Reply(stall_after=0) for _ in range(4)])
    telegram.user_says(ADA, "patience")
    for restarts in range(1, 5):
        await service.start()
        await model.wait_for(lambda restarts=restarts: held.hits == restarts)  # type: ignore[misc]
        assert await service.stop() == 0
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["patience"]


async def test_sigterm_right_after_the_start_ends_the_process_in_order(telegram: BotApi, service: Service) -> None:
    await service.start()
    assert await service.stop() == 0
    assert "Traceback" not in service.log_text()
    telegram.user_says(ADA, "still there?")
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["still there?"]


async def test_stop_ends_a_held_turn_at_once_and_the_next_message_is_handled(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    model.when("dig", [Reply(tool_calls=[("list_dir", {"path": "."})]), Reply(text="never", hold=asyncio.Event())])
    await service.start()
    telegram.user_says(ADA, "dig deep")
    await model.wait_for(lambda: model.request_count == 2)
    last = telegram.user_says(ADA, "then tell me the time")
    await telegram.wait_for(lambda: telegram.confirmed_offset > last)
    telegram.user_says(ADA, "/stop")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert sorted(telegram.texts(ADA)) == ["Stopped.", "then tell me the time"]


async def test_restart_happens_once_although_its_update_is_delivered_again(telegram: BotApi, service: Service) -> None:
    """C030, by polling."""
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    await service.start()
    update = telegram.user_says(ADA, "/restart")
    assert await service.wait_exit() == 75
    (answer,) = telegram.texts(ADA)
    telegram.redeliver(update)
    await service.start()
    telegram.user_says(ADA, "back?")
    await telegram.wait_for(lambda: "back?" in telegram.texts(ADA))
    assert telegram.texts(ADA) == [answer, "back?"]
    assert service.running
    ignored = [line for line in service.log_text().splitlines() if "repeated message ignored" in line]
    assert len(ignored) == 1
    assert f'"chat": "telegram:{ADA}"' in ignored[0]


async def test_only_an_owner_may_restart_whatever_others_call_themselves(telegram: BotApi, service: Service) -> None:
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    await service.start()
    for text in ("/restart", "still here?"):
        telegram.user_says(BEN, text, user_id=BEN, first_name=str(ADA))
    await telegram.wait_for(lambda: len(telegram.texts(BEN)) == 2)
    refusal, answer = telegram.texts(BEN)
    assert "owner" in refusal
    assert answer == "still here?"


async def test_a_second_service_on_the_same_data_ends_with_one_clear_error(telegram: BotApi, service: Service) -> None:
    await service.start()
    second = await service.cli("run")
    assert second.code == 1
    assert second.err.splitlines() == [
        f"dutiful: {service.data_dir} is in use by another dutiful (process {service.pid})"
    ]
    telegram.user_says(ADA, "unharmed?")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["unharmed?"]


async def test_a_supervisor_is_told_of_start_life_and_end(service: Service) -> None:
    await service.start(env={"WATCHDOG_USEC": "200000"})
    await service.wait_notified("WATCHDOG=1", count=3)
    assert await service.stop() == 0
    assert service.notified[0] == "READY=1"
    after = service.notified[service.notified.index("STOPPING=1") + 1 :]
    assert set(after) <= {"WATCHDOG=1"}
