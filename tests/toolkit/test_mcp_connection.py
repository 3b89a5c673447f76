"""Connections to scripted MCP servers over every transport and in both generations: calls, losses, returns."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from bot.config import McpSection
from bot.toolkit.mcp.server_calls import McpCallError, ServerState
from tests.platforms import mcp_scripts
from tests.platforms.mcp_script import CONNECT, Fault, Kind, ProcessFaults, Script, Tool
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer
from tests.platforms.mcp_ways import WAYS, Running, running
from tests.support.mcp_links import linked, section_of


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each transport and generation."""
    return str(request.param)


async def _restart(server: Running) -> None:
    """End the server the hard way, and have it back."""
    if isinstance(server, StdioServer):
        for pid in server.pids:
            if psutil.pid_exists(pid):
                os.kill(pid, 9)
        while any(_is_alive(pid) for pid in server.pids):
            await asyncio.sleep(0.01)
    else:
        await server.go_down()
        await server.come_up()


# --- what it brings


async def test_everything_a_server_lists_is_offered_and_can_be_called(way: str, tmp_path: Path) -> None:
    async with (
        running(way, tmp_path, mcp_scripts.workshop()) as server,
        linked(section_of(server, way), tmp_path) as link,
    ):
        result = await link.connection.call_tool("add", {"a": 1, "b": 2}, may_repeat=True)
        welcome = await link.connection.read_resource("memo://welcome")
        greeting = await link.connection.get_prompt("greet", {"who": "Ada"})
        offer = link.offers[0]
    assert result["structuredContent"] == {"sum": 3}
    assert welcome["contents"][0]["text"] == "Welcome."
    assert greeting["messages"][0]["content"]["text"] == "Greet Ada."
    assert (len(offer.tools), len(offer.resources), len(offer.resource_templates), len(offer.prompts)) == (3, 1, 1, 1)
    assert offer.tools[1]["annotations"] == {"readOnlyHint": True}
    assert offer.instructions == "Tickets cannot be deleted."
    assert offer.protocol_version.startswith(way[-4:])
    assert offer.faults == ()


async def test_all_pages_of_a_list_are_read(way: str, tmp_path: Path) -> None:
    async with (
        running(way, tmp_path, mcp_scripts.many_tools(200, page_size=50)) as server,
        linked(section_of(server, way), tmp_path) as link,
    ):
        await link.ready()
        assert link.tools == [f"tool_{number:03}" for number in range(200)]


async def test_a_bad_tool_is_left_out_and_named_and_the_good_one_works(way: str, tmp_path: Path) -> None:
    async with (
        running(way, tmp_path, mcp_scripts.invalid_tools()) as server,
        linked(section_of(server, way), tmp_path) as link,
    ):
        assert await link.echo("still here") == "still here"
        assert link.tools == ["echo"]
        faults = link.offers[0].faults
    assert len(faults) == 3
    assert any("'not_an_object'" in fault for fault in faults)
    assert any("without a name" in fault for fault in faults)
    assert any("'no_schema'" in fault and "inputSchema" in fault for fault in faults)


async def test_a_list_whose_pages_never_end_is_cut(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.endless = ["tools/list"]
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, start_timeout_s=60), tmp_path) as link,
    ):
        await link.until(lambda: link.offers, 60)
        assert "echo" in link.tools
        assert any("the list of tools is cut" in fault for fault in link.offers[0].faults)


