"""One HTTP request watched below discord.py, which would otherwise wait and repeat by itself."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.client_middlewares import ClientHandlerType

_BANNED_S = 10.0  # a 429 that is none of the API's comes from the proxy before Discord
_UNTOLD_S = 2.0  # for one of the API that tells no time
_LONGEST_WAIT_S = 86_400.0
_HEADERS = ("Retry-After", "X-RateLimit-Reset-After")
"""Both in seconds (https://docs.discord.com/developers/topics/rate-limits, read 2026-11-30)."""


class HttpTrouble(Exception):
    """An answer after which the SDK would wait."""


class BadAnswer(HttpTrouble):
    """A 5xx."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Wait(HttpTrouble):
    """A 429; `everywhere`: it is a limit for the whole bot."""

    def __init__(self, seconds: float, *, everywhere: bool) -> None:
        super().__init__(f"rate limited for {seconds} s")
        self.seconds = seconds
        self.everywhere = everywhere


class Attempt:
    """A middleware for one request; `began` tells whether it may have gone out."""

    def __init__(self) -> None:
        self.began = False
        self.status = 0  # of the answer

    async def __call__(self, request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
        """Do the request.

        Raises:
            HttpTrouble: the answer is a 429 or a 5xx.
        """
        self.began = True
        response = await handler(request)
        self.status = response.status
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise await _rate_limited(response)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR and response.status != HTTPStatus.NOT_IMPLEMENTED:
            raise BadAnswer(response.status)
        return response


async def no_repeats(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
    """Do a request as `Attempt` does, for who does not ask about it later."""
    return await Attempt()(request, handler)


async def _rate_limited(response: aiohttp.ClientResponse) -> Wait:
    try:
        body = json.loads(await response.read())
    except ValueError:
        body = None
    told = body if isinstance(body, dict) else {}
    waits = (_seconds(value) for value in (told.get("retry_after"), *map(response.headers.get, _HEADERS)))
    wait_s = next((wait for wait in waits if wait is not None), None)
    if not isinstance(body, dict):
        return Wait(_BANNED_S if wait_s is None else wait_s, everywhere=True)
    return Wait(_UNTOLD_S if wait_s is None else wait_s, everywhere=bool(told.get("global")))


def _seconds(value: Any) -> float | None:
    """Return a wait as one that can be kept, None when it is no number or endless."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return min(max(seconds, 0.0), _LONGEST_WAIT_S) if math.isfinite(seconds) else None
