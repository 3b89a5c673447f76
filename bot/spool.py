"""Copies of files that were accepted for sending: what is sent is what was accepted, whatever becomes of the file.

A copy lies in one folder outside of the tools' reach, and goes when its message is sent, or when no message that
may still be sent names it. Which file may be copied is decided by whoever opened it, when a copy is read is the
channels' part (`channels/files.py`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from bot.log import get_logger
from bot.messages import Attachment, OutboundMessage

LIMIT_BYTES = 1024 * 1024 * 1024
"""Of all copies together: twenty of the largest files that any platform takes, so that no chat fills the disk."""

_FRESH_S = 3_600.0  # a call that made a copy has committed its message by then, or never will
_FOLDER_MODE = 0o700
_CANNOT_SHARE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}

_log = get_logger(__name__)


class SpoolFull(Exception):
    """Files of `LIMIT_BYTES` wait to be sent already, or failed to be and may be sent again."""


class Spool:
    """The copies of one data directory, held by the process that has its lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._naming = threading.Lock()  # for `_made`, and for names that come into the folder
        self._made: dict[str, float] = {}  # names of copies that this process made, and when by the monotonic clock

    def keep(self, file: BinaryIO, *, limit_bytes: int) -> tuple[Path, int]:
        """Copy an open file, durably, and return the copy and its size; a file that grows meanwhile is cut. Blocks.

        The copy shares its blocks with the file where the file system can do that.

        Raises:
            SpoolFull: too much waits already.
            OSError: it cannot be written.
        """
        size = min(os.fstat(file.fileno()).st_size, limit_bytes)
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        if self._used() + size > LIMIT_BYTES:
            raise SpoolFull(f"files of {LIMIT_BYTES:,} bytes wait to be sent already, or failed to be")
        with self._naming:
            descriptor, name = tempfile.mkstemp(dir=self._folder)  # mode 0600, whatever the umask
            copy = Path(name)
            self._made[copy.name] = time.monotonic()
        try:
            with os.fdopen(descriptor, "wb") as target:
                size = _copy(file, target, size)
                os.fsync(target.fileno())
            _sync_folder(self._folder)
        except BaseException:
            self._drop(copy.name)
            raise
        return copy, size

    def as_here(self, message: OutboundMessage) -> OutboundMessage:
        """Return a message whose copies are looked for in this folder: the data may have been moved since then."""
        if not any(file.copy for file in message.attachments):
            return message
        files = (self._as_here(file) if file.copy else file for file in message.attachments)
        return replace(message, attachments=tuple(files))

    def forget(self, files: Iterable[Attachment]) -> None:
        """Remove the copies of files that are not to be sent any more; what fails is left to `clean`. Blocks."""
        for file in files:
            if file.copy:
                self._drop(Path(file.copy).name)

    async def clean(self, wanted: Callable[[], Awaitable[Collection[str]]]) -> None:
        """Remove the copies that no message names: of calls that a crash cut short, of messages that were dropped.

        `wanted` gives the paths that messages name. It is asked after the folder was read, and what was made a moment
        ago stays: its message may be committed just now.
        """
        there = await asyncio.to_thread(self._names)
        if not there:
            return
        named = {Path(path).name for path in await wanted()}
        await asyncio.to_thread(self._remove, there - named)

    def _as_here(self, file: Attachment) -> Attachment:
        return replace(file, copy=str(self._folder / Path(file.copy).name))

    def _drop(self, name: str) -> None:
        with self._naming:
            self._made.pop(name, None)
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as exc:
            _log.warning("copy of a file not removed", name=name, error=str(exc))

    def _names(self) -> set[str]:
        with self._naming:
            try:
                return {entry.name for entry in os.scandir(self._folder)}
            except FileNotFoundError:
                return set()

    def _remove(self, names: set[str]) -> None:
        oldest_s = time.monotonic() - _FRESH_S
        with self._naming:
            self._made = {name: made_s for name, made_s in self._made.items() if made_s > oldest_s}
            unneeded = names - self._made.keys()
        for name in unneeded:
            self._drop(name)

    def _used(self) -> int:
        used = 0
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):  # sent meanwhile
                used += entry.stat(follow_symlinks=False).st_size
        return used


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> int:
    """Copy the first bytes of a file, by the kernel where it can; return how many there were."""
    copied = 0
    try:
        while copied < size:
            step = os.copy_file_range(source.fileno(), target.fileno(), size - copied, copied, copied)
            if step == 0:
                return copied
            copied += step
    except OSError as exc:
        if exc.errno not in _CANNOT_SHARE:
            raise
        source.seek(0)
        target.seek(0)
        target.truncate()
        shutil.copyfileobj(_Head(source, size), target)
        target.flush()
        return target.tell()
    return copied


class _Head:
    """The beginning of a file, as `copyfileobj` reads it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` more bytes."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
