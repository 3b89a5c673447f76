"""A file that holds whoever opens it, by the kernel's file leases: a gate for programs that cannot be told to wait.

https://man7.org/linux/man-pages/man2/F_SETLEASE.2const.html (read 2026-11-30): an open by another process waits
until the holder, who gets SIGIO, gives the lease up, at most /proc/sys/fs/lease-break-time seconds (45).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

PATIENCE_S = 20.0


class HeldFile:
    """The gate. Whoever opens the file from now on waits."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._opened = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGIO, self._opened.set)
        fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    async def somebody_waits(self) -> None:
        """Wait until somebody tries to open the file."""
        async with asyncio.timeout(PATIENCE_S):
            await self._opened.wait()

    def let_go(self) -> None:
        """Let everybody open the file."""
        fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    def close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGIO)
        os.close(self._descriptor)


@asynccontextmanager
async def held(path: Path) -> AsyncIterator[HeldFile]:
    """Hold a file that nobody has open."""
    file = HeldFile(path)
    try:
        yield file
    finally:
        file.close()
