"""How the scripted MCP server misbehaves, seen by the real SDK client, and how its process does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import aiohttp
import pytest
from mcp import MCPError

from tests.platforms import mcp_scripts
from tests.platforms.mcp_script import (
    CONNECT,
    HANDSHAKE,
    Fault,
    Kind,
    ProcessFaults,
    Script,
)
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer
from tests.platforms.mcp_ways import WAYS, client_of, first_text, running


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each transport and generation."""
    return str(request.param)


@pytest.mark.parametrize(("kind", "tickets"), [(Kind.DIE_BEFORE, 0), (Kind.DIE_AFTER, 1)])
async def test_a_server_that_dies_at_a_call_has_done_it_or_not_and_comes_back(
    kind: Kind, tickets: int, way: str, tmp_path: Path
) -> None:
    """Case C075: the client gets an error whether the ticket exists or not."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=kind, name="create_ticket", times=1)]
    async with running(way, tmp_path, script) as server:
        with pytest.raises((MCPError, ExceptionGroup, TimeoutError)):
            async with client_of(server, way) as client:
                await client.call_tool("create_ticket", {"title": "leak"}, read_timeout_seconds=1)
        assert await server.wait_for(lambda: server.record.calls("create_ticket"))
        if isinstance(server, McpServer):
            await server.wait_for(lambda: server.crashed)
            await server.come_up()
        assert server.record.performed("create_ticket") == tickets
        async with client_of(server, way) as client:
            answer = first_text(await client.call_tool("create_ticket", {"title": "x"}))
            assert answer == f"Ticket {tickets + 1} is open."


@pytest.mark.parametrize("kind", [Kind.HANG, Kind.ERROR, Kind.GARBAGE, Kind.INVALID_JSON, Kind.NOT_A_RESULT])
async def test_a_struck_call_fails_and_the_next_one_works(kind: Kind, way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=kind, name="echo", times=1, text="broken")]
    async with running(way, tmp_path, script) as server:
        with pytest.raises((MCPError, ExceptionGroup, ValueError)):
            async with client_of(server, way) as client:
                await client.call_tool("echo", {"text": "a"}, read_timeout_seconds=0.5)
        assert server.record.of("matched")
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
            async with client_of(server, http_way) as client:
                await client.call_tool("echo", {"text": "a"}, read_timeout_seconds=0.5)
        assert server.record.of("matched")
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


@pytest.mark.parametrize("loss", ["fault", "restart"])
async def test_a_session_that_is_gone_stays_gone(loss: str) -> None:
    """Case C074: 404 for the old session, on the same port."""
    headers = {"Accept": "application/json, text/event-stream"}
    async with McpServer(Script(versions=[HANDSHAKE])) as server, aiohttp.ClientSession(headers=headers) as http:

        async def post(method: str, **session: str) -> aiohttp.ClientResponse:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
            async with http.post(server.url, json=message, headers=session) as answer:
                return answer

        session = {"Mcp-Session-Id": (await post("initialize")).headers["Mcp-Session-Id"]}
        assert (await post("tools/list", **session)).status == 200
        if loss == "fault":
            server.script.faults.append(Fault(kind=Kind.SESSION_GONE, method="ping", times=1))
            assert (await post("ping", **session)).status == 404
        else:
            await server.go_down()
            await server.come_up()
        assert (await post("tools/list", **session)).status == 404
        assert (await post("initialize")).status == 200


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
        assert server.alive() == [*server.pids, *server.grandchildren]
    assert not server.alive()
    await process.communicate()


async def test_the_log_tells_all_runs_without_a_test_listening(tmp_path: Path) -> None:
    async with StdioServer(tmp_path, mcp_scripts.workshop()) as server:
        for _ in range(2):
            async with client_of(server, "stdio") as client:
                await client.call_tool("create_ticket", {"title": "x"})
        record = server.files.record()
        assert record.performed("create_ticket") == 2
        assert [entry["pid"] for entry in record.of("started")] == server.pids
