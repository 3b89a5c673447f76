"""The engines in the configured order: the first that has results answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.config import SearchEngine as EngineSection
from bot.config import WebSection
from bot.errors import DutifulError
from bot.web.client import GuardedClient
from bot.web.search import brave, tavily
from bot.web.search.brave import BraveSearch
from bot.web.search.ddgs_search import DdgsSearch
from bot.web.search.engine import EngineFailed, JsonEndpoint, SearchEngine
from bot.web.search.hits import Hit, hits_from
from bot.web.search.searxng import SearxngSearch
from bot.web.search.tavily import TavilySearch


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why one engine gave nothing, in few words."""

    engine: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found, by which engine, and who was asked before it in vain."""

    hits: tuple[Hit, ...]
    engine: str
    failures: tuple[Failure, ...]


class NothingFound(DutifulError):
    """No engine gave a result; the text names each with its reason."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__(told(failures))


class WebSearch:
    """All engines that are configured; `ddgs` alone, which needs no key, if there are none."""

    def __init__(self, config: WebSection, web: GuardedClient) -> None:
        sections = config.search_engines or {DdgsSearch.name: EngineSection()}
        self._engines = [_engine(name, section, web) for name, section in sections.items()]

    async def search(self, query: str, count: int) -> Findings:
        """Return at most `count` results of the first engine that has any.

        Raises:
            NothingFound: none has.
        """
        failures: list[Failure] = []
        for engine in self._engines:
            try:
                found = await engine.search(query, count)
                hits = await asyncio.to_thread(hits_from, found, count=count)
            except EngineFailed as exc:
                failures.append(Failure(engine=engine.name, reason=str(exc)))
                continue
            if hits:
                return Findings(hits=hits, engine=engine.name, failures=tuple(failures))
            failures.append(Failure(engine=engine.name, reason="no results"))
        raise NothingFound(failures)


def told(failures: Sequence[Failure]) -> str:
    """Return failures as words: "brave: rate limit (status 429); ddgs: no results"."""
    return "; ".join(f"{failure.engine}: {failure.reason}" for failure in failures)


def _engine(name: str, section: EngineSection, web: GuardedClient) -> SearchEngine:
    key = section.api_key.get_secret_value() if section.api_key else ""

    def endpoint(usual: str = "") -> JsonEndpoint:
        return JsonEndpoint(web=web, base_url=section.base_url or usual, proxy=section.proxy)

    match name:
        case "brave":
            return BraveSearch(endpoint(brave.BASE_URL), key)
        case "tavily":
            return TavilySearch(endpoint(tavily.BASE_URL), key)
        case "searxng":
            return SearxngSearch(endpoint(), key)
        case _:
            return DdgsSearch(base_url=section.base_url, proxy=section.proxy)
