"""Journeys: a service with MCP servers, of which some are well and some are not."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psutil

from tests.platforms import mcp_scripts
from tests.platforms.bot_api import BotApi
from tests.platforms.mcp_script import ProcessFaults, Script
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA = 111


def _process(server: StdioServer, **more: Any) -> dict[str, Any]:
    files = server.files
    return {"command": files.command, "args": files.args, **more}


def _mcp(**servers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    sections = {f"mcp.{name}": values for name, values in servers.items()}
    for name, values in list(sections.items()):
        if "command" in values:
            sections[f"{name}.env"] = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd()))}
    return sections


async def _states(service: Service) -> dict[str, str]:
    return {server["name"]: server["state"] for server in (await service.status())["mcp"]}


async def _until_state(service: Service, **wanted: str) -> None:
    async with asyncio.timeout(40):
        while not wanted.items() <= (await _states(service)).items():
            await asyncio.sleep(0.1)


async def test_sigterm_with_five_servers_ends_in_order_and_leaves_no_process(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """Case C076 with the real process, and servers that do not want to go."""
    scripts = [mcp_scripts.workshop() for _ in range(4)]
    for number, script in enumerate(scripts):
        script.name = f"server{number}"
    scripts[1].process = ProcessFaults(ignore_stdin_end=True, ignore_sigterm=True)
    scripts[2].process = ProcessFaults(grandchildren=1, grandchildren_ignore_sigterm=True)
    async with (
        StdioServer(tmp_path, scripts[0]) as one,
        StdioServer(tmp_path, scripts[1]) as two,
        StdioServer(tmp_path, scripts[2]) as three,
        McpServer(scripts[3]) as four,
        McpServer(mcp_scripts.workshop()) as five,
    ):
        service.configure(
            service.sections,
            _mcp(
                one=_process(one),
                two=_process(two),
                three=_process(three),
                four={"url": four.url, "allow_private": True},
                five={"url": five.sse_url, "transport": "sse", "allow_private": True},
            ),
        )
        await service.start()
        await _until_state(service, one="ready", two="ready", three="ready", four="ready", five="ready")
        children = psutil.Process(service.pid).children(recursive=True)
        assert len(children) >= 4
        assert await service.stop() == 0
        assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert "Traceback" not in service.log_text()
    assert "cancel scope" not in service.log_text()


async def test_a_crash_looping_server_disturbs_no_chat_and_its_absence_is_told(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """Cases C071 and C072."""
    script = Script(name="broken", process=ProcessFaults(exit_at_start=3, stderr_at_start=["bad licence"]))
    async with StdioServer(tmp_path, script) as broken:
        service.configure(
            service.sections,
            {"access": {"owners": [f"telegram:{ADA}"]}},
            _mcp(broken=_process(broken, start_timeout_s=2)),
        )
        model.when("open a ticket", [Reply(text="The ticket server is not available.")])
        await service.start()
        await _until_state(service, broken="offline")
        telegram.user_says(ADA, "open a ticket")
        await telegram.wait_for(lambda: telegram.texts(ADA))
        assert telegram.texts(ADA) == ["The ticket server is not available."]
        assert "broken (the program ended with exit code 3; it said: bad licence)" in str(model.requests[0])
        telegram.user_says(ADA, "/status")
        await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
        assert "bad licence" in telegram.texts(ADA)[1]
        assert service.notified.count("READY=1") == 1
        assert await service.stop() == 0
        assert len(telegram.texts(ADA)) == 2
    assert "Traceback" not in service.log_text()


async def test_a_server_joins_and_leaves_by_reload_and_a_broken_file_changes_nothing(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    async with McpServer(mcp_scripts.workshop()) as shop:
        plain = dict(service.sections)
        await service.start()
        assert await _states(service) == {}
        service.configure(plain, _mcp(shop={"url": shop.url, "allow_private": True}), {"limits": {"steps_per_turn": 7}})
        done = await service.cli("reload")
        assert (done.code, done.out) == (0, "mcp shop: added\n[limits] has changed and needs a restart\n")
        await _until_state(service, shop="ready")
        good = service.config.read_text()
        service.config.write_text(good.replace("allow_private = true", 'allow_private = "perhaps"'))
        done = await service.cli("reload")
        assert done.code != 0
        assert "allow_private" in done.err
        os.kill(service.pid, signal.SIGHUP)
        async with asyncio.timeout(20):
            while "nothing was changed" not in service.log_text():
                await asyncio.sleep(0.05)
        service.config.write_text(good)
        assert await _states(service) == {"shop": "ready"}
        assert len(shop.record.received("tools/list")) == 1
        service.configure(plain)
        os.kill(service.pid, signal.SIGHUP)
        async with asyncio.timeout(20):
            while await _states(service):
                await asyncio.sleep(0.05)
        assert await service.stop() == 0


async def test_a_change_that_is_made_while_another_is_followed_is_followed_too(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """A server that does not want to go holds the first reload up for some seconds."""
    slow = Script(name="slow", process=ProcessFaults(ignore_stdin_end=True, ignore_sigterm=True))
    async with StdioServer(tmp_path, slow) as one, McpServer(mcp_scripts.workshop()) as two:
        plain = dict(service.sections)
        service.configure(plain, _mcp(slow=_process(one)))
        await service.start()
        await _until_state(service, slow="ready")
        service.configure(plain)
        os.kill(service.pid, signal.SIGHUP)
        await one.wait_for(lambda: one.record.of("ended"))  # its input; it does not care
        service.configure(plain, _mcp(two={"url": two.url, "allow_private": True}))
        os.kill(service.pid, signal.SIGHUP)
        await _until_state(service, two="ready")
        changes = [await service.cli("reload") for _ in range(2)]
        assert [(change.code, change.out) for change in changes] == [(0, "nothing has changed\n")] * 2
        assert await service.stop() == 0
        assert not one.alive()


async def test_a_server_that_starts_after_the_bot_is_found_by_the_call_that_needs_it(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """Case C073; its tools are known from an earlier run."""
    async with McpServer(mcp_scripts.workshop()) as shop:
        service.configure(
            service.sections,
            {"access": {"owners": [f"telegram:{ADA}"]}},
            _mcp(shop={"url": shop.url, "allow_private": True}),
        )
        await service.start()
        await _until_state(service, shop="ready")
        assert await service.stop() == 0
        await shop.go_down()
        await service.start()
        await _until_state(service, shop="offline")
        await shop.come_up()
        model.when(
            "say hello", [Reply(tool_calls=[("mcp_shop_echo", {"text": "hello"})]), Reply(text="It said hello.")]
        )
        telegram.user_says(ADA, "say hello")
        await telegram.wait_for(lambda: telegram.texts(ADA))
        assert shop.record.performed("echo") == 1
        assert await service.stop() == 0
