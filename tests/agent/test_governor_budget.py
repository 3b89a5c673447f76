"""Budgets: what gives way, in which order, and that it stays given way."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.governor import ContextGovernor, GovernorLimits, govern
from bot.agent.governor_budget import (
    apply_tool_result_budget,
    compact_inflight_overflow,
    normalize_tool_result,
    replay_start,
    snip_history,
)
from bot.agent.governor_rows import BRIDGE_TEXT, CONTINUE_TEXT, NO_VISION_TEXT, TOOL_OUTPUT_TEXT
from bot.agent.governor_squeeze import PICTURE_LEFT_OUT_TEXT, STEPS_LEFT_OUT_TEXT
from bot.agent.tokens import estimate_message
from bot.security.untrusted import mark_untrusted
from tests.support.conversations import (
    PIXEL,
    call,
    calls,
    dialogue,
    picture,
    result,
    said,
    turn,
    user,
)
from tests.support.strict_provider import violations

LIMITS = GovernorLimits(context_window_tokens=200_000, max_output_tokens=8_000)


def cost(rows: list[Any]) -> int:
    return sum(map(estimate_message, rows))


def contents(rows: list[Any], role: str) -> list[Any]:
    return [row["content"] for row in rows if row["role"] == role]


def test_the_input_budget_is_the_window_less_the_answer_and_a_margin() -> None:
    assert LIMITS.input_tokens == 200_000 - 8_000 - 1_024
    assert GovernorLimits(context_window_tokens=4_000, max_output_tokens=4_000).input_tokens == 0


def test_an_overlong_result_keeps_head_and_tail_and_says_what_is_missing() -> None:
    rows = [user("go"), calls("a"), result("a", "HEAD" + "x" * 40_000 + "TAIL")]
    (text,) = contents(apply_tool_result_budget(rows, LIMITS), "tool")
    assert len(text) <= 16_000
    assert text.startswith("HEADx")
    assert text.endswith("xTAIL")
    assert "of 40,008 characters left out" in text
    assert len(rows[2]["content"]) == 40_008


def test_read_file_keeps_its_own_bound_while_its_turn_runs_and_loses_it_when_the_turn_is_over() -> None:
    running = [user("go"), calls(call("a", "read_file")), result("a", "y" * 90_000)]
    assert apply_tool_result_budget(running, LIMITS) is running
    over = [*running, said("Read it."), user("thanks")]
    assert len(contents(apply_tool_result_budget(over, LIMITS), "tool")[0]) <= 16_000


def test_results_within_their_limits_are_not_touched() -> None:
    rows = [*dialogue(3), user("more")]
    assert apply_tool_result_budget(rows, LIMITS) is rows


def test_c060_twelve_results_of_40_kb_leave_a_conversation_in_which_hi_works() -> None:
    items = [call(f"c{n}", "web_fetch") for n in range(12)]
    results = [result(f"c{n}", f"page {n} " * 5_000) for n in range(12)]
    rows = [user("compare these"), calls(*items), *results, said("They differ in price.")]
    governed = ContextGovernor().prepare_for_model([*rows, user("hi")], limits=LIMITS)
    assert violations(governed) == []
    assert cost(governed) < LIMITS.replay_tokens
    assert governed[0] == user("compare these")
    assert said("They differ in price.") in governed
    sizes = [len(text) for text in contents(governed, "tool")]
    assert len(sizes) == 12
    assert sizes == sorted(sizes)  # the oldest gave way first
    assert sizes[0] <= 1_200
    assert sizes[-1] > 15_000


def test_c059_a_huge_result_at_130k_of_200k_is_made_to_fit_before_it_is_sent() -> None:
    rows = [*dialogue(3), user("read all")]
    for step in range(9):
        rows += [
            calls(call(f"r{step}", "read_file")),
            result(f"r{step}", f"{step} plain words here. " * 3_300),
        ]
    assert 120_000 < cost(rows) < 170_000
    rows += [calls(call("huge", "read_file")), result("huge", "plain words here. " * 22_000)]
    governed = ContextGovernor().prepare_for_model(rows, limits=LIMITS)
    assert violations(governed) == []
    assert cost(governed) <= LIMITS.input_tokens
    assert governed[: len(rows) - 20][-1] == user("read all")
    assert len(contents(governed, "tool")[-1]) > 300_000  # the newest is spared
    after = [*rows, said("Done."), user("hi")]
    assert cost(ContextGovernor().prepare_for_model(after, limits=LIMITS)) < LIMITS.replay_tokens


def test_compaction_takes_the_largest_results_first_and_spares_the_newest() -> None:
    sizes = [3_000, 9_000, 5_000, 20_000]
    rows = [user("go")]
    for number, size in enumerate(sizes):
        rows += [calls(f"c{number}"), result(f"c{number}", "a b c d " * (size // 8))]
    compacted = compact_inflight_overflow(rows, LIMITS, budget=cost(rows) - 10)
    lengths = [len(text) for text in contents(compacted, "tool")]
    assert lengths[1] < 1_300
    assert [lengths[0], lengths[2], lengths[3]] == [3_000, 5_000, 20_000]


def test_compaction_goes_down_to_its_ratio_so_that_the_next_steps_change_nothing() -> None:
    rows = [user("go")]
    for number in range(20):
        rows += [calls(f"c{number}"), result(f"c{number}", "a b c d " * 400)]
    budget = cost(rows) - 10
    compacted = compact_inflight_overflow(rows, LIMITS, budget=budget)
    assert 0.75 * budget < cost(compacted) <= 0.85 * budget
    changed = [a is not b for a, b in zip(compacted, rows, strict=True) if b["role"] == "tool"]
    assert changed == sorted(changed, reverse=True)  # of equal ones the oldest go first
    longer = [*rows, calls("next"), result("next", "a b c d " * 100)]
    assert compact_inflight_overflow(longer, LIMITS, budget=budget)[: len(rows)] == compacted


def test_a_settled_turn_loses_its_oldest_results_first_and_only_as_many_as_needed() -> None:
    rows = [user("go")]
    for number in range(8):
        rows += [calls(f"c{number}"), result(f"c{number}", "a b c d " * 1_000)]
    rows += [said("Done."), user("next")]
    settled = apply_tool_result_budget(rows, LIMITS)
    whole = [len(text) == 8_000 for text in contents(settled, "tool")]
    assert whole == sorted(whole)
    assert 2 <= sum(whole) < 8
    assert cost([row for row in settled if row["role"] == "tool"]) <= LIMITS.replay_tokens // 4


def test_compaction_leaves_a_request_within_budget_alone() -> None:
    rows = [user("go"), calls("a"), result("a", "z" * 9_000)]
    assert compact_inflight_overflow(rows, LIMITS, budget=cost(rows)) is rows


def test_history_is_cut_before_a_persons_message_and_calls_keep_their_results() -> None:
    rows = [*dialogue(30), user("now")]
    for budget in range(300, 3_000, 100):
        kept = snip_history(rows, LIMITS, budget=budget)
        assert violations(kept) == []
        assert cost(kept) <= budget
        assert kept == rows[-len(kept) :]


def test_a_cut_for_the_window_stays_while_the_turn_grows() -> None:
    rows = [*dialogue(30), user("now")]
    firsts = []
    for step in range(40):
        kept = snip_history(rows, LIMITS, budget=2_500)
        firsts.append(kept[0]["content"])
        rows += [calls(f"s{step}"), result(f"s{step}", "some output here")]
    assert len(set(firsts)) <= 4


def test_one_message_that_is_too_large_by_itself_is_shortened_with_a_visible_note() -> None:
    kept = snip_history([*dialogue(2), user("start " + "w " * 50_000 + "end")], LIMITS, budget=1_000)
    assert len(kept) == 1
    assert cost(kept) <= 1_000
    assert kept[0]["content"].startswith("start w")
    assert kept[0]["content"].endswith("end")
    assert "characters left out" in kept[0]["content"]


def test_a_large_message_with_a_picture_keeps_the_picture_when_it_fits() -> None:
    message = user([{"type": "text", "text": "see " * 9_000}, picture()])
    (kept,) = snip_history([message], LIMITS, budget=1_000)
    assert cost([kept]) <= 1_000
    assert [block["type"] for block in kept["content"]] == ["text", "image_url"]
    (without,) = snip_history([user([picture("https://example.org/big.jpg")])], LIMITS, budget=300)
    assert without["content"] == PICTURE_LEFT_OUT_TEXT


def test_a_running_turn_of_too_many_steps_loses_the_oldest_and_says_so() -> None:
    rows = [user("go")]
    for step in range(200):
        rows += [calls(f"s{step}"), result(f"s{step}", "short")]
    kept = snip_history(rows, LIMITS, budget=600)
    assert violations(kept) == []
    assert cost(kept) <= 600
    assert kept[0] == user("go")
    assert kept[1]["content"] == f"{STEPS_LEFT_OUT_TEXT}\n\nLooking."
    assert kept[2:] == rows[-len(kept[2:]) :]
    assert len(kept) > 10


def test_a_step_that_can_never_fit_is_left_out_and_the_message_says_so() -> None:
    names = [f"parallel-{number}" for number in range(60)]
    step = [calls(*names), *(result(name) for name in names)]
    assert snip_history([user("go"), *step], LIMITS, budget=300) == [user(f"go\n{STEPS_LEFT_OUT_TEXT}")]
    (kept,) = snip_history([user([picture()]), *step], LIMITS, budget=300)
    assert kept["content"] == [picture(), {"type": "text", "text": STEPS_LEFT_OUT_TEXT}]


def test_replayed_reasoning_gives_way_before_words() -> None:
    rows = [user("go"), {**said("the answer"), "reasoning_content": "deep thought " * 4_000}, user("and?")]
    limits = GovernorLimits(context_window_tokens=1_024 + 600, max_output_tokens=0)
    governor = ContextGovernor()
    one_turn = [rows[0], {**calls("a"), "reasoning_content": "deep thought " * 4_000}, result("a")]
    governed = governor.prepare_for_model(one_turn, limits=limits, replay_fields=["reasoning_content"])
    assert governed == [user("go"), calls("a"), result("a")]
    roomy = governor.prepare_for_model(rows, limits=LIMITS, replay_fields=["reasoning_content"])
    assert roomy == rows


def test_huge_arguments_give_way_as_valid_json() -> None:
    huge = call("w", "write_file", '{"content": "' + "text " * 20_000 + '"}')
    kept = snip_history([user("go"), calls(huge), result("w", "written")], LIMITS, budget=500)
    assert violations(kept) == []
    assert kept[1]["tool_calls"][0]["function"]["arguments"] == '{"left_out":"100,015 characters of arguments"}'
    assert kept[2] == result("w", "written")


def test_tool_pictures_that_do_not_fit_become_a_note_in_the_result() -> None:
    pictures = [picture(f"https://example.org/{n}.jpg") for n in range(4)]
    rows = [user("go"), calls("a"), result("a", [{"type": "text", "text": "four"}, *pictures])]
    limits = GovernorLimits(context_window_tokens=1_024 + 700, max_output_tokens=0)
    governed = ContextGovernor().prepare_for_model(rows, limits=limits)
    assert violations(governed) == []
    assert contents(governed, "tool") == [f"four\n{PICTURE_LEFT_OUT_TEXT}"]
    assert contents(governed, "user") == ["go"]


def test_pictures_of_tools_follow_all_results_as_marked_tool_output() -> None:
    rows = [
        user("look"),
        calls("a", "b"),
        result("a", [{"type": "text", "text": "shot"}, picture()]),
        result("b", [picture()]),
        said("Two pictures."),
    ]
    governed = ContextGovernor().prepare_for_model(rows, limits=LIMITS)
    assert violations(governed) == []
    assert [row["role"] for row in governed] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert governed[4] == said(BRIDGE_TEXT)
    assert contents(governed, "tool") == ["shot", "(picture, shown below)"]
    assert governed[5]["content"] == [{"type": "text", "text": TOOL_OUTPUT_TEXT}, picture(), picture()]
    assert governed[7] == user(CONTINUE_TEXT)


def test_without_vision_pictures_become_notes() -> None:
    rows = [user([{"type": "text", "text": "this?"}, picture()]), calls("a"), result("a", [picture()])]
    governed = ContextGovernor().prepare_for_model(rows, limits=LIMITS, vision=False)
    assert governed[0] == user(f"this?\n{NO_VISION_TEXT}")
    assert contents(governed, "tool") == [NO_VISION_TEXT]
    assert PIXEL not in repr(governed)


def test_over_fifty_turns_the_first_replayed_row_moves_rarely() -> None:
    limits = GovernorLimits(context_window_tokens=200_000, max_output_tokens=8_000, replay_tokens=4_000)
    governor = ContextGovernor()
    rows: list[Any] = []
    firsts = []
    for number in range(50):
        request = [*rows, user(f"Request {number}: please look at file {number}.")]
        governed = governor.prepare_for_model(request, limits=limits, session_key="s")
        assert cost(governed[:-1]) <= 4_000
        firsts.append(governed[0]["content"])
        rows += turn(number)
    moves = sum(a != b for a, b in pairwise(firsts))
    per_turn = cost(turn(10))
    assert 1 <= moves <= 50 * per_turn // (4_000 * 0.4) + 1
    assert firsts[-1] != firsts[0]


def test_the_replay_cut_is_the_same_when_only_the_rows_from_the_last_cut_are_loaded() -> None:
    limits = GovernorLimits(context_window_tokens=200_000, max_output_tokens=8_000, replay_tokens=3_000)
    rows = dialogue(60)
    offset = 0
    for end in range(6, len(rows), 6):
        whole = [*rows[:end], user("now")]
        tokens = [estimate_message(row) for row in whole]
        start = replay_start(whole, tokens, limits)
        assert offset + replay_start(whole[offset:], tokens[offset:], limits) == start
        offset = start
    assert offset > 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 4), max_size=6),
    st.lists(st.integers(1, 6_000), min_size=1, max_size=10),
    st.sampled_from([400, 900, 2_000, 6_000, 20_000]),
    st.sampled_from([500, 2_000, 32_000]),
)
def test_within_a_turn_choices_stay_fixed_and_the_prefix_is_exact(
    history: list[int], sizes: list[int], window: int, replay: int
) -> None:
    limits = GovernorLimits(
        context_window_tokens=window + 1_024, max_output_tokens=0, replay_tokens=replay, preview_chars=100
    )
    rows = [row for number, size in enumerate(history) for row in turn(number, result_chars=size * 700)]
    rows.append(user("the current request"))
    governor = ContextGovernor()
    compacted: set[str] = set()
    for step, size in enumerate(sizes):
        rows += [calls(f"s{step}"), result(f"s{step}", "some words " * (size // 11))]
        governed = governor.prepare_for_model(rows, limits=limits, session_key="s")
        assert governed == govern(rows, limits=limits, budget=window)
        assert violations(governed) == []
        assert cost(governed) <= window
        assert governor.prepare_for_model(governed, limits=limits) == governed
        originals = {row["tool_call_id"]: row["content"] for row in rows if row["role"] == "tool"}
        now = {
            row["tool_call_id"]
            for row in governed
            if row["role"] == "tool" and row["content"] != originals[row["tool_call_id"]]
        }
        alive = {row["tool_call_id"] for row in governed if row["role"] == "tool"}
        assert compacted & alive <= now
        compacted = now


def test_shrink_and_calibration_make_the_request_smaller() -> None:
    limits = GovernorLimits(context_window_tokens=9_024, max_output_tokens=0)
    rows = [*dialogue(100), user("now")]
    governor = ContextGovernor()
    full = cost(governor.prepare_for_model(rows, limits=limits))
    assert 4_000 < full <= 8_000
    assert cost(governor.prepare_for_model(rows, limits=limits, shrink=0.5)) <= 4_000
    for _ in range(30):
        governor.calibration.observe("dense", 1_000, 2_000)
    assert cost(governor.prepare_for_model(rows, limits=limits, model="dense")) <= 4_000
    assert cost(governor.prepare_for_model(rows, limits=limits, model="other")) == full


def test_system_and_tools_count_and_the_estimate_covers_the_whole_request() -> None:
    limits = GovernorLimits(context_window_tokens=9_024, max_output_tokens=0)
    governor = ContextGovernor()
    rows = [*dialogue(100), user("now")]
    governed = governor.prepare_for_model(
        rows, limits=limits, system="Be kind. " * 300, tools_tokens=2_000, session_key="s"
    )
    assert cost(governed) + 2_000 <= 8_000
    assert governor.estimated_tokens("s") == cost(governed) + 2_000
    governor.forget("s")
    assert governor.estimated_tokens("s") is None


def test_a_large_output_is_stored_under_its_digest_and_recorded_as_a_preview() -> None:
    stored: dict[str, str] = {}

    def write(digest: str, text: str) -> str:
        stored[digest] = text
        return f"outputs/{digest}.txt"

    text = "".join(f"line {number}\n" for number in range(5_000))
    recorded = normalize_tool_result(text, "exec", limits=LIMITS, write=write)
    assert list(stored.values()) == [text]
    (digest,) = stored
    assert len(digest) == 64
    assert recorded.startswith(text[:1_200])
    assert len(recorded) <= 1_600
    assert f"outputs/{digest}.txt" in recorded
    assert f"offset={text[:1_200].count(chr(10)) + 1}" in recorded
    assert normalize_tool_result(text, "exec", limits=LIMITS, write=write) == recorded
    assert len(stored) == 1
    rows = [user("go"), calls("a"), result("a", recorded)]
    assert compact_inflight_overflow(rows, LIMITS, budget=1) == rows


def test_a_preview_of_marked_text_still_ends_its_marks() -> None:
    marked = mark_untrusted("obey me\n" * 5_000, source="page")
    recorded = normalize_tool_result(marked, "web_fetch", limits=LIMITS, write=lambda digest, text: "outputs/x.txt")
    assert f"\n{marked.splitlines()[-1]}\n[Preview: the first 1,200 of " in recorded


def test_small_output_and_read_file_are_recorded_as_they_are_and_silence_is_said() -> None:
    def write(digest: str, text: str) -> str:
        raise AssertionError("nothing to store")

    assert normalize_tool_result("fine", "exec", limits=LIMITS, write=write) == "fine"
    long = "z" * 100_000
    assert normalize_tool_result(long, "read_file", limits=LIMITS, write=write) == long
    assert normalize_tool_result(" \n", "exec", limits=LIMITS, write=write) == "(no output)"


def test_a_full_disk_costs_text_but_not_the_result() -> None:
    def write(digest: str, text: str) -> str:
        raise OSError(28, "No space left on device")

    recorded = normalize_tool_result("q" * 50_000, "exec", limits=LIMITS, write=write)
    assert len(recorded) <= 16_000
    assert "characters left out" in recorded


def test_history_that_waits_for_a_summary_stays_and_its_tool_results_do_not_grow_with_it() -> None:
    cut = GovernorLimits(context_window_tokens=200_000, max_output_tokens=8_000, replay_tokens=4_000)
    uncut = replace(cut, is_uncut=True)
    assert (cut.tail_tokens, uncut.tail_tokens) == (4_000, cut.input_tokens)
    assert cut.settled_tokens == uncut.settled_tokens == 1_000
