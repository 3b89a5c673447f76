"""Where a text that a model remembers stands in a file: as it is, or but for white space at line ends, or quotes.

Line ends do not count unless the remembered text has a CR itself: a model is shown lines without them. Every
search is linear in the file. What takes the place of a hit is made in `fitting.py`; why nothing was found is
told by `near_miss.py`.
"""

from __future__ import annotations

import bisect
import itertools
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from bot.errors import DutifulError

MAX_HITS = 100_000
"""More places are not told apart, and not replaced in one call: each costs time and memory."""

_LISTED = 10
_PIECE_CHARS = 1 << 17
"""About as much text goes through one call of the string methods: a call holds the interpreter until it ends."""

# What keyboards, office programs and languages put for the quotes that code has. One for one, so that places
# in the folded text are places in the text.
_QUOTES = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u2039\u203a\uff07",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02",
}


class Way(StrEnum):
    """How the remembered text had to be compared to be found."""

    EXACT = "exact"
    SPACE = "space"  # line by line, without white space at their beginnings and ends
    QUOTES = "quotes"  # with typographic quotes taken for straight ones
    SPACE_AND_QUOTES = "space and quotes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The characters from `start` to before `end`; `line` is the number, from 1, of the line it begins in."""

    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """All hits, in order and without overlap, of the first way that has any; of too many one more than MAX_HITS.

    `is_literal`: also the line ends were compared.
    """

    way: Way
    hits: tuple[Hit, ...]
    is_literal: bool = False


class SelectionError(DutifulError):
    """Which of the hits is meant is not clear, or not what was expected. The text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which hits are meant.

    `occurrence` counts from 1. `line_hint`: the hit that begins nearest to that line. `expected`: how many
    replacements there must be; more than 1 mean all hits.
    """

    replace_all: bool = False
    occurrence: int | None = None
    line_hint: int | None = None
    expected: int | None = None


def find(text: str, old: str) -> Matches | None:
    """Return where `old`, which is not empty, stands in the text; None when it does not."""
    if "\r" in old and (spots := _bounded(_all(text, old))):
        return Matches(way=Way.EXACT, hits=_hits(text, spots), is_literal=True)
    plain = _Plain(text)
    old = old.replace("\r\n", "\n")
    for way, spots in _spots(plain.text, old):
        if spots:
            places = [(plain.origin(start), plain.origin(end)) for start, end in spots]
            return Matches(way=way, hits=_hits(text, places))
    return None


def choose(hits: Sequence[Hit], selector: Selector) -> tuple[Hit, ...]:
    """Return the hits that are meant, in order.

    Raises:
        SelectionError: several come into question, or not as many as expected.
    """
    if len(hits) > MAX_HITS:
        raise SelectionError(f"old_text is found more than {MAX_HITS:,} times. Give more of the text around the place")
    chosen = _chosen(hits, selector)
    if selector.expected is not None and len(chosen) != selector.expected:
        raise SelectionError(
            f"{selector.expected:,} replacements were expected, but old_text is found {_times(hits)}; "
            "nothing was changed"
        )
    return chosen


def folded(text: str) -> str:
    """Return the text with straight quotes only, as long as before."""
    if text.isascii():
        return text
    for straight, others in _QUOTES.items():
        for other in others:
            text = text.replace(other, straight)
    return text


def pieces_of(text: str) -> Iterator[str]:
    """Yield the text in pieces of whole lines with their ends; the last one has what follows the last line end."""
    at = 0
    while (end := text.find("\n", at + _PIECE_CHARS) + 1) > 0:
        yield text[at:end]
        at = end
    yield text[at:]


