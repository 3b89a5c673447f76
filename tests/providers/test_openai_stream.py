"""Replies over a real connection: what the person sees while they arrive, and what the engine gets."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.messages import Usage
from bot.providers.call_limits import CallLimits
from bot.providers.openai_compatible import OpenAIProvider
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint
from tests.platforms.openai_script import Reply
from tests.support.model_calls import (
    QUICK,
    ask,
    complete,
    fail,
    provider_for,
    raw_endpoint,
    raw_stream,
    sse,
    tool,
)


async def test_text_is_shown_as_it_grows_and_returned_whole() -> None:
    async with OpenAIApi() as api:
        gate = asyncio.Event()
        shown: list[str] = []
        grown = asyncio.Event()

        def show(text: str) -> None:
            shown.append(text)
            grown.set()

        api.script.append(Reply(text="Good morning", chunks=["Good ", "morning"], stall_after=2, stall_until=gate))
        async with provider_for(api) as provider, asyncio.TaskGroup() as tasks:
            call = tasks.create_task(provider.complete(ask(), show))
            await grown.wait()
            assert shown == ["Good "]
            gate.set()
            reply = await call
        assert shown[-1] == reply.text == "Good morning"
        assert api.requests[0]["stream"] is True
        assert api.violations == []


async def test_without_a_listener_nothing_is_streamed() -> None:
    async with OpenAIApi() as api:
        reply, _ = await complete(api, Reply(text="Good morning"), stream=False)
        assert reply.text == "Good morning"
        assert "stream" not in api.requests[0]
        assert api.violations == []


@pytest.mark.parametrize("stream", [True, False])
async def test_tool_calls_usage_and_reasoning_arrive_either_way(stream: bool) -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}
    said = Reply(text="One moment.", reasoning="plan", tool_calls=[("cron", {"action": "list"}, "c1")], usage=usage)
    async with OpenAIApi() as api:
        reply, shown = await complete(api, said, stream=stream)
    assert reply.text == "One moment."
    assert [(call.id, call.name, orjson.loads(call.arguments)) for call in reply.tool_calls] == [
        ("c1", "cron", {"action": "list"})
    ]
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(input_tokens=50, output_tokens=9, cached_tokens=40)
    assert reply.reasoning == "plan"
    assert not any("plan" in text for text in shown)


async def test_reasoning_without_an_end_tag_never_reaches_the_person() -> None:
    chunks = ["<thi", "nk>plan without end", " tag <fin", "al>Hi</final>"]
    async with OpenAIApi() as api:
        reply, shown = await complete(api, Reply(text="".join(chunks), chunks=chunks, reasoning="secret plan"))
    assert reply.text == "Hi"
    assert shown == ["Hi"]


async def test_odd_chunks_do_not_crash_the_reader_and_usage_is_counted() -> None:
    said = Reply(text="Good morning", empty_choices=True, null_delta=True, no_finish_reason=True)
    async with OpenAIApi() as api:
        reply, _ = await complete(api, said)
    assert reply.text == "Good morning"
    assert reply.finish_reason == "stop"
    assert reply.usage.output_tokens == 4


async def test_keep_alive_comments_and_crlf_are_read_over() -> None:
    body = (
        b": OPENROUTER PROCESSING\r\n\r\n"
        b'data: {"choices":[{"delta":{"content":"Hi"}}]}\r\n\r\n'
        b": OPENROUTER PROCESSING\r\n\r\n"
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\r\n\r\ndata: [DONE]\r\n\r\n'
    )
    async with OpenAIApi() as api:
        reply, _ = await complete(api, raw_stream(body))
    assert reply.text == "Hi"


async def test_an_endpoint_that_cannot_stream_is_read_whole() -> None:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with OpenAIApi() as api:
        reply, shown = await complete(api, Reply(body=body))
    assert reply.text == "Hi"
    assert shown == ["Hi"]


async def test_an_endpoint_that_can_only_stream_is_read_as_a_stream() -> None:
    said = sse('{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}', "[DONE]")
    async with OpenAIApi() as api:
        reply, _ = await complete(api, said, stream=False)
    assert reply.text == "Hi"


async def test_spaces_that_keep_a_connection_alive_are_read_over() -> None:
    body = b"  \n \n" + orjson.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
    async with OpenAIApi() as api:
        reply, _ = await complete(api, Reply(body=body), stream=False)
    assert reply.text == "Hi"


HI = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize("hang_up", [True, False])
async def test_once_the_finish_reason_is_there_nothing_that_follows_can_lose_the_reply(hang_up: bool) -> None:
    limits = CallLimits(idle_s=0.3, tries=1)
    async with raw_endpoint(HI, hang_up=hang_up) as (url, gone):
        provider = OpenAIProvider(model="m", base_url=url, limits=limits)
        reply = await provider.complete(ask(), lambda text: None)
        await gone.wait()
        await provider.close()
    assert (reply.text, reply.finish_reason) == ("Hi", "stop")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (Reply(text="Good morning", end_without_finish=True), ProviderErrorKind.CUT),
        (Reply(text="Good morning, all", cut_after=2), ProviderErrorKind.CUT),
        (Reply(text="Good morning", broken_json=True), ProviderErrorKind.MALFORMED),
        (sse("[DONE]"), ProviderErrorKind.MALFORMED),
        (Reply(text="So", error_stream={"message": "overloaded", "code": 503}), ProviderErrorKind.SERVER),
        (Reply(text="So", error_stream={"message": "Rate limit", "code": 429}), ProviderErrorKind.RATE_LIMIT),
        (Reply(drop_before=True), ProviderErrorKind.CONNECTION),
        (Reply(finish_reason="content_filter"), ProviderErrorKind.CONTENT_FILTER),
    ],
)
async def test_a_stream_that_goes_wrong_is_an_error_of_its_kind(said: Reply, kind: ProviderErrorKind) -> None:
    async with OpenAIApi() as api:
        error = await fail(api, said)
    assert error.kind is kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (Reply(text="Good morning", cut_after=1), ProviderErrorKind.CUT),
        (Reply(text="Good morning", broken_json=True), ProviderErrorKind.MALFORMED),
        (Reply(text="Good morning", empty_choices=True), ProviderErrorKind.MALFORMED),
        (Reply(body="<html>captive portal</html>"), ProviderErrorKind.MALFORMED),
        (Reply(body={"error": {"message": "overloaded", "code": 503}}), ProviderErrorKind.SERVER),
        (Reply(drop_before=True), ProviderErrorKind.CONNECTION),
        (Reply(finish_reason="content_filter"), ProviderErrorKind.CONTENT_FILTER),
    ],
)
async def test_a_whole_answer_that_goes_wrong_is_an_error_of_its_kind(said: Reply, kind: ProviderErrorKind) -> None:
    async with OpenAIApi() as api:
        error = await fail(api, said, stream=False)
    assert error.kind is kind


async def test_a_cut_reply_starts_over_and_ends_as_one_text() -> None:
    async with OpenAIApi() as api:
        cut = Reply(text="Good morning, everyone here", end_without_finish=True)
        api.script = [cut, cut, Reply(text="Good evening")]
        reply, shown = await complete(api)
    assert reply.text == shown[-1] == "Good evening"
    assert all(text in {"Good morning, ev", "Good morning, everyone here", "Good evening"} for text in shown)


async def test_nobody_listening_on_the_port_is_a_connection_error() -> None:
    async with OpenAIApi() as api:
        await api.go_down()
        async with provider_for(api) as provider:
            with pytest.raises(ProviderError) as caught:
                await provider.complete(ask())
    assert caught.value.kind is ProviderErrorKind.CONNECTION
    assert "ClientConnectorError" in caught.value.detail


async def test_cancelling_a_call_closes_its_stream_at_once() -> None:
    async with OpenAIApi() as api:
        api.script.append(Reply(text="Good morning", stall_after=2))
        shown = asyncio.Event()
        async with provider_for(api) as provider:
            call = asyncio.create_task(provider.complete(ask(), lambda text: shown.set()))
            await shown.wait()
            assert api.open_streams == 1
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await api.wait_for(lambda: api.open_streams == 0)
            assert (await provider.complete(ask("again"))).text == "again"


async def test_a_hanging_call_does_not_hold_up_another_one() -> None:
    async with OpenAIApi() as api:
        gate = asyncio.Event()
        api.when("slow", [Reply(text="late", hold=gate)])
        async with provider_for(api) as provider, asyncio.TaskGroup() as tasks:
            slow = tasks.create_task(provider.complete(ask("slow")))
            await api.wait_for(lambda: api.request_count == 1)
            assert (await provider.complete(ask("quick"))).text == "quick"
            assert not slow.done()
            gate.set()
        assert slow.result().text == "late"


async def test_calls_use_one_connection_again_after_done() -> None:
    async with OpenAIApi() as api, provider_for(api) as provider:
        await provider.complete(ask(), lambda text: None)
        await provider.complete(ask(), lambda text: None)
        assert api.open_connections == 1


async def test_a_reply_is_whole_though_the_endpoint_stays_connected_after_done() -> None:
    async with raw_endpoint(HI + b"data: [DONE]\n\n") as (url, gone):
        provider = OpenAIProvider(model="m", base_url=url, limits=QUICK)
        reply = await provider.complete(ask(), lambda text: None)
        await gone.wait()
        await provider.close()
    assert reply.text == "Hi"


async def test_tools_reach_the_endpoint() -> None:
    async with OpenAIApi() as api, provider_for(api) as provider:
        encoded = orjson.dumps([tool("cron")])
        await provider.complete(ask(tools=[tool("cron")], tools_json=encoded))
        assert b',"tools":' + encoded in api.raw_requests[0]
        assert api.violations == []


async def test_a_key_is_sent_and_without_one_no_authorization_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-environments-key")
    async with OpenAIApi(endpoint=Endpoint(api_key="the-environments-key")) as api:
        error = await fail(api, Reply(text="x"))
        assert error.kind is ProviderErrorKind.AUTH
        reply, _ = await complete(api, Reply(text="x"), api_key="the-environments-key\n")
        assert reply.text == "x"
