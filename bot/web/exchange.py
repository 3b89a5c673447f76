"""One request and its answer over one fresh connection to one of the given addresses.

Import it late: aiohttp takes 160 ms. Redirects, names and judging addresses are the client's.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from bot.web.body import ACCEPT_ENCODING, read_body
from bot.web.errors import NoConnection, WebError, WebTimeout, WebTooLarge
from bot.web.wire import Answer, Request

ERROR_BYTES = 64 * 1024
"""How much is read of the page that explains an HTTP error."""

_CONNECT_LIMIT_S = 10.0
_LINE_BYTES = 16 * 1024
_HEADERS = 128
_INTERIM = range(100, 200)
_INTERIM_ANSWERS = 16  # more of them end the exchange
# Received at once, and with it how long the loop takes for it: a chunked body may be of single bytes. Enough for
# 10 MiB in 30 s from 200 ms away.
_RECEIVE_BYTES = 64 * 1024

_TYPE = re.compile(r"\s*([a-z0-9!#$&^_.+-]{1,63}/[a-z0-9!#$&^_.+-]{1,63})\s*(?:;|$)", re.IGNORECASE)
_CHARSET = re.compile(r";\s*+charset\s*+=\s*+[\"']?\s*+([\w.:+-]{1,40})", re.IGNORECASE)  # possessive: linear


async def exchange(request: Request, addresses: Sequence[str], *, max_bytes: int) -> Answer:
    """Send a request to one of `addresses` (of the proxy, if there is one) and return the answer.

    Raises:
        WebTimeout, WebTooLarge, WebError: there is no whole answer.
    """
    try:
        return await _exchange(request, addresses, max_bytes=max_bytes)
    except TimeoutError as exc:  # aiohttp's own: no connection, or silence
        raise WebTimeout(f"{request.target.host} does not answer") from exc
    except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as exc:
        raise _as_web_error(request.target.host, exc) from exc


async def _exchange(request: Request, addresses: Sequence[str], *, max_bytes: int) -> Answer:
    connector = _Connector(
        resolver=_Pinned(addresses), use_dns_cache=False, force_close=True, socket_factory=_socket_factory(addresses)
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # aiohttp's would unpack without a limit
        trust_env=False,
        max_line_size=_LINE_BYTES,
        max_field_size=_LINE_BYTES,
        max_headers=_HEADERS,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_LIMIT_S, sock_read=request.silence_s),
    ) as session:
        sent = {**request.headers, "accept-encoding": ACCEPT_ENCODING}
        async with session.request(
            request.method,
            URL(request.target.url, encoded=True),
            headers=sent,
            data=request.body,
            proxy=request.proxy,
            allow_redirects=False,
        ) as response:
            return await _answer(request, response, max_bytes)


async def _answer(request: Request, response: aiohttp.ClientResponse, max_bytes: int) -> Answer:
    kind = response.headers.get("Content-Type", "")
    found, charset = _TYPE.match(kind), _CHARSET.search(kind)
    head = Answer(
        status=response.status,
        url=request.target.url,
        headers={name.lower(): value for name, value in response.headers.items()},
        content_type=found[1].lower() if found else "",
        charset=charset[1].lower() if charset else "",
        body=b"",
        is_cut=True,
    )
    if head.leads_to:  # nobody reads a redirect's page
        return head
    is_error = not response.ok
    limit_bytes = min(max_bytes, ERROR_BYTES) if is_error else max_bytes
    if not is_error and (response.content_length or 0) > limit_bytes:
        raise WebTooLarge(f"the answer has {response.content_length:,} bytes; the limit is {limit_bytes:,}")
    coding = response.headers.get("Content-Encoding", "")
    try:
        body, is_cut = await read_body(response.content.iter_any(), coding, limit_bytes=limit_bytes, cut=is_error)
    except WebError:
        if is_error:  # its status says more than its page
            return head
        raise
    return replace(head, body=body, is_cut=is_cut)


class _Protocol(ResponseHandler):
    """Ends a connection that brings interim answers (100 to 199) without end: the library would take them all."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._interim_answers = 0

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """See `DataQueue.feed_data`: the next head of an answer, and what its body comes through."""
        if self._interim_answers > _INTERIM_ANSWERS:
            return
        self._interim_answers += data[0].code in _INTERIM
        super().feed_data(data, size)
        if self._interim_answers > _INTERIM_ANSWERS:
            if self.transport is not None:
                self.transport.abort()
            self.set_exception(HttpProcessingError(message="too many interim answers"))


class _Connector(aiohttp.TCPConnector):
    """A connector whose connections are of our protocol."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        made: Any = partial(_Protocol, loop=self._loop)  # its type is invariant, though a subclass does
        self._factory = made


class _Pinned(AbstractResolver):
    """Gives the addresses that were judged, whatever the name."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """See `AbstractResolver.resolve`."""
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=flags)
            for address in self._addresses
            if family in {socket.AF_UNSPEC, found := socket.AF_INET6 if ":" in address else socket.AF_INET}
        ]

    async def close(self) -> None:
        """See `AbstractResolver.close`."""


def _socket_factory(addresses: Collection[str]) -> aiohttp.SocketFactoryType:
    """Return what makes the sockets: the last place before a connection, and the only one without a way around."""
    judged = {ip_address(address) for address in addresses}

    def make(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, proto, _, at = info
        if ip_address(at[0]) not in judged:
            raise PermissionError("a connection to an address that was not judged")
        made = socket.socket(family=family, type=kind, proto=proto)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        return made

    return make


def _as_web_error(host: str, exc: Exception) -> WebError:
    """Return a failure in words that tell neither addresses nor headers."""
    if isinstance(exc, (aiohttp.ClientSSLError, ssl.SSLError)):
        return WebError(f"no secure connection to {host}: its certificate or protocol is not accepted")
    if isinstance(exc, aiohttp.ClientProxyConnectionError):
        return NoConnection("the proxy cannot be reached")
    if isinstance(exc, aiohttp.ClientHttpProxyError):
        return WebError(f"the proxy refuses the connection (status {exc.status})")
    if isinstance(exc, aiohttp.ClientConnectorError):
        return NoConnection(f"no connection to {host}")
    if isinstance(exc, (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
        return WebError(f"{host} ended the connection before the answer's end", retryable=True)
    if isinstance(exc, aiohttp.ClientResponseError):
        return WebError(f"what {host} answers is not HTTP, or its headers are too large")
    return WebError(f"the exchange with {host} failed ({type(exc).__name__})", retryable=isinstance(exc, OSError))
