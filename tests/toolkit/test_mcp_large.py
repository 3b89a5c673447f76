"""Large answers and offers of MCP servers: they arrive whole, on every transport, and hold nobody up."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import httpx2
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config import McpSection
from bot.toolkit.mcp.aside import LARGE_BYTES, Aside
from bot.toolkit.mcp.lasting import LARGE_BYTES as LASTING_BYTES
from bot.toolkit.mcp.lasting import Lasting
from bot.toolkit.mcp.network_door import _Events
from bot.toolkit.mcp.offers import Offer
from bot.toolkit.mcp.shelf import ServerShelf
from bot.toolkit.registry import ToolRegistry
from tests.platforms.mcp_script import Script, Tool, text
from tests.platforms.mcp_ways import WAYS, running
from tests.support.contexts import tool_context
from tests.support.mcp_links import linked, said, section_of
from tests.toolkit.test_mcp_shelf import Calls

LONG = "x" * (3 * LARGE_BYTES // 2)


def wordy(count: int) -> list[Tool]:
    properties = {f"p{number}": {"type": "string", "description": LONG[:300]} for number in range(25)}
    schema = {"type": "object", "properties": properties}
    return [Tool(name=f"tool_{number:03}", description="d", input_schema=schema) for number in range(count)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_list_and_an_answer_of_more_than_a_mebibyte_arrive_whole(way: str, tmp_path: Path) -> None:
    """The SDK's own client of the old SSE transport gives the session up at 1 MiB."""
    words = LONG * 4
    script = Script(name="large", tools=[*wordy(150), Tool(name="tell", content=[text(words)])])
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        await link.ready()
        assert len(orjson.dumps(link.offers[0].tools)) > 1024 * 1024
        assert len(link.tools) == 151
        assert link.offers[0].faults == ()
        assert said(await link.connection.call_tool("tell", {}, may_repeat=False)) == words
        assert len(server.record.of("performed")) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_large_answers_that_come_all_at_once_arrive(way: str, tmp_path: Path) -> None:
    script = Script(name="large", tools=[Tool(name="tell", content=[text(LONG)], hold=True)])
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, max_concurrency=64), tmp_path) as link,
    ):
        await link.ready()
        calls = [asyncio.create_task(link.connection.call_tool("tell", {}, may_repeat=False)) for _ in range(64)]
        await link.until(lambda: len(server.record.received("tools/call")) == 64)
        await server.release("tell")
        assert {said(answer) for answer in await asyncio.gather(*calls)} == {LONG}


async def test_answers_that_nobody_came_for_are_dropped_by_size() -> None:
    aside = Aside()
    tickets = [aside.keep(number, 10 * 1024 * 1024) for number in range(30)]
    kept = [number for number, ticket in enumerate(tickets) if aside.take(ticket) == number]
    assert kept == list(range(14, 30))


async def test_an_answer_that_is_kept_aside_is_put_back_once() -> None:
    aside = Aside()
    message = orjson.dumps({"jsonrpc": "2.0", "id": 7, "result": {"text": LONG}})
    small = await aside.shrink(message)
    assert len(small) < 200
    stand_in = orjson.loads(small)["result"]
    assert aside.take(stand_in) == {"text": LONG}
    assert aside.take(stand_in) == stand_in


@pytest.mark.parametrize("message", [b"{" + LONG.encode(), b'["' + LONG.encode() + b'"]', b'{"result": {}}'])
async def test_what_is_no_large_answer_goes_the_usual_way(message: bytes) -> None:
    assert await Aside().shrink(message) is message


async def test_a_server_cannot_make_a_stand_in_of_its_own() -> None:
    forged = {"dutiful/aside": "aside-" + "a" * 24}
    aside = Aside()
    aside.keep("what another answer said")
    assert aside.take(forged) is forged
    assert aside.take({"dutiful/aside": ["no", "text"]}) == {"dutiful/aside": ["no", "text"]}


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        pass


