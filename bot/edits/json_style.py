"""How a JSON file is laid out, found in its text, so that a new value looks like the ones around it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from bot.edits.json_spans import members, root

# Begins with what it looks for: with what stands before that, it took seconds over the pictures in a notebook.
_ESCAPED_LETTER = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """`unit`: one step of indentation, None when all is on one line; `between` and `colon` separate values."""

    unit: str | None
    between: str
    colon: str
    line_end: str
    is_ascii: bool

    @classmethod
    def of(cls, text: str) -> JsonStyle:
        """Return the layout of a JSON text whose root is an object with members."""
        start = root(text)
        spans = list(members(text, start).values())
        lead = text[start + 1 : spans[0].key_start]
        key_end = json.JSONDecoder().raw_decode(text, spans[0].key_start)[1]
        gap = text[spans[0].end : spans[1].key_start] if len(spans) > 1 else ", "
        return cls(
            unit=lead.rpartition("\n")[2] if "\n" in lead else None,
            between="," if "\n" in lead else gap,
            colon=text[key_end : spans[0].start],
            line_end="\r\n" if "\r\n" in lead else "\n",
            is_ascii=text.isascii() and _has_escaped_letter(text),
        )

    def rendered(self, value: Any, depth: int) -> str:
        """Return the value as it stands at this depth of nesting, without the indentation before it."""
        text = json.dumps(value, indent=self.unit, separators=(self.between, self.colon), ensure_ascii=self.is_ascii)
        return text if self.unit is None else text.replace("\n", self.line_end + self.unit * depth)

    def broken(self, depth: int) -> str:
        """Return what stands before a value that begins a line at this depth; nothing if all is on one line."""
        return "" if self.unit is None else self.line_end + self.unit * depth


def _has_escaped_letter(text: str) -> bool:
    return any(_is_escape(text, found.start()) for found in _ESCAPED_LETTER.finditer(text))


def _is_escape(text: str, at: int) -> bool:
    """Whether the backslash there is not itself escaped."""
    before = at
    while before and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 0
