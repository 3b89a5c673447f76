"""The process that reads one document: the file is its stdin, its orders are one argument, its answer is stdout.

It limits itself before it looks at the file: processor time, memory, no file written, no process started, and
it ends with the bot. The answer is one JSON object: the fields of `DocumentText`, or `problem`, `message` and
`detail` (for the log).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from bot.documents.contract import DocumentError, DocumentKind, DocumentProblem, PartRange
from bot.documents.pieces import Opened, Piece
from bot.security.confinement import end_with_parent, give_way, limit_memory, limit_work
from bot.toolkit.line_window import LineCollector

_COUNTING_S = 2.0
"""Processor time for counting the lines behind the wanted ones."""

_TITLES = 100
_TITLE_CHARS = 60
_OPEN_FILES = 32


def main(order_json: str) -> None:
    """Read the document on stdin as ordered and write the answer to stdout."""
    order = json.loads(order_json)
    end_with_parent()
    give_way()
    limit_work(cpu_s=order["cpu_s"], open_files=_OPEN_FILES)
    limit_memory(order["memory_bytes"])
    answer = _answer(sys.stdin.buffer, order)
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode())
    sys.stdout.buffer.flush()
    os._exit(0)  # without taking down what a hostile file may have made huge


def _answer(file: BinaryIO, order: dict[str, Any]) -> dict[str, Any]:
    try:
        return _read(file, DocumentKind(order["kind"]), order)
    except DocumentError as error:
        return _problem(error.problem, str(error), "")
    except Exception as error:  # noqa: BLE001  # boundary: the libraries raise anything over damaged files
        if isinstance(error, MemoryError) or _peak_bytes() > order["memory_bytes"] // 2:
            # Parsers call it a syntax error when they get no more memory; blocks double until that happens.
            return _problem(DocumentProblem.TOO_LARGE, "cannot be read: it needs too much memory", type(error).__name__)
        return _problem(DocumentProblem.DAMAGED, "is damaged and cannot be read", type(error).__name__)


def _peak_bytes() -> int:
    """Return the most address space this process has had."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmPeak:")[2].split()[0]) * 1024


def _problem(problem: DocumentProblem, message: str, detail: str) -> dict[str, Any]:
    return {"problem": problem.value, "message": message, "detail": detail}


def _read(file: BinaryIO, kind: DocumentKind, order: dict[str, Any]) -> dict[str, Any]:
    pages = [PartRange(first=first, last=last) for first, last in order["pages"]]
    file.seek(0)
    kind, opened = _open(file, kind, pages)
    collected = _Collected(order["first_line"], order["max_lines"], order["max_chars"])
    collected.take(opened.pieces)
    if collected.is_counted and not collected.has_text:
        _say_no_text(kind, opened.total_parts, bool(pages))
    return {
        "kind": kind.value,
        **collected.fields(),
        "total_parts": opened.total_parts,
        "part_titles": [title[:_TITLE_CHARS] for title in opened.part_titles[:_TITLES]],
    }


def _open(file: BinaryIO, kind: DocumentKind, pages: Sequence[PartRange]) -> tuple[DocumentKind, Opened]:
    """Open the file; the libraries are imported here, each only when it is needed (0.15 to 0.3 s)."""
    if kind is DocumentKind.PDF:
        from bot.documents.pdf import open_pdf

        return kind, open_pdf(file, pages)
    from bot.documents.package import checked_kind

    kind = checked_kind(file)
    if pages and kind is not DocumentKind.PPTX:
        raise DocumentError(DocumentProblem.NO_SUCH_PART, f"is a {kind.value} file, which has no pages to choose")
    if kind is DocumentKind.DOCX:
        from bot.documents.word import open_word

        return kind, open_word(file)
    if kind is DocumentKind.XLSX:
        from bot.documents.sheets import open_sheets

        return kind, open_sheets(file)
    from bot.documents.slides import open_slides

    return kind, open_slides(file, pages)


def _say_no_text(kind: DocumentKind, total_parts: int, chosen: bool) -> None:
    where = "on these pages" if chosen else f"on its {total_parts:,} pages" if total_parts > 1 else "on its page"
    message = f"has no text {where}, only pictures (a scan?)" if kind is DocumentKind.PDF else "has no text"
    raise DocumentError(DocumentProblem.NO_TEXT, message)


class _Collected:
    """The wanted lines, and which parts of the document they come from."""

    def __init__(self, first_line: int, max_lines: int, max_chars: int) -> None:
        self._lines = LineCollector(first_line, max_lines, max_chars)
        self._starts: list[tuple[int, int]] = []  # number of a part's first line, number of the part
        self.has_text = False
        self.is_counted = True

    def take(self, pieces: Iterator[Piece]) -> None:
        """Take the pieces to the end, or until what is wanted is there and counting on takes too long."""
        counting_since_s = 0.0
        for piece in pieces:
            if not self._starts or self._starts[-1][1] != piece.part:
                self._starts.append((self._lines.number, piece.part))
            self.has_text = self.has_text or not (piece.is_mark or piece.text.isspace())
            self._lines.feed(f"{piece.text}\n")
            if self._lines.is_full:
                counting_since_s = counting_since_s or time.process_time()
                if time.process_time() - counting_since_s > _COUNTING_S:
                    self.is_counted = False
                    return

    def fields(self) -> dict[str, Any]:
        """Return what the answer says of the lines."""
        window = self._lines.finish()
        shown = [
            part
            for (start, part), (end, _) in zip(self._starts, [*self._starts[1:], (window.total + 1, 0)], strict=True)
            if start <= window.last and end > window.first
        ]
        return {
            "lines": window.lines,
            "first_line": window.first,
            "total_lines": window.total,
            "is_counted": self.is_counted,
            "hidden_chars": window.hidden_chars,
            "first_part": min(shown, default=0),
            "last_part": max(shown, default=0),
        }
