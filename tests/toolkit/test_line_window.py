"""A window read in pieces is what a plain reading of the whole file would show."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from bot.toolkit.file_types import FileType
from bot.toolkit.line_window import line_window

UTF8 = FileType(mime="text/plain", encoding="utf-8", is_valid=True)
LINE_COST = 12  # what a line counts beside its characters


class Dripping(io.BytesIO):
    """A file that gives few bytes at a time, so that pieces end anywhere, also within a character."""

    def __init__(self, data: bytes, at_once: int) -> None:
        super().__init__(data)
        self._at_once = at_once

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._at_once if size is None or size < 0 else min(size, self._at_once))


def plainly(text: str, first: int, max_lines: int, max_chars: int) -> tuple[list[str], int]:
    lines, left, hidden = text.split("\n"), max_chars, 0
    if not lines[-1]:
        lines.pop()
    shown: list[str] = []
    for line in lines[first - 1 : first - 1 + max_lines]:
        bare = line.removesuffix("\r")
        if shown and len(bare) + LINE_COST > left:
            break
        hidden = max(0, len(bare) - left)
        shown.append(bare[:left].replace("\r", "␍"))
        left -= len(bare) + LINE_COST
        if left <= 0:
            break
    return shown, hidden


@given(
    text=st.lists(st.sampled_from(["a", "é", "😀", "\n", "\r\n", "\r", "bbbbbbbb", "\n\n"]), max_size=40).map("".join),
    first=st.integers(1, 9),
    max_lines=st.integers(1, 6),
    max_chars=st.sampled_from([1, 15, 30, 60, 1_000]),
    at_once=st.integers(1, 9) | st.just(1_000),
)
def test_lines_total_and_cut_are_those_of_a_plain_reading(
    text: str, first: int, max_lines: int, max_chars: int, at_once: int
) -> None:
    window = line_window(
        Dripping(text.encode(), at_once),
        UTF8,
        first=first,
        max_lines=max_lines,
        max_chars=max_chars,
        limit_bytes=10_000,
    )
    assert (list(window.lines), window.hidden_chars) == plainly(text, first, max_lines, max_chars)
    assert window.total == text.count("\n") + (not text.endswith("\n") and text != "")


def test_a_file_that_grows_meanwhile_is_read_up_to_the_limit() -> None:
    window = line_window(io.BytesIO(b"x\n" * 100), UTF8, first=1, max_lines=1_000, max_chars=10_000, limit_bytes=20)
    assert window.total == 10
