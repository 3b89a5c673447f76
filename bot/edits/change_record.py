"""One change of files on the disk: its before-images and what it is to become, in a folder of its own.

The folder holds the old bytes of each file (`0.before`, `1.before`, ...) and one manifest whose name is the
change's state: `prepared.json` while files are replaced, `committed.json` when all were, `abandoned.json` when
a rollback had to leave a file alone. A folder without a manifest was cut short before any file was touched.
Everything is on the disk before the next state begins. What the states are for is in `journal.py`.

A manifest has what a later undo needs: who changed what, in which turn, and the digests of old and new bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.errors import DutifulError

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class RecordDamaged(DutifulError):
    """A change's manifest or a before-image cannot be read, or is not what was written."""


class ChangeState(StrEnum):
    """How far a change came."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Image(_Model):
    """A file's bytes, by their digest; `mode` has its permission bits, None: those of any new file."""

    sha256: str
    size_bytes: int
    mode: int | None = None

    @classmethod
    def of(cls, data: bytes, mode: int | None) -> Image:
        """Return the image of these bytes."""
        return cls(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), mode=mode)


class ChangedFile(_Model):
    """One file of a change: None before: it was created; None after: it was removed.

    `quoted_path` is the path as the chat writes it, percent-encoded, since names may be any bytes.
    """

    quoted_path: str
    before: Image | None
    after: Image | None

    @property
    def path(self) -> str:
        """The path as the chat writes it."""
        return os.fsdecode(unquote_to_bytes(self.quoted_path))

    @staticmethod
    def quoted(path: str) -> str:
        """Return the path's form in the manifest."""
        return quote_from_bytes(os.fsencode(path))


class Author(_Model):
    """Whose change it is: the tool, its call, the turn and session it ran in, and the sender of the turn."""

    tool: str
    call_id: str = ""
    turn_id: int = 0
    session_id: int = 0
    sender_id: str = ""


class Manifest(_Model):
    """What a change is. `chat` is the name of the chat's folder; with `all_chats` its view was an owner's."""

    version: Literal[1] = 1
    at_us: int
    author: Author
    chat: str
    all_chats: bool
    files: tuple[ChangedFile, ...]


class ChangeRecord:
    """The folder of one change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def state(self) -> ChangeState | None:
        """How far the change came; None: it was cut short before it touched a file."""
        return next((state for state in ChangeState if self._manifest(state).exists()), None)

    @property
    def at_us(self) -> int:
        """When it was made, in microseconds since the epoch; 0 for a name that is none of ours."""
        digits = self.folder.name.partition("-")[0]
        return int(digits) if digits.isdecimal() else 0

    def size_bytes(self) -> int:
        """Return what the record takes on the disk."""
        with suppress(OSError):
            return sum(file.stat().st_size for file in self.folder.iterdir())
        return 0

    def manifest(self) -> Manifest:
        """Return what the change is.

        Raises:
            RecordDamaged: there is no manifest, or it is none of ours.
        """
        state = self.state
        try:
            return Manifest.model_validate_json(self._manifest(state).read_bytes()) if state else _no_manifest(self)
        except (OSError, ValidationError) as error:
            raise RecordDamaged(f"{self.folder.name}: the manifest cannot be used: {type(error).__name__}") from None

    def before(self, index: int, image: Image) -> bytes:
        """Return the old bytes of the file with this index.

        Raises:
            RecordDamaged: they are gone or are others.
        """
        try:
            data = self._image(index).read_bytes()
        except OSError as error:
            raise RecordDamaged(f"{self.folder.name}: before-image {index}: {os.strerror(error.errno or 0)}") from None
        if hashlib.sha256(data).hexdigest() != image.sha256:
            raise RecordDamaged(f"{self.folder.name}: before-image {index} has other bytes than were saved")
        return data

    def prepare(self, manifest: Manifest, before: Sequence[bytes | None]) -> None:
        """Put everything on the disk that a rollback needs; `before` has the old bytes in the manifest's order.

        Raises:
            OSError: the disk is full or read-only.
        """
        self.folder.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self.folder.mkdir(mode=_FOLDER_MODE)
        for index, data in enumerate(before):
            if data is not None:
                _write(self._image(index), data)
        # ASCII with escapes: a sender's id may hold what cannot be encoded.
        text = json.dumps(manifest.model_dump(mode="json"), indent=1).encode()
        unfinished = self.folder / "manifest.tmp"
        _write(unfinished, text)
        unfinished.rename(self._manifest(ChangeState.PREPARED))
        _sync_folder(self.folder)
        _sync_folder(self.folder.parent)

    def become(self, state: ChangeState) -> None:
        """Take the change from prepared to another state, on the disk.

        Raises:
            OSError: the disk refuses.
        """
        self._manifest(ChangeState.PREPARED).rename(self._manifest(state))
        _sync_folder(self.folder)

    def discard(self) -> None:
        """Remove the record, the manifest first: what is left of it then says nothing.

        What cannot be removed stays: a later rollback finds nothing to do, a later pruning tries again.
        """
        for state in ChangeState:
            with suppress(OSError):
                self._manifest(state).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _manifest(self, state: ChangeState) -> Path:
        return self.folder / f"{state}.json"

    def _image(self, index: int) -> Path:
        return self.folder / f"{index}.before"


def _no_manifest(record: ChangeRecord) -> Manifest:
    raise RecordDamaged(f"{record.folder.name}: has no manifest")


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, _NEW_FILE, _FILE_MODE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
