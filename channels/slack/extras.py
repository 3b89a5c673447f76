"""Calls that only make things nicer: left out for a while where they fail, so that nobody waits for them in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from bot.clock import Clock
from bot.errors import ChannelError, RateLimited
from bot.log import get_logger
from channels.slack.errors import NOT_THERE, Refused

LIMIT_S = 8.0
"""For one call; answers do without it then."""

_ABSENT_S = 600.0  # before a method is tried again that this workspace, or its app, does not have
_FAILED_S = 60.0  # ... that did not work
_ABSENT = NOT_THERE | {"missing_scope", "not_allowed_token_type", "feature_not_enabled", "not_allowed"}

_log = get_logger(__name__)


class Caller(Protocol):
    """What has Slack's methods."""

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `WebApi.call`."""


class Extras:
    """The methods that can be done without."""

    def __init__(self, api: Caller, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._not_before_s: dict[str, float] = {}

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a method as `WebApi.call` does, unless it has just failed.

        Raises:
            ChannelError: it failed, or it is left out for now.
        """
        if self._not_before_s.get(method, 0.0) > self._clock.monotonic_s():
            raise ChannelError(f"{method}: left out for now")
        try:
            async with asyncio.timeout(LIMIT_S):
                answer = await self._api.call(method, params)
        except RateLimited:
            raise
        except Refused as exc:
            if exc.code in _ABSENT:
                self._leave_out(method, _ABSENT_S, str(exc))
            raise
        except TimeoutError as exc:
            self._leave_out(method, _FAILED_S, "no answer came")
            raise ChannelError(f"{method}: no answer came") from exc
        except ChannelError as exc:
            if exc.retryable:
                self._leave_out(method, _FAILED_S, str(exc))
            raise
        self._not_before_s.pop(method, None)
        return answer

    def _leave_out(self, method: str, pause_s: float, reason: str) -> None:
        first = method not in self._not_before_s
        self._not_before_s[method] = self._clock.monotonic_s() + pause_s
        say = _log.info if first else _log.debug
        say("done without", channel="slack", method=method, reason=reason, pause_s=pause_s)
