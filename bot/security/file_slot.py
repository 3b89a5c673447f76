"""One name in an opened folder: reading, creating, replacing, removing and moving the file that bears it.

Everything goes through the folder's descriptor and follows no link, so whatever is swapped on the way to the
folder or for the file itself is neither read nor written through. New bytes are written beside the file and
take its name when they are on the disk: a full disk or a crash leaves the old file, and a hard link to it keeps
the old bytes. A crash may leave a `.dutiful-*.tmp` behind, and in the moment of creating an empty file.

Which paths a chat may change is decided in `bot/security/workspace.py`. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from bot.security.descent import READ, FolderId, read_link, require_regular, sync_folder
from bot.security.paths import (
    FileTooLarge,
    PathChanged,
    PathMissing,
    PathRefused,
    PathTaken,
    WriteFailed,
    refusal,
    shown_path,
    write_failure,
)

_CHUNK_BYTES = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BY_UMASK = 0o666
_PERMISSIONS = 0o777
_ANY_WRITE = 0o222
_ACL = "system.posix_acl_access"

_BESIDE = re.compile(r"\.dutiful-[0-9a-f]{16}\.tmp")

# Between looking whether a file is as expected and taking its place, no other thread of ours may do the same.
_LOCKS = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """Which file it was and what was in it."""

    device: int
    inode: int
    modified_ns: int
    size_bytes: int
    sha256: bytes

    def same_bytes(self, other: FileIdentity) -> bool:
        """Whether the other has equal bytes, wherever it lies: replacing a file gives it a new inode."""
        return self.size_bytes == other.size_bytes and self.sha256 == other.sha256


def identity_of(file: BinaryIO, shown: str, *, limit_bytes: int) -> FileIdentity:
    """Return the identity of an opened ordinary file, reading all of it from its beginning.

    Raises:
        FileTooLarge: it has more than `limit_bytes`; known by its size, without reading.
        OSError: it cannot be read.
    """
    info = _sized(file, shown, limit_bytes)
    digest = hashlib.sha256()
    size_bytes = 0
    file.seek(0)
    while size_bytes <= limit_bytes and (chunk := file.read(_CHUNK_BYTES)):
        digest.update(chunk)
        size_bytes += len(chunk)
    return _identity(info, size_bytes, digest.digest())


def is_leftover(name: str) -> bool:
    """Whether a file of this name holds new bytes that a crash kept from their place; valid when nobody writes."""
    return _BESIDE.fullmatch(name) is not None


class FileSlot:
    """The name and its folder; made by `WorkspaceView.slot`, usable until that ends."""

    def __init__(self, folder: int, name: str, shown: str) -> None:
        self._folder = folder
        self._name = name
        self.shown = shown
        """The path as the chat would write it, links replaced by where they lead."""

    def open_read(self) -> BinaryIO:
        """Open the file; the caller closes it.

        Raises:
            PathMissing: nothing is there.
            PathRefused: it is a folder, device, pipe, socket or link, or may not be read.
        """
        try:
            descriptor = os.open(self._name, READ, dir_fd=self._folder)
        except OSError as error:
            if read_link(self._name, self._folder) is not None:
                raise PathChanged(f"{shown_path(self.shown)}: has just become a link") from None
            raise refusal(error, self.shown) from None
        try:
            require_regular(os.fstat(descriptor), shown_path(self.shown))
        except PathRefused:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")

    def read(self, *, limit_bytes: int) -> tuple[bytes, FileIdentity]:
        """Return the whole file and what it was.

        Raises:
            FileTooLarge: it has more than `limit_bytes`; known by its size, without reading.
            PathMissing, PathRefused: as `open_read`.
        """
        with self.open_read() as file:
            try:
                info = _sized(file, self.shown, limit_bytes)
                data = file.read(limit_bytes + 1)
            except OSError as error:
                raise refusal(error, self.shown) from None
        if len(data) > limit_bytes:  # it grew meanwhile
            raise FileTooLarge(f"{shown_path(self.shown)}: is too large", size_bytes=len(data))
        return data, _identity(info, len(data), hashlib.sha256(data).digest())

    def identity(self, *, limit_bytes: int) -> FileIdentity:
        """Return what the file is, as `identity_of`.

        Raises:
            FileTooLarge, PathMissing, PathRefused: as `read`.
        """
        with self.open_read() as file:
            try:
                return identity_of(file, self.shown, limit_bytes=limit_bytes)
            except OSError as error:
                raise refusal(error, self.shown) from None

    def mode(self) -> int | None:
        """Return the permission bits of the ordinary file that is there, None when nothing is.

        Raises:
            PathRefused: something else is there.
        """
        info = self._look()
        return None if info is None else stat.S_IMODE(info.st_mode) & _PERMISSIONS

    def create(self, data: bytes, *, mode: int | None = None) -> FileIdentity:
        """Make a file where none is; its permissions are 0666 less the umask unless `mode` says otherwise.

        Raises:
            PathTaken: something is there, be it a link.
            WriteFailed: it could not be written; nothing is there then.
        """
        self._refuse_taken()
        with self._written(data, None, mode) as (beside, identity), _locked(self._lock_key()):
            self._claim()
            try:
                self._take_name(beside)
            except PathRefused:
                self._drop(self._name)
                raise
        return identity

    def replace(self, data: bytes, *, expected: FileIdentity | None = None, mode: int | None = None) -> FileIdentity:
        """Give the name these bytes, whatever file had it or none; permissions, ACL and owner are kept if they can be.

        With `expected` only a file that still has those bytes is replaced.

        Raises:
            PathChanged: it has other bytes than expected, or is gone.
            PathRefused: something is there that is no ordinary file.
            WriteFailed: it may not be written or could not be; it is as it was then.
        """
        info = self._look()
        if info is not None and not self._may_write(info):
            raise WriteFailed(f"{shown_path(self.shown)}: is read-only")
        with self._written(data, info, mode) as (beside, identity), _locked(self._lock_key()):
            self._expect(expected)
            self._take_name(beside)
        return identity

    def unlink(self, *, expected: FileIdentity | None = None) -> None:
        """Remove the file; with `expected` only if it still has those bytes.

        Raises:
            PathMissing: nothing is there.
            PathChanged, PathRefused, WriteFailed: as `replace`.
        """
        with _locked(self._lock_key()):
            self._expect(expected)
            if self._look() is None:
                raise PathMissing(f"{shown_path(self.shown)}: does not exist")
            try:
                os.unlink(self._name, dir_fd=self._folder)
            except OSError as error:
                raise write_failure(error, self.shown, done="removed") from None
        sync_folder(self._folder)

    def move_to(self, target: FileSlot, *, expected: FileIdentity | None = None) -> None:
        """Give the file the target's name, where nothing may be; with `expected` only if it has those bytes.

        Raises:
            PathMissing: there is no file.
            PathTaken: something has the target's name.
            PathChanged, PathRefused, WriteFailed: as `replace`; also when the target lies on another file system.
        """
        with _locked(self._lock_key(), target._lock_key()):
            self._expect(expected)
            if self._look() is None:
                raise PathMissing(f"{shown_path(self.shown)}: does not exist")
            target._claim()
            try:
                os.rename(self._name, target._name, src_dir_fd=self._folder, dst_dir_fd=target._folder)
            except OSError as error:
                target._drop(target._name)
                raise write_failure(error, self.shown, done="moved") from None
        sync_folder(target._folder)
        sync_folder(self._folder)

    def _lock_key(self) -> int:
        """Return the number of the lock that all names like this one in this folder share."""
        return hash((FolderId.of(os.fstat(self._folder)), self._name)) % len(_LOCKS)

    def _look(self) -> os.stat_result | None:
        """Return the state of the ordinary file that is there, None when nothing is."""
        try:
            info = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(error, self.shown) from None
        if stat.S_ISLNK(info.st_mode):
            raise PathChanged(f"{shown_path(self.shown)}: has just become a link")
        require_regular(info, shown_path(self.shown))
        return info

    def _may_write(self, info: os.stat_result) -> bool:
        """Whether its permissions let us write: taking its place asks for those of the folder only."""
        return bool(info.st_mode & _ANY_WRITE) and os.access(
            self._name, os.W_OK, dir_fd=self._folder, effective_ids=True, follow_symlinks=False
        )

    def _expect(self, expected: FileIdentity | None) -> None:
        if expected is None:
            return
        changed = PathChanged(f"{shown_path(self.shown)}: has changed meanwhile")
        try:
            found = self.identity(limit_bytes=expected.size_bytes)
        except (PathMissing, FileTooLarge):
            raise changed from None
        if not found.same_bytes(expected):
            raise changed

    def _refuse_taken(self) -> None:
        """Say so before anything is written; `_claim` decides."""
        with suppress(OSError):
            os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            raise PathTaken(f"{shown_path(self.shown)}: exists already")

    def _claim(self) -> None:
        """Make an empty file where nothing is, to be replaced at once: renaming alone would replace anything."""
        try:
            os.close(os.open(self._name, _CREATE, 0o600, dir_fd=self._folder))
        except FileExistsError:
            raise PathTaken(f"{shown_path(self.shown)}: exists already") from None
        except OSError as error:
            raise write_failure(error, self.shown) from None

    def _take_name(self, beside: str) -> None:
        try:
            os.rename(beside, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            raise write_failure(error, self.shown) from None
        sync_folder(self._folder)

    def _drop(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    @contextmanager
    def _written(
        self, data: bytes, like: os.stat_result | None, mode: int | None
    ) -> Iterator[tuple[str, FileIdentity]]:
        """Write the bytes beside the file, to the disk; they are gone at the end unless they took a name."""
        beside = f".dutiful-{secrets.token_hex(8)}.tmp"
        try:
            descriptor = os.open(beside, _CREATE, _BY_UMASK if like is None else 0o600, dir_fd=self._folder)
        except OSError as error:
            raise write_failure(error, self.shown) from None
        try:
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    self._dress(descriptor, like, mode)
                    os.fsync(descriptor)
                    info = os.fstat(descriptor)
            except OSError as error:
                raise write_failure(error, self.shown) from None
            yield beside, _identity(info, len(data), hashlib.sha256(data).digest())
        finally:
            self._drop(beside)

    def _dress(self, descriptor: int, like: os.stat_result | None, mode: int | None) -> None:
        """Give the new file owner, extended attributes and permissions of the old one, as far as we may."""
        if like is not None:
            made = os.fstat(descriptor)
            if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
                with suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
            with suppress(OSError):  # the old file cannot be read, or the file system has no attributes
                self._copy_attributes(descriptor)
            mode = stat.S_IMODE(like.st_mode) if mode is None else mode
        if mode is not None:
            os.fchmod(descriptor, mode & _PERMISSIONS)

    def _copy_attributes(self, descriptor: int) -> None:
        source = os.open(self._name, READ, dir_fd=self._folder)
        try:
            for attribute in os.listxattr(source):
                if attribute == _ACL or attribute.startswith("user."):
                    os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)


def _sized(file: BinaryIO, shown: str, limit_bytes: int) -> os.stat_result:
    info = os.fstat(file.fileno())
    if info.st_size > limit_bytes:
        raise FileTooLarge(f"{shown_path(shown)}: is too large", size_bytes=info.st_size)
    return info


def _identity(info: os.stat_result, size_bytes: int, sha256: bytes) -> FileIdentity:
    return FileIdentity(
        device=info.st_dev, inode=info.st_ino, modified_ns=info.st_mtime_ns, size_bytes=size_bytes, sha256=sha256
    )


@contextmanager
def _locked(*keys: int) -> Iterator[None]:
    """Hold the locks with these numbers, in one order everywhere."""
    with ExitStack() as held:
        for key in sorted(set(keys)):
            held.enter_context(_LOCKS[key])
        yield
