"""Changes for journal tests, and a process that carries them out, to be killed at a named point.

Arguments: workspace, folder of the journal; standard input: a JSON object of paths and their new text, null to
remove the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from bot.clock import SystemClock
from bot.edits.change_record import Author
from bot.edits.journal import ChangeJournal, FileChange
from bot.security.workspace import PathMissing, WorkspaceView

CHAT = "telegram:1"
BY = Author(tool="apply_patch", call_id="c1", turn_id=3, session_id=9, sender_id="7")


def changes_to(view: WorkspaceView, texts: Mapping[str, str | None]) -> list[FileChange]:
    """Return the changes that give the files these texts, from what they are now."""
    return [_change(view, path, None if text is None else text.encode()) for path, text in texts.items()]


def _change(view: WorkspaceView, path: str, after: bytes | None) -> FileChange:
    try:
        with view.slot(path) as slot:
            before, identity = slot.read(limit_bytes=1 << 30)
            mode = slot.mode()
    except PathMissing:
        return FileChange(path=path, before=None, after=after)
    return FileChange(path=path, before=before, after=after, identity=identity, mode_before=mode)


if __name__ == "__main__":
    _view = WorkspaceView.of(Path(sys.argv[1]), CHAT)
    _journal = ChangeJournal(Path(sys.argv[2]), SystemClock())
    _journal.carry_out(_view, BY, changes_to(_view, json.load(sys.stdin)))
