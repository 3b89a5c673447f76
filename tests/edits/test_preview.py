"""Comparisons of two versions of a file: what they hold, count and show."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.edits.hunks import split_lines
from bot.edits.preview import Comparison

LINES = st.lists(st.sampled_from(["a", "b", "", "long line", "\r"]), max_size=14)


@given(LINES, LINES, st.booleans())
@settings(max_examples=400, deadline=None)
def test_two_texts_are_compared_as_their_lines_are(one: list[str], other: list[str], ended: bool) -> None:
    old, new = "\n".join(one) + "\n" * ended, "\n".join(other)
    texts = Comparison.of_texts("f", old, new)
    lines = Comparison.of_lines("f", "f", split_lines(old), split_lines(new))
    assert texts.diff(10_000) == lines.diff(10_000)
    assert (texts.added, texts.removed) == (lines.added, lines.removed)


def test_of_a_long_text_only_the_lines_around_the_difference_are_held() -> None:
    old = [f"line {number}\n" for number in range(10_000)]
    new = [*old[:5_000], "other\n", *old[5_001:]]
    comparison = Comparison.of_texts("f", "".join(old), "".join(new))
    (region,) = comparison.regions
    assert (region.start, region.old) == (4_997, tuple(old[4_997:5_004]))
    assert comparison.hunks(10_000).startswith("@@ -4998,7 +4998,7 @@\n line 4997\n")
    assert (comparison.added, comparison.removed) == (1, 1)
