"""Some lines of a text file, numbered, without holding the file in memory.

Lines end at LF, as ripgrep and most compilers count them; a CR before it is no part of the line. Everything
here blocks: call it from a thread.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import BinaryIO

from bot.toolkit.file_types import FileType, chunks

# NUL can neither be stored nor sent; a lone CR would look like a line end that the numbering does not count.
_VISIBLE = {0: "␀", 13: "␍"}
_PREFIX_CHARS = 12  # a line's number, the mark behind it and the line end, generously


@dataclass(frozen=True, slots=True, kw_only=True)
class LineWindow:
    """Lines `first` to `first + len(lines) - 1` of `total`.

    `hidden_chars`: how much of the last line was left out because it alone is longer than the limit.
    `crlf_count`: how many of the lines end in CRLF.
    """

    first: int
    lines: tuple[str, ...]
    total: int
    hidden_chars: int
    crlf_count: int

    @property
    def last(self) -> int:
        """Number of the last line; `first - 1` when there is none."""
        return self.first + len(self.lines) - 1


def line_window(
    file: BinaryIO, kind: FileType, *, first: int, max_lines: int, max_chars: int, limit_bytes: int
) -> LineWindow:
    """Read lines from number `first` on; bytes that do not fit the encoding become U+FFFD.

    Ends after `max_lines`, or before the line that would pass `max_chars`; at least one line is returned, cut
    if need be. At most `limit_bytes` of the file count.
    """
    window = LineCollector(first, max_lines, max_chars)
    decoder = codecs.getincrementaldecoder(kind.encoding)("replace")
    for chunk in chunks(file, kind.mark_bytes, limit_bytes=limit_bytes):
        window.feed(decoder.decode(chunk))
    window.feed(decoder.decode(b"", final=True))
    return window.finish()


def _needs_mark(text: str) -> bool:
    return "\x00" in text or "\r" in text


class LineCollector:
    """Takes decoded text piece by piece and keeps the lines that are asked for, as `line_window` says."""

    def __init__(self, first: int, max_lines: int, max_chars: int) -> None:
        self._first = first
        self._max_lines = max_lines
        self._left = max_chars
        self._number = 1  # of the line that is being read
        self._last_char = ""
        self._parts: list[str] = []  # of that line: its beginning, as much as could be shown
        self._kept = 0
        self._length = 0
        self._tail = ""  # of that line: its last character, also when not kept
        self._lines: list[str] = []
        self._hidden = 0
        self._crlf = 0
        self._full = False

    @property
    def number(self) -> int:
        """The number of the line that the next character belongs to."""
        return self._number

    @property
    def is_full(self) -> bool:
        """Whether no further line will be kept; text is then only counted."""
        return self._full

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        if not text:
            return
        at = self._take_whole_lines(text, self._skip(text))
        while at < len(text) and not self._full:
            end = text.find("\n", at)
            self._add(text[at:] if end < 0 else text[at:end])
            if end < 0:
                at = len(text)
                break
            self._end_line()
            self._number += 1
            at = end + 1
        if self._full:
            self._number += text.count("\n", at)
        self._last_char = text[-1]

    def finish(self) -> LineWindow:
        """Return the lines kept; the text has ended."""
        unended = self._last_char not in {"", "\n"}
        if unended and self._number >= self._first and not self._full:
            self._end_line()
        return LineWindow(
            first=self._first,
            lines=tuple(self._lines),
            total=self._number - 1 + unended,
            hidden_chars=self._hidden,
            crlf_count=self._crlf,
        )

    def _skip(self, text: str) -> int:
        """Return where in the text the first wanted line goes on; its end when that is yet to come."""
        missing = self._first - self._number
        if missing <= 0:
            return 0
        found = text.count("\n")
        if found < missing:
            self._number += found
            return len(text)
        at = 0
        for _ in range(missing):
            at = text.find("\n", at) + 1
        self._number = self._first
        return at

    def _take_whole_lines(self, text: str, at: int) -> int:
        """Keep the whole lines from a line's start that fit for sure, and return where the next one begins.

        What `_end_line` does with each of them, at a tenth of its price: most readings consist of such lines.
        """
        if self._full or self._length or self._number < self._first:
            return at
        pieces = text[at : at + self._left].split("\n", self._max_lines - len(self._lines))
        pieces.pop()  # no whole line, or one too many
        costs = list(accumulate(len(piece) + _PREFIX_CHARS for piece in pieces))
        fitting = pieces[: bisect_right(costs, self._left)]
        if not fitting:
            return at
        whole = "\n".join(fitting) + "\n"
        crlf_count = whole.count("\r\n")
        shown = whole.replace("\r\n", "\n").translate(_VISIBLE) if crlf_count or _needs_mark(whole) else whole
        self._lines += shown.split("\n")[:-1]
        self._crlf += crlf_count
        self._left -= costs[len(fitting) - 1] - crlf_count
        self._number += len(fitting)
        if len(self._lines) >= self._max_lines or self._left <= 0:
            self._close()
        return at + len(whole)

    def _add(self, piece: str) -> None:
        if not piece:
            return
        self._length += len(piece)
        self._tail = piece[-1]
        room = self._left - self._kept
        if room > 0:
            self._parts.append(piece[:room])
            self._kept += min(room, len(piece))
        elif self._lines:
            self._close()

    def _end_line(self) -> None:
        line, length, is_crlf = "".join(self._parts), self._length, self._tail == "\r"
        self._parts, self._kept, self._length, self._tail = [], 0, 0, ""
        if is_crlf:
            length -= 1
            line = line[:length]
        cost = length + _PREFIX_CHARS
        if self._full:
            return
        if cost > self._left and self._lines:
            self._close()
            return
        self._hidden = length - len(line)
        self._crlf += is_crlf
        self._lines.append(line.translate(_VISIBLE))
        self._left -= cost
        if len(self._lines) >= self._max_lines or self._left <= 0:
            self._close()

    def _close(self) -> None:
        self._full = True
        self._parts = []
