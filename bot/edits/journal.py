"""Changes of several files as one act: all of them happen or none, also across a crash.

Before any file is touched, its old bytes are on the disk. Then each file is replaced through the chat's view of
the workspace, atomically and only if it still is what the change was made for. If that fails, or the process
ends in between, the files are rolled back, each only where it still has the bytes that the change gave it: what
somebody else wrote meanwhile is never lost. Folders that the change made stay.

Committed changes are kept for a while, per chat, so that they can be taken back later. The form on the disk is
in `change_record.py`. Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

import structlog

from bot.clock import US_PER_S, Clock
from bot.edits.change_record import (
    Author,
    ChangedFile,
    ChangeRecord,
    ChangeState,
    Image,
    Manifest,
)
from bot.errors import DutifulError
from bot.faults import fault_point
from bot.security.file_slot import is_leftover
from bot.security.workspace import (
    FileIdentity,
    FileSlot,
    FileTooLarge,
    PathMissing,
    PathRefused,
    WorkspaceView,
    WriteFailed,
    WrongKind,
)

KEPT_CHANGES = 20
"""Committed changes kept per chat."""

KEPT_BYTES = 64 * 1024 * 1024
"""Bytes that one chat's kept changes may take; the newest one stays even if it alone has more."""

KEPT_S = 7 * 24 * 3_600
"""Seconds after which a kept change is removed."""

_LOOKED_AT = 10_000  # entries of a folder, in the order of their names: a dot is among the first

_log = structlog.get_logger("bot.edits")


class ChangeFailed(DutifulError):
    """A change did not happen; the text says why, and whether every file is as it was before."""


class ChangeStopped(DutifulError):
    """The change was called off before it touched a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What one file is to become. `before` None: it does not exist yet; `after` None: it is removed.

    `before` is what was read, and what the file must still be. `mode` has permission bits for the new file; None:
    those of the old one, or of any new file.
    """

    path: str
    before: bytes | None
    after: bytes | None
    identity: FileIdentity | None = None
    mode: int | None = None
    mode_before: int | None = None


class Restored(StrEnum):
    """What a rollback did with one file."""

    RESTORED = "restored"
    UNTOUCHED = "untouched"  # it had its old bytes
    LEFT_ALONE = "left alone"  # somebody else has changed it


class ChangeJournal:
    """The changes of all chats, one folder per chat."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._pruning = threading.Lock()

    def carry_out(
        self,
        view: WorkspaceView,
        author: Author,
        changes: Sequence[FileChange],
        *,
        is_called_off: Callable[[], bool] = lambda: False,
    ) -> list[FileIdentity | None]:
        """Make all the changes, or none; return what each file is now, None for one that was removed.

        Raises:
            ChangeFailed: a file is not what it was, cannot be written, or the disk is full.
            ChangeStopped: `is_called_off` said so before a file was touched.
        """
        now_us = self._clock.now_us()
        record = ChangeRecord(self._folder / view.root.name / f"{now_us:017d}-{secrets.token_hex(4)}")
        manifest = Manifest(
            at_us=now_us,
            author=author,
            chat=view.root.name,
            all_chats=view.all_chats,
            files=tuple(_changed_file(change) for change in changes),
        )
        try:
            record.prepare(manifest, [change.before for change in changes])
        except OSError as error:
            record.discard()
            raise ChangeFailed(f"the change cannot be prepared: {os.strerror(error.errno or 0)}") from None
        if is_called_off():
            record.discard()
            raise ChangeStopped("called off")
        fault_point("change-prepared")
        made: list[FileIdentity | None] = []
        try:
            for change in changes:
                made.append(_make(view, change))
                fault_point("change-under-way")
            record.become(ChangeState.COMMITTED)
        except (PathRefused, OSError) as error:
            raise self._undone(record, view, manifest, error, tried=len(made) + 1) from None
        fault_point("change-committed")
        self._prune(record.folder.parent)
        return made

    def recover(self, view_of: Callable[[str, bool], WorkspaceView]) -> None:
        """Roll back what an earlier process left prepared, and remove what is kept no longer.

        `view_of` gives the view for a chat's folder name, as an owner's with True. What cannot be rolled back
        now (a full disk) is tried again at the next start; what must not be is logged.
        """
        if not self._folder.is_dir():
            return
        for chat in sorted(self._folder.iterdir()):
            for record in _records(chat):
                try:
                    self._recover_one(record, view_of)
                except (DutifulError, OSError) as error:
                    _log.error("change not rolled back", chat=chat.name, change=record.folder.name, reason=str(error))
            self._prune(chat)

    def _recover_one(self, record: ChangeRecord, view_of: Callable[[str, bool], WorkspaceView]) -> None:
        state = record.state
        if state is None:
            record.discard()
        if state is not ChangeState.PREPARED:
            return
        manifest = record.manifest()
        view = view_of(manifest.chat, manifest.all_chats)
        for folder in {str(PurePosixPath(file.path).parent) for file in manifest.files}:
            _remove_leftovers(view, folder)
        self._roll_back(record, view, manifest)

    def _undone(
        self, record: ChangeRecord, view: WorkspaceView, manifest: Manifest, error: Exception, *, tried: int
    ) -> ChangeFailed:
        """Roll back after `error` at the last of the `tried` files and return what to tell."""
        why = str(error) if isinstance(error, PathRefused) else os.strerror(getattr(error, "errno", 0) or 0)
        try:
            left = self._roll_back(record, view, manifest, tried=tried)
        except (DutifulError, OSError) as second:
            _log.error("change not rolled back", chat=manifest.chat, change=record.folder.name, reason=str(second))
            return ChangeFailed(f"{why}. Not every file could be put back yet; that is tried again when the bot starts")
        if left:
            return ChangeFailed(f"{why}. Nothing else was changed, but others have changed {', '.join(left)} meanwhile")
        return ChangeFailed(f"{why}. Nothing was changed")

    def _roll_back(
        self, record: ChangeRecord, view: WorkspaceView, manifest: Manifest, *, tried: int | None = None
    ) -> list[str]:
        """Restore the files, last one first; return those that somebody else has changed.

        With `tried` only so many were begun, and the last of them most likely is somebody else's already.

        Raises:
            DutifulError, OSError: a file could not be restored; the record stays as it is.
        """
        left: list[str] = []
        failure: DutifulError | OSError | None = None
        for index, file in reversed(list(enumerate(manifest.files[:tried]))):
            try:
                outcome = _restore(view, record, index, file)
            except (DutifulError, OSError) as error:  # the others can be restored all the same
                is_refused = isinstance(error, PathRefused) and not isinstance(error, WriteFailed)
                if not (is_refused and tried is not None and index == tried - 1):  # there the change was refused, too
                    failure = failure or error
                continue
            if outcome is Restored.LEFT_ALONE and (tried is None or index < tried - 1):
                left.append(file.path)
                _log.warning("changed file left alone", chat=manifest.chat, change=record.folder.name, index=index)
        if failure is not None:
            raise failure
        if left:
            record.become(ChangeState.ABANDONED)
        else:
            record.discard()
        return left

    def _prune(self, chat: Path) -> None:
        """Remove a chat's oldest changes beyond the limits; a prepared one is under way in another thread."""
        oldest_us = self._clock.now_us() - KEPT_S * US_PER_S
        with self._pruning:
            kept, kept_bytes = 0, 0
            for record in reversed(_records(chat)):
                if record.state in {None, ChangeState.PREPARED}:
                    continue
                kept += 1
                kept_bytes += record.size_bytes()
                too_many = kept > 1 and (kept > KEPT_CHANGES or kept_bytes > KEPT_BYTES)
                if too_many or record.at_us < oldest_us:
                    record.discard()


