"""One edit among several: what it adds to a plan. What old and new text make of a file's bytes is in `edit.py`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from bot.edits.edit import Edit, EditError
from bot.edits.file_text import FileText, NotText
from bot.edits.hunks import split_lines
from bot.edits.matching import find, numbers_text
from bot.edits.outcome import FileAct, FileOutcome
from bot.edits.patching import EditMisfit, new_bytes, text_of
from bot.edits.plan import Plan
from bot.edits.preview import Comparison
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
    plan.create(edit.path, new_bytes(edit.path, edit.new_text))
    comparison = Comparison.of_lines(None, edit.path, [], split_lines(edit.new_text))
    return FileOutcome(act=FileAct.CREATE, path=edit.path, comparison=comparison)


def _replace(plan: Plan, edit: FileEdit) -> FileOutcome:
    if not edit.old_text:
        raise EditMisfit(f"{_name(edit)}: action replace needs old_text; use add to create a file")
    before = plan.read(edit.path)
    text = text_of(edit.path, before).text
    try:
        edited = Edit(old=edit.old_text, new=edit.new_text).apply(before)
    except EditError as error:
        raise EditMisfit(f"{_name(edit)}: {_several(before, edit) or error}") from None
    plan.write(edit.path, edited.data)
    comparison = Comparison.of_texts(edit.path, text, text_of(edit.path, edited.data).text)
    return FileOutcome(act=FileAct.CHANGE, path=edit.path, comparison=comparison, notes=edited.remarks)


def _several(data: bytes, edit: FileEdit) -> str:
    """Return what to tell if the old text is there more than once, "" if that is not the reason."""
    with suppress(NotText):
        matches = find(FileText.of(data).text, edit.old_text)
        if matches and len(matches.hits) > 1:
            lines = numbers_text([hit.line for hit in matches.hits])
            return f"old_text is found {len(matches.hits):,} times, at {lines}. Give more of the lines around it"
    return ""


def _name(edit: FileEdit) -> str:
    return f"{one_line(edit.path)}: edit {edit.number}"
