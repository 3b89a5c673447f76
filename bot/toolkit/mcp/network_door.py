"""The way to servers over HTTP: every address is judged, only judged ones are connected to, answers are bounded.

A part of the SDK's HTTP library, and therefore imported only with the SDK.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cache
from http import HTTPStatus
from ipaddress import ip_address, ip_network

import httpx2

from bot.security.network import BadUrl, NetworkGuard, NetworkRefused, Target, parse_target
from bot.toolkit.mcp.session import Limits, Signals, current_mark
from bot.web.resolver import Resolver

# What `allow_private` lets through: loopback, private, shared and link-local networks. Metadata services stay refused.
_NEAR = tuple(
    ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
_SESSION_HEADER = "mcp-session-id"
_EVENTS = "text/event-stream"
CONNECT_S = 10.0


class DoorError(httpx2.ConnectError):
    """Nothing was sent; the text says why."""


class AnswerTooLarge(httpx2.ReadError):
    """An answer has more bytes than any may have, or is packed, so that it could."""


class NetworkDoor(httpx2.AsyncBaseTransport):
    """Sends the requests of one session."""

    def __init__(self, resolver: Resolver, signals: Signals, *, allow_private: bool) -> None:
        self._guard = NetworkGuard(_NEAR if allow_private else ())
        self._resolver = resolver
        self._signals = signals
        # One pool for each name: connections are pooled by address, and two names may share one.
        self._pools: dict[tuple[str, str], httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; redirects are the caller's part, and come here again."""
        mark = current_mark.get()
        if mark is not None:
            mark.is_tried = True
        try:
            response = await self._send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if mark is not None:
                mark.is_unsent = True
            self._signals.end(f"{request.url.host} cannot be reached: {error}")
            raise
        if mark is not None:
            is_refusal = response.status_code == HTTPStatus.UNAUTHORIZED
            mark.is_unauthorized = is_refusal or (mark.is_unauthorized and response.is_error)
        if response.is_error:
            if response.status_code == HTTPStatus.BAD_REQUEST and _SESSION_HEADER in request.headers:
                await response.aread()  # for `_is_session_gone`
            self._note_refusal(request, response)
            if mark is not None:
                mark.status = response.status_code
                mark.is_session_gone = _is_session_gone(request, response)
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.aclose()

    def _note_refusal(self, request: httpx2.Request, response: httpx2.Response) -> None:
        if _is_session_gone(request, response):
            self._signals.end("the server does not know the session any more")

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        target, addresses = await self._judge(request)
        pool = await self._pool(target)
        failure: Exception = DoorError(f"the name {target.host} has no address")
        for address in addresses:
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # with the Host of the name
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": target.host},
            )
            try:
                response = await pool.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
                continue
            return _bounded(request, response)
        raise failure

    async def _pool(self, target: Target) -> httpx2.AsyncHTTPTransport:
        key = (target.scheme, target.host)
        if key not in self._pools:
            # Reading the certificates takes a tenth of a second; without TLS there is nothing to verify.
            verify = await asyncio.to_thread(_certificates) if target.scheme == "https" else False
            self._pools.setdefault(key, httpx2.AsyncHTTPTransport(verify=verify, trust_env=False))
        return self._pools[key]

    async def _judge(self, request: httpx2.Request) -> tuple[Target, list[str]]:
        """Return where a request goes, and the addresses to try; one that is refused refuses the name."""
        try:
            target = parse_target(str(request.url))
            self._guard.check_target(target)
            if target.address is not None:
                return target, [str(target.address)]
            found = await self._resolver.lookup(target.host, target.port)
            for text in found:
                self._guard.check_address(ip_address(text))
        except (BadUrl, NetworkRefused) as error:
            text = str(error).replace("[tools.web] allow_networks", "allow_private = true")
            raise DoorError(text) from None
        except TimeoutError:
            raise DoorError("the name could not be looked up in time") from None
        except (OSError, ValueError):
            raise DoorError("the name could not be looked up") from None
        return target, list(dict.fromkeys(found))


@cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _is_session_gone(request: httpx2.Request, response: httpx2.Response) -> bool:
    if response.status_code == HTTPStatus.BAD_REQUEST and _SESSION_HEADER in request.headers:
        return b"session" in response.content.lower()  # what many servers say in place of the protocol's 404
    if response.status_code != HTTPStatus.NOT_FOUND:
        return False
    is_message = request.method == "POST" and "session" in (request.url.query or b"").decode().lower()  # of old SSE
    return is_message or _SESSION_HEADER in request.headers


class _Bounded(httpx2.AsyncByteStream):
    """An answer's body that ends with an error when it gets too long; the whole of an event stream may be longer."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = Limits.MESSAGE_BYTES
        async for piece in self._body:
            left -= len(piece)
            if left < 0:
                raise AnswerTooLarge(f"the answer has more than {Limits.MESSAGE_BYTES:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def _bounded(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    body = response.stream
    assert isinstance(body, httpx2.AsyncByteStream)
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):  # we ask for none; a small body could unpack to any size
        raise AnswerTooLarge(f"the answer is packed with {packed[:20]!r}, though that was not asked for")
    is_stream = response.headers.get("content-type", "").lower().startswith(_EVENTS)
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=body if is_stream else _Bounded(body),
        extensions=response.extensions,
        request=request,
    )
