"""Calls of the openai provider in tests: one for a loopback server, and a sleep that only takes notes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bot.errors import ProviderError
from bot.interfaces import ModelReply, ModelRequest
from bot.providers.call_limits import CallLimits
from bot.providers.openai_compatible import OpenAIProvider
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply

QUICK = CallLimits(first_token_s=5, idle_s=5, total_s=10)
"""Limits that no test of a working endpoint reaches, and that end a hanging one soon."""


class Naps(list[float]):
    """Stands in for sleep: remembers the waits, takes none."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def ask(text: str = "hello", *, tools: Sequence[dict[str, Any]] = (), **fields: Any) -> ModelRequest:
    """Return a request with one user message."""
    return ModelRequest(messages=[{"role": "user", "content": text}], tools=tools, **fields)


def tool(name: str) -> dict[str, Any]:
    """Return the definition of a tool that takes a text."""
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def sse(*events: str, end: str = "\n\n") -> Reply:
    """Return a reply that streams these events as they are."""
    body = "".join(f"data: {event}{end}" for event in events)
    return raw_stream(body.encode())


def raw_stream(body: bytes) -> Reply:
    """Return a reply that streams these bytes."""
    return Reply(body=body, headers={"Content-Type": "text/event-stream"})


@asynccontextmanager
async def provider_for(api: OpenAIApi, **options: Any) -> AsyncIterator[OpenAIProvider]:
    """Yield a provider that talks to `api` and waits without taking time; `options` change its arguments."""
    provider = OpenAIProvider(
        **{"model": "test-model", "base_url": api.url, "limits": QUICK, "sleep": Naps(), **options}
    )
    try:
        yield provider
    finally:
        await provider.close()


@asynccontextmanager
async def raw_endpoint(stream: bytes, *, hang_up: bool = False) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Yield the address of a server that sends this stream without an end, and when its client is gone.

    It then stays connected in silence, or resets the connection (`hang_up`).
    """
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%b\r\n" % (len(stream), stream))
        await writer.drain()
        while not hang_up and await reader.read(65536):
            pass
        gone.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", gone


async def complete(
    api: OpenAIApi, reply: Reply | None = None, *, stream: bool = True, **options: Any
) -> tuple[ModelReply, list[str]]:
    """Make one call that `reply` answers; return the reply and the texts that were shown meanwhile."""
    if reply is not None:
        api.script.append(reply)
    shown: list[str] = []
    async with provider_for(api, **options) as provider:
        return await provider.complete(ask(), shown.append if stream else None), shown


async def fail(api: OpenAIApi, reply: Reply, *, stream: bool = True, **options: Any) -> ProviderError:
    """Make one call that is answered by `reply` as often as it is tried; return the error it ends with."""
    api.default = lambda request: reply
    try:
        got, _ = await complete(api, stream=stream, **options)
    except ProviderError as error:
        return error
    raise AssertionError(f"no error, but {got}")
