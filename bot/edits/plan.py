"""What several edits together make of files, without changing any: a second edit sees what the first one did.

The plan is carried out by `journal.py`. Everything here blocks: call it from a thread.
"""

from __future__ import annotations

from dataclasses import replace

from bot.edits.journal import FileChange
from bot.errors import DutifulError
from bot.security.paths import shown_path
from bot.security.workspace import FileSlot, PathMissing, PathTaken, WorkspaceView

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Largest file that can be changed, before and after."""

MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""Bytes of all files of one plan, old and new ones together: they are held in memory."""

_ANY_EXECUTE = 0o111


class PlanTooLarge(DutifulError):
    """The files are together, or one of them is, larger than a plan may hold."""


class Plan:
    """The files touched so far, by where their paths lead."""

    def __init__(self, view: WorkspaceView) -> None:
        self._view = view
        self._files: dict[str, FileChange] = {}
        self._held_bytes = 0

    def read(self, path: str) -> bytes:
        """Return the file's bytes as planned so far.

        Raises:
            PathMissing: there is no file, or none any more.
            PathRefused: it may not be changed from this chat, is no ordinary file, or is too large.
            PlanTooLarge: the plan holds too much already.
        """
        after = self._change(path).after
        if after is None:
            raise PathMissing(f"{shown_path(path)}: does not exist")
        return after

    def exists(self, path: str) -> bool:
        """Whether there is such a file as planned so far.

        Raises:
            PathRefused, PlanTooLarge: as `read`.
        """
        return self._change(path).after is not None

    def mode(self, path: str) -> int | None:
        """Return the permission bits that the file has as planned so far, None: those of any new file."""
        change = self._change(path)
        return change.mode_before if change.mode is None else change.mode

    def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Plan new bytes for a file, whether it exists or not.

        Raises:
            PathRefused, PlanTooLarge: as `read`; also when `data` is too large.
        """
        change = self._change(path)
        if len(data) > MAX_FILE_BYTES:
            raise PlanTooLarge(f"{shown_path(path)}: would have {len(data):,} bytes; up to {MAX_FILE_BYTES:,} can be")
        self._hold(len(data) - len(change.after or b""))
        self._files[change.path] = replace(change, after=data, mode=change.mode if mode is None else mode)

    def create(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Plan a new file.

        Raises:
            PathTaken: there is one already.
            PathRefused, PlanTooLarge: as `write`.
        """
        change = self._change(path)
        if change.after is not None:
            raise PathTaken(f"{shown_path(path)}: exists already")
        if mode is None and change.mode_before is not None:  # the old file goes, and so does its being a program
            mode = change.mode_before & ~_ANY_EXECUTE
        self.write(path, data, mode=mode)

    def remove(self, path: str) -> None:
        """Plan that the file goes.

        Raises:
            PathMissing, PathRefused, PlanTooLarge: as `read`.
        """
        self.read(path)
        change = self._change(path)
        self._files[change.path] = replace(change, after=None, mode=None)

    def changes(self) -> list[FileChange]:
        """Return what is to be done, without what stays as it is; files are removed last."""
        changed = [file for file in self._files.values() if file.after != file.before or file.mode not in _same(file)]
        return sorted(changed, key=lambda file: file.after is None)

    def _change(self, path: str) -> FileChange:
        try:
            with self._view.slot(path) as slot:
                return self._files.get(slot.shown) or self._found(slot)
        except PathMissing:  # the file or a folder above it
            shown = self._view.resolve(path).shown
            return self._files.get(shown) or FileChange(path=shown, before=None, after=None)

    def _found(self, slot: FileSlot) -> FileChange:
        try:
            data, identity = slot.read(limit_bytes=MAX_FILE_BYTES)
        except PathMissing:
            return FileChange(path=slot.shown, before=None, after=None)
        self._hold(2 * len(data))
        found = FileChange(path=slot.shown, before=data, after=data, identity=identity, mode_before=slot.mode())
        self._files[slot.shown] = found
        return found

    def _hold(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        if self._held_bytes > MAX_TOTAL_BYTES:
            raise PlanTooLarge(f"The files are too large together; up to {MAX_TOTAL_BYTES:,} bytes can be changed")


def _same(file: FileChange) -> tuple[int | None, ...]:
    return (None, file.mode_before)
