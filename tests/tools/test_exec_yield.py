"""exec with yield_time_ms: a command that goes on in the background, as a session of its chat."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.config import ToolsConfig
from bot.messages import Role
from bot.toolkit.base import ToolResult
from bot.toolkit.context import set_request
from tests.support.commands import UNSANDBOXED, open_descriptors
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.engine import OWNER, calls, rig, said
from tests.support.leftovers import alive, sleeper, until_alive, until_gone
from tests.support.providers import ScriptedProvider

OPEN = ToolsConfig(exec=UNSANDBOXED)
ME = request_context("111", role=Role.OWNER)
OTHER = request_context("222", role=Role.OWNER)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    async with tool_context(tmp_path, config=OPEN) as ctx:
        yield ToolDesk(ctx)


async def run(desk: ToolDesk, command: str, yield_time_ms: int, **params: int) -> ToolResult:
    return await desk.call(ME, "exec", command=command, yield_time_ms=yield_time_ms, **params)


def session_of(result: ToolResult) -> str:
    found = re.search(r"as session (x-\w+),", result)
    assert found, result
    return found[1]


async def test_a_command_that_ends_in_time_answers_as_ever_and_leaves_no_session(desk: ToolDesk) -> None:
    result = await run(desk, "echo out; echo err >&2; exit 3", 20_000)
    assert re.fullmatch(r"out\nerr\n\[exit code 3; \d\.\d s\]", result)
    assert not result.is_error
    assert await desk.call(ME, "exec_session", action="list") == "This chat has no sessions."


async def test_one_that_takes_longer_names_its_session_with_the_output_so_far_and_goes_on(
    desk: ToolDesk, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo second; exit 4"
    result = await run(desk, script, 500)
    assert not result.is_error
    assert result.startswith("first\n[still running after 0.5 s: goes on in the background as session x-")
    assert "until its time limit of 60 s" in result
    session = session_of(result)
    assert f"{session} (echo first; " in await desk.call(ME, "exec_session", action="list")
    tries: dict[str, dict[str, Any]] = {"send": {"text": "x"}, "resize": {"cols": 80}}
    for action, params in tries.items():
        refused = await desk.call(ME, "exec_session", action=action, **params)
        assert refused.is_error
        assert "a command of exec has no" in refused
    hidden = await desk.call(OTHER, "exec_session", action="poll", session_id=session)
    assert "this chat has no session" in hidden
    gate.touch()
    end = await desk.call(ME, "exec_session", action="wait_for", text="never", timeout_s=20)
    assert "has ended: exit code 4. It did not appear before the end.\n\nsecond\n" in end
    assert (await desk.call(ME, "exec_session", action="poll", session_id=session)).is_error


async def test_the_time_limit_holds_in_the_background_and_is_told(desk: ToolDesk) -> None:
    sleep = sleeper()
    session = session_of(await run(desk, f"(setsid {sleep} &); {sleep}", 0, timeout=1))
    await until_alive(sleep, 2)
    end = await desk.call(ME, "exec_session", action="wait_for", session_id=session, text="never", timeout_s=20)
    assert "was ended because its time limit was over: exit code 137 (SIGKILL)" in end
    assert alive(sleep) == []


async def test_the_time_limit_may_come_first(desk: ToolDesk) -> None:
    result = await run(desk, "echo begun; sleep 100", 20_000, timeout=1)
    assert result.is_error
    assert result.startswith("begun\n[timed out: ended after its limit of 1 s")


async def test_giving_up_the_call_while_it_waits_ends_the_command(desk: ToolDesk) -> None:
    sleep = sleeper()
    set_request(ME)
    call = asyncio.create_task(desk.registry.execute("exec", {"command": sleep, "yield_time_ms": 60_000}))
    await until_alive(sleep)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert alive(sleep) == []
    assert await desk.call(ME, "exec_session", action="list") == "This chat has no sessions."


async def test_terminating_ends_a_background_command_with_all_it_started(desk: ToolDesk) -> None:
    sleep = sleeper()
    session_of(await run(desk, f"(setsid sh -c '({sleep} &)' &); echo begun; {sleep}", 300))
    await until_alive(sleep, 2)
    assert "was terminated: exit code 137" in await desk.call(ME, "exec_session", action="terminate")
    assert alive(sleep) == []


async def test_background_commands_and_terminals_share_the_places(desk: ToolDesk) -> None:
    for number in range(8):
        if number % 2:
            await desk.call(ME, "exec_session", action="start", command="cat", yield_time_ms=0)
        else:
            await run(desk, "sleep 1000", 0)
    result = await run(desk, "echo never", 0)
    assert result.is_error
    assert result.startswith("The command was not started: 8 sessions are live")
    assert "never" in await desk.call(ME, "exec", command="echo never")  # without it none is needed


async def test_endless_output_in_the_background_is_bounded(desk: ToolDesk) -> None:
    result = await run(desk, "yes", 300)
    assert len(result) < 10_400
    for _ in range(3):
        answer = await desk.call(ME, "exec_session", action="poll", yield_time_ms=200)
        assert len(answer) < 10_400
        assert "bytes left out" in answer


async def test_thirty_background_commands_leave_no_descriptor_and_no_task(desk: ToolDesk) -> None:
    async def one() -> None:
        session = session_of(await run(desk, "sleep 1000", 0))
        await desk.call(ME, "exec_session", action="terminate", session_id=session)

    await one()
    before, tasks = open_descriptors(), len(asyncio.all_tasks())
    for _ in range(6):
        await asyncio.gather(*(one() for _ in range(5)))
    assert open_descriptors() == before
    assert len(asyncio.all_tasks()) == tasks


async def test_shutdown_ends_background_commands(tmp_path: Path) -> None:
    sleep = sleeper()
    async with tool_context(tmp_path, config=OPEN) as ctx:
        await run(ToolDesk(ctx), f"trap '' HUP TERM INT; (setsid {sleep} &); {sleep}", 0)
        await until_alive(sleep, 2)
    await until_gone(sleep)


async def test_a_second_stop_ends_what_runs_in_the_background_of_its_chat(tmp_path: Path) -> None:
    sleep = sleeper()
    provider = ScriptedProvider(calls(("exec_session", {"action": "start", "command": sleep})), said("on"))
    async with rig(tmp_path, provider, tools_config=OPEN) as engine:
        assert await engine.asks("start it", sender=OWNER) == "on"
        await until_alive(sleep)
        assert await engine.asks("/stop", sender=OWNER, chat="c2") == "Nothing is running."
        assert alive(sleep)
        assert await engine.asks("/stop", sender=OWNER) == "Ended 1 program(s) that ran in the background."
        await until_gone(sleep)
        assert await engine.asks("/stop", sender=OWNER) == "Nothing is running."
