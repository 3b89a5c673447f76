"""Cells of Excel files, sheet by sheet and row by row. Runs in the worker process only.

Each row with content is one line: the address of its first filled cell, then the values separated by tabs. Formulas
show the value that was stored with them; one that no program has calculated yet shows itself.
"""

from __future__ import annotations

import datetime as dt
import warnings
import zipfile
from collections.abc import Iterator
from itertools import repeat
from typing import Any, BinaryIO

from openpyxl import load_workbook
from openpyxl.utils import get_column_letter

from bot.documents.pieces import Opened, Piece, plain

_CHUNK_BYTES = 1 << 20
_MIDNIGHT = dt.time()


def open_sheets(file: BinaryIO) -> Opened:
    """Open an Excel file whose container was checked."""
    warnings.simplefilter("ignore")  # about styles and extensions that are lost on saving, which nobody does here
    values = load_workbook(file, read_only=True, data_only=True, keep_links=False)
    formulas = load_workbook(file, read_only=True, keep_links=False) if _has_formulas(file) else None
    sheets = [(sheet, formulas[sheet.title] if formulas else None) for sheet in values.worksheets]
    titles = tuple(plain(sheet.title) for sheet, _ in sheets)
    return Opened(pieces=_pieces(sheets), total_parts=len(sheets), part_titles=titles)


def _has_formulas(file: BinaryIO) -> bool:
    """Whether it is worth reading every sheet twice at a time."""
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.filename.startswith("xl/worksheets/") and _contains(archive, entry, b"<f"):
                return True
    return False


def _contains(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, wanted: bytes) -> bool:
    with archive.open(entry) as opened:
        last = b""
        while chunk := opened.read(_CHUNK_BYTES):
            if wanted in last + chunk:
                return True
            last = chunk[-len(wanted) :]
    return False


def _pieces(sheets: list[tuple[Any, Any]]) -> Iterator[Piece]:
    for number, (sheet, formulas) in enumerate(sheets, 1):
        hidden = "" if sheet.sheet_state == "visible" else f", {sheet.sheet_state}"
        yield Piece(part=number, text=f"[sheet {number}: {one_line(sheet.title)}{hidden}]", is_mark=True)
        for row_number, (row, written) in enumerate(zip(_rows(sheet), _rows(formulas), strict=False), 1):
            cells = [_cell(value, formula) for value, formula in zip(row, written or repeat(None), strict=False)]
            while cells and not cells[-1]:
                cells.pop()
            start = next((index for index, cell in enumerate(cells) if cell), None)
            if start is not None:
                address = f"{get_column_letter(start + 1)}{row_number}"
                yield Piece(part=number, text=f"{address}\t" + "\t".join(cells[start:]))


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """Yield a sheet's rows as far as there are any, whatever extent it claims to have."""
    if sheet is None:
        return repeat(())
    sheet.reset_dimensions()
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(values_only=True)
    return rows


def _cell(value: Any, formula: Any) -> str:
    if value is None:
        text = getattr(formula, "text", formula)  # of a formula over an area
        return f"{one_line(text)} (not calculated)" if isinstance(text, str) and text.startswith("=") else ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == _MIDNIGHT else value.isoformat(sep=" ")
    return one_line(str(value))


def one_line(text: str) -> str:
    """Return a cell's text without line ends and tabs, which separate the cells."""
    return " ".join(plain(text).replace("\t", " ").split("\n"))
