"""What a unified diff makes of a chat's files: each file of the diff becomes a part of a plan, or a reason why not.

Reading diffs is in `patch.py`, placing hunks in `hunks.py`; no file is changed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bot.edits.file_text import FileText, NotEncodable, NotText
from bot.edits.hunks import HunkMisfit, Patched, apply_hunks, split_lines
from bot.edits.outcome import FileAct, FileOutcome
from bot.edits.patch import FilePatch, Hunk
from bot.edits.plan import Plan
from bot.edits.preview import Comparison, Region
from bot.errors import DutifulError
from bot.toolkit.chat_files import one_line

MAX_LINES = 500_000
"""Lines of a file that is to be patched: each takes some 200 bytes of memory meanwhile."""

_REGION_LINES = 60
_REGION_CHARS = 2_000
_NEW_EXECUTABLE = 0o755
_ANY_EXECUTE = 0o111
_ANY_READ = 0o444
_PREFIXES = ("a", "b")


class EditMisfit(DutifulError):
    """An edit does not fit its file; the text names the file, the place, and what is there instead."""


def patch_file(plan: Plan, patch: FilePatch) -> FileOutcome:
    """Add one file of a diff to the plan.

    Raises:
        EditMisfit: a hunk does not fit, or the file is no text.
        PathRefused, PlanTooLarge: as `Plan.read` and `Plan.create`.
    """
    patch = _meant(plan, patch)
    if patch.old is None or _creates_without_saying(plan, patch):
        return _create(plan, patch)
    if patch.new is None:
        return _delete(plan, patch, patch.old)
    data = plan.read(patch.old)
    notes: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    if patch.hunks:
        file = text_of(patch.old, data)
        patched = _patched(patch.old, lines_of(patch.old, file), patch.hunks)
        notes, regions = _notes(patched), patched.regions
        data = _spliced(patch.old, file, patched)
    mode = _mode(plan.mode(patch.old), patch.is_executable)
    comparison = Comparison(old_name=patch.old, new_name=patch.new, regions=regions)
    if patch.is_executable is not None:
        notes += ("made executable" if patch.is_executable else "made not executable",)
    if patch.old == patch.new:
        plan.write(patch.new, data, mode=mode)
        return FileOutcome(act=FileAct.CHANGE, path=patch.new, comparison=comparison, notes=notes)
    plan.create(patch.new, data, mode=mode)
    if not patch.keeps_old:
        plan.remove(patch.old)
    act = FileAct.COPY if patch.keeps_old else FileAct.RENAME
    return FileOutcome(act=act, path=patch.new, old_path=patch.old, comparison=comparison, notes=notes)


def _meant(plan: Plan, patch: FilePatch) -> FilePatch:
    """Return the patch with the name of the file that is there, if only one way to read its names finds one.

    A diff without git's words on renames has whatever names its maker gave the two versions: `f.orig` and `f`,
    `old/f` and `new/f`, `a/f` twice.
    """
    if patch.is_stated or patch.old is None or plan.exists(patch.old):
        return patch
    if patch.new is None:
        return patch
    if patch.new != patch.old and plan.exists(patch.new):
        return replace(patch, old=patch.new)
    (first, _, name), (second, _, same) = patch.old.partition("/"), patch.new.partition("/")
    is_prefix = first != second or first in _PREFIXES  # of equal folders only those that git puts before names
    adds_only = not any(hunk.old for hunk in patch.hunks)  # then nothing shows that it is the right file
    if name != same or not name or name.startswith("/") or not is_prefix or adds_only or not plan.exists(name):
        return patch
    return replace(patch, old=name, new=name)


def _creates_without_saying(plan: Plan, patch: FilePatch) -> bool:
    """Whether it adds lines to nothing: as GNU patch has it, a file that is not there is created then."""
    is_addition = len(patch.hunks) == 1 and not patch.hunks[0].old and patch.hunks[0].line in {0, None}
    return is_addition and patch.old == patch.new and not plan.exists(patch.name)


def _create(plan: Plan, patch: FilePatch) -> FileOutcome:
    lines = _patched(patch.name, [], patch.hunks).lines
    plan.create(
        patch.name, new_bytes(patch.name, "".join(lines)), mode=_NEW_EXECUTABLE if patch.is_executable else None
    )
    comparison = Comparison.of_lines(None, patch.name, [], lines)
    notes = ("executable",) if patch.is_executable else ()
    return FileOutcome(act=FileAct.CREATE, path=patch.name, comparison=comparison, notes=notes)


def _delete(plan: Plan, patch: FilePatch, path: str) -> FileOutcome:
    data = plan.read(path)
    before: list[str] = []
    if patch.hunks:
        before = lines_of(path, text_of(path, data))
        left = len(_patched(path, before, patch.hunks).lines)
        if left:
            raise EditMisfit(
                f"{one_line(path)}: the patch deletes the file, but its hunks leave {left:,} of its lines. Give all of "
                "its lines as removed, or no hunks at all (`deleted file mode 100644` after `diff --git`)"
            )
    plan.remove(path)
    return FileOutcome(act=FileAct.DELETE, path=path, comparison=Comparison.of_lines(path, None, before, []))


def text_of(path: str, data: bytes) -> FileText:
    """Return a file's text.

    Raises:
        EditMisfit: it is no text.
    """
    try:
        return FileText.of(data)
    except NotText as error:
        raise EditMisfit(f"{one_line(path)}: is binary ({error.kind.mime}) and cannot be changed as text") from None


def lines_of(path: str, file: FileText) -> list[str]:
    """Return a file's lines.

    Raises:
        EditMisfit: there are too many to be held apart.
    """
    count = file.text.count("\n")
    if count > MAX_LINES:
        raise EditMisfit(f"{one_line(path)}: has {count:,} lines; files of up to {MAX_LINES:,} lines can be changed")
    return split_lines(file.text)


def new_bytes(path: str, text: str) -> bytes:
    """Return the bytes of a new file.

    Raises:
        EditMisfit: UTF-8 cannot hold the text.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise EditMisfit(f"{one_line(path)}: the text has half a surrogate pair, which UTF-8 cannot hold") from None


