"""SearXNG, https://docs.searxng.org/dev/search_api (read 2026-11-30).

An instance answers in JSON only if its settings have `json` among `search.formats`; without that it refuses with 403.
"""

from __future__ import annotations

from urllib.parse import urlencode

from bot.web.search.engine import Found, JsonEndpoint, found_in

_MEANINGS = {403: "its settings do not have json among search.formats"}


class SearxngSearch:
    """An instance of the operator's choice. It knows no keys; one is sent for a gate in front of it."""

    name = "searxng"

    def __init__(self, endpoint: JsonEndpoint, api_key: str) -> None:
        self._endpoint = endpoint
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}

    async def search(self, query: str, count: int) -> list[Found]:  # noqa: ARG002 - an instance gives pages of about 20
        """See `SearchEngine.search`."""
        asked = urlencode({"q": query, "format": "json"})
        value = await self._endpoint.ask("GET", f"/search?{asked}", headers=self._headers, meanings=_MEANINGS)
        return found_in(value.get("results"), snippet_key="content")
