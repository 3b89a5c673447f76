from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.text import cut_at, split_text, utf16_length

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
FLAG = "🇩🇪"
WAVE = "👋🏽"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
KEYCAP = "1\ufe0f\u20e3"
ACCENT = "e\u0301"

pieces = st.sampled_from(
    ["a", "word ", "\n", "\n\n", "  ", "é", "漢", "😀", FAMILY, FLAG, WAVE, ENGLAND, KEYCAP, ACCENT, "\r\n", "\t"]
)
texts = st.lists(pieces, max_size=80).map("".join)
anything = st.text(st.characters(codec="utf-8"), max_size=200).filter(
    lambda text: "``" not in text and "~~" not in text
)


def test_length_is_counted_in_utf16_units() -> None:
    assert [utf16_length(text) for text in ("", "abc", "é", "漢字", "😀", "a😀b", "\ud83d")] == [0, 3, 1, 2, 2, 4, 1]


def test_a_text_that_fits_is_one_chunk_and_an_empty_one_is_none() -> None:
    assert split_text("x" * 4096, 4096) == ["x" * 4096]
    assert split_text("", 4096) == []


def test_a_limit_that_no_emoji_fits_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot cut"):
        split_text("abc", 1)


def test_an_emoji_at_the_limit_goes_whole_into_the_next_chunk() -> None:
    """C023: 4,095 letters and an emoji, in a platform that counts UTF-16 units."""
    text = "x" * 4095 + "😀" + "y" * 100
    chunks = split_text(text, 4096)
    assert chunks == ["x" * 4095, "😀" + "y" * 100]
    assert [utf16_length(chunk) for chunk in chunks] == [4095, 102]


@pytest.mark.parametrize("cluster", [FAMILY, FLAG, WAVE, ENGLAND, KEYCAP, ACCENT, "\r\n", "\ud83d\ude00"])
@pytest.mark.parametrize("offset", range(12))
def test_what_looks_like_one_character_is_not_cut(cluster: str, offset: int) -> None:
    text = "x" * (40 - offset) + cluster + "y" * 30
    chunks = split_text(text, 40)
    assert "".join(chunks) == text
    assert any(cluster in chunk for chunk in chunks)


def test_flags_in_a_row_are_cut_between_flags() -> None:
    assert split_text(FLAG * 10, 10) == [FLAG * 2] * 5


def test_a_cluster_longer_than_the_limit_is_cut_rather_than_never_sent() -> None:
    text = "e" + "\u0301" * 50
    chunks = split_text(text, 20)
    assert "".join(chunks) == text
    assert max(map(len, chunks)) == 20


def test_borders_are_paragraphs_before_lines_before_words() -> None:
    assert split_text("aaaa bbbb\n\ncccc\ndddd eeee", 18) == ["aaaa bbbb\n\n", "cccc\ndddd eeee"]
    assert split_text("aaaa bbbb\ncccc dddd eeee", 18) == ["aaaa bbbb\n", "cccc dddd eeee"]
    assert split_text("aaaa bbbb cccc dddd", 18) == ["aaaa bbbb cccc ", "dddd"]


def test_a_border_far_from_the_limit_is_not_taken() -> None:
    assert split_text("ab\n" + "c" * 40, 20) == ["ab\n" + "c" * 17, "c" * 20, "c" * 3]


@given(texts, st.integers(2, 50))
def test_plain_text_is_whole_after_splitting_and_every_chunk_fits(text: str, limit: int) -> None:
    """C022, C023"""
    chunks = split_text(text, limit)
    assert "".join(chunks) == text
    assert all(0 < utf16_length(chunk) <= limit for chunk in chunks)


@given(anything, st.integers(2, 50))
def test_any_text_can_be_split_in_characters_too(text: str, limit: int) -> None:
    chunks = split_text(text, limit, length=len)
    assert "".join(chunks) == text
    assert all(0 < len(chunk) <= limit for chunk in chunks)


@given(texts, st.integers(1, 20))
def test_a_cut_always_moves_on(text: str, limit: int) -> None:
    at = 0
    while at < len(text):
        end = cut_at(text, at, limit)
        assert at < end <= len(text)
        at = end


def test_a_code_block_that_is_cut_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(40))
    text = f"Here:\n\n```python\n{code}\n```\nDone."
    chunks = split_text(text, 200)
    assert len(chunks) > 2
    assert all(utf16_length(chunk) <= 200 for chunk in chunks)
    assert all(len(re.findall(r"^```", chunk, re.MULTILINE)) % 2 == 0 for chunk in chunks)
    assert all(chunk.startswith("```python\n") for chunk in chunks[1:])
    assert chunks[-1].endswith("```\nDone.")
    lines = [line for chunk in chunks for line in chunk.splitlines() if line.startswith("line_")]
    assert "\n".join(lines) == code


def test_a_code_block_that_never_ends_is_closed_in_every_chunk_but_the_last() -> None:
    text = "```\n" + "x = 1\n" * 50
    chunks = split_text(text, 100)
    assert all(chunk.rstrip().endswith("```") for chunk in chunks[:-1])
    assert all(chunk.startswith("```\n") for chunk in chunks)


def test_a_longer_fence_is_not_closed_by_a_shorter_one() -> None:
    text = "````\n```\n" + "inner\n" * 30 + "```\n````\nafter"
    chunks = split_text(text, 80)
    assert all(chunk.startswith("````\n") for chunk in chunks[:-1])
    assert all(chunk.rstrip().endswith("````") for chunk in chunks[:-1])


def test_text_after_a_code_block_is_cut_without_fences() -> None:
    text = "```\na\n```\n" + "word " * 60
    chunks = split_text(text, 100)
    assert "".join(chunks) == text


fenced = st.lists(
    st.sampled_from(["text\n", "```py\n", "```\n", "~~~\n", "code(1)\n", "\n", "long " * 12 + "\n", "😀" * 9]),
    max_size=40,
).map("".join)


@given(fenced, st.integers(60, 120))
def test_chunks_with_code_fit_and_keep_every_word(text: str, limit: int) -> None:
    chunks = split_text(text, limit)
    assert all(utf16_length(chunk) <= limit for chunk in chunks)

    def words(value: str) -> list[str]:
        bare = re.sub(r"```(py)?|~~~", "", value)
        return list("".join(bare.split()))

    assert words("".join(chunks)) == words(text)