def _records(chat: Path) -> list[ChangeRecord]:
    """Return a chat's records, oldest first; their names begin with the time."""
    return [ChangeRecord(folder) for folder in sorted(chat.iterdir()) if folder.is_dir()] if chat.is_dir() else []


def _changed_file(change: FileChange) -> ChangedFile:
    mode = change.mode_before if change.mode is None else change.mode
    return ChangedFile(
        quoted_path=ChangedFile.quoted(change.path),
        before=None if change.before is None else Image.of(change.before, change.mode_before),
        after=None if change.after is None else Image.of(change.after, mode),
    )


def _make(view: WorkspaceView, change: FileChange) -> FileIdentity | None:
    with view.slot(change.path, make_parents=change.after is not None) as slot:
        if change.after is None:
            slot.unlink(expected=change.identity)
            return None
        if change.before is None:
            return slot.create(change.after, mode=change.mode)
        return slot.replace(change.after, expected=change.identity, mode=change.mode)


def _remove_leftovers(view: WorkspaceView, folder: str) -> None:
    """Remove what the dead process had written beside a file to take its place; at a start nobody else writes."""
    with suppress(PathRefused, OSError):
        entries, _ = view.scandir(folder, limit=_LOOKED_AT)
        for entry in entries:
            if is_leftover(entry.name):
                with view.slot(f"{folder}/{entry.name}") as slot:
                    slot.unlink()


def _restore(view: WorkspaceView, record: ChangeRecord, index: int, file: ChangedFile) -> Restored:
    """Give one file its old bytes back if it has the new ones."""
    try:
        with view.slot(file.path, make_parents=file.before is not None) as slot:
            return _restore_in(slot, record, index, file)
    except PathMissing:  # the folder is gone or never was made, and nothing was in it before
        return Restored.UNTOUCHED
    except WrongKind:  # a file has the place of a folder, or the other way round
        return Restored.UNTOUCHED if file.before is None else Restored.LEFT_ALONE


def _restore_in(slot: FileSlot, record: ChangeRecord, index: int, file: ChangedFile) -> Restored:
    try:
        found = slot.identity(limit_bytes=max(image.size_bytes for image in (file.before, file.after) if image))
    except PathMissing:
        found = None
    except FileTooLarge:
        return Restored.LEFT_ALONE
    if _is(found, file.before) and not (file.after and _is(found, file.after)):  # equal bytes: the mode was to change
        return Restored.UNTOUCHED
    # A file that is being created is there without bytes for a moment.
    is_claim = file.before is None and found is not None and found.size_bytes == 0
    if not _is(found, file.after) and not is_claim:
        return Restored.LEFT_ALONE
    if file.before is None:
        slot.unlink(expected=found)
        return Restored.RESTORED
    before = record.before(index, file.before)
    if found is None:
        slot.create(before, mode=file.before.mode)
    else:
        slot.replace(before, expected=found, mode=file.before.mode)
    return Restored.RESTORED


def _is(found: FileIdentity | None, image: Image | None) -> bool:
    if found is None or image is None:
        return found is None and image is None
    return found.size_bytes == image.size_bytes and found.sha256.hex() == image.sha256
