"""Per-chat file roots: which file a path of a chat means, and opening it without a gap for a swapped link.

A chat's own folder is its "."; `shared/...` can be read by every chat; an owner's private chat also has
`chats/...`; further folders may be given by the configuration and go by their absolute path. Paths are walked
folder by folder with descriptors that never follow links, so whoever replaces a folder by a link while a walk
is under way gains nothing. A link is resolved here, by the same rules as the path that contains it: it may lead
elsewhere within the same root, of `chats/` within the same chat's folder, and nowhere else.

Roles and risks are decided elsewhere, as is what is done with a file's bytes. Everything here blocks: call it
from a thread. Hard links cannot be told from files; making one to a file of another user is the kernel's to
refuse (fs.protected_hardlinks).
"""

from __future__ import annotations

import hashlib
import heapq
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import BinaryIO

from bot.security.descent import LIST, READ, FolderId, LinkMet, open_folder, open_last, read_link, require_regular
from bot.security.file_slot import FileIdentity, FileSlot, identity_of
from bot.security.paths import (
    FileTooLarge,
    Location,
    PathChanged,
    PathMissing,
    PathRefused,
    PathTaken,
    Root,
    WriteFailed,
    WrongKind,
    is_below,
    nearest_root,
    normal_parts,
    outside,
    shown_path,
)

__all__ = [
    "Entry",
    "EntryKind",
    "FileIdentity",
    "FileSlot",
    "FileTooLarge",
    "Location",
    "PathChanged",
    "PathMissing",
    "PathRefused",
    "PathTaken",
    "Root",
    "WorkspaceView",
    "WriteFailed",
    "WrongKind",
    "folder_name",
]

_SHARED, _CHATS = "shared", "chats"
_FOLDER_MODE = 0o700

# As many links as the kernel follows: https://man7.org/linux/man-pages/man7/path_resolution.7.html
# (read 2026-11-29).
_LINKS = 40

