"""The my tool: what the model can learn of its own state, who may change what, and that it lasts."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.config import LlmSection
from bot.interfaces import ModelReply
from bot.messages import ChatType, Role, Usage, new_id
from bot.toolkit.catalogue import ToolCatalogue
from bot.toolkit.loader import ToolLoader
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.engine import MEMBER, OWNER, Rig, again, calls, rig, said, tool_texts
from tests.support.providers import ScriptedProvider


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path, ScriptedProvider(said("x"))) as engine:
        yield engine


async def my(
    engine: Rig, *, sender: str = OWNER, chat: str = "c1", chat_type: ChatType = ChatType.PRIVATE, **arguments: Any
) -> str:
    """Let the model make one call in a turn of its own; return the tool's result."""
    provider = engine.setup.provider
    assert isinstance(provider, ScriptedProvider)
    provider.outcomes[:] = [calls(("my", arguments)), said("ok")]
    await engine.asks("please", sender=sender, chat=chat, chat_type=chat_type, message_id=new_id("m-"))
    return str(tool_texts(provider.requests[-1])[-1])


async def test_everything_is_shown_at_once(engine: Rig) -> None:
    await engine.asks("/remind in 10 minutes stretch", sender=OWNER)
    text = await my(engine)
    for part in ("model:\nDutiful", "steps_per_turn = 40", "usage:\nthis chat today:", "stretch", "notes:\nno notes"):
        assert part in text


async def test_a_member_checks_only_their_chat(engine: Rig) -> None:
    await engine.asks("/remind in 10 minutes secret", sender=OWNER, chat="other")
    assert "secret" not in await my(engine, sender=MEMBER)


async def test_the_tokens_of_today_are_counted(engine: Rig) -> None:
    provider = engine.setup.provider
    assert isinstance(provider, ScriptedProvider)
    provider.outcomes[:] = [ModelReply(text="hello", usage=Usage(input_tokens=1_200, output_tokens=30))]
    await engine.asks("hi", sender=OWNER)
    assert "1,200 tokens in, 30 out" in await my(engine, key="usage")
    assert " 0 tokens in" in await my(engine, key="usage", chat="c2")


async def test_a_note_is_kept_for_the_conversation_across_restarts(engine: Rig, tmp_path: Path) -> None:
    assert (
        await my(engine, action="set", key="note.colour", value="red") == "note.colour is kept for this conversation."
    )
    assert await my(engine, key="note.colour") == "red"
    assert "there is no 'note.colour'" in await my(engine, key="note.colour", chat="c2")
    await engine.crash()
    async with again(engine.setup) as engine2:
        assert await my(engine2, key="notes") == "note.colour = red"
        assert await my(engine2, action="set", key="note.colour") == "note.colour is forgotten."
        assert await my(engine2, key="notes") == "no notes"
        assert await my(engine2, action="set", key="note.n", value=5) == "note.n is kept for this conversation."
        await engine2.asks("/new", sender=OWNER, message_id="m-new")
        assert await my(engine2, key="notes") == "no notes"


async def test_notes_are_bounded(engine: Rig) -> None:
    await my(engine)

    def fill(conn: sqlite3.Connection) -> None:
        (session_id,) = conn.execute("SELECT max(id) FROM sessions").fetchone()
        conn.executemany("INSERT INTO notes VALUES (?, ?, 'x')", [(session_id, f"n{number}") for number in range(50)])

    await engine.store._database.write(fill)
    assert "there are 50 notes already" in await my(engine, action="set", key="note.more", value="x")
    assert "is kept" in await my(engine, action="set", key="note.n3", value="y")
    assert "at most 2000" in await my(engine, action="set", key="note.n3", value="y" * 2_001)


async def test_a_setting_holds_at_once_for_all_and_after_a_restart(engine: Rig) -> None:
    assert await my(engine, action="set", key="steps_per_turn", value=2) == "steps_per_turn is 2 from now on."
    assert engine.runner.parts.settings["steps_per_turn"] == 2
    assert "steps_per_turn = 2 (configured: 40)" in await my(engine, key="limits")
    await engine.crash()
    async with again(engine.setup) as engine2:
        assert engine2.runner.parts.settings["steps_per_turn"] == 2
        provider = engine2.setup.provider
        assert isinstance(provider, ScriptedProvider)
        provider.outcomes[:] = [*(calls(("list_dir", {"max_entries": n})) for n in (1, 2, 3)), said("stopped")]
        await engine2.asks("look around", sender=MEMBER, chat="c9", message_id="m-look")
        assert len(tool_texts(provider.requests[-1])) == 2
        assert await my(engine2, action="set", key="steps_per_turn") == "steps_per_turn is 40 from now on."


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "set", "key": "steps_per_turn", "value": "0"}, "takes a whole number from 1 to 500"),
        ({"action": "set", "key": "steps_per_turn", "value": "many"}, "takes a whole number from 1 to 500"),
        ({"action": "set", "key": "api_key", "value": "x"}, "what can be set: model, steps_per_turn"),
        ({"action": "set", "value": "x"}, "key: missing"),
        ({"action": "set", "key": "note.", "value": "x"}, "what can be set"),
        ({"key": "secrets"}, "there is no 'secrets'"),
        ({"action": "drop"}, "action"),
    ],
)
async def test_bad_arguments_name_the_field(engine: Rig, arguments: dict[str, Any], problem: str) -> None:
    assert problem in await my(engine, **arguments)


@pytest.mark.parametrize(
    ("who", "key", "allowed"),
    [
        ({"sender": MEMBER}, "steps_per_turn", False),
        ({"sender": OWNER, "chat": "g", "chat_type": ChatType.GROUP}, "steps_per_turn", False),
        ({"sender": MEMBER}, "note.a", True),
        ({"sender": MEMBER, "chat": "g", "chat_type": ChatType.GROUP}, "note.a", False),
    ],
)
async def test_who_may_set_what(engine: Rig, who: dict[str, Any], key: str, allowed: bool) -> None:
    text = await my(engine, action="set", key=key, value=7, **who)
    assert ("may not" not in text and "agreement" not in text) == allowed
    assert engine.runner.parts.settings["steps_per_turn"] == 40


async def test_no_secret_is_shown(tmp_path: Path) -> None:
    section = LlmSection(api_key=SecretStr("sk-secret-1"), base_url="http://u:pass-1@127.0.0.1:9/v1")
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(replace(ctx, llm=section))
        text = await desk.call(request_context(role=Role.OWNER), "my")
    assert "model gpt-5-mini" in text
    assert "secret" not in text.replace("secrets", "")
    assert "pass-1" not in text


async def test_why_a_plugin_failed_is_for_the_operator_alone(engine: Rig) -> None:
    loader = ToolLoader(test_classes=[])
    loader.failures["weather"] = "cannot be created: FileNotFoundError: '/srv/keys/weather'"
    engine.room.catalogue = ToolCatalogue(loader, engine.registry)
    text = await my(engine, sender=MEMBER, chat_type=ChatType.GROUP, key="tools")
    assert "weather (plugin): off: it does not load; `dutiful tools` says why" in text
    assert "/srv" not in text
