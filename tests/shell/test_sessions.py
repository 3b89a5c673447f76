"""Sessions: whose they are, how many there may be, when they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config import ToolsConfig
from bot.messages import Role
from bot.shell.launch import ProcessLimits
from bot.shell.programs import TerminalProgram
from bot.shell.reading import Reading, SessionEnd
from bot.shell.sessions import (
    MAX_ENDED,
    ExecSession,
    ExecSessions,
    NoSessionError,
    Program,
    SessionInputError,
    TooManySessionsError,
)
from bot.shell.terminal import TerminalSize
from bot.toolkit.context import ToolContext
from tests.support.clock import FakeClock
from tests.support.commands import UNSANDBOXED, open_descriptors
from tests.support.contexts import request_context, tool_context
from tests.support.leftovers import alive, sleeper, until_alive

PATIENCE_S = 20.0
OWNER = request_context("111", role=Role.OWNER)
OPEN = ToolsConfig(exec=UNSANDBOXED)
ME, OTHER = "telegram:111", "telegram:222"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def ctx(tmp_path: Path, clock: FakeClock) -> AsyncIterator[ToolContext]:
    async with tool_context(tmp_path, clock, config=OPEN) as context:
        yield context


async def begin(ctx: ToolContext, script: str, owner: str = ME, limit_s: float | None = None) -> ExecSession:
    launch = await ctx.room.shell.prepare(OWNER, ["/bin/sh", "-c", script])

    async def start(on_output: Callable[[], None]) -> Program:
        return await TerminalProgram.start(ctx.room.shell, launch, TerminalSize(), on_output)

    return await ctx.room.sessions.start(owner, script, start, limit_s=limit_s)


async def ended(session: ExecSession) -> Reading:
    assert not await session.wait_for(lambda _: False, PATIENCE_S)
    assert not session.live
    return await session.read()


async def shows(session: ExecSession, words: str) -> None:
    assert await session.wait_for(lambda text: words in text, PATIENCE_S), await session.read()


async def test_each_reading_has_only_what_is_new(ctx: ToolContext) -> None:
    session = await begin(ctx, "stty -echo; echo one; read x; echo two; read x; exit 3")
    await shows(session, "one")
    assert await session.read() == Reading(text="one\n")
    assert await session.read() == Reading(text="")
    session.send(b"\n")
    await shows(session, "two")
    assert (await session.read()).text.strip() == "two"
    session.send(b"\n")
    last = await ended(session)
    assert (last.exit_code, last.end) == (3, SessionEnd.EXITED)
    with pytest.raises(SessionInputError, match="it has ended"):
        session.send(b"x")
    with pytest.raises(SessionInputError, match="it has ended"):
        session.resize(TerminalSize())


async def test_a_character_or_sequence_that_is_cut_by_a_reading_comes_whole_in_the_next(ctx: ToolContext) -> None:
    session = await begin(ctx, r"stty -echo; printf 'a\303'; read x; printf '\251b\033['; read x; printf '1mc'; read x")
    await session.settle(PATIENCE_S)
    assert (await session.read()).text == "a"
    session.send(b"\n")
    await shows(session, "b")
    assert (await session.read()).text.strip() == "éb"
    session.send(b"\n")
    await shows(session, "c")
    assert (await session.read()).text.strip() == "c"


async def test_another_owner_cannot_see_or_get_a_session(ctx: ToolContext) -> None:
    sessions = ctx.room.sessions
    mine = await begin(ctx, "cat")
    assert sessions.of(ME) == [mine]
    assert sessions.of(OTHER) == []
    assert sessions.get(ME, mine.id) is mine
    with pytest.raises(NoSessionError) as of_other:
        sessions.get(OTHER, mine.id)
    await sessions.terminate(mine)
    sessions.forget(mine)
    with pytest.raises(NoSessionError) as of_nobody:
        sessions.get(OTHER, mine.id)
    assert str(of_other.value) == str(of_nobody.value)  # which does not tell that there is such a session


async def test_the_ninth_session_is_refused_with_the_reason_until_one_has_ended(ctx: ToolContext) -> None:
    live = [await begin(ctx, "cat", ME if number < 3 else OTHER) for number in range(8)]
    with pytest.raises(TooManySessionsError, match=r"8 sessions are live, .* \(3 of this chat\): terminate one"):
        await begin(ctx, "cat", ME)
    with pytest.raises(TooManySessionsError, match=r"\(0 of this chat\): try again later"):
        await begin(ctx, "cat", "telegram:333")
    await ctx.room.sessions.terminate(live[0])
    assert (await begin(ctx, "cat", ME)).live


async def test_the_limit_holds_when_many_start_at_the_same_time(ctx: ToolContext) -> None:
    outcomes = await asyncio.gather(*(begin(ctx, "cat") for _ in range(12)), return_exceptions=True)
    assert sum(isinstance(outcome, ExecSession) for outcome in outcomes) == 8
    assert sum(isinstance(outcome, TooManySessionsError) for outcome in outcomes) == 4


async def test_a_launch_that_fails_takes_no_place(ctx: ToolContext) -> None:
    async def fails(on_output: Callable[[], None]) -> Program:
        raise OSError("no more terminals")

    for _ in range(9):
        with pytest.raises(OSError, match="no more terminals"):
            await ctx.room.sessions.start(ME, "x", fails)
    assert ctx.room.sessions.of(ME) == []


async def test_a_session_that_is_not_used_for_half_an_hour_is_ended_with_all_it_started(
    ctx: ToolContext, clock: FakeClock
) -> None:
    sleep = sleeper()
    unused, used = await begin(ctx, f"setsid {sleep} & echo begun; cat"), await begin(ctx, "cat")
    await shows(unused, "begun")
    await until_alive(sleep)
    clock.advance(29 * 60)
    used.touch()
    await ctx.room.sessions.end_idle()
    assert (unused.live, used.live) == (True, True)
    clock.advance(60)
    await ctx.room.sessions.end_idle()
    assert (unused.live, used.live) == (False, True)
    assert alive(sleep) == []
    assert unused.end is SessionEnd.IDLE
    assert ctx.room.sessions.of(ME) == [unused, used]  # its end is to be told first
    clock.advance(30 * 60 - 1)
    used.touch()
    await ctx.room.sessions.end_idle()
    assert unused in ctx.room.sessions.of(ME)
    clock.advance(1)
    await ctx.room.sessions.end_idle()
    assert ctx.room.sessions.of(ME) == [used]


async def test_idle_sessions_are_looked_for_while_there_are_any(ctx: ToolContext, clock: FakeClock) -> None:
    sessions = ExecSessions(clock, sweep_s=0.01)
    launch = await ctx.room.shell.prepare(OWNER, ["cat"])

    async def start(on_output: Callable[[], None]) -> Program:
        return await TerminalProgram.start(ctx.room.shell, launch, TerminalSize(), on_output)

    session = await sessions.start(ME, "cat", start)
    clock.advance(30 * 60)
    assert (await ended(session)).end is SessionEnd.IDLE
    names = {task.get_name() for task in asyncio.all_tasks()}
    async with asyncio.timeout(PATIENCE_S):
        while "idle sessions" in names:
            await asyncio.sleep(0.01)
            names = {task.get_name() for task in asyncio.all_tasks()}
    await sessions.close()


async def test_a_time_limit_ends_a_session_and_says_so(ctx: ToolContext) -> None:
    sleep = sleeper()
    session = await begin(ctx, f"echo begun; {sleep}", limit_s=0.5)
    reading = await ended(session)
    assert (reading.text, reading.end) == ("begun\n", SessionEnd.TIME_LIMIT)
    assert reading.state() == "was ended because its time limit was over: exit code 137 (SIGKILL)"
    assert alive(sleep) == []


async def test_too_many_processes_end_a_session_and_it_says_so(ctx: ToolContext) -> None:
    sleep = sleeper()
    script = f"for i in 1 2 3 4 5 6 7 8 9 10; do {sleep} & done; cat"
    launch = replace(await ctx.room.shell.prepare(OWNER, ["/bin/sh", "-c", script]), limits=ProcessLimits(processes=5))

    async def start(on_output: Callable[[], None]) -> Program:
        return await TerminalProgram.start(ctx.room.shell, launch, TerminalSize(), on_output)

    session = await ctx.room.sessions.start(ME, "many", start)
    assert (
        await ended(session)
    ).state() == "was ended because it had too many processes at a time: exit code 137 (SIGKILL)"
    assert alive(sleep) == []


async def test_terminating_ends_double_forks_and_those_that_left_the_session(ctx: ToolContext) -> None:
    sleep = sleeper()
    session = await begin(ctx, f"(setsid sh -c '({sleep} &) ; {sleep}' &); nohup {sleep} >/dev/null & echo begun; cat")
    await until_alive(sleep, 3)
    await shows(session, "begun")
    await ctx.room.sessions.terminate(session)
    assert alive(sleep) == []
    assert (await ended(session)).end is SessionEnd.TERMINATED


async def test_what_a_program_left_behind_ends_with_it(ctx: ToolContext) -> None:
    sleep = sleeper()
    session = await begin(ctx, f"(setsid {sleep} &); sleep 0.2; exit 2")
    assert (await ended(session)).exit_code == 2
    assert alive(sleep) == []


async def test_ended_sessions_that_nobody_reads_are_kept_up_to_a_number(ctx: ToolContext) -> None:
    made = []
    for _ in range(MAX_ENDED + 2):
        session = await begin(ctx, "echo x")
        assert not await session.wait_for(lambda _: False, PATIENCE_S)
        made.append(session)
    assert ctx.room.sessions.of(ME) == made[2:]


async def test_waiting_for_words_reads_nothing_and_can_be_given_up_at_any_time(ctx: ToolContext) -> None:
    session = await begin(ctx, "echo first; cat")
    waiting = asyncio.create_task(session.wait_for(lambda text: "never" in text, 100))
    await shows(session, "first")
    assert not waiting.done()
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert session.live
    session.send(b"hello\n")
    await shows(session, "hello\nhello")
    assert (await session.read()).text.startswith("first\n")


async def test_words_are_found_at_the_beginning_and_at_the_end_of_much_output(ctx: ToolContext) -> None:
    session = await begin(ctx, "echo needle; yes")
    await shows(session, "needle")
    session = await begin(ctx, "seq 1 200000; echo needle; cat")
    await shows(session, "needle")
    assert "bytes left out" in (await session.read()).text


async def test_waiting_for_words_ends_in_time_when_output_never_pauses(ctx: ToolContext) -> None:
    session = await begin(ctx, "yes")
    async with asyncio.timeout(PATIENCE_S):
        assert not await session.wait_for(lambda _: False, 0.5)
    assert session.live


async def test_a_reading_waits_for_output_to_pause_but_not_longer_than_it_may(ctx: ToolContext) -> None:
    session = await begin(ctx, "for i in 1 2 3 4 5; do echo $i; sleep 0.02; done; cat")
    await session.settle(PATIENCE_S, quiet_s=1.0)
    assert (await session.read()).text == "1\n2\n3\n4\n5\n"
    await session.settle(0.0)
    endless = await begin(ctx, "yes")
    await endless.settle(0.2)
    assert (await endless.read()).text.startswith("y\ny\n")


async def test_thirty_sessions_leave_no_descriptor_no_task_and_no_process(ctx: ToolContext) -> None:
    sleep = sleeper()

    async def one() -> None:
        session = await begin(ctx, f"{sleep} & cat")
        await until_alive(sleep)
        await ctx.room.sessions.terminate(session)
        ctx.room.sessions.forget(session)

    await one()
    before, tasks = open_descriptors(), len(asyncio.all_tasks())
    for _ in range(5):
        await asyncio.gather(*(one() for _ in range(6)))
    assert open_descriptors() == before
    assert len(asyncio.all_tasks()) == tasks
    assert alive(sleep) == []


async def test_closing_ends_all_sessions_and_lets_none_begin(ctx: ToolContext) -> None:
    sleep = sleeper()
    for _ in range(3):
        await begin(ctx, f"trap '' HUP TERM INT; (setsid {sleep} &); {sleep}; cat")
    await until_alive(sleep, 6)
    late = asyncio.create_task(begin(ctx, sleep))
    await ctx.room.close()
    with pytest.raises(Exception, match="shutting down"):
        await late
    assert alive(sleep) == []
    with pytest.raises(TooManySessionsError, match="shutting down"):
        await begin(ctx, "cat")
    await ctx.room.close()
