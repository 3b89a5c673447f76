r"""Unified diffs as values: which files, from what name to what name, and the hunks of each.

`unidiff` reads them (tried beside `whatthepatch`, which loses "\ No newline at end of file" and takes the second
file of a plain diff for lines of the first), after `sloppy_diff.py` made them strict. Where a hunk belongs in a
file is found in `hunks.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.edits.sloppy_diff import UNSTATED, WANTED, PatchError, strict_lines

if TYPE_CHECKING:
    from unidiff.patch import Hunk as ReadHunk
    from unidiff.patch import PatchedFile

MAX_PATCH_CHARS = 1_000_000
MAX_FILES = 100
MAX_HUNKS = 1_000

_NULL = "/dev/null"
# What git puts before the two names: its default, and those of diff.mnemonicPrefix and of --no-index.
_PREFIXES = (("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"), ("1/", "2/"))
_EXECUTABLE, _ORDINARY = "100755", "100644"
# Octal bytes and C escapes, as git quotes names: https://git-scm.com/docs/git-config, core.quotePath (read 2026-11-29).
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_OCTAL_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkLine:
    r"""One line of a hunk. `kind`: " " kept, "-" removed, "+" added; `text` has its line end, unless it has none."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk. `number` counts from 1 in its file; `line` is the stated line, None when none was stated."""

    number: int
    line: int | None
    lines: tuple[HunkLine, ...]

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there afterwards."""
        return [line.text for line in self.lines if line.kind != "-"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """What happens to one file. `old` None: it is created; `new` None: it is deleted; different: renamed.

    `keeps_old`: a copy, the old file stays. `is_executable`: what the new mode says of it, None when nothing.
    `is_stated`: a rename or copy that the diff states; else which file is meant depends on what is there.
    """

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    keeps_old: bool = False
    is_executable: bool | None = None
    is_stated: bool = True

    @property
    def name(self) -> str:
        """The name to speak of it by."""
        return self.new or self.old or ""


def parse_patch(text: str) -> list[FilePatch]:
    """Return the files of a unified diff in their order; at least one.

    Raises:
        PatchError: it is no unified diff, cannot be read, or is beyond `MAX_PATCH_CHARS`, `MAX_FILES`, `MAX_HUNKS`.
    """
    if len(text) > MAX_PATCH_CHARS:
        raise PatchError(f"The patch has {len(text):,} characters; up to {MAX_PATCH_CHARS:,} can be applied at once.")
    from unidiff.errors import UnidiffParseError  # late: only patches need it
    from unidiff.patch import PatchSet

    lines = strict_lines(text)
    try:
        read = PatchSet(lines)
    except UnidiffParseError as error:
        raise PatchError(f"The patch cannot be read: {' '.join(str(error).split())[:200]}. {WANTED}.") from None
    if len(read) > MAX_FILES:
        raise PatchError(f"The patch changes {len(read):,} files; up to {MAX_FILES} can be changed at once.")
    hunks = sum(len(file) for file in read)
    if hunks > MAX_HUNKS:
        raise PatchError(f"The patch has {hunks:,} hunks; up to {MAX_HUNKS:,} can be applied at once.")
    return [_file_patch(file) for file in read]


def _file_patch(file: PatchedFile) -> FilePatch:
    info = [str(line).rstrip("\n") for line in file.patch_info or ()]
    old, new = _names(file, info)
    shown = new or old
    if not shown:
        raise PatchError("The patch names /dev/null on both sides of a file.")
    modes = {file.source_mode, file.target_mode} - {None}
    if not modes <= {_EXECUTABLE, _ORDINARY}:
        raise PatchError(f"{shown}: is a link or a submodule in the patch; only ordinary files can be changed.")
    is_executable = None
    if file.source_mode != file.target_mode and new:
        is_executable = file.target_mode == _EXECUTABLE if file.target_mode else None
    hunks = tuple(_hunk(number, hunk, shown) for number, hunk in enumerate(file, 1))
    if old == new and not hunks and is_executable is None:
        raise PatchError(f"{shown}: the patch has no hunk for it and changes nothing.")
    is_copy = any(line.startswith("copy from ") for line in info)
    is_stated = is_copy or any(line.startswith("rename from ") for line in info)
    return FilePatch(old=old, new=new, hunks=hunks, keeps_old=is_copy, is_executable=is_executable, is_stated=is_stated)


def _names(file: PatchedFile, info: list[str]) -> tuple[str | None, str | None]:
    stated = dict(_moved(info))
    if "from" in stated and "to" in stated:  # these stand without a prefix
        return stated["from"], stated["to"]
    old, new = _unquoted(file.source_file), _unquoted(file.target_file)
    for before, after in _PREFIXES:
        if _has(old, before) and _has(new, after):
            old, new = _without(old, before), _without(new, after)
            break
        # A prefix on one side only, of the same name: no rename, but a slip.
        if _without(old, before) == new or _without(new, after) == old:
            old = new = min(old, new, key=len)
            break
    return (None if old == _NULL else old), (None if new == _NULL else new)


def _moved(info: list[str]) -> Iterator[tuple[str, str]]:
    for line in info:
        for verb in ("rename ", "copy "):
            if line.startswith(verb):
                side, _, name = line.removeprefix(verb).partition(" ")
                yield side, _unquoted(name)


def _has(name: str, prefix: str) -> bool:
    return name == _NULL or name.startswith(prefix)


def _without(name: str, prefix: str) -> str:
    return name if name == _NULL else name.removeprefix(prefix)


def _unquoted(name: str) -> str:
    """Return a name as the file system has it; git quotes those with control or non-ASCII characters."""
    name = name.strip()
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':  # noqa: PLR2004  # two quotes
        return name
    raw = name[1:-1].encode("utf-8", "surrogatepass")
    return _ESCAPE.sub(_escaped, raw).decode("utf-8", "surrogateescape")


def _escaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == _OCTAL_DIGITS else _ESCAPED.get(code, code)


def _hunk(number: int, read: ReadHunk, shown: str) -> Hunk:
    lines: list[HunkLine] = []
    unended: set[str] = set()  # the kinds of lines after which no more of that side can come
    for line in read:
        if line.line_type == "\\":
            lines[-1:] = [HunkLine(kind=last.kind, text=last.text.removesuffix("\n")) for last in lines[-1:]]
            unended |= {" ": {" ", "-", "+"}, "-": {" ", "-"}, "+": {" ", "+"}}[lines[-1].kind] if lines else set()
            continue
        if line.line_type in unended:
            raise PatchError(f"{shown}: hunk {number} goes on after a line that it says is the end of the file.")
        lines.append(HunkLine(kind=line.line_type, text=line.value))
    stated = None if read.target_start == UNSTATED else read.source_start
    return Hunk(number=number, line=stated, lines=tuple(lines))
