"""The faults a test can switch on in the Slack server: what goes wrong, for which call, how often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fault:
    """One thing that goes wrong.

    It hits calls of `method` ("*" = any; also "upload" = the bytes of a file, "file" = a download, "response_url",
    "socket" = the WebSocket's handshake) and, if given, of `channel`, `times` times (None = always). Fields
    combine: a held call can then be dropped. Order in the server: delay and hold, then `drop_before`, `garbage`,
    `status` and `error` (nothing is done in these cases), then the call, then `drop_after`.
    """

    method: str = "*"
    channel: str = ""
    times: int | None = 1
    error: str = ""  # refuse with `ok: false` and this
    status: int = 0  # not 0: HTTP status of the refusal
    retry_after: int | None = None  # seconds, the header Retry-After
    garbage: bytes | None = None  # answer these bytes, with `status` or 200
    drop_before: bool = False  # close the connection, do nothing
    drop_after: bool = False  # do it, then close the connection without an answer
    delay_s: float = 0.0
    hold: asyncio.Event | None = None  # go on when the test sets it


def too_many_requests(method: str, retry_after: int, *, channel: str = "", times: int | None = 1) -> Fault:
    """Return a 429 with its wait in seconds (https://docs.slack.dev/apis/web-api/rate-limits)."""
    return Fault(method=method, channel=channel, times=times, status=429, error="ratelimited", retry_after=retry_after)


def refused(method: str, error: str, *, channel: str = "", times: int | None = 1) -> Fault:
    """Return an `ok: false` with an error string of Slack's."""
    return Fault(method=method, channel=channel, times=times, error=error)


def bad_gateway(method: str = "*", *, channel: str = "", times: int | None = 1) -> Fault:
    """Return a proxy's 502 with an HTML page."""
    page = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
    return Fault(method=method, channel=channel, times=times, status=502, garbage=page)


def html_page(method: str = "*", *, channel: str = "", times: int | None = 1) -> Fault:
    """Return a page of HTML with status 200, as a captive portal answers."""
    return Fault(
        method=method, channel=channel, times=times, garbage=b"<!DOCTYPE html><html><body>Sign in</body></html>"
    )


def unavailable(method: str = "*", *, channel: str = "", times: int | None = 1) -> Fault:
    """Return Slack's own 503."""
    return Fault(method=method, channel=channel, times=times, status=503, error="service_unavailable")


@dataclass(slots=True)
class _Armed:
    fault: Fault
    left: int | None
    hits: int = 0


@dataclass(slots=True)
class Faults:
    """The faults that are switched on, first added first."""

    _armed: list[_Armed] = field(default_factory=list)

    def add(self, fault: Fault) -> Fault:
        """Switch a fault on; returned for `hits` and `remove`."""
        self._armed.append(_Armed(fault, fault.times))
        return fault

    def remove(self, fault: Fault) -> None:
        """Switch one fault off."""
        self._armed = [armed for armed in self._armed if armed.fault is not fault]

    def clear(self) -> None:
        """Switch all faults off."""
        self._armed.clear()

    def hits(self, fault: Fault) -> int:
        """Return how often a fault struck."""
        return sum(armed.hits for armed in self._armed if armed.fault is fault)

    def strike(self, method: str, channel: str = "") -> Fault | None:
        """Return the fault this call meets, counting it; a used-up fault strikes no more."""
        for armed in self._armed:
            fault = armed.fault
            if armed.left == 0 or fault.method not in {"*", method}:
                continue
            if fault.channel and fault.channel != channel:
                continue
            if armed.left is not None:
                armed.left -= 1
            armed.hits += 1
            return fault
        return None