_FOLDER_NAME_CHARS = 120


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
    """The files one chat may see: its `root`, `shared` to read, with `all_chats` its siblings' roots, and `extra`.

    One that is `alone` has nothing but its root, which need not be a chat's.

    The folders of `extra` never lead into the workspace, however they are placed: within it its own rules hold.
    """

    root: Path
    shared: Path
    all_chats: bool = False
    extra: tuple[Root, ...] = ()
    alone: bool = False

    @classmethod
    def of(cls, workspace: Path, key: str, *, all_chats: bool = False, extra: Sequence[Root] = ()) -> WorkspaceView:
        """Return the view of the chat with this address key; creates nothing."""
        root = workspace / _CHATS / folder_name(key)
        return cls(root=root, shared=workspace / _SHARED, all_chats=all_chats, extra=tuple(extra))

    def make_dirs(self) -> None:
        """Create what is missing of the roots in the workspace, for this user only.

        Raises:
            PathRefused: something that is no folder is in the way.
            OSError: the disk is full or read-only.
        """
        self.workspace.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        for folder in (self.root.parent, *(() if self.alone else (self.shared,)), self.root):
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
            raise outside(path)
        return self._locate(path, path)

    def open_read(self, path: str) -> BinaryIO:
        """Open an ordinary file; the caller closes it.

        Raises:
            PathMissing: nothing is there.
            PathRefused: it leads out, or is a folder, device, pipe or socket, or may not be read.
        """
        with self._opened(path, READ) as (descriptor, place):
            require_regular(os.fstat(descriptor), place.shown)
            return os.fdopen(os.dup(descriptor), "rb")

    def identity(self, path: str, *, limit_bytes: int) -> FileIdentity:
        """Return which ordinary file it is and the digest of its bytes.

        Raises:
            FileTooLarge: it has more than `limit_bytes`.
            PathMissing, PathRefused: as `open_read`.
            OSError: it cannot be read.
        """
        with self.open_read(path) as file:
            return identity_of(file, self.resolve(path).shown, limit_bytes=limit_bytes)

    def scandir(self, path: str = ".", *, limit: int) -> tuple[list[Entry], int]:
        """Return a folder's first `limit` entries by name, and how many there are.

        Raises:
            PathMissing, PathRefused: as `open_read`; also when it is not a folder.
        """
        with self._opened(path, LIST) as (descriptor, place), os.scandir(descriptor) as found:
            names = [entry.name for entry in found]
            others = self._named_roots() if place.shown == "." else {}
            if others:
                names = [name for name in names if name not in others]
                names += [name for name, root in others.items() if root.path.is_dir()]
            entries = [_entry(name, descriptor, others.get(name)) for name in heapq.nsmallest(limit, names)]
        return entries, len(names)

    @contextmanager
    def hold_folder(self, path: str = ".") -> Iterator[tuple[int, Location]]:
        """Hold a folder open for reading: its descriptor, and where it is, links on the way followed.

        Raises:
            PathMissing, PathRefused: as `scandir`.
        """
        with self._opened(path, LIST) as opened:
            yield opened

    @property
    def other_roots(self) -> tuple[str, ...]:
        """The names at the top of the chat's own folder that stand for folders elsewhere."""
        return tuple(self._named_roots())

    @contextmanager
    def slot(self, path: str, *, make_parents: bool = False) -> Iterator[FileSlot]:
        """Give the file of this name, which need not exist, for reading and changing; usable inside the `with`.

        A link as its last name is resolved as everywhere. With `make_parents` missing folders above it are made,
        the chat's own first.

        Raises:
            PathMissing: a folder on the way does not exist.
            PathRefused: it leads out, may not be changed from this chat, or has no name of its own (".").
            WriteFailed: a folder cannot be made.
        """
        if make_parents and self.resolve(path).root.is_own:
            try:
                self.make_dirs()
            except OSError as error:
                raise WriteFailed(f"{shown_path(path)}: cannot be written: {os.strerror(error.errno or 0)}") from None
        if path.endswith("/"):
            raise WrongKind(f"{shown_path(path)}: names a folder; a file's name is needed (its folders are made)")
        folder, place = self._follow(path, partial(self._open_parent, make=make_parents))
        try:
            yield FileSlot(folder, place.parts[-1], place.shown)
        finally:
            os.close(folder)

    @property
    def workspace(self) -> Path:
        """The folder of all chats' files, which no further root leads into."""
        return self.root.parent.parent

    def _open_parent(self, place: Location, *, make: bool) -> int | LinkMet:
        """Open the folder of a place that may be changed, unless its last name is a link."""
        if not place.parts:
            raise WrongKind(f"{shown_path(place.shown)}: is a folder")
        if not place.writable:
            raise PathRefused(f"{shown_path(place.shown)}: can be read from this chat, but not changed")
        folder = open_folder(place, len(place.parts) - 1, make=make, closed=self._closed(place))
        if isinstance(folder, LinkMet):
            return folder
        target = read_link(place.parts[-1], folder)
        if target is None:
            return folder
        os.close(folder)
        return LinkMet(index=len(place.parts) - 1, target=target)

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[tuple[int, Location]]:
        """Open what `path` means with `flags`, following links only within its root."""
        descriptor, place = self._follow(path, lambda place: open_last(place, flags, closed=self._closed(place)))
        try:
            yield descriptor, place
        finally:
            os.close(descriptor)

    def _follow(self, path: str, step: Callable[[Location], int | LinkMet]) -> tuple[int, Location]:
        """Walk until no link is met any more; return what was opened and where that is."""
        place = self.resolve(path)
        for _ in range(_LINKS + 1):
            opened = step(place)
            if not isinstance(opened, LinkMet):
                return opened, place
            # The path with the link replaced by its target; the next walk checks every step of it anew.
            place = self._behind(path, place, opened)
        raise PathRefused(f"{shown_path(path)}: has too many links")

    def _behind(self, path: str, place: Location, link: LinkMet) -> Location:
        """Return the place with the link replaced by what it holds."""
        before = () if link.target.startswith("/") else (place.root.name or ".", *place.parts[: link.index])
        try:
            linked = self._locate(path, "/".join((*before, link.target, *place.parts[link.index + 1 :])))
        except PathRefused:
            raise PathRefused(f"{shown_path(path)}: is a link that leads out of this chat's files") from None
        # A chat's own link must not lead an owner from that chat's folder into another one's.
        is_other_chat = place.root.name == _CHATS and linked.parts[:1] != place.parts[:1]
        if linked.root != place.root or is_other_chat:
            raise PathRefused(f"{shown_path(path)}: is a link that leads to another chat's or outside files")
        return linked

    def _locate(self, path: str, text: str) -> Location:
        parts = normal_parts(path, text)
        if text.startswith("/"):
            inside = is_below(parts, self.workspace)
            found = nearest_root(parts, (self._own(), *self._named_roots().values()) if inside else self.extra)
            if found is None:
                raise outside(path)
            # What the own folder has under the name of another root cannot be seen: that name means the root.
            if not found[0].is_own:
                return Location(root=found[0], parts=found[1])
            parts = found[1]
        root = self._named_roots().get(parts[0]) if parts else None
        return Location(root=self._own(), parts=parts) if root is None else Location(root=root, parts=parts[1:])

    def _own(self) -> Root:
        return Root(name="", path=self.root, writable_depth=0, is_own=True)

    def _named_roots(self) -> dict[str, Root]:
        """Return the names at the top of this view that stand for other roots."""
        if self.alone:
            return {}
        roots = {_SHARED: Root(name=_SHARED, path=self.shared, writable_depth=None)}
        if self.all_chats:
            # The folders of the chats may be changed by an owner, the folder that holds them may not.
            roots[_CHATS] = Root(name=_CHATS, path=self.root.parent, writable_depth=2)
        return roots

    def _closed(self, place: Location) -> FolderId | None:
        """Return the folder that must not be entered on the way: from a further root, the workspace."""
        if not place.root.name.startswith("/"):
            return None
        try:
            return FolderId.of(self.workspace.stat())
        except OSError:
            return None


_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}


def _entry(name: str, folder: int, root: Root | None) -> Entry:
    try:
        info = root.path.stat() if root else os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return Entry(name=name, kind=EntryKind.OTHER, size_bytes=0, modified_us=0)
    return Entry(
        name=name,
        kind=_KINDS.get(stat.S_IFMT(info.st_mode), EntryKind.OTHER),
        size_bytes=info.st_size,
        modified_us=info.st_mtime_ns // 1000,
    )
