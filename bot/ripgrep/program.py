"""Where the ripgrep program is, and which files of the system it needs to run at all."""

from __future__ import annotations

import select
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from bot.errors import DutifulError

_NAME = "rg"
_DISTRIBUTION = "ripgrep"
_START_S = 10.0
_LOADER_CACHE = Path("/etc/ld.so.cache")


class RipgrepMissing(DutifulError):
    """There is no ripgrep program here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program and every file it maps when it runs: itself, its loader, its libraries."""

    path: Path
    files: tuple[Path, ...]


def missing_reason() -> str:
    """Return why nothing can be searched in this installation; empty: the program is there."""
    try:
        find_program()
    except RipgrepMissing as error:
        return str(error)
    return ""


@cache
def find_program() -> Path:
    """Return the program of the installed `ripgrep` distribution, else one on the PATH.

    Raises:
        RipgrepMissing: there is none.
    """
    beside = Path(sys.executable).parent / _NAME  # where an installer puts a wheel's scripts
    candidates = [beside, *_of_distribution(), *([Path(found)] if (found := shutil.which(_NAME)) else [])]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    raise RipgrepMissing("the program ripgrep (rg) is not installed")


def _of_distribution() -> list[Path]:
    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if file.name == _NAME]


@cache
def load_program() -> Program:
    """Return the program with the files it needs. Runs it once, some milliseconds: call it from a thread.

    Asking a running one works for every libc and every way of linking.

    Raises:
        RipgrepMissing: there is none, or it does not run.
    """
    path = find_program()
    try:
        return Program(path=path, files=(*_mapped_files(path), *filter(Path.is_file, (_LOADER_CACHE,))))
    except OSError as error:
        raise RipgrepMissing(f"the program ripgrep (rg) does not run: {error.strerror}") from error


def _mapped_files(path: Path) -> list[Path]:
    # It echoes a line, so it has loaded what it needs, and waits for the next.
    echo = [str(path), "--no-config", "--line-buffered", "--passthru", "-e", "", "-"]
    with subprocess.Popen(  # noqa: S603 - our own arguments
        echo, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"a line\n")
            process.stdin.flush()
            is_up, _, _ = select.select([process.stdout], [], [], _START_S)
            if not is_up or not process.stdout.read(1):
                raise OSError(0, "it gives no answer")
            maps = Path(f"/proc/{process.pid}/maps").read_text(errors="surrogateescape")
        finally:
            process.kill()
    # address, permissions, offset, device, inode, path: https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html
    columns = (line.split(maxsplit=5) for line in maps.splitlines())
    mapped = {Path(row[5]) for row in columns if len(row) == 6 and row[5].startswith("/")}  # noqa: PLR2004
    return sorted(filter(Path.is_file, mapped))
