"""Whether bubblewrap works on this machine, and what it can do: a trial run, on first need."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from dataclasses import dataclass

from bot.security.sandbox import STANDARD_PATH

NOT_INSTALLED = "bubblewrap is not installed (the program bwrap)"

_TRIAL_LIMIT_S = 10.0
_TRIALS: tuple[tuple[str, ...], ...] = (("--disable-userns",), ())
"""The strongest first: without further user namespaces most kernel bugs are out of reach (bubblewrap 0.8)."""

_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""What a busy machine says; another time it may have room."""

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The outcome: `problem` says why bubblewrap cannot be used, '' if it can; `lasting`: it will be so next time."""

    problem: str = ""
    lasting: bool = True
    bwrap: str = ""
    abilities: tuple[str, ...] = ()


def find_bwrap() -> str:
    """Return the program's path, '' if it is not installed. A few file look-ups, fast enough for start-up."""
    return shutil.which("bwrap", path=os.pathsep.join(STANDARD_PATH)) or shutil.which("bwrap") or ""


async def detect(bwrap: str) -> Detection:
    """Try to use bubblewrap. Never raises."""
    if not bwrap:
        return Detection(problem=NOT_INSTALLED)
    problem = ""
    for abilities in _TRIALS:
        try:
            problem = await _trial(bwrap, abilities)
        except (TimeoutError, OSError) as error:
            reason = f"a trial took longer than {_TRIAL_LIMIT_S:g} s"
            if not isinstance(error, TimeoutError):
                reason = os.strerror(error.errno or 0)
            lasting = not isinstance(error, TimeoutError) and error.errno not in _PASSING
            return Detection(problem=f"bubblewrap cannot be started: {reason}", lasting=lasting)
        if not problem:
            return Detection(bwrap=bwrap, abilities=abilities)
    return Detection(problem=f"bubblewrap does not work here: {problem}")


async def _trial(bwrap: str, abilities: tuple[str, ...]) -> str:
    """Return what is wrong with a sandbox of this kind, '' if it works.

    Raises:
        OSError: it cannot be started.
        TimeoutError: it does not end.
    """
    argv = (
        *(bwrap, "--unshare-all", "--unshare-user", *abilities, "--uid", "1000", "--gid", "1000"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"),
        *("--size", "4096", "--tmpfs", "/tmp", "--remount-ro", "/proc"),  # noqa: S108 - the sandbox's own
        *(part for name in ("/usr", "/bin", "/lib", "/lib64") for part in ("--ro-bind-try", name, name)),
        *("--", "/bin/sh", "-c", "exit 42"),
    )
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env={"PATH": ":".join(STANDARD_PATH)}, cwd="/"
    )
    try:
        async with asyncio.timeout(_TRIAL_LIMIT_S):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 42:  # noqa: PLR2004 - what the trial returns
        return ""
    words = " ".join(said.decode("utf-8", "replace").split())
    return words[:_SHOWN_CHARS] or f"exit code {process.returncode}"
