"""How `read_file` answers for PDF and office files: their text with line numbers, and which part of them it is.

The text comes from `bot/documents/`; which files a chat may open, and what was read before, is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from bot.documents.contract import DocumentError, DocumentKind, DocumentText
from bot.documents.reading import Documents
from bot.toolkit.base import ToolResult
from bot.toolkit.chat_files import one_line
from bot.toolkit.file_types import DOC, DOCX, ENCRYPTED_OFFICE, PDF, PPT, PPTX, XLS, XLSX

DOCUMENTS = {
    PDF: DocumentKind.PDF,
    DOCX: DocumentKind.DOCX,
    XLSX: DocumentKind.XLSX,
    PPTX: DocumentKind.PPTX,
}
"""Media types that can be read; which office format a file really is, only the reader knows."""

UNREADABLE = {
    ENCRYPTED_OFFICE: "is an office file with a password ({mime}, {size}); ask for a copy without one",
    DOC: "is an old Word file ({mime}, {size}) and cannot be read; ask for it as docx or PDF",
    XLS: "is an old Excel file ({mime}, {size}) and cannot be read; ask for it as xlsx or CSV",
    PPT: "is an old PowerPoint file ({mime}, {size}) and cannot be read; ask for it as pptx or PDF",
}
"""Documents that cannot be read, and what helps."""

_TITLES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDocument:
    """A document found under a path. `file` is closed by whoever got it."""

    file: BinaryIO
    kind: DocumentKind
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is wanted of a document: lines of its text, counted within the selected pages or slides."""

    offset: int
    limit: int
    pages: str
    max_chars: int


async def document_answer(documents: Documents, found: OpenDocument, part: Part) -> ToolResult:
    """Return the wanted part of a document as the tool's answer."""
    try:
        text = await documents.read(
            found.file,
            found.kind,
            pages=part.pages,
            first_line=part.offset,
            max_lines=part.limit,
            max_chars=part.max_chars,
        )
    except DocumentError as error:
        return ToolResult.error(f"{found.shown}: {error}.")
    if not text.lines:
        return ToolResult.error(
            f"{found.shown}: has {_count(text.total_lines, 'line')} of text; offset {part.offset} is past its end."
        )
    body = "\n".join(f"{number}| {line}" for number, line in enumerate(text.lines, text.first_line))
    return ToolResult(f"{body}\n\n{_footer(text, is_selection=bool(part.pages.strip()))}")


def _footer(text: DocumentText, *, is_selection: bool) -> str:
    """Say which part this is and how to go on."""
    at_end = text.is_counted and text.last_line == text.total_lines
    parts = [_lines(text), _end(is_selection) if at_end else _go_on(text, is_selection)]
    if text.total_parts:
        parts.insert(0, _parts(text))
    if text.hidden_chars:
        parts.append(f"line {text.last_line} goes on for {text.hidden_chars:,} more characters, which are not shown")
    return f"({'; '.join(parts)})"


def _parts(text: DocumentText) -> str:
    name = text.kind.part_name
    if text.first_part == 1 and text.last_part == text.total_parts:
        told = _count(text.total_parts, name)
    elif text.first_part == text.last_part:
        told = f"{name} {text.first_part:,} of {text.total_parts:,}"
    else:
        told = f"{name}s {text.first_part:,}-{text.last_part:,} of {text.total_parts:,}"
    titles = [one_line(title) for title in text.part_titles[:_TITLES]]
    if len(text.part_titles) > _TITLES:
        titles.append("...")
    return f"{told} ({', '.join(titles)})" if titles else told


def _lines(text: DocumentText) -> str:
    if text.first_line == 1 and text.is_counted and text.last_line == text.total_lines:
        return _count(text.total_lines, "line")
    more = "" if text.is_counted else "more than "
    return f"lines {text.first_line:,}-{text.last_line:,} of {more}{text.total_lines:,}"


def _end(is_selection: bool) -> str:
    return "end of the selected pages" if is_selection else "end of file"


def _go_on(text: DocumentText, is_selection: bool) -> str:
    return f"go on with offset={text.last_line + 1}" + (" and the same pages" if is_selection else "")


def _count(number: int, name: str) -> str:
    return f"1 {name}" if number == 1 else f"{number:,} {name}s"
