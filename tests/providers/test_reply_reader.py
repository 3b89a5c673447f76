"""Replies of many endpoints, read as one."""

from __future__ import annotations

from typing import Any

import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply
from bot.messages import Usage
from bot.providers.reply_reader import ReplyReader

Json = dict[str, Any]


def chunk(delta: Json | None = None, finish: str | None = None, **fields: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}


def call(**fields: Any) -> Json:
    return chunk({"tool_calls": [fields]})


def stream(*chunks: Json, ended: bool = True) -> ModelReply:
    reader = ReplyReader()
    for item in chunks:
        reader.feed(item)
    return reader.reply(ended=ended)


def whole(message: Json, finish: str | None = "stop", **fields: Any) -> ModelReply:
    return ReplyReader().read({"choices": [{"message": message, "finish_reason": finish}], **fields})


def calls_of(reply: ModelReply) -> list[tuple[str, str, str]]:
    return [(item.id, item.name, item.arguments) for item in reply.tool_calls]


def kind_of(*chunks: Json, ended: bool = True) -> ProviderErrorKind:
    with pytest.raises(ProviderError) as caught:
        stream(*chunks, ended=ended)
    return caught.value.kind


def test_empty_choices_null_deltas_and_a_missing_finish_reason_lose_no_text() -> None:
    reply = stream(
        {"choices": []},
        chunk({"role": "assistant", "content": ""}),
        chunk(None),
        chunk({"content": "Good "}),
        chunk({"content": None}),
        chunk({"content": "morning"}),
        {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}},
    )
    assert reply.text == "Good morning"
    assert reply.finish_reason == "stop"
    assert reply.usage == Usage(input_tokens=12, output_tokens=3)


