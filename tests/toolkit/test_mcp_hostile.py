"""What a hostile or clumsy server sends: calls are answered, and nobody else is held up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config import McpSection
from bot.toolkit.mcp.floods import MAX_PARTS, cut_parts
from bot.toolkit.mcp.server_calls import McpCallError
from bot.toolkit.mcp.wire_text import whole_letters
from tests.platforms.mcp_script import Script, Tool, text
from tests.platforms.mcp_ways import WAYS, running
from tests.support.mcp_links import linked, said, section_of

# A server of its own: it answers every request, and writes to a call what its first argument says.
_PROGRAM = """
import json, sys
body = sys.argv[1]
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    match message.get("method"):
        case "server/discover":
            answer["error"] = {"code": -32601, "message": "no"}
        case "initialize":
            answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
                                "serverInfo": {"name": "hostile", "version": "1"}}
        case "tools/list":
            answer["result"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            token = message["params"].get("_meta", {}).get("progressToken")
            exec(body)
            continue
        case _:
            answer["result"] = {}
    if "id" in message:
        print(json.dumps(answer), flush=True)
"""
_DONE = 'print(json.dumps(answer | {"result": {"content": [{"type": "text", "text": "done"}]}}), flush=True)'


def hostile(body: str) -> McpSection:
    return McpSection.model_validate({"command": sys.executable, "args": ["-c", _PROGRAM, body]})


@pytest.mark.parametrize("way", WAYS)
async def test_half_a_letter_does_not_cost_the_answer(way: str, tmp_path: Path) -> None:
    """As JavaScript writes a string that was cut in the middle of an emoji."""
    script = Script(
        name="cut", tools=[Tool(name="half\ud83d", content=[text("cut \ud83d and \U0001f600 and \\ud83d")])]
    )
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        await link.ready()
        assert link.tools == ["half\ufffd"]
    script.tools[0].name = "whole"
    async with running(way, tmp_path, script) as server, linked(section_of(server, way), tmp_path) as link:
        answer = await link.connection.call_tool("whole", {}, may_repeat=False)
        assert said(answer) == "cut \ufffd and \U0001f600 and \\ud83d"


@given(st.text(st.characters(codec=None), max_size=20) | st.text("\\ud8\ud83d\ude00\U0001f600", max_size=20))
def test_only_half_letters_are_changed(words: str) -> None:
    found = json.loads(whole_letters(json.dumps(words).encode()))
    assert found == words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    found.encode()


@pytest.mark.parametrize("method", ["progress", "message", "tools/list_changed"])
async def test_a_flood_of_notifications_does_not_reach_the_listeners(method: str, tmp_path: Path) -> None:
    params: dict[str, Any] = {"level": "info", "data": "x"} if method == "message" else {}
    body = f"""
params = {params!r}
for number in range(5_000):
    if {method!r} == "progress":
        params = {{"progressToken": token, "progress": number}}
    print(json.dumps({{"jsonrpc": "2.0", "method": "notifications/{method}", "params": params}}))
{_DONE}
"""
    heard: list[float] = []
    async with linked(hostile(body), tmp_path) as link:
        answer = await link.connection.call_tool(
            "t", {}, may_repeat=False, on_progress=lambda done, _total, _words: heard.append(done)
        )
        assert said(answer) == "done"
        assert len(heard) < 5_000
        assert bool(heard) == (method == "progress")
        if method == "tools/list_changed":  # not one of them is needed to know it
            await link.until(lambda: len(link.offers) > 1)


@pytest.mark.parametrize("method", ["ping", "roots/list", "sampling/createMessage"])
async def test_a_flood_of_requests_is_not_answered_to_the_end(method: str, tmp_path: Path) -> None:
    """What was answered is counted by the server, up to the question that asks for the number."""
    body = f"""
for number in range(3_000):
    params = {{"messages": [], "maxTokens": 1}}
    print(json.dumps({{"jsonrpc": "2.0", "id": 10_000 + number, "method": {method!r}, "params": params}}))
print(json.dumps(answer | {{"result": {{"content": [{{"type": "text", "text": "done"}}]}}}}), flush=True)
answered = 0
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/call":
        break
    answered += message.get("id", 0) >= 10_000
words = [{{"type": "text", "text": str(answered)}}]
print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": {{"content": words}}}}), flush=True)
"""
    async with linked(hostile(body), tmp_path) as link:
        assert said(await link.connection.call_tool("t", {}, may_repeat=False)) == "done"
        assert 0 <= int(said(await link.connection.call_tool("t", {}, may_repeat=False))) < 2_500


async def test_an_answer_of_too_many_parts_is_cut_and_says_so(tmp_path: Path) -> None:
    part = '{"type": "text", "text": "x"}'
    body = f'print(json.dumps(answer | {{"result": {{"content": [{part}] * 50_000}}}}), flush=True)'
    async with linked(hostile(body), tmp_path) as link:
        answer = await link.connection.call_tool("t", {}, may_repeat=False)
    assert len(answer["content"]) == MAX_PARTS
    assert answer["content"][-1]["text"] == "[cut here: the answer has 50,000 parts]"


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("content", {"type": "text", "text": "x"}),
        ("contents", {"uri": "memo://x", "text": "x"}),
        ("contents", {"text": "x"}),
        ("messages", {"role": "user", "content": {"type": "text", "text": "x"}}),
        ("content", None),
    ],
)
def test_every_kind_of_answer_is_cut(key: str, part: Any) -> None:
    fits = {key: [part] * MAX_PARTS, "isError": True}
    assert cut_parts(fits) is fits
    cut = cut_parts({key: [part] * (MAX_PARTS + 1), "isError": True})
    assert len(cut[key]) == MAX_PARTS
    assert "1,001 parts" in json.dumps(cut[key][-1])
    assert cut["isError"] is True


async def test_an_answer_of_too_many_levels_is_told_at_once(tmp_path: Path) -> None:
    body = """
deep = "[" * 400 + "]" * 400
content = '[{"type": "text", "text": "done"}]'
print('{"jsonrpc": "2.0", "id": %d, "result": {"content": %s, "structuredContent": {"a": %s}}}'
      % (message["id"], content, deep), flush=True)
"""
    async with linked(hostile(body), tmp_path) as link:
        with pytest.raises(McpCallError, match="depth"):
            await link.connection.call_tool("t", {}, may_repeat=False)
