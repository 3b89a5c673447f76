"""Processes of commands: what they get, how they end, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from pathlib import Path

import psutil
import pytest

from bot.config.tools import ExecSection
from bot.shell.launch import LaunchRefused, ProcessLimits
from bot.shell.output import HeadTail
from bot.shell.process import Ending, Process
from bot.shell.run import run
from tests.support.commands import (
    OWNER,
    PATIENCE_S,
    UNSANDBOXED,
    Commands,
    Rope,
    alive,
    both_modes,
    commands,
    needs_bwrap,
    open_descriptors,
)

# Ways to leave the process that started one, its group, its session, its terminal.
ESCAPES = {
    "background": "sleep 4321 &",
    "nohup": "nohup sleep 4321 >/dev/null 2>&1 &",
    "session": "setsid sleep 4321 &",
    "double fork": "(setsid sh -c '(sleep 4321 &) ; exit' &)",
    "deaf": "(trap '' TERM INT HUP; sleep 4321; sleep 4321) &",
    "deep": 'sh -c \'sh -c "setsid sh -c \\"sleep 4321; :\\" & :" & :\' &',
}


async def begun(desk: Commands, script: str) -> Process:
    launch = await desk.shell.prepare(OWNER, ["bash", "-c", script])
    return await desk.shell.start(launch)


def the_warden() -> psutil.Process:
    [found] = [child for child in psutil.Process().children() if "warden.py" in " ".join(child.cmdline())]
    return found


async def written(process: Process) -> str:
    output = HeadTail()
    while chunk := await process.read():
        output.write(chunk)
    return output.text()


@both_modes
@pytest.mark.parametrize("escape", ESCAPES)
async def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path, section: ExecSection, escape: str) -> None:
    async with commands(tmp_path, section) as desk:
        rope = Rope(desk.root())
        process = await begun(desk, f"{rope.hold}; {ESCAPES[escape]}\nread -t 0.2 <> <(:); exit 3")
        await rope.held()
        assert await process.wait() == Ending(code=3)
        await rope.released()


@both_modes
@pytest.mark.parametrize("escape", ESCAPES)
async def test_every_descendant_ends_when_the_command_is_ended(
    tmp_path: Path, section: ExecSection, escape: str
) -> None:
    async with commands(tmp_path, section) as desk:
        rope = Rope(desk.root())
        process = await begun(desk, f"{rope.hold}; {ESCAPES[escape]}\necho up; sleep 4321")
        await rope.held()
        assert await process.read() == b"up\n"
        assert await process.end() == Ending(code=137, why="asked")
        await rope.released()
        assert await process.end() == Ending(code=137, why="asked")
        assert not process.is_running


@both_modes
async def test_closing_ends_everything_and_nothing_begins_any_more(tmp_path: Path, section: ExecSection) -> None:
    """C083, the part of the shell."""
    async with commands(tmp_path, section) as desk:
        ropes = [Rope(desk.root(), f"rope{number}") for number in range(3)]
        for rope in ropes:
            await begun(desk, f"{rope.hold}; setsid sleep 4321 & sleep 4321")
            await rope.held()
        await desk.shell.close()
        for rope in ropes:
            await rope.released()
        with pytest.raises(LaunchRefused, match="shutting down"):
            await begun(desk, "true")


@both_modes
async def test_a_cancelled_start_leaves_nothing(tmp_path: Path, section: ExecSection) -> None:
    async with commands(tmp_path, section) as desk:
        assert await desk.run("true")
        before = open_descriptors()
        launch = await desk.shell.prepare(OWNER, ["sleep", "4321"])
        for turns in range(12):  # at each point where a start waits
            task = asyncio.create_task(run(desk.shell, launch, limit_s=60))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await desk.shell.close()
        async with asyncio.timeout(PATIENCE_S):
            while psutil.Process().children():  # one that was never handed over ends by itself
                await asyncio.sleep(0.01)
        assert open_descriptors() == before


async def test_a_crowd_of_commands_is_started_with_time_for_others_in_between(tmp_path: Path) -> None:
    async with commands(tmp_path, UNSANDBOXED) as desk:
        launch = await desk.shell.prepare(OWNER, ["sleep", "4321"])
        starts = [asyncio.create_task(desk.shell.start(launch)) for _ in range(20)]
        most, before = 0, 0
        while before < len(starts):
            await asyncio.sleep(0)
            now = len(psutil.Process().children())
            most, before = max(most, now - before), now
        await asyncio.gather(*starts)
        assert most <= 2  # made in one turn of the loop


@both_modes
async def test_signals_are_told_as_shells_do(tmp_path: Path, section: ExecSection) -> None:
    async with commands(tmp_path, section) as desk:
        for script, code in (("kill -SEGV $$", 139), ("kill -9 $$", 137), ("exit 200", 200), ("true", 0)):
            process = await begun(desk, script)
            assert await process.wait() == Ending(code=code)


@both_modes
async def test_a_broken_pipe_ends_a_writer_as_ever(tmp_path: Path, section: ExecSection) -> None:
    """Python ignores SIGPIPE, and a command must not inherit that."""
    async with commands(tmp_path, section) as desk:
        assert (await desk.run("yes | head -1")).startswith("y\n[exit code 0;")
        assert "141" in await desk.run("yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}")


@both_modes
async def test_limits_are_set(tmp_path: Path, section: ExecSection) -> None:
    limits = ProcessLimits(file_bytes=10_000, data_bytes=200 * 1024 * 1024, open_files=64, nice=7)
    async with commands(tmp_path, section, limits=limits) as desk:
        result = await desk.run(
            "ulimit -c; ulimit -n; nice; cat /proc/self/oom_score_adj; head -c 20000 /dev/zero > big; "
            "python3 -S -c 'x = bytearray(500_000_000)' 2>&1 | tail -1"
        )
        assert result.startswith("0\n64\n")
        assert (desk.root() / "big").stat().st_size == 10_000
        assert "MemoryError" in result
        # The highest of what there was and what is asked for: a bot may be nice itself.
        nice, score = map(int, result.split("\n")[2:4])
        assert nice == os.nice(0) + 7
        assert score == 900


FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


@needs_bwrap
async def test_a_fork_bomb_in_the_sandbox_is_contained(tmp_path: Path) -> None:
    async with commands(tmp_path, limits=ProcessLimits(processes=100)) as desk:
        rope = Rope(desk.root())
        process = await begun(desk, f"{rope.hold}; exec 2>/dev/null; {FORK_BOMB}")
        await rope.held()
        if os.geteuid() == 0:  # nothing but the warden stops this user
            assert (await process.wait()).why == "processes"
        else:  # the kernel lets it have no more, so that it may live on
            await process.end()
        await rope.released()


async def test_a_fork_bomb_outside_of_a_sandbox_is_ended(tmp_path: Path) -> None:
    async with commands(tmp_path, UNSANDBOXED, limits=ProcessLimits(processes=100)) as desk:
        rope = Rope(desk.root())
        # It grows by itself, but slowly enough for the machine that the test runs on.
        process = await begun(desk, f"{rope.hold}; for n in $(seq 400); do setsid sleep 4321 & done; sleep 60")
        await rope.held()
        assert (await process.wait()).why == "processes"
        await rope.released()


@needs_bwrap
async def test_killing_the_warden_ends_the_sandbox(tmp_path: Path) -> None:
    async with commands(tmp_path) as desk:
        rope = Rope(desk.root())
        process = await begun(desk, f"{rope.hold}; setsid sleep 4321 & sleep 4321")
        await rope.held()
        warden = the_warden()
        warden.kill()
        assert (await process.wait()).why == "lost"
        await rope.released()


@both_modes
async def test_a_signal_for_the_warden_ends_all_of_it(tmp_path: Path, section: ExecSection) -> None:
    async with commands(tmp_path, section) as desk:
        rope = Rope(desk.root())
        process = await begun(desk, f"{rope.hold}; setsid sleep 4321 & sleep 4321")
        await rope.held()
        warden = the_warden()
        warden.send_signal(signal.SIGTERM)
        assert (await process.wait()).why == "asked"
        await rope.released()


async def test_a_command_that_stops_its_warden_is_ended_all_the_same(tmp_path: Path) -> None:
    async with commands(tmp_path, UNSANDBOXED) as desk:
        result = await desk.run("kill -STOP $PPID; exec sleep 4321", timeout=1)
        assert "exit code 255" in result
        assert "took longer" not in result


@both_modes
async def test_a_program_that_is_not_there_is_told(tmp_path: Path, section: ExecSection) -> None:
    async with commands(tmp_path, section) as desk:
        launch = await desk.shell.prepare(OWNER, ["no-such-program"])
        process = await desk.shell.start(launch)
        assert "not found" in await written(process)
        assert (await process.wait()).code == 127


@both_modes
async def test_a_terminal_is_the_commands_own(tmp_path: Path, section: ExecSection) -> None:
    async with commands(tmp_path, section) as desk:
        ours, theirs = os.openpty()
        try:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
            launch = await desk.shell.prepare(
                OWNER,
                ["bash", "-c", "trap 'exit 99' INT; test -t 0 && stty size </dev/tty; while :; do read -t 1; done"],
            )
            process = await desk.shell.start(launch, terminal=theirs)
            os.close(theirs)
            lines = await asyncio.to_thread(_read_until, ours, b"33 99\r\n")
            assert lines.endswith(b"33 99\r\n")
            os.write(ours, b"\x03")  # Ctrl-C
            assert await process.wait() == Ending(code=99)
        finally:
            os.close(ours)


def _read_until(fd: int, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        data += os.read(fd, 1)
    return data


@both_modes
async def test_nothing_of_the_bots_descriptors_reaches_a_command(tmp_path: Path, section: ExecSection) -> None:
    async with commands(tmp_path, section) as desk:
        with (tmp_path / "secret").open("w") as file:
            os.set_inheritable(file.fileno(), True)
            result = await desk.run("ls -l /proc/self/fd | wc -l; ls -l /proc/self/fd; readlink /proc/self/fd/0")
        assert "secret" not in result
        assert "socket:" not in result  # such as the line to the bot
        assert "/dev/null" in result
        assert alive("secret") == []