def test_a_call_in_one_chunk_and_a_call_in_many_are_the_same() -> None:
    one = stream(
        call(index=0, id="c1", function={"name": "cron", "arguments": '{"action": "list"}'}),
        chunk({}, "tool_calls"),
    )
    many = stream(
        call(index=0, id="c1", type="function", function={"name": "cron", "arguments": ""}),
        call(index=0, function={"arguments": '{"action"'}),
        call(index=0, function={"arguments": ': "list"}'}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(one) == calls_of(many) == [("c1", "cron", '{"action": "list"}')]
    assert one.finish_reason == "tool_calls"


def test_parallel_calls_may_arrive_interleaved() -> None:
    reply = stream(
        call(index=0, id="a", function={"name": "one", "arguments": '{"x'}),
        call(index=1, id="b", function={"name": "two", "arguments": '{"y'}),
        call(index=0, function={"arguments": '": 1}'}),
        call(index=1, function={"arguments": '": 2}'}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(reply) == [("a", "one", '{"x": 1}'), ("b", "two", '{"y": 2}')]


def test_calls_without_index_are_told_apart_by_id() -> None:
    reply = stream(
        call(id="a", function={"name": "one", "arguments": '{"x'}),
        call(id="a", function={"arguments": '": 1}'}),
        call(id="b", function={"name": "one", "arguments": "{}"}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(reply) == [("a", "one", '{"x": 1}'), ("b", "one", "{}")]


def test_calls_that_all_have_index_zero_are_told_apart() -> None:
    reply = stream(
        call(index=0, id="a", function={"name": "one", "arguments": "{}"}),
        call(index=0, id="b", function={"name": "one", "arguments": "{}"}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(reply) == [("a", "one", "{}"), ("b", "one", "{}")]


def test_calls_without_ids_get_ids_of_their_own() -> None:
    reply = stream(
        call(function={"name": "one", "arguments": '{"x": 1}'}),
        call(function={"name": "one", "arguments": '{"x": 2}'}),
        chunk({}, "tool_calls"),
    )
    assert [item.arguments for item in reply.tool_calls] == ['{"x": 1}', '{"x": 2}']
    ids = {item.id for item in reply.tool_calls}
    assert len(ids) == 2
    assert all(item.startswith("call-") for item in ids)


def test_a_name_repeated_in_each_chunk_is_taken_once() -> None:
    reply = stream(
        call(index=0, id="a", function={"name": "one", "arguments": "{"}),
        call(index=0, id="a", function={"name": "one", "arguments": "}"}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(reply) == [("a", "one", "{}")]


def test_arguments_given_as_an_object_become_json_text() -> None:
    reply = whole({"tool_calls": [{"id": "a", "function": {"name": "one", "arguments": {"x": [1, "ä"]}}}]})
    assert calls_of(reply) == [("a", "one", '{"x":[1,"ä"]}')]
    assert reply.finish_reason == "tool_calls"


def test_calls_without_a_name_or_shape_are_dropped_and_counted() -> None:
    reply = whole(
        {
            "content": "x",
            "tool_calls": [
                None,
                {"id": "a", "function": None},
                {"id": "b", "function": {"name": "", "arguments": "{}"}},
                {"id": "c", "function": {"name": "one", "arguments": None}},
            ],
        }
    )
    assert calls_of(reply) == [("c", "one", "")]
    assert reply.malformed_calls == 3


def test_arguments_cut_off_by_the_length_limit_stay_as_they_are() -> None:
    reply = stream(call(index=0, id="a", function={"name": "one", "arguments": '{"x": "lon'}), chunk({}, "length"))
    assert calls_of(reply) == [("a", "one", '{"x": "lon')]
    assert reply.finish_reason == "length"


def test_content_may_be_a_list_of_parts() -> None:
    parts: list[Any] = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "plan"}]},
        {"type": "text", "text": "Hel"},
        "lo",
        {"type": "image", "url": "x"},
    ]
    assert whole({"content": parts}).text == "Hello"
    assert whole({"content": parts}).reasoning == "plan"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_in_a_field_of_its_own_stays_out_of_the_text(field: str) -> None:
    reply = stream(chunk({field: "the "}), chunk({field: "plan"}), chunk({"content": "Hi"}), chunk({}, "stop"))
    assert (reply.text, reply.reasoning) == ("Hi", "the plan")


@pytest.mark.parametrize(
    ("sent", "got"), [("stop", "stop"), ("end_turn", "stop"), ("max_tokens", "length"), ("LENGTH", "length")]
)
def test_finish_reasons_of_other_dialects_are_translated(sent: str, got: str) -> None:
    assert whole({"content": "x"}, sent).finish_reason == got


@pytest.mark.parametrize(
    ("usage", "got"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 7}},
            Usage(input_tokens=9, output_tokens=4, cached_tokens=7),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5},
            Usage(input_tokens=9, output_tokens=4, cached_tokens=5),
        ),
        ({"prompt_tokens": None, "completion_tokens": "4", "prompt_tokens_details": None}, Usage()),
        (None, Usage()),
        ({"prompt_tokens": -5, "completion_tokens": 10**30}, Usage()),  # beyond what a database can keep
        ({"prompt_tokens": True, "completion_tokens": 4.0}, Usage(output_tokens=4)),
        ({"prompt_tokens": float("inf"), "completion_tokens": float("nan")}, Usage()),
    ],
)
def test_usage_is_read_with_cached_tokens(usage: Any, got: Usage) -> None:
    assert whole({"content": "x"}, usage=usage).usage == got


def test_text_that_no_database_could_keep_is_cleaned() -> None:
    assert whole({"content": "a\x00b\ud800"}).text == "ab\ufffd"


def test_a_refusal_without_text_is_a_declined_answer() -> None:
    assert kind_of(chunk({"refusal": "I cannot help"}), chunk({}, "stop")) is ProviderErrorKind.CONTENT_FILTER


def test_a_filtered_reply_without_text_is_a_declined_answer() -> None:
    assert kind_of(chunk({"content": ""}, "content_filter")) is ProviderErrorKind.CONTENT_FILTER


def test_a_filtered_reply_with_text_keeps_the_text() -> None:
    reply = stream(chunk({"content": "Some"}), chunk({}, "content_filter"))
    assert (reply.text, reply.finish_reason) == ("Some", "content_filter")


def test_a_stream_without_finish_reason_and_without_done_is_cut() -> None:
    assert kind_of(chunk({"content": "Some"}), ended=False) is ProviderErrorKind.CUT


def test_half_a_call_before_done_is_cut() -> None:
    half = call(index=0, id="a", function={"name": "one", "arguments": '{"x'})
    assert kind_of(half) is ProviderErrorKind.CUT


@pytest.mark.parametrize(
    "chunks", [[], [{"choices": []}], [{"choices": None}], [chunk({"role": "assistant"})], [chunk(None)]]
)
def test_a_reply_of_nothing_is_malformed(chunks: list[Json]) -> None:
    assert kind_of(*chunks) is ProviderErrorKind.MALFORMED


@pytest.mark.parametrize("body", [None, [], "x", 3, {"choices": ["x"]}, {"choices": {}}])
def test_what_is_no_completion_at_all_is_malformed(body: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        ReplyReader().read(body)
    assert caught.value.kind is ProviderErrorKind.MALFORMED


def test_a_reply_that_ended_by_an_error_is_a_server_error() -> None:
    assert kind_of(chunk({"content": "So"}), chunk({}, "error")) is ProviderErrorKind.SERVER


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "abort"])
def test_a_reply_that_the_server_broke_off_is_not_given_as_whole(reason: str) -> None:
    assert kind_of(chunk({"content": "So"}), chunk({}, reason)) is ProviderErrorKind.CUT


def test_a_name_in_pieces_is_joined() -> None:
    reply = stream(
        call(index=0, id="a", function={"name": "list_"}),
        call(index=0, function={"name": "dir", "arguments": "{}"}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(reply) == [("a", "list_dir", "{}")]


def test_another_name_under_an_old_index_is_another_call() -> None:
    reply = stream(
        call(index=0, function={"name": "one", "arguments": "{}"}),
        call(index=0, function={"name": "two", "arguments": "{}"}),
        chunk({}, "tool_calls"),
    )
    assert [item.name for item in reply.tool_calls] == ["one", "two"]


def test_an_id_that_arrives_late_belongs_to_the_call_that_has_none() -> None:
    reply = stream(
        call(function={"name": "one", "arguments": "{"}),
        call(id="a", function={"arguments": "}"}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(reply) == [("a", "one", "{}")]


def test_a_refusal_as_a_part_is_a_declined_answer_with_its_words_for_the_log() -> None:
    with pytest.raises(ProviderError) as caught:
        whole({"content": [{"type": "refusal", "refusal": "I cannot help"}]})
    assert (caught.value.kind, caught.value.detail) == (ProviderErrorKind.CONTENT_FILTER, "I cannot help")


def test_an_error_inside_a_choice_is_an_error() -> None:
    broken = {"choices": [{"delta": {"content": ""}, "error": {"code": 502, "message": "upstream"}}]}
    assert kind_of(broken) is ProviderErrorKind.SERVER


@pytest.mark.parametrize("thinking", ["plan", [{"type": "text", "text": "plan"}, "x", {"text": 3}]])
def test_reasoning_parts_are_read_in_both_shapes(thinking: Any) -> None:
    assert whole({"content": [{"type": "thinking", "thinking": thinking}]}).reasoning == "plan"


def test_reasoning_without_any_shape_is_ignored() -> None:
    assert whole({"content": [{"type": "thinking", "thinking": 3}]}).reasoning == ""


def test_a_whole_message_behind_its_pieces_says_nothing_new() -> None:
    function = {"name": "look", "arguments": "{}"}
    message = {"content": "hello", "tool_calls": [{"id": "c1", "function": function}]}
    reply = stream(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "hel"}),
        chunk({"content": "lo"}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "function": function}]}),
        {"choices": [{"message": message, "finish_reason": "tool_calls"}]},
    )
    assert reply.text == "hello"
    assert calls_of(reply) == [("c1", "look", "{}")]


def test_a_whole_message_behind_a_delta_without_words_is_read() -> None:
    reply = stream(
        chunk({"role": "assistant", "content": ""}),
        {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]},
    )
    assert reply.text == "hello"


@pytest.mark.parametrize("cut", [False, True])
def test_calls_of_two_tools_under_one_id_are_two_calls(cut: bool) -> None:
    first = {"id": "x", "function": {"name": "look", "arguments": '{"a":1}'}}
    second = {"id": "x", "function": {"name": "list", "arguments": '{"b":2}'}}
    if cut:
        begun = {"id": "x", "function": {"name": "list", "arguments": ""}}
        pieces = [{"id": "x", "function": {"arguments": piece}} for piece in ('{"b"', ":2}")]
        reply = stream(call(**first), call(**begun), *(call(**piece) for piece in pieces), chunk({}, "tool_calls"))
    else:
        reply = whole({"tool_calls": [first, second]}, "tool_calls")
    assert [(item.name, item.arguments) for item in reply.tool_calls] == [("look", '{"a":1}'), ("list", '{"b":2}')]
    assert len({item.id for item in reply.tool_calls}) == 2
