"""Journeys: a task whose work ends the very process it runs in."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import ROOT, Service

ADA = 111

RESTART_TOOL = """
import asyncio
import os
from pathlib import Path

from bot.toolkit.base import Tool


class RestartTool(Tool):
    name = "restart_bot"
    description = "ends the process; its supervisor starts it again"
    parameters = {{"type": "object", "properties": {{}}}}

    async def execute(self, **kwargs):
        with Path({record!r}).open("a") as record:
            record.write("restarted\\n")
        os.kill(os.getpid(), {signal})
        await asyncio.Event().wait()
"""


def plugin(folder: Path, record: Path, signal_number: int) -> Path:
    """Return a folder that looks as after `pip install --target` of a plugin with the tool."""
    info = folder / "dutiful_restart-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "dutiful_restart.py").write_text(RESTART_TOOL.format(record=str(record), signal=signal_number))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dutiful-restart\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dutiful.tools]\nrestart = dutiful_restart:RestartTool\n")
    return folder


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM], ids=["sigkill", "sigterm"])
async def test_a_task_that_restarts_the_bot_does_it_once(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service, ended_by: signal.Signals
) -> None:
    record = tmp_path / "restarts"
    path = plugin(tmp_path / "site", record, int(ended_by))
    env = {"PYTHONPATH": f"{path}:{ROOT}"}
    service.configure(
        service.sections, {"access": {"owners": [f"telegram:{ADA}"]}, "limits": {"shutdown_grace_s": 0.2}}
    )
    order = {"action": "add", "kind": "task", "in_seconds": 0.5, "text": "restart yourself"}
    model.when("tidy yourself", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    task = model.when("restart yourself", [Reply(tool_calls=[("restart_bot", {})]), Reply(text="Restarted.")])
    await service.start(env=env)
    telegram.user_says(ADA, "tidy yourself up")
    assert await service.wait_exit() == (-signal.SIGKILL if ended_by is signal.SIGKILL else 0)
    await service.start(env=env)
    await telegram.wait_for(lambda: "Restarted." in telegram.texts(ADA))
    (result,) = [row["content"] for row in model.requests[-1]["messages"] if row["role"] == "tool"]
    assert "may or may not have taken effect" in result
    for number in (1, 2):
        assert await service.stop() == 0
        await service.start(env=env)
        telegram.user_says(ADA, f"start {number}")
        await telegram.wait_for(lambda number=number: f"start {number}" in telegram.texts(ADA))  # type: ignore[misc]
    assert record.read_text() == "restarted\n"
    assert telegram.texts(ADA) == ["I will.", "Restarted.", "start 1", "start 2"]
    assert task.hits == 2


async def test_a_task_in_the_words_of_a_command_is_work_for_the_model_and_restarts_nothing(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    order = {"action": "add", "kind": "task", "in_seconds": 0.5, "text": "/restart"}
    model.when("tidy yourself", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    model.when("/restart", [Reply(text="I cannot restart myself.")])
    await service.start()
    telegram.user_says(ADA, "tidy yourself up")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA) == ["I will.", "I cannot restart myself."]
    assert service.running


async def test_a_run_that_was_cut_is_not_called_well_before_it_was_taken_up_again(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    order = {"action": "add", "kind": "task", "cron_expr": "0 0 1 1 *", "text": "count the sheep"}
    model.when("sleep", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    task = model.when("count the sheep", [Reply(stall_after=0), Reply(text="There are 7 sheep.")])
    await service.start()
    telegram.user_says(ADA, "I cannot sleep")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    (job,) = await service.ask("jobs", "list")
    await service.ask("jobs", "run", job["id"])
    await model.wait_for(lambda: task.hits)
    await service.kill()
    (cut,) = await service.ask("jobs", "list")
    assert cut["last_state"] not in {"ok", "done"}
    await service.start()
    await telegram.wait_for(lambda: "There are 7 sheep." in telegram.texts(ADA))
    telegram.user_says(ADA, "thanks")
    await telegram.wait_for(lambda: "thanks" in telegram.texts(ADA))
    (done,) = await service.ask("jobs", "list")
    assert (cut["last_state"], done["last_state"]) == ("running", "ok")
    assert telegram.texts(ADA) == ["I will.", "There are 7 sheep.", "thanks"]
    assert task.hits == 2
