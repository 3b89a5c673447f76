r"""Where the hunks of a diff belong in a file, and the lines after them.

The rules, the same as GNU patch's but for the last two:

- A hunk is looked for at its stated line, moved by as much as the hunk before it was; then at the place nearest
  to that line, at equal distance the later one. It lies behind the hunk before it.
- If it fits nowhere, it is looked for again without the outermost line of context, then without the outermost
  two; the longer of the two contexts is shortened first. At least one old line stays.
- Without a stated line the place must be the only one.
- Line ends do not matter in the search. Where the old lines have the very line ends of the file, new lines are
  taken as they stand in the diff; else they get the line end of the line before them in the file, and the
  end of the file stays with or without a newline as it was, unless the diff has a "\ No newline" mark.

Nothing here knows files or bytes: lines come and go as text, each with its line end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from bot.edits.file_text import Replacement
from bot.edits.patch import Hunk, HunkLine
from bot.edits.preview import Region

MAX_FUZZ = 2
"""Lines of context at each end of a hunk that may differ from the file, as with GNU patch by default."""

_LISTED = 8
_VOTES_PER_LINE = 50


class HunkMisfit(ValueError):
    """A hunk that fits nowhere, or in more than one place; the text says why, `near` is the likeliest line, from 1."""

    def __init__(self, hunk: Hunk, why: str, near: int | None = None) -> None:
        super().__init__(f"hunk {hunk.number} {why}")
        self.hunk = hunk
        self.near = near


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a hunk was applied: its first old line, how far that is from the stated one, ignored lines of context."""

    number: int
    line: int
    offset: int
    fuzz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """What the hunks put in place of which characters of the text, in order; and where each was placed."""

    before: Sequence[str]
    replacements: list[Replacement]
    placed: list[Placed]
    regions: tuple[Region, ...]

    @property
    def lines(self) -> list[str]:
        """The lines after all hunks."""
        text = "".join(self.before)
        pieces: list[str] = []
        done = 0
        for replacement in self.replacements:
            pieces += (text[done : replacement.start], replacement.text)
            done = replacement.end
        return split_lines("".join((*pieces, text[done:])))


def split_lines(text: str) -> list[str]:
    r"""Return the lines with their ends; only "\n" ends a line, as for diff and patch."""
    lines = text.split("\n")
    last = lines.pop()
    ended = [f"{line}\n" for line in lines]
    return [*ended, last] if last else ended


def apply_hunks(lines: Sequence[str], hunks: Sequence[Hunk]) -> Patched:
    """Return the file's lines after the hunks.

    Raises:
        HunkMisfit: a hunk does not fit, or its place is not certain.
    """
    file = _File(lines)
    starts = list(accumulate(map(len, lines), initial=0))
    replacements: list[Replacement] = []
    placed: list[Placed] = []
    regions: list[Region] = []
    behind, shift, more = 0, 0, 0
    for hunk in hunks:
        place = _place(file, hunk, behind, shift)
        new = _replaced(file, place)
        text = "".join(new)
        old = tuple(lines[place.start : place.stop])
        regions.append(Region(start=place.start, old=old, new_start=place.start + more, new=tuple(new)))
        more += len(new) - (place.stop - place.start)
        replacements.append(Replacement(start=starts[place.start], end=starts[place.stop], text=text))
        behind, shift = place.stop, place.offset
        line, fuzz = place.start - place.trimmed.lead + 1, place.trimmed.fuzz
        placed.append(Placed(number=hunk.number, line=line, offset=place.offset, fuzz=fuzz))
    return Patched(before=lines, replacements=replacements, placed=placed, regions=tuple(regions))


