"""What goes into a request, and what is left out once an endpoint refused it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from bot.interfaces import ModelRequest
from bot.providers.openai_dialect import Dialect, Refused, output_limit_tokens
from bot.providers.openai_errors import Failure, read_failure
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
        (400, "Unsupported: maximum context length is 2048 tokens, lower max_tokens"),
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


def overflow(window: int, given: int, wanted: int) -> Failure:
    words = (
        f"This model's maximum context length is {window} tokens. However, you requested {given + wanted} tokens "
        f"({given} in the messages, {wanted} in the completion). Please reduce the length."
    )
    return read_failure(400, {}, orjson.dumps({"error": {"message": words}}), now_us=0)


def test_a_window_that_is_smaller_than_configured_lowers_the_output_limit_once() -> None:
    """C098, where the configured window is not the model's."""
    endpoint = dialect(output_tokens=16_384)
    refused = overflow(16_384, 900, 16_384)
    assert "4096 of output" in endpoint.learn(refused, ask(), stream=True, revision=endpoint.revision)
    assert fields(endpoint)["max_tokens"] == 4_096
    assert not endpoint.learn(overflow(16_384, 15_000, 4_096), ask(), stream=True, revision=endpoint.revision)


def test_an_input_that_is_too_long_by_itself_is_not_sent_again() -> None:
    endpoint = dialect(output_tokens=16_384)
    refused = overflow(8_192, 8_000, 16_384)
    assert refused.window_tokens == 8_192
    assert not endpoint.learn(refused, ask(), stream=True, revision=endpoint.revision)
    assert fields(endpoint)["max_tokens"] == 2_048


def test_effort_is_sent_when_configured_and_given_up_when_refused() -> None:
    endpoint = dialect(reasoning_effort="high")
    assert fields(endpoint)["reasoning_effort"] == "high"
    assert fields(endpoint, ask(reasoning_effort="low"))["reasoning_effort"] == "low"
    assert refuse(endpoint, "Unrecognized request argument supplied: reasoning_effort") == "refuses reasoning_effort"
    assert "reasoning_effort" not in fields(endpoint)


def test_without_a_configured_effort_none_is_sent() -> None:
    assert "reasoning_effort" not in fields(dialect(), ask(reasoning_effort="low"))


def thinking(model: str) -> ModelRequest:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "x", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "s"}},
    }
    said = {
        "role": "assistant",
        "content": "One moment.",
        "tool_calls": [call],
        "reasoning_content": "plan",
        "reasoning_details": [{"type": "reasoning.text", "text": "plan", "signature": "s"}],
        "reasoning_model": model,
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": "done"}
    return ModelRequest(messages=[{"role": "user", "content": "go"}, said, result])


def test_a_model_gets_its_own_signed_reasoning_back_as_it_was() -> None:
    sent = fields(dialect(), thinking("m"))["messages"][1]
    assert "reasoning_content" not in sent
    assert sent["reasoning_details"][0]["signature"] == "s"
    assert sent["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert "reasoning_model" not in sent


def test_plain_reasoning_goes_back_where_that_is_configured() -> None:
    assert fields(dialect(replays_reasoning=True), thinking("m"))["messages"][1]["reasoning_content"] == "plan"


@pytest.mark.parametrize(
    "words",
    [
        "The reasoning_content in the thinking mode must be passed back to the API.",
        "Missing reasoning_content field in the assistant message at message index 2.",
    ],
)
def test_an_endpoint_that_wants_plain_reasoning_back_gets_it_from_then_on(words: str) -> None:
    endpoint = dialect()
    assert refuse(endpoint, words, thinking("m")) == "wants its reasoning back"
    assert fields(endpoint, thinking("m"))["messages"][1]["reasoning_content"] == "plan"
    # The calls of another model have a place for it too, with nothing of the other's thoughts in it.
    assert fields(endpoint, thinking("other"))["messages"][1] == {**WITHOUT, "reasoning_content": ""}
    assert not refuse(endpoint, words, thinking("m"))


@pytest.mark.parametrize("words", ["Streaming is not supported for this model", "'stream' must be false"])
def test_an_endpoint_that_cannot_stream_is_asked_for_the_whole(words: str) -> None:
    endpoint = dialect()
    assert refuse(endpoint, f"Unsupported value: {words}") == "refuses stream"
    assert not {"stream", "stream_options"} & set(fields(endpoint, stream=True))


PLAIN_CALL = {"id": "c1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
WITHOUT = {"role": "assistant", "content": "One moment.", "tool_calls": [PLAIN_CALL]}


def test_reasoning_of_another_model_is_left_out_and_the_request_unchanged() -> None:
    request = thinking("other")
    assert fields(dialect(), request)["messages"][1] == WITHOUT
    assert "reasoning_content" in request.messages[1]


@pytest.mark.parametrize(
    "words",
    [
        "messages[1]: unrecognized field 'reasoning_content'",
        "messages.1.reasoning_details: Extra inputs are not permitted",
        "Invalid `signature` in `thinking` block",
    ],
)
def test_an_endpoint_that_refuses_reasoning_gets_none_from_then_on(words: str) -> None:
    endpoint = dialect()
    assert refuse(endpoint, words, thinking("m")) == "refuses reasoning"
    assert fields(endpoint, thinking("m"))["messages"][1] == WITHOUT
    assert not refuse(endpoint, words, thinking("m"))


def test_an_endpoint_that_misses_a_signature_is_not_sent_even_less() -> None:
    assert not refuse(dialect(), "Function call is missing a thought_signature", thinking("m"))
