"""Where remembered words stand in a text, and which of several places is meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.edits.matching import Hit, SelectionError, Selector, Way, choose, find, folded, lines_of


def found(text: str, old: str) -> tuple[Way, list[str]] | None:
    matches = find(text, old)
    return None if matches is None else (matches.way, [text[hit.start : hit.end] for hit in matches.hits])


@pytest.mark.parametrize(
    ("text", "old", "way", "places"),
    [
        ("one two one", "one", Way.EXACT, ["one", "one"]),
        ("aaaa", "aa", Way.EXACT, ["aa", "aa"]),
        ("a\r\nb\r\nc", "a\nb\n", Way.EXACT, ["a\r\nb\r\n"]),
        ("a\r\nb\nc", "\nb\n", Way.EXACT, ["\r\nb\n"]),
        ("a\nb", "a\r\nb", Way.EXACT, ["a\nb"]),
        ("  a\n    b  \nc", "a\n  b\n", Way.SPACE, ["  a\n    b  \n"]),
        ("  a\r\n    b  \r\nc", "a\n  b", Way.SPACE, ["  a\r\n    b  "]),
        ("\ta", "    a\n", Way.SPACE, ["\ta"]),
        ("a\n\n  a", " a\n", Way.SPACE, ["a\n", "  a"]),
        ("x\n\n\ny", "x \n\n \ny", Way.SPACE, ["x\n\n\ny"]),
        ("say \u201chi\u201d", 'say "hi"', Way.QUOTES, ["say \u201chi\u201d"]),
        ("it's", "it\u2019s", Way.QUOTES, ["it's"]),
        ("\tit\u2019s\n", "it's\n", Way.QUOTES, ["it\u2019s\n"]),
        ("\tit\u2019s\n", "  it's\n", Way.SPACE_AND_QUOTES, ["\tit\u2019s\n"]),
    ],
)
def test_the_first_way_that_finds_anything_counts(text: str, old: str, way: Way, places: list[str]) -> None:
    assert found(text, old) == (way, places)


@pytest.mark.parametrize(
    ("text", "old"),
    [("abc", "x"), ("", "x"), ("a\n\n\nb", "  \n "), ("foo bar", "  foo\n"), ("a\rb", "a\nb"), ("a b", "a  b")],
)
def test_what_is_not_there_is_not_found(text: str, old: str) -> None:
    assert find(text, old) is None


def test_a_carriage_return_in_the_old_text_is_compared_where_it_can_be() -> None:
    matches = find("a\nb a\r\nb", "a\r\nb")
    assert matches is not None
    assert (matches.is_literal, matches.hits) == (True, (Hit(start=4, end=8, line=2),))


def test_lines_are_counted_from_one_by_line_feeds() -> None:
    matches = find("x\r\n\ry\nx\nx", "x")
    assert matches is not None
    assert [hit.line for hit in matches.hits] == [1, 3, 4]


HITS = tuple(Hit(start=at, end=at + 1, line=line) for at, line in ((0, 1), (5, 4), (9, 8)))


@pytest.mark.parametrize(
    ("selector", "lines"),
    [
        (Selector(replace_all=True), [1, 4, 8]),
        (Selector(replace_all=True, expected=3), [1, 4, 8]),
        (Selector(expected=3), [1, 4, 8]),
        (Selector(occurrence=2), [4]),
        (Selector(occurrence=3, expected=1), [8]),
        (Selector(line_hint=5), [4]),
        (Selector(line_hint=1_000_000), [8]),
        (Selector(line_hint=1), [1]),
    ],
)
def test_a_selector_chooses_among_several_places(selector: Selector, lines: list[int]) -> None:
    assert [hit.line for hit in choose(HITS, selector)] == lines


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        (Selector(), "old_text is found 3 times, at lines 1, 4 and 8. Give more of the lines around it, or say"),
        (Selector(expected=1), "old_text is found 3 times, at lines 1, 4 and 8. Give more"),
        (Selector(expected=2), "2 replacements were expected, but old_text is found 3 times, at lines 1, 4 and 8"),
        (Selector(replace_all=True, expected=1), "1 replacements were expected, but old_text is found 3 times"),
        (Selector(occurrence=4), "occurrence 4 was asked for, but old_text is found 3 times, at lines 1, 4 and 8"),
        (Selector(line_hint=6), "line_hint 6 is equally near to two of the places"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_lines(selector: Selector, told: str) -> None:
    with pytest.raises(SelectionError) as caught:
        choose(HITS, selector)
    assert str(caught.value).startswith(told)


def test_one_place_needs_no_selector_whatever_the_hint_says() -> None:
    assert choose(HITS[:1], Selector(line_hint=99)) == choose(HITS[:1], Selector()) == HITS[:1]
    with pytest.raises(SelectionError, match=r"^2 replacements were expected, but old_text is found once, at line 1"):
        choose(HITS[:1], Selector(expected=2))


def test_too_many_places_are_not_listed_nor_replaced() -> None:
    matches = find("a" * 300_000, "a")
    assert matches is not None
    with pytest.raises(SelectionError, match=r"^old_text is found more than 100,000 times"):
        choose(matches.hits, Selector(replace_all=True))


@given(st.text(alphabet="ab \t\r\n'\u2019", max_size=60), st.text(alphabet="ab \t\r\n'\u2019", min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_hits_are_in_order_apart_and_equal_to_the_old_text_in_their_way(text: str, old: str) -> None:
    matches = find(text, old)
    if matches is None:
        assert old not in text
        return
    end = 0
    for hit in matches.hits:
        assert end <= hit.start < hit.end <= len(text)
        assert hit.line == text.count("\n", 0, hit.start) + 1
        end = hit.end
        place = text[hit.start : hit.end].replace("\r\n", "\n")
        wanted = old.replace("\r\n", "\n")
        if matches.way in {Way.QUOTES, Way.SPACE_AND_QUOTES}:
            place, wanted = folded(place), folded(wanted)
        if matches.way in {Way.SPACE, Way.SPACE_AND_QUOTES}:
            place, wanted = ("\n".join(map(str.strip, value.split("\n"))).rstrip("\n") for value in (place, wanted))
        assert place == wanted


@given(st.text(max_size=100))
def test_folding_and_splitting_keep_the_length(text: str) -> None:
    assert len(folded(text)) == len(text)
    assert "".join(lines_of(text)) == text


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_places_in_a_long_text_are_found_wherever_it_is_cut_for_the_search(shift: int, end: str) -> None:
    block = ["  b", "\tc", "", "d"]
    lines = ["x" * shift, *block * 60_000, "b"]
    text = end.join(lines)
    matches = find(text, "b\nc\n")
    assert matches is not None
    assert matches.way is Way.SPACE
    assert [hit.line for hit in matches.hits] == [2 + 4 * index for index in range(60_000)]
    first, size = shift + len(end), len(end.join([*block, ""]))
    length = len(end.join([*block[:2], ""]))
    assert [(hit.start, hit.end) for hit in matches.hits] == [
        (first + index * size, first + index * size + length) for index in range(60_000)
    ]