class _File:
    """A file's lines, and the search for a run of them; the search is linear in the text it passes over."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.keys = [_key(line) for line in lines]

    @cached_property
    def _forward(self) -> _Text:
        return _Text(self.keys)

    @cached_property
    def _backward(self) -> _Text:
        return _Text(self.keys[::-1])

    @cached_property
    def usual_end(self) -> str:
        """The line end of most lines."""
        ends = Counter(_end(line) for line in self.lines)
        return "\r\n" if ends["\r\n"] > ends["\n"] else "\n"

    def nearest(self, wanted: list[str], guess: int, low: int) -> int | None:
        """Return where the run `wanted` begins nearest to `guess`, not before `low`."""
        last = len(self.keys) - len(wanted)
        if last < low:
            return None
        guess = min(max(guess, low), last)
        after = self._forward.find(wanted, guess)
        if after == guess:
            return after
        limit = guess - low if after is None else min(guess - low, after - guess)
        back = self._backward.find(wanted[::-1], last - guess, within=limit)
        before = None if back is None else last - back
        if after is None or before is None:
            return before if after is None else after
        return after if after - guess <= guess - before else before

    def all_of(self, wanted: list[str], low: int, limit: int) -> list[int]:
        """Return the first `limit` places of the run `wanted` from `low` on."""
        found: list[int] = []
        while len(found) < limit and low + len(wanted) <= len(self.keys):
            at = self._forward.find(wanted, low)
            if at is None:
                break
            found.append(at)
            low = at + 1
        return found

    def likeliest(self, wanted: list[str]) -> int | None:
        """Return where most lines of `wanted` stand at their distance, or None when not one stands anywhere."""
        where: dict[str, list[int]] = {key: [] for key in wanted if key.strip()}
        for index, key in enumerate(self.keys):
            if key in where and len(where[key]) < _VOTES_PER_LINE:
                where[key].append(index)
        votes = Counter(max(index - distance, 0) for distance, key in enumerate(wanted) for index in where.get(key, ()))
        return max(votes, key=lambda start: (votes[start], -start)) if votes else None


class _Text:
    """Lines in one text, for the linear search of `str.find`."""

    def __init__(self, keys: list[str]) -> None:
        self._text = "\n".join(["", *keys, ""])
        self._starts = list(accumulate((len(key) + 1 for key in keys), initial=0))

    def find(self, wanted: list[str], start: int, *, within: int | None = None) -> int | None:
        """Return where the run begins first, from `start` on and at most `within` lines further."""
        stop = None if within is None else self._starts[min(start + within + len(wanted), len(self._starts) - 1)] + 1
        at = self._text.find("\n".join(["", *wanted, ""]), self._starts[start], stop)
        return None if at < 0 else bisect_left(self._starts, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trimmed:
    """A hunk, maybe with less context; `lead` lines of context are left out at its beginning."""

    lines: tuple[HunkLine, ...]
    lead: int = 0
    fuzz: int = 0

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def keys(self) -> list[str]:
        return [_key(line) for line in self.old]

    @property
    def reaches_end(self) -> bool:
        """Whether it says that its last line is the file's."""
        return not all(_end(line.text) for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The line (from 0) at which what is left of a hunk begins, and how far that is from what was stated."""

    trimmed: _Trimmed
    start: int
    offset: int

    @property
    def stop(self) -> int:
        return self.start + len(self.trimmed.old)


def _place(file: _File, hunk: Hunk, behind: int, shift: int) -> _Place:
    if not hunk.old:
        return _place_of_insertion(file, hunk, behind, shift)
    for trimmed in _trimmings(hunk):
        expected = (hunk.line or 1) - 1 + trimmed.lead
        start = _found(file, hunk, trimmed, expected + shift, behind)
        if start is not None:
            return _Place(trimmed=trimmed, start=start, offset=0 if hunk.line is None else start - expected)
    near = file.likeliest([_key(line) for line in hunk.old])
    raise HunkMisfit(hunk, _why(file, hunk, behind), near=None if near is None else near + 1)


def _found(file: _File, hunk: Hunk, trimmed: _Trimmed, guess: int, behind: int) -> int | None:
    wanted = trimmed.keys
    if trimmed.reaches_end:
        start = len(file.keys) - len(wanted)
        return start if start >= behind and file.keys[start:] == wanted else None
    if hunk.line is not None:
        return file.nearest(wanted, guess, behind)
    places = file.all_of(wanted, behind, _LISTED + 1)
    if len(places) > 1:
        numbers = ", ".join(str(place + 1) for place in places[:_LISTED]) + (", …" if len(places) > _LISTED else "")
        raise HunkMisfit(
            hunk, f"states no line, and its old lines are found at lines {numbers}; state one or give more context"
        )
    return places[0] if places else None


def _trimmings(hunk: Hunk) -> Iterator[_Trimmed]:
    """Give the hunk with ever less context, as long as an old line is left."""
    yield _Trimmed(lines=hunk.lines)
    known = (0, 0)
    for fuzz in range(1, MAX_FUZZ + 1):
        lead, tail = _left_out(hunk, fuzz)
        trimmed = _Trimmed(lines=hunk.lines[lead : len(hunk.lines) - tail], lead=lead, fuzz=fuzz)
        if (lead, tail) == known or not trimmed.old:
            return
        known = lead, tail
        yield trimmed


def _left_out(hunk: Hunk, fuzz: int) -> tuple[int, int]:
    """Return how many lines of context to leave out at the beginning and at the end."""
    changed = [index for index, line in enumerate(hunk.lines) if line.kind != " "]
    before, after = changed[0], len(hunk.lines) - 1 - changed[-1]
    longer = max(before, after)
    return max(0, fuzz + before - longer), max(0, fuzz + after - longer)


def _place_of_insertion(file: _File, hunk: Hunk, behind: int, shift: int) -> _Place:
    """Place a hunk without old lines: only its stated line tells where it belongs."""
    stated = hunk.line or 0
    start = stated + shift
    if hunk.line is None and file.lines:
        raise HunkMisfit(hunk, "adds lines without any context and states no line; give lines before or after them")
    if not behind <= start <= len(file.keys):
        raise HunkMisfit(hunk, f"adds lines after line {stated}, but {_has(file, behind)}")
    return _Place(trimmed=_Trimmed(lines=hunk.lines), start=start, offset=shift)


def _replaced(file: _File, place: _Place) -> list[str]:
    """Return the lines that stand in the file in place of the hunk's old lines."""
    region = list(file.lines[place.start : place.stop])
    if region == place.trimmed.old and (region or not file.lines):
        return [line.text for line in place.trimmed.lines if line.kind != "-"]
    end = _end(file.lines[place.start - 1] if place.start else file.lines[0]) or file.usual_end
    result: list[str] = []
    left = iter(region)
    for line in place.trimmed.lines:
        if line.kind == "+":
            result.append(_key(line.text) + end)
            continue
        old = next(left)
        end = _end(old) or end
        if line.kind == " ":
            result.append(_key(old) + end)
    if result and place.stop == len(file.lines) and not _ends_in_newline(file, place):
        result[-1] = _key(result[-1])
    # Behind a last line without an end: it is the last one no more.
    return [end, *result] if not region and place.start == len(file.lines) and not _end(file.lines[-1]) else result


def _ends_in_newline(file: _File, place: _Place) -> bool:
    """Whether the file is to end in a newline after its last lines were replaced."""
    if all(_end(line.text) for line in place.trimmed.lines):
        return bool(_end(file.lines[-1]))
    return bool(_end([line.text for line in place.trimmed.lines if line.kind != "-"][-1]))


def _why(file: _File, hunk: Hunk, behind: int) -> str:
    wanted = [_key(line) for line in hunk.old]
    if _Trimmed(lines=hunk.lines).reaches_end:
        return f"does not fit: it says that it reaches to the end of the file, and {_has(file, behind)}"
    earlier = file.nearest(wanted, behind, 0)
    if earlier is not None:
        return f"fits only at line {earlier + 1}, which is not behind the hunk before it; order hunks by their lines"
    return f"does not fit: its old lines are not in the file, not even without {MAX_FUZZ} lines of context"


def _has(file: _File, behind: int) -> str:
    count = f"the file has {len(file.lines):,} line{'' if len(file.lines) == 1 else 's'}"
    return f"{count}, and the hunk before it ends at line {behind:,}" if behind else count


def _key(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _end(line: str) -> str:
    if line.endswith("\r\n"):
        return "\r\n"
    return "\n" if line.endswith("\n") else ""
