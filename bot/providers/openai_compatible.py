"""The `openai` provider: any chat.completions endpoint, from OpenAI to a llama.cpp on the same machine.

Owns the connection, the time limits and the retries. What goes into a request is `openai_dialect`'s business,
what comes out of it `sse_reader`'s and `reply_reader`'s, what an error means `openai_errors`'. History never
passes through the SDK's typed path, which checks every message of it against its models at every call; the
SDK sends one block of bytes and hands back the raw answer.

Time limits of a call: `connect_s` for the connection, `first_token_s` until the first text, reasoning or
call arrives (role-only chunks and keep-alive comments are none), from then on `idle_s` between two signs of
life (anything the endpoint sends, keep-alive comments included: it is still working), and `total_s` for
everything, retries and waits too. An answer that is not streamed has `first_token_s` until its first byte.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from bot.clock import Clock, SystemClock
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest, Provider
from bot.messages import clean_text
from bot.providers.lenient_json import read_json
from bot.providers.openai_address import CHAT_PATH, not_found_hint, refuse_unusable_key, usable_base_url
from bot.providers.openai_dialect import Dialect, output_limit_tokens
from bot.providers.openai_errors import Failure, clean_detail, kind_of, read_failure, to_error
from bot.providers.reply_reader import ReplyReader
from bot.providers.sse_reader import SseReader

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

MAX_REPLY_BYTES = 64 * 1024 * 1024
DRAIN_S = 0.1
"""How long to read on after `[DONE]`, so that the connection can serve the next call."""

FINISH_GRACE_S = 2.0
"""How long to wait for usage and `[DONE]` once the endpoint said why it stopped: the reply is whole then."""

_BLANK = b"\xef\xbb\xbf \t\r\n"  # white space, and the byte order mark in front of it
_SSE_BEGINNINGS = b":deir"  # a comment, or one of the fields data, event, error, id, retry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How long a call may take, in seconds, and how often it is tried; the module says what each covers."""

    connect_s: float = 10.0
    first_token_s: float = 180.0
    idle_s: float = 60.0
    total_s: float = 600.0
    max_wait_s: float = 120.0  # a longer wait asked for by the provider is not waited for
    tries: int = 3
    backoff_s: float = 1.0  # the first wait is at most this, each later one at most twice the one before
    max_backoff_s: float = 20.0


class _RefusalError(Exception):
    """An HTTP error answer on its way from the exchange to whoever can learn from it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.status)
        self.failure = failure


class _Watch:
    """The time limits of one exchange."""

    def __init__(self, limits: CallLimits, deadline: float) -> None:
        self._limits = limits
        self._deadline = deadline
        self._now = asyncio.get_running_loop().time
        self._begun = False
        self.scope = asyncio.timeout_at(min(deadline, self._now() + limits.first_token_s))

    def sign_of_life(self, *, ending: bool = False) -> None:
        """Note that the reply has begun and goes on, or that only its formal end is missing."""
        self._begun = True
        patience_s = min(self._limits.idle_s, FINISH_GRACE_S) if ending else self._limits.idle_s
        self.scope.reschedule(min(self._deadline, self._now() + patience_s))

    def reached(self) -> str:
        """Say which limit ended the exchange."""
        if self._now() >= self._deadline:
            return f"the call took longer than {self._limits.total_s:g} s"
        if self._begun:
            return f"the reply stalled for {self._limits.idle_s:g} s"
        return f"nothing came within {self._limits.first_token_s:g} s"


class _Display:
    """Passes the growing text on, each state of it once."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._shown = ""

    def show(self, text: str) -> None:
        if self._on_text is not None and text != self._shown:
            self._shown = text
            self._on_text(clean_text(text))


