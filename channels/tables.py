"""Tables as text in columns, for a fixed-width font. Wide letters take two columns, long cells are wrapped."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 76
"""Columns: what a message in a window of usual width shows without wrapping code."""

Justify = Literal["left", "center", "right"]
_SIDES: dict[str, Justify] = {"Center": "center", "Right": "right"}


def columns(rows: Sequence[Sequence[str]], alignments: Sequence[str] = ()) -> str:
    """Return a table whose first row is its head; alignments are the parser's (None, Left, Center, Right)."""
    if not rows or not rows[0]:
        return ""
    table = Table(box=box.MINIMAL, show_edge=False, pad_edge=False)
    for index, head in enumerate(rows[0]):
        side = alignments[index] if index < len(alignments) else ""
        table.add_column(Text(head), justify=_SIDES.get(side, "left"), overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(cell) for cell in row[: len(rows[0])]))
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
