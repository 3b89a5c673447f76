"""The governor against any history: accepted, within budget, idempotent, inputs untouched, prefix exact."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.agent.governor import PASSES, ContextGovernor, GovernorLimits, govern
from bot.agent.governor_budget import MIN_ROWS_TOKENS
from bot.agent.governor_rows import is_request
from bot.agent.tokens import estimate_message
from tests.support.conversations import poisoned_row, poisoned_rows
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
