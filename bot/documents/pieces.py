"""What the formats give the worker: text piece by piece, each with the part of the document it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.documents.contract import DocumentError, DocumentProblem, PartRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One or more whole lines, without the last line end.

    `part`: number of the page, sheet or slide, 0 for a format without. `is_mark`: a line that was added to tell
    the part, and is no text of the document.
    """

    text: str
    part: int = 0
    is_mark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An opened document: its parts are counted, its text comes as it is asked for."""

    pieces: Iterator[Piece]
    total_parts: int = 0
    part_titles: tuple[str, ...] = ()


def wanted_parts(ranges: Sequence[PartRange], total: int, name: str) -> list[int]:
    """Return the numbers of the parts that are selected, in order and each once; all without a selection.

    Raises:
        DocumentError: the document has none of a range.
    """
    if not ranges:
        return list(range(1, total + 1))
    for part in ranges:
        if not part.clipped(total):
            have = f"1 {name}" if total == 1 else f"{total:,} {name}s"
            raise DocumentError(DocumentProblem.NO_SUCH_PART, f"has {have}; there is no {name} {part.first:,}")
    return sorted({number for part in ranges for number in part.clipped(total)})


def plain(text: str) -> str:
    """Return text with one kind of line end, that can be stored: without halves of surrogate pairs."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n").replace("\x0c", "\n")


def table_row(cells: Sequence[str]) -> str:
    """Return a row of a table as one line."""
    return "| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |"
