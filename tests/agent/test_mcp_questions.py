"""Questions of MCP servers: asked in the chat, answered by the right person, and what comes of the call."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bot.messages import Address, ChatType, InboundMessage, Origin, Quote
from bot.toolkit.context import set_request
from tests.platforms.mcp_script import form, visit
from tests.platforms.mcp_ways import WAYS
from tests.support.contexts import request_context
from tests.support.engine import MEMBER, OTHER, OWNER, again
from tests.support.mcp_desk import Clerk, answers_of, asking, data_of, desk, name_of, question, ready

SURE = form("Book the flight?", {"sure": {"type": "boolean", "title": "Sure"}}, ["sure"])
CITY = form("Where to?", {"city": {"type": "string", "title": "City", "minLength": 3}}, ["city"])
QUICK_S = 0.05


@pytest.fixture
def clerk() -> Clerk:
    return Clerk()


async def outcome(clerk: Clerk, engine: object, count: int = 1) -> str:
    """Wait until the model was told of so many calls that had waited, and return the last."""
    await engine.until(lambda: len(clerk.outcomes) >= count)  # type: ignore[attr-defined]
    return clerk.outcomes[count - 1]


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_ends_the_turn_and_its_answer_brings_the_result(
    way: str, tmp_path: Path, clerk: Clerk
) -> None:
    """Case C079 and its kin: over every transport and generation."""
    async with desk(tmp_path, clerk, asking(SURE), way=way) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        assert "server “desk” asks (tool book)" in asked.text
        assert "> Book the flight?" in asked.text
        await engine.says(data_of(asked, "Yes"))
        told = await outcome(clerk, engine)
        assert "ended: done" in told
        assert answers_of(server) == [{"action": "accept", "content": {"sure": True}}]
        assert len(server.record.of("performed")) == 1
        await engine.until(lambda: any(text.startswith("told: ") for text in engine.channel.texts("c1")))
        assert "The answer went to the server." in engine.channel.texts("c1")


async def test_other_turns_of_the_chat_go_on_while_a_question_waits(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE)) as (engine, _):
        await engine.says("call book")
        await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        assert await engine.asks("hello") == "re: hello"
        assert await engine.asks("hello", chat="c2", sender=OTHER) == "re: hello"


async def test_fields_are_asked_one_after_the_other_and_defaults_filled_in(tmp_path: Path, clerk: Clerk) -> None:
    trip = form(
        "Trip",
        {
            "city": {"type": "string"},
            "seat": {"type": "string", "enum": ["aisle", "window"], "enumNames": ["Aisle", "Window"]},
            "bags": {"type": "integer", "minimum": 0, "maximum": 3, "default": 1},
            "note": {"type": "string"},
        },
        ["city", "seat"],
    )
    async with desk(tmp_path, clerk, asking(trip)) as (engine, server):
        await engine.says("call book")
        await engine.says(f"/answer {name_of(await question(engine))} Oslo")
        await engine.says(data_of(await question(engine, 2), "Window"))
        bags = await question(engine, 3)
        assert "Default: 1" in bags.text
        await engine.says(data_of(bags, "Use default"))
        await engine.says(f"/answer {name_of(await question(engine, 4))} -")
        await outcome(clerk, engine)
        content = {"city": "Oslo", "seat": "window", "bags": 1}
        assert answers_of(server) == [{"action": "accept", "content": content}]


async def test_a_reply_that_quotes_the_question_answers_it(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(CITY)) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.says("Oslo", quote=Quote(message_id="1", author="bot", text=asked.text))
        await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "accept", "content": {"city": "Oslo"}}]


async def test_a_quote_of_somebody_else_is_no_answer(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(CITY)) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.says("Oslo", quote=Quote(message_id="1", author="other", text=asked.text))
        await engine.until(lambda: any(text.startswith("re: ") for text in engine.channel.texts("c1")))
        assert not answers_of(server)


async def test_an_answer_that_does_not_fit_is_explained_and_may_be_given_again(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(CITY)) as (engine, server):
        await engine.says("call book")
        name = name_of(await question(engine))
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        assert "does not fit" in await engine.asks(f"/answer {name} X")
        assert "went to the server" in await engine.asks(f"/answer {name} Oslo")
        await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "accept", "content": {"city": "Oslo"}}]


async def test_only_the_person_whose_turn_it_was_or_an_owner_may_answer(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(CITY, only_reads=True)) as (engine, server):
        await engine.says("call book", chat_type=ChatType.GROUP, sender=MEMBER)
        name = name_of(await question(engine))
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        refusal = await engine.asks(f"/answer {name} Rome", chat_type=ChatType.GROUP, sender=OTHER)
        assert refusal.startswith("Only the person who was asked")
        elsewhere = await engine.asks(f"/answer {name} Rome", chat="c2", sender=MEMBER)
        assert elsewhere.startswith("Only the person who was asked")
        assert not answers_of(server)
        await engine.says(f"/answer {name} Oslo", chat_type=ChatType.GROUP, sender=OWNER)
        await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "accept", "content": {"city": "Oslo"}}]


async def test_the_outcome_comes_back_with_the_rights_of_whose_turn_it_was(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(CITY, only_reads=True)) as (engine, _):
        came: list[InboundMessage] = []
        publish = engine.bus.publish_inbound

        async def watched(message: InboundMessage) -> object:
            came.append(message)
            return await publish(message)

        await engine.room.asks.calls.start(watched)
        await engine.says("call book", chat_type=ChatType.GROUP, thread="t1", sender=MEMBER, reply_to="in1")
        name = name_of(await question(engine))
        await engine.says(f"/answer {name} Oslo", chat_type=ChatType.GROUP, thread="t1", sender=OWNER)
        await outcome(clerk, engine)
        (message,) = came
        address = Address(channel="memory", chat_id="c1", thread_id="t1")
        assert (message.address, message.sender_id, message.origin) == (address, MEMBER, Origin.APPROVAL)
        assert (message.chat_type, message.reply_to) == (ChatType.GROUP, "in1")


async def test_declining_is_told_to_the_server_and_the_model(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE)) as (engine, server):
        await engine.says("call book")
        await engine.says(data_of(await question(engine), "Decline"))
        assert "The person declined" in await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "decline"}]


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_that_runs_out_cancels_and_a_late_answer_is_told_so(
    way: str, tmp_path: Path, clerk: Clerk
) -> None:
    async with desk(tmp_path, clerk, asking(SURE), way=way, keys={"answer_timeout_s": QUICK_S}) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        assert "ran out without an answer" in await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "cancel"}]
        await engine.until(lambda: any(text.startswith("told: ") for text in engine.channel.texts("c1")))
        assert "had run out" in await engine.asks(data_of(asked, "Yes"))


async def test_a_person_takes_longer_than_a_call_may(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE), keys={"timeout_s": 0.2}) as (engine, _):
        await engine.says("call book")
        asked = await question(engine)
        await asyncio.sleep(0.4)  # the call's limit passes: there is no event for what must not happen
        await engine.says(data_of(asked, "Yes"))
        assert "ended: done" in await outcome(clerk, engine)


@pytest.mark.parametrize("way", ["http-2026", "stdio-2025"])
async def test_stop_ends_the_call_and_its_question(way: str, tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE), way=way) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        assert "stopped: 1" in await engine.asks("/stop")
        assert "ended by /stop" in await engine.asks(data_of(asked, "Yes"))
        assert not clerk.outcomes
        assert not server.record.of("performed")
        assert not list((tmp_path / "bot" / "mcp" / "waiting").iterdir())


async def test_a_second_question_of_the_same_call_follows_the_first(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE, CITY)) as (engine, server):
        await engine.says("call book")
        await engine.says(data_of(await question(engine), "Yes"))
        await engine.says(f"/answer {name_of(await question(engine, 2))} Oslo")
        await outcome(clerk, engine)
        assert [answer["content"] for answer in answers_of(server)][-1] == {"city": "Oslo"}
        assert len(clerk.results) == 1


@pytest.mark.parametrize("way", ["stdio-2025", "http-2025"])
async def test_a_server_that_dies_meanwhile_leaves_an_unknown_outcome(way: str, tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE), way=way) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        await (server.exit() if way.startswith("stdio") else server.go_down())  # type: ignore[union-attr]
        told = await outcome(clerk, engine)
        assert "ended: failed" in told
        assert "outcome is unknown" in told
        await engine.until(lambda: any(text.startswith("told: ") for text in engine.channel.texts("c1")))
        assert "given that question up" in await engine.asks(data_of(asked, "Yes"))
        assert await engine.asks("hello") == "re: hello"


async def test_a_restart_reports_the_outcome_as_unknown_once(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE)) as (engine, _):
        await engine.says("call book")
        asked = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        await engine.idle()
        await engine.crash()
        async with again(engine.setup) as second:
            told = await outcome(clerk, second)
            assert "ended: unknown" in told
            await second.until(lambda: any(text.startswith("told: ") for text in second.channel.texts("c1")))
            assert "no such open question" in await second.asks(data_of(asked, "Yes"), message_id="late")
            await ready(second)
            await second.idle()
            await second.crash()
            async with again(second.setup) as third:
                assert await third.asks("hello", message_id="later") == "re: hello"
                assert len(clerk.outcomes) == 1


async def test_a_call_that_asked_is_not_made_again_when_its_server_is_lost(tmp_path: Path, clerk: Clerk) -> None:
    """Though it only reads: the person would be asked twice."""
    async with desk(tmp_path, clerk, asking(SURE, only_reads=True), way="stdio-2025") as (engine, server):
        await engine.says("call book")
        await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        await server.exit()  # type: ignore[union-attr]
        assert "ended: failed" in await outcome(clerk, engine)
        await ready(engine)
        assert len(server.record.received("tools/call")) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_subagent_or_job_has_nobody_to_ask(way: str, tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(SURE), way=way) as (engine, server):
        set_request(request_context(scope="subagent"))
        result = await engine.registry.execute("mcp_desk_book", {})
        assert "background work has nobody to ask" in result
        assert answers_of(server) == [{"action": "decline"}]
        assert not engine.channel.arrived


async def test_a_page_is_shown_with_its_host_and_nothing_is_opened(tmp_path: Path, clerk: Clerk) -> None:
    pay = visit("Pay here.", "https://pay.example.org/x?id=1")
    async with desk(tmp_path, clerk, asking(pay)) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        assert "visit a page of pay.example.org:\nhttps://pay.example.org/x?id=1\n" in asked.text
        await engine.says(data_of(asked, "Done"))
        await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "accept"}]


@pytest.mark.parametrize(("label", "outcome_is"), [("Done", "done"), ("Decline", "failed")])
async def test_a_call_that_is_refused_until_a_page_was_visited_is_made_again(
    label: str, outcome_is: str, tmp_path: Path, clerk: Clerk
) -> None:
    """The protocol's error -32042, of the generation of 2025."""
    tool = asking(visit("Pay here.", "https://pay.example.org/", as_error=True))
    async with desk(tmp_path, clerk, tool, way="http-2025") as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        assert "https://pay.example.org/" in asked.text
        tool.asks.clear()  # the page was visited
        await engine.says(data_of(asked, label))
        assert f"ended: {outcome_is}" in await outcome(clerk, engine)
        assert server.record.performed("book") == (label == "Done")


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "https://bank.example@evil.example/", "https:///x"]
)
async def test_a_page_that_hides_where_it_leads_is_not_shown(url: str, tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(visit("Look.", url))) as (engine, server):
        assert "cannot be asked in a chat" in await engine.asks("call book")
        assert answers_of(server) == [{"action": "decline"}]