async def test_lists_that_were_not_announced_are_not_asked_for(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.offers = ["tools"]
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        await link.ready()
        asked = {entry["method"] for entry in server.record.of("received")}
        assert "tools/list" in asked
        assert asked.isdisjoint({"resources/list", "resources/templates/list", "prompts/list"})


async def test_a_changed_list_is_read_again(way: str, tmp_path: Path) -> None:
    async with (
        running(way, tmp_path, mcp_scripts.workshop()) as server,
        linked(section_of(server, way), tmp_path) as link,
    ):
        await link.ready()
        if way.endswith("2026"):
            await server.wait_for(lambda: server.record.received("subscriptions/listen"))
        if way == "http-2025":
            await server.wait_for(lambda: server.record.received("GET"))
        server.script.tools.append(mcp_scripts.echo_tool("later"))
        await server.apply()
        await server.changed("tools")
        await link.until(lambda: "later" in link.tools)


async def test_progress_of_a_call_reaches_who_made_it(way: str, tmp_path: Path) -> None:
    script = Script(
        tools=[
            Tool(name="long", progress=[{"progress": 1, "total": 2, "message": "half"}, {"progress": 2, "total": 2}])
        ]
    )
    seen: list[tuple[float, float | None, str]] = []
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        await link.connection.call_tool(
            "long", {}, may_repeat=True, on_progress=lambda done, total, words: seen.append((done, total, words))
        )
        await link.until(lambda: len(seen) == 2)
    assert seen[0] == (1.0, 2.0, "half")


# --- what goes wrong


@pytest.mark.parametrize(
    "kind", [Kind.ERROR, Kind.HANG, Kind.GARBAGE, Kind.INVALID_JSON, Kind.NOT_A_RESULT, Kind.HUGE, Kind.DIE_BEFORE]
)
async def test_a_struck_call_says_why_and_the_next_one_works(kind: Kind, way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=kind, name="create_ticket", times=1, text="broken")]
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, timeout_s=2, start_timeout_s=8), tmp_path) as link,
    ):
        await link.ready()
        with pytest.raises(McpCallError) as failed:
            await link.ticket("leak")
        assert "create_ticket" in str(failed.value)
        assert "shop" in str(failed.value)
        if isinstance(server, McpServer) and kind is Kind.DIE_BEFORE:
            await server.wait_for(lambda: server.crashed)
            await server.come_up()
        assert await link.echo("back") == "back"


async def test_a_call_without_an_answer_names_tool_and_limit_and_is_cancelled(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.tools[2].hold = True
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, timeout_s=0.5), tmp_path) as link,
    ):
        await link.ready()
        with pytest.raises(
            McpCallError, match=r"'create_ticket' within 0\.5 s \(timeout_s of \[mcp\.shop\]\)"
        ) as failed:
            await link.ticket("leak")
        assert failed.value.outcome_unknown
        await server.wait_for(lambda: server.record.of("cancelled"))
        assert await link.echo("still here") == "still here"
        assert link.connection.state is ServerState.READY


async def test_a_cancelled_call_ends_at_once_and_is_cancelled_on_the_server(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.tools[2].hold = True
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        await link.ready()
        call = asyncio.create_task(link.ticket("leak"))
        await server.wait_for(lambda: server.record.received("tools/call"))
        call.cancel()
        done, _ = await asyncio.wait({call}, timeout=1)
        assert call in done
        assert call.cancelled()
        await server.wait_for(lambda: server.record.of("cancelled"))


async def test_a_ticket_is_opened_once_though_its_answer_is_lost(way: str, tmp_path: Path) -> None:
    """Case C075: the result says that the outcome is unknown; the server counts one creation."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.DIE_AFTER, name="create_ticket", times=1)]
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, timeout_s=5), tmp_path) as link,
    ):
        await link.ready()
        with pytest.raises(McpCallError, match="outcome is unknown") as failed:
            await link.ticket("leak")
        assert failed.value.outcome_unknown
        if isinstance(server, McpServer):
            await server.wait_for(lambda: server.crashed)
            await server.come_up()
        assert await link.echo("back") == "back"
        assert server.record.performed("create_ticket") == 1


async def test_a_call_that_may_be_repeated_is_made_once_more(way: str, tmp_path: Path) -> None:
    """Case C075: unless it is marked safe."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.DIE_AFTER, name="echo", times=1)]
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, timeout_s=8), tmp_path) as link,
    ):
        await link.ready()
        call = asyncio.create_task(link.echo("twice"))
        if isinstance(server, McpServer):
            await server.wait_for(lambda: server.crashed)
            await server.come_up()
        assert await call == "twice"
        assert server.record.performed("echo") == 2


