"""What ripgrep prints, read as it comes: named and counted files, and the wanted lines of some files."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

MAX_FOUND_BYTES = 32 * 1024 * 1024
"""Names of found files that are kept, in bytes: some 400,000 files."""

_ROW = re.compile(rb"/proc/self/fd/(\d+)\x00(\d+)([:-])(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a file. `is_match` is False for a line around a match."""

    path: str
    number: int
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which matching lines are wanted, over all files in order, and how many lines around each."""

    skip: int
    limit: int
    before: int = 0
    after: int = 0


@dataclass(slots=True, kw_only=True)
class Pieces:
    """The named files, as they come: path, NUL and, when lines are counted, a number and a line end."""

    is_counted: bool
    data: bytearray = field(default_factory=bytearray)

    def take(self, piece: bytes) -> bool:
        self.data += piece
        return len(self.data) <= MAX_FOUND_BYTES

    def files(self, *, is_whole: bool) -> list[tuple[bytes, int]]:
        """Return paths with their numbers; of a cut output without the last, which may not be whole."""
        pieces = bytes(self.data).split(b"\0")
        if not self.is_counted:
            return [(path, 1) for path in pieces[:-1]]
        found = []
        path = pieces[0]
        for piece in pieces[1:] if is_whole else pieces[1:-1]:
            count, _, following = piece.partition(b"\n")
            found.append((path, int(count)))
            path = following
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Of one file: how many matching lines are passed over and how many are wanted."""

    path: str
    skip: int
    limit: int


@dataclass(slots=True, kw_only=True)
class Reader:
    """The lines of one file as they come: keeps the wanted matches and what stands around them."""

    wanted: Wanted
    window: Window
    rows: list[Row] = field(default_factory=list)
    seen: int = 0
    recent: deque[Row] = field(default_factory=deque)

    def take(self, number: int, text: str, *, is_match: bool) -> None:
        row = Row(path=self.wanted.path, number=number, text=text, is_match=is_match)
        self.seen += is_match
        taken = self.seen - self.wanted.skip
        if is_match and 0 < taken <= self.wanted.limit:
            self.rows += [earlier for earlier in self.recent if earlier.number >= number - self.window.before]
            self.recent.clear()
            self.rows.append(row)
        elif self.rows and number <= self._last_match + self.window.after and taken <= self.wanted.limit:
            self.rows.append(row)
        elif taken < self.wanted.limit and self.window.before:
            # A match of the part before this one is only a line around here.
            self.recent.append(Row(path=row.path, number=number, text=text, is_match=False))
            if len(self.recent) > self.window.before:
                self.recent.popleft()

    @property
    def _last_match(self) -> int:
        return next(row.number for row in reversed(self.rows) if row.is_match)


@dataclass(slots=True)
class Lines:
    """Output cut into lines, each given to its file's reader."""

    readers: dict[int, Reader]
    rest: bytes = b""

    def take(self, piece: bytes) -> bool:
        *lines, self.rest = (self.rest + piece).split(b"\n")
        for line in lines:
            if row := _ROW.match(line):
                text = row[4].removesuffix(b"\r").decode(errors="replace")
                self.readers[int(row[1])].take(int(row[2]), text, is_match=row[3] == b":")
        return True
