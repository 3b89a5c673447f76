"""A chain of models: where one endpoint fails, the next one is asked.

Tries, waits and continuations at one endpoint are its provider's business; what comes out of it has had its
tries. What a failure says about the other endpoints decides whether they are asked:

- no connection, silence, a server's error, a cut or unreadable reply, a rate limit: another may be well;
- a refused key, an empty account, an unknown model: that is this entry's own;
- a declined answer (content filter) stays declined: asking round until somebody says it would go behind the
  back of the provider's rules and of the person, who is told so plainly;
- a refused request or a too long one is the request's own fault: the runner mends or reports it. Another model
  would hide the fault for as long as it takes it.

An entry that failed is left alone for a while, longer each time in a row, and then asked in its turn again, so
that the first one comes back by itself. If all are being left alone, all are asked: waiting helps nobody. Text
that one had streamed is replaced by the next one's, never added to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from bot.clock import Clock, SystemClock
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest, Provider

PAUSE_S = 30.0
"""How long an entry is left alone after its first failure; twice as long after each further one in a row."""

PAUSE_BY_OWNER_S = 300.0
"""The same where only its owner can help, and the longest pause of the others."""

_MOST_DOUBLINGS = 10  # the longest pause is reached long before; a power without a limit would overflow one day

_OWNERS_AFFAIR = frozenset({ProviderErrorKind.AUTH, ProviderErrorKind.QUOTA, ProviderErrorKind.NOT_FOUND})
_REQUESTS_FAULT = frozenset(
    {ProviderErrorKind.CONTENT_FILTER, ProviderErrorKind.BAD_REQUEST, ProviderErrorKind.CONTEXT_LENGTH}
)

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Entry:
    """One model of the chain. `label` names it in the log; it holds no secret."""

    label: str
    provider: Provider
    paused_until_s: float = 0.0  # on the monotonic clock
    failures: int = 0  # in a row


class FallbackProvider(Provider):
    """Asks its entries in order until one answers. A reply names the model that gave it."""

    name: ClassVar[str] = "fallback"

    def __init__(self, entries: Sequence[Entry], *, total_s: float = 600.0, clock: Clock | None = None) -> None:
        """Take the entries, the preferred one first; `total_s` bounds one call, whoever answers it."""
        self._entries = tuple(entries)
        self._total_s = total_s
        self._clock = clock or SystemClock()

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`.

        Raises:
            ProviderError: that of the first entry asked, when none answered; or the first that says the fault is
                the request's own.
        """
        first: ProviderError | None = None
        try:
            async with asyncio.timeout(self._total_s):
                for entry in self._in_turn():
                    failures = entry.failures
                    try:
                        reply = await entry.provider.complete(request, on_text)
                    except ProviderError as error:
                        if error.kind in _REQUESTS_FAULT:
                            entry.failures = 0
                            raise
                        self._pause(entry, error, failures)
                        first = first or error
                    else:
                        entry.failures, entry.paused_until_s = 0, 0.0
                        return reply
        except TimeoutError as exc:
            detail = f"no model answered within {self._total_s:g} s"
            raise first or ProviderError(ProviderErrorKind.TIMEOUT, detail) from exc
        assert first is not None
        _log.error("no model of the chain answered")
        raise first

    async def warm_up(self) -> None:
        """See `Provider.warm_up`."""
        for entry in self._entries:
            await entry.provider.warm_up()

    async def close(self) -> None:
        """See `Provider.close`."""
        for entry in self._entries:
            await entry.provider.close()

    def _in_turn(self) -> list[Entry]:
        """Return the entries to ask: those that are not left alone, or all."""
        now_s = self._clock.monotonic_s()
        return [entry for entry in self._entries if entry.paused_until_s <= now_s] or list(self._entries)

    def _pause(self, entry: Entry, error: ProviderError, failures: int) -> None:
        """Leave an entry alone; `failures` is how many it had in a row when it was asked.

        Calls that were under way side by side and failed together are one failure: they say nothing new.
        """
        if entry.failures <= failures:
            entry.failures += 1
        doublings = min(entry.failures - 1, _MOST_DOUBLINGS)
        pause_s = min(PAUSE_S * 2.0**doublings, PAUSE_BY_OWNER_S)
        if error.kind in _OWNERS_AFFAIR:
            pause_s = PAUSE_BY_OWNER_S
        elif error.retry_after_s is not None:
            pause_s = max(pause_s, error.retry_after_s)
        entry.paused_until_s = max(entry.paused_until_s, self._clock.monotonic_s() + pause_s)
        _log.warning("model %s failed (%s), left alone for %.0f s", entry.label, error, pause_s)
