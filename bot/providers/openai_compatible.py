"""The `openai` provider: any chat.completions endpoint, from OpenAI to a llama.cpp on the same machine.

Decides what a failed exchange leads to: another try after a wait, a request that the endpoint's 400 taught to
write differently, a continuation of what had arrived, or the error. The exchange itself is `openai_exchange`'s
business, what goes into a request `openai_dialect`'s, and asking other endpoints `fallback`'s.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar

from bot.clock import Clock, SystemClock
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest, Provider
from bot.providers.call_limits import CallLimits
from bot.providers.continuation import Composition
from bot.providers.openai_address import refuse_unusable_key, usable_base_url
from bot.providers.openai_dialect import Dialect, output_limit_tokens
from bot.providers.openai_errors import clean_detail, to_error
from bot.providers.openai_exchange import Endpoint, RefusalError
from bot.providers.reply_reader import ReplyReader

_log = logging.getLogger(__name__)


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
        reasoning_effort: str = "",
        replays_reasoning: bool = False,
        limits: CallLimits | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take plain values; an endpoint without keys (Ollama, llama.cpp) gets an empty one.

        Raises:
            ConfigError: the key or the address can never work.
        """
        base_url, api_key = usable_base_url(base_url), api_key.strip()
        refuse_unusable_key(api_key)
        self._model = model
        self._limits = limits or CallLimits()
        self._sleep = sleep
        self._jitter = jitter
        self._dialect = Dialect(
            model=model,
            base_url=base_url,
            temperature=temperature,
            output_tokens=output_limit_tokens(max_output_tokens, context_window_tokens),
            reasoning_effort=reasoning_effort,
            replays_reasoning=replays_reasoning,
        )
        self._endpoint = Endpoint(base_url=base_url, api_key=api_key, limits=self._limits, clock=clock or SystemClock())
        self._unopened = False  # the endpoint sends the closing tag of reasoning without the opening one

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`; streams when `on_text` is given.

        Retryable errors are tried again here, so `on_text` may start over with a shorter text. An error that
        comes out has had its tries. A streamed reply that was cut off is continued where it stopped, if enough of
        it had arrived; a call that had begun is never guessed at.
        """
        loop = asyncio.get_running_loop()
        await self._endpoint.ready()
        deadline = loop.time() + self._limits.total_s
        composition = Composition(request, on_text)
        attempt = 1
        while True:
            try:
                reply = await self._adapting(composition, deadline)
            except ProviderError as error:
                wait_s = self._wait_s(error, attempt, deadline - loop.time())
                _log.warning(
                    "call of %s failed (%s), %s in %.1f s",
                    self._model,
                    error,
                    "going on with what arrived" if composition.resumes else "next try",
                    wait_s,
                )
            else:
                return replace(composition.finish(reply), model=self._model)
            await self._sleep(wait_s)
            attempt += 1

    async def warm_up(self) -> None:
        """See `Provider.warm_up`."""
        await self._endpoint.ready()

    async def close(self) -> None:
        """See `Provider.close`."""
        await self._endpoint.close()

    def _wait_s(self, error: ProviderError, attempt: int, left_s: float) -> float:
        """Return how long to wait before the next try; raises the error when there is none."""
        limits = self._limits
        is_silent = error.kind is ProviderErrorKind.TIMEOUT and not limits.waits_again
        if not error.retryable or attempt >= limits.tries or is_silent:
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

    async def _adapting(self, composition: Composition, deadline: float) -> ModelReply:
        """One try, sent again at once when the endpoint's 400 taught something."""
        while True:
            revision = self._dialect.revision
            request = composition.begin()
            reader = ReplyReader(unopened=self._unopened)
            body = self._dialect.encode(request, stream=composition.streams)
            try:
                return await self._endpoint.exchange(body, reader, composition.show, deadline=deadline)
            except RefusalError as refusal:
                failure = refusal.failure
                learned = self._dialect.learn(failure, request, stream=composition.streams, revision=revision)
                if not learned:
                    error = to_error(failure)
                    if not composition.resumes or error.kind is not ProviderErrorKind.BAD_REQUEST:
                        raise error from refusal
                    composition.start_over()
                    learned = "takes no continuation"
                _log.warning("the endpoint differs: %s", learned)
            except ProviderError:
                if composition.streams:
                    composition.keep(reader.salvage(), reader.usage)
                raise
            finally:
                self._unopened = self._unopened or reader.closed_unopened