async def test_calls_go_on_after_the_server_was_restarted_between_two(way: str, tmp_path: Path) -> None:
    """Case C074: the second call reconnects and works, or says why it did not; the third works."""
    async with (
        running(way, tmp_path, mcp_scripts.workshop()) as server,
        linked(section_of(server, way), tmp_path) as link,
    ):
        assert await link.ticket("one") == "Ticket 1 is open."
        await _restart(server)
        second = await asyncio.gather(link.ticket("two"), return_exceptions=True)
        # A pipe whose end was not seen yet may have taken the call with it: then its outcome is unknown.
        is_lost = way.startswith("stdio") and isinstance(second[0], McpCallError) and second[0].outcome_unknown
        assert is_lost or "is open" in str(second[0])
        assert "is open" in await link.ticket("three")
        assert server.record.performed("create_ticket") == (2 if is_lost else 3)


async def test_a_session_that_the_server_forgot_is_opened_again(tmp_path: Path) -> None:
    """Case C074, HTTP 404: the call was not looked at, so it is made on a new session, whatever it does."""
    async with (
        running("http-2025", tmp_path, mcp_scripts.workshop()) as server,
        linked(section_of(server, "http-2025"), tmp_path) as link,
    ):
        assert isinstance(server, McpServer)
        await link.ready()
        server.forget_sessions()
        assert await link.ticket("one") == "Ticket 1 is open."
        assert server.record.performed("create_ticket") == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "Session not found"),  # the specification, and the SDKs for TypeScript and Python of today
        (400, "Bad Request: No valid session ID provided"),  # earlier ones, and many servers
        (400, "Bad Request: Server not initialized"),  # a server on the TypeScript SDK with one transport for all
    ],
)
async def test_a_forgotten_session_is_opened_again_however_that_is_said(
    status: int, words: str, tmp_path: Path
) -> None:
    async with running("http-2025", tmp_path, mcp_scripts.workshop()) as server:
        assert isinstance(server, McpServer)
        server.script.forgotten_status, server.script.forgotten_text = status, words
        async with linked(section_of(server, "http"), tmp_path) as link:
            assert await link.ticket("one") == "Ticket 1 is open."
            server.forget_sessions()
            assert await link.ticket("two") == "Ticket 2 is open."
            assert len(server.record.of("performed")) == 2
            assert len(server.record.received("initialize")) == 2


@pytest.mark.parametrize("status", [200, 401, 403, 409, 410, 422, 500, 503])
async def test_a_forgotten_session_is_noticed_though_it_is_said_as_nobody_would(status: int, tmp_path: Path) -> None:
    """The call that finds it out may have been carried out, so it is not made again; those that follow work."""
    async with running("http-2025", tmp_path, mcp_scripts.workshop()) as server:
        assert isinstance(server, McpServer)
        server.script.forgotten_status, server.script.forgotten_text = status, "Session terminated"
        async with linked(section_of(server, "http"), tmp_path) as link:
            assert await link.ticket("one") == "Ticket 1 is open."
            server.forget_sessions()
            with pytest.raises(McpCallError, match="Session terminated"):
                await link.ticket("two")
            await link.until(lambda: len(server.record.received("initialize")) == 2)
            assert await link.ticket("three") == "Ticket 2 is open."


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_an_error_of_a_call_costs_no_session_that_works(status: int, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.STATUS, name="create_ticket", code=status)]
    async with running("http-2025", tmp_path, script) as server, linked(section_of(server, "http"), tmp_path) as link:
        with pytest.raises(McpCallError, match=f"HTTP {status}"):
            await link.ticket("one")
        if status != 429:
            await link.until(lambda: server.record.received("ping"))
        assert await link.echo("still here") == "still here"
        assert len(server.record.received("initialize")) == 1


