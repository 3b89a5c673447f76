"""A loopback web server for fetches: any page, and what goes wrong with pages on the way.

A page is a status, headers and a body, with at most one fault. Every request is kept, and how many were open at once.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from aiohttp import web

from tests.platforms.loopback import HOST, LoopbackServer, cut

HTML = "text/html; charset=utf-8"


class Fault(StrEnum):
    """What may be wrong with how a page is sent."""

    NONE = "none"
    HELD = "held"  # not answered until `PageServer.gate` is set
    ENDLESS = "endless"  # the body again and again, as fast as it is taken
    STALLED = "stalled"  # the body, but never its end
    CUT_OFF = "cut_off"  # half of the body that was announced
    HUGE_HEADERS = "huge_headers"  # a header of 100 KB
    MANY_HEADERS = "many_headers"  # 5,000 of them
    NOT_HTTP = "not_http"
    INTERIM = "interim"  # interim answers (103) without end


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page; `charset` and `coding` are part of the headers."""

    body: bytes = b""
    content_type: str = HTML
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = Fault.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = b""


def redirect(location: str, status: int = 302) -> Page:
    """Return a page that leads elsewhere."""
    return Page(status=status, headers={"Location": location}, body=b"moved")


def gzip_bomb(unpacked_bytes: int) -> Page:
    """Return a page of zeros that is a thousandth of its size on the wire."""
    return Page(body=gzip.compress(bytes(unpacked_bytes)), headers={"Content-Encoding": "gzip"})


class PageServer(LoopbackServer):
    """Serves `pages` by path; what is not there is a 404 page."""

    stops_with_client = True

    def __init__(self, *, port: int = 0, host: str = HOST) -> None:
        super().__init__(port=port, host=host)
        self.pages: dict[str, Page] = {}
        self.seen: list[Seen] = []
        self.gate = asyncio.Event()
        self.open_now = 0
        self.most_at_once = 0
        self.sent_bytes = 0

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        return f"{[seen.path for seen in self.seen]}, {self.open_now} open"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(method=request.method, path=request.path_qs, headers=headers, body=await request.read()))
        self.open_now += 1
        self.most_at_once = max(self.most_at_once, self.open_now)
        self.bell.ring()
        try:
            page = self.pages.get(request.path, Page(status=404, body=b"<p>There is no such page.</p>"))
            return await self._send(request, page)
        finally:
            self.open_now -= 1
            self.bell.ring()

    async def _send(self, request: web.BaseRequest, page: Page) -> web.StreamResponse:
        headers = {"Content-Type": page.content_type} if page.content_type else {}
        headers |= page.headers
        match page.fault:
            case Fault.HUGE_HEADERS:
                return self._raw(request, b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\nbody")
            case Fault.MANY_HEADERS:
                lines = b"".join(b"X-%d: a\r\n" % number for number in range(5_000))
                return self._raw(request, b"HTTP/1.1 200 OK\r\n" + lines + b"\r\nbody")
            case Fault.NOT_HTTP:
                return self._raw(request, b"220 mail.example.org ESMTP\r\n")
            case Fault.INTERIM:
                await self._interim(request)
            case Fault.CUT_OFF:
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {page.content_type}\r\nContent-Length: {2 * len(page.body)}"
                return self._raw(request, head.encode() + b"\r\n\r\n" + page.body)
            case Fault.HELD:
                await self.gate.wait()
            case Fault.ENDLESS | Fault.STALLED:
                return await self._stream(request, page, headers)
        return web.Response(status=page.status, headers=headers, body=page.body)

    async def _stream(self, request: web.BaseRequest, page: Page, headers: Mapping[str, str]) -> web.StreamResponse:
        response = web.StreamResponse(status=page.status, headers=headers)
        await response.prepare(request)
        while True:
            await response.write(page.body)
            self.sent_bytes += len(page.body)
            if page.fault is Fault.STALLED:
                await asyncio.Event().wait()

    async def _interim(self, request: web.BaseRequest) -> None:
        assert request.transport is not None
        while not request.transport.is_closing():
            request.transport.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1_000)
            await asyncio.sleep(0.001)

    def _raw(self, request: web.BaseRequest, data: bytes) -> web.Response:
        if request.transport is None:
            return cut(request)
        request.transport.write(data)
        request.transport.close()
        return web.Response()
