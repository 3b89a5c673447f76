"""Terminals: real ones, with real programs at the other end, inside the sandbox and without one."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from bot.config import ToolsConfig
from bot.messages import Role
from bot.shell.programs import TerminalProgram
from bot.shell.sessions import SessionInputError
from bot.shell.terminal import MAX_UNWRITTEN_BYTES, InputFullError, Terminal, TerminalSize
from bot.toolkit.context import ToolContext
from tests.support.commands import UNSANDBOXED, needs_bwrap, open_descriptors
from tests.support.contexts import request_context, tool_context
from tests.support.leftovers import alive, sleeper, until_alive

PATIENCE_S = 20.0
OWNER = request_context("111", role=Role.OWNER)
OPEN = ToolsConfig(exec=UNSANDBOXED)
SANDBOXED = pytest.param(ToolsConfig(), id="sandbox", marks=needs_bwrap)


class Screen:
    """One program on a terminal, and all that it has written."""

    def __init__(self) -> None:
        self.program: TerminalProgram
        self.text = ""
        self.rings = 0
        self._bell = asyncio.Event()

    def ring(self) -> None:
        self.rings += 1
        self._bell.set()

    def look(self) -> str:
        self.text += self.program.output.take(10_000_000)
        return self.text

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await self._bell.wait()
                self._bell.clear()

    async def shows(self, words: str) -> None:
        try:
            await self.until(lambda: words in self.look())
        except TimeoutError:
            raise AssertionError(f"{words!r} is not in {self.text!r}") from None

    async def ends(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            code = (await self.program.wait()).code
        self.look()
        return code


@pytest.fixture(params=[SANDBOXED, pytest.param(OPEN, id="open")])
async def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ToolContext]:
    async with tool_context(tmp_path, config=request.param) as context:
        yield context


@asynccontextmanager
async def started(ctx: ToolContext, script: str, size: TerminalSize | None = None) -> AsyncIterator[Screen]:
    screen = Screen()
    launch = await ctx.room.shell.prepare(OWNER, ["/bin/sh", "-c", script])
    screen.program = await TerminalProgram.start(ctx.room.shell, launch, size or TerminalSize(), screen.ring)
    try:
        yield screen
    finally:
        await screen.program.end()
        await screen.program.wait()


async def test_all_three_streams_are_the_programs_controlling_terminal(ctx: ToolContext) -> None:
    script = (
        "test -t 0 && test -t 1 && test -t 2 && echo three; echo by name > /dev/tty; ps -o tty= -o sid= -p $$; echo $$"
    )
    async with started(ctx, script) as screen:
        assert await screen.ends() == 0
    lines = screen.text.split("\n")
    assert lines[:2] == ["three", "by name"]
    terminal, leader = lines[2].split()
    assert terminal != "?"
    assert leader == lines[3]


async def test_the_first_size_and_a_new_one_are_seen_and_the_new_one_is_signalled(ctx: ToolContext) -> None:
    script = "trap 'stty size; exit 4' WINCH; stty size; while :; do sleep 0.05; done"
    async with started(ctx, script, TerminalSize(cols=91, rows=17)) as screen:
        await screen.shows("17 91")
        screen.program.resize(TerminalSize(cols=203, rows=5))
        await screen.shows("5 203")
        assert await screen.ends() == 4


async def test_control_c_interrupts_what_is_in_the_foreground_and_the_shell_goes_on(ctx: ToolContext) -> None:
    sleep = sleeper()
    async with started(ctx, "exec sh -i") as screen:
        screen.program.send(f"{sleep}\n".encode())
        await until_alive(sleep)
        screen.program.send(b"\x03")
        screen.program.send(b"echo code=$?; exit 7\n")
        await screen.shows("code=130")
        assert await screen.ends() == 7
    assert alive(sleep) == []


async def test_a_hang_up_character_ends_input_and_quotes_work_as_on_any_terminal(ctx: ToolContext) -> None:
    async with started(ctx, "cat; echo end of input") as screen:
        screen.program.send(b"line\nmistqke\x7f\x7f\x7fake\n\x04")
        await screen.shows("end of input")
    assert "line\nmist" in screen.text
    assert "\nmistake\n" in screen.text


async def test_input_that_nobody_reads_is_bounded_and_never_holds_up_the_loop(ctx: ToolContext) -> None:
    async with started(ctx, "stty raw -echo; echo ready; exec sleep 1000") as screen:
        await screen.shows("ready")
        screen.program.send(b"x" * MAX_UNWRITTEN_BYTES)
        with pytest.raises(SessionInputError, match="has not read"):
            screen.program.send(b"y" * MAX_UNWRITTEN_BYTES)


async def test_long_input_arrives_whole_and_in_order_when_the_program_reads_it(ctx: ToolContext) -> None:
    data = os.urandom(60_000).hex().encode()
    script = f"stty raw -echo; echo ready; head -c {len(data)} | sha256sum"
    async with started(ctx, script) as screen:
        await screen.shows("ready")
        for start in range(0, len(data), 30_000):
            while True:
                try:
                    screen.program.send(data[start : start + 30_000])
                    break
                except SessionInputError:
                    await asyncio.sleep(0.01)
        await screen.shows(hashlib.sha256(data).hexdigest())


async def test_endless_output_is_held_within_bounds_and_leaves_time_for_others(ctx: ToolContext) -> None:
    async with started(ctx, "exec yes") as screen:
        turns = 0

        def much() -> bool:
            held = len(screen.program.output._head) + len(screen.program.output._tail)
            assert held <= 384 * 1024 + 4096
            return screen.program.output.total_bytes > 4_000_000

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        other = asyncio.create_task(others())
        await screen.until(much)
        other.cancel()
        assert turns > screen.rings


async def test_a_program_that_closes_its_terminal_costs_nothing_until_it_ends(ctx: ToolContext) -> None:
    async with started(ctx, "echo last words; exec </dev/null >/dev/null 2>&1; sleep 0.3; exit 5") as screen:
        assert await screen.ends() == 5
    assert "last words" in screen.text
    assert screen.rings < 10


async def test_all_output_up_to_the_end_is_there(ctx: ToolContext) -> None:
    async with started(ctx, "seq 1 20000; echo the end; kill -9 $$") as screen:
        assert await screen.ends() == 137
    assert screen.text == "".join(f"{number}\n" for number in range(1, 20_001)) + "the end\n"


async def test_thirty_programs_leave_no_descriptor_and_no_terminal(ctx: ToolContext) -> None:
    async with started(ctx, "true") as screen:
        await screen.ends()
    before = open_descriptors()
    for number in range(30):
        async with started(ctx, "cat" if number % 2 else "echo x; exit 1") as screen:
            pass
    assert open_descriptors() == before


async def test_a_terminal_is_closed_twice_without_harm_and_takes_no_more() -> None:
    before = open_descriptors()
    terminal = Terminal(TerminalSize(), lambda: None)
    terminal.write(b"to nobody")
    with pytest.raises(InputFullError):
        terminal.write(b"x" * (MAX_UNWRITTEN_BYTES + 1))
    terminal.close()
    terminal.close()
    terminal.write(b"later")
    terminal.resize(TerminalSize())
    assert terminal.closed
    assert open_descriptors() == before


def test_a_terminal_works_in_the_loop_that_the_service_uses(tmp_path: Path) -> None:
    async def journey() -> None:
        async with tool_context(tmp_path, config=OPEN) as ctx, started(ctx, "cat") as screen:
            screen.program.send(b"through uvloop\n")
            await screen.until(lambda: screen.look().count("through uvloop") == 2)
            screen.program.send(b"\x04")
            assert await screen.ends() == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(journey())
