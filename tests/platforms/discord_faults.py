"""The faults a test can switch on in the Discord server: what goes wrong, for which call, how often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from tests.platforms.armed import Armed
from tests.platforms.discord_objects import Json, Route


class Scope(StrEnum):
    """Whose limit a 429 is (https://docs.discord.com/developers/topics/rate-limits, read 2026-11-30)."""

    USER = "user"  # this bot on this route
    GLOBAL = "global"  # this bot everywhere
    SHARED = "shared"  # everybody on this resource


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fault:
    """One thing that goes wrong.

    It hits calls of `route` (None = any REST call) and, if given, about `channel_id`, `times` times (None =
    always). Fields combine: a held call can then be dropped. Order in the server: delay and hold, then
    `drop_before`, `garbage` and refusal (nothing is done in these three cases), then the call, then
    `drop_after`.
    """

    route: Route | None = None
    channel_id: int | None = None
    times: int | None = 1
    status: int = 0  # not 0: refuse with it
    code: int = 0
    message: str = ""
    retry_after_s: float | None = None  # makes a 429
    scope: Scope = Scope.USER
    via: bool = True  # a 429 without the `Via` header comes from the proxy before Discord: a ban
    garbage: bytes | None = None  # answer these bytes, with `status` or 200
    drop_before: bool = False  # close the connection, do nothing
    drop_after: bool = False  # do it, then close the connection without an answer
    delay_s: float = 0.0
    hold: asyncio.Event | None = None  # go on when the test sets it

    def refusal(self) -> tuple[int, Json, dict[str, str]] | None:
        """Return status, body and headers of the refusal this fault stands for, if it is one."""
        if self.retry_after_s is not None:
            is_global = self.scope is Scope.GLOBAL
            body: Json = {
                "message": "You are being rate limited.",
                "retry_after": self.retry_after_s,
                "global": is_global,
            }
            headers = {"Retry-After": str(-int(-self.retry_after_s // 1)), "X-RateLimit-Scope": str(self.scope)}
            if is_global:
                headers["X-RateLimit-Global"] = "true"
            if self.via:
                headers["Via"] = "1.1 google"
            return 429, body, headers
        if not self.status:
            return None
        return self.status, {"message": self.message or f"{self.status}: failed", "code": self.code}, {}


def rate_limited(
    route: Route | None,
    retry_after_s: float,
    *,
    channel_id: int | None = None,
    times: int | None = 1,
    scope: Scope = Scope.USER,
) -> Fault:
    """Return a 429 with its wait."""
    return Fault(route=route, channel_id=channel_id, times=times, retry_after_s=retry_after_s, scope=scope)


def bad_gateway(route: Route | None = None, *, channel_id: int | None = None, times: int | None = 1) -> Fault:
    """Return a proxy's 502 with an HTML page."""
    page = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>cloudflare</body>\r\n</html>\r\n"
    return Fault(route=route, channel_id=channel_id, times=times, status=502, garbage=page)


def answer_lost(route: Route = Route.CREATE_MESSAGE, *, channel_id: int | None = None, times: int | None = 1) -> Fault:
    """Return the fault of a call that is carried out and never answered."""
    return Fault(route=route, channel_id=channel_id, times=times, drop_after=True)


class Faults(Armed[Fault]):
    """The faults that are switched on."""

    def strike(self, route: Route, channel_id: int | None) -> Fault | None:
        """Return the fault this call meets, counting it."""
        by_default = route not in {Route.GATEWAY, Route.CDN}

        def meets(fault: Fault) -> bool:
            here = fault.channel_id is None or fault.channel_id == channel_id
            return here and (by_default if fault.route is None else fault.route is route)

        return self.first(meets)
