"""The test's side of a scripted MCP server over stdio: the files it runs from, and its live record and control."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil

from tests.platforms.loopback import HOST, Bell
from tests.platforms.mcp_record import Record, read_log
from tests.platforms.mcp_script import Script, dump
from tests.platforms.mcp_stdio import SLEEPER, STUBBORN_SLEEPER

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.platforms.mcp_stdio"
OUR_WORDS = {PROGRAM, SLEEPER, STUBBORN_SLEEPER}


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioFiles:
    """What a client has to start, and what the server leaves behind; needs nothing of the test while it runs."""

    script_file: Path
    log_file: Path
    control_port: int | None = None

    @property
    def command(self) -> str:
        """The program."""
        return sys.executable

    @property
    def args(self) -> list[str]:
        """Its arguments."""
        control = [] if self.control_port is None else ["--control", str(self.control_port)]
        return ["-m", PROGRAM, str(self.script_file), "--log", str(self.log_file), *control]

    @property
    def env(self) -> dict[str, str]:
        """The variables it needs beside PATH."""
        return {"PYTHONPATH": str(ROOT)}

    def record(self) -> Record:
        """Return what its runs have logged so far."""
        return read_log(self.log_file)


def write_stdio(folder: Path, script: Script, *, control_port: int | None = None) -> StdioFiles:
    """Write a script's files into a folder; several scripts of different names share one."""
    files = StdioFiles(
        script_file=folder / f"{script.name}.json", log_file=folder / f"{script.name}.log", control_port=control_port
    )
    files.script_file.write_text(dump(script))
    return files


class StdioServer:
    """A scripted server over stdio that a test follows and steers while clients start it, once or again and again.

    Change `script` as you like, then `apply`: running processes and later ones behave by it. Processes that are still
    there when the `async with` block ends are ended, their grandchildren too.
    """

    patience_s = 10.0

    def __init__(self, folder: Path, script: Script) -> None:
        self.script = script
        self.bell = Bell()
        self.record = Record(lambda event: self.bell.ring())
        self.running = 0  # processes that are connected now
        self._folder = folder
        self._files: StdioFiles | None = None
        self._server: asyncio.Server | None = None
        self._writers: set[StreamWriter] = set()
        self._numbers = itertools.count(1)

    @property
    def files(self) -> StdioFiles:
        """What a client has to start."""
        assert self._files is not None, "enter the server first"
        return self._files

    @property
    def pids(self) -> list[int]:
        """The processes that were started, in order."""
        return [entry["pid"] for entry in self.record.of("started")]

    @property
    def grandchildren(self) -> list[int]:
        """The processes that those started."""
        return [entry["pid"] for entry in self.record.of("grandchild")]

    def alive(self) -> list[int]:
        """Return which of its processes and grandchildren still run; zombies do not."""
        return [pid for pid in [*self.pids, *self.grandchildren] if _is_ours(pid)]

    async def wait_for(self, predicate: Callable[[], T], *, timeout_s: float | None = None) -> T:
        """Return the predicate's first true value, looking again after each event.

        Raises:
            TimeoutError: with the record's end.
        """
        limit_s = self.patience_s if timeout_s is None else timeout_s
        try:
            return await self.bell.wait_for(predicate, timeout_s=limit_s)
        except TimeoutError:
            seen = "; ".join(json.dumps(event)[:200] for event in self.record.events[-8:])
            raise TimeoutError(f"not seen within {limit_s} s; seen: {seen}") from None

    async def apply(self) -> None:
        """Let the script as it is now count, in running processes and later ones."""
        write_stdio(self._folder, self.script, control_port=self.files.control_port)
        await self._order("apply", script=dump(self.script))

    async def release(self, tool: str) -> None:
        """Let the held calls of a tool go on, in the running processes."""
        await self._order("release", tool=tool)

    async def changed(self, kind: str) -> None:
        """Tell clients that a list changed: "tools", "resources" or "prompts"."""
        await self._order("changed", kind=kind)

    async def updated(self, uri: str) -> None:
        """Tell subscribed clients that a resource changed."""
        await self._order("updated", uri=uri)

    async def exit(self, code: int = 1) -> None:
        """End the running processes at once."""
        for writer in self._writers:
            self._send(writer, next(self._numbers), do="exit", code=code)
        await self.wait_for(lambda: not self.running)

    async def _order(self, do: str, **more: Any) -> None:
        numbers = []
        for writer in self._writers:
            numbers.append(next(self._numbers))
            self._send(writer, numbers[-1], do=do, **more)
        await self.wait_for(
            lambda: not self.running or set(numbers) <= {entry["order"] for entry in self.record.of("obeyed")}
        )

    def _send(self, writer: StreamWriter, number: int, **order: Any) -> None:
        writer.write(json.dumps({"number": number, **order}).encode() + b"\n")

    async def _follow(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        self.running += 1
        try:
            while line := await reader.readline():
                self.record.append(json.loads(line))
        except ConnectionError:
            pass  # a process that was killed
        finally:
            self._writers.discard(writer)
            writer.close()
            self.running -= 1
            self.bell.ring()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._follow, HOST, 0, limit=2**26)
        port = self._server.sockets[0].getsockname()[1]
        self._files = write_stdio(self._folder, self.script, control_port=port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for pid in self.alive():
            if pid in self.grandchildren:
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
        async with asyncio.timeout(self.patience_s):
            while self.running or self.alive():
                await asyncio.sleep(0.02)


def _is_ours(pid: int) -> bool:
    """Say whether the process of this number runs and is one of ours, and not another's that got the number."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()
        return process.status() != psutil.STATUS_ZOMBIE and any(word in OUR_WORDS for word in words)
    except psutil.NoSuchProcess:
        return False
