"""The terminal against a scripted engine on the control socket: what counts as answered, shown and over."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.control import Connection, ControlServer
from tests.support.program import Finished, Program

Json = dict[str, Any]
Script = Callable[["Engine"], Awaitable[None]]


class Engine:
    """The other end of one conversation."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.confirmed: list[int] = []

    async def lines(self, count: int) -> list[str]:
        """Return the ids of the next lines; confirmations on the way are kept."""
        ids: list[str] = []
        while len(ids) < count:
            event = await self._connection.receive()
            assert event is not None
            if "say" in event:
                ids.append(event["id"])
            else:
                self.confirmed.append(event["shown"])
        return ids

    async def message(
        self, outbox: int, text: str, *, answers: str = "", buttons: Sequence[Sequence[str]] = ()
    ) -> None:
        """Send a message."""
        event = {"event": "message", "outbox": outbox, "kind": "reply", "text": text, "answers": answers, "files": []}
        await self._connection.send({**event, "buttons": buttons})

    async def done(self, *lines: str, replied: bool) -> None:
        """Say that the turn of these lines is over."""
        await self._connection.send({"event": "done", "lines": list(lines), "replied": replied})

    async def refuse(self, line: str, text: str) -> None:
        """Refuse a line."""
        await self._connection.send({"event": "refused", "id": line, "text": text})

    async def until_gone(self) -> None:
        """Read what is still confirmed, until the terminal hangs up."""
        while (event := await self._connection.receive()) is not None:
            self.confirmed.append(event["shown"])


class Stage:
    """Runs `dutiful chat` beside a scripted engine."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.confirmed: list[int] = []

    @asynccontextmanager
    async def _listening(self, script: Script) -> AsyncIterator[None]:
        async def dialogue(connection: Connection) -> None:
            await connection.send({"ok": {"name": "Test"}})
            engine = Engine(connection)
            await script(engine)
            self.confirmed = engine.confirmed

        server = ControlServer(self.program.data, {}, dialogue)
        await server.start()
        try:
            yield
        finally:
            await server.close()

    async def piped(self, text: str, script: Script) -> Finished:
        """Send lines through a pipe."""
        async with self._listening(script):
            return await self.program.run("chat", stdin=text.encode())

    async def once(self, text: str, script: Script) -> Finished:
        """Say one thing."""
        async with self._listening(script):
            return await self.program.run("chat", "-m", text)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    program = Program(tmp_path)
    program.configure()
    program.data.mkdir(mode=0o700)
    return Stage(program)


@pytest.mark.parametrize("message_first", [True, False])
async def test_one_message_may_answer_several_lines(stage: Stage, message_first: bool) -> None:
    async def script(engine: Engine) -> None:
        first, second = await engine.lines(2)
        if message_first:
            await engine.message(1, "both", answers=second)
        await engine.done(first, second, replied=True)
        if not message_first:
            await engine.message(1, "both", answers=second)
        await engine.until_gone()

    result = await stage.piped("one\ntwo\n", script)
    assert (result.code, result.out, result.err) == (0, "both\n", "")
    assert stage.confirmed == [1]


async def test_a_one_shot_ends_with_an_answer_that_names_a_line_of_the_same_turn(stage: Stage) -> None:
    async def script(engine: Engine) -> None:
        (line,) = await engine.lines(1)
        await engine.done("somebody-else", line, replied=True)
        await engine.message(1, "for both", answers="somebody-else")
        await engine.until_gone()

    result = await stage.once("hi", script)
    assert (result.code, result.out) == (0, "for both\n")


@pytest.mark.parametrize("way", ["once", "piped"])
async def test_buttons_are_shown_as_words_below_the_message(stage: Stage, way: str) -> None:
    async def script(engine: Engine) -> None:
        (line,) = await engine.lines(1)
        await engine.message(1, "Sure?", answers=line, buttons=[["Yes", "No\n[x]"], ["Later"]])
        await engine.done(line, replied=True)
        await engine.until_gone()

    result = await getattr(stage, way)("hi", script)
    assert (result.code, result.out) == (0, "Sure?\n[Yes] [No [x]]\n[Later]\n")


async def test_a_one_shot_shows_what_came_before_its_answer(stage: Stage) -> None:
    async def script(engine: Engine) -> None:
        await engine.message(1, "a reminder that waited")
        (line,) = await engine.lines(1)
        await engine.message(2, "the answer", answers=line)
        await engine.until_gone()

    result = await stage.once("hi", script)
    assert result.out == "a reminder that waited\nthe answer\n"
    assert stage.confirmed == [1, 2]


async def test_a_one_shot_whose_turn_answered_by_tool_ends_after_the_last_message(stage: Stage) -> None:
    async def script(engine: Engine) -> None:
        (line,) = await engine.lines(1)
        await engine.done(line, replied=False)
        await engine.message(1, "written by the tool")
        await engine.until_gone()

    result = await stage.once("hi", script)
    assert (result.code, result.out) == (0, "written by the tool\n")


async def test_a_message_that_comes_again_is_confirmed_again_but_shown_once(stage: Stage) -> None:
    async def script(engine: Engine) -> None:
        (line,) = await engine.lines(1)
        await engine.message(1, "once")
        await engine.message(1, "once")
        await engine.message(2, "end", answers=line)
        await engine.until_gone()

    result = await stage.piped("hi\n", script)
    assert result.out == "once\nend\n"
    assert stage.confirmed == [1, 1, 2]


@pytest.mark.parametrize("way", ["once", "piped"])
async def test_a_refused_line_is_said_on_standard_error(stage: Stage, way: str) -> None:
    async def script(engine: Engine) -> None:
        (line,) = await engine.lines(1)
        await engine.refuse(line, "too many messages wait")
        await engine.until_gone()

    result = await getattr(stage, way)("hi", script)
    assert (result.out, result.err) == ("", "too many messages wait\n")
    assert result.code == (1 if way == "once" else 0)


@pytest.mark.parametrize("way", ["once", "piped"])
async def test_an_engine_that_goes_away_is_one_message(stage: Stage, way: str) -> None:
    async def script(engine: Engine) -> None:
        await engine.lines(1)

    result = await getattr(stage, way)("hi", script)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "stopped" in result.err


async def test_input_that_comes_while_the_program_ends_is_dropped_in_silence() -> None:
    code = (
        "import asyncio, threading\n"
        "from bot.screen import PipeScreen\n"
        "async def main(): PipeScreen()\n"
        "asyncio.run(main())\n"
        "print('over', flush=True)\n"
        "[thread.join(30) for thread in threading.enumerate() if thread.name == 'stdin']\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=Path(__file__).parents[1]
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"over\n"
    _, complaints = await process.communicate(b"late\n")
    assert (process.returncode, complaints) == (0, b"")


async def test_an_engine_that_opens_no_conversation_is_one_message(stage: Stage) -> None:
    async def dialogue(connection: Connection) -> None:
        await connection.send({"error": "not now"})
        await asyncio.Event().wait()

    server = ControlServer(stage.program.data, {}, dialogue)
    await server.start()
    try:
        result = await stage.program.run("chat", "-m", "hi")
    finally:
        await server.close()
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "did not open a conversation" in result.err
