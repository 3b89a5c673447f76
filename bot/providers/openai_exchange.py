"""One exchange with a chat.completions endpoint: a request's bytes out, a reply in, within its time limits.

Owns the connection. What goes into a request is `openai_dialect`'s business, what comes out of it
`sse_reader`'s and `reply_reader`'s, what an error means `openai_errors`', and whether to try again
`openai_compatible`'s. History never passes through the SDK's typed path, which checks every message of it
against its models at every call; the SDK sends one block of bytes and hands back the raw answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from bot.clock import Clock
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply
from bot.providers.call_limits import CallLimits, Watch
from bot.providers.lenient_json import read_json
from bot.providers.openai_address import CHAT_PATH, not_found_hint
from bot.providers.openai_errors import Failure, clean_detail, kind_of, read_failure, without_key
from bot.providers.reply_reader import ReplyReader
from bot.providers.sse_reader import SseReader

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

MAX_REPLY_BYTES = 64 * 1024 * 1024
DRAIN_S = 0.1
"""How long to read on after `[DONE]`, so that the connection can serve the next call."""

_BLANK = b"\xef\xbb\xbf \t\r\n"  # white space, and the byte order mark in front of it
_SSE_BEGINNINGS = b":deir"  # a comment, or one of the fields data, event, error, id, retry


class RefusalError(Exception):
    """An HTTP error answer on its way from the exchange to whoever can learn from it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.status)
        self.failure = failure


