"""Search engines: what goes out, what comes back, and what is made of an engine that fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.config import WebSection
from bot.web.client import GuardedClient
from bot.web.search import brave, tavily
from bot.web.search.chain import NothingFound, WebSearch
from bot.web.search.ddgs_search import AT_ONCE, DdgsSearch
from bot.web.search.engine import EngineFailed, Found
from bot.web.search.hits import SNIPPET_CHARS, TITLE_CHARS, Hit, hits_from, plain_text
from tests.platforms.pages import Page, PageServer
from tests.platforms.search_engines import BRAVE_KEY, TAVILY_KEY, Fault, Result, SearchServer

CATS = Result(title="All about cats", url="https://cats.example/all", snippet="Cats sleep for most of the day.")
DOGS = Result(title="Dogs & friends", url="https://dogs.example/?a=1&b=2", snippet='They say "woof" <often>.')
ENGINES = ("brave", "tavily", "searxng", "ddgs")
KEYS = {"brave": BRAVE_KEY, "tavily": TAVILY_KEY}


@pytest.fixture
async def web() -> AsyncIterator[GuardedClient]:
    client = GuardedClient()
    yield client
    client.close()


@pytest.fixture
async def server() -> AsyncIterator[SearchServer]:
    async with SearchServer([CATS, DOGS]) as engines:
        yield engines


def searching(web: GuardedClient, server: SearchServer, *names: str, proxy: str | None = None) -> WebSearch:
    engines = [
        {"name": name, "base_url": server.origin, "proxy": proxy} | ({"api_key": KEYS[name]} if name in KEYS else {})
        for name in names
    ]
    return WebSearch(WebSection.model_validate({"search_engines": engines}), web)


@pytest.mark.parametrize("name", ENGINES)
async def test_each_engine_gives_what_it_finds(name: str, web: GuardedClient, server: SearchServer) -> None:
    answer = await searching(web, server, name).search("cats and dogs", 5)
    assert answer.engine == name
    assert answer.failures == ()
    assert [(hit.title, hit.url) for hit in answer.hits] == [(CATS.title, CATS.url), (DOGS.title, DOGS.url)]
    assert answer.hits[0].snippet == CATS.snippet
    (asked,) = server.asked
    assert (asked.engine, asked.query) == (name, "cats and dogs")


async def test_each_engine_is_asked_as_its_reference_says(web: GuardedClient, server: SearchServer) -> None:
    for name in ENGINES:
        await searching(web, server, name).search("cats", 7)
    by_name = {asked.engine: asked for asked in server.asked}
    assert by_name["brave"].headers["x-subscription-token"] == BRAVE_KEY
    assert by_name["brave"].params["count"] == "7"
    assert by_name["tavily"].headers["authorization"] == f"Bearer {TAVILY_KEY}"
    assert by_name["tavily"].params["max_results"] == 7
    assert by_name["searxng"].params == {"q": "cats", "format": "json"}
    assert "authorization" not in by_name["searxng"].headers
    assert by_name["ddgs"].params["q"] == "cats"


async def test_brave_gets_no_more_words_than_it_takes(web: GuardedClient, server: SearchServer) -> None:
    await searching(web, server, "brave").search(" ".join("a" for _ in range(80)), 5)
    assert len(server.asked[0].query.split()) == 50


async def test_a_gate_before_an_instance_gets_its_key(web: GuardedClient, server: SearchServer) -> None:
    section = {"searxng": {"base_url": server.origin, "api_key": "gate-key"}}
    await WebSearch(WebSection.model_validate({"search_engines": section}), web).search("cats", 5)
    assert server.asked[0].headers["authorization"] == "Bearer gate-key"


async def test_no_more_results_than_wanted_are_given(web: GuardedClient, server: SearchServer) -> None:
    server.results = [Result(title=f"t{n}", url=f"https://x.example/{n}", snippet="s") for n in range(30)]
    for name in ENGINES:
        assert len((await searching(web, server, name).search("x", 3)).hits) == 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.RATE_LIMIT, "rate limit (status 429)"),
        (Fault.QUOTA, "quota used up (status 432)"),
        (Fault.BROKEN, "its server has a fault (status 500)"),
        (Fault.PAGE, "the answer is not JSON"),
        (Fault.ODD, "the answer is not what its documentation says"),
        (Fault.EMPTY, "no results"),
        (Fault.ENDLESS, "the answer is larger than 2,097,152 bytes"),
    ],
)
@pytest.mark.parametrize("name", ["brave", "tavily", "searxng"])
async def test_the_next_engine_answers_for_one_that_fails(
    name: str, fault: Fault, reason: str, web: GuardedClient, server: SearchServer
) -> None:
    server.faults[name] = fault
    other = "searxng" if name != "searxng" else "brave"
    answer = await searching(web, server, name, other).search("cats", 5)
    assert answer.engine == other
    assert [(failure.engine, failure.reason) for failure in answer.failures] == [(name, reason)]
    assert server.engines_asked == [name, other]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.RATE_LIMIT, "no connection, or not the answer it expects"),
        (Fault.BROKEN, "no connection, or not the answer it expects"),
        (Fault.PAGE, "no results"),
        (Fault.EMPTY, "no results"),
    ],
)
async def test_the_next_engine_answers_for_ddgs(
    fault: Fault, reason: str, web: GuardedClient, server: SearchServer
) -> None:
    server.faults["ddgs"] = fault
    answer = await searching(web, server, "ddgs", "searxng").search("cats", 5)
    assert answer.engine == "searxng"
    assert [failure.reason for failure in answer.failures] == [reason]


async def test_an_instance_that_gives_no_json_says_what_to_change(web: GuardedClient, server: SearchServer) -> None:
    server.faults["searxng"] = Fault.NO_JSON
    with pytest.raises(NothingFound, match=r"^searxng: its settings do not have json among search\.formats"):
        await searching(web, server, "searxng").search("cats", 5)


async def test_the_engines_are_asked_in_the_configured_order(web: GuardedClient, server: SearchServer) -> None:
    server.faults = dict.fromkeys(ENGINES, Fault.EMPTY)
    order = ("searxng", "ddgs", "tavily", "brave")
    with pytest.raises(NothingFound) as raised:
        await searching(web, server, *order).search("cats", 5)
    assert server.engines_asked == list(order)
    assert str(raised.value) == "; ".join(f"{name}: no results" for name in order)


async def test_no_key_is_in_the_error_that_names_all_engines(web: GuardedClient, server: SearchServer) -> None:
    engines = {
        "brave": {"api_key": "BSA-wrong", "base_url": server.origin},
        "tavily": {"api_key": "tvly-wrong", "base_url": server.origin.replace("//", "//user:secretword@")},
        "searxng": {"base_url": "http://127.0.0.1:1"},
    }
    with pytest.raises(NothingFound) as raised:
        await WebSearch(WebSection.model_validate({"search_engines": engines}), web).search("cats", 5)
    assert str(raised.value) == (
        "brave: request not accepted (status 422); tavily: access refused (status 401); "
        "searxng: no connection to 127.0.0.1"
    )


async def test_a_key_does_not_go_where_an_engine_redirects_to(web: GuardedClient, server: SearchServer) -> None:
    async with PageServer() as stranger:
        server.faults = {"brave": Fault.ELSEWHERE, "tavily": Fault.ELSEWHERE}
        server.elsewhere = f"{stranger.origin}/take"
        with pytest.raises(NothingFound):
            await searching(web, server, "brave", "tavily").search("cats", 5)
        assert stranger.seen == []


async def test_engines_go_through_their_proxy(web: GuardedClient, server: SearchServer) -> None:
    body = b'{"results": [{"title": "by proxy", "url": "https://x.example/", "content": "s"}]}'
    async with PageServer() as proxy:
        proxy.pages["/search"] = Page(body=body, content_type="application/json")
        answer = await searching(web, server, "searxng", proxy=proxy.origin).search("cats", 5)
        assert answer.hits[0].title == "by proxy"
        with pytest.raises(NothingFound):
            await searching(web, server, "ddgs", proxy=proxy.origin).search("cats", 5)
        meant = server.origin.removeprefix("http://")
        assert [(seen.headers["host"], seen.path) for seen in proxy.seen] == [
            (meant, "/search?q=cats&format=json"),
            (meant, "/html/"),
        ]
    assert server.asked == []


async def test_by_default_ddgs_alone_is_asked_and_asks_several_engines(web: GuardedClient) -> None:
    async with PageServer() as proxy:
        engine = DdgsSearch(proxy=proxy.origin)
        with pytest.raises(EngineFailed):
            await engine.search("cats", 5)
        # They are asked over TLS, through tunnels that this proxy does not give.
        await proxy.wait_for(lambda: {seen.method for seen in proxy.seen} == {"CONNECT"})
        assert len({seen.headers["host"] for seen in proxy.seen}) > 1
    with pytest.raises(NothingFound, match=r"^ddgs: "):
        await WebSearch(WebSection(search_engines={"ddgs": {"proxy": proxy.origin}}), web).search("cats", 5)  # type: ignore[dict-item]


# --- ddgs in its process


def processes() -> set[str]:
    """The children of this process that search."""
    found = set()
    for line in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        if b"ddgs_process" in Path(f"/proc/{line}/cmdline").read_bytes():
            found.add(line)
    return found


@pytest.mark.parametrize("fault", [Fault.HELD, Fault.ENDLESS])
async def test_ddgs_ends_with_its_time_whatever_comes(fault: Fault, server: SearchServer) -> None:
    server.faults["ddgs"] = fault
    with pytest.raises(EngineFailed):
        await DdgsSearch(base_url=server.origin, limit_s=3).search("cats", 5)
    assert server.engines_asked == ["ddgs"]
    assert processes() == set()
    await server.wait_for(lambda: server.open_now == 0)


async def test_a_cancelled_search_with_ddgs_leaves_no_process(server: SearchServer) -> None:
    server.faults["ddgs"] = Fault.HELD
    patient = DdgsSearch(base_url=server.origin, limit_s=600)
    searching = asyncio.create_task(patient.search("cats", 5), name="search")
    await server.wait_for(lambda: server.open_now == 1)
    assert len(processes()) == 1
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await searching
    assert processes() == set()
    await server.wait_for(lambda: server.open_now == 0)


async def test_only_so_many_processes_search_at_once(server: SearchServer) -> None:
    server.faults["ddgs"] = Fault.HELD
    engine = DdgsSearch(base_url=server.origin)
    tasks = [asyncio.create_task(engine.search("cats", 5), name=f"search {n}") for n in range(AT_ONCE + 2)]
    await server.wait_for(lambda: server.open_now == AT_ONCE)
    running = processes()
    for task in tasks:
        task.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True))
    assert len(running) == AT_ONCE


async def test_a_search_with_ddgs_sees_nothing_of_the_environment(
    server: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DDGS_PROXY", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    assert await DdgsSearch(base_url=server.origin).search("cats", 5)


# --- hits


def test_a_result_is_given_once_and_only_for_the_web() -> None:
    urls = (
        "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://x.example/", "", "//x.example/", "no",
        "HTTPS://X.example:443/a#part", "https://x.example/a", "https://x.example/" + "a" * 1_000, "http://x.example/a",
    )  # fmt: skip
    hits = hits_from([Found(title=f"t{n}", url=url, snippet="s") for n, url in enumerate(urls)], count=10)
    assert [(hit.title, hit.url) for hit in hits] == [("t7", "https://x.example/a"), ("t10", "http://x.example/a")]


def test_a_result_without_a_title_goes_by_its_url() -> None:
    (hit,) = hits_from([Found(title="<b> </b>", url="https://x.example/", snippet="")], count=5)
    assert hit == Hit(title="https://x.example/", url="https://x.example/", snippet="")


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ("<strong>Cats</strong> &amp; <em class='x'>dogs</em>", "Cats & dogs"),
        ("Tom &#39;n&#39; Jerry&hellip;", "Tom 'n' Jerry…"),
        ("one\n two\t\x00\x1b[31mthree\u2028four", "one two [31mthree four"),
        ("&#27;[2J&#0;&lt;b&gt;", "[2J\ufffd<b>"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("1 < 2 & 3 > 2", "1 < 2 & 3 > 2"),
        ("<!-- hidden -->", ""),
        ("a <![0 b> c <![if IE]> d", "a c d"),
        ("猫 и кошки", "猫 и кошки"),
        ("", ""),
    ],
)
def test_text_is_read_without_markup_and_control_signs(raw: str, read: str) -> None:
    assert plain_text(raw, 100) == read


@given(st.text(max_size=300) | st.text(alphabet="<>/&;!?-[]\"'=#a1 \n\x00\ud800", max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_is_one_line_within_its_limit(text: str) -> None:
    read = plain_text(text, 40)
    assert len(read) <= 40
    assert "\n" not in read
    read.encode()  # storable


def test_long_texts_are_cut_with_a_sign() -> None:
    (hit,) = hits_from([Found(title="t" * 999, url="https://x.example/", snippet="<b>" * 100 + "s" * 9_999)], count=5)
    assert (len(hit.title), len(hit.snippet)) == (TITLE_CHARS, SNIPPET_CHARS)
    assert hit.title.endswith("t…")


def test_without_an_address_the_public_ones_are_asked() -> None:
    assert (brave.BASE_URL, tavily.BASE_URL) == ("https://api.search.brave.com", "https://api.tavily.com")
