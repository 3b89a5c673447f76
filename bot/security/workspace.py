"""Per-chat file roots: which file a path of a chat means, and opening it without a gap for a swapped link.

A chat's own folder is its "."; `shared/...` can be read by every chat; an owner's private chat also has
`chats/...`. Paths are walked folder by folder with descriptors that never follow links, so whoever replaces a
folder by a link while a walk is under way gains nothing. A link is resolved here, by the same rules as the
path that contains it: it may lead elsewhere within the same root and nowhere else.

Roles and risks are decided elsewhere, as is what is done with a file's bytes. Everything here blocks: call it
from a thread. Hard links cannot be told from files; making one to a file of another user is the kernel's to
refuse (fs.protected_hardlinks).
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from bot.errors import DutifulError

_SHARED, _CHATS = "shared", "chats"
_FOLDER_MODE = 0o700

# Linux limits: limits.h NAME_MAX and PATH_MAX, https://man7.org/linux/man-pages/man7/path_resolution.7.html,
# which also gives 40 as the number of links that a resolution may follow (read 2026-11-29).
_NAME_BYTES = 255
_PATH_BYTES = 4096
_LINKS = 40

_FOLDER_NAME_CHARS = 120
_SHOWN_CHARS = 200

_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a named pipe must not hold the thread until a writer comes.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class PathRefused(DutifulError):
    """The path cannot be used from this chat. The text is for anyone: it tells nothing about outside."""


class PathMissing(PathRefused):
    """The path lies within the chat's files, but nothing is there."""


class EntryKind(StrEnum):
    """What a folder's entry is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"  # wherever it leads
    OTHER = "other"  # device, pipe, socket: can be listed, never opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a folder. `size_bytes` and `modified_us` are 0 when it vanished in between."""

    name: str
    kind: EntryKind
    size_bytes: int
    modified_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a path leads by its text alone; `path` is for showing and for sandboxes, never for opening."""

    base: Path
    parts: tuple[str, ...]
    shown: str  # as the chat would write it: "notes/a.txt", "shared/b.txt", "."
    writable: bool

    @property
    def path(self) -> Path:
        """The absolute path."""
        return self.base.joinpath(*self.parts)


def folder_name(key: str) -> str:
    """Return the folder name for an address key: different keys, different names; safe in shells and URLs.

    Other characters than ASCII letters, digits, "_" and "-" become `=XX` per UTF-8 byte; very long names end
    in a hash.
    """
    if not key:
        raise ValueError("a chat without a key has no folder")
    name = re.sub(r"[^A-Za-z0-9_-]|^-", lambda match: _escape(match[0]), key)
    if len(name) <= _FOLDER_NAME_CHARS:
        return name
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    # "~" appears in no short name, so that no key can be spelt like another one's hash.
    return f"{name[: _FOLDER_NAME_CHARS - 41]}~{digest}"


def _escape(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceView:
    """The files one chat may see: its `root`, `shared` to read, and with `all_chats` its siblings' roots."""

    root: Path
    shared: Path
    all_chats: bool = False

    @classmethod
    def of(cls, workspace: Path, key: str, *, all_chats: bool = False) -> WorkspaceView:
        """Return the view of the chat with this address key; creates nothing."""
        root = workspace / _CHATS / folder_name(key)
        return cls(root=root, shared=workspace / _SHARED, all_chats=all_chats)

    def make_dirs(self) -> None:
        """Create what is missing of the roots, for this user only.

        Raises:
            PathRefused: something that is no folder is in the way.
            OSError: the disk is full or read-only.
        """
        self.root.parent.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        for folder in (self.root.parent, self.shared, self.root):
            try:
                folder.mkdir(mode=_FOLDER_MODE)
            except FileExistsError:
                if not folder.is_dir() or (folder == self.root and folder.is_symlink()):
                    raise PathRefused(f"{folder.name}: is not a folder") from None

    def resolve(self, path: str) -> Location:
        """Return what `path` means by its text; it need not exist.

        Raises:
            PathRefused: it leads out, contains NUL, is too long, or is of a form that has no meaning here.
        """
        if path.startswith("~"):
            raise PathRefused(f"{_shown(path)}: lies outside of this chat's files")
        return self._locate(_parts(path, self._relative(path)))

    def open_read(self, path: str) -> BinaryIO:
        """Open an ordinary file; the caller closes it.

        Raises:
            PathMissing: nothing is there.
            PathRefused: it leads out, or is a folder, device, pipe or socket, or may not be read.
        """
        with self._walk(path, _READ) as (descriptor, shown):
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise PathRefused(f"{shown}: is a folder")
            if not stat.S_ISREG(mode):
                raise PathRefused(f"{shown}: is not an ordinary file")
            return os.fdopen(os.dup(descriptor), "rb")

    def scandir(self, path: str = ".", *, limit: int) -> tuple[list[Entry], int]:
        """Return a folder's first `limit` entries by name, and how many there are.

        Raises:
            PathMissing, PathRefused: as `open_read`; also when it is not a folder.
        """
        with self._walk(path, _LIST) as (descriptor, shown), os.scandir(descriptor) as found:
            names = [entry.name for entry in found]
            if shown == ".":
                names = [name for name in names if name not in self._roots()]
                names += [name for name, base in self._roots().items() if base.is_dir()]
            entries = [self._entry(name, descriptor, shown) for name in heapq.nsmallest(limit, names)]
        return entries, len(names)

    @contextmanager
    def open_folder(self, path: str = ".") -> Iterator[tuple[int, str]]:
        """Hold a folder open: its descriptor, and its path as the chat would write it without links.

        Raises:
            PathMissing, PathRefused: as `scandir`.
        """
        with self._walk(path, _LIST) as opened:
            yield opened

    @property
    def other_roots(self) -> tuple[str, ...]:
        """The names at the top of the chat's own folder that stand for folders elsewhere."""
        return tuple(self._roots())

    def _entry(self, name: str, folder: int, shown: str) -> Entry:
        root = self._roots().get(name) if shown == "." else None
        try:
            info = root.stat() if root else os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return Entry(name=name, kind=EntryKind.OTHER, size_bytes=0, modified_us=0)
        return Entry(
            name=name,
            kind=_KINDS.get(stat.S_IFMT(info.st_mode), EntryKind.OTHER),
            size_bytes=info.st_size,
            modified_us=info.st_mtime_ns // 1000,
        )

    def _roots(self) -> dict[str, Path]:
        """Return the names at the top of this view that stand for other roots."""
        roots = {_SHARED: self.shared}
        return roots | {_CHATS: self.root.parent} if self.all_chats else roots

    def _relative(self, path: str) -> str:
        """Return an absolute path that lies in one of the roots as the chat would write it."""
        if not path.startswith("/"):
            return path
        for name, base in (("", self.root), *self._roots().items()):
            if path == str(base) or path.startswith(f"{base}/"):
                return f"{name}/{path[len(str(base)) :]}".lstrip("/")
        raise PathRefused(f"{_shown(path)}: lies outside of this chat's files")

    def _locate(self, parts: tuple[str, ...]) -> Location:
        shown = "/".join(parts) or "."
        base = self._roots().get(parts[0]) if parts else None
        if base is None:
            return Location(base=self.root, parts=parts, shown=shown, writable=True)
        # The folders of the chats may be changed by an owner, the folder that holds them may not.
        writable = parts[0] == _CHATS and len(parts) > 2  # noqa: PLR2004  # chats, key, something in it
        return Location(base=base, parts=parts[1:], shown=shown, writable=writable)

    @contextmanager
    def _walk(self, path: str, flags: int) -> Iterator[tuple[int, str]]:
        """Open what `path` means with `flags`, following links only within its root."""
        place = self.resolve(path)
        for _ in range(_LINKS + 1):
            opened = self._descend(place, flags)
            if isinstance(opened, int):
                try:
                    yield opened, place.shown
                finally:
                    os.close(opened)
                return
            # The path with the link replaced by its target; the next walk checks every step of it anew.
            linked = self._locate(self._link_target(path, place, opened))
            if linked.base != place.base:
                raise PathRefused(f"{_shown(path)}: is a link that leads to another chat's or outside files")
            place = linked
        raise PathRefused(f"{_shown(path)}: has too many links")

    def _link_target(self, path: str, place: Location, link: tuple[int, str]) -> tuple[str, ...]:
        index, target = link
        before = place.shown.split("/")[: len(place.shown.split("/")) - len(place.parts) + index]
        after = place.parts[index + 1 :]
        try:
            inside = self._relative(target)
            joined = inside if target.startswith("/") else "/".join((*before, target))
            return _parts(path, "/".join((joined, *after)))
        except PathRefused:
            raise PathRefused(f"{_shown(path)}: is a link that leads out of this chat's files") from None

    def _descend(self, place: Location, flags: int) -> int | tuple[int, str]:
        """Open the place, or return index and target of the first link on the way."""
        names = place.parts or (".",)
        try:
            # Only a chat's own folder is created by us; the others' may be links that an administrator made.
            folder = os.open(place.base, _WALK if place.base == self.root else _WALK & ~os.O_NOFOLLOW)
        except OSError as error:
            raise _refusal(error, place.shown) from None
        try:
            for index, name in enumerate(names):
                last = index == len(names) - 1
                try:
                    step = os.open(name, flags if last else _WALK, dir_fd=folder)
                except OSError as error:
                    target = _read_link(name, folder)
                    if target is None:
                        raise _refusal(error, place.shown) from None
                    return index, target
                os.close(folder)
                folder = step
            folder, opened = -1, folder
        finally:
            if folder >= 0:
                os.close(folder)
        return opened


