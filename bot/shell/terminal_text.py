"""Bytes that a program wrote, perhaps for a terminal, as text that a model can read.

This is no terminal emulator: there is no screen. What is understood, and all of it within one line:

- a carriage return and CSI G move to a column, a backspace, CSI D and CSI C move left and right; what is
  written then stands in place of what was there, as a progress bar wants it;
- CSI K clears the rest of the line (or its beginning, or all of it);
- everything that moves to another line (CSI H, A, B, E, F, d, f and the like) begins a new line if the present
  one has anything in it, so that the words of a full-screen program do not run together.

All other escape sequences and control characters are left out, invalid UTF-8 becomes U+FFFD. The content of a
string sequence (a window title) is left out only if its end is there, so that nothing can hide what follows. Time and
size are linear in the input.
"""

from __future__ import annotations

import re
from typing import Final

MAX_COLUMN: Final = 1_000
"""Moves to the right stop here, so that a few bytes cannot ask for megabytes of spaces."""

# ECMA-48, 5th edition, sections 5.4 (CSI), 5.6 (strings) and 8.3 (ecma-international.org, read 2026-11-29).
_PARAMETERS = r"[0-?]{0,64}[ -/]{0,16}"
_MOVES_WITHIN, _MOVES_TO_A_LINE = "CDGK", "ABEFHSTdef"
_EFFECT = rf"{_PARAMETERS}[{_MOVES_WITHIN}{_MOVES_TO_A_LINE}]"
_WITHOUT_EFFECT = re.compile(
    r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # first, since that is what the search can skip to quickly
    rf"(?:(?<=\x1b)(?!\[{_EFFECT})"
    rf"(?:\[{_PARAMETERS}[@-~]|[\]PX^_][^\x07\n\x18\x1a\x1b]{{0,4096}}(?:\x07|\x1b\\)|[ -/]{{0,4}}[0-~]?)"
    rf"|(?<=\x9b)(?!{_EFFECT})(?:{_PARAMETERS}[@-~])?"
    r"|(?<![\x1b\x9b]))"
)
_MOVE = re.compile(r"[\r\b\x1b\x9b](?:(?<![\r\b])\[?(?P<args>[0-?]{0,64})[ -/]{0,16}(?P<final>[@-~])|(?<=[\r\b]))")
_LINE_ENDS = re.compile(r"(?<!\r)\r+\n")  # from a run's beginning only, or long runs cost their square
_MAX_DIGITS = 9


def plain_text(data: bytes) -> str:
    """Return what was written as plain text, lines ended by a line feed alone; never fails."""
    text = data.decode("utf-8", "replace")
    # Replaced by calls: `re` lets no other thread run within one `sub`, which may take half a second for what is all
    # control characters, but Python does at the beginning of a call.
    text = _LINE_ENDS.sub(lambda _: "\n", _WITHOUT_EFFECT.sub(lambda _: "", text))
    if _MOVE.search(text) is None:
        return text
    return "\n".join(_plain_line(line) for line in text.split("\n"))


def _plain_line(line: str) -> str:
    """Apply what moves within a line; nothing else is left in it."""
    if _MOVE.search(line) is None:
        return line
    written = _Line()
    position = 0
    for found in _MOVE.finditer(line):
        written.write(line[position : found.start()])
        position = found.end()
        final = found["final"]
        if final is not None:
            written.control(final, found["args"])
        elif found[0] == "\r":
            written.column = 0
        else:
            written.column = max(0, written.column - 1)
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
    return min(max(int(args), 1), MAX_COLUMN) if args.isdecimal() and len(args) <= _MAX_DIGITS else 1