class Endpoint:
    """One endpoint with its key and its connections. Created without network or imports."""

    def __init__(self, *, base_url: str, api_key: str, limits: CallLimits, clock: Clock) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._limits = limits
        self._clock = clock
        self._client: AsyncOpenAI | None = None
        self._building = asyncio.Lock()

    async def exchange(
        self, body: bytes, reader: ReplyReader, show: Callable[[str], None], *, deadline: float
    ) -> ModelReply:
        """Send a request and read its reply, streamed or not; `show` gets the text as it grows.

        `reader` is fresh; after an error it has what had arrived. `deadline` is in the loop's time.

        Raises:
            ProviderError: the exchange failed on its way, or what came is no reply.
            RefusalError: the endpoint answered with an HTTP error.
        """
        client = await self.ready()
        watch = Watch(self._limits, deadline)
        try:
            async with (
                watch.scope,
                self._answer(client, body) as response,
                aclosing(_chunks(response)) as chunks,
            ):
                head = await _head(chunks)
                # What was asked for is not always what comes, and the declared type is not always what it
                # is: some endpoints know only one of the two, proxies rename either. The bytes tell.
                if _looks_streamed(head, response.headers.get("content-type", "")):
                    reply = await self._read_stream(head, chunks, reader, show, watch)
                else:
                    reply = await self._read_whole(head, chunks, reader, watch)
        except TimeoutError as exc:
            if not reader.finished:
                raise ProviderError(ProviderErrorKind.TIMEOUT, watch.reached()) from exc
            reply = reader.reply(ended=True)
        return reply

    @asynccontextmanager
    async def _answer(self, client: AsyncOpenAI, body: bytes) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield the open 2xx answer; errors of the transport come out mapped."""
        import aiohttp  # with the SDK: slow to import (600 ms), loaded by warm_up
        import httpx2  # see above
        import openai  # see above

        response: httpx2.Response | None = None
        headers: dict[str, str | openai.Omit] = {"Content-Type": "application/json"}
        if not self._api_key:
            headers["Authorization"] = openai.Omit()
        try:
            # With `cast_to` a plain response the SDK hands it back unread, whatever its signature says.
            answer: Any = await client.post(
                CHAT_PATH,
                cast_to=httpx2.Response,
                content=body,
                options={"headers": headers},
                stream=True,
                stream_cls=openai.AsyncStream[Any],
            )
            response = cast("httpx2.Response", answer)
            yield response
        except ProviderError as exc:
            detail = clean_detail(exc.detail, self._api_key)
            raise ProviderError(
                exc.kind, detail, retry_after_s=exc.retry_after_s, window_tokens=exc.window_tokens
            ) from exc
        except openai.APIStatusError as exc:
            raise RefusalError(self._failure(exc.response)) from exc
        except (openai.APIConnectionError, httpx2.RequestError, aiohttp.ClientError, UnicodeError) as exc:
            # The last two are for answers that are no HTTP, down to a status line that is no UTF-8.
            raise self._transport_error(exc, body_began=response is not None) from exc
        finally:
            if response is not None:
                await response.aclose()

    def _failure(self, answer: httpx2.Response) -> Failure:
        failure = read_failure(answer.status_code, answer.headers, answer.content, now_us=self._clock.now_us())
        failure = without_key(failure, self._api_key)
        if kind_of(failure) is ProviderErrorKind.NOT_FOUND:
            hint = not_found_hint(self._base_url + CHAT_PATH, str(answer.url))
            failure = replace(failure, message=f"{failure.message[:300]} ({hint})")
        return failure

    def _transport_error(self, exc: Exception, *, body_began: bool) -> ProviderError:
        import aiohttp  # loaded with the SDK long before

        cause: BaseException = exc
        # Under the SDK's error lies the name that httpx2 has for it, and under that what really happened.
        while cause.__cause__ is not None and not isinstance(cause, aiohttp.ClientError):
            cause = cause.__cause__
        detail = clean_detail(f"{type(cause).__name__}: {cause}", self._api_key)
        return ProviderError(ProviderErrorKind.CUT if body_began else ProviderErrorKind.CONNECTION, detail)

    async def _read_whole(
        self, head: bytes, chunks: AsyncIterator[bytes], reader: ReplyReader, watch: Watch
    ) -> ModelReply:
        parts = [head]
        if head.strip():
            watch.sign_of_life()
        async for chunk in chunks:
            parts.append(chunk)
            if chunk.strip():  # some gateways send spaces to keep the connection alive
                watch.sign_of_life()
        try:
            body = read_json(b"".join(parts))
        except ValueError as exc:
            shown = b"".join(parts)[:300].decode(errors="replace")
            raise ProviderError(ProviderErrorKind.MALFORMED, f"the answer is not JSON: {shown}") from exc
        return reader.read(body)

    async def _read_stream(
        self,
        head: bytes,
        chunks: AsyncIterator[bytes],
        reader: ReplyReader,
        show: Callable[[str], None],
        watch: Watch,
    ) -> ModelReply:
        import httpx2  # loaded with the SDK long before

        events = SseReader()
        chunk: bytes | None = head
        try:
            while chunk is not None:
                for event in events.feed(chunk):
                    reader.feed(event)
                if reader.begun:
                    watch.sign_of_life(ending=reader.finished)
                show(reader.text)
                if events.done:
                    await _drain(chunks)
                    break
                chunk = await anext(chunks, None)
            for event in events.finish():
                reader.feed(event)
        except httpx2.RequestError:
            if not (reader.finished or events.done):
                raise
        return reader.reply(ended=events.done)

    async def ready(self) -> AsyncOpenAI:
        """Import the SDK and build its client, which reads the certificates, in a thread; once."""
        if self._client is None:
            async with self._building:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._build_client)
        return self._client

    async def close(self) -> None:
        """Let go of the connections; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _build_client(self) -> AsyncOpenAI:
        import httpx2  # slow to import with the SDK (600 ms), therefore here: a thread, and not at start
        import openai  # see above

        connect_s = self._limits.connect_s
        return openai.AsyncOpenAI(
            # Never empty: the SDK would then send the environment's key for OpenAI to any server.
            api_key=self._api_key or "none",
            base_url=self._base_url,
            max_retries=0,
            # No limit on reading here: `_exchange` watches over it, and knows a first token from a stall.
            # `pool` is the time that connecting may take with what goes before it: looking up the name.
            timeout=httpx2.Timeout(None, connect=connect_s, pool=connect_s),
            # Half the CPU of the SDK's usual transport, which asks the system about every idle connection before and
            # after each call. Both trust the system's certificates and follow the environment's proxies.
            http_client=openai.DefaultAioHttpClient(),
        )


async def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise ProviderError(ProviderErrorKind.MALFORMED, f"a reply of more than {MAX_REPLY_BYTES} bytes")
        yield chunk


async def _head(chunks: AsyncIterator[bytes]) -> bytes:
    """Return what has come once something other than white space is there; b"" for an empty body."""
    head = b""
    while not head.strip(_BLANK):
        chunk = await anext(chunks, None)
        if chunk is None:
            break
        head += chunk
    return head


def _looks_streamed(head: bytes, declared: str) -> bool:
    first = head.lstrip(_BLANK)[:1]
    if not first or first in b"{[<":
        return False
    return "event-stream" in declared or first in _SSE_BEGINNINGS


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
    except TimeoutError:
        pass  # the endpoint keeps the answer open: the connection is closed instead of used again
