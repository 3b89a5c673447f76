"""Why a remembered text was not found in a file: the likely cause, and the closest lines as a diff.

Looks no longer than a moment, however large the file. Pure functions otherwise.
"""

from __future__ import annotations

import difflib
import heapq
import html
import itertools
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from bot.edits.matching import find, folded, numbers_text, pieces_of, with_lf

_TIME_LIMIT_S = 1.0
_OLD_LINES = 200  # of the remembered text that are compared
_SAME_PLACES = 16  # of one line; more say nothing
_BEST = 20
_COMPARED_CHARS = 400
_SHOWN_CHARS = 200
_SHOWN_LINES = 40
_ALIKE = 0.5
_TELLING_CHARS = 4  # shorter texts are in most files

_PIECE_CHARS = 1 << 17
_SPACE = re.compile(r"\s")
_NUMBERED = re.compile(r"^[ \t]*\d+\| ?", re.MULTILINE)
_SHOWN_FOR_OTHERS = "\ufffd\u2400\u240d"  # what read_file shows for broken bytes, NUL and a lone CR


def explain(text: str, old: str, new: str) -> str:
    """Return what to tell when `old` is not in the text: sentences, then the diff, several lines."""
    until_s = time.monotonic() + _TIME_LIMIT_S
    plain, old = with_lf(text), with_lf(old)
    cause = _cause(plain, old, with_lf(new), until_s)
    wanted = old.removesuffix("\n").split("\n", _OLD_LINES)[:_OLD_LINES]
    start = _closest(plain, wanted, until_s)
    if start is None:
        is_late = time.monotonic() > until_s
        unlike = "No similar lines were found in the time there is" if is_late else "Nothing in it is similar"
        return f"{cause or unlike}."
    region = list(itertools.islice(_lines(plain), start, start + len(wanted)))
    diff = _diff(wanted, region, start + 1, shows_space=cause == _SPACE_DIFFERS)
    told = f"{cause}. " if cause else ""
    return f"{told}The closest lines, as a diff from old_text (-) to the file (+):\n{diff}"


_SPACE_DIFFERS = (
    "White space differs (tabs, several spaces, other kinds of space, where lines end); in the diff · is a space, "
    "→ a tab and ⍽ another kind"
)


def _cause(text: str, old: str, new: str, until_s: float) -> str:
    """Return the likely cause as a sentence without its full stop, '' for none."""
    bare = _NUMBERED.sub("", old)
    if bare != old and bare.strip() and (found := find(text, bare)):
        return f"old_text has the line numbers that read_file shows; without them it is found at {_at(found.hits)}"
    if any(char in old and char not in text for char in _SHOWN_FOR_OTHERS):
        return (
            "old_text has a character that read_file shows for bytes it cannot show; leave those out of old_text, "
            "and replace what is around them"
        )
    if len(new.strip()) >= _TELLING_CHARS and new not in old and (found := find(text, new)):
        return f"new_text is already there, at {_at(found.hits)}: the change may have been made before"
    for said, change in _CHANGES:
        if time.monotonic() > until_s:
            return ""
        changed = change(old)
        if changed != old and changed.strip() and (found := find(text, changed)):
            return f"{said} it is found at {_at(found.hits)}"
    return _compared(text, old) if time.monotonic() < until_s else ""


def _compared(text: str, old: str) -> str:
    wanted, squeezed = _squeezed(old), _squeezed(text)
    if "\n" in old and "\r" in text and wanted in squeezed:  # a CR that is left is a lone one
        return "Lines of the file end in CR alone; give \\r where old_text has a line end"
    if wanted and wanted in squeezed:
        return _SPACE_DIFFERS
    if wanted and _squeezed(old, str.casefold) in _squeezed(text, str.casefold):
        return "Upper and lower case differ"
    return ""


def _at(hits: Sequence[object]) -> str:
    return numbers_text([getattr(hit, "line", 0) for hit in hits])


def _unescaped(old: str) -> str:
    return re.sub(r"\\([nt\"'\\])", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), old)


