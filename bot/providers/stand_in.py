"""A provider with a stand-in: when the model cannot be reached, what the stand-in understands still works.

The stand-in needs no network, so reminders can be set and listed while the model is down. Anything it does
not understand gets the model's own error. Tries, waits and other models are the primary's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Protocol

from bot.clock import Clock, SystemClock
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest, Provider

STAND_IN_CALL_PREFIX = "offline-"
"""The ids of the stand-in's tool calls begin with this; it is how its unfinished exchanges are known."""

DOWN_S = 30.0
"""How long after a failure the primary counts as down."""

_DOWN_KINDS = frozenset({ProviderErrorKind.CONNECTION, ProviderErrorKind.TIMEOUT, ProviderErrorKind.SERVER})


class StandIn(Protocol):
    """A provider that knows beforehand what it can answer, such as `bot.providers.offline`."""

    def understands(self, request: ModelRequest) -> bool:
        """Say whether it can do what the last user message asks; cheap, without side effects."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`."""

    async def warm_up(self) -> None:
        """See `Provider.warm_up`."""

    async def close(self) -> None:
        """See `Provider.close`."""


class StandInProvider(Provider):
    """Asks `primary`, and `stand_in` where the primary fails or is known to be down."""

    name: ClassVar[str] = "stand-in"

    def __init__(
        self,
        primary: Provider,
        stand_in: StandIn,
        *,
        notice: Callable[[str], str],
        clock: Clock | None = None,
    ) -> None:
        """Take both, and `notice`, which gives the sentence for the person by language code."""
        self._primary = primary
        self._stand_in = stand_in
        self._notice = notice
        self._clock = clock or SystemClock()
        self._down_since_s: float | None = None

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`. A reply of the stand-in carries `notice`.

        Raises:
            ProviderError: the primary's, when the stand-in does not understand the request either.
        """
        if _began_by_stand_in(request):
            return await self._stand_in_reply(request, on_text)
        if self._is_down() and self._stand_in.understands(request):
            return await self._stand_in_reply(request, on_text)
        try:
            reply = await self._primary.complete(request, on_text)
        except ProviderError as error:
            if error.kind in _DOWN_KINDS:
                self._down_since_s = self._clock.monotonic_s()
            if not self._stand_in.understands(request):
                raise
            return await self._stand_in_reply(request, on_text)
        self._down_since_s = None
        return reply

    async def warm_up(self) -> None:
        """See `Provider.warm_up`."""
        await self._stand_in.warm_up()
        await self._primary.warm_up()

    async def close(self) -> None:
        """See `Provider.close`."""
        await self._primary.close()
        await self._stand_in.close()

    def _is_down(self) -> bool:
        since_s = self._down_since_s
        return since_s is not None and self._clock.monotonic_s() - since_s < DOWN_S

    async def _stand_in_reply(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> ModelReply:
        reply = await self._stand_in.complete(request, on_text)
        return replace(reply, notice=reply.notice or self._notice(request.language))


def _began_by_stand_in(request: ModelRequest) -> bool:
    """Tell whether the request brings the results of calls the stand-in made in this turn."""
    for message in reversed(request.messages):
        if message.get("role") != "tool":
            calls = message.get("tool_calls") or ()
            return any(str(call.get("id", "")).startswith(STAND_IN_CALL_PREFIX) for call in calls)
    return False
