"""What a session can hold: a program on a terminal, or a command whose output comes through a pipe.

Both are processes of the `Shell`, behind the same walls as every command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

from bot.shell.launch import Launch
from bot.shell.output import HeadTail
from bot.shell.process import Ending, Process
from bot.shell.run import LAST_OUTPUT_S, drain
from bot.shell.sessions import SessionInputError
from bot.shell.shell import Shell
from bot.shell.terminal import InputFullError, Terminal, TerminalSize

_TERMINAL_ENV = {
    "TERM": "dumb",  # what is read is text: programs need not draw a screen that nobody sees
    "PAGER": "cat",
    "HISTFILE": "",  # or an interactive shell leaves a file among the chat's own
}


class TerminalProgram:
    """A program whose standard streams and controlling terminal are a terminal of its own."""

    def __init__(self, process: Process, terminal: Terminal) -> None:
        self._process = process
        self._terminal = terminal

    @classmethod
    async def start(
        cls, shell: Shell, launch: Launch, size: TerminalSize, on_output: Callable[[], None]
    ) -> TerminalProgram:
        """Start it.

        Raises:
            OSError: no terminal or no process is to be had.
            LaunchRefused: as `Shell.start`.
        """
        terminal = Terminal(size, on_output)
        try:
            env = MappingProxyType({**launch.env, **_TERMINAL_ENV})
            process = await shell.start(replace(launch, env=env), terminal=terminal.program_fd)
        except BaseException:
            terminal.close()
            raise
        terminal.hand_over()
        return cls(process, terminal)

    @property
    def output(self) -> HeadTail:
        """See `Program.output`."""
        return self._terminal.output

    def send(self, data: bytes) -> None:
        """See `Program.send`."""
        try:
            self._terminal.write(data)
        except InputFullError as error:
            raise SessionInputError(str(error)) from error

    def resize(self, size: TerminalSize) -> None:
        """See `Program.resize`."""
        self._terminal.resize(size)

    async def wait(self) -> Ending:
        """See `Program.wait`."""
        ending = await self._process.wait()
        self._terminal.close()
        return ending

    async def end(self) -> None:
        """See `Program.end`."""
        await self._process.end()


class PipedProgram:
    """A command without a terminal and without input, whose output is read as it comes."""

    def __init__(self, process: Process, on_output: Callable[[], None]) -> None:
        self.output = HeadTail()
        self._process = process
        self._reader = asyncio.create_task(drain(process, self.output, on_output), name="command-output")

    @classmethod
    async def start(cls, shell: Shell, launch: Launch, on_output: Callable[[], None]) -> PipedProgram:
        """Start it.

        Raises:
            OSError, LaunchRefused: as `Shell.start`.
        """
        return cls(await shell.start(launch), on_output)

    def send(self, data: bytes) -> None:
        """See `Program.send`: there is no input."""
        raise SessionInputError(f"{len(data)} bytes cannot be sent: a command of exec has no input")

    def resize(self, size: TerminalSize) -> None:
        """See `Program.resize`: there is no terminal."""
        raise SessionInputError(f"it cannot have {size.cols} columns: a command of exec has no terminal")

    async def wait(self) -> Ending:
        """See `Program.wait`."""
        ending = await self._process.wait()
        # With the last process the pipe is closed; only one that cannot be killed holds it longer.
        await asyncio.wait((self._reader,), timeout=LAST_OUTPUT_S)
        self._reader.cancel()
        return ending

    async def end(self) -> None:
        """See `Program.end`."""
        await self._process.end()
