"""Files that prompts are made of: whether one changed since it was read, and reading no more of it than is used.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

Stamp = tuple[int, ...]
"""What tells one state of a file from the next: device, inode, size, and both time stamps; empty if it is not there."""

_TICK_NS = 20_000_000
"""Two changes within one tick of the kernel's clock (1 to 10 ms) have the same time stamp."""


def stamp_of(path: str | Path) -> Stamp:
    """Return the stamp of a file or folder, links followed."""
    try:
        info = os.stat(path)  # noqa: PTH116 - once per skill and turn: a Path would double its cost
    except (OSError, ValueError):
        return ()
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def is_settled(stamp: Stamp) -> bool:
    """Say whether a further change would show in the stamp: false for something that changed just now."""
    return not stamp or time.time_ns() - max(stamp[3:]) > _TICK_NS


def read_start(path: Path, limit_chars: int) -> str:
    """Return the beginning of a UTF-8 file, one character more than the limit if there are more.

    Raises:
        OSError: it cannot be read, or is no ordinary file.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not an ordinary file", str(path))
        with open(descriptor, encoding="utf-8-sig", errors="replace", closefd=False) as file:
            return file.read(limit_chars + 1)
    finally:
        os.close(descriptor)
