"""Text of PowerPoint files: of each slide its title, texts, tables and notes. Runs in the worker process only.

Charts and drawn diagrams are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from pptx import Presentation

from bot.documents.contract import PartRange
from bot.documents.pieces import Opened, Piece, plain, table_row, wanted_parts


def open_slides(file: BinaryIO, pages: Sequence[PartRange]) -> Opened:
    """Open a PowerPoint file whose container was checked.

    Raises:
        DocumentError: it has no slide that was asked for.
    """
    slides = Presentation(file).slides
    total = len(slides)
    return Opened(pieces=_pieces(slides, wanted_parts(pages, total, "slide")), total_parts=total)


def _pieces(slides: Any, numbers: list[int]) -> Iterator[Piece]:
    for number in numbers:
        slide = slides[number - 1]
        title = slide.shapes.title
        hidden = ", hidden" if slide.element.get("show") in {"0", "false"} else ""
        yield Piece(part=number, text=f"[slide {number}{hidden}]", is_mark=True)
        if title is not None and title.text_frame.text.strip():
            yield Piece(part=number, text=f"# {' '.join(plain(title.text_frame.text).split())}")
        for text in _texts(slide.shapes, None if title is None else title.shape_id):
            yield Piece(part=number, text=text)
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if notes is not None and notes.text.strip():
            yield Piece(part=number, text=f"[notes of slide {number}]", is_mark=True)
            yield Piece(part=number, text=plain(notes.text).strip("\n"))


def _texts(shapes: Any, title_id: int | None) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _texts(shape.shapes, title_id)
        elif getattr(shape, "has_table", False):
            yield from (table_row([plain(cell.text) for cell in row.cells]) for row in shape.table.rows)
        elif shape.has_text_frame and shape.shape_id != title_id:
            text = plain(shape.text_frame.text).strip("\n")
            if text.strip():
                yield text
