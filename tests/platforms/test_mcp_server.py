"""The scripted MCP server against the real SDK client, over every transport and in both generations."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import FileUrl

from tests.platforms import mcp_scripts
from tests.platforms.mcp_script import (
    HANDSHAKE,
    MODERN,
    Call,
    Fault,
    Json,
    Kind,
    ProcessFaults,
    Script,
    Tool,
    audio,
    dump,
    embedded,
    form,
    image,
    link,
    load,
    roots,
    sample,
    text,
    visit,
)
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_ways import LIMIT_S, WAYS, client_of, first_text, running

PNG = "iVBORw0KGgo="


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each transport and generation."""
    return str(request.param)


async def test_tools_resources_and_prompts_are_listed_and_used(way: str, tmp_path: Path) -> None:
    async with running(way, tmp_path, mcp_scripts.workshop()) as server, client_of(server, way) as client:
        assert client.session.protocol_version == (HANDSHAKE if way.endswith("2025") else MODERN)
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "add", "create_ticket"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
        assert [entry.name for entry in (await client.list_resources()).resources] == ["welcome"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [entry.uri_template for entry in templates] == ["memo://day/{day}"]
        read = (await client.read_resource("memo://day/monday")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert read.text == "Rain."
        prompt = await client.get_prompt("greet", {"who": "Ada"})
        assert isinstance(prompt.messages[0].content, types.TextContent)
        assert prompt.messages[0].content.text == "Greet Ada."
        assert await server.wait_for(lambda: server.record.performed("add")) == 1


async def test_every_kind_of_content_arrives(way: str, tmp_path: Path) -> None:
    content = [
        text("words"),
        image(PNG),
        audio(PNG),
        embedded("memo://a", text="within"),
        link("memo://b", "elsewhere"),
    ]
    script = Script(tools=[Tool(name="show", content=content, structured={"n": 1}, is_error=True)])
    async with running(way, tmp_path, script) as server, client_of(server, way) as client:
        result = await client.call_tool("show", {})
        kinds = [block.type for block in result.content]
        assert kinds == ["text", "image", "audio", "resource", "resource_link"]
        assert result.structured_content == {"n": 1}
        assert result.is_error


async def test_lists_come_in_pages(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.many_tools(200, page_size=70)
    async with running(way, tmp_path, script) as server, client_of(server, way) as client:
        names: list[str] = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert names == [f"tool_{number:03}" for number in range(200)]
        assert len(server.record.received("tools/list")) == 3


async def test_progress_and_log_messages_come_before_the_result(way: str, tmp_path: Path) -> None:
    steps = [{"progress": 1, "total": 2, "message": "half"}, {"progress": 2, "total": 2, "message": "whole"}]
    tool = Tool(name="work", progress=steps, log=[{"level": "info", "data": "begun"}])
    heard: list[Any] = []

    async def hear_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def hear_log(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(params.data)

    script = Script(tools=[tool])
    async with (
        running(way, tmp_path, script) as server,
        client_of(server, way, logging_callback=hear_log, log_level="info") as client,
    ):
        await client.call_tool("work", {}, progress_callback=hear_progress)
        assert sorted(heard, key=str) == [(1, 2, "half"), (2, 2, "whole"), "begun"]


async def test_a_cancelled_call_is_recorded_and_never_performed(way: str, tmp_path: Path) -> None:
    script = Script(tools=[Tool(name="wait", hold=True), mcp_scripts.echo_tool()])
    async with running(way, tmp_path, script) as server, client_of(server, way) as client:
        call = asyncio.create_task(client.call_tool("wait", {}))
        await server.wait_for(lambda: server.record.calls("wait"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.wait_for(server.record.cancelled)
        assert first_text(await client.call_tool("echo", {"text": "still here"})) == "still here"
        assert server.record.performed("wait") == 0


async def test_a_held_call_goes_on_when_released(way: str, tmp_path: Path) -> None:
    script = Script(tools=[Tool(name="wait", hold=True)])
    async with running(way, tmp_path, script) as server, client_of(server, way) as client:
        call = asyncio.create_task(client.call_tool("wait", {}))
        await server.wait_for(lambda: server.record.calls("wait"))
        await server.release("wait")
        assert first_text(await call) == "done"


async def test_a_tool_asks_for_a_form_a_page_a_sample_and_roots(way: str, tmp_path: Path) -> None:
    asks = [
        form("Which size?", {"size": {"type": "string", "enum": ["S", "M"], "default": "M"}}),
        visit("Please log in.", "https://example.org/login"),
        sample("Write a haiku."),
        roots(),
    ]
    asked: list[str] = []

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        form_asked = isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action="accept", content={"size": "M"} if form_asked else None)

    async def write(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="Frogs."), model="m"
        )

    async def name_roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///somewhere"))])

    script = Script(tools=[Tool(name="order", asks=asks, does="answers")])
    async with (
        running(way, tmp_path, script) as server,
        client_of(
            server, way, elicitation_callback=elicit, sampling_callback=write, list_roots_callback=name_roots
        ) as client,
    ):
        answers = first_text(await client.call_tool("order", {}))
        assert asked == ["Which size?", "Please log in."]
        assert '{"size": "M"}' in answers
        assert "Frogs." in answers
        assert "file:///somewhere" in answers
        assert server.record.performed("order") == 1


async def test_a_changed_tool_list_is_announced(way: str, tmp_path: Path) -> None:
    told = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    script = mcp_scripts.workshop()
    async with running(way, tmp_path, script) as server, client_of(server, way, message_handler=hear) as client:
        assert len((await client.list_tools()).tools) == 3
        if way == "http-2025":
            await server.wait_for(lambda: server.record.received("GET"))
        server.script.tools.append(mcp_scripts.echo_tool("second_echo"))
        await server.apply()
        if way.endswith("2026"):
            async with client.listen(tools_list_changed=True) as subscription:
                await server.changed("tools")
                await asyncio.wait_for(anext(subscription), LIMIT_S)
        else:
            await server.changed("tools")
            await asyncio.wait_for(told.wait(), LIMIT_S)
        assert len((await client.list_tools()).tools) == 4


async def test_what_is_not_offered_is_not_served(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.offers = ["tools"]
    async with running(way, tmp_path, script) as server, client_of(server, way) as client:
        assert client.server_capabilities.resources is None
        assert client.server_capabilities.prompts is None
        with pytest.raises(MCPError, match="Method not found"):
            await client.list_resources()


async def test_names_of_c077_reach_the_tools_that_bear_them(way: str, tmp_path: Path) -> None:
    async with running(way, tmp_path, mcp_scripts.awkward_names()) as server, client_of(server, way) as client:
        for name in mcp_scripts.AWKWARD_NAMES:
            assert first_text(await client.call_tool(name, {})) == name


async def test_a_server_of_both_generations_serves_clients_of_either(tmp_path: Path) -> None:
    async with McpServer(mcp_scripts.workshop()) as server:
        for mode, version in (("auto", MODERN), ("legacy", HANDSHAKE)):
            async with client_of(server, "http", mode=mode) as client:
                assert client.session.protocol_version == version
                assert first_text(await client.call_tool("echo", {"text": "a"})) == "a"


@pytest.mark.parametrize("way", ["stdio-2025", "http-2025", "sse-2025"])
async def test_a_server_pings_and_asks_for_roots_once_its_client_is_ready(way: str, tmp_path: Path) -> None:
    async def name_roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///somewhere"))])

    script = Script(pings=True, asks_roots=True)
    async with running(way, tmp_path, script) as server, client_of(server, way, list_roots_callback=name_roots):
        await server.wait_for(lambda: len(server.record.of("answered")) == 2)
        results = [entry["result"] for entry in server.record.of("answered")]
        assert {} in results
        assert {"roots": [{"uri": "file:///somewhere"}]} in results


@pytest.mark.parametrize("way", ["stdio-2025", "http-2025", "sse-2025"])
async def test_a_page_may_be_demanded_by_an_error(way: str, tmp_path: Path) -> None:
    ask = visit("Please log in.", "https://example.org/login", as_error=True)
    async with running(way, tmp_path, Script(tools=[Tool(name="mail", asks=[ask])])) as server:
        async with client_of(server, way) as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("mail", {})
        assert (refused.value.error.code, refused.value.error.data["elicitations"][0]["url"]) == (
            -32042,
            "https://example.org/login",
        )


async def test_a_changed_resource_is_told_to_those_who_subscribed(way: str, tmp_path: Path) -> None:
    told = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.set()

    script = mcp_scripts.workshop()
    async with running(way, tmp_path, script) as server, client_of(server, way, message_handler=hear) as client:
        if way.endswith("2026"):
            async with client.listen(resource_subscriptions=["memo://welcome"]) as subscription:
                await server.updated("memo://welcome")
                await asyncio.wait_for(anext(subscription), LIMIT_S)
        else:
            with pytest.warns(MCPDeprecationWarning):  # 2026-07-28 has no such request
                await client.session.subscribe_resource("memo://welcome")
            await server.updated("memo://welcome")
            await asyncio.wait_for(told.wait(), LIMIT_S)


async def test_a_tool_with_a_function_of_its_own_answers_with_its_result_or_its_failure() -> None:
    def divide(call: Call) -> Json:
        return {"content": [text(str(1 / call.arguments["by"]))]}

    script = Script(tools=[Tool(name="divide", answer=divide)])
    async with McpServer(script) as server, client_of(server, "http") as client:
        assert first_text(await client.call_tool("divide", {"by": 2})) == "0.5"
        with pytest.raises(MCPError, match="ZeroDivisionError"):
            await client.call_tool("divide", {"by": 0})


ACCEPT = {"Accept": "application/json, text/event-stream"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MODERN_LISTING = LISTING | {"params": {"_meta": ENVELOPE}}


@pytest.mark.parametrize(
    ("headers", "message", "status"),
    [
        ({}, LISTING, 406),
        (ACCEPT | {"Origin": "https://example.org"}, LISTING, 403),
        (ACCEPT, LISTING, 400),  # no session
        (ACCEPT | {"Mcp-Session-Id": "another"}, LISTING, 404),
        (ACCEPT | {"MCP-Protocol-Version": "1999-01-01"}, LISTING, 400),
        (ACCEPT | {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}, MODERN_LISTING, 400),
        (ACCEPT | {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}, MODERN_LISTING, 200),
        (ACCEPT | {"Content-Type": "text/plain"}, LISTING, 415),
    ],
)
async def test_a_client_that_breaks_the_rules_of_http_is_refused(
    headers: dict[str, str], message: Json, status: int
) -> None:
    async with McpServer(mcp_scripts.workshop()) as server, aiohttp.ClientSession() as http:
        headers = {"Content-Type": "application/json"} | headers
        async with http.post(server.url, data=json.dumps(message), headers=headers) as answer:
            assert answer.status == status


async def test_a_header_that_the_server_requires_lets_in_or_keeps_out() -> None:
    script = mcp_scripts.workshop()
    script.requires_headers = {"Authorization": "Bearer good"}
    async with McpServer(script) as server, aiohttp.ClientSession() as http:
        for token, status in (("bad", 401), ("good", 200)):
            headers = ACCEPT | {"Authorization": f"Bearer {token}"}
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
            async with http.post(server.url, json=MODERN_LISTING, headers=headers) as answer:
                assert answer.status == status
        assert len(server.record.received("tools/list")) == 1


def test_a_script_survives_json() -> None:
    script = mcp_scripts.workshop()
    script.tools.append(Tool(name="order", asks=[form("Which?", {"size": {"type": "string"}})]))
    script.faults = [Fault(kind=Kind.DIE_AFTER, name="order", times=1)]
    script.process = ProcessFaults(grandchildren=2)
    assert load(dump(script)) == script
