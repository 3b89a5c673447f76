"""Loopback search engines: Brave, Tavily, SearXNG and DuckDuckGo's page without scripts, on one port.

Written from their references (read 2026-11-30): https://api-dashboard.search.brave.com/api-reference/web/search/get,
https://docs.tavily.com/api-reference/endpoint/search, https://docs.searxng.org/dev/search_api, and from what the
`ddgs` library looks for in a page of https://html.duckduckgo.com/html/. Each engine may have one fault.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson
from aiohttp import web

from tests.platforms.loopback import LoopbackServer, encode_json

BRAVE_KEY = "BSA-search-key-1"
TAVILY_KEY = "tvly-search-key-2"


class Fault(StrEnum):
    """What may be wrong with an engine."""

    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"  # Tavily's own status for it
    BROKEN = "broken"  # status 500
    PAGE = "page"  # HTML where JSON belongs, and a page without results where HTML belongs
    ODD = "odd"  # JSON of another shape
    EMPTY = "empty"  # no results
    ENDLESS = "endless"
    HELD = "held"  # no answer as long as the client waits
    NO_JSON = "no_json"  # SearXNG's usual settings
    ELSEWHERE = "elsewhere"  # a redirect to `SearchServer.elsewhere`


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What all engines find; Brave gives it as HTML."""

    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it arrived."""

    engine: str
    query: str
    params: dict[str, Any]
    headers: dict[str, str] = field(repr=False)


class SearchServer(LoopbackServer):
    """Answers as the four engines; each finds `results`."""

    stops_with_client = True

    def __init__(self, results: Iterable[Result] = ()) -> None:
        super().__init__()
        self.results = list(results)
        self.faults: dict[str, Fault] = {}
        self.asked: list[Asked] = []
        self.elsewhere = ""
        self.open_now = 0

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        return f"{[asked.engine for asked in self.asked]}, {self.open_now} open"

    @property
    def engines_asked(self) -> list[str]:
        """The engines' names in the order of the requests."""
        return [asked.engine for asked in self.asked]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        params: dict[str, Any] = dict(request.query)
        match request.method, request.path:
            case "GET", "/res/v1/web/search":
                engine = "brave"
            case "POST", "/search":
                engine, params = "tavily", orjson.loads(body)
            case "GET", "/search":
                engine = "searxng"
            case "POST", "/html/":
                engine, params = "ddgs", {key: str(value) for key, value in (await request.post()).items()}
            case _:
                return web.Response(status=404)
        query = params.get("query" if engine == "tavily" else "q", "")
        self.asked.append(Asked(engine=engine, query=query, params=params, headers=headers))
        self.open_now += 1
        self.bell.ring()
        try:
            return await self._failing(request, engine) or self._answer(self.asked[-1])
        finally:
            self.open_now -= 1
            self.bell.ring()

    async def _failing(self, request: web.BaseRequest, engine: str) -> web.StreamResponse | None:
        match self.faults.get(engine):
            case Fault.RATE_LIMIT:
                return web.Response(status=429, headers={"Retry-After": "1"}, text="slow down")
            case Fault.QUOTA:
                return _json({"detail": {"error": "This request exceeds your plan's set usage limit."}}, status=432)
            case Fault.BROKEN:
                return web.Response(status=500, text="Internal Server Error")
            case Fault.PAGE:
                return web.Response(text="<html><body>Are you a robot?</body></html>", content_type="text/html")
            case Fault.ODD:
                return _json({"results": {"title": "no list"}, "web": "no object"})
            case Fault.NO_JSON:
                return web.Response(status=403, text="Forbidden")
            case Fault.ELSEWHERE:
                return web.Response(status=307, headers={"Location": self.elsewhere})
            case Fault.ENDLESS:
                return await _endless(request)
            case Fault.HELD:
                await asyncio.Event().wait()
        return None

    def _answer(self, asked: Asked) -> web.Response:
        results = [] if self.faults.get(asked.engine) is Fault.EMPTY else self.results
        match asked.engine:
            case "brave":
                return _brave(asked, results)
            case "tavily":
                return _tavily(asked, results)
            case "searxng":
                return _searxng(asked, results)
        return web.Response(body=_duckduckgo_page(results).encode("utf-8", "replace"), content_type="text/html")


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=encode_json(value), content_type="application/json")


async def _endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


def _brave(asked: Asked, results: list[Result]) -> web.Response:
    if asked.headers.get("x-subscription-token") != BRAVE_KEY:
        return _json({"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, status=422)
    if not (1 <= int(asked.params["count"]) <= 20 and 1 <= len(asked.query.split()) <= 50):
        return _json({"type": "ErrorResponse", "error": {"code": "VALIDATION"}}, status=422)
    shown = results[: int(asked.params["count"])]
    items = [
        {
            "type": "search_result",
            "title": html.escape(each.title),
            "url": each.url,
            "description": f"<strong>{html.escape(each.snippet[:3])}</strong>{html.escape(each.snippet[3:])}",
        }
        for each in shown
    ]
    found = {"type": "search", "query": {"original": asked.query}}
    return _json(found | ({"web": {"type": "search", "results": items}} if items else {}))


def _tavily(asked: Asked, results: list[Result]) -> web.Response:
    if asked.headers.get("authorization") != f"Bearer {TAVILY_KEY}":
        return _json({"detail": {"error": "Unauthorized: missing or invalid API key."}}, status=401)
    if not (isinstance(asked.query, str) and 0 <= asked.params["max_results"] <= 20):
        return _json({"detail": {"error": "Invalid request"}}, status=400)
    items = [{"title": each.title, "url": each.url, "content": each.snippet, "score": 0.9} for each in results]
    return _json({"query": asked.query, "results": items[: asked.params["max_results"]], "response_time": 0.5})


def _searxng(asked: Asked, results: list[Result]) -> web.Response:
    if asked.params.get("format") != "json":
        return web.Response(status=403)
    items = [{"title": each.title, "url": each.url, "content": each.snippet, "engine": "x"} for each in results]
    return _json({"query": asked.query, "number_of_results": 0, "results": items, "answers": [], "suggestions": []})


def _duckduckgo_page(results: list[Result]) -> str:
    items = "".join(
        '<div class="result results_links web-result"><div class="links_main links_deep result__body">'
        f'<h2 class="result__title"><a class="result__a" href="{html.escape(each.url)}">{html.escape(each.title)}</a>'
        f'</h2><a class="result__snippet" href="{html.escape(each.url)}">{html.escape(each.snippet)}</a></div></div>'
        for each in results
    )
    return f'<html><body><div class="serp__results">{items}</div></body></html>'
