"""Calls that a chat can do without: the seen mark, "typing". What a server cannot do is soon left alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bot.clock import Clock
from bot.errors import ChannelAuthError, ChannelError, ChatGone, RateLimited, SendRejected
from bot.log import get_logger
from channels.telegram.config import Timing
from channels.telegram.errors import MethodMissing

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

FAILURES_LIMIT = 3
"""Failures in a row, of whatever chats, after which a method gets its rest."""

REST_S = 600.0

_SLOW_S = 1.5  # callers give up what takes longer: an answer does not wait for a courtesy

_log = get_logger(__name__)


class Courtesies:
    """Remembers of each method whether it is worth a call. A refusal says something of one chat, not of the method."""

    def __init__(self, timing: Timing, clock: Clock) -> None:
        self._timing = timing
        self._clock = clock
        self._failures: Counter[str] = Counter()
        self._until_s: dict[str, float] = {}

    def rests(self, method: str) -> bool:
        """Say whether a call would be of no use now."""
        return self._clock.monotonic_s() < self._until_s.get(method, 0.0)

    async def call(self, api: BotApi, method: str, params: Mapping[str, Any]) -> None:
        """Make a call, unless the method rests.

        Raises:
            ChannelError: it failed; whatever is worth a warning has been logged.
        """
        if self.rests(method):
            return
        began_s = self._clock.monotonic_s()
        try:
            await api.call(method, params, timeout_s=self._timing.call_s)
        except MethodMissing as exc:
            self.leave_out(method, exc)
            raise
        except (ChannelAuthError, ChatGone, RateLimited, SendRejected):
            self._failures[method] = 0
            raise
        except ChannelError as exc:
            self._failed(method, str(exc))
            raise
        except asyncio.CancelledError:
            if self._clock.monotonic_s() - began_s > _SLOW_S:
                self._failed(method, f"{method}: no answer in time")
            raise
        self._failures[method] = 0

    def leave_out(self, method: str, missing: MethodMissing) -> None:
        """Let a method rest that the server said it does not have; it may have been a short outage of a proxy."""
        self._rest(method, "the server does not have this method: left out for a while", str(missing))

    def _failed(self, method: str, error: str) -> None:
        self._failures[method] += 1
        if self._failures[method] >= FAILURES_LIMIT and not self.rests(method):
            self._rest(method, "fails again and again: left out for a while", error)

    def _rest(self, method: str, words: str, error: str) -> None:
        say = _log.debug if method in self._until_s else _log.warning
        say(words, error=error, rest_s=REST_S)
        self._until_s[method] = self._clock.monotonic_s() + REST_S
