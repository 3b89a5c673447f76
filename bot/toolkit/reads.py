"""What each conversation knows of files: the bytes it last read from or wrote to a path.

It decides nothing: it lets a writing tool say that it replaced what the conversation had never seen. Nothing
of it is kept beyond the process.
"""

from __future__ import annotations

from collections import OrderedDict

from bot.security.workspace import FileIdentity, PathRefused, WorkspaceView

_REMEMBERED = 4_096


class ReadLedger:
    """The last known identity by session and path; the ones longest unused are forgotten."""

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self._known: OrderedDict[tuple[int, str], FileIdentity] = OrderedDict()

    def note(self, session_id: int, shown: str, identity: FileIdentity) -> None:
        """Note what the session has just read from or written to `shown` (`Location.shown`, links unresolved)."""
        self._known[session_id, shown] = identity
        self._known.move_to_end((session_id, shown))
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def known(self, session_id: int, shown: str) -> FileIdentity | None:
        """Return what the session last read or wrote there, None if nothing or long ago."""
        return self._known.get((session_id, shown))

    def forget(self, session_id: int, shown: str) -> None:
        """Drop what is known of a path: the session removed or moved the file."""
        self._known.pop((session_id, shown), None)

    def forget_session(self, session_id: int) -> None:
        """Drop what is known of a session."""
        for key in [key for key in self._known if key[0] == session_id]:
            del self._known[key]


def seen_identity(view: WorkspaceView, path: str, *, limit_bytes: int) -> FileIdentity | None:
    """Return what a file is before it is read, None for what cannot be read anyway.

    Before, not after: what changes in between is then known to be changed. Blocks.
    """
    try:
        return view.identity(path, limit_bytes=limit_bytes)
    except (PathRefused, OSError):
        return None
