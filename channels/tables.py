"""Tables as text in columns, for a fixed-width font. Wide letters take two columns, long cells are wrapped."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len

WIDTH = 76
"""Columns: what a message in a window of usual width shows without wrapping code."""

_BETWEEN = " │ "

Justify = Literal["left", "center", "right"]
_SIDES: dict[str, Justify] = {"Center": "center", "Right": "right"}


def columns(rows: Sequence[Sequence[str]], alignments: Sequence[str] = ()) -> str:
    """Return a table whose first row is its head; alignments are the parser's (None, Left, Center, Right)."""
    if not rows or not rows[0]:
        return ""
    return _fitting(rows, alignments) or _wrapped(rows, alignments)


def _fitting(rows: Sequence[Sequence[str]], alignments: Sequence[str]) -> str:
    """Return a table that needs no wrapping, '' when it does: a twentieth of the time, for what most tables are."""
    count = len(rows[0])
    filled = [[*row, *[""] * count][:count] for row in rows]
    widths = [max(1, *(cell_len(row[column]) for row in filled)) for column in range(count)]
    plain = not any(char in cell for row in filled for cell in row for char in "\n\r\t")
    if not plain or sum(widths) + len(_BETWEEN) * (count - 1) > WIDTH:
        return ""
    sides = [*(_SIDES.get(side, "left") for side in alignments), *["left"] * count]
    lines = [_BETWEEN.join(_padded(*cell) for cell in zip(row, widths, sides, strict=False)).rstrip() for row in filled]
    lines.insert(1, "─┼─".join("─" * width for width in widths))
    return "\n".join(lines)


def _padded(cell: str, width: int, side: str) -> str:
    space = width - cell_len(cell)
    before = {"right": space, "center": space // 2}.get(side, 0)
    return f"{' ' * before}{cell}{' ' * (space - before)}"


def _wrapped(rows: Sequence[Sequence[str]], alignments: Sequence[str]) -> str:
    from rich import box  # 25 ms and 3 MB with what is below, for the few tables that need wrapping
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.MINIMAL, show_edge=False, pad_edge=False)
    for index, head in enumerate(rows[0]):
        side = alignments[index] if index < len(alignments) else ""
        table.add_column(Text(head), justify=_SIDES.get(side, "left"), overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(cell) for cell in row[: len(rows[0])]))
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
