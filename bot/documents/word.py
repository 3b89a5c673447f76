"""Text of Word files: paragraphs, headings, tables in order, then foot- and endnotes. Runs in the worker only.

python-docx opens the package; the text is taken from its XML, since the library's paragraphs leave out insertions
under review, content controls and text boxes. Page headers, comments and deleted text are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.package import OpcPackage
from docx.opc.part import Part
from docx.oxml.ns import qn
from docx.oxml.parser import parse_xml

from bot.documents.pieces import Opened, Piece, plain, table_row

_CONTENT = {qn("w:t"): None, qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
_NOTE_MARKS = {qn("w:footnoteReference"): "[^{}]", qn("w:endnoteReference"): "[^e{}]"}
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # the same content once more
_LEFT_OUT = frozenset({qn("w:pPr"), qn("w:rPr"), qn("w:del"), qn("w:moveFrom"), qn("w:sectPr"), _FALLBACK})
_NOTES = (
    (RELATIONSHIP_TYPE.FOOTNOTES, qn("w:footnote"), "[^{}]"),
    (RELATIONSHIP_TYPE.ENDNOTES, qn("w:endnote"), "[^e{}]"),
)
_MAX_LEVEL = 6


def open_word(file: BinaryIO) -> Opened:
    """Open a Word file whose container was checked."""
    main = OpcPackage.open(file).part_related_by(RELATIONSHIP_TYPE.OFFICE_DOCUMENT)
    return Opened(pieces=_pieces(main))


def _pieces(main: Part) -> Iterator[Piece]:
    for text in _blocks(_root(main), _style_marks(main)):
        yield Piece(text=text)
    for relation, tag, mark in _NOTES:
        notes = _related(main, relation)
        for note in () if notes is None else notes.iterchildren(tag):
            text = " ".join(" ".join(_blocks(note, {})).split())
            if text:  # the separators above the notes are notes, too
                yield Piece(text=f"{mark.format(note.get(qn('w:id')))}: {text}")


def _root(part: Part) -> Any:
    """Return a part's XML; parts of kinds that the library has no class for are parsed here, as it would."""
    known = getattr(part, "element", None)
    return parse_xml(part.blob) if known is None else known


def _related(main: Part, relation: str) -> Any:
    for found in main.rels.values():
        if found.reltype == relation and not found.is_external:
            return _root(found.target_part)
    return None


def _style_marks(main: Part) -> dict[str, str]:
    """Return what goes before a paragraph of each style that is a heading's or a list's, by the style's id."""
    styles = _related(main, RELATIONSHIP_TYPE.STYLES)
    marks: dict[str, str] = {}
    for style in () if styles is None else styles.iterchildren(qn("w:style")):
        name = style.find(qn("w:name"))
        kind, _, level = ("" if name is None else name.get(qn("w:val"), "")).lower().partition(" ")
        if (kind, level) == ("title", ""):
            marks[style.get(qn("w:styleId"))] = "# "
        elif kind == "heading" and level.isdecimal():
            marks[style.get(qn("w:styleId"))] = "#" * max(1, min(_MAX_LEVEL, int(level))) + " "
        elif kind == "list" and level.startswith(("bullet", "number")):
            marks[style.get(qn("w:styleId"))] = "- "
    return marks


def _blocks(parent: Any, marks: dict[str, str]) -> Iterator[str]:
    """Yield paragraphs and tables in order, also out of what only wraps them."""
    for child in parent.iterchildren():
        if child.tag == _PARAGRAPH:
            text = plain("".join(_inline(child))).strip("\n")
            if text.strip():
                yield f"{_mark(child, marks)}{text}"
        elif child.tag == _TABLE:
            yield from (table_row(cells) for cells in _rows(child))
        elif child.tag not in _LEFT_OUT:
            yield from _blocks(child, marks)


def _mark(paragraph: Any, marks: dict[str, str]) -> str:
    style = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
    mark = "" if style is None else marks.get(style.get(qn("w:val")), "")
    is_list = paragraph.find(f"{qn('w:pPr')}/{qn('w:numPr')}") is not None
    return mark or ("- " if is_list else "")


def _inline(element: Any) -> Iterator[str]:
    for child in element.iterchildren():
        tag = child.tag
        if tag in _LEFT_OUT:
            continue
        if tag in _CONTENT:
            yield _CONTENT[tag] or child.text or ""
        elif tag in _NOTE_MARKS:
            yield _NOTE_MARKS[tag].format(child.get(qn("w:id")))
        else:
            if tag == _PARAGRAPH:  # in a text box
                yield "\n"
            yield from _inline(child)


def _rows(table: Any) -> Iterator[list[str]]:
    for row in table.iter(_ROW):
        if next(row.iterancestors(_TABLE)) is table:  # a table in a cell is part of that cell's text
            cells = (cell for cell in row.iter(_CELL) if next(cell.iterancestors(_ROW)) is row)
            yield [plain(" ".join(_blocks(cell, {}))) for cell in cells]
