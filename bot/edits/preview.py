"""What changed between two versions of a file, for people and models: counts of lines, and a diff of bounded size.

Only the part between the first and the last differing line is compared, and if that is large it is shown as
replaced in whole: a diff that is not the smallest, in bounded time.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bot.edits.sloppy_diff import NO_NEWLINE
from bot.toolkit.chat_files import one_line
from bot.toolkit.measure import shorten

_CONTEXT = 3
_COMPARED_LINES = 400
_LINE_CHARS = 300


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two versions of a file's lines; None: no such file. The names are for the diff's head."""

    old_name: str | None
    new_name: str | None
    old: Sequence[str]
    new: Sequence[str]

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
        lead = _common(self.old, self.new)
        tail = _common(self.old[lead:][::-1], self.new[lead:][::-1])
        if lead == len(self.old) == len(self.new):
            return []
        start = max(0, lead - _CONTEXT)
        old = self.old[start : min(len(self.old), len(self.old) - tail + _CONTEXT)]
        new = self.new[start : min(len(self.new), len(self.new) - tail + _CONTEXT)]
        if max(len(old), len(new)) > _COMPARED_LINES:
            return [
                f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@",
                *(f" {line}" for line in old[: lead - start]),
                *(f"-{line}" for line in old[lead - start : len(self.old) - tail - start]),
                *(f"+{line}" for line in new[lead - start : len(self.new) - tail - start]),
                *(f" {line}" for line in old[len(self.old) - tail - start :]),
            ]
        lines = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]
        return [_moved(line, start) if line.startswith("@@") else line for line in lines]


def _name(prefix: str, name: str | None) -> str:
    return "/dev/null" if name is None else f"{prefix}{one_line(name)}"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines are equal from the beginning on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _moved(header: str, lines: int) -> str:
    """Return a hunk's header with both starts so many lines further on."""
    return re.sub(r"(?<=[-+])\d+", lambda start: str(int(start[0]) + lines), header)