@given(
    ends=st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 120), max_size=6),
)
def test_a_stream_of_events_is_the_same_wherever_it_is_cut(ends: list[str], cuts: list[int]) -> None:
    """Whatever ends the lines, as the SDK's own parser reads them."""
    lines = [
        f"id: {number}{end}event: message{end}data: a{number}{end}data: b{end}{end}" for number, end in enumerate(ends)
    ]
    whole = "".join(lines).encode()
    places = [0, *sorted(cut % len(whole) for cut in cuts), len(whole)]
    pieces = [whole[begin:end] for begin, end in pairwise(places)]

    async def read() -> list[tuple[str, str, str]]:
        stream = _Events(_Pieces(pieces), Aside())
        request = httpx2.Request("GET", "http://server/")
        response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=stream, request=request)
        return [(event.id, event.event, event.data) async for event in httpx2.EventSource(response)]

    assert asyncio.run(read()) == [(str(number), "message", f"a{number}\nb") for number in range(len(ends))]


_FIRST_CONNECT = """
import asyncio, sys
from pathlib import Path
from bot.toolkit.mcp.connection import _load_opener
from tests.platforms.mcp_scripts import workshop
from tests.platforms.mcp_ways import running
from tests.support.mcp_links import linked, section_of

async def main():
    folder, way = Path(sys.argv[1]), sys.argv[2]
    async with running(way, folder, workshop()) as server:
        await asyncio.to_thread(_load_opener)
        before = set(sys.modules)
        async with linked(section_of(server, way), folder) as link:
            assert await link.echo("there") == "there"
        print(*sorted(set(sys.modules) - before))

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["http-2025", "sse-2025", "stdio-2025"])
async def test_the_first_connection_imports_no_library_on_the_loop(way: str, tmp_path: Path) -> None:
    arguments = (sys.executable, "-c", _FIRST_CONNECT, str(tmp_path), way)
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    imported = out.decode().split()
    assert not [name for name in imported if name.startswith(("httpcore2", "httpx2", "mcp", "anyio._backends"))]
    assert len(imported) < 10, imported


async def test_others_run_while_hundreds_of_tools_are_shown(tmp_path: Path) -> None:
    registry = ToolRegistry()
    seen: set[int] = set()
    offer = Offer(
        tools=tuple(
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in wordy(900)
        )
    )
    async with tool_context(tmp_path) as context:
        shelf = ServerShelf(registry, view_of=context.room.files.view)

        async def other() -> None:
            while True:
                seen.add(len(registry))
                await asyncio.sleep(0)

        task = asyncio.create_task(other(), name="other")
        try:
            await shelf.put(Calls("big"), offer, McpSection(command="true"))
        finally:
            task.cancel()
    assert len(registry) == 900
    assert len(seen) > 5  # it found some of the tools there, again and again


async def test_tools_that_are_taken_away_while_they_are_shown_are_gone_in_the_end(tmp_path: Path) -> None:
    registry = ToolRegistry()
    tools = tuple({"name": tool.name, "inputSchema": tool.input_schema} for tool in wordy(300))
    async with tool_context(tmp_path) as context:
        shelf = ServerShelf(registry, view_of=context.room.files.view)
        section = McpSection(command="true")
        shown = asyncio.create_task(shelf.put(Calls("big"), Offer(tools=tools), section), name="show")
        await asyncio.sleep(0)
        await shelf.remove("big")
        await shown
        assert len(registry) == 0
        cut_short = asyncio.create_task(shelf.put(Calls("big"), Offer(tools=tools), section), name="show")
        while not len(registry):
            await asyncio.sleep(0)
        cut_short.cancel()
        await asyncio.wait({cut_short})
        await shelf.remove("big")
        assert len(registry) == 0


def test_the_collector_is_at_work_again_whatever_happens_meanwhile() -> None:
    lasting = Lasting()

    def fail() -> None:
        with lasting.made(LASTING_BYTES):
            assert not gc.isenabled()
            with lasting.made(LASTING_BYTES):
                pass
            assert not gc.isenabled()
            raise RuntimeError

    with lasting.made(LASTING_BYTES - 1):
        assert gc.isenabled()
    try:
        with pytest.raises(RuntimeError):
            fail()
        assert gc.isenabled()
        with lasting.made(LASTING_BYTES):  # too soon
            assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
