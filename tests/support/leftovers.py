"""Processes that a command started, found by words in their command lines, also those inside a sandbox."""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 20.0


def sleeper() -> str:
    """Return a `sleep` command that no other process on this machine runs."""
    return f"sleep {uuid.uuid4().int % 10**12 + 10**12}"


def alive(words: str) -> list[int]:
    """Return the ids of processes, zombies included, whose command line consists of these words."""
    wanted = words.encode().replace(b" ", b"\0") + b"\0"
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
        if name.isdigit():
            with suppress(OSError):
                if Path("/proc", name, "cmdline").read_bytes() == wanted:
                    found.append(int(name))
    return found


async def until_alive(words: str, count: int = 1) -> None:
    """Return once at least `count` such processes are there."""
    async with asyncio.timeout(PATIENCE_S):
        while len(alive(words)) < count:
            await asyncio.sleep(0.02)


async def until_gone(words: str) -> None:
    """Return once no such process is there."""
    async with asyncio.timeout(PATIENCE_S):
        while alive(words):
            await asyncio.sleep(0.02)
