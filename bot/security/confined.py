"""Python processes that deal with what strangers wrote: they are started with nothing of ours.

They limit themselves (`confinement.py`); what they read and answer is the part of those who start them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
# -I: neither the environment nor the folder it runs in decides what is imported. That also hides a checkout, so
# this very package is loaded from its folder, which then is no place to import other modules from.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import bot; del sys.path[0]; "
    "from importlib import import_module; import_module(sys.argv[2]).main(*sys.argv[3:])"
)


async def start_confined(
    module: str,
    *arguments: str,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int = asyncio.subprocess.DEVNULL,
    descriptors: Collection[int] = (),
    environment: Collection[str] = (),
) -> asyncio.subprocess.Process:
    """Start a process of its own session that calls a module's `main` with the arguments.

    It gets the `descriptors` as they are, and of the environment the names in `environment`; its stderr goes nowhere.

    Raises:
        OSError: it cannot be started.
    """
    return await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-B", "-c", _BOOT, str(_ROOT), module, *arguments,
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=tuple(descriptors),
        cwd="/",
        env={"LANG": "C.UTF-8", "PATH": os.defpath}
        | {name: os.environ[name] for name in environment if name in os.environ},
        start_new_session=True,
    )  # fmt: skip


async def end_confined(process: asyncio.subprocess.Process) -> None:
    """Kill a process unless it has ended, and wait until it is gone."""
    # Only what still runs: killing what has just ended takes its status from under asyncio's watcher.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
