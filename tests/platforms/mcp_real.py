"""Real MCP servers: server-everything and server-filesystem from npm, mcp-server-time from PyPI.

`npm ci` in tests/mcp_servers installs the first two, the extra `test` the third; a test whose server is missing is
skipped with the reason. HTTP modes listen on loopback only and end with the test.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from asyncio import Task
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import pytest

PACKAGES = Path(__file__).parents[1] / "mcp_servers"
EVERYTHING = "@modelcontextprotocol/server-everything"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"

PATIENCE_S = 20.0  # node on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Stdio:
    """What a client has to start."""

    command: str
    args: list[str]
    env: dict[str, str] = field(default_factory=dict)


def everything_stdio() -> Stdio:
    """Return the server that shows every feature of MCP 2025, over stdio."""
    return program(EVERYTHING, "stdio")


def filesystem_stdio(*roots: Path) -> Stdio:
    """Return the server of files below `roots` (without any it asks its client for roots)."""
    return program(FILESYSTEM, *map(str, roots))


def time_stdio() -> Stdio:
    """Return the server of time zones, which speaks both generations; it takes UTC for its own zone."""
    if importlib.util.find_spec("mcp_server_time") is None:
        pytest.skip("mcp-server-time is not installed: pip install '.[test]'")
    return Stdio(command=sys.executable, args=["-m", "mcp_server_time", "--local-timezone", "UTC"])


class EverythingHttp:
    """server-everything over HTTP, as long as its `async with` block lasts; `stop` and `start` keep the port."""

    def __init__(self, mode: Literal["streamableHttp", "sse"]) -> None:
        self.mode = mode
        self.port = 0
        self._process: Process | None = None
        self._reading: Task[None] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None, "not running"
        return self._process.pid

    @property
    def url(self) -> str:
        """Where a client connects."""
        return f"http://127.0.0.1:{self.port}/{'sse' if self.mode == 'sse' else 'mcp'}"

    async def start(self) -> None:
        """Start the server and return when it listens.

        Raises:
            RuntimeError: it ended instead.
        """
        server = program(EVERYTHING, self.mode)
        preload = str(PACKAGES / "loopback_only.mjs")
        self._process = await asyncio.create_subprocess_exec(
            server.command,
            "--import",
            preload,
            *server.args,
            env={"PATH": os.environ["PATH"], "PORT": str(self.port)},
            stdin=PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=PIPE,
            start_new_session=True,
        )
        bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(self._process, bound), name="stderr of server-everything")
        try:
            self.port = await asyncio.wait_for(bound, PATIENCE_S)
        except (TimeoutError, RuntimeError):
            await self.stop()
            raise

    async def _read(self, process: Process, bound: asyncio.Future[int]) -> None:
        """Keep stderr from filling up, and find the port in it."""
        assert process.stderr is not None
        last = b""
        while line := await process.stderr.readline():
            last = line
            if line.startswith(b"bound ") and not bound.done():
                bound.set_result(json.loads(line.removeprefix(b"bound "))["port"])
        if not bound.done():
            bound.set_exception(RuntimeError(f"{EVERYTHING} {self.mode} ended at once: {last!r}"))

    async def stop(self) -> None:
        """Kill the server, as a crash does."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()
        if self._reading is not None:
            await self._reading

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()


def program(package: str, *args: str) -> Stdio:
    """Return how to run an npm package; its own package.json says which file is the program."""
    node = shutil.which("node")
    folder = PACKAGES / "node_modules" / package
    if node is None:
        pytest.skip("node is not installed")
    if not folder.is_dir():
        pytest.skip(f"{package} is not installed: npm ci --prefix tests/mcp_servers")
    programs: dict[str, str] = json.loads((folder / "package.json").read_text())["bin"]
    return Stdio(command=node, args=[str(folder / next(iter(programs.values()))), *args])
