"""The commands /mcp and /answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config import McpSection
from bot.messages import ChatType
from bot.toolkit.mcp.server_calls import ServerState
from tests.platforms.mcp_script import form
from tests.support.engine import MEMBER, OTHER, OWNER, AnsweringProvider, last_user, rig, said
from tests.support.mcp_desk import Clerk, answers_of, asking, data_of, desk, name_of, question

SURE = form("Book the flight?", {"sure": {"type": "boolean", "title": "Sure"}}, ["sure"])
ECHO = AnsweringProvider(lambda request: said(f"re: {last_user(request)}"))


async def test_owners_see_why_a_server_is_away_and_others_only_that_it_is(tmp_path: Path) -> None:
    servers = {
        "gone": McpSection.model_validate({"command": str(tmp_path / "secret-place" / "nothing")}),
        "off": McpSection.model_validate({"command": "true", "enabled": False}),
    }
    async with rig(tmp_path, ECHO, servers=servers) as engine:
        while engine.room.mcp.statuses()[0].state is not ServerState.OFFLINE:
            await engine.idle()
        shown = await engine.asks("/mcp", sender=MEMBER)
        assert shown.startswith("MCP servers:\n- gone: not reachable")
        assert "- off: switched off" in shown
        assert "secret-place" not in shown
        assert "secret-place" in await engine.asks("/mcp", sender=OWNER)
        group = await engine.asks("/mcp", sender=OWNER, chat="g", chat_type=ChatType.GROUP)
        assert "secret-place" not in group


async def test_without_servers_there_is_nothing_to_show_or_answer(tmp_path: Path) -> None:
    async with rig(tmp_path, ECHO) as engine:
        assert await engine.asks("/mcp") == "No MCP servers are configured."
        assert (await engine.asks("/answer")).startswith("Write /answer")
        assert "no such open question" in await engine.asks("/answer yes")
        assert "no such open question" in await engine.asks("/answer ask-abcdef yes")


@pytest.mark.parametrize("sender", [MEMBER, OTHER])
async def test_an_answer_without_an_id_is_for_the_one_question_a_person_has(sender: str, tmp_path: Path) -> None:
    clerk = Clerk()
    async with desk(tmp_path, clerk, asking(SURE, only_reads=True)) as (engine, _):
        await engine.says("call book", chat_type=ChatType.GROUP, sender=MEMBER)
        await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        told = await engine.asks("/answer yes", chat_type=ChatType.GROUP, sender=sender)
        assert ("went to the server" in told) == (sender == MEMBER)


async def test_an_answer_without_an_id_is_for_none_of_two_questions_and_both_are_named(tmp_path: Path) -> None:
    clerk = Clerk()
    city = form("Where to?", {"city": {"type": "string", "title": "City"}}, ["city"])
    async with desk(tmp_path, clerk, asking(SURE), asking(city, name="other")) as (engine, server):
        await engine.says("call book")
        first = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        await engine.says("call other")
        second = await question(engine, 2)
        await engine.until(lambda: engine.channel.texts("c1").count("It waits for you.") == 2)
        told = await engine.asks("/answer yes")
        assert "Several questions are open" in told
        assert f"- {name_of(first)} · " in told
        assert f"- {name_of(second)} · " in told
        assert not answers_of(server)
        assert "went to the server" in await engine.asks(f"/answer {name_of(second)} Oslo")
        await engine.until(lambda: any(text.startswith("told: ") for text in engine.channel.texts("c1")))
        assert "went to the server" in await engine.asks("/answer yes")  # only one is left


async def test_a_second_answer_is_told_that_there_was_one(tmp_path: Path) -> None:
    clerk = Clerk()
    async with desk(tmp_path, clerk, asking(SURE)) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        await engine.says(data_of(asked, "Yes"))
        await engine.says(data_of(asked, "No"))
        await engine.until(lambda: "That question has been answered already." in engine.channel.texts("c1"))
        await engine.until(lambda: clerk.outcomes)
        assert '"sure": true' in clerk.outcomes[0]
        assert len(server.record.of("performed")) == 1
