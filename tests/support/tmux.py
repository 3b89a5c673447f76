"""A real terminal: a program inside tmux, and what a person would see of it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

LIMIT_S = 30.0


class Terminal:
    """One window. What it shows is looked at whenever the program has written something."""

    def __init__(self, socket: Path, output: asyncio.StreamReader) -> None:
        self._socket = socket
        self._output = output

    async def tmux(self, *arguments: str) -> str:
        """Run a tmux command and return what it prints."""
        process = await asyncio.create_subprocess_exec(
            "tmux", "-S", str(self._socket), "-f", os.devnull, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def type(self, text: str) -> None:
        """Type text as it is."""
        await self.tmux("send-keys", "-t", "0", "-l", text)

    async def press(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, C-c, C-d."""
        await self.tmux("send-keys", "-t", "0", *keys)

    async def screen(self) -> list[str]:
        """Return the lines on screen, without the empty ones at the end."""
        return (await self.tmux("capture-pane", "-p", "-t", "0")).rstrip().splitlines()

    async def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Return the screen once it is as wanted."""
        lines: list[str] = []
        try:
            async with asyncio.timeout(LIMIT_S):
                while not seen(lines := await self.screen()):
                    assert await self._output.read(65_536), "the terminal is gone"
        except TimeoutError:
            raise AssertionError("never seen; the screen is\n" + "\n".join(lines)) from None
        return lines

    async def until_shown(self, text: str) -> list[str]:
        """Return the screen once a line of it contains `text`."""
        return await self.until(lambda lines: any(text in line for line in lines))


@asynccontextmanager
async def terminal(
    command: Sequence[str], *, folder: Path, env: Mapping[str, str], columns: int = 80, rows: int = 30
) -> AsyncIterator[Terminal]:
    """Run a command in a window of its own; its exit code is shown when it ends, and the window stays."""
    fifo = folder / "output"
    os.mkfifo(fifo)
    # Opened for both, so that the pipe has no end before the window does.
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    loop = asyncio.get_running_loop()
    output = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(output), os.fdopen(descriptor, "rb", 0))
    window = Terminal(folder / "tmux.sock", output)
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    script = f"env -i TERM=tmux-256color LANG=C.UTF-8 {settings} {shlex.join(command)}; echo exit=$?; exec cat"
    size = ("-x", str(columns), "-y", str(rows))
    try:
        # The window waits for its output to be watched: what came before would never be noticed.
        await window.tmux("new-session", "-d", *size, "-c", str(folder), f"read -r _; {script}")
        await window.tmux("pipe-pane", "-t", "0", "-O", f"exec cat >{shlex.quote(str(fifo))}")
        await window.press("Enter")
        yield window
    finally:
        await window.tmux("kill-server")
        pipe.close()
