"""What takes the place of a hit: the new text with the line ends, the indentation and the quotes of its place.

Lines that the new text has in common with the old one stay what they are in the file. Pure functions.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.edits.file_text import Replacement
from bot.edits.matching import Hit, Matches, Way, folded, lines_of

# Comparing is quadratic and worse: beyond, a block of lines is replaced as one, a line taken as given.
_COMPARED_LINES = 100_000  # old times new
_COMPARED_CHARS = 250_000

_CHUNK_CHARS = 4_096
_SPACED = frozenset({Way.SPACE, Way.SPACE_AND_QUOTES})
_QUOTED = frozenset({Way.QUOTES, Way.SPACE_AND_QUOTES})


def replacements(text: str, matches: Matches, hits: Sequence[Hit], old: str, new: str) -> list[Replacement]:
    """Return what to replace in the text so that each of these hits of `old` becomes `new`, in order.

    Replacements are as small as can be: what stays is not among them.
    """
    is_same = matches.way is Way.EXACT and ("\r" not in text or "\n" not in old + new)
    if matches.is_literal or is_same:
        small = _trimmed(0, old, new)
        return [_moved(small, hit.start) for hit in hits] if small else []
    fitter = _Fitter(text, matches.way, old, new)
    return [replacement for hit in hits for replacement in fitter.fit(hit)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The old lines from `first` to before `last` become these new ones; either may be none."""

    first: int
    last: int
    new: tuple[str, ...]


class _Fitter:
    """Fits one new text to the hits of one old text; equal places are worked out once."""

    def __init__(self, text: str, way: Way, old: str, new: str) -> None:
        self._text = text
        self._way = way
        self._old = lines_of(old.replace("\r\n", "\n"))
        self._blocks = _blocks(self._old, lines_of(new))
        self._feed = text.find("\n")  # the first one behind the last hit, or the file's last one
        self._is_last_feed = False
        self._lone_end = "\r" if self._feed < 0 and "\r" in text else "\n"
        self._known: dict[tuple[str, str], list[Replacement]] = {}

    def fit(self, hit: Hit) -> Iterator[Replacement]:
        """Yield the replacements for a hit."""
        place, end = self._text[hit.start : hit.end], self._line_end(hit)
        fitted = self._known.get((place, end))
        if fitted is None:
            fitted = self._known[place, end] = list(self._fitted(place, end))
        yield from (_moved(part, hit.start) for part in fitted)

    def _line_end(self, hit: Hit) -> str:
        """Return how the line ends in which the hit ends, or the one before if it is the last."""
        if self._feed < 0:
            return self._lone_end
        if self._feed < hit.end and not self._is_last_feed:  # hits come in order
            found = self._text.find("\n", hit.end)
            self._is_last_feed = found < 0
            self._feed = self._text.rfind("\n") if found < 0 else found
        return "\r\n" if self._feed and self._text[self._feed - 1] == "\r" else "\n"

    def _fitted(self, place: str, outer_end: str) -> Iterator[Replacement]:
        """Yield the replacements for a place, counted from its start. `outer_end` is the line end around it."""
        lines = lines_of(place)
        lines += [""] * (len(self._old) - len(lines))  # blank ones at the end of the file
        starts = [0, *itertools.accumulate(map(len, lines))]
        indents = _Indents(self._old, lines) if self._way in _SPACED else None
        for block in self._blocks:
            after = "".join(self._made(block, lines, indents, outer_end))
            if block.last == len(lines) and self._old[-1].endswith("\n") and not lines[-1].endswith("\n"):
                # The file's last line has no end, and shall have none.
                after = _body(after)
                if block.first == block.last and after:
                    after = f"{_nearest_end(lines, block, outer_end)}{after}"
            small = _trimmed(starts[block.first], place[starts[block.first] : starts[block.last]], after)
            if small is not None:
                yield small

    def _made(self, block: _Block, lines: Sequence[str], indents: _Indents | None, outer_end: str) -> Iterator[str]:
        """Yield the block's new lines as they shall stand in the file."""
        usual_end = _nearest_end(lines, block, outer_end)
        for index, line in enumerate(block.new, block.first):
            has_own = index < block.last
            body = _body(line)
            if has_own and self._way in _QUOTED:
                body = _with_quotes(_body(self._old[index]), _body(lines[index]), body)
            if indents is not None:
                body = indents.adapted(body)
            end = line[len(_body(line)) :]
            if end == "\n":  # a CRLF was meant as such
                end = (_end(lines[index]) if has_own else "") or usual_end
            yield f"{body}{end}"