def _spliced(path: str, file: FileText, patched: Patched) -> bytes:
    try:
        return file.spliced(patched.replacements)
    except NotEncodable as error:
        raise EditMisfit(f"{one_line(path)}: {error}") from None


def _patched(path: str, lines: Sequence[str], hunks: Sequence[Hunk]) -> Patched:
    try:
        return apply_hunks(lines, hunks)
    except HunkMisfit as error:
        raise EditMisfit(f"{one_line(path)}: {error}{_closest(lines, error)}") from None


def _closest(lines: Sequence[str], misfit: HunkMisfit) -> str:
    """Return what stands where the hunk most likely belongs, as differences from what it expects."""
    if misfit.near is None:
        return ". Read the file again: not one of these lines is in it" if misfit.hunk.old else ""
    expected = misfit.hunk.old[:_REGION_LINES]
    found = lines[misfit.near - 1 : misfit.near - 1 + len(expected)]
    region = Comparison.of_lines("", "", found, expected).hunks(_REGION_CHARS)
    if not region:
        return f". Most of its lines are at line {misfit.near:,}"
    same = [line.split() for line in found] == [line.split() for line in expected]
    why = ", and only white space differs" if same else ""
    return (
        f". Closest is line {misfit.near:,}{why}; here `-` is what the file has and `+` what the hunk expects:\n"
        + region.partition("\n")[2]
    )


def _notes(patched: Patched) -> tuple[str, ...]:
    notes: list[str] = []
    for place in patched.placed:
        said = [f"line {place.line:,} instead of {place.line - place.offset:,}"] if place.offset else []
        if place.fuzz:
            said.append(f"{place.fuzz} outer line{'s' if place.fuzz > 1 else ''} of context ignored")
        if said:
            notes.append(f"hunk {place.number}: {', '.join(said)}")
    return tuple(notes)


def _mode(mode: int | None, is_executable: bool | None) -> int | None:
    if mode is None or is_executable is None:
        return mode
    return mode | (mode & _ANY_READ) >> 2 if is_executable else mode & ~_ANY_EXECUTE
