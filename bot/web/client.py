"""The guarded client: checks every hop's addresses, connects to these and no others, follows redirects itself.

One request and its answer on the wire are in `exchange.py`; which addresses are refused, in
`bot/security/network.py`. Nothing is kept between requests: no cookies, no connections, no cache.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any
from urllib.parse import urljoin

import orjson

from bot import __version__
from bot.security.network import BadUrl, Network, NetworkGuard, NetworkRefused, parse_target
from bot.web.errors import NoConnection, TooManyRedirects, WebError, WebTimeout
from bot.web.resolver import Resolver, SystemResolver
from bot.web.wire import Answer, Request

MAX_BYTES = 10 * 1024 * 1024
"""Largest answer, as sent and again as unpacked (design 7)."""

MAX_REDIRECTS = 5
SILENCE_LIMIT_S = 20.0
"""How long a server may be silent before and between the pieces of its answer, unless the caller says otherwise."""

REQUEST_LIMIT_S = 30.0
"""How long a request may take with all its redirects, unless the caller says otherwise."""

USER_AGENT = f"Mozilla/5.0 (compatible; Dutiful/{__version__})"

# All that may go to an origin that the caller did not name: no keys, whatever their header is called.
_PUBLIC_HEADERS = frozenset({"accept", "accept-language", "user-agent"})


class GuardedClient:
    """The way to the web for all tools. Cheap to build; requests run in parallel."""

    def __init__(self, allow_networks: Iterable[Network] = (), *, resolver: Resolver | None = None) -> None:
        self._guard = NetworkGuard(allow_networks)
        self._resolver = resolver or SystemResolver()

    def close(self) -> None:
        """Give back what lookups used; idempotent. Requests belong to whoever makes them."""
        self._resolver.close()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        json: Any = None,
        body: bytes | None = None,
        max_bytes: int = MAX_BYTES,
        timeout_s: float = REQUEST_LIMIT_S,
        silence_s: float = SILENCE_LIMIT_S,
        trusted: bool = False,
        proxy: str | None = None,
    ) -> Answer:
        """Send a request, follow its redirects and return the answer; `json` is encoded as the body.

        `trusted`: the operator's configuration names this endpoint, so that its address is not judged; what it
        redirects to elsewhere is. `proxy` is the URL of an HTTP proxy and needs `trusted`.

        Raises:
            BadUrl: this or a redirect's URL has no meaning.
            NetworkRefused: the guard refuses this or a redirect's target; nothing was sent to it.
            WebTimeout: `timeout_s` has passed, or `silence_s` without a byte.
            NoConnection: nobody could be reached.
            WebTooLarge: more than `max_bytes`, as sent or unpacked.
            TooManyRedirects: more than 5.
            WebError: anything else that ended the exchange.
        """
        if proxy is not None and not trusted:
            raise ValueError("behind a proxy no address can be judged, so it is for trusted endpoints only")
        target = parse_target(url)
        sent = {"user-agent": USER_AGENT} | {name.lower(): value for name, value in headers.items()}
        if json is not None:
            body = orjson.dumps(json)
            sent.setdefault("content-type", "application/json")
        if trusted and target.login is not None:
            sent.setdefault("authorization", _basic(*target.login))
        request = Request(method=method, target=target, headers=sent, body=body, proxy=proxy, silence_s=silence_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(request, trusted=trusted, max_bytes=max_bytes)
        except TimeoutError:
            raise WebTimeout(f"{target.host} did not answer in full within {timeout_s:g} s") from None

    async def _follow(self, request: Request, *, trusted: bool, max_bytes: int) -> Answer:
        exchange = await asyncio.to_thread(_load_exchange)
        named = request.target.origin
        for redirects in range(MAX_REDIRECTS + 1):
            is_trusted = trusted and request.target.origin == named
            if not is_trusted:
                self._guard.check_target(request.target)
            addresses = await self._addresses(request, is_trusted=is_trusted)
            answer = await exchange(request, addresses, max_bytes=max_bytes)
            if not answer.leads_to:
                return replace(answer, redirects=redirects)
            request = _redirected(request, answer.status, answer.leads_to)
        raise TooManyRedirects(f"more than {MAX_REDIRECTS} redirects")

    async def _addresses(self, request: Request, *, is_trusted: bool) -> Sequence[str]:
        """Return the addresses to connect to, each of them judged: one that is refused refuses the name."""
        at = parse_target(request.proxy) if request.proxy else request.target
        if at.address is not None:
            return (str(at.address),)  # judged with the target
        try:
            found = await self._resolver.lookup(at.host, at.port)
            parsed = [ip_address(text) for text in found]
        except TimeoutError:
            raise WebTimeout(f"the name {at.host} could not be looked up in time") from None
        except (OSError, ValueError):
            raise NoConnection(f"the name {at.host} could not be looked up") from None
        if not parsed:
            raise WebError(f"the name {at.host} has no address")
        for address in parsed:
            if not is_trusted and (refusal := self._guard.refusal(address)):
                raise NetworkRefused(f"{at.host}: {refusal}")
        return tuple(dict.fromkeys(map(str, parsed)))


def _redirected(request: Request, status: int, location: str) -> Request:
    """Return the request that a redirect asks for, without what only the first origin was to get."""
    target = parse_target(_joined(request.target.url, location))
    method, body, headers = request.method, request.body, dict(request.headers)
    if (status == 303 and method != "HEAD") or (status in {301, 302} and method == "POST"):  # noqa: PLR2004
        method, body = "GET", None
        headers.pop("content-type", None)
    if target.origin != request.target.origin:
        if body is not None or request.proxy:
            raise NetworkRefused(f"a redirect to another place ({target.host}) is not followed with this request")
        headers = {name: value for name, value in headers.items() if name in _PUBLIC_HEADERS}
    return replace(request, method=method, target=target, headers=headers, body=body)


def _load_exchange() -> Callable[..., Awaitable[Answer]]:
    from bot.web.exchange import exchange  # aiohttp takes 160 ms the first time: too long for the loop as well

    return exchange


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location.strip())
    except ValueError:
        raise BadUrl("the redirect leads to something that is not a URL") from None


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