async def test_a_bad_request_that_speaks_of_sessions_is_not_made_again(tmp_path: Path) -> None:
    """The session is there: what is refused is the call, which may have had an effect before that."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.STATUS, name="create_ticket", code=400, text="The session_token is not valid.")]
    async with running("http-2025", tmp_path, script) as server, linked(section_of(server, "http"), tmp_path) as link:
        with pytest.raises(McpCallError, match="HTTP 400"):
            await link.ticket("one")
        assert len(server.record.received("tools/call")) == 1
        assert await link.echo("still here") == "still here"
        assert len(server.record.received("initialize")) == 1


@pytest.mark.parametrize("fault", [Fault(kind=Kind.CONTENT_TYPE), Fault(kind=Kind.STATUS, code=202)])
@pytest.mark.parametrize("way", ["http-2025", "http-2026"])
async def test_a_success_without_an_answer_leaves_the_outcome_unknown(way: str, fault: Fault, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [replace(fault, name="create_ticket")]
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        with pytest.raises(McpCallError) as failed:
            await link.ticket("one")
        assert failed.value.outcome_unknown
        assert len(server.record.received("tools/call")) == 1


async def test_a_session_that_is_lost_between_calls_is_noticed_by_its_stream(tmp_path: Path) -> None:
    """The stream for what the server says by itself ends with the server, and is refused when it is opened again."""
    async with running("http-2025", tmp_path, mcp_scripts.workshop()) as server:
        assert isinstance(server, McpServer)
        server.script.forgotten_status, server.script.forgotten_text = 400, "Bad Request: Server not initialized"
        async with linked(section_of(server, "http"), tmp_path) as link:
            await link.ready()
            await server.wait_for(lambda: server.record.received("GET"))
            server.forget_sessions()
            await server.wait_for(lambda: len(server.record.received("initialize")) == 2)


async def test_a_server_that_is_started_later_is_found(tmp_path: Path) -> None:
    """Case C073: no restart is needed; a call finds it on demand, the backoff without one."""
    server = McpServer(mcp_scripts.workshop())
    await server.come_up()
    section = section_of(server, "http", start_timeout_s=5)
    await server.go_down()
    async with linked(section, tmp_path) as link:
        await link.until(lambda: link.connection.problem)
        assert link.connection.state is ServerState.OFFLINE
        with pytest.raises(McpCallError, match=r"is not available: 127\.0\.0\.1 cannot be reached"):
            await link.echo("too early")
        await server.come_up()
        assert await link.echo("now") == "now"
        await server.go_down()
        await link.until(lambda: link.connection.state is ServerState.OFFLINE)
        await server.come_up()
        await link.ready()  # by backoff: nobody calls
    await server.go_down()


@pytest.mark.parametrize("kind", [Kind.HANG, Kind.ERROR, Kind.DIE_BEFORE, Kind.GARBAGE, Kind.NOT_A_RESULT])
async def test_a_server_that_cannot_be_connected_says_why_and_is_tried_again(
    kind: Kind, way: str, tmp_path: Path
) -> None:
    script = mcp_scripts.workshop()
    dies_here = kind is Kind.DIE_BEFORE and not way.startswith("stdio")
    # The loopback server takes the next connection while it still dies of this one: here it is away from the beginning.
    is_away = dies_here and way == "http-2025"
    script.faults = [] if is_away else [Fault(kind=kind, method=CONNECT, times=1 if dies_here else 2, text="not today")]
    async with running(way, tmp_path, script) as server:
        if is_away and isinstance(server, McpServer):
            await server.go_down()
        async with linked(section_of(server, way, start_timeout_s=3), tmp_path) as link:
            if isinstance(server, McpServer) and dies_here:
                if not is_away:
                    await server.wait_for(lambda: server.crashed)
                await link.until(lambda: link.connection.problem)
                await server.come_up()
            await link.until(lambda: link.connection.state is ServerState.READY, 30)
            assert await link.echo("at last") == "at last"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("http_way", ["http-2025", "http-2026", "sse-2025"])
async def test_an_http_error_of_a_call_is_told(status: int, http_way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.STATUS, code=status, times=1, name="create_ticket")]
    async with (
        running(http_way, tmp_path, script) as server,
        linked(section_of(server, http_way, timeout_s=3), tmp_path) as link,
    ):
        await link.ready()
        if status == 404 and http_way != "http-2026":  # what the protocol says of a session that is gone
            assert "is open" in await link.ticket("x")
            return
        with pytest.raises(McpCallError) as failed:
            await link.ticket("x")
        assert str(failed.value)
        assert await link.echo("next") == "next"


# --- processes


async def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with linked(McpSection(command="/nowhere/server"), tmp_path) as link:
        await link.until(lambda: link.connection.problem)
        assert link.connection.problem == "/nowhere/server cannot be started: No such file or directory"


async def test_a_program_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    script = Script(process=ProcessFaults(exit_at_start=3, stderr_at_start=["no licence found"]))
    async with StdioServer(tmp_path, script) as server, linked(section_of(server, "stdio"), tmp_path) as link:
        await link.until(lambda: link.connection.problem)
        assert link.connection.problem == "the program ended with exit code 3; it said: no licence found"


async def test_a_program_that_tells_its_secret_is_quoted_without_it(tmp_path: Path) -> None:
    section = McpSection.model_validate(
        {"command": "sh", "args": ["-c", 'echo "bad key $KEY" >&2; exit 3'], "env": {"KEY": "hush-hush-9"}}
    )
    async with linked(section, tmp_path) as link:
        await link.until(lambda: "exit code 3" in link.connection.problem)
        assert "bad key [redacted]" in link.connection.problem
        with pytest.raises(McpCallError) as failed:
            await link.echo("x")
    assert "hush" not in str(failed.value)


async def test_lines_that_are_no_messages_are_passed_over(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.process = ProcessFaults(stdout_at_start=["starting…", "{broken", "[]", "12"], stdout_per_request="log line")
    async with StdioServer(tmp_path, script) as server, linked(section_of(server, "stdio"), tmp_path) as link:
        assert await link.echo("heard") == "heard"


async def test_a_server_process_sees_no_secret_of_the_bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUTIFUL_TEST_SECRET", "s3cret")
    monkeypatch.setenv("LC_TIME", "de_DE.UTF-8")
    async with (
        StdioServer(tmp_path, mcp_scripts.workshop()) as server,
        linked(section_of(server, "stdio"), tmp_path) as link,
    ):
        await link.ready()
        environment = psutil.Process(server.pids[0]).environ()
    assert "DUTIFUL_TEST_SECRET" not in environment
    assert environment["LC_TIME"] == "de_DE.UTF-8"
    assert environment["PYTHONPATH"] == server.files.env["PYTHONPATH"]


@pytest.mark.parametrize(
    "process",
    [
        ProcessFaults(),
        ProcessFaults(ignore_stdin_end=True),
        ProcessFaults(ignore_stdin_end=True, ignore_sigterm=True),
        ProcessFaults(grandchildren=2),
        ProcessFaults(grandchildren=2, grandchildren_ignore_sigterm=True, ignore_sigterm=True, ignore_stdin_end=True),
    ],
    ids=["polite", "ignores the end of its input", "ignores SIGTERM", "leaves children", "all of it"],
)
async def test_closing_leaves_no_process(process: ProcessFaults, tmp_path: Path) -> None:
    """Case C076."""
    script = mcp_scripts.workshop()
    script.process = process
    async with StdioServer(tmp_path, script) as server:
        async with linked(section_of(server, "stdio"), tmp_path) as link:
            await link.ready()
            await server.wait_for(lambda: len(server.grandchildren) == process.grandchildren)
            begun = asyncio.get_running_loop().time()
            await link.connection.close()
            assert asyncio.get_running_loop().time() - begun < 5
        assert not [pid for pid in (*server.pids, *server.grandchildren) if _is_alive(pid)]


async def test_closing_while_it_connects_leaves_no_process(tmp_path: Path) -> None:
    """Case C076, during connect."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.HANG, method=CONNECT)]
    async with StdioServer(tmp_path, script) as server:
        async with linked(section_of(server, "stdio"), tmp_path) as link:
            await server.wait_for(lambda: server.record.of("received"))
            await link.connection.close()
            assert link.connection.state is ServerState.OFF
        assert not [pid for pid in server.pids if _is_alive(pid)]


