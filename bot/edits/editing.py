"""What one edit by old and new text makes of a file. Finding the old text is in `matching.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.edits.hunks import split_lines
from bot.edits.outcome import FileAct, FileOutcome
from bot.edits.patching import EditMisfit, encoded, text_of
from bot.edits.plan import Plan
from bot.edits.preview import Comparison
from bot.edits.text_file import TextFile
from bot.toolkit.chat_files import one_line

MAX_EDITS = 20
MAX_TEXT_CHARS = 1_000_000


class EditAction(StrEnum):
    """What an edit does."""

    REPLACE = "replace"
    ADD = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """One edit; `number` counts from 1 in its call."""

    number: int
    path: str
    action: EditAction
    old_text: str
    new_text: str


def edit_file(plan: Plan, edit: FileEdit) -> FileOutcome:
    """Add one edit to the plan.

    Raises:
        EditMisfit: the old text is not there, or more than once, or the file is no text.
        PathRefused, PlanTooLarge: as `Plan.read` and `Plan.create`.
    """
    return _add(plan, edit) if edit.action is EditAction.ADD else _replace(plan, edit)


def _add(plan: Plan, edit: FileEdit) -> FileOutcome:
    if edit.old_text:
        raise EditMisfit(f"{_name(edit)}: action add creates a file and takes no old_text; use replace to change one")
    plan.create(edit.path, encoded(edit.path, TextFile(text=""), edit.new_text))
    comparison = Comparison(old_name=None, new_name=edit.path, old=[], new=split_lines(edit.new_text))
    return FileOutcome(act=FileAct.CREATE, path=edit.path, comparison=comparison)


def _replace(plan: Plan, edit: FileEdit) -> FileOutcome:
    if not edit.old_text:
        raise EditMisfit(f"{_name(edit)}: action replace needs old_text; use add to create a file")
    file = text_of(edit.path, plan.read(edit.path))
    count = file.text.count(edit.old_text)
    if count != 1:
        raise EditMisfit(f"{_name(edit)}: old_text is found {count} times")
    after = file.text.replace(edit.old_text, edit.new_text)
    plan.write(edit.path, encoded(edit.path, file, after))
    comparison = Comparison(old_name=edit.path, new_name=edit.path, old=split_lines(file.text), new=split_lines(after))
    return FileOutcome(act=FileAct.CHANGE, path=edit.path, comparison=comparison)


def _name(edit: FileEdit) -> str:
    return f"{one_line(edit.path)}: edit {edit.number}"