_CHANGES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ('old_text is escaped once too often (\\n, \\t, \\"): unescaped', _unescaped),
    ("old_text has HTML entities: with the characters they mean", html.unescape),
    (
        "old_text has characters with accents in another form: composed (NFC)",
        lambda old: unicodedata.normalize("NFC", old),
    ),
    (
        "old_text has characters with accents in another form: decomposed (NFD)",
        lambda old: unicodedata.normalize("NFD", old),
    ),
)


def _squeezed(text: str, fold: Callable[[str], str] = str) -> str:
    """Return the text with every run of white space as one space, and `fold` of it."""
    squeezed = (" ".join(fold(folded(piece)).split()) for piece in _word_pieces(text))
    return " ".join(filter(None, squeezed))


def _word_pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that end in white space: one call for all of it would hold up everybody else."""
    at = 0
    while found := _SPACE.search(text, at + _PIECE_CHARS):
        yield text[at : found.end()]
        at = found.end()
    yield text[at:]


def _lines(text: str) -> Iterator[str]:
    """Yield the text's lines without their ends, as splitting at LF would give them."""
    last = ""
    for piece in pieces_of(text):
        *whole, last = piece.split("\n")
        yield from whole
    yield last


def _closest(text: str, wanted: Sequence[str], until_s: float) -> int | None:
    """Return the index of the line where the closest region begins, None when nothing is like it."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(wanted):
        if line.strip():
            places.setdefault(line.strip(), []).append(index)
    votes: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    for number, line in enumerate(_lines(text)):
        stripped = line.strip()
        if stripped in places:
            seen[stripped] += 1
            if seen[stripped] <= _SAME_PLACES:
                votes.update(number - index for index in places[stripped][:_SAME_PLACES])
        if number % 10_000 == 0 and time.monotonic() > until_s:
            break
    if votes:
        best = max(votes.items(), key=lambda vote: (vote[1], -vote[0]))[0]
        return max(0, best)
    return _most_alike(text, wanted, until_s)


def _most_alike(text: str, wanted: Sequence[str], until_s: float) -> int | None:
    """Return where the region begins whose lines share most words with the wanted ones."""
    longest = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    key = wanted[longest].strip()[:_COMPARED_CHARS]
    words = set(re.findall(r"\w+", key.casefold()))

    def scored() -> Iterator[tuple[int, int, str]]:
        for number, line in enumerate(_lines(text)):
            if number % 1_000 == 0 and time.monotonic() > until_s:
                return
            shared = len(words.intersection(re.findall(r"\w+", line[:_COMPARED_CHARS].casefold())))
            if shared:
                yield -shared, number, line

    best = (0.0, 0)
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(key)
    for _, number, line in heapq.nsmallest(_BEST, scored()):
        matcher.set_seq1(line.strip()[:_COMPARED_CHARS])
        best = max(best, (matcher.ratio(), -number))
    return max(0, -best[1] - longest) if best[0] >= _ALIKE else None


def _diff(wanted: Sequence[str], region: Sequence[str], first: int, *, shows_space: bool) -> str:
    shown = difflib.unified_diff(
        [_shown(line, shows_space=shows_space) for line in wanted],
        [_shown(line, shows_space=shows_space) for line in region],
        n=2,
        lineterm="",
    )
    # The header would say positions in old_text; what helps is the line in the file.
    body = [line for line in list(shown)[2:] if not line.startswith("@@")]
    if not body:
        body = [f" {_shown(line, shows_space=shows_space)}" for line in region]
    if len(body) > _SHOWN_LINES:
        body[_SHOWN_LINES:] = [f"… ({len(body) - _SHOWN_LINES:,} more lines of the diff)"]
    last = first + len(region) - 1
    where = f"line {first:,}" if last <= first else f"lines {first:,}-{last:,}"
    return "\n".join((f"--- old_text\n+++ file, {where}", *body))


def _shown(line: str, *, shows_space: bool) -> str:
    line = line.encode("utf-8", "replace").decode().replace("\x00", "\u2400").replace("\r", "\u240d")
    if shows_space:
        line = "".join(
            "·" if char == " " else "→" if char == "\t" else "⍽" if char.isspace() else char for char in line
        )
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}… ({len(line):,} characters)"
