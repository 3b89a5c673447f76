"""The time limits of a model call, and the watch that keeps one exchange within them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

FINISH_GRACE_S = 2.0
"""How long to wait for usage and `[DONE]` once the endpoint said why it stopped: the reply is whole then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How long a call may take, in seconds, and how often it is tried.

    `connect_s` is for the connection, `first_token_s` until the first text, reasoning or call arrives (role-only
    chunks and keep-alive comments are none), from then on `idle_s` between two signs of life (anything the endpoint
    sends, keep-alive comments included: it is still working), and `total_s` for everything, retries and waits too.
    An answer that is not streamed has `first_token_s` until its first byte.
    """

    connect_s: float = 10.0
    first_token_s: float = 180.0
    idle_s: float = 60.0
    total_s: float = 600.0
    max_wait_s: float = 120.0  # a longer wait asked for by the provider is not waited for
    tries: int = 3
    backoff_s: float = 1.0  # the first wait is at most this, each later one at most twice the one before
    max_backoff_s: float = 20.0
    waits_again: bool = True  # whether a call that nothing came of in time is tried again; no: others are there


class Watch:
    """The time limits of one exchange; `deadline` is when the whole call ends, in the loop's time."""

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
