"""One pseudo-terminal: the end that the bot holds.

The kernel's line discipline does what a terminal does (echo, line editing, Ctrl-C). Which process sits at the
other end, and that it ends, is the launcher's part; whose terminal it is, `sessions.py`'s.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass

from bot.shell.output import HeadTail

MAX_UNWRITTEN_BYTES = 64 * 1024
"""Input that a program has not read yet; more is refused."""

_READ_BYTES = 64 * 1024  # the kernel gives at most 4 KiB of a terminal at a time
_READS_A_BURST = 4  # each may wait for a thread that is at work: 5 ms
_PAUSE_S = 0.0025  # after a burst: a program that writes without end gets some 6 MB/s, and the loop its time
_DRAIN_BYTES = 4 * 1024 * 1024


class InputFullError(Exception):
    """The program does not read what it is sent; the text says how much waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """Size in characters."""

    cols: int = 120
    rows: int = 32

    def packed(self) -> bytes:
        """Return the kernel's `struct winsize`."""
        return struct.pack("HHHH", self.rows, self.cols, 0, 0)


class Terminal:
    """Reads and writes the bot's end in the running loop; nothing here ever blocks.

    `on_output` is called after output was added to `output`, and when the other end was closed.
    """

    def __init__(self, size: TerminalSize, on_output: Callable[[], None]) -> None:
        """Open a terminal of this size.

        Raises:
            OSError: the system has no more terminals or descriptors.
        """
        self.output = HeadTail()
        self._on_output = on_output
        self._unwritten = bytearray()
        self._resume: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._fd, self._program_fd = os.openpty()  # not inherited by programs (PEP 446)
        try:
            os.set_blocking(self._fd, False)
            self.resize(size)
            self._loop.add_reader(self._fd, self._read_burst)
        except BaseException:
            self.close()
            raise

    @property
    def program_fd(self) -> int:
        """The end for the program's standard streams; to be closed with `hand_over` once it has them."""
        return self._program_fd

    def hand_over(self) -> None:
        """Let go of the program's end: from now on it is open as long as programs have it open."""
        if self._program_fd >= 0:
            os.close(self._program_fd)
            self._program_fd = -1

    @property
    def closed(self) -> bool:
        """Whether this end was closed."""
        return self._fd < 0

    def resize(self, size: TerminalSize) -> None:
        """Change the size; the kernel sends SIGWINCH to the programs in the foreground when it differs."""
        if self._fd >= 0:
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size.packed())

    def write(self, data: bytes) -> None:
        """Send input, in order; what does not fit into the kernel's buffer follows when the program reads.

        Raises:
            InputFullError: more than `MAX_UNWRITTEN_BYTES` would wait; nothing of `data` was sent.
        """
        if self._fd < 0 or not data:
            return
        if len(self._unwritten) + len(data) > MAX_UNWRITTEN_BYTES:
            raise InputFullError(f"the program has not read {len(self._unwritten):,} bytes that it was sent before")
        had_some = bool(self._unwritten)
        self._unwritten += data
        if not had_some:
            self._write_some()
            if self._unwritten:
                self._loop.add_writer(self._fd, self._write_some)

    def _write_some(self) -> None:
        while self._unwritten:
            try:
                written = os.write(self._fd, self._unwritten)
            except BlockingIOError:
                return
            except OSError:  # EIO: nobody has the other end open any more
                self._unwritten.clear()
                break
            del self._unwritten[:written]
        self._loop.remove_writer(self._fd)

    def _read_burst(self) -> None:
        for _ in range(_READS_A_BURST):
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                break
            except OSError:  # EIO: nobody has the other end open any more
                data = b""
            if not data:
                self._loop.remove_reader(self._fd)
                break
            self.output.write(data)
        else:
            self._loop.remove_reader(self._fd)
            self._resume = self._loop.call_later(_PAUSE_S, self._go_on)
        self._on_output()

    def _go_on(self) -> None:
        self._resume = None
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._read_burst)

    def close(self) -> None:
        """Read what is left, then close both ends; programs that still have theirs open get SIGHUP. Idempotent."""
        self.hand_over()
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        try:
            for _ in range(_DRAIN_BYTES // 4096):
                data = os.read(self._fd, _READ_BYTES)
                if not data:
                    break
                self.output.write(data)
        except OSError:  # nothing more to read, or nobody there
            pass
        os.close(self._fd)
        self._fd = -1
        self._unwritten.clear()
