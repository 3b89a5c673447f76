"""What a session can hold: a program on a terminal, or a command whose output comes through a pipe.

Both are processes of the `Shell`, behind the same walls as every command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

from bot.shell.launch import Launch
from bot.shell.process import Process
from bot.shell.sessions import SessionInputError
from bot.shell.shell import Shell
from bot.shell.terminal import InputFullError, Terminal, TerminalSize
from bot.shell.unread import UnreadOutput

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
    def unread(self) -> UnreadOutput:
        """See `Program.unread`."""
        return self._terminal.unread

    def send(self, data: bytes) -> None:
        """See `Program.send`."""
        try:
            self._terminal.write(data)
        except InputFullError as error:
            raise SessionInputError(str(error)) from error

    def resize(self, size: TerminalSize) -> None:
        """See `Program.resize`."""
        self._terminal.resize(size)

    async def wait(self) -> int:
        """See `Program.wait`."""
        ending = await self._process.wait()
        self._terminal.close()
        return ending.code

    async def end(self) -> None:
        """See `Program.end`."""
        await self._process.end()
