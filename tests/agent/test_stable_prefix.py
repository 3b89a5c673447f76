"""What is sent to the provider begins with the same bytes, turn after turn: prompt caches live off it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import orjson

from bot.messages import Address
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.conversations import dialogue
from tests.support.engine import OWNER, rig
from tests.support.model_calls import provider_for
from tests.support.stored_rows import session_of, store_rows
from tests.support.tools import MadeTool

TURNS = 20


async def test_a_flapping_tool_server_moves_neither_the_system_prompt_nor_a_built_in(tmp_path: Path) -> None:
    async with OpenAIApi(strict=True) as api, provider_for(api) as provider, rig(tmp_path, provider) as engine:
        built_ins = engine.registry.definitions_json()
        assert built_ins.startswith(b"[{")
        for turn in range(TURNS):
            # The server's tools come, go, and come back changed, while others of it stay away.
            for name in ("mcp_files_read", "mcp_files_write", "mcp_clock_now"):
                engine.registry.unregister(name)
            if turn % 2:
                engine.registry.register(MadeTool("mcp_files_read", {"type": "object", "description": f"v{turn}"}))
            if turn % 3 == 1:
                engine.registry.register(MadeTool("mcp_clock_now"))
            if turn % 5 == 2:
                api.script = [Reply(tool_calls=[("list_dir", {})]), Reply(text="looked")]
            await engine.asks(f"message {turn}", sender=OWNER)
        bodies = api.raw_requests
        assert len(bodies) > TURNS
        system = orjson.dumps(api.requests[0]["messages"][0])
        head = bodies[0][: bodies[0].index(system) + len(system)]
        for body in bodies:
            assert body.startswith(head)
            _, mark, tools = body.partition(b'"tools":')
            assert mark
            assert tools.startswith(built_ins[:-1])  # without the closing bracket: the server's tools follow
        with_server = [body for body in bodies if b"mcp_" in body]
        assert 0 < len(with_server) < len(bodies)


async def test_in_a_long_conversation_each_request_begins_with_the_one_before(tmp_path: Path) -> None:
    async with OpenAIApi(strict=True) as api, provider_for(api) as provider, rig(tmp_path, provider) as engine:
        await engine.asks("hello", sender=OWNER)
        session_id = await session_of(engine.store, Address(channel=engine.channel.name, chat_id="c1"))
        await store_rows(engine.store, session_id, dialogue(800))
        for turn in range(2 * TURNS):
            await engine.asks(f"message {turn}", sender=OWNER)
        of_turns = [request for request in api.requests[1:] if request.get("tools")]  # others ask for a summary
        requests = [orjson.dumps(request["messages"])[:-1] for request in of_turns]
        assert len(requests[0]) > 50_000  # a full tail is replayed
        broken = sum(not later.startswith(one) for one, later in pairwise(requests))
        assert broken <= 2
