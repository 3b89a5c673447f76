"""One running command, as the bot sees it: its warden's process, the line to it, and the output pipe."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from asyncio.subprocess import Process as Warden
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from bot.shell.launch import Launch

_log = structlog.get_logger(__name__)

CHUNK_BYTES = 64 * 1024
END_LIMIT_S = 8.0
"""A warden gives up after 5 s; one that does not answer by then is killed, and the kernel kills its child."""

_WARDEN = str(Path(__file__).with_name("warden.py"))
_PYTHON = sys.executable or "python3"
_LOST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a command ended. `code` is 128 + the signal's number if a signal ended it.

    `why` is "" if it ended by itself, "asked" if it was ended, "processes" if it had too many.
    `left` is how many of its processes could not be killed; 0 but for a broken disk or network file system.
    """

    code: int
    why: str = ""
    left: int = 0


class Process:
    """Made by `Shell.start`. Not for several readers at a time."""

    def __init__(self, launch: Launch, warden: Warden, line: socket.socket, on_end: Callable[[Process], None]) -> None:
        self.launch = launch
        self._warden = warden
        self._line = line
        self._on_end = on_end
        self._patience: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._watch(), name=f"command:{warden.pid}")

    @classmethod
    async def start(cls, launch: Launch, *, terminal: int | None, on_end: Callable[[Process], None]) -> Process:
        """Start the command. When this is cancelled or fails, nothing goes on.

        Raises:
            OSError: the machine has no process or descriptor left.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                ours.setblocking(False)
                warden = await asyncio.create_subprocess_exec(
                    *(_PYTHON, "-I", "-S", _WARDEN, str(theirs.fileno())),
                    stdin=DEVNULL if terminal is None else terminal,
                    stdout=PIPE if terminal is None else terminal,
                    stderr=STDOUT if terminal is None else terminal,
                    env=dict(launch.env),
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    limit=CHUNK_BYTES,
                )
            order = orjson.dumps(launch.order(terminal=terminal is not None))
            with suppress(BrokenPipeError, ConnectionResetError):  # then it is dead already, which `wait` tells
                await asyncio.get_running_loop().sock_sendall(ours, order + b"\n")
        except BaseException:
            ours.close()  # the warden, if there is one, sees that and ends everything
            raise
        return cls(launch, warden, ours, on_end)

    @property
    def is_running(self) -> bool:
        """Whether anything of the command may still be alive."""
        return not self._task.done()

    async def read(self) -> bytes:
        """Return the next output, at most `CHUNK_BYTES`; b"" when there is no more, and with a terminal."""
        return b"" if self._warden.stdout is None else await self._warden.stdout.read(CHUNK_BYTES)

    async def wait(self) -> Ending:
        """Return how it ended, as soon as nothing of it is alive. The command waits while nobody reads its output."""
        return await asyncio.shield(self._task)

    async def end(self) -> Ending:
        """Kill everything that is left of it and return how it ended; at once if it has ended."""
        self.let_go()
        return await self.wait()

    def let_go(self) -> None:
        """Begin the end without waiting for it."""
        if self._patience is None and self.is_running:
            # A command without a sandbox can stop its warden: without time limits then, and without an answer.
            self._patience = asyncio.get_running_loop().call_later(END_LIMIT_S, self._kill_warden)
        with suppress(OSError):  # closed: ended
            self._line.shutdown(socket.SHUT_WR)

    async def _watch(self) -> Ending:
        try:
            report = await self._report()
            await self._bury()
        finally:
            if self._patience is not None:
                self._patience.cancel()
            self._line.close()
            self._on_end(self)
        return report

    async def _report(self) -> Ending:
        data = b""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionResetError):
            while chunk := await loop.sock_recv(self._line, 4096):
                data += chunk
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError:
            _log.error("a command's warden died", pid=self._warden.pid)
            return Ending(code=_LOST, why="lost")
        if fields["left"]:
            _log.error("processes of a command cannot be killed", count=fields["left"])
        return Ending(code=_LOST if fields["code"] is None else fields["code"], why=fields["why"], left=fields["left"])

    async def _bury(self) -> None:
        """Wait for the warden's own end."""
        try:
            async with asyncio.timeout(END_LIMIT_S):
                await self._warden.wait()
        except TimeoutError:
            self._kill_warden()
            await self._warden.wait()

    def _kill_warden(self) -> None:
        with suppress(ProcessLookupError):
            self._warden.kill()
