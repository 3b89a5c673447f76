"""Tavily, https://docs.tavily.com/api-reference/endpoint/search (read 2026-11-30)."""

from __future__ import annotations

from bot.web.search.engine import Found, JsonEndpoint, found_in

BASE_URL = "https://api.tavily.com"


class TavilySearch:
    """Results with an excerpt of each page. Needs a key; a basic search costs one of its credits."""

    name = "tavily"

    def __init__(self, endpoint: JsonEndpoint, api_key: str) -> None:
        self._endpoint = endpoint
        self._headers = {"authorization": f"Bearer {api_key}"}

    async def search(self, query: str, count: int) -> list[Found]:
        """See `SearchEngine.search`."""
        asked = {"query": query, "max_results": count, "search_depth": "basic"}
        value = await self._endpoint.ask("POST", "/search", headers=self._headers, json=asked)
        return found_in(value.get("results"), snippet_key="content")
