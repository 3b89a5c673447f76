"""Long-term memory: a file MEMORY.md for each person and each group, which people may read and edit by hand.

They lie in the data directory, where no tool of a chat reaches: `memory/people/` and `memory/chats/`. A private chat
is shown its person's, a group its own alone, its threads included: they have the same readers. What a person's file
says under the heading `## Shared` goes to the groups they write in if they want it so. When files are updated is
`memory_runs`' part, what they said before is kept by `MemoryBook`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from bot.log import get_logger
from bot.memories import HomeKind, MemoryHome
from bot.messages import ChatType, Origin
from bot.security.workspace import PathMissing, PathRefused, WorkspaceView
from bot.toolkit.context import RequestContext

FILE_NAME = "MEMORY.md"
FILE_MODE = 0o600
KEPT_BYTES = 256 * 1024
"""What of a file is read for its versions and for people; larger ones are not kept as a version."""

_BYTES_PER_CHAR = 4  # UTF-8's longest
_FILES_KEPT = 256  # read again only when they change
_SHARED_HEADING = re.compile(r"^##[ \t]+shared[ \t]*#*[ \t]*$", re.IGNORECASE)
# Whatever a markdown reader may take for a heading of the same level or above, be it only a line drawn under a text.
_NEXT_HEADING = re.compile(r"^ {0,3}#{1,2}(?:[ \t]|$)")
_UNDERLINE = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a file said when it last looked like this."""

    stamp: tuple[int, int, int]
    text: str


class MemoryFiles:
    """The files. See `bot.agent.prompt.MemorySource`; everything here blocks, and may be asked by several threads."""

    def __init__(self, view_of: Callable[[MemoryHome], WorkspaceView], *, max_chars: int, enabled: bool) -> None:
        self._view_of = view_of
        self._limit_bytes = (max_chars + 1) * _BYTES_PER_CHAR
        self._enabled = enabled
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._lock = Lock()

    def section(self, request: RequestContext) -> str:
        """See `MemorySource.section`. A text over `[memory] max_chars` comes a little longer than that."""
        if not self._enabled or request.origin is Origin.MEMORY:
            return ""
        return self._text(home_of(request))

    def shared(self, request: RequestContext) -> str:
        """See `MemorySource.shared`."""
        is_group = request.chat_type is ChatType.GROUP
        if not (self._enabled and is_group and request.turn.shares_memory and request.sender_id):
            return ""
        home = MemoryHome(kind=HomeKind.PERSON, channel=request.channel, ident=request.sender_id)
        return shared_part(self._text(home))

    def read(self, home: MemoryHome) -> str | None:
        """Return what a memory says, '' for none, None when it is too large to be kept as a version."""
        try:
            with self._view_of(home).open_read(FILE_NAME) as file:
                data = file.read(KEPT_BYTES + 1)
        except PathMissing:
            return ""
        return None if len(data) > KEPT_BYTES else _decoded(data)

    def write(self, home: MemoryHome, text: str) -> None:
        """Let a memory say this, in one step.

        Raises:
            PathRefused: something that is no file is in the way, or nothing can be written.
        """
        with self._view_of(home).slot(FILE_NAME, make_parents=True) as slot:
            slot.replace(text.encode("utf-8", "replace"), mode=FILE_MODE)

    def remove(self, home: MemoryHome) -> None:
        """Delete a memory's folder with all that lies in it.

        Raises:
            OSError: something of it cannot be removed.
        """
        with suppress(FileNotFoundError):
            shutil.rmtree(self._view_of(home).root)

    def close_up(self, home: MemoryHome) -> None:
        """See to it that nobody but the owner of the process reads a file that a run has made."""
        path = self._view_of(home).root / FILE_NAME
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.fchmod(descriptor, FILE_MODE)
        finally:
            os.close(descriptor)

    def move(self, old: MemoryHome, new: MemoryHome) -> None:
        """Let a chat that has another id now keep its memory, unless it has one there already.

        Raises:
            OSError: it cannot be moved.
        """
        source, target = self._view_of(old).root, self._view_of(new).root
        if source.is_dir() and not target.exists():
            source.rename(target)

    def _text(self, home: MemoryHome) -> str:
        """Return the beginning of a memory's file, read again only if it has changed."""
        try:
            with self._view_of(home).open_read(FILE_NAME) as file:
                info = os.fstat(file.fileno())
                stamp = (info.st_ino, info.st_mtime_ns, info.st_size)
                with self._lock:
                    known = self._seen.get(home.key)
                    if known is not None and known.stamp == stamp:
                        self._seen.move_to_end(home.key)
                        return known.text
                text = _decoded(file.read(self._limit_bytes))
        except PathMissing:
            return ""
        except (PathRefused, OSError) as exc:
            _log.warning("memory cannot be read", home=home.key, error=str(exc))
            return ""
        with self._lock:
            self._seen[home.key] = _Seen(stamp=stamp, text=text)
            self._seen.move_to_end(home.key)
            if len(self._seen) > _FILES_KEPT:
                self._seen.popitem(last=False)
        return text


def home_of(request: RequestContext) -> MemoryHome:
    """Return whose memory a turn is shown and its sender may look at."""
    private = request.chat_type is ChatType.PRIVATE
    return MemoryHome.of(private=private, address=request.address, sender_id=request.sender_id)


def shared_part(text: str) -> str:
    """Return what stands under the heading `## Shared`, up to the next heading of its level or above."""
    lines = iter(text.split("\n"))
    for line in lines:
        if _SHARED_HEADING.match(line):
            break
    kept: list[str] = []
    for line in lines:
        if _NEXT_HEADING.match(line):
            break
        if _UNDERLINE.match(line) and kept and kept[-1].strip():
            while kept and kept[-1].strip():  # a heading of several lines is one, too
                kept.pop()
            break
        kept.append(line)
    return "\n".join(kept).strip()


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\0", "").replace("\r\n", "\n")
