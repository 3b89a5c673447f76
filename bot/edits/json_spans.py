"""Where the values of a JSON text stand in it, so that one can be replaced and every other byte stays.

The text must be valid JSON: values are read by the standard library, only the signs between them are stepped
over here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The characters of a value, from `start` to before `end`; for a member of an object `key_start` too."""

    start: int
    end: int
    key_start: int = -1


def members(text: str, start: int) -> dict[str, Span]:
    """Return the members of the object that begins at `start`; of equal keys the last one, as when it is read."""
    found: dict[str, Span] = {}
    at = _after_space(text, start + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        value_start = _after_space(text, _after_space(text, key_end) + 1)  # the colon
        _, end = _DECODER.raw_decode(text, value_start)
        found[key] = Span(start=value_start, end=end, key_start=at)
        at = _after_comma(text, end)
    return found


def items(text: str, start: int) -> list[Span]:
    """Return the items of the array that begins at `start`."""
    found: list[Span] = []
    at = _after_space(text, start + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(Span(start=at, end=end))
        at = _after_comma(text, end)
    return found


def root(text: str) -> int:
    """Return where the outermost value begins."""
    return _after_space(text, 0)


def spliced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """Return the text with other text in place of these stretches (start, end, new text), which do not overlap."""
    pieces: list[str] = []
    done = 0
    for start, end, new in sorted(changes):
        pieces += (text[done:start], new)
        done = end
    return "".join((*pieces, text[done:]))


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _after_comma(text: str, at: int) -> int:
    at = _after_space(text, at)
    return _after_space(text, at + 1) if text[at] == "," else at
