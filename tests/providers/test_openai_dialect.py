"""What goes into a request, and what is left out once an endpoint refused it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from bot.interfaces import ModelRequest
from bot.providers.openai_dialect import Dialect, Refused, output_limit_tokens
from bot.providers.openai_errors import Failure
from tests.support.model_calls import ask, tool

LOCAL = "http://127.0.0.1:11434/v1"
OPENAI = "https://api.openai.com/v1"


def dialect(base_url: str = LOCAL, **options: Any) -> Dialect:
    return Dialect(**{"model": "m", "base_url": base_url, "temperature": 0.3, "output_tokens": 500, **options})


def fields(of: Dialect, request: ModelRequest | None = None, *, stream: bool = False) -> dict[str, Any]:
    body = orjson.loads(of.encode(request or ask(), stream=stream))
    assert isinstance(body, dict)
    return body


def refuse(of: Dialect, words: str, request: ModelRequest | None = None, *, status: int = 400, param: str = "") -> str:
    failure = Failure(status=status, message=words, words=words, param=param)
    return of.learn(failure, request or ask(), stream=True, revision=of.revision)


def test_a_request_is_plain_chat_completions() -> None:
    assert fields(dialect()) == {
        "model": "m",
        "temperature": 0.3,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "hello"}],
    }


def test_a_streamed_request_asks_for_usage() -> None:
    body = fields(dialect(), stream=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_encoded_tools_go_in_as_they_are() -> None:
    encoded = b'[{"type": "function",  "function": {"name": "as_it_is"}}]'
    assert b',"tools":' + encoded + b"}" in dialect().encode(ask(tools=[tool("x")], tools_json=encoded), stream=False)


def test_tools_without_their_encoding_are_encoded() -> None:
    assert fields(dialect(), ask(tools=[tool("x")]))["tools"] == [tool("x")]


def test_lone_surrogates_in_history_do_not_end_the_conversation() -> None:
    body = fields(dialect(), ask("a\ud800b"))
    assert body["messages"] == [{"role": "user", "content": "a\ufffdb"}]


def test_the_smallest_output_limit_counts() -> None:
    assert fields(dialect(), ask(max_output_tokens=100))["max_tokens"] == 100
    assert fields(dialect(), ask(max_output_tokens=900))["max_tokens"] == 500


def test_openai_itself_gets_the_newer_name_of_the_limit_first() -> None:
    assert fields(dialect(OPENAI))["max_completion_tokens"] == 500


@pytest.mark.parametrize(
    ("configured", "window", "limit"),
    [
        (None, None, None),
        (800, None, 800),
        (None, 262_144, 16_384),
        (None, 4_096, 1_024),
        (800, 262_144, 800),
        (262_144, 262_144, 131_072),
    ],
)
def test_the_output_limit_always_leaves_room_for_the_input(
    configured: int | None, window: int | None, limit: int | None
) -> None:
    assert output_limit_tokens(configured, window) == limit


@pytest.mark.parametrize(
    ("words", "refused", "gone"),
    [
        (
            "Unsupported value: 'temperature' does not support 0.3 with this model.",
            Refused.TEMPERATURE,
            "temperature",
        ),
        ("Unrecognized request argument supplied: stream_options", Refused.STREAM_OPTIONS, "stream_options"),
        ("body stream_options Extra inputs are not permitted", Refused.STREAM_OPTIONS, "stream_options"),
        ("registry.ollama.ai/library/gemma:latest does not support tools", Refused.TOOLS, "tools"),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            Refused.LIMIT_NAME,
            "max_tokens",
        ),
    ],
)
def test_a_refused_part_is_left_out_from_then_on(words: str, refused: Refused, gone: str) -> None:
    endpoint = dialect()
    request = ask(tools=[tool("x")])
    assert gone in fields(endpoint, request, stream=True)
    assert refuse(endpoint, words, request)
    assert endpoint.refused == {refused}
    assert gone not in fields(endpoint, request, stream=True)


def test_a_missing_tool_endpoint_of_a_router_is_learned_from_its_404() -> None:
    endpoint = dialect()
    assert refuse(endpoint, "No endpoints found that support tool use.", ask(tools=[tool("x")]), status=404)
    assert "tools" not in fields(endpoint, ask(tools=[tool("x")]))


def test_an_endpoint_that_knows_the_limit_by_neither_name_gets_none() -> None:
    endpoint = dialect()
    assert refuse(endpoint, "Unrecognized request argument supplied: max_tokens")
    assert refuse(endpoint, "Unrecognized request argument supplied: max_completion_tokens")
    assert not {"max_tokens", "max_completion_tokens"} & set(fields(endpoint))
    assert not refuse(endpoint, "Unrecognized request argument supplied: max_tokens")


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 500. This model supports at most 256 completion tokens, not 500.",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 256]",
        "max_tokens: 500 > 256, which is the maximum allowed number of output tokens for claude-x is 256",
        "`max_tokens` must be less than or equal to `256`, the maximum value",
    ],
)
def test_a_limit_above_the_models_own_is_lowered_to_it(words: str) -> None:
    endpoint = dialect()
    assert refuse(endpoint, words) == "at most 256 output tokens"
    assert fields(endpoint)["max_tokens"] == 256


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Invalid type for 'messages[3].content'"),
        (400, "This model does not support image input"),
        (401, "Unsupported parameter: 'max_tokens'"),
        (500, "Unsupported value: 'temperature'"),
        (400, "Unknown parameter: 'parallel_tool_calls'"),
        (400, "Unsupported: maximum context length is 500 tokens, lower max_tokens"),
    ],
)
def test_nothing_is_learned_from_other_errors(status: int, words: str) -> None:
    endpoint = dialect()
    assert not refuse(endpoint, words, status=status)
    assert endpoint.refused == frozenset()


def test_what_another_call_learned_meanwhile_is_not_a_second_refusal() -> None:
    endpoint = dialect()
    words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    failure = Failure(status=400, message=words, words=words)
    before = endpoint.revision
    assert endpoint.learn(failure, ask(), stream=True, revision=before)
    assert endpoint.learn(failure, ask(), stream=True, revision=before)
    assert endpoint.refused == {Refused.LIMIT_NAME}
