"""Journeys: programs on terminals, and commands in the background, when the service ends."""

from __future__ import annotations

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.commands import needs_bwrap
from tests.support.leftovers import alive, sleeper, until_alive, until_gone
from tests.support.service import Service

WALLS = [
    pytest.param({}, id="sandbox", marks=needs_bwrap),
    pytest.param({"sandbox": "off", "unsandboxed": True}, id="open"),
]


async def begin(service: Service, model: OpenAIApi, walls: dict[str, object]) -> str:
    """Let the owner start a terminal and a background command that resist their end; returns their last words."""
    service.configure(service.sections, {"tools.exec": walls})
    sleep = sleeper()
    script = f"trap '' HUP TERM INT; (setsid sh -c '({sleep} &) ; {sleep}' &); nohup {sleep} & cat"
    model.when(
        "begin",
        [
            Reply(tool_calls=[("exec_session", {"action": "start", "command": script, "yield_time_ms": 0})]),
            Reply(tool_calls=[("exec", {"command": script.replace("cat", sleep), "yield_time_ms": 0})]),
            Reply(text="They run."),
        ],
    )
    await service.start()
    done = await service.cli("chat", "-m", "begin")
    assert done.out == "They run.\n", (done, service.tail())
    await until_alive(sleep, 7)
    return sleep


@pytest.mark.parametrize("walls", WALLS)
async def test_c083_sigterm_ends_background_sessions_before_the_service_has_ended(
    model: OpenAIApi, service: Service, walls: dict[str, object]
) -> None:
    sleep = await begin(service, model, walls)
    assert await service.stop() == 0
    assert alive(sleep) == []


@pytest.mark.parametrize("walls", WALLS)
async def test_kill_9_of_the_service_leaves_nothing_of_its_sessions(
    model: OpenAIApi, service: Service, walls: dict[str, object]
) -> None:
    sleep = await begin(service, model, walls)
    await service.kill()
    await until_gone(sleep)


@pytest.mark.parametrize("walls", WALLS)
async def test_c049_stop_ends_a_long_command_and_its_children_and_the_chat_goes_on(
    telegram: BotApi, model: OpenAIApi, service: Service, walls: dict[str, object]
) -> None:
    service.configure(service.sections, {"access": {"owners": ["telegram:5"]}}, {"tools.exec": walls})
    sleep = sleeper()
    command = f"(setsid {sleep} &) ; {sleep} & {sleep}"
    model.when("dig", [Reply(tool_calls=[("exec", {"command": command, "timeout": 600})]), Reply(text="never")])
    await service.start()
    telegram.user_says(5, "dig deep", user_id=5)
    await until_alive(sleep, 3)
    telegram.user_says(5, "/stop", user_id=5)
    await telegram.wait_for(lambda: telegram.texts(5))
    assert telegram.texts(5) == ["Stopped."]
    await until_gone(sleep)
    telegram.user_says(5, "still there?", user_id=5)
    await telegram.wait_for(lambda: len(telegram.texts(5)) == 2)
    assert telegram.texts(5)[1] == "still there?"
