"""What a button carries on a platform: a short name for "button n of message m", never what pressing it says.

What it says stays in our outbox, so that nothing a client sends can put words into anybody's mouth, and a label
may be longer than a platform's limit for such data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bot.messages import Button

_TOKEN = re.compile(r"b(\d{1,18})\.(\d{1,4})")


def button_token(outbox_id: int, index: int) -> str:
    """Return the data of button `index` (from 0, row by row) of an outbox row: at most 24 ASCII characters."""
    return f"b{outbox_id}.{index}"


def read_token(data: str) -> tuple[int, int] | None:
    """Return (outbox id, index), None for anything that is not one of our tokens."""
    match = _TOKEN.fullmatch(data)
    return None if match is None else (int(match[1]), int(match[2]))


def numbered(rows: Sequence[Sequence[Button]]) -> Iterator[list[tuple[int, Button]]]:
    """Yield the rows that have buttons, each button with its index over all rows."""
    index = 0
    for row in rows:
        if row:
            yield list(enumerate(row, start=index))
        index += len(row)
