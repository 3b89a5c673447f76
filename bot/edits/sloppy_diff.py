"""Makes a strict unified diff of one as models write it, and refuses what is some other kind of patch.

Models miscount the lines of hunks, leave the numbers out, wrap the diff in a fence or in prose and forget half
of git's header. Nothing is guessed that could change what is changed: a line that looks like a change and
belongs to no hunk is an error. Reading the strict form is left to `unidiff`, through `patch.py`.
"""

from __future__ import annotations

import re

from bot.errors import DutifulError

WANTED = (
    "Wanted is a unified diff as of `git diff` or `diff -u`: `--- a/PATH`, `+++ b/PATH` (/dev/null on one side to "
    "create or delete), then hunks of `@@ -LINE,COUNT +LINE,COUNT @@` and lines that begin with a space, `-` or `+`"
)

NO_NEWLINE = "\\ No newline at end of file"

UNSTATED = 0

_HUNK = re.compile(r"@@(?: -(?P<old>\d{1,9})(?:,(?P<old_count>\d{1,9}))?)?(?: \+\d{1,9}(?:,(?P<new_count>\d{1,9}))?)?")
_OLD_NAME, _NEW_NAME, _GIT = "--- ", "+++ ", "diff --git "
_BODY = frozenset(" +-\\")
_EXTENDED = re.compile(
    r"(old|new|new file|deleted file) mode \d|(similarity |dissimilarity )?index |(rename|copy) (from|to) "
)
_TWO_NAMES = re.compile(r"diff --git \S.* \S")
_NULL = "/dev/null"
_NEW_FILE, _DELETED_FILE = "new file mode 100644", "deleted file mode 100644"
_SIGNATURE = "-- "  # of git format-patch: the lines after it are git's version

# Two file names of 4,096 bytes, each byte written as an octal escape of four characters, and some words.
_HEADER_CHARS = 2 * 4 * 4_096 + 100

_OTHER_FORMS = (
    ("*** Begin Patch", "the *** Begin Patch form"),
    ("*** Update File:", "the *** Begin Patch form"),
    ("*** Add File:", "the *** Begin Patch form"),
    ("*** Delete File:", "the *** Begin Patch form"),
    ("***************", "a context diff"),
    ("@@@ ", "a combined diff of a merge"),
    ("<<<<<<< ", "a search and replace block (for that, use edits with old_text and new_text)"),
    ("GIT binary patch", "a binary patch, and only text can be patched"),
    ("Binary files ", "a note that binary files differ, and only text can be patched"),
)


class PatchError(DutifulError):
    """The patch cannot be read, or does not fit; the text says where and what is wanted."""