_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}


def _parts(path: str, relative: str) -> tuple[str, ...]:
    """Return the normal components of a relative path. ".." is taken by its text: no component is a link."""
    if "\x00" in relative:
        raise PathRefused(f"{_shown(path)}: contains a NUL character")
    try:
        names = [(name, len(os.fsencode(name))) for name in relative.split("/") if name not in {"", "."}]
    except UnicodeEncodeError:
        raise PathRefused(f"{_shown(path)}: is not a possible file name") from None
    if any(size > _NAME_BYTES for _, size in names) or sum(size + 1 for _, size in names) > _PATH_BYTES:
        raise PathRefused(f"{_shown(path)}: is too long")
    parts: list[str] = []
    for name, _ in names:
        if name != "..":
            parts.append(name)
        elif parts:
            parts.pop()
        else:
            raise PathRefused(f"{_shown(path)}: lies outside of this chat's files")
    return tuple(parts)


def _read_link(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:  # not a link
        return None


def _refusal(error: OSError, shown: str) -> PathRefused:
    shown = _shown(shown)
    if error.errno == errno.ENOENT:
        return PathMissing(f"{shown}: does not exist")
    if error.errno == errno.ENOTDIR:
        return PathRefused(f"{shown}: is not a folder")
    if error.errno == errno.ENXIO:  # a socket
        return PathRefused(f"{shown}: is not an ordinary file")
    return PathRefused(f"{shown}: cannot be opened: {os.strerror(error.errno or 0)}")


def _shown(path: str) -> str:
    """Return a path for an error text: one line of printable characters, not endless."""
    text = path if path.isprintable() else ascii(path)[1:-1]
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