async def test_a_connect_that_takes_too_long_leaves_no_process(tmp_path: Path) -> None:
    """Case C076, connect time-out."""
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.HANG, method=CONNECT)]
    async with StdioServer(tmp_path, script) as server:
        async with linked(section_of(server, "stdio", start_timeout_s=1), tmp_path) as link:
            await link.until(lambda: link.connection.problem)
            assert link.connection.problem == "not connected within 1 s (start_timeout_s)"
        assert not [pid for pid in server.pids if _is_alive(pid)]


async def test_the_first_of_two_servers_can_be_closed_before_the_second(tmp_path: Path) -> None:
    """Case C076: connect and close happen in one task for each server, in any order."""
    one, two = mcp_scripts.workshop(), mcp_scripts.workshop()
    one.name = "one"
    async with StdioServer(tmp_path, one) as first, StdioServer(tmp_path, two) as second:
        async with (
            linked(section_of(first, "stdio"), tmp_path) as earlier,
            linked(section_of(second, "stdio"), tmp_path) as later,
        ):
            await earlier.ready()
            await later.ready()
            await earlier.connection.close()
            assert await later.echo("alone") == "alone"
        assert not [pid for pid in (*first.pids, *second.pids) if _is_alive(pid)]


# --- limits


async def test_a_message_of_50_mib_costs_the_session_and_not_the_memory(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.faults = [Fault(kind=Kind.HUGE, name="create_ticket", times=1)]
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, timeout_s=20), tmp_path) as link,
    ):
        await link.ready()
        with pytest.raises(McpCallError) as failed:
            await link.ticket("x")
        assert failed.value.outcome_unknown
        assert await link.echo("back") == "back"


