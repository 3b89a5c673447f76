"""Journeys: commands in a terminal beside the running service, and without one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA = 111


async def test_one_line_said_beside_the_service_prints_its_answer(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    done = await service.cli("chat", "-m", "hello from here")
    assert (done.code, done.out, done.err) == (0, "hello from here\n", "")
    telegram.user_says(ADA, "and from there")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["and from there"]


async def test_one_line_said_without_a_service_prints_its_answer_and_leaves_telegram_alone(
    telegram: BotApi, service: Service
) -> None:
    done = await service.cli("chat", "-m", "hello")
    assert (done.code, done.out, done.err) == (0, "hello\n", "")
    assert telegram.all_calls == []


async def test_a_reminder_set_where_nobody_would_deliver_it_says_so(model: OpenAIApi, service: Service) -> None:
    call = ("cron", {"action": "add", "in_seconds": 3_600, "text": "stretch"})
    model.when("stretch", lambda request: Reply(tool_calls=[call]) if _asks(request) else Reply(text=_result(request)))
    alone = await service.cli("chat", "-m", "remind me to stretch")
    await service.start()
    beside = await service.cli("chat", "-m", "remind me to stretch")
    assert "stretch" in alone.out
    assert "stretch" in beside.out
    assert "dutiful run" in alone.out
    assert "dutiful run" not in beside.out


def _asks(request: dict[str, list[dict[str, str]]]) -> bool:
    return request["messages"][-1]["role"] == "user"


def _result(request: dict[str, list[dict[str, str]]]) -> str:
    return request["messages"][-1]["content"]


async def test_the_answer_is_printed_when_the_tool_wrote_to_another_chat(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C044, in one-shot CLI mode."""
    telegram.add_chat(ADA)
    call = ("message", {"content": "dinner at eight", "channel": "telegram", "chat_id": str(ADA)})
    model.when("tell Ada", [Reply(tool_calls=[call]), Reply(text="Sent to Ada.")])
    await service.start()
    done = await service.cli("chat", "-m", "tell Ada about dinner")
    assert (done.code, done.out) == (0, "Sent to Ada.\n")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["dinner at eight"]


async def test_jobs_are_listed_fired_and_removed_beside_the_service(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    order = {"action": "add", "in_seconds": 86_400, "text": "water the plants"}
    model.when("plants", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    await service.start()
    telegram.user_says(ADA, "remind me of the plants")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    (job,) = await service.ask("jobs", "list")
    assert (job["text"], job["chat"], job["kind"]) == ("water the plants", f"telegram:{ADA}", "reminder")
    fired = await service.ask("jobs", "run", job["id"])
    assert fired["fired"]["id"] == job["id"]
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA) == ["I will.", "water the plants"]
    (after,) = await service.ask("jobs", "list")
    assert after["next"] == job["next"]
    await service.ask("jobs", "remove", job["id"])
    assert await service.ask("jobs", "list") == []
    again = await service.cli("jobs", "remove", job["id"])
    assert again.code == 1
    assert again.err.splitlines() == [f"dutiful: there is no job '{job['id']}'; `dutiful jobs list` shows them"]


async def test_status_tells_of_the_running_service_and_of_none(telegram: BotApi, service: Service) -> None:
    await service.start()
    telegram.user_says(ADA, "hello")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    live = await service.status()
    assert (live["mode"], live["ready"], live["healthy"]) == ("run", True, True)
    assert live["sessions"] == 1
    assert live["channels"]["telegram"] == {"state": "ready", "problem": ""}
    assert await service.stop() == 0
    at_rest = await service.status()
    assert at_rest["mode"] != "run"
    assert at_rest["sessions"] == 1
    assert at_rest["queues"] == {"inbox": 0, "turns": 0, "outbox": 0}


async def test_many_commands_beside_a_busy_service_lose_no_job_and_no_message(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """Several processes want the same database; one of them has it and all get their answers."""

    def order(request: dict[str, list[dict[str, str]]]) -> Reply:
        if not _asks(request):
            return Reply(text="stored")
        said = request["messages"][-1]["content"].split()
        return Reply(tool_calls=[("cron", {"action": "add", "in_seconds": 86_400, "text": said[1]})])

    model.when("order ", order)
    await service.start()
    for number in range(10):
        telegram.user_says(1_000 + number, f"order chat{number}")
    line, *_ = await asyncio.gather(
        service.cli("chat", "-m", "order line"), service.status(), service.ask("jobs", "list")
    )
    assert (line.code, line.out, line.err) == (0, "stored\n", "")
    await telegram.wait_for(lambda: all(telegram.texts(1_000 + number) for number in range(10)))
    texts = {job["text"] for job in await service.ask("jobs", "list")}
    assert texts == {"line", *(f"chat{number}" for number in range(10))}


async def test_lines_from_a_pipe_are_all_answered(service: Service, tmp_path: Path) -> None:
    done = await service.cli("chat", stdin="first line\nsecond line\n")
    assert done.code == 0
    assert done.out.index("first line") < done.out.index("second line")
