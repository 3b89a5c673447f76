"""Searching a chat's files: which files match, how often, and the matching lines.

A search finds everything before anything is sorted and cut, so that totals are exact and the order is the same
every time. Many lines take two steps: the first only names and counts, the second reads the lines of the few
files that are shown, through descriptors that the view opened. So it is always where the kernel has no Landlock,
and in further roots, which may contain what the chat must not see: no line can come from outside then either. What
is best effort there is that, for the moment of a race, a file outside may be counted; a name that cannot be opened
inside is left out.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bot.errors import DutifulError
from bot.ripgrep.child import Command, Exit, Halt, run
from bot.ripgrep.output import AllLines, Lines, Pieces, Reader, Row, Wanted, Window
from bot.ripgrep.place import QUIET, Filters, Place, is_guarded, opened
from bot.security.workspace import PathRefused, WorkspaceView

MAX_LINE_BYTES = 500
"""A longer line is cut by ripgrep, which says so at its end."""

_BATCH = 250  # files whose descriptors one run gets
_ROWS = (
    "--null", "--with-filename", "--line-number", "--no-context-separator",
    f"--max-columns={MAX_LINE_BYTES}", "--max-columns-preview",
)  # fmt: skip


class _Output(Protocol):
    """Takes what ripgrep prints."""

    def take(self, piece: bytes) -> bool:
        """Keep the next piece; False when it is enough."""


Output = TypeVar("Output", bound=_Output)


class SearchFailed(DutifulError):
    """Ripgrep does not take the pattern, type or glob, or broke off; the text is its reason on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What lines are searched for: ripgrep's regular expression (linear time), or plain text."""

    text: str
    is_plain: bool = False
    ignores_case: bool = False

    def arguments(self) -> list[str]:
        """Return ripgrep's options."""
        chosen = [("--fixed-strings", self.is_plain), ("--ignore-case", self.ignores_case)]
        return [*(option for option, is_on in chosen if is_on), f"--regexp={self.text}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Files as the chat would write them, in path order, each with its number of matching lines (1 if not asked)."""

    files: list[tuple[str, int]]
    is_complete: bool  # False: time was up or there were too many
    has_unread: bool = False  # some file or folder could not be read
    is_careful: bool = False  # something was too much: without the rules of .gitignore files and without huge files

    @property
    def total(self) -> int:
        """The sum of the numbers."""
        return sum(count for _, count in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search on its way in one chat's files, until a point of the monotonic clock or the halt."""

    view: WorkspaceView
    halt: Halt
    until_s: float

    def folder(self, path: str, filters: Filters, pattern: Pattern | None = None, *, is_counted: bool = False) -> Found:
        """Name the files below a folder: those with a matching line, without a pattern all; or count their lines.

        Raises:
            PathMissing, PathRefused: the folder cannot be opened from this chat.
            SearchFailed: see there.
            RipgrepMissing, LandlockError, OSError: the program cannot be run.
        """
        if pattern is None:
            what = ["--files"]
        else:
            what = ["--count" if is_counted else "--files-with-matches", *pattern.arguments()]
        with opened(self.view, path) as place:
            pieces, ended, is_careful = self._walk(place, filters, what, lambda: Pieces(is_counted=is_counted))
        return _found(pieces.files(is_whole=not ended.is_cut), place, ended, is_careful=is_careful)

    def folder_rows(self, path: str, filters: Filters, pattern: Pattern, window: Window) -> tuple[Found, list[Row]]:
        """Count the matching lines below a folder and return those of a window, in the order of files and lines.

        In one step where the kernel guards what is opened and the lines are not too many, else in two.

        Raises:
            As `folder`.
        """
        with opened(self.view, path) as place:
            if place.is_guarded:
                what = [*_ROWS, "--heading", *window.arguments(), *pattern.arguments()]
                lines, ended, is_careful = self._walk(place, filters, what, AllLines)
                if not lines.is_full:
                    files = lines.files()
                    counts = [(file, rows.count(window)) for file, rows in files.items()]
                    found = _found(counts, place, ended, is_careful=is_careful)
                    wanted = _wanted(found, window)
                    return found, [row for item in wanted for row in files[place.printed(item.path)].rows(item, window)]
            found = self.folder(path, filters, pattern, is_counted=True)
            return found, self._rows(found, pattern, window, place.start)

    def file_rows(self, path: str, pattern: Pattern, window: Window) -> tuple[Found, list[Row]]:
        """Count the matching lines of one file and return those of a window.

        Raises:
            As `folder`.
        """
        found = self.file(path, pattern)
        return found, self._rows(found, pattern, window, None)

    def file(self, path: str, pattern: Pattern) -> Found:
        """Count the matching lines of one file.

        Raises:
            As `folder`.
        """
        with self.view.open_read(path) as file:
            pieces = Pieces(is_counted=True)
            number = file.fileno()
            options = ("--count", "--null", "--with-filename", *pattern.arguments())
            arguments = (*QUIET, *options, "--", f"/proc/self/fd/{number}")
            ended = self._run(Command(arguments=arguments, files=(number,)), pieces.take)
        shown = self.view.resolve(path).shown
        return Found(
            files=[(shown, count) for _, count in pieces.files(is_whole=not ended.is_cut)],
            is_complete=not ended.is_cut,
        )

    def can_open(self, path: str) -> bool:
        """Whether a found file is inside: where the kernel guards the whole search it is, else it is tried."""
        if is_guarded(path):
            return True
        try:
            self.view.open_read(path).close()
        except (PathRefused, OSError):
            return False
        return True

    def _rows(self, found: Found, pattern: Pattern, window: Window, folder: int | None) -> list[Row]:
        """Read the lines of a window. Files that changed meanwhile give what they hold now, those gone nothing."""
        wanted = _wanted(found, window)
        parts = (wanted[first : first + _BATCH] for first in range(0, len(wanted), _BATCH))
        return [row for part in parts for row in self._rows_of(part, pattern, window, folder)]

    def _rows_of(self, wanted: Sequence[Wanted], pattern: Pattern, window: Window, folder: int | None) -> list[Row]:
        with ExitStack() as opened:
            readers: dict[int, Reader] = {}
            for item in wanted:
                with suppress(PathRefused, OSError):
                    file = opened.enter_context(self.view.open_read(item.path))
                    readers[file.fileno()] = Reader(wanted=item, window=window)
            if not readers:
                return []
            most = max(reader.wanted.skip + reader.wanted.limit for reader in readers.values())
            options = (
                *_ROWS,
                "--no-heading",
                "--text",
                f"--max-count={most}",
                *window.arguments(),
                *pattern.arguments(),
            )
            command = Command(
                arguments=(*QUIET, *options, "--", *(f"/proc/self/fd/{number}" for number in readers)),
                folders=() if folder is None else (folder,),
                files=tuple(readers) if folder is None else (),
                others=() if folder is None else tuple(readers),
            )
            self._run(command, Lines(readers).take)
        return [row for reader in readers.values() for row in reader.rows]

    def _walk(
        self, place: Place, filters: Filters, what: Sequence[str], new: Callable[[], Output]
    ) -> tuple[Output, Exit, bool]:
        """Search a tree; once more with care if something in it held the program up or was too much for it.

        A .gitignore can be a named pipe nobody writes to, or a gigabyte; so can a line.
        """
        output = new()
        ended = run(place.command(filters, what), self.halt, until_s=self.until_s, take=output.take)
        if not ended.is_broken:
            return output, _checked(ended), False
        output = new()
        return output, self._run(place.command(filters, what, is_careful=True), output.take), True

    def _run(self, command: Command, take: Callable[[bytes], bool]) -> Exit:
        return _checked(run(command, self.halt, until_s=self.until_s, take=take))


def _checked(ended: Exit) -> Exit:
    if not ended.is_cut:
        if ended.is_broken:
            raise SearchFailed("the search needs too much memory: a simpler pattern or a smaller folder may do")
        if ended.code not in {0, 1, 2} or (ended.code == 2 and ended.errors.strip()):  # noqa: PLR2004 - 2: an error
            raise SearchFailed(_reason(ended))
    return ended


def deadline(limit_s: float) -> float:
    """Return the point of the monotonic clock that is so many seconds away."""
    return time.monotonic() + limit_s


def _reason(ended: Exit) -> str:
    """Return ripgrep's reason on one line: of a regular expression's drawing the line that says it."""
    lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    if not lines:
        return f"ripgrep ended with code {ended.code}"
    said = next((line for line in lines if line.startswith("error: ")), "")
    first = lines[0].removeprefix("rg: ")
    return f"{first} {said.removeprefix('error: ')}" if said else first


def _found(files: list[tuple[str, int]], place: Place, ended: Exit, *, is_careful: bool) -> Found:
    files.sort(key=lambda item: item[0].replace("/", "\0"))  # by folders: no name has a NUL
    return Found(
        files=[(place.shown(path), count) for path, count in files],
        is_complete=not ended.is_cut,
        has_unread=not ended.is_cut and ended.code == 2,  # noqa: PLR2004 - ripgrep: an error, here of a file
        is_careful=is_careful,
    )


def _wanted(found: Found, window: Window) -> list[Wanted]:
    wanted = []
    skip, left = window.skip, window.limit
    for path, count in found.files:
        if not left:
            break
        if skip >= count:
            skip -= count
            continue
        taken = min(left, count - skip)
        wanted.append(Wanted(path=path, skip=skip, limit=taken))
        skip, left = 0, left - taken
    return wanted
