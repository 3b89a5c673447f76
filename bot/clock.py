"""Time at the seam: one protocol, so that tests can own the clock.

Instants are integer microseconds since the epoch (UTC). Datetimes that leave this module are aware.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

US_PER_S = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEADY_ZERO_US = (time.time_ns() - time.monotonic_ns()) // 1000  # one for the process, however many clocks it makes


class Clock(Protocol):
    """Wall clock and monotonic clock."""

    def now_us(self) -> int:
        """Return the current instant in microseconds since the epoch."""

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never jumps, for measuring durations."""

    def steady_us(self) -> int:
        """Return the instant on the scale of waits and leases, in microseconds.

        It begins as the wall clock's instant when the process began and goes on by the monotonic clock: setting the
        wall clock neither lengthens nor ends a wait. Never shown to people, never compared to `now_us`.
        """


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """See `Clock.now_us`."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return time.monotonic()

    def steady_us(self) -> int:
        """See `Clock.steady_us`. The time a machine sleeps is not part of it."""
        return _STEADY_ZERO_US + time.monotonic_ns() // 1000


def to_us(moment: datetime) -> int:
    """Return an aware datetime as microseconds since the epoch.

    Raises:
        ValueError: the datetime is naive.
    """
    if moment.tzinfo is None:
        raise ValueError("a naive datetime is not an instant")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_us(instant_us: int, zone: ZoneInfo | None = None) -> datetime:
    """Return the instant as an aware datetime in `zone` (UTC when None)."""
    return (_EPOCH + timedelta(microseconds=instant_us)).astimezone(zone or UTC)
