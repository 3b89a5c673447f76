"""A run of ripgrep: what it may open, that it ends when it must, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.ripgrep.child import Command, Exit, Halt, in_own_thread, run
from bot.ripgrep.program import find_program, load_program, missing_reason
from bot.ripgrep.search import deadline
from bot.security.landlock import abi_version
from tests.support.children import children, descriptors, environment
from tests.support.held_file import held

needs_landlock = pytest.mark.skipif(not abi_version(), reason="this kernel has no Landlock")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """A folder with one file, as a descriptor; a secret lies beside it."""
    (tmp_path / "secret").write_text("needle outside")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("needle inside\n")
    descriptor = os.open(tmp_path / "in", os.O_RDONLY | os.O_CLOEXEC)
    yield descriptor
    os.close(descriptor)


def rg(folder: int, *arguments: str, limit_s: float = 20.0, halt: Halt | None = None) -> tuple[Exit, str]:
    output = bytearray()

    def take(piece: bytes) -> bool:
        output.extend(piece)
        return len(output) < 100_000

    command = Command(arguments=["--no-config", *arguments], folders=(folder,), start_in=folder)
    ended = run(command, halt or Halt(), until_s=deadline(limit_s), take=take)
    return ended, output.decode(errors="replace")


def running() -> list[int]:
    """The ripgrep processes of this one, zombies included."""
    return children(find_program().name)


def test_the_program_is_the_one_of_the_installed_wheel() -> None:
    assert missing_reason() == ""
    assert find_program() == (Path(sys.executable).parent / "rg").resolve()
    assert find_program() in load_program().files
    assert all(file.is_file() for file in load_program().files)


def test_it_runs_in_the_folder_and_tells_how_it_ended(folder: int) -> None:
    assert rg(folder, "-n", "needle", "./") == (Exit(code=0, errors="", is_cut=False), "./a.txt:1:needle inside\n")
    assert rg(folder, "nothing", "./")[0].code == 1
    ended, output = rg(folder, "(", "./")
    assert (ended.code, output) == (2, "")
    assert "unclosed group" in ended.errors


@needs_landlock
def test_it_can_open_nothing_but_its_folder(folder: int, tmp_path: Path) -> None:
    for path in ("../secret", str(tmp_path / "secret"), "/etc/passwd", "/proc/self/environ", "../"):
        ended, output = rg(folder, "--hidden", "-a", "", path)
        assert (ended.code, output) == (2, ""), path
        assert "Permission denied" in ended.errors


def test_it_has_no_environment_and_no_descriptor_of_ours(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/etc/passwd")
    monkeypatch.setenv("SECRET", "x")
    seen: list[tuple[bytes, list[str]]] = []

    def look(piece: bytes) -> bool:
        (child,) = running()
        seen.append((environment(child), descriptors(child)))
        return False

    endless = Path(f"/proc/self/fd/{folder}") / "many.txt"
    endless.write_text("needle\n" * 1_000_000)
    ended = run(
        Command(arguments=["--no-config", "needle", "./"], folders=(folder,), start_in=folder),
        Halt(),
        until_s=deadline(20),
        take=look,
    )
    assert ended.is_cut
    ((variables, opened),) = seen
    assert variables == b""
    files = [path for path in opened if path.startswith("/")]
    assert set(files) <= {"/dev/null", str(tmp_path / "in"), str(tmp_path / "in/a.txt"), str(tmp_path / "in/many.txt")}
    assert len([path for path in opened if path.startswith("pipe:")]) == 2


def test_it_is_killed_when_enough_was_read_or_the_time_is_up(folder: int) -> None:
    many = Path(f"/proc/self/fd/{folder}") / "many.txt"
    many.write_text("needle\n" * 1_000_000)
    ended, output = rg(folder, "needle", "./")
    assert ended.is_cut
    assert len(output) < 100_000 + (1 << 20)
    assert rg(folder, "needle", "./", limit_s=-1.0)[0].is_cut
    assert running() == []


async def test_it_gives_way_to_us(folder: int, tmp_path: Path) -> None:
    async with held(tmp_path / "in/a.txt") as file:
        task = asyncio.create_task(in_own_thread(lambda halt: rg(folder, "needle", "./", halt=halt), name="search"))
        await file.somebody_waits()
        (child,) = running()
        assert os.getpriority(os.PRIO_PROCESS, child) > os.getpriority(os.PRIO_PROCESS, 0)
        file.let_go()
        assert (await task)[0].code == 0


async def test_a_cancelled_search_leaves_no_process_thread_or_descriptor(folder: int, tmp_path: Path) -> None:
    rg(folder, "needle", "./")
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208
    for _ in range(5):
        async with held(tmp_path / "in/a.txt") as file:
            task = asyncio.create_task(in_own_thread(lambda halt: rg(folder, "needle", "./", halt=halt), name="search"))
            await file.somebody_waits()
            assert len(running()) == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert running() == []
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    for thread in threading.enumerate():
        if thread.name == "search":
            thread.join(10)
    assert threading.active_count() <= threads


async def test_a_halted_search_starts_no_further_program(folder: int) -> None:
    halt = Halt()
    halt.set()
    ended, _ = rg(folder, "needle", "./", halt=halt)
    assert ended.is_cut
    assert running() == []


async def test_what_the_work_raises_reaches_the_waiter() -> None:
    def fail(halt: Halt) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await in_own_thread(fail, name="search")


def test_an_interpreter_without_the_wheel_is_told_so(tmp_path: Path) -> None:
    """In a process whose interpreter has no program beside it, no distribution and an empty PATH."""
    script = (
        f"import sys; sys.path[:0] = [{str(Path.cwd())!r}]; sys.executable = {str(tmp_path / 'python')!r}\n"
        "from bot.ripgrep.program import missing_reason; print(missing_reason())"
    )
    system = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run([system, "-IS", "-c", script], capture_output=True, text=True, env={"PATH": ""}, check=True)
    assert done.stdout == "the program ripgrep (rg) is not installed\n"
