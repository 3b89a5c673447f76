"""The processes this one has started, as /proc tells: zombies included."""

from __future__ import annotations

import os
from pathlib import Path


def children(name: str) -> list[int]:
    """Return the numbers of this process's own children with a program name."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:  # over meanwhile
                continue
            # number (name) state parent …: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
            before, _, after = text.rpartition(")")
            if before.partition("(")[2] == name and int(after.split()[1]) == os.getpid():
                found.append(int(folder.name))
    return found


def environment(pid: int) -> bytes:
    """Return a process's environment as it was started with."""
    return Path(f"/proc/{pid}/environ").read_bytes()


def descriptors(pid: int) -> list[str]:
    """Return what a process has open."""
    return sorted(str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir())
