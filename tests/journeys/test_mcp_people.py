"""Journeys: what MCP servers ask of persons, in a chat and at a terminal."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.platforms import mcp_scripts
from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_objects import Call
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_script import Script, Tool, form
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_stage import StdioServer
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.mcp_login import address_in, browse, browse_elsewhere
from tests.support.service import Service

ADA = 111
CONNECT_S = 30.0
SURE = form("Book the flight?", {"sure": {"type": "boolean", "title": "Sure"}}, ["sure"])
CITY = form("Where to?", {"city": {"type": "string", "title": "City"}}, ["city"])


def desk(*asks: Any) -> Script:
    hints = {"destructiveHint": False}
    return Script(name="desk", tools=[Tool(name="book", asks=list(asks), does="answers", annotations=hints)])


def books(model: OpenAIApi) -> None:
    """Let the model call the tool, and tell on what came of it."""
    model.when("book it", [Reply(tool_calls=[("mcp_desk_book", {})]), Reply(text="It waits for you.")])
    model.when("[The call of book", lambda request: Reply(text=f"Outcome: {outcome_in(request)}"))


def outcome_in(request: dict[str, Any]) -> str:
    found = re.findall(r"ended: (\w+)", json.dumps(request["messages"][-1]))
    return str(found[-1])


def over_stdio(service: Service, server: StdioServer, **keys: Any) -> None:
    """Configure a server that the service starts."""
    files = server.files
    service.configure(
        service.sections,
        {"access": {"owners": [f"telegram:{ADA}"]}, "mcp.desk": {"command": files.command, "args": files.args, **keys}},
        {"mcp.desk.env": files.env},
    )


async def ready(service: Service) -> None:
    """Wait until the running service has its server."""
    async with asyncio.timeout(CONNECT_S):
        while [row["state"] for row in await service.ask("mcp", "list")] != ["ready"]:
            await asyncio.sleep(0.1)


async def question(telegram: BotApi, number: int = 1) -> Call:
    """Return the chat's question of this number."""

    def asked() -> list[Call]:
        return [call for call in telegram.sent if call.text.startswith("ask-")]

    await telegram.wait_for(lambda: len(asked()) >= number)
    return asked()[number - 1]


def press(telegram: BotApi, asked: Call, label: str) -> None:
    """Press the button with this label."""
    assert asked.message_id is not None
    rows = telegram.world.chats[ADA].messages[asked.message_id]["reply_markup"]["inline_keyboard"]
    data = {button["text"]: button["callback_data"] for row in rows for button in row}
    telegram.press(ADA, asked.message_id, data[label])


async def test_a_server_asks_with_buttons_and_by_reply_and_the_person_hears_what_came_of_it(
    telegram: BotApi, model: OpenAIApi, service: Service, tmp_path: Path
) -> None:
    books(model)
    async with StdioServer(tmp_path, desk(SURE, CITY)) as server:
        over_stdio(service, server)
        await service.start()
        await ready(service)
        telegram.user_says(ADA, "book it")
        first = await question(telegram)
        await telegram.wait_for(lambda: "It waits for you." in telegram.texts(ADA))
        press(telegram, first, "Yes")
        second = await question(telegram, 2)
        telegram.user_says(ADA, "Oslo", reply_to=second.message_id)
        await telegram.wait_for(lambda: "Outcome: done" in telegram.texts(ADA))
        (performed,) = server.record.of("performed")
        assert performed["tool"] == "book"
        answers = [entry["params"].get("inputResponses") for entry in server.record.received("tools/call")]
        assert [next(iter(answer.values()))["content"] for answer in answers if answer] == [
            {"sure": True},
            {"city": "Oslo"},
        ]
        telegram.user_says(ADA, "/mcp")
        await telegram.wait_for(lambda: "- desk: ready, 1 tools" in telegram.texts(ADA)[-1])
        assert await service.stop() == 0
        assert "Traceback" not in service.log_text()


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_question_does_not_outlive_the_process_and_that_is_said(
    end: str, telegram: BotApi, model: OpenAIApi, service: Service, tmp_path: Path
) -> None:
    books(model)
    async with StdioServer(tmp_path, desk(SURE)) as server:
        over_stdio(service, server)
        await service.start()
        await ready(service)
        telegram.user_says(ADA, "book it")
        asked = await question(telegram)
        await telegram.wait_for(lambda: "It waits for you." in telegram.texts(ADA))
        await (service.kill() if end == "kill" else service.stop())
        await service.start()
        await telegram.wait_for(lambda: "Outcome: unknown" in telegram.texts(ADA))
        press(telegram, asked, "Yes")
        await telegram.wait_for(lambda: "no such open question" in telegram.texts(ADA)[-1])
        assert telegram.texts(ADA).count("Outcome: unknown") == 1
        assert not server.record.of("performed")


