"""The `Shell`: decides where a request's command may run, starts it, and ends what is left at shutdown.

The walls themselves are in `bot/security/sandbox.py`. Which roles may run commands at all is the policy's matter.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.config import ToolsConfig
from bot.messages import ChatType, Role
from bot.security.sandbox import SYSTEM_FOLDERS, Walls, command_environment, is_bindable, path_folders, sandbox_command
from bot.security.workspace import PathMissing, PathRefused, WorkspaceView
from bot.shell.detection import NOT_INSTALLED, Detection, detect, find_bwrap
from bot.shell.launch import Launch, LaunchRefused, ProcessLimits, check_arguments
from bot.shell.process import Process

if TYPE_CHECKING:
    from bot.toolkit.chat_files import ChatFiles  # the room that holds this object imports this package
    from bot.toolkit.context import RequestContext

_CLOSE_LIMIT_S = 10.0

_OPERATOR = "An operator can install bubblewrap and let it make user namespaces"
_SWITCH_ON = 'An operator can set it to "auto"'
_OFF = 'commands are switched off ([tools.exec] sandbox = "off")'
_OWNERS_ONLY = "without a sandbox only an owner's private chat may run commands"


class Shell:
    """Starts commands and owns them. Built from configuration alone; costs nothing until it is used.

    `bwrap` is the path of bubblewrap, '' if there is none; None: looked for when it is first needed.
    """

    def __init__(
        self,
        config: ToolsConfig,
        *,
        files: ChatFiles,
        data_dir: Path,
        bwrap: str | None = None,
        limits: ProcessLimits | None = None,
    ) -> None:
        self._config = config
        self._files = files
        self._data_dir = data_dir
        self._bwrap = bwrap
        self._limits = limits or ProcessLimits()
        self._detection: asyncio.Task[Detection] | None = None
        self._starting = asyncio.Lock()
        self._running: set[Process] = set()
        self._closed = False

    # --- where commands may run

    @property
    def unavailable(self) -> str:
        """Why nobody can run a command in this installation, as far as it is known; '' if somebody can."""
        section = self._config.exec
        if section.unsandboxed and section.sandbox != "bubblewrap":
            return ""
        if section.sandbox == "off":
            return f"{_OFF} and unsandboxed is not set. {_SWITCH_ON}"
        return self._known_problem()

    @property
    def expects_sandbox(self) -> bool:
        """Whether commands run in a sandbox, as far as can be told without a trial."""
        return self._config.exec.sandbox != "off" and not self._known_problem()

    def _known_problem(self) -> str:
        task = self._detection
        if task is not None and task.done() and not task.cancelled() and task.result().lasting:
            return f"{task.result().problem}. {_OPERATOR}" if task.result().problem else ""
        return "" if self._program() else f"{NOT_INSTALLED}. {_OPERATOR}"

    def _program(self) -> str:
        if self._bwrap is None:
            self._bwrap = find_bwrap()
        return self._bwrap

    async def detection(self) -> Detection:
        """Return whether bubblewrap works here; tried together for all who ask, and once if the outcome lasts."""
        task = self._detection
        if task is None or (task.done() and not task.cancelled() and not task.result().lasting):
            task = self._detection = asyncio.create_task(detect(self._program()), name="sandbox-detection")
        return await asyncio.shield(task)

    async def _walls(self, request: RequestContext) -> Walls | None:
        """Return the sandbox for a request's commands, None for none.

        Raises:
            LaunchRefused: it may not run commands.
        """
        section = self._config.exec
        problem, remedy = _OFF, _SWITCH_ON
        if section.sandbox != "off":
            found = await self.detection()
            if not found.problem:
                return Walls(
                    bwrap=found.bwrap,
                    abilities=found.abilities,
                    network=section.network,
                    path=tuple(folder for folder in section.path.split(":") if folder),
                    read_only=(*self._config.files.extra_read, *self._files.skills),
                    writable=tuple(self._config.files.extra_write),
                )
            problem, remedy = found.problem, _OPERATOR
            if section.sandbox == "bubblewrap":
                raise LaunchRefused(
                    f'Commands cannot run: {problem}, and [tools.exec] sandbox = "bubblewrap" demands it. {remedy}.'
                )
        if not section.unsandboxed:
            raise LaunchRefused(
                f"Commands cannot run: {problem}. {remedy}, or set [tools.exec] unsandboxed = true, "
                "which lets owners run commands in their private chats with all of the bot's own rights."
            )
        if request.role is not Role.OWNER or request.chat_type is not ChatType.PRIVATE:
            raise LaunchRefused(f"Commands cannot run here: {problem}, and {_OWNERS_ONLY}. {remedy}.")
        return None

    async def prepare(
        self,
        request: RequestContext,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        programs: Sequence[Path] = (),
    ) -> Launch:
        """Return what `start` needs to run `argv` for a request; `programs` are further folders to read.

        Raises:
            LaunchRefused: it may not run, `cwd` is no folder of the chat, or no program can be given `argv`.
        """
        check_arguments(argv)
        walls = await self._walls(request)
        view = self._files.view(request)
        folder = await asyncio.to_thread(_enter, view, cwd)
        if walls is not None:
            ours = (self._data_dir, view.root.parent.parent)
            walls = await asyncio.to_thread(_without_ours, walls, programs, ours)
        env = command_environment(view.root, path_folders(self._config.exec))
        if walls is None:
            plain = tuple(argv)
            return Launch(
                argv=plain, terminal_argv=plain, env=env, cwd=str(folder.real), sandboxed=False, limits=self._limits
            )
        inner, terminal = (
            sandbox_command(
                view, walls, argv,
                cwd=folder.inside, terminal=is_terminal, programs=programs, max_processes=self._max_inside(),
            )
            for is_terminal in (False, True)
        )  # fmt: skip
        return Launch(
            argv=inner.argv,
            terminal_argv=terminal.argv,
            env=env,
            cwd="/",
            sandboxed=True,
            data=inner.data,
            limits=self._limits,
        )

    def _max_inside(self) -> int | None:
        """Return the limit to set inside, where the kernel counts a user namespace's processes by themselves."""
        return self._limits.processes if _kernel() >= (5, 14) else None

    # --- running

    async def start(self, launch: Launch, *, terminal: int | None = None) -> Process:
        """Start a command with pipes, or with the slave of a pty as its controlling terminal.

        Raises:
            LaunchRefused: the bot is shutting down.
            OSError: the machine has no process or descriptor left.
        """
        # One after the other: making a process holds up the loop for some 20 ms, a crowd of them at once for seconds.
        async with self._starting:
            if self._closed:
                raise LaunchRefused("The bot is shutting down.", is_wall=False)
            process = await Process.start(launch, terminal=terminal, on_end=self._running.discard)
            self._running.add(process)
        if self._closed:
            process.let_go()
        return process

    async def close(self) -> None:
        """End every command; bounded, idempotent."""
        self._closed = True
        for process in self._running:
            process.let_go()
        waits: list[asyncio.Task[Any]] = [
            asyncio.create_task(process.wait(), name="command-end") for process in self._running
        ]
        if self._detection is not None:
            self._detection.cancel()  # nothing happens if it is done
            waits.append(self._detection)
        if waits:
            await asyncio.wait(waits, timeout=_CLOSE_LIMIT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """Where a command starts: the path in the sandbox, and the one without."""

    inside: Path
    real: Path


def _enter(view: WorkspaceView, cwd: str) -> _Folder:
    """Make the chat's folders, and return the one to start in.

    Raises:
        LaunchRefused: there is no such folder, or the disk is full.
    """
    try:
        view.make_dirs()
        place = view.resolve(cwd)
        view.scandir(cwd, limit=0)
        _make_mount_points(view)
    except PathMissing as error:
        raise LaunchRefused(f"working_dir: {error}.", is_wall=False) from None
    except PathRefused as error:
        raise LaunchRefused(f"working_dir: {error}.") from None
    except OSError as error:
        raise LaunchRefused(
            f"The chat's folder cannot be made: {os.strerror(error.errno or 0)}.", is_wall=False
        ) from None
    return _Folder(inside=view.root if place.shown == "." else view.root / place.shown, real=place.path)


def _make_mount_points(view: WorkspaceView) -> None:
    """Make the folders that other roots are mounted on, so that bubblewrap has none to make.

    It would follow a link that somebody left by that name, and make a folder wherever it leads.

    Raises:
        LaunchRefused: something else has the name.
    """
    root = os.open(view.root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in ("shared", "chats") if view.all_chats else ("shared",):
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=root)
            if not stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
                raise LaunchRefused(
                    f"Commands cannot run in this chat: something called {name} in its folder stands in the way of the "
                    f"real {name}/. An operator has to remove {view.root / name}."
                )
    finally:
        os.close(root)


def _without_ours(walls: Walls, programs: Sequence[Path], ours: Sequence[Path]) -> Walls:
    """Return the walls without a way to `ours`, the bot's own folders, through the configured ones.

    What lies in ours is not bound: there the rules of the workspace hold. What contains ours has it covered, and the
    folders on the way pinned: with another name for one of them, the next sandbox would have ours uncovered.
    """
    real = [folder.resolve() for folder in ours]

    def is_free(folder: Path) -> bool:
        place = folder.resolve()
        return is_bindable(folder) and not any(place.is_relative_to(own) for own in real)

    read_only = tuple(filter(is_free, walls.read_only))
    writable = tuple(filter(is_free, walls.writable))
    found: dict[Path, None] = {}
    for folder in (*map(Path, SYSTEM_FOLDERS), *map(Path, walls.path), *programs, *read_only, *writable):
        for own in real:
            with suppress(OSError, ValueError):  # missing, or not above it
                found[folder / own.relative_to(folder.resolve())] = None
    pinned = {
        above: None
        for own in found
        for above in reversed(own.parents)
        if any(folder in above.parents for folder in writable)
    }
    return replace(walls, read_only=read_only, writable=writable, hidden=tuple(found), pinned=tuple(pinned))


def _kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