async def test_no_more_calls_run_at_once_than_allowed(way: str, tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.tools[0].hold = True
    async with (
        running(way, tmp_path, script) as server,
        linked(section_of(server, way, max_concurrency=2), tmp_path) as link,
    ):
        await link.ready()
        calls = [asyncio.create_task(link.echo(str(number))) for number in range(5)]

        def begun() -> list[Any]:
            return server.record.received("tools/call")

        await server.wait_for(lambda: len(begun()) == 2)
        await asyncio.sleep(0.1)
        assert len(begun()) == 2
        for already in (2, 4, 5):
            await server.wait_for(partial(_has_begun, server, already))
            await server.release("echo")
        script.tools[0].hold = False
        await server.apply()
        await server.release("echo")
        assert sorted(await asyncio.gather(*calls)) == ["0", "1", "2", "3", "4"]


async def test_waiting_for_a_place_counts_against_the_time_limit(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.tools[2].hold = True
    async with running("http-2026", tmp_path, script) as server:
        section = section_of(server, "http", max_concurrency=1, timeout_s=0.5)
        async with linked(section, tmp_path) as link:
            await link.ready()
            first = asyncio.create_task(link.ticket("x"))
            await server.wait_for(lambda: server.record.received("tools/call"))
            results = await asyncio.gather(first, link.echo("y"), return_exceptions=True)
    assert all(isinstance(result, McpCallError) for result in results)
    assert "max_concurrency" in str(results[1]) or "within 0.5 s" in str(results[1])


def _has_begun(server: Running, count: int) -> bool:
    return len(server.record.received("tools/call")) >= count


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
