"""What changed between two versions of a file, for people and models: counts of lines, and a diff of bounded size.

Only the part between the first and the last differing line is compared, and if that is large it is shown as
replaced in whole: a diff that is not the smallest, in bounded time.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from bot.edits.sloppy_diff import NO_NEWLINE
from bot.toolkit.chat_files import one_line
from bot.toolkit.measure import shorten

_CONTEXT = 3
_CHUNK_CHARS = 4_096
_COMPARED_LINES = 400
_LINE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The lines `old`, the first of which is number `start` (from 0), became `new`, now from `new_start` on."""

    start: int
    old: tuple[str, ...]
    new_start: int
    new: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two versions of a file, None: no such file; the names are for the diff's head. `regions` are in order.

    Only the regions are held, not the file: a call may have dozens of large ones.
    """

    old_name: str | None
    new_name: str | None
    regions: tuple[Region, ...]

    @classmethod
    def of_lines(cls, old_name: str | None, new_name: str | None, old: Sequence[str], new: Sequence[str]) -> Comparison:
        """Return the comparison of these lines, all of both versions."""
        whole = Region(start=0, old=tuple(old), new_start=0, new=tuple(new))
        return cls(old_name=old_name, new_name=new_name, regions=(whole,))

    @classmethod
    def of_texts(cls, name: str, old: str, new: str) -> Comparison:
        """Return the comparison of two texts of one file: the lines from the first to the last difference."""
        room = min(len(old), len(new))
        head = _same_chars(room, lambda start, stop: (old[start:stop], new[start:stop]))
        tail = _same_chars(
            room - head,
            lambda start, stop: (
                old[len(old) - stop : len(old) - start][::-1],
                new[len(new) - stop : len(new) - start][::-1],
            ),
        )
        start = head
        for _ in range(_CONTEXT + 1):
            start = max(0, old.rfind("\n", 0, start))
        start += bool(start)
        left = tail  # characters of both texts behind the region
        for _ in range(_CONTEXT + 1):
            found = old.find("\n", len(old) - left)
            left = 0 if found < 0 else len(old) - found - 1
        number = old.count("\n", 0, start)
        region = Region(
            start=number,
            old=tuple(_split(old[start : len(old) - left])),
            new_start=number,
            new=tuple(_split(new[start : len(new) - left])),
        )
        return cls(old_name=name, new_name=name, regions=(region,))

    @property
    def added(self) -> int:
        """How many lines are new."""
        return sum(line[0] == "+" for line in self._body)

    @property
    def removed(self) -> int:
        """How many lines are gone."""
        return sum(line[0] == "-" for line in self._body)

    def diff(self, limit_chars: int) -> str:
        """Return the unified diff; see `hunks`."""
        names = f"--- {_name('a/', self.old_name)}\n+++ {_name('b/', self.new_name)}"
        return "\n".join(filter(None, (names, self.hunks(limit_chars))))

    def hunks(self, limit_chars: int) -> str:
        """Return the diff without the names, cut with a note at the limit; CRs at line ends are not shown."""
        lines: list[str] = []
        left = limit_chars
        for line in self._body:
            shown = shorten(line.removesuffix("\n").removesuffix("\r"), _LINE_CHARS)
            left -= len(shown) + 1
            if left < 0:
                lines.append("(the rest of this diff is not shown)")
                break
            lines.append(shown)
            if line[0] in " +-" and not line.endswith("\n"):
                lines.append(NO_NEWLINE)
        return "\n".join(lines)

    @cached_property
    def _body(self) -> list[str]:
        regions = (_diff(one.old, one.new, one.start, one.new_start) for one in self.regions)
        return list(itertools.chain.from_iterable(regions))


def _diff(old: Sequence[str], new: Sequence[str], old_start: int, new_start: int) -> list[str]:
    """Return the lines of a diff; the versions begin at these lines (from 0) of their files."""
    lead = _common(old, new)
    tail = _common(old[lead:][::-1], new[lead:][::-1])
    if lead == len(old) == len(new):
        return []
    start = max(0, lead - _CONTEXT)
    old_stop, new_stop = len(old) - tail, len(new) - tail
    old_part = old[start : min(len(old), old_stop + _CONTEXT)]
    new_part = new[start : min(len(new), new_stop + _CONTEXT)]
    if max(len(old_part), len(new_part)) > _COMPARED_LINES:
        return [
            f"@@ -{old_start + start + 1},{len(old_part)} +{new_start + start + 1},{len(new_part)} @@",
            *(f" {line}" for line in old[start:lead]),
            *(f"-{line}" for line in old[lead:old_stop]),
            *(f"+{line}" for line in new[lead:new_stop]),
            *(f" {line}" for line in old[old_stop : start + len(old_part)]),
        ]
    lines = list(difflib.unified_diff(old_part, new_part, n=_CONTEXT, lineterm=""))[2:]
    return [_moved(line, old_start + start, new_start + start) if line.startswith("@@") else line for line in lines]


def _name(prefix: str, name: str | None) -> str:
    return "/dev/null" if name is None else f"{prefix}{one_line(name)}"


def _same_chars(room: int, chunk: Callable[[int, int], tuple[str, str]]) -> int:
    """Return how many of `room` characters are equal, chunk by chunk of what is compared."""
    for start in range(0, room, _CHUNK_CHARS):
        one, other = chunk(start, min(room, start + _CHUNK_CHARS))
        if one != other:
            return start + next(index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return room


def _split(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines are equal from the beginning on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _moved(header: str, old_lines: int, new_lines: int) -> str:
    """Return a hunk's header with its starts so many lines further on."""
    header = re.sub(r"(?<=-)\d+", lambda start: str(int(start[0]) + old_lines), header, count=1)
    return re.sub(r"(?<=\+)\d+", lambda start: str(int(start[0]) + new_lines), header, count=1)
