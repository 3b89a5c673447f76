"""Bytes that a program wrote to a terminal, as text that a model can read.

This is no terminal emulator: there is no screen. What is understood, and all of it within one line:

- a carriage return and CSI G move to a column, a backspace, CSI D and CSI C move left and right; what is
  written then stands in place of what was there, as a progress bar wants it;
- CSI K clears the rest of the line (or its beginning, or all of it);
- everything that moves to another line (CSI H, A, B, E, F, d, f and the like) begins a new line if the present
  one has anything in it, so that the words of a full-screen program do not run together.

All other escape sequences (ECMA-48: CSI, OSC, DCS, SOS, PM, APC and two-character ones) and control characters
are left out, invalid UTF-8 becomes U+FFFD. Time and size are linear in the input.
"""

from __future__ import annotations

import re
from typing import Final

MAX_COLUMN: Final = 1_000
"""Moves to the right stop here, so that a few bytes cannot ask for megabytes of spaces."""

_LONGEST_UNFINISHED: Final = 4_096  # bytes of a sequence that may be waited for; beyond, it is taken as it is

# Parameter and intermediate bytes of a CSI, the strings of OSC and its kin: ECMA-48 5.4 and 5.6. A string ends
# with BEL or ST, or is broken off by CAN, SUB, the next escape or the end of the line.
_SEQUENCE = re.compile(
    r"\x1b\[(?P<args>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[PX^_\]][^\x07\n\x18\x1a\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    r"|\x1b"
    r"|(?P<move>[\r\b])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_PLAIN_LINE_ENDS = re.compile(r"(?<!\r)\r+\n")  # from a run's beginning only, or long runs cost their square
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[PX^_\]][^\x07\n\x18\x1a\x1b]*\x1b?|[ -/]*)?\Z")
_MOVES_TO_A_LINE = frozenset("ABEFHSTdef")


def clean(data: bytes) -> str:
    """Return what was written as plain text, lines ended by a line feed alone; never fails."""
    text = _PLAIN_LINE_ENDS.sub("\n", data.decode("utf-8", "replace"))
    if _SEQUENCE.search(text) is None:
        return text
    return "\n".join(_clean_line(line) for line in text.split("\n"))


def unfinished_bytes(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of a sequence or character whose rest is to come."""
    tail = data[-_LONGEST_UNFINISHED:]
    begin = tail.rfind(b"\x1b")
    # The end mark of a string is an escape itself: "ESC ] text ESC" is one sequence.
    for start in (tail.rfind(b"\x1b", 0, max(begin, 0)), begin):
        if start >= 0 and _UNFINISHED.match(tail, start):
            return len(tail) - start
    for length in (1, 2, 3):
        if length <= len(tail) and tail[-length] >= 0xC0:  # noqa: PLR2004 - a leading byte of UTF-8
            return length if length < _char_bytes(tail[-length]) else 0
    return 0


def _char_bytes(lead: int) -> int:
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4 if lead < 0xF8 else 1  # noqa: PLR2004 - UTF-8's leading bytes


def _clean_line(line: str) -> str:
    if _SEQUENCE.search(line) is None:
        return line
    written = _Line()
    position = 0
    for found in _SEQUENCE.finditer(line):
        written.write(line[position : found.start()])
        position = found.end()
        move, final = found["move"], found["final"]
        if move == "\r":
            written.column = 0
        elif move == "\b":
            written.column = max(0, written.column - 1)
        elif final is not None:
            written.control(final, found["args"])
    written.write(line[position:])
    return written.text()


class _Line:
    """What has been written to a line, and the column where writing goes on."""

    def __init__(self) -> None:
        self.column = 0
        self._done: list[str] = []
        self._chars: list[str] = []

    def write(self, text: str) -> None:
        if not text:
            return
        if self.column > len(self._chars):
            self._chars.extend(" " * (self.column - len(self._chars)))
        self._chars[self.column : self.column + len(text)] = text
        self.column += len(text)

    def control(self, final: str, args: str) -> None:
        if final == "K":
            self._erase(args)
        elif final == "C":
            self.column = max(self.column, min(self.column + _count(args), MAX_COLUMN))
        elif final == "D":
            self.column = max(0, self.column - _count(args))
        elif final == "G":
            self.column = min(_count(args) - 1, MAX_COLUMN)
        elif final in _MOVES_TO_A_LINE and self._chars:
            self._done.append(self._present())
            self._chars = []
            self.column = 0

    def _erase(self, args: str) -> None:
        if args in {"", "0"}:
            del self._chars[self.column :]
        elif args == "2":
            self._chars.clear()
        elif args == "1":
            end = min(self.column + 1, len(self._chars))
            self._chars[:end] = " " * end

    def text(self) -> str:
        return "\n".join([*self._done, self._present()])

    def _present(self) -> str:
        # Blanks beyond the cursor are what a program wrote to wipe out something.
        text = "".join(self._chars)
        return text.rstrip(" ").ljust(min(self.column, len(text)))


def _count(args: str) -> int:
    return min(max(int(args), 1), MAX_COLUMN) if args.isdecimal() and len(args) <= 9 else 1  # noqa: PLR2004 - digits
