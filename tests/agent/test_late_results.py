"""What comes late goes to the chat; its rows go to the conversation it was born in, whichever is current by then."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.interfaces import ModelReply, ModelRequest
from tests.support.clock import FakeClock
from tests.support.engine import OWNER, PATIENCE_S, AnsweringProvider, Rig, again, calls, last_user, rig, said
from tests.support.strict_provider import violations

TASK = "add 40 and 2"


class Slow:
    """A model that spawns on "go", schedules on "plan", and holds what works in the background until `go_on`."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.at_work = asyncio.Event()
        self.provider = AnsweringProvider(self)

    async def __call__(self, request: ModelRequest) -> ModelReply:
        text, is_new = last_user(request), request.messages[-1]["role"] == "user"
        if "background worker" in request.messages[0]["content"]:
            await self.go_on.wait()
            return said("Total is 42")
        if text == "go" and is_new:
            return calls(("spawn", {"task": TASK, "label": "sum"}))
        if text == "plan" and is_new:
            return calls(("cron", {"action": "add", "kind": "task", "text": "report", "in_seconds": 60}))
        if text.startswith("[Background task"):
            return said("The sum is 42.")
        if text.startswith("[Scheduled task"):
            self.at_work.set()
            await self.go_on.wait()
            return said("All quiet.")
        return said(f"re: {text}")

    async def asked(self, engine: Rig, text: str) -> str:
        """Say something, and return all rows that the request for its answer held."""
        await engine.asks(text, sender=OWNER, message_id=text)
        request = self.provider.requests[-1]
        assert violations(list(request.messages)) == []
        return str(request.messages[1:])  # the system prompt names earlier conversations


async def test_a_subagents_outcome_is_told_in_the_chat_and_kept_where_it_was_spawned(tmp_path: Path) -> None:
    model = Slow()
    async with rig(tmp_path, model.provider) as engine:
        await engine.asks("go", sender=OWNER)
        await engine.asks("/new", sender=OWNER)
        await engine.asks("hello", sender=OWNER)
        model.go_on.set()
        texts = await engine.texts_count(4)
        assert texts[-1] == "The sum is 42."
        outcome = next(request for request in model.provider.requests if last_user(request).startswith("[Background"))
        assert "go" in [last.partition("\n")[0] for last in _said(outcome)]
        assert "hello" not in str(outcome.messages[1:])
        assert "42" not in await model.asked(engine, "what now?")
        await engine.asks("/sessions 2", sender=OWNER)
        back = await model.asked(engine, "and the sum?")
        assert "Total is 42" in back
        assert "The sum is 42." in back
        assert "hello" not in back


async def test_a_tasks_report_is_kept_where_the_task_was_made(tmp_path: Path) -> None:
    model, clock = Slow(), FakeClock()
    async with rig(tmp_path, model.provider, clock=clock) as engine:
        await engine.asks("plan", sender=OWNER)
        engine.advance(61)
        async with asyncio.timeout(PATIENCE_S):
            await model.at_work.wait()
        await engine.asks("/new", sender=OWNER)
        model.go_on.set()
        assert (await engine.texts_count(3))[-1] == "All quiet."
        assert "All quiet." not in await model.asked(engine, "what now?")
        await engine.asks("/sessions 2", sender=OWNER)
        assert "All quiet." in await model.asked(engine, "and before?")


async def test_an_outcome_that_a_crash_held_up_still_goes_where_it_was_born(tmp_path: Path) -> None:
    model = Slow()
    async with rig(tmp_path, model.provider) as engine:
        await engine.asks("go", sender=OWNER)
        await engine.asks("/new", sender=OWNER)
        await engine.asks("hello", sender=OWNER)
        await engine.crash()
    model.go_on.set()
    async with again(engine.setup) as engine:
        assert (await engine.texts_count(4))[-1] == "The sum is 42."
        assert "42" not in await model.asked(engine, "what now?")
        await engine.asks("/sessions 2", sender=OWNER, message_id="back")
        assert "The sum is 42." in await model.asked(engine, "and the sum?")


def _said(request: ModelRequest) -> list[str]:
    return [str(row["content"]) for row in request.messages if row["role"] == "user"]
