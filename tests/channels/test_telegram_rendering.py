"""From a model's markdown to text and entities that the platform takes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.messages import OutboundKind
from channels.telegram.rendering import render
from channels.text import utf16_length
from tests.platforms.bot_api_rules import check_entities


def test_an_answer_of_nine_thousand_characters_becomes_parts_that_fit() -> None:
    """C022"""
    text = "\n\n".join(f"Paragraph {number}: " + "words and 😀 more " * 20 for number in range(30))[:9000]
    parts = render(text, OutboundKind.NOTICE)
    assert len(parts) >= 3
    assert all(utf16_length(part.text) <= 4096 for part in parts)
    assert "".join(part.text for part in parts) == text


def test_an_emoji_at_the_limit_stays_whole() -> None:
    """C023"""
    parts = render("x" * 4095 + "😀" + "tail", OutboundKind.REPLY)
    assert [part.text for part in parts] == ["x" * 4095, "😀tail"]


def test_formatting_across_a_border_goes_on_in_the_next_part() -> None:
    parts = render("😀 **" + "bold " * 900 + "end** plain", OutboundKind.REPLY)
    assert len(parts) == 2
    first, second = (part.entities[0] for part in parts)
    assert (first["type"], first["offset"]) == ("bold", 3)
    assert first["offset"] + first["length"] == utf16_length(parts[0].text)
    assert (second["type"], second["offset"]) == ("bold", 0)
    assert second["length"] == utf16_length(parts[1].text) - len(" plain")


def test_code_keeps_its_language_in_every_part() -> None:
    parts = render("```python\n" + "print(1)\n" * 800 + "```", OutboundKind.REPLY)
    assert len(parts) == 2
    assert [(part.entities[0]["type"], part.entities[0]["language"]) for part in parts] == [("pre", "python")] * 2


def test_a_list_of_many_links_keeps_them_all() -> None:
    """Telegram leaves out what comes after the hundredth entity of a message."""
    text = "\n".join(f"- [**page {number}** 😀](https://x.example/{number})" for number in range(130))
    parts = render(text, OutboundKind.REPLY)
    assert "".join(part.text for part in parts).count("page") == 130
    assert all(len(part.entities) <= 100 for part in parts)
    entities = [entity for part in parts for entity in part.entities]
    urls = [entity["url"] for entity in entities if entity["type"] == "text_link"]
    assert urls == [f"https://x.example/{number}" for number in range(130)]
    assert all(part.text.startswith("•") for part in parts)


def test_stretches_of_nothing_make_no_message() -> None:
    parts = render("a" + "\n" * 9000 + "b", OutboundKind.NOTICE)
    assert [part.text.strip() for part in parts] == ["a", "b"]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("Vec<String> and a<b>c</b>", "Vec<String> and a<b>c</b>"),
        ("<div>\nblock\n</div>\n\nafter", "<div>\nblock\n</div>\n\nafter"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("`a<b>` <https://x.example>", "a<b> https://x.example"),
        ("é😀 List<int> 漢", "é😀 List<int> 漢"),
        ("# Title\ntext", "Title\ntext"),
        ("- one\n- two", "• one\n• two"),
        ("[a]: http://x.example", "[a]: http://x.example"),
        ("a < b && c > d", "a < b && c > d"),
    ],
)
def test_no_word_of_an_answer_is_lost_to_markdown(markdown: str, shown: str) -> None:
    assert "\n".join(part.text.strip() for part in render(markdown, OutboundKind.REPLY)) == shown


@pytest.mark.parametrize("kind", [OutboundKind.REPLY, OutboundKind.NOTICE])
def test_nul_characters_and_lone_surrogates_do_not_go_out(kind: OutboundKind) -> None:
    assert [part.text for part in render("a\x00b\ud83dc", kind)] == ["ab\ufffdc"]


marks = (
    "word ", "**", "*", "_", "__", "~~", "`", "```", "```py\n", "\n", "\n\n", "- ", "1. ", "# ", "> ", "[a](",
    "https://x.example)", "<b>", "</b>", "<br>", "\\", "||", "| a | b |\n|--|--|\n", "😀", "👨\u200d👩\u200d👧", "é",
    "$x$", "\\(", "\\)", "![i](", "<!--", "&amp;", "[^1]", "- [x] ", "\t", "    ", "<tg-spoiler>", "</tg-spoiler>",
    "\x00", "\ud83d", "[a]: x\n",
)  # fmt: skip
markdown = st.lists(st.sampled_from(marks), max_size=60).map("".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine drawing is slow, too
@given(markdown, st.integers(20, 80))
def test_whatever_a_model_writes_becomes_parts_the_platform_takes(text: str, limit: int) -> None:
    parts = render(text, OutboundKind.REPLY, limit=limit)
    assert bool(parts) == bool(text.replace("\x00", "").strip())
    for part in parts:
        assert part.text.strip()
        assert utf16_length(part.text) <= limit
        assert len(part.entities) <= 100
        check_entities(part.text, list(part.entities))


def test_open_items_look_open_and_done_ones_done() -> None:
    (part,) = render("- [ ] tea\n- [x] milk", OutboundKind.REPLY)
    assert part.text.rstrip() == "☐ tea\n☑ milk"
