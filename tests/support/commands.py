"""Commands under test: a shell over an empty workspace, and ways to see what of them is still alive."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from bot.clock import SystemClock
from bot.config import ToolsConfig
from bot.config.tools import CliAppSection, ExecSection
from bot.messages import ChatType, Role
from bot.security.sandbox import path_folders
from bot.shell.detection import detect, find_bwrap
from bot.shell.launch import ProcessLimits
from bot.shell.sessions import ExecSessions
from bot.shell.shell import Shell
from bot.toolkit.base import ToolResult
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.context import RequestContext, set_request
from bot.toolkit.registry import ToolRegistry
from bot.tools.exec import ExecTool
from bot.tools.run_cli_app import RunCliAppTool
from tests.support.contexts import request_context

PATIENCE_S = 30.0

OWNER = request_context("1", role=Role.OWNER)
OWNER_IN_GROUP = request_context("2", role=Role.OWNER, chat_type=ChatType.GROUP)
MEMBER = request_context("3")

BWRAP_PROBLEM = asyncio.run(detect(find_bwrap())).problem
needs_bwrap = pytest.mark.skipif(bool(BWRAP_PROBLEM), reason=BWRAP_PROBLEM or "-")

SANDBOXED = ExecSection()
UNSANDBOXED = ExecSection(sandbox="off", unsandboxed=True)

both_modes = pytest.mark.parametrize(
    "section", [pytest.param(SANDBOXED, id="sandboxed", marks=needs_bwrap), pytest.param(UNSANDBOXED, id="unsandboxed")]
)


class Commands:
    """A shell, and its two tools in a registry; files lie in `folder / "workspace"`, `folder` is the data folder."""

    def __init__(self, folder: Path, config: ToolsConfig, bwrap: str | None, limits: ProcessLimits | None) -> None:
        self.files = ChatFiles(folder / "workspace", config.files)
        self.shell = Shell(config, files=self.files, data_dir=folder, bwrap=bwrap, limits=limits)
        self.sessions = ExecSessions(SystemClock())
        self.exec = ExecTool(self.shell, self.sessions, timeout_s=config.exec.timeout_s, network=config.exec.network)
        self.apps = RunCliAppTool(
            self.shell, config.cli_apps, folders=path_folders(config.exec), timeout_s=config.exec.timeout_s
        )
        self._registry = ToolRegistry()
        self._registry.register(self.exec)
        self._registry.register(self.apps)

    def root(self, request: RequestContext = OWNER) -> Path:
        """Return the chat's own folder, made if need be."""
        view = self.files.view(request)
        view.make_dirs()
        return view.root

    async def call(self, request: RequestContext, tool: str, **params: Any) -> ToolResult:
        """Call a tool as a turn would."""
        set_request(request)
        return await self._registry.execute(tool, params)

    async def run(self, command: str, request: RequestContext = OWNER, **params: Any) -> ToolResult:
        """Call `exec`."""
        return await self.call(request, "exec", command=command, **params)


@asynccontextmanager
async def commands(
    folder: Path,
    section: ExecSection = SANDBOXED,
    *,
    apps: dict[str, CliAppSection] | None = None,
    bwrap: str | None = None,
    limits: ProcessLimits | None = None,
    **sections: Any,
) -> AsyncIterator[Commands]:
    """Have commands run over a folder; in the end no process and no zombie of them may be left."""
    made = Commands(folder, ToolsConfig(exec=section, cli_apps=apps or {}, **sections), bwrap, limits)
    try:
        yield made
    finally:
        await made.sessions.close()
        await made.shell.close()
    assert psutil.Process().children() == []


class Rope:
    """A named pipe that every process of a command holds on to: its end is the death of the last of them.

    `hold` is the line of a shell script that takes hold and says so.
    """

    def __init__(self, folder: Path, name: str = "rope") -> None:
        self.path = folder / name
        os.mkfifo(self.path, 0o666)
        self.hold = f"exec 9>{name}; echo held >&9"
        self._reader: asyncio.subprocess.Process | None = None

    async def held(self) -> None:
        """Wait until somebody has taken hold."""
        async with asyncio.timeout(PATIENCE_S):
            self._reader = await asyncio.create_subprocess_exec("cat", str(self.path), stdout=PIPE)
            assert self._reader.stdout is not None
            assert await self._reader.stdout.readline() == b"held\n"

    async def released(self) -> None:
        """Wait until nobody holds it any more."""
        assert self._reader is not None
        assert self._reader.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            await self._reader.stdout.read()
            await self._reader.wait()


def alive(marker: str) -> list[str]:
    """Return the command lines of this machine's processes that contain a text, zombies without theirs."""
    lines = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if marker in line and process.pid != os.getpid():
            lines.append(line)
    return lines


def open_descriptors() -> int:
    """Return how many descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