async def test_a_no_in_words_never_counts_as_consent(tmp_path: Path, clerk: Clerk) -> None:
    async with desk(tmp_path, clerk, asking(form("Delete all?", {}))) as (engine, server):
        await engine.says("call book")
        asked = await question(engine)
        await engine.until(lambda: "It waits for you." in engine.channel.texts("c1"))
        assert "neither yes nor no" in await engine.asks(f"/answer {name_of(asked)} what is that?")
        await engine.says(f"/answer {name_of(asked)} no")
        await outcome(clerk, engine)
        assert answers_of(server) == [{"action": "decline"}]


async def test_questions_of_two_chats_do_not_meet(tmp_path: Path, clerk: Clerk) -> None:
    """Over pipes the old protocol does not say whose question it is."""
    tools = (asking(CITY), asking(SURE, name="other"))
    async with desk(tmp_path, clerk, *tools, way="stdio-2025") as (engine, server):
        await engine.says("call book", chat="c1")
        first = await question(engine, chat="c1")
        await engine.says("call other", chat="c2", sender=OTHER)
        second = await question(engine, chat="c2")
        assert "Where to?" in first.text
        assert "Book the flight?" in second.text
        await engine.says(data_of(second, "No"), chat="c2", sender=OTHER)
        await engine.says(f"/answer {name_of(first)} Oslo", chat="c1")
        await outcome(clerk, engine, 2)
        assert {json.dumps(answer["content"]) for answer in answers_of(server)} == {
            '{"city": "Oslo"}',
            '{"sure": false}',
        }