def strict_lines(text: str) -> list[str]:
    r"""Return the lines of a strict diff, each ending in a newline: headers, and hunks with the right counts.

    Only the old line of a hunk counts; its new line is `UNSTATED` when no old one was stated. Where the whole diff
    was written with CRLF, headers included, the CRs are taken for its transport and left out.

    Raises:
        PatchError: it is no unified diff, or a line stands where none can.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines[:-1]) and len(lines) > 1:
        lines = [line.removesuffix("\r") for line in lines]
    return _Scan(lines).run()


class _Scan:
    """One pass over the lines of a diff."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._strict: list[str] = []
        self._in_git = False  # in the header that a `diff --git` line began
        self._git_modes: set[str] = set()
        self._has_names = False  # a hunk may follow
        self._after_hunk = False
        self._signed = False

    def run(self) -> list[str]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("@@") and not line.startswith("@@@"):
                self._hunk()
            elif self._is_names(self._at):
                self._names()
            elif line.startswith(_GIT):
                self._git()
            elif self._in_git and _EXTENDED.match(line):
                self._extended()
            else:
                self._other(line)
        if not self._strict:
            raise PatchError(f"There is no unified diff in this patch. {WANTED}.")
        return self._strict

    def _put(self, line: str) -> None:
        self._strict.append(f"{line}\n")

    def _header(self, at: int) -> str:
        line = self._lines[at].rstrip()  # git ends a name that has spaces with a tab; CRs are never part of a name
        if len(line) > _HEADER_CHARS:
            raise PatchError(f"Line {at + 1} of the patch is no header: it has {len(line):,} characters.")
        return line

    def _is_names(self, at: int) -> bool:
        lines = self._lines
        return lines[at].startswith(_OLD_NAME) and at + 1 < len(lines) and lines[at + 1].startswith(_NEW_NAME)

    def _names(self) -> None:
        old, new = self._header(self._at), self._header(self._at + 1)
        if len(old) <= len(_OLD_NAME) or len(new) <= len(_NEW_NAME):
            raise PatchError(f"Line {self._at + 1} of the patch names no file. {WANTED}.")
        if self._in_git and old.split("\t")[0] == _OLD_NAME + _NULL and _NEW_FILE not in self._git_modes:
            self._put(_NEW_FILE)
        if self._in_git and new.split("\t")[0] == _NEW_NAME + _NULL and _DELETED_FILE not in self._git_modes:
            self._put(_DELETED_FILE)
        self._put(old)
        self._put(new)
        self._at += 2
        self._has_names, self._in_git, self._after_hunk, self._signed = True, False, False, False

    def _git(self) -> None:
        line = self._header(self._at)
        if "://" in line or not _TWO_NAMES.match(line):
            raise PatchError(f"Line {self._at + 1} of the patch does not name two files: `diff --git a/PATH b/PATH`.")
        self._put(line)
        self._at += 1
        self._git_modes = set()
        self._in_git, self._has_names, self._after_hunk, self._signed = True, False, False, False

    def _extended(self) -> None:
        line = self._header(self._at)
        for kind in (_NEW_FILE, _DELETED_FILE):
            if line.startswith(kind.removesuffix("100644")):
                self._git_modes.add(kind)
        self._put(line)
        self._at += 1

    def _other(self, line: str) -> None:
        """Pass over prose, blank lines and fences, but over nothing that might be part of a hunk."""
        for start, form in _OTHER_FORMS:
            if line.startswith(start):
                raise PatchError(f"Line {self._at + 1} of the patch begins {form}. {WANTED}.")
        if self._after_hunk and not self._signed:
            if line == _SIGNATURE:
                self._signed = True
            elif line.strip() and not line.startswith(("```", "diff ", "Index: ", "====", "From ")):
                raise PatchError(
                    f"Line {self._at + 1} of the patch belongs to no hunk: a line of a hunk begins with a space, `-`, "
                    f"`+` or `@@`, not with {line[:40]!r}."
                )
            elif line.startswith("From "):  # the next mail of a series, with prose up to its diff
                self._after_hunk = False
        self._in_git = self._in_git and not line.strip()
        self._at += 1

    def _hunk(self) -> None:
        if not self._has_names:
            raise PatchError(
                f"Line {self._at + 1} of the patch begins a hunk, but no `--- a/PATH` and `+++ b/PATH` stand before it."
            )
        number = self._at + 1
        header = _HUNK.match(self._lines[self._at])
        body = self._body(header)
        old_count = sum(line[0] in " -" for line in body)
        new_count = sum(line[0] in " +" for line in body)
        if not any(line[0] in "+-" for line in body):
            raise PatchError(f"The hunk at line {number} of the patch changes nothing: no line begins with `+` or `-`.")
        stated = int(header["old"]) if header and header["old"] else None
        if stated is None or (stated == 0 and old_count):
            self._put(f"@@ -0,{old_count} +{UNSTATED},{new_count} @@")
        else:
            self._put(f"@@ -{stated},{old_count} +{stated + 1},{new_count} @@")
        for line in body:
            self._put(NO_NEWLINE if line[0] == "\\" else line)
        self._after_hunk = True

    def _body(self, header: re.Match[str] | None) -> list[str]:
        """Return the lines of the hunk and go on to the line after it.

        Counts that come out are believed, unless more lines follow that can only be a hunk's; otherwise the hunk
        goes on for as long as its lines can be a hunk's.
        """
        start = self._at + 1
        end = self._counted_end(start, header) or self._longest_end(start)
        self._at = end
        return [line if line.strip("\r") else f" {line}" for line in self._lines[start:end]]

    def _counted_end(self, start: int, header: re.Match[str] | None) -> int | None:
        if header is None or header["old"] is None:
            return None
        old, new = int(header["old_count"] or 1), int(header["new_count"] or 1)
        at = start
        while (old or new) and at < len(self._lines):
            kind = self._lines[at][:1].strip("\r") or " "
            if kind not in _BODY:
                return None
            old -= kind in " -"
            new -= kind in " +"
            if old < 0 or new < 0:
                return None
            at += 1
        while at < len(self._lines) and self._lines[at].startswith("\\"):
            at += 1
        follows = at
        while follows < len(self._lines) and not self._lines[follows].strip():
            follows += 1
        return None if old or new or self._goes_on(follows) else at

    def _goes_on(self, at: int) -> bool:
        if at >= len(self._lines) or self._lines[at][:1] not in _BODY or self._is_names(at):
            return False
        return self._lines[at] != _SIGNATURE

    def _longest_end(self, start: int) -> int:
        at = start
        while at < len(self._lines) and (self._lines[at][:1].strip("\r") or " ") in _BODY:
            if self._is_names(at) and self._lines[at + 2 : at + 3] and self._lines[at + 2].startswith("@@"):
                break
            if self._lines[at] == _SIGNATURE:
                break
            at += 1
        while at > start and not self._lines[at - 1].strip("\r"):
            at -= 1
        return at