def with_lf(text: str) -> str:
    """Return the text with CRLF as LF."""
    return "".join(piece.replace("\r\n", "\n") for piece in pieces_of(text)) if "\r\n" in text else text


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends; only LF ends one."""
    pieces = text.split("\n")
    last = pieces.pop()
    return [f"{piece}\n" for piece in pieces] + ([last] if last else [])


def numbers_text(numbers: Sequence[int]) -> str:
    """Return line numbers for a message: "line 3", "lines 1, 5 and 9", not endless."""
    listed = [f"{number:,}" for number in numbers[:_LISTED]]
    if len(numbers) > _LISTED:
        return f"lines {', '.join(listed)} and {len(numbers) - _LISTED:,} more"
    return f"line {listed[0]}" if len(listed) == 1 else f"lines {', '.join(listed[:-1])} and {listed[-1]}"


class _Plain:
    """A text with CRLF as LF, and the way back."""

    def __init__(self, text: str) -> None:
        self._original = text
        self.text = with_lf(text)

    def origin(self, at: int) -> int:
        """Return the place in the original of a place in the plain text; a CRLF is whole on either side."""
        return at + bisect.bisect_left(self._dropped, at)

    @cached_property
    def _dropped(self) -> Sequence[int]:
        """Where in the plain text the line feeds stand that had a CR before them."""
        found = re.finditer("\r\n", self._original) if len(self.text) < len(self._original) else ()
        return array("q", (feed.start() - index for index, feed in enumerate(found)))


def _spots(text: str, old: str) -> Iterator[tuple[Way, tuple[tuple[int, int], ...]]]:
    yield Way.EXACT, _bounded(_all(text, old))
    yield Way.SPACE, _bounded(_line_spots(text, text, old))
    folded_text, folded_old = folded(text), folded(old)
    if folded_text != text or folded_old != old:
        yield Way.QUOTES, _bounded(_all(folded_text, folded_old))
        yield Way.SPACE_AND_QUOTES, _bounded(_line_spots(text, folded_text, folded_old))


def _bounded(spots: Iterator[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(itertools.islice(spots, MAX_HITS + 1))


def _all(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        yield at, end
        at = text.find(wanted, end)


def _line_spots(text: str, compared: str, old: str) -> Iterator[tuple[int, int]]:
    """Yield where whole lines are equal without the white space around them; `compared` is as long as `text`."""
    wanted = "\n".join(line.strip() for line in old.removesuffix("\n").split("\n"))
    if not wanted.strip():
        return  # blank lines alone are everywhere
    lines = _Lines(compared)
    needle = f"\n{wanted}\n"
    at = lines.stripped.find(needle)
    if at < 0:
        return
    starts, ends = lines.starts(), lines.starts()
    count = needle.count("\n") - 1
    line, counted = 0, 0
    while at >= 0:
        line += lines.stripped.count("\n", counted, at)
        counted = at
        end = ends(line + count) - 1
        yield starts(line), end + (old.endswith("\n") and end < len(text))
        at = lines.stripped.find(needle, at + len(needle) - 1)  # a line end may belong to two neighbours


class _Lines:
    """A text's lines without the white space around them, each between two line ends, and where each one begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._first: list[int] = []  # of each piece: the number, from 0, of its first line
        self._at: list[int] = []  # of each piece: where it begins
        stripped: list[str] = []
        number, at = 0, 0
        for piece in pieces_of(text):
            self._first.append(number)
            self._at.append(at)
            stripped.append("\n".join(map(str.strip, piece.split("\n"))))  # keeps the line end at its end
            number += piece.count("\n")
            at += len(piece)
        self.stripped = "".join(("\n", *stripped, "\n"))

    def starts(self) -> Callable[[int], int]:
        """Return a function from a line's number to where it begins; numbers must not become smaller."""
        number, at = 0, 0

        def start(line: int) -> int:
            nonlocal number, at
            piece = bisect.bisect_right(self._first, line) - 1
            if self._first[piece] > number:
                number, at = self._first[piece], self._at[piece]
            while number < line:
                found = self._text.find("\n", at)
                number, at = number + 1, (len(self._text) if found < 0 else found) + 1
            return at

        return start


def _hits(text: str, spots: Sequence[tuple[int, int]]) -> tuple[Hit, ...]:
    hits: list[Hit] = []
    line, counted = 1, 0
    for start, end in spots:
        line += text.count("\n", counted, start)
        counted = start
        hits.append(Hit(start=start, end=end, line=line))
    return tuple(hits)


def _chosen(hits: Sequence[Hit], selector: Selector) -> tuple[Hit, ...]:
    if selector.replace_all or (selector.expected or 0) > 1:
        return tuple(hits)
    if selector.occurrence is not None:
        if selector.occurrence > len(hits):
            raise SelectionError(
                f"occurrence {selector.occurrence:,} was asked for, but old_text is found {_times(hits)}"
            )
        return (hits[selector.occurrence - 1],)
    if len(hits) == 1:
        return (hits[0],)
    if selector.line_hint is None:
        raise SelectionError(
            f"old_text is found {_times(hits)}. Give more of the lines around it, or say which one by occurrence or "
            "line_hint, or set replace_all"
        )
    hint = selector.line_hint
    first, second = sorted(hits, key=lambda hit: abs(hit.line - hint))[:2]
    if abs(first.line - hint) == abs(second.line - hint):
        raise SelectionError(
            f"line_hint {hint:,} is equally near to two of the places: old_text is found {_times(hits)}. "
            "Say which one by occurrence"
        )
    return (first,)


def _times(hits: Sequence[Hit]) -> str:
    count = "once" if len(hits) == 1 else f"{len(hits):,} times"
    return f"{count}, at {numbers_text([hit.line for hit in hits])}"
