"""What a search engine is to us, and what the engines with a JSON interface share: one request, one judged answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Protocol

import orjson

from bot.errors import DutifulError
from bot.security.network import BadUrl, NetworkRefused
from bot.web.client import GuardedClient
from bot.web.errors import WebError

ENGINE_LIMIT_S = 10.0
"""How long one engine may take; then the next is asked."""

MAX_ANSWER_BYTES = 2 * 1024 * 1024

# 432 and 433 are Tavily's: the plan's limit and the pay-as-you-go limit (its API reference, see `tavily.py`).
_QUOTA = frozenset({HTTPStatus.PAYMENT_REQUIRED, 432, 433})
_BAD_KEY = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One result as an engine gave it: anybody's text, of any length, with or without markup."""

    title: str
    url: str
    snippet: str


class EngineFailed(DutifulError):
    """The engine gave nothing usable. The text is the reason in few words of our own: no key, no words of others."""


class SearchEngine(Protocol):
    """One engine, ready to be asked."""

    @property
    def name(self) -> str:
        """The engine's name in the configuration."""

    async def search(self, query: str, count: int) -> list[Found]:
        """Return what there is, best first; it may be more than `count`, or nothing.

        Raises:
            EngineFailed: no answer within `ENGINE_LIMIT_S`, or none that can be used.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEndpoint:
    """The address of an engine's JSON interface, as the configuration has it."""

    web: GuardedClient
    base_url: str
    proxy: str | None = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        json: Any = None,
        meanings: Mapping[int, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Send one request and return the object that is the answer.

        `meanings` are what some HTTP statuses say of this engine, if it is not the usual.

        Raises:
            EngineFailed: no answer, an HTTP error, or something else than a JSON object.
        """
        try:
            answer = await self.web.request(
                method,
                self.base_url + path,
                headers={"accept": "application/json", **headers},
                json=json,
                max_bytes=MAX_ANSWER_BYTES,
                timeout_s=ENGINE_LIMIT_S,
                trusted=True,
                proxy=self.proxy,
            )
        except (WebError, BadUrl, NetworkRefused) as exc:
            raise EngineFailed(str(exc)) from exc
        if answer.status != HTTPStatus.OK:
            meaning = meanings.get(answer.status) or _meaning(answer.status)
            raise EngineFailed(f"{meaning} (status {answer.status})")
        try:
            value = orjson.loads(answer.body)
        except orjson.JSONDecodeError as exc:
            raise EngineFailed("the answer is not JSON") from exc
        if not isinstance(value, dict):
            raise EngineFailed("the answer is not what its documentation says")
        return value


def found_in(items: Any, *, snippet_key: str) -> list[Found]:
    """Return the results of a JSON list of objects with `title`, `url` and a snippet.

    Raises:
        EngineFailed: it is no list.
    """
    if not isinstance(items, list):
        raise EngineFailed("the answer is not what its documentation says")
    return list(_found(items, snippet_key))


def _found(items: list[Any], snippet_key: str) -> Iterable[Found]:
    for item in items:
        if isinstance(item, dict) and isinstance(item.get("url"), str):
            title, snippet = item.get("title"), item.get(snippet_key)
            yield Found(
                title=title if isinstance(title, str) else "",
                url=item["url"],
                snippet=snippet if isinstance(snippet, str) else "",
            )


def _meaning(status: int) -> str:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "rate limit"
    if status in _QUOTA:
        return "quota used up"
    if status in _BAD_KEY:
        return "access refused"
    return "its server has a fault" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "request not accepted"
