"""From a model's markdown to what Discord shows, and word for word where it must be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.messages import OutboundKind
from channels.discord.drafts import draft_text
from channels.discord.rendering import TEXT_LIMIT, escape, render


def test_an_answer_of_nine_thousand_characters_becomes_parts_that_fit() -> None:
    """C022"""
    text = "\n\n".join(f"Paragraph {number}: " + "words and 😀 more " * 20 for number in range(30))[:9000]
    parts = render(text, OutboundKind.REPLY)
    assert len(parts) >= 5
    assert all(len(part) <= TEXT_LIMIT for part in parts)
    assert "".join(parts) == text


def test_an_emoji_at_the_limit_stays_whole_and_counts_one() -> None:
    """C023: Discord counts code points."""
    assert render("x" * 1999 + "😀" + "tail", OutboundKind.REPLY) == ["x" * 1999 + "😀", "tail"]
    family = "👨‍👩‍👧"
    assert render("x" * 1998 + family + "tail", OutboundKind.REPLY) == ["x" * 1998, f"{family}tail"]


def test_code_is_closed_and_opened_again_at_a_border() -> None:
    parts = render("```python\n" + "print(1)\n" * 500 + "```", OutboundKind.REPLY)
    assert len(parts) == 3
    assert all(part.startswith("```python\n") and part.rstrip().endswith("```") for part in parts)


def test_a_table_becomes_fixed_width_text() -> None:
    """C039, as far as it is Discord's."""
    table = "before\n\n| name | cost |\n|---|--:|\n| **tea** `x` | 2 |\n| [漢字](https://x.example) | 10 |\n\nafter"
    assert render(table, OutboundKind.REPLY) == [
        "before\n\n```\nname  │ cost\n──────┼─────\ntea x │    2\n漢字  │   10\n```\n\nafter"
    ]


def test_one_long_cell_does_not_make_a_flood_of_a_table() -> None:
    table = "| a | b |\n|---|---|\n| " + "y" * 3000 + " | z |\n" + "| x | y |\n" * 500
    assert sum(map(len, render(table, OutboundKind.REPLY))) < 50_000


def test_a_table_of_code_stays_as_it_is() -> None:
    code = "```\n| a | b |\n|---|---|\n```"
    assert render(code, OutboundKind.REPLY) == [code]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** [a](https://x.example) a<b &", "**bold** [a](https://x.example) a<b &"),
        ("# One\n### Three\ntext", "# One\n### Three\ntext"),
        ("#### Four\ntext", "**Four**\ntext"),
        ("##### Five **bold**\n", "Five **bold**\n"),
        ("![a cat](https://x.example/cat.png)", "[a cat](https://x.example/cat.png)"),
        ("![](https://x.example/cat.png)", "https://x.example/cat.png"),
        ("- [ ] tea\n- [x] milk", "- ☐ tea\n- ☑ milk"),
        ("one\n\n---\n\ntwo", "one\n\n\\_\\_\\_\n\ntwo"),
        ("||spoiler|| and ~~gone~~", "||spoiler|| and ~~gone~~"),
    ],
)
def test_what_discord_would_show_raw_is_written_in_its_way(markdown: str, shown: str) -> None:
    assert render(markdown, OutboundKind.REPLY) == [shown]


@pytest.mark.parametrize("kind", [OutboundKind.REMINDER, OutboundKind.NOTICE])
def test_reminders_and_notices_are_escaped(kind: OutboundKind) -> None:
    text = "buy **2** _eggs_ <@111> [now](x) `y`\n- one\n1. two\n> three\n# four\n-# five"
    assert render(text, kind) == [
        "buy \\*\\*2\\*\\* \\_eggs\\_ \\<@111> \\[now\\](x) \\`y\\`\n\\- one\n1\\. two\n\\> three\n\\# four\n\\-# five"
    ]


def test_addresses_are_not_escaped_since_the_backslash_would_belong_to_them() -> None:
    assert escape("see https://x.example/a_b_c*d, *now*") == "see https://x.example/a_b_c*d, \\*now\\*"


def test_stretches_of_nothing_make_no_message() -> None:
    assert render(" \n ", OutboundKind.REPLY) == []
    assert [part.strip() for part in render("a" + "\n" * 9000 + "b", OutboundKind.NOTICE)] == ["a", "b"]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab *_`~|\\<>#-1.\n\t[]()é😀", max_size=300), st.integers(20, 60))
def test_word_for_word_text_reads_the_same_whatever_it_holds(text: str, limit: int) -> None:
    parts = render(text, OutboundKind.REMINDER, limit=limit)
    assert all(len(part) <= limit for part in parts)
    shown = "".join(re.sub(r"\\([^0-9A-Za-z\s])", r"\1", part) for part in parts)
    assert shown.split() == text.split()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab*|-\n` é#![]()", max_size=200))
def test_no_markdown_breaks_the_rendering(text: str) -> None:
    parts = render(text * 20, OutboundKind.REPLY)
    assert all(part.strip() and len(part) <= TEXT_LIMIT for part in parts)


def test_a_draft_shows_its_first_message_and_closes_an_open_block() -> None:
    assert draft_text("so:\n```python\nprint(1") == "so:\n```python\nprint(1\n```"
    assert draft_text("so:\n```python\nprint(1)\n```\ndone") == "so:\n```python\nprint(1)\n```\ndone"
    long = "word " * 1000
    assert draft_text(long) == render(long, OutboundKind.REPLY)[0]
    assert draft_text("  ") == ""
