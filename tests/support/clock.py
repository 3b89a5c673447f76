"""A clock that tests own."""

from __future__ import annotations

from datetime import datetime

from bot.clock import US_PER_S, to_us

START = "2026-11-29T12:00:00+00:00"


def instant(text: str) -> int:
    """Return an ISO 8601 date and time with its offset as microseconds since the epoch."""
    return to_us(datetime.fromisoformat(text))


class FakeClock:
    """Stands still until it is moved; the monotonic hands move along, except where a test sets the wall only."""

    def __init__(self, start: str = START) -> None:
        self._now_us = instant(start)
        self._monotonic_s = 1_000.0
        self._steady_us = self._now_us

    def now_us(self) -> int:
        """See `Clock.now_us`."""
        return self._now_us

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return self._monotonic_s

    def steady_us(self) -> int:
        """See `Clock.steady_us`."""
        return self._steady_us

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as a correction by NTP does: no time passes."""
        self._now_us += round(seconds * US_PER_S)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_us += round(seconds * US_PER_S)
        self._steady_us += round(seconds * US_PER_S)
        self._monotonic_s += seconds

    def move_to(self, text: str) -> None:
        """Let time pass until an ISO 8601 instant."""
        self.advance((instant(text) - self._now_us) / US_PER_S)
