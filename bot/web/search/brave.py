"""Brave Search, https://api-dashboard.search.brave.com/api-reference/web/search/get (read 2026-11-30)."""

from __future__ import annotations

from urllib.parse import urlencode

from bot.web.search.engine import EngineFailed, Found, JsonEndpoint, found_in

BASE_URL = "https://api.search.brave.com"

_PATH = "/res/v1/web/search"
_MAX_WORDS = 50  # of a query; more is refused


class BraveSearch:
    """Web results of Brave's own index. Needs a key."""

    name = "brave"

    def __init__(self, endpoint: JsonEndpoint, api_key: str) -> None:
        self._endpoint = endpoint
        self._headers = {"x-subscription-token": api_key}

    async def search(self, query: str, count: int) -> list[Found]:
        """See `SearchEngine.search`."""
        words = " ".join(query.split()[:_MAX_WORDS])
        asked = urlencode({"q": words, "count": count, "result_filter": "web", "text_decorations": "false"})
        value = await self._endpoint.ask("GET", f"{_PATH}?{asked}", headers=self._headers)
        web = value.get("web")
        if web is None:  # the part is left out when there is nothing in it
            return []
        if not isinstance(web, dict):
            raise EngineFailed("the answer is not what its documentation says")
        return found_in(web.get("results"), snippet_key="description")
