"""Changes of one cell of a Jupyter notebook, format 4, in its text: every other cell stays byte for byte.

The format: https://nbformat.readthedocs.io/en/latest/format_description.html (read 2026-11-29). Cells have ids
from 4.5 on. A notebook is held against the format's schema by `nbformat` before and after.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bot.edits.json_spans import Span, items, members, root, spliced
from bot.edits.json_style import JsonStyle
from bot.errors import DutifulError
from bot.toolkit.measure import shorten

_FORMAT = 4
_FIRST_WITH_IDS = 5
_ID_BYTES = 4  # eight characters, as Jupyter's own
_CELL_DEPTH = 2  # the notebook, its list of cells
_REASON_CHARS = 300
_SHOWN_CHARS = 80
_LISTED = 10


class NotebookError(DutifulError):
    """It is no notebook of format 4, or the change is not possible; the text says why."""


class CellType(StrEnum):
    """What a cell holds."""

    CODE = "code"
    MARKDOWN = "markdown"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookChange:
    """A changed notebook: its new text, and what happened to which cell (`index` from 0), for telling."""

    text: str
    told: str


class Notebook:
    """The text of a notebook and where its cells stand in it."""

    def __init__(self, text: str) -> None:
        """Read a notebook.

        Raises:
            NotebookError: it is no JSON, or no valid notebook of format 4.
        """
        self._text = text
        self._data = _read(text)
        _check(self._data, "is not a valid notebook")
        self._cells: list[dict[str, Any]] = self._data["cells"]
        self._start = members(text, root(text))["cells"].start
        self._spans = items(text, self._start)
        self._style = JsonStyle.of(text)
        self._has_ids = self._data["nbformat_minor"] >= _FIRST_WITH_IDS

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self._cells)

    def replace(self, cell: int | str, source: str, cell_type: CellType | None) -> NotebookChange:
        """Give a cell another source, and another type if one is given; what its code had put out is cleared.

        Raises:
            NotebookError: there is no such cell.
        """
        index = self._index(cell)
        old, span = self._cells[index], self._spans[index]
        kind = cell_type or CellType(old["cell_type"])
        if _source(old) == source and kind == old["cell_type"]:
            return NotebookChange(
                text=self._text, told=f"{self._name(index)} has this source already; nothing was changed"
            )
        new = _converted(old, kind) | {"source": self._source_as(old, source)}
        had_output = bool(old.get("outputs")) or old.get("execution_count") is not None
        if kind is CellType.CODE:
            new |= {"execution_count": None, "outputs": []}
        if kind == old["cell_type"]:
            text = self._with_values(span, {key: new[key] for key in new if new[key] != old.get(key)})
        else:
            text = spliced(
                self._text, [(span.start, span.end, self._style.rendered(_sorted_as(old, new), _CELL_DEPTH))]
            )
        told = f"{self._name(index)} replaced"
        if kind != old["cell_type"]:
            told += f", now {kind}"
        return self._changed(text, told + (", outputs cleared" if had_output else ""))

    def insert(self, cell: int | str | None, source: str, cell_type: CellType | None) -> NotebookChange:
        """Put a new cell before the given one; at the end for None or the index after the last.

        Raises:
            NotebookError: there is no such cell.
        """
        index = self.count if cell is None else self._index(cell, last=self.count)
        new = self._new_cell(cell_type or CellType.CODE, source)
        rendered = self._style.rendered(new, _CELL_DEPTH)
        lead = self._style.broken(_CELL_DEPTH)
        if not self._spans:
            end = json.JSONDecoder().raw_decode(self._text, self._start)[1]
            change = (self._start, end, f"[{lead}{rendered}{self._style.broken(_CELL_DEPTH - 1)}]")
        elif index == self.count:
            end = self._spans[-1].end
            change = (end, end, f"{self._between()}{rendered}")
        else:
            start = self._spans[index].start
            change = (start, start, f"{rendered}{self._between()}")
        named = f", id {new['id']}" if "id" in new else ""
        return self._changed(spliced(self._text, [change]), f"cell {index} ({new['cell_type']}{named}) inserted")

    def delete(self, cell: int | str) -> NotebookChange:
        """Remove a cell.

        Raises:
            NotebookError: there is no such cell.
        """
        index = self._index(cell)
        spans = self._spans
        if len(spans) == 1:
            end = json.JSONDecoder().raw_decode(self._text, self._start)[1]
            change = (self._start, end, "[]")
        elif index + 1 < len(spans):
            change = (spans[index].start, spans[index + 1].start, "")
        else:
            change = (spans[index - 1].end, spans[index].end, "")
        return self._changed(spliced(self._text, [change]), f"{self._name(index)} deleted")

    def _index(self, cell: int | str, *, last: int | None = None) -> int:
        """Return the index of a cell, at most `last`."""
        last = self.count - 1 if last is None else last
        ids = [found.get("id") for found in self._cells]
        if cell in ids:
            return ids.index(cell)
        if isinstance(cell, str) and not cell.isdecimal():
            known = ", ".join(str(known) for known in ids[:_LISTED] if known) or "none"
            raise NotebookError(f"has no cell with the id {_shown(cell)} (ids: {known})")
        index = int(cell) if len(str(cell)) < _SHOWN_CHARS else -1
        if not 0 <= index <= last:
            has = f"cells 0 to {self.count - 1}" if self.count else "no cells"
            raise NotebookError(f"has no cell {_shown(cell)}; it has {has}")
        return index

    def _name(self, index: int) -> str:
        cell = self._cells[index]
        named = f", id {cell['id']}" if "id" in cell else ""
        return f"cell {index} ({cell['cell_type']}{named})"

    def _source_as(self, like: dict[str, Any], source: str) -> str | list[str]:
        """Return the source in the form that the other cell has: one text or its lines."""
        if isinstance(like.get("source"), str):
            return source
        lines = source.split("\n")
        return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

    def _new_cell(self, kind: CellType, source: str) -> dict[str, Any]:
        like = self._cells[0] if self._cells else {}
        cell: dict[str, Any] = {"cell_type": str(kind), "metadata": {}, "source": self._source_as(like, source)}
        if kind is CellType.CODE:
            cell |= {"execution_count": None, "outputs": []}
        if self._has_ids:
            taken = {known.get("id") for known in self._cells}
            cell["id"] = next(made for made in iter(lambda: secrets.token_hex(_ID_BYTES), "") if made not in taken)
        return dict(sorted(cell.items()))

    def _with_values(self, cell: Span, values: dict[str, Any]) -> str:
        spans = members(self._text, cell.start)
        return spliced(
            self._text,
            [
                (spans[key].start, spans[key].end, self._style.rendered(value, _CELL_DEPTH + 1))
                for key, value in values.items()
            ],
        )

    def _between(self) -> str:
        """Return what stands between two cells."""
        if len(self._spans) > 1:
            return self._text[self._spans[0].end : self._spans[1].start]
        return self._style.between + self._style.broken(_CELL_DEPTH)

    def _changed(self, text: str, told: str) -> NotebookChange:
        _check(_read(text), "would not be a valid notebook after this change")
        return NotebookChange(text=text, told=told)


def _shown(value: object) -> str:
    return shorten(str(value), _SHOWN_CHARS)


def _read(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"is not JSON: {shorten(str(error), _REASON_CHARS)}") from None
    if not isinstance(data, dict) or "nbformat" not in data:
        raise NotebookError("is JSON, but not a notebook: it has no nbformat")
    if data["nbformat"] != _FORMAT:
        raise NotebookError(
            f"is a notebook of format {_shown(data['nbformat'])}; only format {_FORMAT} can be "
            "changed (`jupyter nbconvert --to notebook --nbformat 4` converts it)"
        )
    # By type, not isinstance: to nbformat true is a number, and 4.0 none.
    if not isinstance(data.get("cells"), list) or {type(data["nbformat"]), type(data.get("nbformat_minor"))} != {int}:
        raise NotebookError("is not a valid notebook: it has no list of cells, or no nbformat_minor")
    # What nbformat takes for granted before it looks at the schema, and when it words what it found.
    if not all(isinstance(cell, dict) for cell in data["cells"]):
        raise NotebookError("is not a valid notebook: a cell is no object")
    if not all(isinstance(cell.get(key, ""), str) for cell in data["cells"] for key in ("id", "cell_type")):
        raise NotebookError("is not a valid notebook: a cell's id or type is no text")
    return data


def _check(data: dict[str, Any], what: str) -> None:
    """Hold a notebook against the schema of its format; fills in missing ids of cells, as Jupyter does."""
    from nbformat import ValidationError, validate  # late: 0.2 s that only notebooks need

    if data["nbformat_minor"] >= _FIRST_WITH_IDS:
        ids = [cell["id"] for cell in data["cells"] if "id" in cell]
        if len(ids) != len(set(ids)):
            raise NotebookError(f"{what}: two cells have the same id")
    try:
        validate(_with_all_ids(data))
    except (ValidationError, RecursionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise NotebookError(f"{what}: {shorten(reason, _REASON_CHARS)}") from None


def _with_all_ids(data: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with an id for each cell: Jupyter gives them where they lack, nbformat would warn."""
    if data["nbformat_minor"] < _FIRST_WITH_IDS:
        return data
    return {**data, "cells": [{"id": f"without-{index}", **cell} for index, cell in enumerate(data["cells"])]}


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _converted(cell: dict[str, Any], kind: CellType) -> dict[str, Any]:
    """Return the cell with this type, without what the type cannot have."""
    if kind == cell["cell_type"]:
        return dict(cell)
    dropped = {"attachments"} if kind is CellType.CODE else {"outputs", "execution_count"}
    return {key: value for key, value in cell.items() if key not in dropped} | {"cell_type": str(kind)}


def _sorted_as(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the new cell with its keys sorted if those of the old one were, as nbformat writes them."""
    return dict(sorted(new.items())) if list(old) == sorted(old) else new
