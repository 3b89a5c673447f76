"""From the bot's text to rich text: formatting, tables, splitting, and what is sent word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.messages import OutboundKind
from channels.slack.rendering import FALLBACK_BYTES, PART_UNITS, Part, fallback, render
from channels.slack.sending import content
from channels.tables import WIDTH, columns
from channels.text import utf16_length
from tests.platforms.slack_rules import read_blocks

WORD_FOR_WORD = [OutboundKind.REMINDER, OutboundKind.NOTICE]


def one(text: str, kind: OutboundKind = OutboundKind.REPLY) -> Part:
    (part,) = render(text, kind)
    return part


def runs(part: Part) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def walk(elements: list[dict[str, Any]]) -> None:
        for element in elements:
            if "elements" in element:
                walk(element["elements"])
            else:
                found.append(element)

    walk(list(part.elements))
    return found


def styled(part: Part, style: str) -> list[str]:
    return [run["text"] for run in runs(part) if run.get("style", {}).get(style)]


def test_an_answer_with_all_that_goes_wrong_elsewhere_is_right() -> None:
    """C039: bold and link in Slack's form, &<> as they are in rich text and escaped in the text beside it."""
    part = one("**bold** [a](https://x.example) a<b & c\n\n| k | v |\n|---|---|\n| 1 | 2 |")
    assert styled(part, "bold") == ["bold"]
    assert {"type": "link", "url": "https://x.example", "text": "a"} in runs(part)
    assert {"type": "text", "text": " a<b & c"} in runs(part)
    assert part.elements[-1]["type"] == "rich_text_preformatted"
    assert runs(part)[-1]["text"] == "k │ v\n──┼──\n1 │ 2"
    assert "a&lt;b &amp; c" in part.fallback


def test_lines_that_are_no_table_stay_words() -> None:
    """C039, the text as it stands in the case: pipes without a line of dashes make no table."""
    part = one("**bold** [a](https://x.example) a<b & | k | v |")
    assert part.plain == "bold a a<b & | k | v |"
    assert styled(part, "bold") == ["bold"]
    assert "a&lt;b &amp; | k | v |" in part.fallback


def test_styles_may_stand_inside_each_other() -> None:
    part = one("**bold and *both*** ~~gone~~ `code`")
    assert styled(part, "bold") == ["bold and ", "both"]
    assert styled(part, "italic") == ["both"]
    assert styled(part, "strike") == ["gone"]
    assert styled(part, "code") == ["code"]


def test_headings_are_bold_lines_and_paragraphs_stand_apart() -> None:
    part = one("# Head\n\none\n\ntwo\nlines")
    assert styled(part, "bold") == ["Head"]
    assert part.plain == "Head\none\n\ntwo\nlines"
    assert [element["type"] for element in part.elements] == ["rich_text_section"]


def test_lists_keep_their_kind_depth_and_numbers() -> None:
    part = one("- one\n  1. two\n  2. three\n- four\n\n7. seven\n8. eight\n")
    shape = [(e["style"], e["indent"], e.get("offset", 0), len(e["elements"])) for e in part.elements]
    assert shape == [("bullet", 0, 0, 1), ("ordered", 1, 0, 2), ("bullet", 0, 0, 1), ("ordered", 0, 6, 2)]
    assert part.plain == "• one\n  1. two\n  2. three\n• four\n7. seven\n8. eight"


def test_quotes_code_and_rules_have_blocks_of_their_own() -> None:
    part = one("> said\n\n```py\nx = '**1**'\n```\n\n---\n\nend")
    kinds = [element["type"] for element in part.elements]
    assert kinds == ["rich_text_quote", "rich_text_preformatted", "rich_text_section"]
    assert runs(part)[1]["text"] == "x = '**1**'"


def test_html_is_text_and_line_breaks_are_line_breaks() -> None:
    assert one("use `Vec` or Vec<String> and <b>this</b>").plain == "use Vec or Vec<String> and <b>this</b>"
    assert one("one<br>two").plain == "one\ntwo"


@pytest.mark.parametrize("text", ["<!channel> <@U0ADA> <#C0TEAM> @here", "*a* _b_"])
def test_nothing_in_a_text_calls_people_or_is_slacks_own_markup(text: str) -> None:
    part = one(text, OutboundKind.NOTICE)
    assert {run["type"] for run in runs(part)} == {"text"}
    assert "<" not in part.fallback


def test_pages_are_links_and_other_targets_are_told() -> None:
    part = one("see https://x.example/a_(b), or [file](/etc/hosts), [x](javascript:1) ![plan](https://i.example/p.png)")
    links = [(run["url"], run["text"]) for run in runs(part) if run["type"] == "link"]
    assert links == [("https://x.example/a_(b)", "https://x.example/a_(b)"), ("https://i.example/p.png", "plan")]
    assert "file (/etc/hosts)" in part.plain
    assert "x (javascript:1)" in part.plain


