"""All servers of one process: what is shown before they answer, changes of the configuration, how they stand."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import psutil
from pydantic import SecretStr

from bot.config import McpSection
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.mcp.manager import McpManager, ServerChanges
from bot.toolkit.mcp.offer_cache import OfferCache
from bot.toolkit.mcp.offers import Offer
from bot.toolkit.mcp.server_calls import ServerState
from bot.toolkit.mcp.shelf import ServerShelf
from bot.toolkit.registry import ToolRegistry
from tests.platforms import mcp_scripts
from tests.platforms.mcp_script import CONNECT, Fault, Kind
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer
from tests.support.mcp_links import section_of

PATIENCE_S = 15.0


@asynccontextmanager
async def managing(folder: Path, servers: Mapping[str, McpSection]) -> AsyncIterator[tuple[McpManager, ToolRegistry]]:
    """Run a manager with a registry of its own."""
    registry = ToolRegistry()
    manager = McpManager(servers, workspace=folder, data_dir=folder)
    manager.shelf = ServerShelf(registry, view_of=ChatFiles(folder).view)
    await manager.start()
    try:
        yield manager, registry
    finally:
        await manager.close()


async def until_ready(manager: McpManager, *names: str) -> None:
    """Wait until servers answer calls."""
    async with asyncio.timeout(PATIENCE_S):
        while any(_state(manager, name) is not ServerState.READY for name in names):
            await asyncio.sleep(0.02)


def _state(manager: McpManager, name: str) -> ServerState:
    return next(item.state for item in manager.statuses() if item.name == name)


async def test_the_tools_of_a_server_are_there_before_it_answers_the_next_time(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    async with McpServer(script) as server:
        sections = {"shop": section_of(server, "http")}
        async with managing(tmp_path, sections) as (manager, registry):
            await until_ready(manager, "shop")
            names = registry.tool_names
            definitions = registry.definitions_json()
        assert "mcp_shop_echo" in names
        kept = tmp_path / "mcp" / "shop.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        script.faults = [Fault(kind=Kind.HANG, method=CONNECT)]
        async with managing(tmp_path, sections) as (manager, registry):
            assert registry.tool_names == names
            assert registry.definitions_json() == definitions
            assert _state(manager, "shop") is ServerState.STARTING
            assert "shop (starting)" in manager.note()


async def test_kept_tools_of_another_server_or_in_a_broken_file_are_not_shown(tmp_path: Path) -> None:
    cache = OfferCache(tmp_path)
    section = McpSection(url="https://a.example/mcp", headers={"X-Key": SecretStr("hush-hush")})
    offer = Offer(tools=({"name": "echo", "inputSchema": {"type": "object"}},), faults=("one",))
    cache.save("a", section, offer)
    assert cache.load("a", section) == offer
    assert cache.load("a", section.model_copy(update={"timeout_s": 5.0})) == offer
    assert cache.load("a", section.model_copy(update={"url": "https://b.example/mcp"})) is None
    assert cache.load("b", section) is None
    text = (tmp_path / "a.json").read_text()
    assert "hush" not in text
    stored = json.loads(text)
    strange = [
        json.dumps({**stored, "offer": {**stored["offer"], key: [1]}})
        for key in ("tools", "resources", "resource_templates", "prompts", "faults")
    ]
    for broken in ("", "{", "[]", *strange, json.dumps({"identity": "x"})):
        (tmp_path / "a.json").write_text(broken)
        assert cache.load("a", section) is None


async def test_a_new_configuration_touches_only_what_changed(tmp_path: Path) -> None:
    stays, goes, comes = (mcp_scripts.workshop() for _ in range(3))
    stays.name, goes.name, comes.name = "stays", "goes", "comes"
    async with (
        StdioServer(tmp_path, stays) as staying,
        StdioServer(tmp_path, goes) as going,
        StdioServer(tmp_path, comes) as coming,
    ):
        before = {"stays": section_of(staying, "stdio"), "goes": section_of(going, "stdio")}
        async with managing(tmp_path, before) as (manager, registry):
            await until_ready(manager, "stays", "goes")
            after = {"stays": before["stays"], "comes": section_of(coming, "stdio", enabled_tools=["echo"])}
            assert await manager.reload(after) == ServerChanges(added=("comes",), removed=("goes",))
            await until_ready(manager, "stays", "comes")
            assert len(staying.pids) == 1
            assert not psutil.pid_exists(going.pids[0])
            assert [name for name in registry.tool_names if "goes" in name] == []
            assert [name for name in registry.tool_names if "comes" in name] == ["mcp_comes_echo"]
            changed = {**after, "comes": section_of(coming, "stdio", enabled=False)}
            assert await manager.reload(changed) == ServerChanges(changed=("comes",))
            assert _state(manager, "comes") is ServerState.OFF
            assert [name for name in registry.tool_names if "comes" in name] == []
            assert await manager.reload(changed) == ServerChanges()
            assert len(staying.pids) == 1


async def test_a_server_that_hangs_delays_no_other(tmp_path: Path) -> None:
    hanging = mcp_scripts.workshop()
    hanging.faults = [Fault(kind=Kind.HANG, method=CONNECT)]
    async with McpServer(hanging) as bad, McpServer(mcp_scripts.workshop()) as good:
        begun = perf_counter()
        sections = {"bad": section_of(bad, "http"), "good": section_of(good, "http")}
        async with managing(tmp_path, sections) as (manager, _):
            assert perf_counter() - begun < 1
            await until_ready(manager, "good")
            assert [item.name for item in manager.away()] == ["bad"]


async def test_what_is_away_is_said_in_one_line(tmp_path: Path) -> None:
    """Case C072."""
    sections = {"tickets": McpSection(command="/nowhere/tickets"), "off": McpSection(command="x", enabled=False)}
    async with managing(tmp_path, sections) as (manager, _):
        async with asyncio.timeout(PATIENCE_S):
            while _state(manager, "tickets") is not ServerState.OFFLINE:
                await asyncio.sleep(0.02)
        note = manager.note()
    assert "tickets (/nowhere/tickets cannot be started: No such file or directory)" in note
    assert "do not make a result up" in note
    assert "off" not in note
    assert "\n" not in note


async def test_nothing_is_imported_or_written_without_a_server(tmp_path: Path) -> None:
    async with managing(tmp_path, {}) as (manager, _):
        assert manager.note() == ""
        assert manager.statuses() == []
    assert list(tmp_path.iterdir()) == []


async def test_a_private_address_is_reached_only_where_that_is_allowed(tmp_path: Path) -> None:
    async with McpServer(mcp_scripts.workshop()) as server:
        sections = {"near": McpSection(url=server.url), "meta": McpSection(url="http://169.254.169.254/mcp")}
        sections["meta"] = sections["meta"].model_copy(update={"allow_private": True})
        async with managing(tmp_path, sections) as (manager, _):
            async with asyncio.timeout(PATIENCE_S):
                while {item.state for item in manager.statuses()} != {ServerState.OFFLINE}:
                    await asyncio.sleep(0.02)
            problems = {item.name: item.problem for item in manager.statuses()}
        assert "a loopback address (127.0.0.0/8); allow_private = true could let it through" in problems["near"]
        assert "metadata service" in problems["meta"]
        assert server.record.of("received") == []


async def test_a_redirect_elsewhere_is_not_followed(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    async with McpServer(mcp_scripts.workshop()) as elsewhere, McpServer(script) as server:
        script.faults = [Fault(kind=Kind.REDIRECT, method="*", text=elsewhere.url)]
        async with managing(tmp_path, {"shop": section_of(server, "http")}) as (manager, _):
            async with asyncio.timeout(PATIENCE_S):
                while _state(manager, "shop") is not ServerState.OFFLINE:
                    await asyncio.sleep(0.02)
            assert "Redirect to" in manager.statuses()[0].problem
        assert elsewhere.record.of("received") == []
