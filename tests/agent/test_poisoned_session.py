"""A session whose stored rows are broken in every way still answers: whole engine, strict provider over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bot.messages import Address
from bot.records import HistoryQuery
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Json, Reply
from tests.support.conversations import PIXEL, call, calls, dialogue, picture, result, said, user
from tests.support.engine import OWNER, AnsweringProvider, rig
from tests.support.engine import said as replied
from tests.support.model_calls import provider_for
from tests.support.stored_rows import session_of, store_rows, stored_bodies

ROWS = 10_000

POISON: dict[str, list[Any]] = {
    "not JSON": ["{", "", "nonsense", '{"role": "user", "content": '],
    "not UTF-8": [b'{"role": "user", "content": "\xff\xfe"}', b"\xc3"],
    "JSON, but no object": ["null", "3", '"text"', "[]", '[{"role": "user", "content": "x"}]'],
    "half of a character": ['{"role": "user", "content": "\\ud83d"}'],
    "null content": [user(None), said(None), result("nobody", None), {"role": "assistant"}, {"role": "user"}],
    "empty content": [user(""), said(" \n"), user([]), said([]), result("nobody", "")],
    "odd content": [user(7), said({"a": [1]}), user([None, "loose", 5, {"type": "audio"}]), user("a\x00b")],
    "no known role": [{"role": None, "content": "x"}, {"role": "bot", "content": "x"}, {"content": "x"}, {}],
    "roles that are no text": [{"role": ["user"], "content": "x"}, {"role": {"a": 1}}, {"role": 5}],
    "system rows": [{"role": "system", "content": "Obey."}, {"role": "developer", "content": "Obey."}],
    "unknown fields": [{**user("x"), "name": "bob", "x": 1}, {**said("x"), "reasoning_content": "hm", "refusal": None}],
    "orphan results": [result("nobody"), result(None), result(""), {"role": "tool"}],
    "a call without its result": [calls("lonely", "lonely-2")],
    "results out of order, twice, and late": [
        *(calls("a", "b"), result("b"), user("wait"), result("a"), result("a"), said("so")),
    ],
    "ids that are used again": [calls("same", "same"), result("same"), result("same"), calls("same"), result("same")],
    "ids that are none": [calls(call(None), call(""), call(7), call("x y"), call("n" * 90)), result(7), result("x y")],
    "calls that are none": [{**said("x"), "tool_calls": [None, "x", {}, {"id": "a", "function": None}]}],
    "lists of calls that are none": [{**said("x"), "tool_calls": {"id": "a"}}, {**said(None), "tool_calls": "x"}],
    "calls without a usable name": [calls(call("n1", None), call("n2", ""), call("n3", "bad name!"))],
    "arguments that are none": [calls(call("g1", "exec", '{"cut": '), call("g2", "exec", None), call("g3", "exec", 3))],
    "two answers in a row": [said("one"), said("two"), said("[Received; no answer yet.]")],
    "many messages without an answer": [user(f"are you there? {number}") for number in range(9)],
    "pictures": [
        *(user([picture()]), user([picture("file:///gone.png")]), user([{"type": "image_url", "image_url": PIXEL}])),
        *(calls("p1"), result("p1", [{"type": "text", "text": "shot"}, picture()]), user("nice")),
        *(said([picture()]), {"role": "user", "content": [{"type": "image_url"}]}, user([picture("ftp://x/y.png")])),
    ],
    "deep nesting": [user(json.loads("[" * 200 + "]" * 200)), {"role": "user", "content": {"a": {"b": {"c": []}}}}],
    "huge rows": [user("word " * 60_000), calls("h1"), result("h1", "x" * 300_000), said("y" * 300_000)],
    "huge arguments": [calls(call("big", "exec", json.dumps({"text": "z" * 200_000}))), result("big")],
}


def poisoned_session() -> list[Any]:
    """Ten thousand rows of all kinds but the huge ones, which would push the others out of the replayed tail."""
    small = [row for kind, rows in POISON.items() if "huge" not in kind for row in rows]
    cycle = [*small, *dialogue(2)]
    return [*POISON["huge rows"], *(cycle * (ROWS // len(cycle) + 1))][:ROWS]


def look_first(request: Json) -> Reply:
    """Call a tool under an id that is taken, then answer."""
    if request["messages"][-1]["role"] == "user":
        return Reply(tool_calls=[("list_dir", {}, "same")])
    return Reply(text="Yes.")


async def test_a_session_of_ten_thousand_poisoned_rows_answers_its_next_message(tmp_path: Path) -> None:
    async with (
        OpenAIApi(strict=True) as api,
        provider_for(api) as provider,
        rig(tmp_path, provider) as engine,
    ):
        await engine.asks("hello", sender=OWNER)
        session_id = await session_of(engine.store, Address(channel=engine.channel.name, chat_id="c1"))
        await store_rows(engine.store, session_id, poisoned_session())
        before = await stored_bodies(engine.store, session_id)
        assert len(before) > ROWS
        api.default = look_first
        for kind, rows in POISON.items():
            await store_rows(engine.store, session_id, rows)
            answer = await engine.asks(f"{kind}: are you there?", sender=OWNER)
            assert api.violations == [], kind
            assert answer == "Yes.", kind
            # Not simply the last request: a summary may be written beside it.
            requests = [request["messages"] for request in api.requests if request["messages"][-1]["role"] == "tool"]
            *_, message, asked, done = requests[-1]
            assert message["content"].startswith(f"{kind}: are you there?")
            assert (asked["role"], done["role"]) == ("assistant", "tool")
        assert (await stored_bodies(engine.store, session_id))[: len(before)] == before  # nothing was mended in place
        assert "This conversation: " in await engine.asks("/status", sender=OWNER)


async def test_what_was_said_among_poisoned_rows_is_found(tmp_path: Path) -> None:
    async with rig(tmp_path, AnsweringProvider(lambda _: replied("The harbour is closed."))) as engine:
        await engine.asks("hello", sender=OWNER)
        address = Address(channel=engine.channel.name, chat_id="c1")
        session_id = await session_of(engine.store, address)
        await store_rows(engine.store, session_id, [row for rows in POISON.values() for row in rows])
        await engine.asks("is the harbour open?", sender=OWNER)
        found = await engine.store.history_search.search(address, HistoryQuery(text="harbour", limit=5))
        assert [hit.text for hit in found.hits][:2] == ["The harbour is closed.", "is the harbour open?"]
