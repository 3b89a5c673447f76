"""What is asked of a document and what comes back: shared by the callers and the worker process.

Nothing here knows a format or imports a library of one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from bot.errors import DutifulError

MAX_CHARS = 1_000_000
"""The most text that one reading returns."""

_MAX_RANGES = 100
_RANGE = re.compile(r"\s*(\d{1,7})\s*(?:(-)\s*(\d{1,7})?\s*)?")


class DocumentKind(StrEnum):
    """The formats that can be read."""

    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"

    @property
    def part_name(self) -> str:
        """What the numbered parts of such a document are called; empty when it has none."""
        return _PART_NAMES[self]


_PART_NAMES = {
    DocumentKind.PDF: "page",
    DocumentKind.DOCX: "",
    DocumentKind.XLSX: "sheet",
    DocumentKind.PPTX: "slide",
}


class DocumentProblem(StrEnum):
    """Why a document gave no text."""

    PASSWORD = "password"  # noqa: S105 - the name of a problem
    DAMAGED = "damaged"
    NO_TEXT = "no_text"
    NO_SUCH_PART = "no_such_part"
    TOO_LARGE = "too_large"  # unpacked, or in the reader's memory
    TOO_SLOW = "too_slow"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"  # the reader process could not run or ended for no known reason


class DocumentError(DutifulError):
    """A document gave no text. The message goes on after the file's name: "needs a password ..."."""

    def __init__(self, problem: DocumentProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRange:
    """Pages or slides `first` to `last`, counted from 1; `last` is None for the document's end."""

    first: int
    last: int | None

    def clipped(self, total: int) -> range:
        """Return the numbers that a document of `total` parts has of this range."""
        return range(self.first, min(total, self.last or total) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentText:
    """Lines `first_line` to `last_line` of a document's text.

    `total_lines`: how many lines the wanted parts have; a lower bound unless `is_counted`, since counting all of
    a long document takes too long. `total_parts`: pages, sheets or slides of the whole document, 0 for a format
    without. `first_part`, `last_part`: those the lines come from. `hidden_chars`: how much of the last line was
    left out because it alone is longer than the limit. `part_titles`: names of the sheets, else empty.
    """

    kind: DocumentKind
    lines: tuple[str, ...]
    first_line: int
    total_lines: int
    is_counted: bool
    hidden_chars: int = 0
    total_parts: int = 0
    first_part: int = 0
    last_part: int = 0
    part_titles: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    @property
    def last_line(self) -> int:
        """Number of the last line; `first_line - 1` when there is none."""
        return self.first_line + len(self.lines) - 1

    @property
    def is_end(self) -> bool:
        """Whether nothing of the wanted parts follows."""
        return self.is_counted and self.last_line >= self.total_lines and not self.hidden_chars


def parse_pages(text: str) -> tuple[PartRange, ...]:
    """Read a selection such as "1-3,7" or "5-"; empty text selects everything and gives no ranges.

    Raises:
        DocumentError: it is no such selection.
    """
    if not text.strip():
        return ()
    pieces = text.split(",")
    ranges = tuple(_part_range(piece) for piece in pieces[: _MAX_RANGES + 1])
    if len(ranges) > _MAX_RANGES:
        raise DocumentError(DocumentProblem.NO_SUCH_PART, f"pages: at most {_MAX_RANGES} ranges can be given")
    return ranges


def _part_range(piece: str) -> PartRange:
    match = _RANGE.fullmatch(piece)
    first = int(match[1]) if match else 0
    last = int(match[3]) if match and match[3] else (None if match and match[2] else first)
    if first < 1 or (last is not None and last < first):
        raise DocumentError(
            DocumentProblem.NO_SUCH_PART,
            f'pages: {piece.strip()[:40]!r} is no page or range; write "1-3,7", counted from 1, or "5-" for the rest',
        )
    return PartRange(first=first, last=last)
