"""The order of roles: who may speak after whom, and that nothing anyone said is lost to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.governor import ContextGovernor, GovernorLimits
from bot.agent.governor_order import join_answers
from bot.agent.governor_rows import BRIDGE_TEXT, CALL_TEXT, OPENING_TEXT, TOOL_OUTPUT_TEXT
from bot.agent.tokens import estimate_message
from tests.support.conversations import calls, picture, result, said, user
from tests.support.strict_provider import violations

LIMITS = GovernorLimits(context_window_tokens=100_000, max_output_tokens=4_000)
BRIDGE = said(BRIDGE_TEXT)


def prepared(rows: list[Any], **options: Any) -> list[dict[str, Any]]:
    governed = ContextGovernor().prepare_for_model(rows, limits=LIMITS, **options)
    assert violations(governed) == []
    return governed


def test_messages_that_nobody_answered_stay_apart() -> None:
    pictured = user([{"type": "text", "text": "two"}, picture()])
    assert prepared([user("one"), pictured, user("three")]) == [user("one"), BRIDGE, pictured, BRIDGE, user("three")]


def test_a_reminders_text_and_an_answer_are_sent_as_one() -> None:
    rows = [user("hi"), said("hello"), said("Reminder: tea"), calls("a", content=""), result("a"), user("thanks")]
    joined = {**calls("a"), "content": "hello\n\nReminder: tea"}
    assert prepared(rows) == [user("hi"), joined, result("a"), BRIDGE, user("thanks")]


def test_answers_are_joined_also_when_they_were_seen_one_by_one() -> None:
    governor = ContextGovernor()
    rows = [user("hi"), said("hello"), said("Reminder: tea"), user("thanks")]
    for end in (2, 3, 4):
        governed = governor.prepare_for_model(rows[:end], limits=LIMITS, session_key="s")
        assert violations(governed) == []
        assert governed[1]["content"] == "\n\n".join(row["content"] for row in rows[1 : min(end, 3)])


def test_a_line_of_the_assistant_stands_between_results_and_a_person_who_joins() -> None:
    rows = [user("go"), calls("a"), result("a"), user("also this")]
    assert prepared(rows) == [user("go"), calls("a"), result("a"), BRIDGE, user("also this")]


def test_pictures_of_a_tool_stand_apart_from_results_and_words() -> None:
    output = user([{"type": "text", "text": TOOL_OUTPUT_TEXT}, picture()])
    rows = [user("look"), calls("a"), result("a", [picture()]), user("and?")]
    shown = result("a", "(picture, shown below)")
    assert prepared(rows) == [user("look"), calls("a"), shown, BRIDGE, output, BRIDGE, user("and?")]
    assert prepared([output, user("and?")]) == [user(OPENING_TEXT), BRIDGE, output, BRIDGE, user("and?")]


def test_a_person_who_joins_a_turn_does_not_end_it() -> None:
    names = [f"call-{number}" for number in range(6)]
    long = "w " * 7_000  # together more than a settled turn may keep
    governed = prepared([user("go"), calls(*names), *(result(name, long) for name in names), user("faster!")])
    assert [row["content"] for row in governed if row["role"] == "tool"] == [long] * 6
    assert prepared(governed) == governed


def test_a_bridge_that_was_stored_or_imitated_is_made_anew_where_it_belongs() -> None:
    assert prepared([user("hi"), BRIDGE, said("yes?"), BRIDGE, user("hello?")]) == [
        *(user("hi"), said("yes?"), user("hello?"))
    ]


def test_unanswered_messages_are_cut_one_by_one_when_they_do_not_fit() -> None:
    governed = ContextGovernor().prepare_for_model(
        [*(user(f"{number} " + "unanswered words " * 300) for number in range(60)), user("are you there?")],
        limits=GovernorLimits(context_window_tokens=8_000, max_output_tokens=1_000),
    )
    assert violations(governed, limit_tokens=5_976) == []
    assert governed[-1] == user("are you there?")
    assert len(governed) > 3


def test_a_hint_follows_everything_in_the_right_order_and_is_not_remembered() -> None:
    governor = ContextGovernor()
    rows = [user("go"), calls("a"), result("a")]

    def ask(hint: str) -> list[dict[str, Any]]:
        governed = governor.prepare_for_model(rows, limits=LIMITS, session_key="s", hint=hint)
        assert violations(governed) == []
        return governed

    assert ask("Answer now.") == [*rows, BRIDGE, user("Answer now.")]
    with_hint = governor.estimated_tokens("s")
    assert ask("") == rows
    assert with_hint is not None
    assert with_hint > (governor.estimated_tokens("s") or 0)
    rows = [user("go")]
    assert ask("Answer in words.") == [*rows, BRIDGE, user("Answer in words.")]
    rows = [user("go"), said("The first half")]
    assert ask("Go on.") == [*rows, user("Go on.")]


answers = st.builds(said, st.text(min_size=1, max_size=40))


@given(st.lists(st.one_of(answers, answers, st.just(user("hi")), st.just(said(CALL_TEXT))), max_size=8))
def test_joining_costs_no_tokens_and_leaves_no_neighbours(rows: list[dict[str, Any]]) -> None:
    before = repr(rows)
    joined = join_answers(rows)
    assert repr(rows) == before
    assert sum(map(estimate_message, joined)) <= sum(map(estimate_message, rows))
    assert not any(one["role"] == "assistant" == other["role"] for one, other in pairwise(joined))


def test_what_only_stands_for_words_gives_way_to_words() -> None:
    assert join_answers([said(CALL_TEXT), said("yes")]) == [said("yes")]
    assert join_answers([said("yes"), said(CALL_TEXT)]) == [said("yes")]