@pytest.mark.parametrize("kind", WORD_FOR_WORD)
def test_reminders_and_notices_are_sent_word_for_word(kind: OutboundKind) -> None:
    text = "buy **2** _eggs_ & <milk> ~now~ `done` > * \\* [x](https://x.example)\n\n\n# no head\n- no list :+1:"
    part = one(text, kind)
    assert "".join(run["text"] for run in runs(part)) == text
    assert not any("style" in run for run in runs(part))


def test_tables_are_as_wide_as_people_see_them_and_wrap_long_cells() -> None:
    table = columns([["name", "price"], ["漢字", "1"], ["x" * 100, "20"]], ["None", "Right"])
    lines = table.splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[2].startswith("漢字 ")
    assert lines[2].endswith("│     1")
    assert columns([], []) == ""


def test_blank_text_has_no_part_and_empty_markup_is_kept_as_written() -> None:
    assert render(" \n ", OutboundKind.REPLY) == []
    assert one("***").plain.strip() != ""
    assert one("[](x)").plain.strip() != ""


def test_code_that_is_cut_is_code_on_both_sides() -> None:
    """C022: no fence is left open, for there are no fences."""
    code = "\n".join(f"line {number}" for number in range(900))
    parts = render(f"before\n\n```\n{code}\n```\n\nafter **all**", OutboundKind.REPLY)
    assert len(parts) == 3
    blocks = [element for part in parts for element in part.elements if element["type"] == "rich_text_preformatted"]
    assert "\n".join(block["elements"][0]["text"].strip("\n") for block in blocks) == code
    assert styled(parts[-1], "bold") == ["all"]


def test_an_answer_of_nine_thousand_characters_becomes_parts_that_fit() -> None:
    """C022"""
    text = "\n\n".join(f"Paragraph {number}: " + "words and 😀 more " * 20 for number in range(30))[:9000].rstrip()
    parts = render(text, OutboundKind.REPLY)
    assert len(parts) >= 3
    assert all(utf16_length(part.plain) <= PART_UNITS for part in parts)
    # White space at a border is dropped; no word is cut, lost or said twice.
    assert " ".join(part.plain for part in parts).split() == text.split()


def test_a_paragraph_that_fits_into_the_next_message_is_not_cut() -> None:
    first, second = " ".join(["one"] * 700), " ".join(["two"] * 700)
    parts = render(f"{first}\n\n{second}", OutboundKind.REPLY)
    assert [part.plain for part in parts] == [first, second]


def test_bold_that_is_cut_is_bold_on_both_sides() -> None:
    words = " ".join(f"word{number}" for number in range(800))
    first, second = render(f"**{words}**", OutboundKind.REPLY)
    assert "".join([*styled(first, "bold"), *styled(second, "bold")]) == words


def test_text_of_many_links_is_cut_by_what_its_blocks_take() -> None:
    text = " ".join(f"[n{number}](https://x.example/{'p' * 80}/{number})" for number in range(300))
    parts = render(text, OutboundKind.REPLY)
    assert all(len(json.dumps(part.elements)) < 12_500 for part in parts)
    links = [run["text"] for part in parts for run in runs(part) if run["type"] == "link"]
    assert links == [f"n{number}" for number in range(300)]
    items = render("\n".join(f"- **{number}** x" for number in range(300)), OutboundKind.REPLY)
    assert all(len(json.dumps(part.elements)) < 16_000 for part in items)
    assert len(items) > 1


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["word ", "**b** ", "😀", "`c` ", "\n\n", "\n- i", "漢字" * 50, "x" * 500, "\n```\nc\n```\n"])
    )
    .map("".join)
    .map(lambda text: text * 12),
    st.sampled_from(list(OutboundKind)),
)
def test_parts_fit_and_slack_takes_them(text: str, kind: OutboundKind) -> None:
    """C022 and C023: within the limits, no half characters, the same each time."""
    parts = render(text, kind)
    assert parts == render(text, kind)
    for part in parts:
        assert sum(utf16_length(run["text"]) for run in runs(part)) <= PART_UNITS
        shown = content(part)
        read_blocks(shown["blocks"])
        assert 0 < len(shown["text"].encode()) <= FALLBACK_BYTES
    if kind in WORD_FOR_WORD:
        assert "".join(run["text"] for part in parts for run in runs(part)).strip() == text.strip()


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(codec="utf-8"), max_size=6_000))
def test_the_text_beside_the_blocks_is_bounded_and_escaped(text: str) -> None:
    beside = fallback(text)
    assert len(beside.encode()) <= FALLBACK_BYTES
    assert "<" not in beside
    assert ">" not in beside
