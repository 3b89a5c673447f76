"""What an edit makes of one file, for telling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.edits.preview import Comparison


class FileAct(StrEnum):
    """What happens to the file."""

    CHANGE = "change"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """One file: what happens to it, its versions, and what else is to be said (offsets, fuzz, modes)."""

    act: FileAct
    path: str
    comparison: Comparison
    old_path: str = ""
    notes: tuple[str, ...] = ()
