"""Runs whose store fails or comes back after a crash: one ending, and ids that stay apart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.config import SessionsSection
from bot.errors import StaleLease, StoreUnavailable
from bot.interfaces import ModelReply, ModelRequest
from tests.support.engine import AnsweringProvider, again, calls, rig, said, tool_texts
from tests.support.held_model import strict
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool


class SideBySideTool(MadeTool):
    """May run beside its neighbours, though it has an effect and is noted before it starts."""

    @property
    def concurrency_safe(self) -> bool:
        return True


async def test_a_store_that_fails_under_one_of_several_calls_at_once_delays_the_answer_only(tmp_path: Path) -> None:
    started = asyncio.Event()
    cancelled: list[str] = []

    async def endless(arguments: dict[str, Any]) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("endless")
            raise
        return ""

    endless_tool, other = SideBySideTool("endless", run=endless), SideBySideTool("other")
    provider = ScriptedProvider(calls(("endless", {}), ("other", {})), said("One is uncertain."))
    async with rig(tmp_path, provider, tools=[endless_tool, other]) as engine:
        start_call = engine.store.steps.start_call
        failures: list[Exception] = [StoreUnavailable("disk full")]

        async def failing(turn: Any, call_id: str) -> None:
            if call_id == "call_1" and failures:
                await started.wait()
                raise failures.pop()
            await start_call(turn, call_id)

        engine.store.steps.start_call = failing  # type: ignore[method-assign]
        assert await engine.asks("do both") == "One is uncertain."
        assert cancelled == ["endless"]
        first, second = tool_texts(provider.requests[-1])
        assert "may or may not have taken effect" in first
        assert second == "done"
        assert (len(endless_tool.calls), len(other.calls)) == (1, 1)
        assert len(provider.requests) == 2
        assert await engine.store.overview.dead_letters(limit=9) == []
        strict(provider)
        provider.outcomes[:] = [said("Yes.")]
        assert await engine.asks("still there?") == "Yes."


async def test_a_turn_that_is_lost_under_several_calls_at_once_stops_without_a_word(tmp_path: Path) -> None:
    lost = asyncio.Event()
    provider = ScriptedProvider(calls(("one", {}), ("two", {})), said("never"))
    tools = [SideBySideTool("one"), SideBySideTool("two")]
    async with rig(tmp_path, provider, tools=tools) as engine:

        async def failing(turn: Any, call_id: str) -> None:
            lost.set()
            raise StaleLease("taken over")

        engine.store.steps.start_call = failing  # type: ignore[method-assign]
        await engine.says("do both")
        async with asyncio.timeout(10):
            await lost.wait()
            while engine.loop.running():
                await asyncio.sleep(0)
        assert (engine.channel.arrived, engine.ended) == ([], [])
        assert tools[0].calls == tools[1].calls == []
        assert len(provider.requests) == 1
        assert await engine.store.overview.dead_letters(limit=9) == []


@pytest.mark.parametrize("replay_tokens", [32_000, 1_000], ids=["whole turn in view", "early steps out of view"])
async def test_ids_of_calls_before_a_crash_are_not_used_again_after_it(tmp_path: Path, replay_tokens: int) -> None:
    """A model that numbers its calls anew with each step must not reach a stored call of the same turn."""
    ran: list[int] = []

    async def look(arguments: dict[str, Any]) -> str:
        ran.append(arguments["n"])
        if ran == [0, 1, 2]:
            await engine.die()
        return f"result {arguments['n']}: " + "x" * 3_000

    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> ModelReply:
        asked.append(request)
        step = len(asked) - 1
        return said("Seen all.") if step == 4 else calls(("look", {"n": step}))

    provider = AnsweringProvider(answer)
    tool = MadeTool("look", {"type": "object", "properties": {"n": {"type": "integer"}}}, run=look)
    sessions = SessionsSection(replay_tokens=replay_tokens)
    async with rig(tmp_path, provider, tools=[tool], sessions=sessions) as engine:
        await engine.says("look around")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("Seen all.")
        assert ran == [0, 1, 2, 3]
        strict(provider)
        last = provider.requests[-1]
        assert tool_texts(last)[-1].startswith("result 3: ")
        ids = [call["id"] for row in last.messages for call in row.get("tool_calls") or ()]
        assert len(ids) == len(set(ids))

        def stored(conn: Any) -> list[tuple[str, str]]:
            return [tuple(row) for row in conn.execute("SELECT call_id, state FROM calls ORDER BY step")]

        records = await engine.store._database.read(stored)
        assert len({call_id for call_id, _ in records}) == 4
        assert await engine.store.overview.dead_letters(limit=9) == []
