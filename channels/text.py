"""Cutting text to a platform's length limit, at the kindest place.

Shared by all channels. What a limit is and how markup is written is the channel's business; here is only
where to cut: between paragraphs, else lines, else words, else characters as a reader sees them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

Length = Callable[[str], int]
"""Counts a text in a platform's unit. Must be additive, and a character must count at least 1."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_LONGEST_CLUSTER = 64  # characters; what goes on longer (stacked marks) may be cut anywhere
_ZWJ = "\u200d"
_SMALLEST_LIMIT = 2  # units of the longest character


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, the unit of Telegram's limits and entities."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int, *, length: Length = utf16_length) -> list[str]:
    """Cut `text` into chunks of at most `limit` units.

    Without fenced code blocks the joined chunks are the text. A block that has to be cut is closed at the end
    of one chunk and opened again, with its language, at the start of the next. Empty text gives no chunk.

    Raises:
        ValueError: the limit is below 2, the longest character there is.
    """
    if limit < _SMALLEST_LIMIT:
        raise ValueError(f"cannot cut text to {limit} units")
    if not text:
        return []
    if length(text) <= limit:
        return [text]
    blocks = _fenced_blocks(text, limit, length)
    starts = [block.start for block in blocks]
    chunks: list[str] = []
    at = 0
    opened: _Block | None = None
    while at < len(text):
        head = f"{opened.opener}\n" if opened else ""
        budget = limit - length(head)
        end = cut_at(text, at, budget, length=length)
        inside = _block_at(blocks, starts, end)
        if inside is not None:
            # The closing line must fit as well; the shorter piece may even end before the block.
            end = cut_at(text, at, budget - length(f"\n{inside.mark}"), length=length)
            inside = _block_at(blocks, starts, end)
        piece = text[at:end]
        tail = "" if inside is None else (inside.mark if piece.endswith("\n") else f"\n{inside.mark}")
        chunks.append(f"{head}{piece}{tail}")
        opened = inside
        at = end
    return chunks


def cut_at(text: str, start: int, limit: int, *, length: Length = utf16_length) -> int:
    """Return where the longest good piece of `text` from `start` ends: an index above `start`.

    The piece `text[start:index]` has at most `limit` units, unless its first character alone has more. White
    space at the border belongs to the piece before it, so that nothing is lost.
    """
    hard = _fitting_end(text, start, limit, length)
    if hard >= len(text):
        return len(text)
    # A border in the first half would make chunks needlessly small.
    floor = start + (hard - start) // 2
    for border in ("\n\n", "\n"):
        found = text.rfind(border, floor, hard)
        if found >= 0:
            return found + len(border)
    for index in range(hard, floor, -1):
        if text[index - 1] in " \t\u3000":
            return index
    return _cluster_border(text, start, hard)


def _fitting_end(text: str, start: int, limit: int, length: Length) -> int:
    """Return the largest index at which a piece from `start` fits; at least one character is taken."""
    high = min(len(text), start + max(limit, 1))
    if length(text[start:high]) <= limit:
        return high
    low = start + 1
    while low < high - 1:
        middle = (low + high) // 2
        if length(text[start:middle]) <= limit:
            low = middle
        else:
            high = middle
    return low


def _cluster_border(text: str, start: int, hard: int) -> int:
    """Return the last index up to `hard` that is not inside a character as a reader sees it."""
    for index in range(hard, max(start, hard - _LONGEST_CLUSTER), -1):
        if not _joined(text, index):
            return index
    return hard


def _joined(text: str, index: int) -> bool:
    """Say whether the characters around `index` belong together (emoji sequences, marks, CR LF)."""
    if index >= len(text):
        return False
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if _ZWJ in {before, after} or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True  # skin tones; tags of regional flags
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True  # one character that reached us as two halves
    if _is_flag_letter(before) and _is_flag_letter(after):
        run = index
        while run > 0 and _is_flag_letter(text[run - 1]):
            run -= 1
        return (index - run) % 2 == 1
    return False


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The inside of a fenced code block: cutting at `start < index < end` needs a fence on both sides."""

    start: int
    end: int
    opener: str  # the opening line
    mark: str  # the fence that closes it


def _fenced_blocks(text: str, limit: int, length: Length) -> list[_Block]:
    """Return the fenced code blocks, in order; not those whose fences alone would fill a chunk."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        mark, info = line.group(1), line.group(2)
        if opening is None:
            if mark[0] == "~" or "`" not in info:
                opening = line
            continue
        if mark[0] != opening.group(1)[0] or len(mark) < len(opening.group(1)) or info.strip():
            continue
        blocks.append(_block(opening, line.start()))
        opening = None
    if opening is not None:
        blocks.append(_block(opening, len(text)))
    return [b for b in blocks if (length(b.opener) + length(b.mark) + 2) * 4 <= limit]


def _block(opening: re.Match[str], end: int) -> _Block:
    # At the very border of the opening line nothing of the block is out yet, but the fence is.
    return _Block(start=opening.end(), end=end, opener=opening.group().strip(), mark=opening.group(1))


def _block_at(blocks: list[_Block], starts: list[int], index: int) -> _Block | None:
    """Return the block that a cut at `index` would break."""
    found = bisect_right(starts, index) - 1
    return blocks[found] if found >= 0 and index <= blocks[found].end else None
