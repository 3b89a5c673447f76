"""The OpenAI-compatible server, driven by the real SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint, error, quota_exceeded
from tests.platforms.openai_script import Reply


@pytest.fixture
async def api() -> AsyncIterator[OpenAIApi]:
    async with OpenAIApi() as server:
        yield server


@pytest.fixture
async def client(api: OpenAIApi) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="key", base_url=api.url, max_retries=0) as sdk:
        yield sdk


async def ask(client: AsyncOpenAI, text: str = "hi", **fields: Any) -> ChatCompletion:
    messages: Any = [{"role": "user", "content": text}]
    answer: ChatCompletion = await client.chat.completions.create(model="m", messages=messages, **fields)
    return answer


async def stream(client: AsyncOpenAI, text: str = "hi", **fields: Any) -> AsyncStream[ChatCompletionChunk]:
    messages: Any = [{"role": "user", "content": text}]
    opened: AsyncStream[ChatCompletionChunk] = await client.chat.completions.create(
        model="m", messages=messages, stream=True, **fields
    )
    return opened


async def read_into(chunks: list[ChatCompletionChunk], opened: AsyncStream[ChatCompletionChunk]) -> None:
    async for chunk in opened:
        chunks.append(chunk)


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    return "".join(delta.content or "" for delta in deltas if delta is not None)


async def test_without_a_script_it_echoes_the_first_line_without_the_runtime_context(
    api: OpenAIApi, client: AsyncOpenAI
) -> None:
    answer = await ask(client, "first\nsecond\n[Runtime Context]\ntime: now\n[/Runtime Context]")
    assert answer.choices[0].message.content == "first"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert api.requests[0]["messages"][0]["content"].startswith("first")
    assert json.loads(api.raw_requests[0]) == api.requests[0]


async def test_a_stream_carries_the_text_in_pieces_then_its_end_and_the_usage(
    api: OpenAIApi, client: AsyncOpenAI
) -> None:
    api.script.append(Reply(text="A text of more than one chunk.", usage={"prompt_tokens": 7}))
    chunks = [chunk async for chunk in await stream(client, stream_options={"include_usage": True})]
    assert text_of(chunks) == "A text of more than one chunk."
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None, None, None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 7


async def test_the_script_may_say_how_a_stream_splits_its_text(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="<think>x</think>y", chunks=["<thi", "nk>x</think>", "y"]))
    chunks = [chunk async for chunk in await stream(client)]
    pieces = [chunk.choices[0].delta.content for chunk in chunks[1:-1]]
    assert pieces == ["<thi", "nk>x</think>", "y"]


async def test_tool_calls_are_the_same_whole_and_streamed(api: OpenAIApi, client: AsyncOpenAI) -> None:
    reply = Reply(tool_calls=[("cron", {"action": "list", "name": "stretch"}, "c1"), ("my", "{broken")])
    api.script = [reply, reply]
    whole = (await ask(client)).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content is None
    assert whole.message.tool_calls is not None
    wanted = [("c1", "cron", '{"action":"list","name":"stretch"}'), ("call_1_1", "my", "{broken")]
    assert [(c.id, c.function.name, c.function.arguments) for c in whole.message.tool_calls] == wanted  # type: ignore[union-attr]

    gathered: dict[int, list[str]] = {}
    async for chunk in await stream(client):
        for piece in chunk.choices[0].delta.tool_calls or []:
            held = gathered.setdefault(piece.index, ["", "", ""])
            assert piece.function is not None
            held[0] += piece.id or ""
            held[1] += piece.function.name or ""
            held[2] += piece.function.arguments or ""
    assert gathered == {0: list(wanted[0]), 1: ["call_2_1", "my", "{broken"]}


async def test_rules_answer_their_own_chats_and_leave_the_script_to_others(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="from the script"))
    rule = api.when("morning", [Reply(text="one"), Reply(text="two")])
    texts = ["good morning", "hello", "morning again", "third morning"]
    said = [(await ask(client, text)).choices[0].message.content for text in texts]
    assert said == ["one", "from the script", "two", "third morning"]
    assert rule.hits == 2


async def test_script_and_default_may_be_functions_of_the_request(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script = lambda request: Reply(text="seen") if request["model"] == "m" else None
    api.default = lambda _: Reply(text="default")
    assert (await ask(client)).choices[0].message.content == "seen"
    other: Any = [{"role": "user", "content": "x"}]
    answer = await client.chat.completions.create(model="n", messages=other)
    assert answer.choices[0].message.content == "default"


async def test_a_held_reply_waits_while_another_chat_is_answered(api: OpenAIApi, client: AsyncOpenAI) -> None:
    gate = asyncio.Event()
    api.when("slow", [Reply(text="late", hold=gate)])
    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(ask(client, "slow"), name="held")
        await api.wait_for(lambda: len(api.requests) == 1)
        assert (await ask(client, "fast")).choices[0].message.content == "fast"
        assert not held.done()
        gate.set()
    assert held.result().choices[0].message.content == "late"


async def test_a_broken_request_is_refused_in_openais_shape_and_remembered(api: OpenAIApi, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(client, "")
    assert refused.value.body == error("messages[0]: content of the user message is empty")["error"]
    assert api.violations == ["messages[0]: content of the user message is empty"]


async def test_rules_can_be_switched_off_with_the_record() -> None:
    async with (
        OpenAIApi(validate=False, record=False) as api,
        AsyncOpenAI(api_key="k", base_url=api.url, max_retries=0) as client,
    ):
        assert (await ask(client, "")).choices[0].message.content == "(nothing said)"
        assert (api.violations, api.requests, api.raw_requests, api.request_count) == ([], [], [], 1)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=429, headers={"Retry-After": "7"}), openai.RateLimitError),
        (Reply(status=429, body=quota_exceeded()), openai.RateLimitError),
        (Reply(status=401), openai.AuthenticationError),
        (Reply(status=500, body="<html>oops</html>"), openai.InternalServerError),
        (Reply(drop_before=True), openai.APIConnectionError),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_failures_before_the_answer_reach_the_sdk(
    api: OpenAIApi, client: AsyncOpenAI, reply: Reply, kind: type[openai.APIError], streaming: bool
) -> None:
    api.script.append(reply)
    with pytest.raises(kind) as failed:
        await (stream(client) if streaming else ask(client))
    if isinstance(failed.value, openai.APIStatusError):
        assert failed.value.response.headers.get("Retry-After") == reply.headers.get("Retry-After")
    assert api.violations == []


async def test_a_cut_stream_ends_after_the_given_chunks(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script = [Reply(text="x" * 100, cut_after=3), Reply(text="short", cut_after=99)]
    for text in ("x" * 32, "short"):
        chunks: list[ChatCompletionChunk] = []
        with pytest.raises(openai.APIConnectionError):
            await read_into(chunks, await stream(client))
        assert text_of(chunks) == text


async def test_a_cut_answer_that_does_not_stream_is_a_connection_error(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="x" * 100, cut_after=0))
    with pytest.raises(openai.APIConnectionError):
        await ask(client)


async def test_a_stalled_stream_ends_when_the_client_hangs_up(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="x" * 100, stall_after=2))
    opened = await stream(client)
    async with opened:
        chunks = [await anext(opened), await anext(opened)]
        assert text_of(chunks) == "x" * 16
        assert api.open_streams == 1
    await api.wait_for(lambda: api.open_streams == 0)


async def test_a_stalled_stream_goes_on_when_the_test_says_so(api: OpenAIApi, client: AsyncOpenAI) -> None:
    gate = asyncio.Event()
    api.script.append(Reply(text="x" * 40, stall_after=2, stall_until=gate))
    opened = await stream(client)
    chunks = [await anext(opened), await anext(opened)]
    gate.set()
    chunks.extend([chunk async for chunk in opened])
    assert text_of(chunks) == "x" * 40


async def test_a_stream_can_end_without_saying_so_or_without_a_reason(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script = [Reply(text="half", end_without_finish=True), Reply(text="all", no_finish_reason=True)]
    for text in ("half", "all"):
        chunks = [chunk async for chunk in await stream(client)]
        assert text_of(chunks) == text
        assert {choice.finish_reason for chunk in chunks for choice in chunk.choices} == {None}
    bodies = []
    api.script = [Reply(text="half", end_without_finish=True), Reply(text="all", no_finish_reason=True)]
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            request = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
            async with session.post(f"{api.url}/chat/completions", json=request) as response:
                bodies.append((await response.text()).endswith("data: [DONE]\n\n"))
    assert bodies == [False, True]


async def test_an_error_in_the_middle_of_a_stream_is_raised_after_the_text(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="so far", error_stream={"message": "overloaded", "code": 502}))
    chunks: list[ChatCompletionChunk] = []
    with pytest.raises(openai.APIError, match="overloaded"):
        await read_into(chunks, await stream(client))
    assert text_of(chunks) == "so far"


async def test_broken_json_reaches_the_client_as_it_is(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script = [Reply(text="x", broken_json=True), Reply(text="x", broken_json=True)]
    with pytest.raises(json.JSONDecodeError):
        [chunk async for chunk in await stream(client)]
    with pytest.raises((json.JSONDecodeError, openai.APIError)):
        await ask(client)


async def test_odd_chunks_without_choices_or_delta_leave_the_text_whole(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="whole", empty_choices=True, null_delta=True))
    chunks = [chunk async for chunk in await stream(client)]
    assert (chunks[0].choices, chunks[-1].choices) == ([], [])
    assert chunks[2].choices[0].delta is None
    assert text_of(chunks) == "whole"


async def test_half_a_surrogate_pair_arrives_escaped(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="\U0001f642", chunks=["\ud83d", "\ude42"]))
    assert text_of([chunk async for chunk in await stream(client)]) == "\ud83d\ude42"


async def test_dripping_sends_the_chunks_apart(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.script.append(Reply(text="slowly", drip_s=0.001))
    assert text_of([chunk async for chunk in await stream(client)]) == "slowly"


async def test_reasoning_and_a_content_filter_are_passed_on(api: OpenAIApi, client: AsyncOpenAI) -> None:
    reply = Reply(reasoning="a secret plan", finish_reason="content_filter")
    api.script = [reply, reply]
    whole = (await ask(client)).choices[0]
    assert whole.finish_reason == "content_filter"
    assert whole.message.model_extra == {"reasoning_content": "a secret plan"}
    chunks = [chunk async for chunk in await stream(client)]
    assert chunks[1].choices[0].delta.model_extra == {"reasoning_content": "a secret plan"}
    assert chunks[-1].choices[0].finish_reason == "content_filter"


@pytest.mark.parametrize(
    ("endpoint", "fields", "error_code"),
    [
        (Endpoint(refuse_max_tokens=True), {"max_tokens": 5}, "unsupported_parameter"),
        (Endpoint(refuse_max_completion_tokens=True), {"max_completion_tokens": 5}, None),
        (Endpoint(refuse_temperature=True), {"temperature": 0.2}, "unsupported_value"),
        (Endpoint(refuse_stream_options=True), {"stream_options": {"include_usage": True}}, None),
        (Endpoint(context_window=1000), {"max_tokens": 1000}, "context_length_exceeded"),
    ],
)
async def test_an_endpoint_refuses_what_it_does_not_know(
    client: AsyncOpenAI, api: OpenAIApi, endpoint: Endpoint, fields: dict[str, Any], error_code: str | None
) -> None:
    async with await stream(client, **fields):
        api.endpoint = endpoint
    with pytest.raises(openai.BadRequestError) as refused:
        await stream(client, **fields)
    assert refused.value.code == error_code
    assert (await ask(client)).choices[0].message.content == "hi"


async def test_a_required_key_is_checked_and_models_are_listed(api: OpenAIApi, client: AsyncOpenAI) -> None:
    api.endpoint = Endpoint(api_key="other", models=("small", "large"))
    with pytest.raises(openai.AuthenticationError):
        await ask(client)
    assert api.requests == []
    allowed = client.with_options(api_key="other")
    assert [model.id async for model in allowed.models.list()] == ["small", "large"]
    with pytest.raises(openai.NotFoundError):
        await allowed.embeddings.create(model="m", input="x")


async def test_waiting_in_vain_says_what_was_seen_instead(api: OpenAIApi, client: AsyncOpenAI) -> None:
    await ask(client, "something else")
    with pytest.raises(TimeoutError, match="1 requests, last user texts \\['something else'\\]"):
        await api.wait_for(lambda: len(api.requests) == 2, timeout_s=0.01)
