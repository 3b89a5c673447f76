"""Walking down to a place, folder by folder, with descriptors that never follow a link.

Whoever replaces a folder by a link while a walk is under way gains nothing: the walk stops at the link and
says what it met. Where a link may lead is decided in `bot/security/workspace.py`. Everything here blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from bot.security.paths import Location, PathRefused, WrongKind, outside, refusal, write_failure

WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a named pipe must not hold the thread until a writer comes.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_ALL_BUT_UMASK = 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMet:
    """The walk came to a link: its index in the place's parts, and the text it holds."""

    index: int
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderId:
    """Which folder this is, whatever it is called."""

    device: int
    inode: int

    @classmethod
    def of(cls, info: os.stat_result) -> FolderId:
        """Return the identity in a stat result."""
        return cls(device=info.st_dev, inode=info.st_ino)


def open_last(place: Location, flags: int, *, closed: FolderId | None = None) -> int | LinkMet:
    """Open what stands at the place with `flags`; the caller closes the descriptor.

    Raises:
        PathMissing, PathRefused: it cannot be opened, or the way leads through the `closed` folder.
    """
    folder = open_folder(place, max(0, len(place.parts) - 1), closed=closed)
    if isinstance(folder, LinkMet):
        return folder
    with _closing(folder):
        opened = _step(place, folder, len(place.parts) - 1, flags)
    if isinstance(opened, LinkMet):
        return opened
    try:
        _stay_out(opened, closed, place)
    except PathRefused:
        os.close(opened)
        raise
    return opened


def open_folder(place: Location, depth: int, *, make: bool = False, closed: FolderId | None = None) -> int | LinkMet:
    """Open the folder that the first `depth` parts lead to (O_PATH); the caller closes the descriptor.

    With `make`, missing folders are made where the place's root may be changed.

    Raises:
        PathMissing, PathRefused: as `open_last`; WriteFailed: a folder cannot be made.
    """
    flags = WALK if place.root.is_own else WALK & ~os.O_NOFOLLOW
    try:
        folder = os.open(place.base, flags)
    except OSError as error:
        raise refusal(error, place.shown) from None
    try:
        for index in range(depth):
            _stay_out(folder, closed, place)
            if make and _may_make(place, index):
                _make(place, folder, index)
            step = _step(place, folder, index, WALK)
            if isinstance(step, LinkMet):
                return step
            os.close(folder)
            folder = step
        _stay_out(folder, closed, place)
        folder, opened = -1, folder
    finally:
        if folder >= 0:
            os.close(folder)
    return opened


def read_link(name: str, folder: int) -> str | None:
    """Return the text of a link, None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def sync_folder(folder: int) -> None:
    """Make a folder's new names survive a power cut; where it cannot be opened for that, they may not."""
    with suppress(OSError):
        opened = os.open(".", LIST, dir_fd=folder)
        with _closing(opened):
            os.fsync(opened)


def _step(place: Location, folder: int, index: int, flags: int) -> int | LinkMet:
    name = place.parts[index] if place.parts else "."
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        target = read_link(name, folder)
        if target is None:
            raise refusal(error, place.shown) from None
        return LinkMet(index=index, target=target)


def _may_make(place: Location, index: int) -> bool:
    return place.root.writable_depth is not None and index + 1 >= max(1, place.root.writable_depth)


def _make(place: Location, folder: int, index: int) -> None:
    try:
        os.mkdir(place.parts[index], mode=_ALL_BUT_UMASK, dir_fd=folder)
    except FileExistsError:
        return
    except OSError as error:
        try:  # a read-only file system says so before it looks whether the folder exists
            os.stat(place.parts[index], dir_fd=folder, follow_symlinks=False)
        except OSError:
            raise write_failure(error, place.shown) from None
        return
    sync_folder(folder)


def _stay_out(folder: int, closed: FolderId | None, place: Location) -> None:
    if closed is not None and FolderId.of(os.fstat(folder)) == closed:
        raise outside(place.shown)


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def require_regular(info: os.stat_result, shown: str) -> None:
    """Raise PathRefused unless it is an ordinary file."""
    if stat.S_ISDIR(info.st_mode):
        raise WrongKind(f"{shown}: is a folder")
    if not stat.S_ISREG(info.st_mode):
        raise PathRefused(f"{shown}: is not an ordinary file")
