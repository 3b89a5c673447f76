"""The scripted MCP server against the real SDK client: every transport, both generations, and the faults."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import psutil
import pytest
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from pydantic import FileUrl

from tests.platforms import mcp_scripts
from tests.platforms.mcp_script import (
    CONNECT,
    HANDSHAKE,
    MODERN,
    Fault,
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
from tests.platforms.mcp_stage import StdioServer

LIMIT_S = 5.0
PNG = "iVBORw0KGgo="

# A transport with the generation that a client finds on it.
WAYS = ("stdio-2025", "stdio-2026", "http-2025", "http-2026", "sse-2025")

Running = StdioServer | McpServer


@asynccontextmanager
async def running(way: str, folder: Path, script: Script) -> AsyncIterator[Running]:
    """Run a script on the transport and in the generation of `way`."""
    script.versions = [HANDSHAKE] if way.endswith("2025") else [MODERN]
    server: Running = StdioServer(folder, script) if way.startswith("stdio") else McpServer(script)
    async with server:
        yield server


def client_of(server: Running, way: str, **options: Any) -> Client:
    """Return the SDK's client for a server, as the product uses it: it finds the generation by itself."""
    options = {"read_timeout_seconds": LIMIT_S} | options
    if isinstance(server, StdioServer):
        files = server.files
        return Client(StdioServerParameters(command=files.command, args=files.args, env=files.env), **options)
    return Client(sse_client(server.sse_url) if way.startswith("sse") else server.url, **options)


def first_text(result: types.CallToolResult) -> str:
    """Return the text of a result's first block."""
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


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


