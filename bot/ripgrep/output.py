"""What ripgrep prints, read as it comes: named and counted files, and the wanted lines of some files."""

from __future__ import annotations

import os
import re
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_FOUND_BYTES = 32 * 1024 * 1024
"""Names of found files that are kept, in bytes: some 400,000 files."""

MAX_LINES_BYTES = 8 * 1024 * 1024
"""Lines of a whole search that are kept, in bytes, before it is done in two steps."""

# A line of a file: path, NUL, number, ":" or "-" for one around a match, text. Paths hold anything but NUL.
_ROW = re.compile(rb"([^\0]+)\0(\d+)([:-])([^\n]*)\n")
_LINE = re.compile(rb"(\d+)([:-])([^\n]*)\n")
_MATCHING = re.compile(rb"^\d+:", re.MULTILINE)
_NEXT = b"\n\n./"
_DESCRIPTOR = "/proc/self/fd/"


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

    def arguments(self) -> list[str]:
        """Return ripgrep's options for the lines around."""
        return [f"--before-context={self.before}", f"--after-context={self.after}"]


@dataclass(slots=True, kw_only=True)
class Pieces:
    """The named files, as they come: path, NUL and, when lines are counted, a number and a line end."""

    is_counted: bool
    data: bytearray = field(default_factory=bytearray)

    def take(self, piece: bytes) -> bool:
        """Keep the next piece of output; False when it is enough."""
        self.data += piece
        return len(self.data) <= MAX_FOUND_BYTES

    def files(self, *, is_whole: bool) -> list[tuple[str, int]]:
        """Return paths with their numbers; of a cut output without the last, which may not be whole."""
        pieces = os.fsdecode(bytes(self.data)).split("\0")
        if not self.is_counted:
            return [(path, 1) for path in pieces[:-1]]
        found = []
        path = pieces[0]
        for piece in pieces[1:] if is_whole else pieces[1:-1]:
            count, _, following = piece.partition("\n")
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

    def take_raw(self, number: bytes, mark: bytes, text: bytes) -> None:
        """Keep or pass over the file's next line, as ripgrep prints it."""
        self.take(int(number), text.removesuffix(b"\r").decode(errors="replace"), is_match=mark == b":")

    def take(self, number: int, text: str, *, is_match: bool) -> None:
        """As `take_raw`."""
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
    def is_done(self) -> bool:
        """Whether no further line can be wanted."""
        return self.seen > self.wanted.skip + self.wanted.limit

    @property
    def _last_match(self) -> int:
        return next(row.number for row in reversed(self.rows) if row.is_match)


@dataclass(slots=True)
class Lines:
    """The lines of a few files that ripgrep got as descriptors, each given to its file's reader as it comes."""

    readers: dict[int, Reader]
    rest: bytes = b""

    def take(self, piece: bytes) -> bool:
        """Read the next piece of output."""
        data = self.rest + piece
        end = data.rfind(b"\n") + 1
        self.rest = data[end:]
        for path, *line in _ROW.findall(data[:end]):
            self.readers[int(path[len(_DESCRIPTOR) :])].take_raw(*line)
        return True


@dataclass(slots=True)
class AllLines:
    """The lines of a whole search, if they are not too many."""

    pieces: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether there were too many."""
        return self.size_bytes > MAX_LINES_BYTES

    def take(self, piece: bytes) -> bool:
        """Keep the next piece of output; False when it is enough."""
        self.pieces.append(piece)
        self.size_bytes += len(piece)
        return not self.is_full

    def files(self) -> dict[str, FileLines]:
        """Return the lines by file, without binary files; of a cut output without the line that is not whole.

        Each file's lines follow its path and a NUL, the next path an empty line. Lines begin with their number and
        paths with "./", so no text can look like a path.
        """
        path, *blocks = b"".join(self.pieces).split(b"\0")
        found: dict[bytes, FileLines] = {}
        for block in blocks:
            end = block.rfind(_NEXT)  # from the end, where it is, in a long text
            lines = block[: end + 1] if end >= 0 else block[: block.rfind(b"\n") + 1].replace(b"\n\n", b"\n")
            notice = lines.find(b"\n./") if lines.endswith(b")\n") else -1
            if notice < 0:
                found[path] = FileLines(lines)
            elif not lines.startswith(path + b": ", notice + 1):  # about another file, which has no lines
                found[path] = FileLines(lines[: notice + 1])
            path = block[end + 2 :]
        paths = os.fsdecode(b"\0".join(found)).split("\0")  # in one go: a call for each takes longer than the rest
        return dict(zip(paths, found.values(), strict=True)) if found else {}


class FileLines(NamedTuple):
    """The lines of one file, each with its number; a tuple, since there is one for each of thousands of files."""

    data: bytes

    def count(self, window: Window) -> int:
        """Return how many lines match."""
        if window.before or window.after:
            return len(_MATCHING.findall(self.data))
        return self.data.count(b"\n")

    def rows(self, wanted: Wanted, window: Window) -> list[Row]:
        """Return the wanted lines."""
        reader = Reader(wanted=wanted, window=window)
        for line in _LINE.finditer(self.data):
            if reader.is_done:
                break
            reader.take_raw(*line.groups())
        return reader.rows