async def test_a_question_runs_out_by_the_clock_and_the_server_can_be_called_again(
    telegram: BotApi, model: OpenAIApi, service: Service, tmp_path: Path
) -> None:
    books(model)
    async with StdioServer(tmp_path, desk(SURE)) as server:
        over_stdio(service, server, answer_timeout_s=2)
        await service.start()
        await ready(service)
        telegram.user_says(ADA, "book it")
        asked = await question(telegram)
        await telegram.wait_for(lambda: "Outcome: done" in telegram.texts(ADA))
        press(telegram, asked, "Yes")
        await telegram.wait_for(lambda: "had run out" in telegram.texts(ADA)[-1])
        answers = [entry["params"].get("inputResponses") for entry in server.record.received("tools/call")]
        assert [next(iter(answer.values())) for answer in answers if answer] == [{"action": "cancel"}]
        assert "ran out without an answer" in json.dumps(model.requests[-1])
        books(model)
        telegram.user_says(ADA, "book it")
        press(telegram, await question(telegram, 2), "Yes")
        await telegram.wait_for(lambda: telegram.texts(ADA).count("Outcome: done") == 2)
        assert len(server.record.of("performed")) == 2
        assert await service.stop() == 0
        assert "Traceback" not in service.log_text()


async def _heard(stream: asyncio.StreamReader, until: Callable[[str], object]) -> str:
    text = ""
    async with asyncio.timeout(CONNECT_S):
        while not until(text):
            line = await stream.readline()
            assert line, f"ended after {text!r}"
            text += line.decode()
    return text


async def test_a_login_at_a_terminal_reaches_the_running_service(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    oauth = McpOAuth()
    async with McpServer(mcp_scripts.workshop(), oauth=oauth) as server:
        section = {"url": server.url, "auth": "oauth", "allow_private": True}
        service.configure(service.sections, {"mcp.desk": section})
        await service.start()
        async with asyncio.timeout(CONNECT_S):
            while [row["state"] for row in await service.ask("mcp", "list")] != ["login"]:
                await asyncio.sleep(0.1)
        refused = await service.cli("mcp", "test", "desk")
        assert refused.code == 1
        assert "dutiful mcp login desk" in refused.err
        pipe = asyncio.subprocess.PIPE
        for pastes in (False, True):
            process = await service._spawn("mcp", "login", "desk", env={}, stdout=pipe, stderr=pipe, stdin=pipe)
            assert process.stdout is not None
            text = await _heard(process.stdout, address_in)
            if pastes:
                out, err = await process.communicate(f"{await browse_elsewhere(address_in(text))}\n".encode())
            else:
                assert (await browse(address_in(text)))[0] == 200
                out, err = await process.communicate()
            assert process.returncode == 0, err.decode()
            assert "tools: echo, add, create_ticket" in out.decode()
            assert not [
                token for token in (*oauth.access_tokens, *oauth.refresh_tokens) if token in text + out.decode()
            ]
        await ready(service)
        tested = await service.cli("mcp", "test", "desk")
        assert tested.code == 0, tested.err
        oauth.revoke_all()
        assert (await service.cli("mcp", "test", "desk")).code == 1
        forgotten = await service.cli("mcp", "logout", "desk")
        assert "is forgotten" in forgotten.out
        assert await service.stop() == 0
        log = service.log_text()
        assert "Traceback" not in log
        assert not [token for token in map(str, oauth.token_requests) if token in log]


async def test_the_commands_about_servers_without_a_service(service: Service, tmp_path: Path) -> None:
    assert (await service.cli("mcp", "list")).out == "no MCP servers are configured\n"
    async with StdioServer(tmp_path, desk()) as server:
        over_stdio(service, server)
        service.configure(service.sections, {"mcp.gone": {"url": "http://127.0.0.1:9/mcp", "allow_private": True}})
        rows = {row["name"]: row for row in await service.ask("mcp", "list")}
        assert (rows["desk"]["state"], rows["desk"]["tools"]) == ("not running", None)
        assert not server.record.of("started")
        tested = await service.cli("mcp", "test", "desk")
        assert (tested.code, tested.err) == (0, "")
        assert "tools: book" in tested.out
        rows = {row["name"]: row for row in await service.ask("mcp", "list")}
        assert rows["desk"]["tools"] == 1  # known from the last time
        gone = await service.cli("mcp", "test", "gone")
        assert gone.code == 1
        assert "gone" in gone.err
        unknown = await service.cli("mcp", "test", "nobody")
        assert unknown.code == 1
        assert "configured are: desk, gone" in unknown.err
