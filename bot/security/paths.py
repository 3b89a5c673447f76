"""What a path means by its text: the roots a chat has, the place below one of them, and why a path is refused.

Nothing here looks at the disk: walking and opening are in `bot/security/descent.py`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.errors import DutifulError

# Linux limits: limits.h NAME_MAX and PATH_MAX, https://man7.org/linux/man-pages/man7/path_resolution.7.html
# (read 2026-11-29).
_NAME_BYTES = 255
_PATH_BYTES = 4096

_SHOWN_CHARS = 200


class PathRefused(DutifulError):
    """The path cannot be used from this chat. The text is for anyone: it tells nothing about outside."""


class PathMissing(PathRefused):
    """The path lies within the chat's files, but nothing is there."""


class WrongKind(PathRefused):
    """A folder where a file is needed, or the other way round."""


class PathTaken(PathRefused):
    """Something is there already, and was to be left alone."""


class PathChanged(PathRefused):
    """The file no longer has the bytes it was expected to have; nothing was done."""


class FileTooLarge(PathRefused):
    """The file has more bytes than the caller takes; `size_bytes` says how many."""

    def __init__(self, text: str, *, size_bytes: int) -> None:
        super().__init__(text)
        self.size_bytes = size_bytes


class WriteFailed(PathRefused):
    """The disk is full, or the folder, the file or the file system is read-only; what was there is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder whose files a chat may name.

    `name` is what such paths begin with: "" (the chat's own folder), "shared", "chats", or an absolute path.
    `writable_depth`: how many names below it a path must have to be changed, None: nothing below may be.
    `is_own`: made by us, so that a link in its place is an attack; elsewhere an administrator may have made one.
    """

    name: str
    path: Path
    writable_depth: int | None
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a path leads by its text alone; `path` is for showing and for sandboxes, never for opening."""

    root: Root
    parts: tuple[str, ...]

    @property
    def base(self) -> Path:
        """The root's folder."""
        return self.root.path

    @property
    def shown(self) -> str:
        """The path as the chat would write it: "notes/a.txt", "shared/b.txt", "/srv/docs/c.txt", "."."""
        return "/".join((*([self.root.name.rstrip("/")] if self.root.name else []), *self.parts)) or (
            self.root.name or "."
        )

    @property
    def path(self) -> Path:
        """The absolute path."""
        return self.base.joinpath(*self.parts)

    @property
    def writable(self) -> bool:
        """Whether what is there may be changed."""
        return self.root.writable_depth is not None and len(self.parts) >= self.root.writable_depth


def normal_parts(path: str, text: str) -> tuple[str, ...]:
    """Return the normal components of `text`. ".." is taken by its text: no component is a link.

    In an absolute path it stays at the top, as the kernel has it; in a relative one it must not pass it.

    Raises:
        PathRefused: NUL, a name or path that is too long or cannot be a name, or it leads above its start;
            the error names `path`.
    """
    if "\x00" in text:
        raise PathRefused(f"{shown_path(path)}: contains a NUL character")
    try:
        names = [(name, len(os.fsencode(name))) for name in text.split("/") if name not in {"", "."}]
    except UnicodeEncodeError:
        raise PathRefused(f"{shown_path(path)}: is not a possible file name") from None
    if any(size > _NAME_BYTES for _, size in names) or sum(size + 1 for _, size in names) > _PATH_BYTES:
        raise PathRefused(f"{shown_path(path)}: is too long")
    parts: list[str] = []
    for name, _ in names:
        if name != "..":
            parts.append(name)
        elif parts:
            parts.pop()
        elif not text.startswith("/"):
            raise outside(path)
    return tuple(parts)


def nearest_root(parts: Sequence[str], roots: Sequence[Root]) -> tuple[Root, tuple[str, ...]] | None:
    """Return the innermost of the roots that holds an absolute path, given by its components, and the rest."""
    held = [(root, len(root.path.parts) - 1) for root in roots if is_below(parts, root.path)]
    if not held:
        return None
    root, depth = max(held, key=lambda found: found[1])
    return root, tuple(parts[depth:])


def is_below(parts: Sequence[str], folder: Path) -> bool:
    """Whether an absolute path, given by its components, is the folder or lies in it."""
    top = folder.parts[1:]
    return tuple(parts[: len(top)]) == top


def outside(path: str) -> PathRefused:
    """Return the refusal of a path that leads out; the same whether or not anything is there."""
    return PathRefused(f"{shown_path(path)}: lies outside of this chat's files")


def refusal(error: OSError, shown: str) -> PathRefused:
    """Return what to raise for an error of opening or looking."""
    shown = shown_path(shown)
    if error.errno == errno.ENOENT:
        return PathMissing(f"{shown}: does not exist")
    if error.errno == errno.ENOTDIR:
        return WrongKind(f"{shown}: is not a folder")
    if error.errno == errno.ENXIO:  # a socket
        return PathRefused(f"{shown}: is not an ordinary file")
    return PathRefused(f"{shown}: cannot be opened: {os.strerror(error.errno or 0)}")


def write_failure(error: OSError, shown: str, *, done: str = "written") -> PathRefused:
    """Return what to raise for an error of changing something."""
    shown = shown_path(shown)
    if error.errno == errno.ENOENT:
        return PathMissing(f"{shown}: does not exist")
    if error.errno in {errno.EISDIR, errno.ENOTDIR}:
        return WrongKind(f"{shown}: is a folder, or lies in something that is none")
    if error.errno == errno.EXDEV:
        return PathRefused(f"{shown}: lies on another file system")
    return WriteFailed(f"{shown}: cannot be {done}: {os.strerror(error.errno or 0)}")


def shown_path(path: str) -> str:
    """Return a path for an error text: one line of printable characters, not endless."""
    text = path if path.isprintable() else ascii(path)[1:-1]
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
