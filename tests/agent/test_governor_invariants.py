"""The governor against any history: accepted, within budget, idempotent, inputs untouched, prefix exact."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.agent.governor import PASSES, ContextGovernor, GovernorLimits, govern
from bot.agent.governor_budget import MIN_ROWS_TOKENS
from bot.agent.governor_rows import is_request, is_tool_output
from bot.agent.tokens import estimate_message
from tests.support.conversations import calls, poisoned_row, poisoned_rows, result
from tests.support.strict_provider import violations

SLOW_MACHINE = settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
limits_of_any_size = st.builds(
    GovernorLimits,
    context_window_tokens=st.sampled_from([0, 1_500, 1_900, 2_600, 200_000]),
    max_output_tokens=st.sampled_from([0, 300]),
    replay_tokens=st.sampled_from([300, 900, 32_000]),
    tool_result_chars=st.sampled_from([600, 16_000]),
    preview_chars=st.sampled_from([50, 300]),
)


def budget_of(limits: GovernorLimits) -> int:
    return max(MIN_ROWS_TOKENS, limits.input_tokens)


def cost(rows: list[Any]) -> int:
    return sum(map(estimate_message, rows))


@SLOW_MACHINE
@given(poisoned_rows, limits_of_any_size, st.booleans())
def test_any_list_becomes_a_request_that_a_strict_provider_accepts_within_budget(
    rows: list[Any], limits: GovernorLimits, vision: bool
) -> None:
    before = copy.deepcopy(rows)
    governed = ContextGovernor().prepare_for_model(rows, limits=limits, vision=vision)
    assert violations(governed) == []
    assert violations([row for row in governed if row["role"] != "system"], limit_tokens=budget_of(limits)) == []
    assert repr(rows) == repr(before)
    orjson.dumps(governed)


@SLOW_MACHINE
@given(poisoned_rows, limits_of_any_size, st.booleans())
def test_governing_twice_changes_nothing(rows: list[Any], limits: GovernorLimits, vision: bool) -> None:
    governor = ContextGovernor()
    once = governor.prepare_for_model(rows, limits=limits, system="You help.", vision=vision)
    assert governor.prepare_for_model(once, limits=limits, system="You help.", vision=vision) == once


@SLOW_MACHINE
@given(poisoned_rows, limits_of_any_size)
def test_the_users_current_message_is_always_there(rows: list[Any], limits: GovernorLimits) -> None:
    governed = ContextGovernor().prepare_for_model([*rows, {"role": "user", "content": "and now?"}], limits=limits)
    assert governed[-1] == {"role": "user", "content": "and now?"}


@SLOW_MACHINE
@given(st.lists(poisoned_rows, min_size=1, max_size=5), limits_of_any_size)
def test_the_remembered_prefix_gives_what_the_nine_passes_give(chunks: list[list[Any]], limits: GovernorLimits) -> None:
    governor = ContextGovernor()
    rows: list[Any] = []
    for chunk in chunks:
        rows = [*rows, *chunk]
        remembered = governor.prepare_for_model(rows, limits=limits, system="", session_key="s")
        assert remembered == govern(rows, limits=limits, budget=budget_of(limits))


requests = st.fixed_dictionaries(
    {
        "limits": limits_of_any_size,
        "vision": st.booleans(),
        "shrink": st.sampled_from([1.0, 0.5, 0.1]),
        "tools_tokens": st.sampled_from([0, 400, 100_000]),
        "hint": st.sampled_from(["", "Answer now."]),
        "system": st.sampled_from(["", "You help.", "You help. " * 60]),
        "replay_fields": st.sampled_from([(), ("reasoning_content",)]),
    }
)
"""One request's terms; None in the test below stands for those of the request before."""


