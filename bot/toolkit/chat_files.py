"""Which files a turn sees, the one place where a request becomes a view of the workspace, and how they are told.

How paths are walked is in `bot/security/workspace.py`; what is done with the files is the tools' part.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bot.config import FilesSection
from bot.memories import MemoryHome
from bot.messages import ChatType, Role
from bot.security.workspace import (
    FileTooLarge,
    PathChanged,
    PathMissing,
    PathRefused,
    PathTaken,
    Root,
    WorkspaceView,
    WriteFailed,
    WrongKind,
)
from bot.toolkit.base import ToolResult
from bot.toolkit.measure import shorten

if TYPE_CHECKING:
    from bot.toolkit.context import RequestContext  # which holds a ChatFiles itself

_UNIT = 1024
_UNSHOWABLE = frozenset({"Cc", "Cs", "Cn", "Zl", "Zp"})  # controls, lone surrogates, unassigned, line ends


class ChatFiles:
    """Gives each request its view of the workspace."""

    def __init__(
        self,
        workspace: Path,
        config: FilesSection | None = None,
        *,
        skills: Sequence[Path] = (),
        memories: Path | None = None,
    ) -> None:
        """`skills` are folders of skills outside of the workspace, which every chat may read; `memories` no chat."""
        config = config or FilesSection()
        self.skills = tuple(Path(os.path.normpath(folder)) for folder in skills)
        self._workspace = workspace
        self._memories = memories
        writable = [Path(os.path.normpath(folder)) for folder in config.extra_write]
        readable = [Path(os.path.normpath(folder)) for folder in (*config.extra_read, *self.skills)]
        # A folder that stands in both lists may be changed.
        depths: dict[Path, int | None] = dict.fromkeys(readable) | dict.fromkeys(writable, 0)
        self._extra = tuple(Root(name=str(path), path=path, writable_depth=depth) for path, depth in depths.items())

    def view(self, request: RequestContext) -> WorkspaceView:
        """Return the view of the request's chat; creates nothing.

        The threads of a chat share its files, as they share its readers. Only where nobody but an owner reads
        along are the other chats' files to be seen. Every view has the folders of `[tools.files]` and of skills.
        A memory run sees the folder of the memory it keeps, and nothing else.
        """
        if request.scope == "memory":
            return self.memory_view(MemoryHome.parse(str(request.turn.meta["home"])))
        alone = request.role is Role.OWNER and request.chat_type is ChatType.PRIVATE
        return WorkspaceView.of(self._workspace, request.address.rate_key, all_chats=alone, extra=self._extra)

    def move_chat(self, old_key: str, new_key: str) -> None:
        """Let a chat that has another address key now keep its files; blocks. Done again it finishes what was begun.

        What it has there already stays. A link takes the old folder's place: history and waiting messages name files
        by their path.

        Raises:
            OSError: something cannot be moved; the rest was.
        """
        old = WorkspaceView.of(self._workspace, old_key).root
        new = WorkspaceView.of(self._workspace, new_key).root
        if old.is_symlink() or not (old.is_dir() or new.is_dir()):
            return
        if old.is_dir():
            _merge(old, new)
        if not old.exists():
            old.symlink_to(new.name)

    def memory_view(self, home: MemoryHome) -> WorkspaceView:
        """Return the view of the folder of a person's or a chat's memory; creates nothing.

        Raises:
            PathRefused: there are no memories here.
        """
        if self._memories is None:
            raise PathRefused("no memory is kept here")
        root = self._memories / home.folder
        return WorkspaceView(root=root, shared=root, alone=True)

    def view_of_folder(self, name: str, all_chats: bool) -> WorkspaceView:
        """Return the view of the chat whose folder has this name (`WorkspaceView.root`), for work without a request."""
        own = WorkspaceView.of(self._workspace, name, all_chats=all_chats, extra=self._extra)
        return replace(own, root=own.root.with_name(name))


def one_line(name: str, limit_chars: int = 200) -> str:
    """Return a file name for an answer: on one line, storable whatever its bytes are, not endless.

    Joiners and direction marks stay, since names in many scripts have them and must be usable as shown.
    """
    if not name.isprintable():
        name = "".join(ascii(char)[1:-1] if unicodedata.category(char) in _UNSHOWABLE else char for char in name)
    return shorten(name, limit_chars)


def problem(error: PathRefused) -> ToolResult:
    """Return how a file tool tells that a path could not be used: as a wall's refusal only where it was one."""
    is_mistake = isinstance(error, (PathMissing, PathTaken, PathChanged, FileTooLarge, WriteFailed, WrongKind))
    return ToolResult.error(f"{error}.") if is_mistake else ToolResult.refused(f"{error}.")


def size_text(size_bytes: int) -> str:
    """Return a size for people: "1 byte", "512 bytes", "1.5 KiB", "100 MiB"."""
    if size_bytes < _UNIT:
        return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= _UNIT
        if size < _UNIT:
            return f"{size:.4g} {unit}"
    return f"{size / _UNIT:.4g} TiB"


def _merge(source: Path, target: Path) -> None:
    """Move a folder to a place where there may be one already, whose entries stay; what is left over stays, too."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        return
    for entry in list(source.iterdir()):
        there = target / entry.name
        if not os.path.lexists(there):
            entry.rename(there)
        elif entry.is_dir() and not entry.is_symlink() and there.is_dir() and not there.is_symlink():
            _merge(entry, there)
    with suppress(OSError):  # not empty
        source.rmdir()
