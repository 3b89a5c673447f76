"""Endpoints that answer in another form than they declare, elsewhere than asked, or in JSON only Python reads."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.providers.openai_address import usable_base_url
from bot.providers.openai_compatible import OpenAIProvider
from bot.providers.reply_reader import ReplyReader
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.model_calls import QUICK, Naps, ask, complete, fail

Json = dict[str, Any]

WHOLE = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
STREAM = (
    b'data: {"choices": [{"delta": {"content": "hello"}}]}\n\n'
    b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "declared", ["application/json", "text/event-stream", "text/plain", "application/octet-stream"]
)
@pytest.mark.parametrize("body", [WHOLE, b"\xef\xbb\xbf" + WHOLE, b"\n \n" + WHOLE, STREAM, b": wait\n\n" + STREAM])
async def test_what_came_is_told_by_its_bytes(body: bytes, declared: str, stream: bool) -> None:
    async with OpenAIApi() as api:
        reply, shown = await complete(api, Reply(body=body, headers={"Content-Type": declared}), stream=stream)
    assert reply.text == "hello"
    assert shown == (["hello"] if stream else [])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (WHOLE.replace(b"hello", b"hello \\ud83d"), "hello \N{REPLACEMENT CHARACTER}"),
        (WHOLE[:-1] + b', "logprobs": NaN}', "hello"),
        (WHOLE.replace(b"hello", "né".encode("latin-1")), "n\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_json_that_a_strict_reader_refuses_is_read(body: bytes, text: str, stream: bool) -> None:
    async with OpenAIApi() as api:
        reply, shown = await complete(api, Reply(body=body), stream=stream)
    assert reply.text == text
    assert shown == ([text] if stream else [])


async def test_a_character_escaped_in_two_halves_over_two_events_is_whole_again() -> None:
    body = STREAM.replace(b"hello", b"\\ud83d") + b""
    body = body.replace(b"\n\ndata: ", b'\n\ndata: {"choices": [{"delta": {"content": "\\ude00"}}]}\n\ndata: ', 1)
    async with OpenAIApi() as api:
        reply, shown = await complete(api, Reply(body=body, headers={"Content-Type": "text/event-stream"}))
    assert reply.text == shown[-1] == "\N{GRINNING FACE}"
    assert all(text.encode() for text in shown)


@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"message": "boom", "code": 503}\n\n',
        b'error: {"message": "boom", "code": 503}\n\n',
        b"error: boom\n\n",
        b'data: {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500}\n\n',
        b'data: {"detail": "boom"}\n\n',
    ],
)
async def test_an_error_in_mid_answer_is_an_error_and_not_the_end_of_the_answer(event: bytes) -> None:
    body = STREAM.partition(b"\n\n")[0] + b"\n\n" + event + b"data: [DONE]\n\n"
    async with OpenAIApi() as api:
        error = await fail(api, Reply(body=body, headers={"Content-Type": "text/event-stream"}))
    assert error.kind is ProviderErrorKind.SERVER
    assert "boom" in error.detail


@pytest.mark.parametrize(
    "message",
    [
        {"function_call": {"name": "cron", "arguments": "{}"}},
        {"tool_calls": {"id": "c", "function": {"name": "cron", "arguments": "{}"}}},
        {"tool_calls": [{"name": "cron", "arguments": {}}]},
    ],
)
def test_a_call_in_another_form_is_a_call(message: Json) -> None:
    reply = ReplyReader().read({"choices": [{"message": {"content": None, **message}}]})
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("cron", "{}")]
    assert reply.malformed_calls == 0
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("marks", [{"id": "c"}, {"index": 0}, {"index": 0, "id": "c"}])
def test_whole_calls_under_one_id_or_index_stay_two(marks: Json) -> None:
    calls = [{**marks, "function": {"name": "cron", "arguments": f'{{"n": {n}}}'}} for n in (1, 2)]
    reply = ReplyReader().read({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "stop"}]})
    assert [call.arguments for call in reply.tool_calls] == ['{"n": 1}', '{"n": 2}']
    assert len({call.id for call in reply.tool_calls}) == 2


@pytest.mark.parametrize("name", [{"name": "cron"}, {}])
@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_a_whole_call_that_is_sent_again_at_the_end_is_one_call(index: Json, name: Json) -> None:
    reader = ReplyReader()
    for arguments in ('{"n"', ": 1}"):
        piece = {**index, "id": "c", "function": {"name": "cron", "arguments": arguments}}
        reader.feed({"choices": [{"delta": {"tool_calls": [piece]}}]})
    again = {**index, "id": "c", "function": {**name, "arguments": '{"n": 1}'}}
    reader.feed({"choices": [{"delta": {"tool_calls": [again]}, "finish_reason": "tool_calls"}]})
    assert [(call.id, call.name, call.arguments) for call in reader.reply(ended=True).tool_calls] == [
        ("c", "cron", '{"n": 1}')
    ]


def test_a_refusal_without_a_finish_reason_is_a_declined_answer() -> None:
    with pytest.raises(ProviderError) as caught:
        ReplyReader().read({"choices": [{"message": {"content": None, "refusal": "no"}}]})
    assert caught.value.kind is ProviderErrorKind.CONTENT_FILTER


def test_a_last_chunk_that_repeats_the_whole_message_doubles_nothing() -> None:
    reader = ReplyReader()
    reader.feed({"choices": [{"delta": {"content": "hello"}, "message": {"content": "hello"}}]})
    reader.feed({"choices": [{"delta": {}, "message": {"content": "hello"}, "finish_reason": "stop"}]})
    assert reader.reply(ended=True).text == "hello"


@pytest.mark.parametrize(
    "echoed", [b"secret/part+two", b"secret\\/part+two", b"secret\\u002fpart\\u002Btwo", b"s\\u0065cret/part+two"]
)
@pytest.mark.parametrize("status", [401, 500, 200])
async def test_a_key_that_is_echoed_in_another_spelling_of_json_is_not_kept(status: int, echoed: bytes) -> None:
    """The error of a turn is stored."""
    async with OpenAIApi() as api:
        body = b'{"error": {"message": "refused: %b", "param": "%b"}}' % (echoed, echoed)
        error = await fail(api, Reply(status=status, body=body), api_key="secret/part+two")
    assert "refused: ***" in error.detail
    assert "part" not in str(error)


# --- where the endpoint is


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("", "https://api.openai.com/v1"),
        (" http://h:1/v1/ ", "http://h:1/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("http://h/v1/chat/completions/", "http://h/v1"),
        ("http://h", "http://h"),
        ("http://h/v1/v1/", "http://h/v1"),
        ("https://h/x/v1?api-version=1", "https://h/x/v1?api-version=1"),
    ],
)
def test_an_address_is_used_as_it_was_meant(written: str, used: str) -> None:
    assert usable_base_url(written) == used


async def test_a_missing_v1_is_named_with_the_address_that_was_asked() -> None:
    async with OpenAIApi() as api:
        error = await fail(api, Reply(status=404, body="404 page not found"), base_url=api.url.removesuffix("/v1"))
    assert error.kind is ProviderErrorKind.NOT_FOUND
    assert "/chat/completions; most endpoints want /v1 at the end of base_url" in error.detail


async def test_a_redirect_that_loses_the_request_is_named_with_where_it_leads() -> None:
    async with OpenAIApi() as api:
        target = f"{api.url}/elsewhere"
        error = await fail(api, Reply(status=301, body=b"", headers={"Location": target}))
    assert error.kind is ProviderErrorKind.NOT_FOUND
    assert f"asked {target} after a redirect" in error.detail
    assert not error.retryable


async def test_a_pasted_address_with_the_whole_path_and_a_model_with_slashes_work() -> None:
    async with OpenAIApi() as api:
        api.script.append(Reply(body=orjson.loads(WHOLE)))
        provider = OpenAIProvider(
            model="meta-llama/Llama-3.3:free", base_url=f"{api.url}/chat/completions", limits=QUICK, sleep=Naps()
        )
        reply = await provider.complete(ask())
        await provider.close()
        assert reply.text == "hello"
        assert api.requests[0]["model"] == "meta-llama/Llama-3.3:free"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nno header\x00: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 502 D\xe9faillance\r\nContent-Length: 0\r\n\r\n".encode("latin-1"),
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 500\r\n\r\ncut",
    ],
)
async def test_what_is_no_http_is_a_failed_connection(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        provider = OpenAIProvider(
            model="test-model", base_url=f"http://127.0.0.1:{port}/v1", limits=QUICK, sleep=Naps()
        )
        try:
            with pytest.raises(ProviderError) as caught:
                await provider.complete(ask())
        finally:
            await provider.close()
    assert caught.value.kind is ProviderErrorKind.CONNECTION