@SLOW_MACHINE
@given(st.lists(st.tuples(poisoned_rows, st.none() | requests), min_size=1, max_size=6), requests)
def test_whatever_changes_between_requests_the_prefix_gives_what_a_fresh_governor_gives(
    steps: list[tuple[list[Any], dict[str, Any] | None]], terms: dict[str, Any]
) -> None:
    governor = ContextGovernor()
    rows: list[Any] = []
    for chunk, changed in steps:
        rows = [*rows, *chunk]
        terms = changed or terms
        remembered = governor.prepare_for_model(rows, session_key="s", **terms)
        assert remembered == ContextGovernor().prepare_for_model(rows, **terms)
        assert violations(remembered, replay_fields=terms["replay_fields"]) == []
        remembered.clear()  # what is done to a request does not reach the prefix


@SLOW_MACHINE
@given(st.lists(poisoned_rows, min_size=2, max_size=4), limits_of_any_size, st.data())
def test_a_list_that_lost_rows_or_begins_later_is_governed_anew(
    chunks: list[list[Any]], limits: GovernorLimits, data: st.DataObject
) -> None:
    governor = ContextGovernor()
    rows = [row for chunk in chunks for row in chunk]
    governor.prepare_for_model(rows, limits=limits, system="", session_key="s")
    first = data.draw(st.integers(0, len(rows)))
    last = data.draw(st.integers(first, len(rows)))
    part = rows[first:last]
    again = governor.prepare_for_model(part, limits=limits, system="", session_key="s")
    assert repr(again) == repr(govern(part, limits=limits, budget=budget_of(limits)))


@SLOW_MACHINE
@given(poisoned_rows, st.integers(0, 8), limits_of_any_size)
def test_the_current_message_stays_while_its_turn_grows(rows: list[Any], steps: int, limits: GovernorLimits) -> None:
    rows = [*rows, {"role": "user", "content": "and now?"}]
    for step in range(steps):
        rows += [calls(f"step-{step}"), result(f"step-{step}", f"{step} " + "words " * 200)]
    governed = ContextGovernor().prepare_for_model(rows, limits=limits)
    said = [row["content"] for row in governed if row["role"] == "user" and not is_tool_output(row)]
    assert said[-1].startswith("and now?")  # perhaps with the note that steps were left out
    assert violations([row for row in governed if row["role"] != "system"], limit_tokens=budget_of(limits)) == []


@SLOW_MACHINE
@given(poisoned_rows, st.integers(0, 13), poisoned_row, limits_of_any_size)
def test_a_row_that_changed_since_is_noticed(
    rows: list[Any], position: int, other: Any, limits: GovernorLimits
) -> None:
    governor = ContextGovernor()
    governor.prepare_for_model(rows, limits=limits, system="", session_key="s")
    changed = list(rows)
    if position < len(changed):
        if isinstance(changed[position], dict) and isinstance(other, dict):
            changed[position].clear()
            changed[position].update(other)  # in place: the list still holds the same object
        else:
            changed[position] = other
    again = governor.prepare_for_model(changed, limits=limits, system="", session_key="s")
    assert repr(again) == repr(govern(changed, limits=limits, budget=budget_of(limits)))


@SLOW_MACHINE
@given(poisoned_rows, limits_of_any_size)
def test_each_pass_alone_takes_any_list_and_changes_no_input(rows: list[Any], limits: GovernorLimits) -> None:
    governor = ContextGovernor()
    before = repr(rows)
    for name in dict.fromkeys(PASSES):
        arguments: dict[str, Any] = {}
        if name in ("apply_tool_result_budget", "compact_inflight_overflow", "snip_history"):
            arguments["limits"] = limits
        if name in ("compact_inflight_overflow", "snip_history"):
            arguments["budget"] = MIN_ROWS_TOKENS
        once = getattr(governor, name)(rows, **arguments)
        assert isinstance(once, list)
        assert repr(rows) == before


@SLOW_MACHINE
@given(poisoned_rows, limits_of_any_size)
def test_no_row_that_was_not_a_leading_system_row_gains_the_systems_voice(
    rows: list[Any], limits: GovernorLimits
) -> None:
    rows = [{"role": "user", "content": "hello"}, *rows]
    governed = ContextGovernor().prepare_for_model(rows, limits=limits, system="You help.")
    assert [row["content"] for row in governed if row["role"] == "system"] == ["You help."]
    assert is_request(governed[1])
