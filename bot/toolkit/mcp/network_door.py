"""The way to servers over HTTP: every address is judged, only judged ones are connected to, answers are bounded.

A part of the SDK's HTTP library, and therefore imported only with the SDK.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from functools import cache
from http import HTTPStatus
from ipaddress import ip_address, ip_network

import httpx2

from bot.security.network import BadUrl, NetworkGuard, NetworkRefused, Target, parse_target
from bot.toolkit.mcp.aside import LARGE_BYTES, Aside
from bot.toolkit.mcp.session import CallMark, Limits, Signals, current_mark
from bot.toolkit.mcp.wire_text import whole_letters
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
_SAYS_NOTHING = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.TOO_MANY_REQUESTS})  # see `_note_refusal`
_EVENTS = "text/event-stream"
_JSON = "application/json"
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r(?!\n)|\n\r\n|\r\n\n")
CONNECT_S = 10.0


class DoorError(httpx2.ConnectError):
    """Nothing was sent; the text says why."""


class AnswerTooLarge(httpx2.ReadError):
    """An answer has more bytes than any may have, or is packed, so that it could."""


class NetworkDoor(httpx2.AsyncBaseTransport):
    """Sends the requests of one session."""

    def __init__(self, resolver: Resolver, signals: Signals, aside: Aside, *, allow_private: bool) -> None:
        self._guard = NetworkGuard(_NEAR if allow_private else ())
        self._resolver = resolver
        self._signals = signals
        self._aside = aside
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
            self._note_refusal(request, response.status_code, mark)
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.aclose()

    def _note_refusal(self, request: httpx2.Request, status: int, mark: CallMark | None) -> None:
        """Find out what an error says about the session, by the status alone: words are each server's own.

        404 says that the session is unknown (https://modelcontextprotocol.io/specification/2025-11-25/basic/
        transports#session-management, read 2026-11-30). Many servers say 400 in its place, also for other reasons:
        whoever asked has to find out. Others say anything: then the session's owner looks whether it still works, but
        the call was perhaps carried out.
        """
        is_gone = status == HTTPStatus.NOT_FOUND and _is_in_session(request)
        is_doubtful = status == HTTPStatus.BAD_REQUEST and _SESSION_HEADER in request.headers
        is_strange = request.method == "POST" and status not in _SAYS_NOTHING and _is_in_session(request)
        if is_gone:
            self._signals.end("the server does not know the session any more")
        elif is_strange or (is_doubtful and request.method == "GET"):  # a stream of its own, for which nobody waits
            self._signals.doubt.set()
        if mark is not None:
            mark.status = status
            mark.is_session_gone = is_gone
            mark.is_session_doubtful = is_doubtful

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
            return _bounded(request, response, self._aside)
        raise failure

    async def _pool(self, target: Target) -> httpx2.AsyncHTTPTransport:
        key = (target.scheme, target.host)
        if key not in self._pools:
            self._pools.setdefault(key, await asyncio.to_thread(_new_pool, target.scheme))
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


def _new_pool(scheme: str) -> httpx2.AsyncHTTPTransport:
    """Reading the certificates takes a tenth of a second; without TLS there is nothing to verify. Blocks."""
    return httpx2.AsyncHTTPTransport(verify=_certificates() if scheme == "https" else False, trust_env=False)


@cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _is_in_session(request: httpx2.Request) -> bool:
    is_message = request.method == "POST" and "session" in (request.url.query or b"").decode().lower()  # of old SSE
    return is_message or _SESSION_HEADER in request.headers


class _Whole(httpx2.AsyncByteStream):
    """An answer's body that ends with an error when it gets too long; large results of JSON are kept aside."""

    def __init__(self, body: httpx2.AsyncByteStream, aside: Aside, *, is_json: bool) -> None:
        self._body = body
        self._aside = aside
        self._is_json = is_json

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        size = 0
        async for piece in self._body:
            size += len(piece)
            if size > Limits.MESSAGE_BYTES:
                raise AnswerTooLarge(f"the answer has more than {Limits.MESSAGE_BYTES:,} bytes")
            if self._is_json:
                pieces.append(piece)
            else:
                yield piece
        if pieces:
            yield await self._aside.shrink(b"".join(pieces))

    async def aclose(self) -> None:
        await self._body.aclose()


class _Events(httpx2.AsyncByteStream):
    """A stream of events, each bounded, the whole endless; large results are kept aside.

    Framing by https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream (read
    2026-11-30): an event ends at an empty line.
    """

    def __init__(self, body: httpx2.AsyncByteStream, aside: Aside) -> None:
        self._body = body
        self._aside = aside

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for piece in self._body:
            looked_at = max(0, len(held) - 3)  # an end may have begun in the piece before
            held += piece
            done = 0
            for end in _EVENT_END.finditer(held, looked_at):
                event = bytes(held[done : end.end()])
                done = end.end()
                yield await self._small(event)
            del held[:done]
            if len(held) > Limits.MESSAGE_BYTES:
                raise AnswerTooLarge(f"an event has more than {Limits.MESSAGE_BYTES:,} bytes")
        if held:
            yield bytes(held)

    async def _small(self, event: bytes) -> bytes:
        if len(event) < LARGE_BYTES:
            return whole_letters(event)
        lines = event.splitlines()
        others = [line for line in lines if line and not line.startswith(b"data:")]
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        shrunk = await self._aside.shrink(data)
        return event if shrunk is data else b"\n".join([*others, b"data: " + shrunk, b"", b""])

    async def aclose(self) -> None:
        await self._body.aclose()


def _bounded(request: httpx2.Request, response: httpx2.Response, aside: Aside) -> httpx2.Response:
    body = response.stream
    assert isinstance(body, httpx2.AsyncByteStream)
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):  # we ask for none; a small body could unpack to any size
        raise AnswerTooLarge(f"the answer is packed with {packed[:20]!r}, though that was not asked for")
    kind = response.headers.get("content-type", "").lower()
    is_json = kind.startswith(_JSON) and not response.is_error
    return httpx2.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.multi_items() if name != "content-length"],
        stream=_Events(body, aside) if kind.startswith(_EVENTS) else _Whole(body, aside, is_json=is_json),
        extensions=response.extensions,
        request=request,
    )