class _Indents:
    """How the indentation of a remembered text translates into that of the file."""

    def __init__(self, old: Sequence[str], lines: Sequence[str]) -> None:
        self._known: dict[str, str] = {}
        for before, after in zip(old, lines, strict=False):
            if before.strip():
                self._known.setdefault(_indent(before), _indent(after))
        self._spaces_per_tab = _spaces_per_tab(list(self._known.items()))
        self._to_tabs = any("\t" in theirs for theirs in self._known.values())

    def adapted(self, line: str) -> str:
        """Return a new line with the file's indentation; what is blank stays as it is."""
        if not line.strip():
            return line
        indent = _indent(line)
        known = max((ours for ours in self._known if indent.startswith(ours)), key=len, default=None)
        if known is not None:
            start = self._known[known] + self._converted(indent[len(known) :])
        else:  # less indented than any known line: as much less in the file
            ours, theirs = min(self._known.items(), key=lambda pair: len(pair[0]))
            less = self._converted(ours[len(indent) :]) if ours.startswith(indent) else ""
            start = theirs.removesuffix(less) if less else indent
        return f"{start}{line[len(indent) :]}"

    def _converted(self, spaces: str) -> str:
        """Return deeper indentation in the file's kind of white space."""
        unit = self._spaces_per_tab
        if not unit:
            return spaces
        if self._to_tabs and set(spaces) <= {" "}:
            return "\t" * (len(spaces) // unit) + " " * (len(spaces) % unit)
        return spaces if self._to_tabs else spaces.replace("\t", " " * unit)


def _spaces_per_tab(pairs: Sequence[tuple[str, str]]) -> int:
    """Return how many spaces on the one side stand for a tab on the other; 0 when it is not like that."""
    for spaces, tabs in (zip(*pairs, strict=True), zip(*((theirs, ours) for ours, theirs in pairs), strict=True)):
        if set("".join(spaces)) != {" "} or set("".join(tabs)) != {"\t"}:
            continue
        depths = sorted({(len(wide), len(narrow)) for wide, narrow in zip(spaces, tabs, strict=True)})
        # From one depth to the next: the whole text may be shifted.
        (wide, narrow), *_ = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(depths)] or depths
        if narrow > 0 and wide % narrow == 0:
            return wide // narrow
    return 0


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[_Block]:
    """Return where the new lines differ from the old ones."""
    start = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    pairs = zip(reversed(old[start:]), reversed(new[start:]), strict=False)
    tail = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    ours, theirs = old[start : len(old) - tail], new[start : len(new) - tail]
    if len(ours) * len(theirs) > _COMPARED_LINES:
        return [_Block(first=start, last=start + len(ours), new=tuple(theirs))]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        _Block(first=start + first, last=start + last, new=tuple(theirs[new_first:new_last]))
        for tag, first, last, new_first, new_last in matcher.get_opcodes()
        if tag != "equal"
    ]


def _with_quotes(old: str, theirs: str, new: str) -> str:
    """Return the new line with the file's quotes wherever it says the same as the old one."""
    old_words, their_words = old.strip(), theirs.strip()
    if folded(old_words) != folded(their_words) or len(old_words) * len(new) > _COMPARED_CHARS:
        return new
    matcher = difflib.SequenceMatcher(None, old_words, new, autojunk=False)
    return "".join(
        their_words[first:last] if tag == "equal" else new[new_first:new_last]
        for tag, first, last, new_first, new_last in matcher.get_opcodes()
    )


def _nearest_end(lines: Sequence[str], block: _Block, outer_end: str) -> str:
    """Return the line end of the nearest line of the place that has one."""
    nearest = itertools.chain(lines[block.first :], reversed(lines[: block.first]))
    return next((end for line in nearest if (end := _end(line))), outer_end)


def _end(line: str) -> str:
    return line[len(_body(line)) :]


def _body(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _trimmed(start: int, before: str, after: str) -> Replacement | None:
    """Return the replacement without what both have in common at beginning and end; None for no change."""
    if before == after:
        return None
    room = min(len(before), len(after))
    head = _common(before[:room], after[:room])
    room -= head
    tail = _common(before[len(before) - room :][::-1], after[len(after) - room :][::-1]) if room else 0
    return Replacement(start=start + head, end=start + len(before) - tail, text=after[head : len(after) - tail])


def _common(one: str, other: str) -> int:
    """Return how many characters two equally long texts have in common from their beginning."""
    for at in range(0, len(one), _CHUNK_CHARS):
        first, second = one[at : at + _CHUNK_CHARS], other[at : at + _CHUNK_CHARS]
        if first != second:
            return at + next(index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    return len(one)


def _moved(replacement: Replacement, by: int) -> Replacement:
    return Replacement(start=replacement.start + by, end=replacement.end + by, text=replacement.text)