class OpenAIProvider(Provider):
    """One model of one endpoint, for any number of calls side by side. Created without network or imports."""

    name: ClassVar[str] = "openai"

    def __init__(
        self,
        *,
        model: str,
        api_key: str = "",
        base_url: str = "",
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        context_window_tokens: int | None = None,
        limits: CallLimits | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take plain values; an endpoint without keys (Ollama, llama.cpp) gets an empty one.

        Raises:
            ConfigError: the key or the address can never work.
        """
        self._base_url = usable_base_url(base_url)
        self._api_key = api_key.strip()
        refuse_unusable_key(self._api_key)
        self._limits = limits or CallLimits()
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._jitter = jitter
        self._dialect = Dialect(
            model=model,
            base_url=self._base_url,
            temperature=temperature,
            output_tokens=output_limit_tokens(max_output_tokens, context_window_tokens),
        )
        self._client: AsyncOpenAI | None = None
        self._building = asyncio.Lock()

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`; streams when `on_text` is given.

        Retryable errors are tried again here, so `on_text` may start over with a shorter text. An error that
        comes out has had its tries.
        """
        loop = asyncio.get_running_loop()
        client = await self._ready_client()
        deadline = loop.time() + self._limits.total_s
        attempt = 1
        while True:
            try:
                return await self._adapting(client, request, on_text, deadline)
            except ProviderError as error:
                wait_s = self._wait_s(error, attempt, deadline - loop.time())
                _log.warning("model call failed (%s), next try in %.1f s", error, wait_s)
            await self._sleep(wait_s)
            attempt += 1

    async def warm_up(self) -> None:
        """Import the SDK and build its client, which reads the certificates, in a thread."""
        await self._ready_client()

    async def close(self) -> None:
        """See `Provider.close`."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _wait_s(self, error: ProviderError, attempt: int, left_s: float) -> float:
        """Return how long to wait before the next try; raises the error when there is none."""
        limits = self._limits
        if not error.retryable or attempt >= limits.tries:
            raise error
        asked_s = error.retry_after_s or 0.0
        if asked_s > limits.max_wait_s:
            detail = f"asked to wait {asked_s:.0f} s, the limit is {limits.max_wait_s:.0f} s; {error.detail}"
            raise ProviderError(error.kind, clean_detail(detail), retry_after_s=asked_s) from error
        spread_s = self._jitter() * min(limits.backoff_s * 2.0 ** (attempt - 1), limits.max_backoff_s)
        # Callers told to come back at the same second would collide again: the spread comes on top.
        wait_s = asked_s + spread_s
        if wait_s >= left_s:
            raise error
        return wait_s

    async def _adapting(
        self,
        client: AsyncOpenAI,
        request: ModelRequest,
        on_text: Callable[[str], None] | None,
        deadline: float,
    ) -> ModelReply:
        """One try, sent again at once when the endpoint's 400 taught something."""
        stream = on_text is not None
        while True:
            revision = self._dialect.revision
            try:
                return await self._exchange(client, request, on_text, deadline)
            except _RefusalError as refusal:
                failure = refusal.failure
                learned = self._dialect.learn(failure, request, stream=stream, revision=revision)
                if not learned:
                    raise to_error(failure) from refusal
                _log.warning("the endpoint differs: %s", learned)

    async def _exchange(
        self,
        client: AsyncOpenAI,
        request: ModelRequest,
        on_text: Callable[[str], None] | None,
        deadline: float,
    ) -> ModelReply:
        body = self._dialect.encode(request, stream=on_text is not None)
        watch = _Watch(self._limits, deadline)
        reader = ReplyReader()
        display = _Display(on_text)
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
                    reply = await self._read_stream(head, chunks, reader, display, watch)
                else:
                    reply = await self._read_whole(head, chunks, reader, watch)
        except TimeoutError as exc:
            if not reader.finished:
                raise ProviderError(ProviderErrorKind.TIMEOUT, watch.reached()) from exc
            reply = reader.reply(ended=True)
        display.show(reply.text)
        return reply

    @asynccontextmanager
    async def _answer(self, client: AsyncOpenAI, body: bytes) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield the open 2xx answer; errors of the transport come out mapped."""
        import httpx2  # with the SDK: slow to import (600 ms), loaded by warm_up
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
            raise ProviderError(exc.kind, detail, retry_after_s=exc.retry_after_s) from exc
        except openai.APIStatusError as exc:
            raise _RefusalError(self._failure(exc.response)) from exc
        except (openai.APIConnectionError, httpx2.RequestError) as exc:
            raise self._transport_error(exc, body_began=response is not None) from exc
        finally:
            if response is not None:
                await response.aclose()

    def _failure(self, answer: httpx2.Response) -> Failure:
        body = answer.content
        if self._api_key:
            body = body.replace(self._api_key.encode(), b"***")
        failure = read_failure(answer.status_code, answer.headers, body, now_us=self._clock.now_us())
        if kind_of(failure) is ProviderErrorKind.NOT_FOUND:
            hint = not_found_hint(self._base_url + CHAT_PATH, str(answer.url))
            failure = replace(failure, message=f"{failure.message[:300]} ({hint})")
        return failure

    def _transport_error(self, exc: Exception, *, body_began: bool) -> ProviderError:
        cause = exc.__cause__ or exc
        detail = clean_detail(f"{type(cause).__name__}: {cause}", self._api_key)
        return ProviderError(ProviderErrorKind.CUT if body_began else ProviderErrorKind.CONNECTION, detail)

    async def _read_whole(
        self, head: bytes, chunks: AsyncIterator[bytes], reader: ReplyReader, watch: _Watch
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
        display: _Display,
        watch: _Watch,
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
                display.show(reader.text)
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

    async def _ready_client(self) -> AsyncOpenAI:
        if self._client is None:
            async with self._building:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._build_client)
        return self._client

    def _build_client(self) -> AsyncOpenAI:
        import httpx2  # slow to import with the SDK (600 ms), therefore here: a thread, and not at start
        import openai  # see above

        return openai.AsyncOpenAI(
            # Never empty: the SDK would then send the environment's key for OpenAI to any server.
            api_key=self._api_key or "none",
            base_url=self._base_url,
            max_retries=0,
            # No limit on reading here: `_exchange` watches over it, and knows a first token from a stall.
            timeout=httpx2.Timeout(None, connect=self._limits.connect_s),
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
