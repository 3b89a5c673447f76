"""Discord's own rate limits, off until a test sets one: buckets of a route and channel, told in headers.

    api.limits.set(Route.CREATE_MESSAGE, calls=5, per_s=5.0)

https://docs.discord.com/developers/topics/rate-limits (read 2026-11-30). The platform publishes no numbers and
asks clients to read the headers; single refusals are faults (`discord_faults`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.platforms.discord_objects import Route


@dataclass(slots=True, kw_only=True)
class _Bucket:
    left: int
    ends_at: float  # on the monotonic clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """So many calls of one route about one channel in each window."""

    calls: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a call found in its bucket. `wait_s` above 0: it was refused."""

    headers: dict[str, str]
    wait_s: float = 0.0


class Limits:
    """The limits that are set, and their buckets."""

    def __init__(self) -> None:
        self._limits: dict[Route, Limit] = {}
        self._buckets: dict[tuple[Route, int | None], _Bucket] = {}

    def set(self, route: Route, *, calls: int, per_s: float) -> None:
        """Limit a route for each channel."""
        self._limits[route] = Limit(calls=calls, per_s=per_s)

    def take(self, route: Route, channel_id: int | None) -> Taken | None:
        """Count a call; None when its route has no limit."""
        limit = self._limits.get(route)
        if limit is None:
            return None
        now = time.monotonic()
        bucket = self._buckets.get((route, channel_id))
        if bucket is None or bucket.ends_at <= now:
            bucket = self._buckets[route, channel_id] = _Bucket(left=limit.calls, ends_at=now + limit.per_s)
        wait_s = bucket.ends_at - now
        refused = bucket.left == 0
        bucket.left -= not refused
        headers = {
            "X-RateLimit-Bucket": f"loopback-{route}",
            "X-RateLimit-Limit": str(limit.calls),
            "X-RateLimit-Remaining": str(bucket.left),
            "X-RateLimit-Reset": f"{time.time() + wait_s:.3f}",
            "X-RateLimit-Reset-After": f"{wait_s:.3f}",
        }
        return Taken(headers=headers, wait_s=wait_s if refused else 0.0)
