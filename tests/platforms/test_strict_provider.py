"""The strict checker, one broken rule at a time, against a request that is right."""

from __future__ import annotations

from typing import Any

import pytest

from bot.errors import ProviderError
from bot.interfaces import ModelRequest
from tests.platforms.openai_api import OpenAIApi
from tests.support.conversations import call, calls, picture, result, said, user
from tests.support.model_calls import provider_for
from tests.support.strict_provider import violations

SYSTEM = {"role": "system", "content": "Be brief."}
RIGHT: list[Any] = [
    SYSTEM,
    user([{"type": "text", "text": "look"}, picture()]),
    calls("a", "b"),
    result("a"),
    result("b"),
    said("Done."),
    user("thanks"),
]


def test_a_right_request_is_accepted() -> None:
    assert violations(RIGHT) == []
    assert violations(RIGHT[1:]) == []


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "the conversation begins with []"),
        ([SYSTEM], "the conversation begins with []"),
        ([None], "0: role None"),
        ([{"role": ["user"], "content": "x"}], "0: role ['user']"),
        ([{"role": "developer", "content": "x"}], "0: role 'developer'"),
        ([{**user("x"), "name": "bob"}], "0: fields ['content', 'name', 'role']"),
        ([user(None)], "0: content None is no text"),
        ([user(" \n")], "0: empty content"),
        ([user([])], "0: no content blocks"),
        ([user(["x"])], "0: block 'x'"),
        ([user([{"type": "text", "text": ""}])], "0: empty content"),
        ([user([{"type": "input_audio"}])], "0: unknown block {'type': 'input_audio'}"),
        ([user([picture("ftp://x")])], "0: picture without a usable address"),
        ([user([{"type": "image_url", "image_url": "x"}])], "0: picture 'x'"),
        ([user("a\x00")], "0: content has a NUL"),
        ([user("\ud83d")], "0: content is not valid Unicode"),
        ([said("x"), user("x")], "the conversation begins with ['assistant']"),
        ([user("x"), said("x")], "the conversation ends with the assistant"),
        ([user("x"), user("x")], "1: role 'user' after role 'user'"),
        ([user("x"), said("x"), said("x"), user("x")], "2: role 'assistant' after role 'assistant'"),
        ([user("x"), SYSTEM, user("x")], "1: role 'system' after role 'user'"),
        ([user("x"), calls("a"), result("a"), user("x")], "3: role 'user' after role 'tool'"),
        ([user("x"), calls("a"), result("a", [{"type": "text", "text": "x"}])], "2: content [{'type': 'text', 't"),
        ([user("x"), calls("a", content=None), result("a")], "1: content None is no text"),
        ([user("x"), calls("a"), user("x")], "2: calls ['a'] have no result"),
        ([user("x"), calls("a")], "end: calls ['a'] have no result"),
        ([user("x"), calls("a", "b"), result("b"), result("a")], "2: result 'b' where ['a'] is due"),
        ([user("x"), calls("a"), result("a"), result("a")], "3: result 'a' where [] is due"),
        ([user("x"), calls("a"), result("a"), calls("a"), result("a")], "3: id 'a' twice"),
        ([user("x"), calls(call("a b")), result("a b")], "1: call id 'a b'"),
        ([user("x"), calls(call("a", "no name!")), result("a")], "1: function name 'no name!'"),
        ([user("x"), calls(call("a", "f", "[1]")), result("a")], "1: arguments are no object"),
        ([user("x"), calls(call("a", "f", '{"x": NaN}')), result("a")], "1: arguments are no JSON"),
        ([user("x"), calls({"id": "a"}), result("a")], "1: no tool call: {'id': 'a'}"),
        ([user("x"), {**said("x"), "tool_calls": []}, user("x")], "1: tool_calls []"),
        (
            [user("x"), {**said("x"), "reasoning_content": "hm"}, user("x")],
            "1: fields ['content', 'reasoning_content',",
        ),
    ],
)
def test_each_broken_rule_is_named(rows: list[Any], why: str) -> None:
    assert any(found.startswith(why) for found in violations(rows)), violations(rows)


def test_a_request_over_its_budget_is_refused() -> None:
    assert violations([user("word " * 500)], limit_tokens=2_000) == []
    assert violations([user("word " * 500)], limit_tokens=100)[0].endswith("tokens where 100 are allowed")


def test_fields_that_a_provider_wants_back_are_accepted() -> None:
    rows = [user("x"), {**said("x"), "reasoning_content": "hm"}, user("x")]
    assert violations(rows, replay_fields=("reasoning_content",)) == []


async def test_a_strict_server_refuses_with_400_what_a_usual_one_takes() -> None:
    async with OpenAIApi() as usual, OpenAIApi(strict=True) as strict:
        asked = ModelRequest(messages=[user("one"), user("two")])
        async with provider_for(usual) as provider:
            await provider.complete(asked)
        async with provider_for(strict) as provider:
            with pytest.raises(ProviderError, match="role 'user' after role 'user'"):
                await provider.complete(asked)
        assert usual.violations == []
        assert strict.violations == ["1: role 'user' after role 'user'"]
