"""What of a reply is shown when the model writes its reasoning into the text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.providers.think_tags import ThinkTags


def split(*chunks: str) -> ThinkTags:
    tags = ThinkTags()
    for chunk in chunks:
        tags.feed(chunk)
    tags.finish()
    return tags


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain answer, 1 < 2 and `a`", "plain answer, 1 < 2 and `a`"),
        ("<think>plan</think>Hi", "Hi"),
        ("<think>plan</think>\n\nHi", "Hi"),
        ("  <thinking>plan</thinking> Hi", "Hi"),
        ("<reasoning>plan</reasoning>Hi", "Hi"),
        ('<think effort="high">plan</think>Hi', "Hi"),
        ("<THINK>plan</Think>Hi", "Hi"),
        ("<think>plan</thinking>Hi", "Hi"),
        ("<think>plan without end tag <final>Hi</final>", "Hi"),
        ("<think>plan</think><final>Hi</final>", "Hi"),
        ("<final>Hi</final>", "Hi"),
        ("<think>plan without any end", ""),
        ("Let me see. <think>plan</think>It is 4.", "Let me see. It is 4."),
        ("<think>a</think>one <think>b</think>two", "one two"),
        ("the plan, its tag was in the prompt\n</think>\n\nHi", "Hi"),
        ("<think>I close with `</think>` here.\nMore plan</think>Hi", "Hi"),
        ("<think>a <think> nested</think> plan</think>Hi", "Hi"),
        ("Write `<think>x</think>` to begin.", "Write `<think>x</think>` to begin."),
        ("Use:\n```xml\n<think>x</think>\n```\nDone", "Use:\n```xml\n<think>x</think>\n```\nDone"),
        ("1. Use:\n   ~~~\n   <think>\n   ~~~\n<think>plan</think>", "1. Use:\n   ~~~\n   <think>\n   ~~~\n"),
        ("```\n<think>x</think>\n```\n<think>plan</think>Hi", "```\n<think>x</think>\n```\nHi"),
        ("a lone ` tick\n<think>plan</think>Hi", "a lone ` tick\nHi"),
        ("```one line``` <think>plan</think>Hi", "```one line``` Hi"),
        ("close it with </think> at the end", "close it with </think> at the end"),
        ("a <final> word", "a <final> word"),
        ("<thinker> and <b>bold</b>", "<thinker> and <b>bold</b>"),
        ("<thought>plan</thought>Hi", "Hi"),
        ("<thoughts>plan</thoughts>Hi", "Hi"),
        ("<reflection>plan</reflection>Hi", "Hi"),
        ("<antThinking>plan</antThinking>Hi", "Hi"),
        ("<seed:think>plan</seed:think>Hi", "Hi"),
        ("[THINK]plan[/THINK]Hi", "Hi"),
        ("[think] is a word", "[think] is a word"),
        ("◁think▷plan◁/think▷Hi", "Hi"),
        ("<|START_THINKING|>plan<|END_THINKING|>Hi", "Hi"),
        ("<|begin_of_thought|>plan<|end_of_thought|>Hi", "Hi"),
        ("its tag was in the prompt.</think>\n\nHi", "Hi"),
        ("its tag was in the prompt</think>Hi", "Hi"),
        ("its tag was in the prompt. </think>\nHi", "Hi"),
        ("plan [/THINK]\nHi", "Hi"),
        ("plan\n</think>Hi <think>more</think>you", "Hi you"),
        ("the tag '</think>' closes it", "the tag '</think>' closes it"),
    ],
)
def test_reasoning_in_tags_is_never_shown_and_nothing_else_is_lost(written: str, shown: str) -> None:
    assert split(written).text == shown


def test_hidden_reasoning_is_kept_apart() -> None:
    assert split("<think>plan</think>Hi <think>more</think>you").reasoning == "planmore"


def test_a_tag_split_over_two_chunks_is_still_a_tag() -> None:
    tags = ThinkTags()
    seen = []
    for chunk in ("<th", "ink>plan wit", "hout end tag <fi", "nal>Hi", "</fin", "al>"):
        tags.feed(chunk)
        seen.append(tags.text)
    tags.finish()
    assert seen == ["", "", "", "Hi", "Hi", "Hi"]
    assert tags.text == "Hi"


def test_a_lone_angle_bracket_at_the_end_is_shown() -> None:
    assert split("1 ", "<").text == "1 <"


def test_reasoning_that_quotes_its_own_tag_is_not_shown_while_it_comes_either() -> None:
    """Nested blocks end at their first closing tag; what follows may still be reasoning."""
    tags = ThinkTags()
    seen = []
    for chunk in ("<think>a <think>b</think> still the plan", " and more</think>", "Hi", " you"):
        tags.feed(chunk)
        seen.append(tags.shown)
    tags.finish()
    assert seen == ["", "", "Hi", "Hi you"]
    assert tags.shown == tags.text == "Hi you"


def test_after_a_quoted_tag_an_answer_without_another_closing_tag_is_shown_at_its_end() -> None:
    tags = ThinkTags()
    tags.feed("<think>they ask about <think> tags</think>They hide")
    assert tags.shown == ""
    assert not tags.settled
    tags.finish()
    assert tags.shown == "They hide"


def test_an_endpoint_known_to_leave_out_the_opening_tag_shows_no_reasoning_on_the_way() -> None:
    tags = ThinkTags(unopened=True)
    tags.feed("the plan\n")
    assert (tags.shown, tags.settled) == ("", False)
    tags.feed("</think>Hi")
    assert (tags.shown, tags.settled, tags.closed_unopened) == ("Hi", True, True)


def test_such_an_endpoint_that_did_not_think_loses_nothing() -> None:
    tags = ThinkTags(unopened=True)
    tags.feed("Hi")
    tags.finish()
    assert (tags.shown, tags.closed_unopened) == ("Hi", False)


PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<final>",
        "</final>",
        "<reasoning>",
        "</seed:think>",
        "[THINK]",
        "[/THINK]",
        "<|END_THINKING|>",
        "`",
        "```",
        "\n",
        "  ",
        "~~~",
        "a",
        "<",
        "/",
        ">",
        "th",
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join), st.lists(st.integers(1, 5), max_size=40))
def test_where_chunks_are_cut_changes_nothing(text: str, sizes: list[int]) -> None:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(text[at : at + size])
        at += size
    chunks.append(text[at:])
    whole = split(text)
    parts = split(*chunks)
    assert (parts.text, parts.reasoning) == (whole.text, whole.reasoning)


@given(st.lists(PIECES, max_size=10).map("".join), st.lists(st.integers(1, 4), max_size=40), st.booleans())
def test_what_is_shown_on_the_way_never_holds_what_a_tag_opened_hides(
    text: str, sizes: list[int], unopened: bool
) -> None:
    tags, at = ThinkTags(unopened=unopened), 0
    for size in sizes:
        tags.feed(text[at : at + size])
        at += size
        assert tags.text.startswith(tags.shown)
    tags.feed(text[at:])
    tags.finish()
    assert tags.shown == tags.text


@pytest.mark.parametrize("text", ["`" * 60_000 + "x", "a line of an answer\n" * 80_000])
def test_a_long_reply_in_one_piece_takes_time_by_its_length_and_not_by_its_square(text: str) -> None:
    """It is read between other chats' events; by its square either would take from 15 s to a minute."""
    begun_s = time.process_time()
    assert split(text).text == text
    assert time.process_time() - begun_s < 3
