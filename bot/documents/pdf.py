"""Text of PDF files, page by page in the order of the file's content. Runs in the worker process only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError

from bot.documents.contract import DocumentError, DocumentProblem, PartRange
from bot.documents.pieces import Opened, Piece, plain, wanted_parts


def open_pdf(file: BinaryIO, pages: Sequence[PartRange]) -> Opened:
    """Open a PDF; one whose password is empty is read like one without.

    Raises:
        DocumentError: it needs a password, or has no page that was asked for.
    """
    try:
        reader = PdfReader(file)
        total = len(reader.pages)
    except FileNotDecryptedError:
        raise DocumentError(
            DocumentProblem.PASSWORD, "needs a password and cannot be read; a copy without one can"
        ) from None
    except DependencyError:
        raise DocumentError(
            DocumentProblem.UNSUPPORTED, "is encrypted in a way that cannot be read here; a copy without it can"
        ) from None
    if not total:
        raise DocumentError(DocumentProblem.DAMAGED, "is damaged: it has no pages")
    return Opened(pieces=_pieces(reader, wanted_parts(pages, total, "page")), total_parts=total)


def _pieces(reader: PdfReader, numbers: list[int]) -> Iterator[Piece]:
    for number in numbers:
        try:
            text = plain(reader.pages[number - 1].extract_text()).strip("\n")
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: damage in one page leaves the others readable
            yield Piece(part=number, text=f"[page {number} cannot be read: {type(error).__name__}]", is_mark=True)
            continue
        yield Piece(part=number, text=f"[page {number}]" if text.strip() else f"[page {number}: no text]", is_mark=True)
        if text.strip():
            yield Piece(part=number, text=text)
