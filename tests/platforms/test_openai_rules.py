"""The request rules, one violation at a time, against a request that is right."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.platforms.openai_rules import check_request


def call(call_id: str, name: str = "cron", arguments: str = '{"action":"list"}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "none"}


SYSTEM = {"role": "system", "content": "Be brief."}
HI = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {
        "name": "cron",
        "description": "Reminders.",
        "parameters": {"type": "object", "properties": {}},
    },
}
RIGHT: dict[str, Any] = {
    "model": "m",
    "messages": [
        SYSTEM,
        HI,
        {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
        result("a"),
        result("b"),
        {"role": "assistant", "content": "Done."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "and this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        },
    ],
    "tools": [TOOL],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 100,
    "temperature": 0.2,
}


def with_messages(*messages: dict[str, Any]) -> list[str]:
    return check_request({"model": "m", "messages": list(messages)})


def with_fields(**fields: Any) -> list[str]:
    return check_request({**copy.deepcopy(RIGHT), **fields})


def test_a_request_with_calls_results_and_an_image_is_accepted() -> None:
    assert check_request(RIGHT) == []


@pytest.mark.parametrize("body", [None, [], "text"])
def test_a_body_that_is_not_an_object_is_refused(body: Any) -> None:
    assert check_request(body) == ["the body is not an object"]


def test_no_messages_at_all_are_refused() -> None:
    assert with_messages() == ["messages: must be a non-empty array"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "content of the user message is empty"),
        (" \n", "content of the user message is empty"),
        (None, "content of the user message is null"),
        ([], "content of the user message is an empty array"),
        (7, "content of the user message must be a string or an array"),
        ([{"type": "text", "text": ""}], "content[0]: text content blocks must be non-empty"),
        ([{"type": "image_url", "image_url": {"url": "x.png"}}], "content[0]: image_url.url is not an image"),
        ([{"type": "tool_use"}], "content[0]: type 'tool_use' is not allowed in a user message"),
    ],
)
def test_content_that_says_nothing_or_is_of_a_wrong_kind_is_refused(content: Any, why: str) -> None:
    assert with_messages({"role": "user", "content": content}) == [f"messages[0]: {why}"]


def test_an_assistant_message_may_be_without_content_only_beside_calls() -> None:
    bare: dict[str, Any] = {"role": "assistant", "content": None}
    assert with_messages(HI, bare, HI) == ["messages[1]: content of the assistant message is null"]
    assert with_messages(HI, {**bare, "tool_calls": [call("a")]}, result("a")) == []
    assert with_messages(HI, {"role": "assistant", "tool_calls": [call("a")]}, result("a")) == []
    assert with_messages(HI, {**bare, "content": "", "tool_calls": [call("a")]}, result("a")) == [
        "messages[1]: content of the assistant message is empty"
    ]


def test_an_image_in_a_tool_result_is_refused() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call("a")]}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    problems = with_messages(HI, asked, {**result("a"), "content": [image]})
    assert problems == ["messages[2]: content[0]: type 'image_url' is not allowed in a tool message"]


def test_an_unknown_role_and_an_unknown_field_are_refused() -> None:
    assert with_messages(HI, {"role": "bot", "content": "x"}, HI) == ["messages[1]: invalid role 'bot'"]
    odd = {"role": "assistant", "content": "x", "reasoning_content": "y"}
    assert with_messages(HI, odd, HI) == ["messages[1]: unrecognized field 'reasoning_content'"]
    assert with_fields(foo=1) == ["unrecognized argument: foo"]


def test_an_unanswered_call_is_refused_in_the_middle_and_at_the_end() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]}
    assert with_messages(HI, asked, result("a"), HI) == ["messages[3]: call 'b' before it has no result"]
    assert with_messages(HI, asked, result("a")) == ["messages: call 'b' has no result"]


def test_results_in_another_order_than_their_calls_are_refused() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]}
    problems = with_messages(HI, asked, result("b"), result("a"))
    assert problems == ["messages[2]: result 'b' is out of order, 'a' is next"]


def test_a_result_without_its_call_or_given_twice_is_refused() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call("a")]}
    assert with_messages(HI, result("x")) == ["messages[1]: result 'x' answers no call directly before it"]
    problems = with_messages(HI, asked, result("a"), result("a"))
    assert problems == ["messages[3]: result 'a' answers no call directly before it"]
    problems = with_messages(HI, asked, HI, result("a"))
    assert problems == [
        "messages[2]: call 'a' before it has no result",
        "messages[3]: result 'a' answers no call directly before it",
    ]


def test_a_call_id_used_twice_in_a_request_is_refused() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call("a")]}
    problems = with_messages(HI, asked, result("a"), asked, result("a"))
    assert problems == ["messages[3]: call id 'a' is used twice"]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (call("a", name="my tool"), "name 'my tool' does not match ^[a-zA-Z0-9_-]{1,64}$"),
        (call("a", name="x" * 65), f"name '{'x' * 65}' does not match ^[a-zA-Z0-9_-]{{1,64}}$"),
        (call("a", arguments='{"a": 1'), "arguments are not valid JSON: '{\"a\": 1'"),
        (call("a", arguments=""), "arguments are not valid JSON: ''"),
        (call("a", arguments="[1]"), "arguments are not a JSON object"),
        ({**call("a"), "type": "tool"}, "type must be 'function'"),
    ],
)
def test_a_malformed_call_is_refused(broken: dict[str, Any], why: str) -> None:
    problems = with_messages(HI, {"role": "assistant", "content": None, "tool_calls": [broken]}, result("a"))
    assert f"messages[1]: tool_calls[0]: {why}" in problems


def test_an_empty_list_of_calls_is_refused() -> None:
    problems = with_messages(HI, {"role": "assistant", "content": "x", "tool_calls": []}, HI)
    assert problems == ["messages[1]: tool_calls: must be a non-empty array"]


def test_the_conversation_begins_with_the_user_and_does_not_end_with_the_assistant() -> None:
    said = {"role": "assistant", "content": "x"}
    assert with_messages(SYSTEM, said, HI) == [
        "messages[1]: the first message after the system's must be from the user"
    ]
    assert with_messages(SYSTEM, HI, said) == ["messages[2]: the last message must not be the assistant's"]
    assert with_messages(SYSTEM) == ["messages: there is no message from the user"]
    assert with_messages(HI, SYSTEM, HI) == ["messages[1]: a system message must be at the beginning"]


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"type": "string"}, "parameters must be a schema of type 'object'"),
        ({"properties": {}}, "parameters must be a schema of type 'object'"),
        ({"type": "object", "anyOf": []}, "parameters must not have 'anyOf' at the top level"),
        ({"type": "object", "properties": []}, "parameters.properties must be an object"),
        (
            {"type": "object", "properties": {}, "required": ["a"]},
            "parameters.required names an unknown property",
        ),
    ],
)
def test_a_tool_whose_parameters_are_no_root_object_is_refused(parameters: dict[str, Any], why: str) -> None:
    tool = {"type": "function", "function": {"name": "cron", "parameters": parameters}}
    assert with_fields(tools=[tool]) == [f"tools[0] (cron): {why}"]


def test_tools_with_bad_or_equal_names_and_an_empty_list_of_tools_are_refused() -> None:
    assert with_fields(tools=[TOOL, TOOL]) == ["tools[1]: name 'cron' is used twice"]
    bad = {"type": "function", "function": {"name": "a.b"}}
    assert with_fields(tools=[bad]) == ["tools[0]: name 'a.b' does not match ^[a-zA-Z0-9_-]{1,64}$"]
    assert with_fields(tools=[]) == ["tools: must be an array of 1 to 128"]
    alone = {"model": "m", "messages": [HI], "tool_choice": "auto"}
    assert check_request(alone) == ["tool_choice: only allowed with tools"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"max_tokens": 0}, "max_tokens: must be an integer of at least 1"),
        ({"max_tokens": True}, "max_tokens: must be an integer of at least 1"),
        ({"max_completion_tokens": 5}, "max_tokens and max_completion_tokens exclude each other"),
        ({"temperature": 2.1}, "temperature: must be a number from 0 to 2"),
        ({"stream": False}, "stream_options: only allowed when stream is true"),
        ({"model": ""}, "model: missing"),
    ],
)
def test_numbers_and_options_out_of_range_are_refused(fields: dict[str, Any], why: str) -> None:
    assert with_fields(**fields) == [why]
