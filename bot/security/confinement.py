"""Limits that a process sets itself before it looks at what a stranger wrote. Cheap to import, for each of them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NICE = 10


def end_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def give_way() -> None:
    """Let the bot's own work go first."""
    os.nice(_NICE)


def limit_memory(memory_bytes: int) -> None:
    """Bound the address space; no file can be written, and a crash leaves none."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_work(*, cpu_s: int, open_files: int) -> None:
    """Bound processor time, in seconds, and descriptors; no process can be started."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