async def test_a_server_that_dies_after_its_work_has_done_it_once(way: str, tmp_path: Path) -> None:
    """Case C075: the client gets an error, the ticket exists; the server is back and works."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.DIE_AFTER, name="create_ticket", times=1)]
    async with running(way, tmp_path, script) as server:
        with pytest.raises((MCPError, ExceptionGroup, TimeoutError)):
            async with client_of(server, way, read_timeout_seconds=1) as client:
                await client.call_tool("create_ticket", {"title": "leak"})
        assert await server.wait_for(lambda: server.record.performed("create_ticket")) == 1
        if isinstance(server, McpServer):
            await server.wait_for(lambda: server.crashed)
            await server.come_up()
        async with client_of(server, way) as client:
            assert first_text(await client.call_tool("create_ticket", {"title": "x"})) == "Ticket 2 is open."


@pytest.mark.parametrize("kind", [Kind.HANG, Kind.ERROR, Kind.GARBAGE, Kind.INVALID_JSON, Kind.NOT_A_RESULT])
async def test_a_struck_call_fails_and_the_next_one_works(kind: Kind, way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=kind, name="echo", times=1, text="broken")]
    async with running(way, tmp_path, script) as server:
        with pytest.raises((MCPError, ExceptionGroup, ValueError)):
            async with client_of(server, way, read_timeout_seconds=0.5) as client:
                await client.call_tool("echo", {"text": "a"})
        async with client_of(server, way) as client:
            assert first_text(await client.call_tool("echo", {"text": "b"})) == "b"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind=Kind.STATUS, code=500, times=1),
        Fault(kind=Kind.STATUS, code=429, retry_after_s=1, times=1),
        Fault(kind=Kind.SESSION_GONE, times=1),
        Fault(kind=Kind.RESET, times=1),
        Fault(kind=Kind.RESET_MID_STREAM, times=1),
        Fault(kind=Kind.STREAM_ENDS, times=1),
        Fault(kind=Kind.REDIRECT, text="http://127.0.0.1:9/elsewhere", times=1),
        Fault(kind=Kind.CONTENT_TYPE, times=1),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.code}",
)
@pytest.mark.parametrize("http_way", ["http-2025", "http-2026", "sse-2025"])
async def test_a_fault_of_http_fails_the_call_and_not_the_server(fault: Fault, http_way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [fault]
    fault.seen = 0
    async with running(http_way, tmp_path, script) as server:
        with pytest.raises((MCPError, ExceptionGroup, ValueError)):
            async with client_of(server, http_way, read_timeout_seconds=0.5) as client:
                await client.call_tool("echo", {"text": "a"})
        async with client_of(server, http_way) as client:
            assert first_text(await client.call_tool("echo", {"text": "b"})) == "b"


async def test_a_server_that_hangs_at_connect_never_answers(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.HANG, method=CONNECT)]
    async with running(way, tmp_path, script) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), client_of(server, way):
                pass
        assert not server.record.received("tools/list")


async def test_a_huge_answer_is_sent_whole(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.HUGE, size_bytes=5_000_000)]
    async with running("stdio-2025", tmp_path, script) as server, client_of(server, "stdio") as client:
        assert len(first_text(await client.call_tool("echo", {"text": "a"}))) == 5_000_000


async def test_endless_pages_never_end(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.endless = ["tools/list"]
    async with running(way, tmp_path, script) as server, client_of(server, way) as client:
        cursor = None
        for _ in range(5):
            cursor = (await client.list_tools(cursor=cursor)).next_cursor
            assert cursor is not None


async def test_one_invalid_tool_spoils_the_list_for_a_strict_client(way: str, tmp_path: Path) -> None:
    async with running(way, tmp_path, mcp_scripts.invalid_tools()) as server, client_of(server, way) as client:
        with pytest.raises(ValueError, match="validation error"):
            await client.list_tools()


async def test_a_restarted_http_server_has_the_same_port_and_no_session(tmp_path: Path) -> None:
    async with McpServer(Script(versions=[HANDSHAKE])) as server:
        port = server.port
        async with client_of(server, "http"):
            assert len(server.sessions) == 1
        await server.go_down()
        await server.come_up()
        assert (server.port, server.sessions) == (port, {})


# -- processes


async def test_noise_on_stdout_and_stderr_does_not_stop_a_client(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.process = ProcessFaults(
        stdout_at_start=["Listening ..."],
        stderr_at_start=["warming up"],
        stdout_per_request="log: request",
        stderr_per_request="noise",
    )
    async with running("stdio-2026", tmp_path, script) as server, client_of(server, "stdio") as client:
        assert first_text(await client.call_tool("echo", {"text": "a"})) == "a"


async def test_a_process_may_exit_at_start(tmp_path: Path) -> None:
    script = Script(process=ProcessFaults(exit_at_start=3, stderr_at_start=["no licence"]))
    async with StdioServer(tmp_path, script) as server:
        process = await asyncio.create_subprocess_exec(
            server.files.command,
            *server.files.args,
            env=os.environ | server.files.env,
            stderr=asyncio.subprocess.PIPE,
        )
        _, stderr = await process.communicate()
        assert (process.returncode, stderr) == (3, b"no licence\n")


async def test_a_stubborn_process_outlives_sigterm_and_its_pipe(tmp_path: Path) -> None:
    faults = ProcessFaults(
        ignore_sigterm=True, ignore_stdin_end=True, grandchildren=2, grandchildren_ignore_sigterm=True
    )
    async with StdioServer(tmp_path, Script(process=faults)) as server:
        process = await asyncio.create_subprocess_exec(
            server.files.command,
            *server.files.args,
            env=os.environ | server.files.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        await server.wait_for(lambda: len(server.grandchildren) == 2)
        process.terminate()
        await server.wait_for(lambda: server.record.of("signal"))
        process.stdin.close()
        await server.wait_for(lambda: server.record.of("ended"))
        assert process.returncode is None
        assert all(psutil.pid_exists(pid) for pid in server.grandchildren)
        process.kill()
        for pid in server.grandchildren:
            psutil.Process(pid).kill()
        await process.communicate()


async def test_the_log_tells_all_runs_without_a_test_listening(tmp_path: Path) -> None:
    async with StdioServer(tmp_path, mcp_scripts.workshop()) as server:
        for _ in range(2):
            async with client_of(server, "stdio") as client:
                await client.call_tool("create_ticket", {"title": "x"})
        record = server.files.record()
        assert record.performed("create_ticket") == 2
        assert [entry["pid"] for entry in record.of("started")] == server.pids


def test_a_script_survives_json() -> None:
    script = mcp_scripts.workshop()
    script.tools.append(Tool(name="order", asks=[form("Which?", {"size": {"type": "string"}})]))
    script.faults = [Fault(kind=Kind.DIE_AFTER, name="order", times=1)]
    script.process = ProcessFaults(grandchildren=2)
    assert load(dump(script)) == script
