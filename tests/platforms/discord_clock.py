"""Discord's time, and the ids made of it.

https://docs.discord.com/developers/reference#snowflakes (read 2026-11-30)
"""

from __future__ import annotations

import time

from tests.platforms.discord_objects import EPOCH_MS


class WorldClock:
    """The platform's time, which a test may set forward."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._last_id = 0

    def now_s(self) -> float:
        """Return seconds since 1970."""
        return time.time() + self._ahead_s

    def advance(self, seconds: float) -> None:
        """Let time pass at once."""
        self._ahead_s += seconds

    def snowflake(self) -> int:
        """Return an id that tells the time and is above every id before it."""
        now = int(self.now_s() * 1000 - EPOCH_MS) << 22
        self._last_id = max(now, self._last_id + 1)
        return self._last_id
