"""A server's process: its pipes with bounds, its last words, and its end together with all it started."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic

from bot.config import McpSection
from bot.log import get_logger
from bot.toolkit.mcp.session import Limits, SessionFailed

INHERITED = ("PATH", "HOME", "TZ", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG")
"""What a server sees of our environment, beside LC_*; everything else may be a secret."""

GENTLE_S = 1.0
"""How long a server may take to end by itself once its input is closed, and again after SIGTERM."""

_CHUNK_BYTES = 64 * 1024
_LINES_AT_ONCE = 100
_POLL_S = 0.02
_LAST_LINES, _LINE_CHARS = 5, 300

_log = get_logger(__name__)


class MessageTooLong(Exception):
    """A line is longer than any message may be."""


def child_environment(section: McpSection, ours: Mapping[str, str]) -> dict[str, str]:
    """Return a server's whole environment: the allowed part of ours and what its section adds."""
    allowed = {name: value for name, value in ours.items() if name in INHERITED or name.startswith("LC_")}
    return allowed | {name: value.get_secret_value() for name, value in section.env.items()}


class _Pipes(SubprocessStreamProtocol):
    """The standard library's streams, and word of the exit even while somebody else holds the pipes open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ServerChild:
    """A running server process, the leader of a process group of its own."""

    def __init__(self, name: str, process: Process, transport: asyncio.SubprocessTransport, pipes: _Pipes) -> None:
        self._name = name
        self._process = process
        self._transport = transport
        self._pipes = pipes
        self._words: deque[str] = deque(maxlen=_LAST_LINES)
        self._listening = asyncio.create_task(self._listen(), name=f"stderr of {name}")

    @classmethod
    async def start(cls, name: str, section: McpSection, *, workspace: Path) -> ServerChild:
        """Start a server. When this is cancelled or fails, nothing goes on.

        Raises:
            SessionFailed: it cannot be started.
        """
        assert section.command is not None
        loop = asyncio.get_running_loop()
        try:
            transport, pipes = await loop.subprocess_exec(
                lambda: _Pipes(loop),
                section.command,
                *section.args,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=child_environment(section, os.environ),
                cwd=section.cwd or workspace,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SessionFailed(f"{section.command} cannot be started: {reason}") from None
        return cls(name, Process(transport, pipes, loop), transport, pipes)

    @property
    def pid(self) -> int:
        """Of the process and of its group."""
        return self._process.pid

    @property
    def exited(self) -> asyncio.Event:
        """Set once the process has ended."""
        return self._pipes.exited

    def has_ended(self) -> bool:
        """Say whether the process has ended, also before the loop has heard of it."""
        if self.exited.is_set():
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody has seen to it already
            return True

    def account(self) -> str:
        """Return how it ended and its last words, in one sentence."""
        code = self._process.returncode
        if code is None:
            how = "the program closed its output"
        elif code < 0:
            how = f"the program was ended by {signal.Signals(-code).name}"
        else:
            how = f"the program ended with exit code {code}"
        words = " / ".join(self._words)
        return f"{how}; it said: {words}" if words else how

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of its output, without more of it being read ahead than a chunk.

        Raises:
            MessageTooLong: a line has no end.
        """
        output = self._process.stdout
        assert output is not None
        parts: list[bytes] = []
        size = 0
        while chunk := await output.read(_CHUNK_BYTES):
            *whole, rest = chunk.split(b"\n")
            for number, line in enumerate(whole, 1):
                yield b"".join([*parts, line])
                parts, size = [], 0
                if number % _LINES_AT_ONCE == 0:
                    await asyncio.sleep(0)  # thousands of short lines must not hold up everybody else
            parts.append(rest)
            size += len(rest)
            if size > Limits.MESSAGE_BYTES:
                raise MessageTooLong

    async def write(self, line: bytes) -> None:
        """Send a line, waiting while the server does not read.

        Raises:
            OSError: it does not read any more.
        """
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(line)
            await pipe.drain()
        except RuntimeError as error:  # uvloop's word for a closed pipe
            raise BrokenPipeError(str(error)) from None

    async def end(self) -> None:
        """End it and all of its group: its input is closed, then SIGTERM, then SIGKILL; a few seconds at most."""
        draining = asyncio.create_task(self._drain(), name=f"rest of {self._name}")
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._wait_for_exit(GENTLE_S)
            if self._signal_group(signal.SIGTERM):
                await self._wait_for_group(GENTLE_S)
        finally:  # also when this is cut short: nothing may stay behind
            self._signal_group(signal.SIGKILL)
            draining.cancel()
            self._listening.cancel()
            if self.exited.is_set():
                self._transport.close()
        await asyncio.wait((draining, self._listening))
        if not await self._wait_for_exit(GENTLE_S):
            _log.warning("process of an mcp server cannot be killed", server=self._name, pid=self.pid)
        self._transport.close()
        await self._wait_for_group(GENTLE_S)  # what it started dies by the same signal, but in its own time

    async def _wait_for_exit(self, limit_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self.exited.wait()
        return self.exited.is_set()

    async def _wait_for_group(self, limit_s: float) -> None:
        until = monotonic() + limit_s
        while self._signal_group(0) and monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)  # the end of a group makes no event

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the whole group; return whether anybody is there.

        The group's number is its leader's and stays taken while it has a member.
        """
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # a member that changed its user
            return True
        return True

    async def _drain(self) -> None:
        """Let a server that is still writing get to its end."""
        output = self._process.stdout
        assert output is not None
        with suppress(OSError, RuntimeError):  # RuntimeError: the last reader has not let go yet
            while await output.read(_CHUNK_BYTES):
                pass

    async def _listen(self) -> None:
        """Keep the last lines of its standard error."""
        errors = self._process.stderr
        assert errors is not None
        rest = b""
        while chunk := await errors.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_CHUNK_BYTES:]
            for line in lines:
                self._note(line)
        self._note(rest)

    def _note(self, line: bytes) -> None:
        text = line[: 4 * _LINE_CHARS].decode(errors="replace").strip()[:_LINE_CHARS]
        if text:
            self._words.append(text)
            _log.debug("mcp server says", server=self._name, text=text)
