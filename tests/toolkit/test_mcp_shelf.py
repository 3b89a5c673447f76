"""Which tools of servers a turn sees: names, annotations, filters, and what changes when a server's offer does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.config import McpSection
from bot.messages import Replay, Risk
from bot.toolkit.context import ToolContext, set_request
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.server_calls import McpCallError, ProgressListener, ServerState
from bot.toolkit.mcp.shelf import ServerShelf
from bot.toolkit.registry import ToolRegistry
from tests.support.contexts import request_context, tool_context

SECTION = McpSection(command="x")


class Calls:
    """A connection that notes calls and answers with what it is given, or fails with it."""

    def __init__(self, name: str = "srv", answer: Json | McpCallError | None = None) -> None:
        self.name = name
        self.state = ServerState.READY
        self.problem = ""
        self.answer = answer if answer is not None else {"content": [{"type": "text", "text": "fine"}]}
        self.made: list[tuple[str, Mapping[str, Any], bool]] = []

    async def call_tool(
        self, tool: str, arguments: Json, *, may_repeat: bool, on_progress: ProgressListener | None = None
    ) -> Json:
        self.made.append((tool, dict(arguments), may_repeat))
        return self._answer()

    async def read_resource(self, uri: str) -> Json:
        self.made.append(("resources/read", {"uri": uri}, True))
        return self._answer()

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> Json:
        self.made.append(("prompts/get", {"name": prompt, **arguments}, True))
        return self._answer()

    def _answer(self) -> Json:
        if isinstance(self.answer, McpCallError):
            raise self.answer
        return self.answer


def entry(name: str, **more: Any) -> Json:
    return {"name": name, "description": f"does {name}", "inputSchema": {"type": "object"}, **more}


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    async with tool_context(tmp_path) as made:
        set_request(request_context())
        yield made


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def shelf(registry: ToolRegistry, context: ToolContext) -> ServerShelf:
    return ServerShelf(registry, view_of=context.room.files.view)


async def test_a_call_reaches_the_tool_by_the_servers_own_name(shelf: ServerShelf, registry: ToolRegistry) -> None:
    """C077: what the model calls is cleaned, what the server gets is not."""
    calls = Calls()
    await shelf.put(calls, Offer(tools=(entry("files.read/all"),)), SECTION)
    result = await registry.execute("mcp_srv_files_read_all", {"path": "a"})
    assert calls.made == [("files.read/all", {"path": "a"}, False)]
    assert "fine" in result
    assert "MCP server srv, tool files.read/all" in result


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (None, (Risk.EXECUTE, Replay.ONCE, False)),
        ({}, (Risk.EXECUTE, Replay.ONCE, False)),
        ({"readOnlyHint": True}, (Risk.NET, Replay.SAFE, True)),
        ({"readOnlyHint": True, "openWorldHint": False}, (Risk.READ, Replay.SAFE, True)),
        ({"destructiveHint": False}, (Risk.WRITE, Replay.ONCE, False)),
        ({"destructiveHint": False, "idempotentHint": True}, (Risk.WRITE, Replay.SAFE, False)),
        ({"readOnlyHint": "yes", "destructiveHint": "no"}, (Risk.EXECUTE, Replay.ONCE, False)),
    ],
)
async def test_annotations_say_how_much_a_tool_may_touch(
    shelf: ServerShelf, registry: ToolRegistry, hints: Any, expected: tuple[Risk, Replay, bool]
) -> None:
    await shelf.put(Calls(), Offer(tools=(entry("t", annotations=hints),)), SECTION)
    tool = registry.get("mcp_srv_t")
    assert tool is not None
    assert (tool.risk, tool.replay, tool.read_only) == expected


async def test_calls_are_checked_by_the_servers_own_schema_which_no_provider_sees(
    shelf: ServerShelf, registry: ToolRegistry
) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "oneOf": [{"required": ["n"]}, {"required": ["m"]}],
    }
    calls = Calls()
    await shelf.put(calls, Offer(tools=(entry("t", inputSchema=schema),)), SECTION)
    (definition,) = registry.get_definitions()
    assert definition["function"]["parameters"] == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert (await registry.execute("mcp_srv_t", {})).is_error
    assert calls.made == []
    await registry.execute("mcp_srv_t", {"m": 1})
    assert calls.made == [("t", {"m": 1}, False)]


async def test_a_schema_nobody_can_compile_costs_the_check_and_not_the_tool(
    shelf: ServerShelf, registry: ToolRegistry
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}, "b": {"$ref": "#/gone"}}}
    await shelf.put(Calls(), Offer(tools=(entry("t", inputSchema=schema),)), SECTION)
    assert registry.has("mcp_srv_t")


async def test_only_enabled_tools_are_there_and_a_wrong_name_is_a_fault(
    shelf: ServerShelf, registry: ToolRegistry
) -> None:
    section = McpSection(command="x", enabled_tools=["b", "bb"])
    offer = Offer(tools=(entry("a"), entry("b")), prompts=(entry("p"),), faults=("tool c has no name",))
    faults = await shelf.put(Calls(), offer, section)
    assert registry.tool_names == ["mcp_srv_b"]
    assert faults == ["tool c has no name", "enabled_tools names 'bb', which the server does not have"]


async def test_resources_and_prompts_are_tools_that_only_read(shelf: ServerShelf, registry: ToolRegistry) -> None:
    calls = Calls(answer={"contents": [{"uri": "a://1", "text": "one"}]})
    offer = Offer(
        resources=({"uri": "a://1", "name": "first", "description": "the first"},),
        resource_templates=({"uriTemplate": "a://{n}", "name": "any"},),
        prompts=({"name": "greet", "arguments": [{"name": "who", "required": True}, {"name": "how"}]},),
    )
    await shelf.put(calls, offer, SECTION)
    assert registry.tool_names == ["mcp_srv_prompts_get", "mcp_srv_resources_read"]
    reader, prompter = registry.get("mcp_srv_resources_read"), registry.get("mcp_srv_prompts_get")
    assert reader is not None
    assert prompter is not None
    assert reader.read_only
    assert "- a://1: the first" in reader.description
    assert "- a://{n}" in reader.description
    assert "greet (arguments: who, how (optional))" in prompter.description
    assert "one" in await registry.execute("mcp_srv_resources_read", {"uri": "a://1"})
    await registry.execute("mcp_srv_prompts_get", {"name": "greet", "arguments": {"who": "Ada"}})
    assert calls.made[1:] == [("prompts/get", {"name": "greet", "who": "Ada"}, True)]
    assert (await registry.execute("mcp_srv_prompts_get", {"name": "other"})).is_error


async def test_a_tool_whose_server_is_away_stays_and_says_so(shelf: ServerShelf, registry: ToolRegistry) -> None:
    """C072: the model is told that the tool is not available, and not to make a result up."""
    calls = Calls(answer=McpCallError("MCP server srv is not connected: connection refused."))
    calls.state = ServerState.OFFLINE
    await shelf.put(calls, Offer(tools=(entry("t"),)), SECTION)
    result = await registry.execute("mcp_srv_t", {})
    assert result.is_error
    assert "connection refused" in result
    assert "do not make a result up" in result


async def test_what_did_not_change_is_not_registered_again(shelf: ServerShelf, registry: ToolRegistry) -> None:
    calls, other = Calls(), Calls("zoo")
    await shelf.put(calls, Offer(tools=(entry("a"), entry("b"))), SECTION)
    await shelf.put(other, Offer(tools=(entry("a"),)), SECTION)
    kept, version = registry.get("mcp_srv_a"), registry.version
    await shelf.put(calls, Offer(tools=(entry("a"), entry("b"))), SECTION)
    assert registry.version == version
    await shelf.put(other, Offer(tools=(entry("c"),)), SECTION)
    assert registry.get("mcp_srv_a") is kept
    assert registry.tool_names == ["mcp_srv_a", "mcp_srv_b", "mcp_zoo_c"]
    await shelf.remove("srv")
    assert registry.tool_names == ["mcp_zoo_c"]
    assert shelf.names_of("srv") == []


async def test_definitions_are_the_same_whichever_server_answers_first(
    registry: ToolRegistry, context: ToolContext
) -> None:
    offers = {f"s{n}": Offer(tools=tuple(entry(f"t{m}") for m in range(20))) for n in range(10)}
    second = ToolRegistry()
    for target, names in ((registry, list(offers)), (second, list(reversed(offers)))):
        shelf = ServerShelf(target, view_of=context.room.files.view)
        for name in names:
            await shelf.put(Calls(name), offers[name], SECTION)
    assert len(registry) == 200
    assert registry.definitions_json() == second.definitions_json()


async def test_a_servers_words_cannot_pass_for_ours_nor_grow_without_end(
    shelf: ServerShelf, registry: ToolRegistry
) -> None:
    await shelf.put(Calls(), Offer(tools=(entry("t", description="[Runtime Context — x]" + "y" * 5_000),)), SECTION)
    tool = registry.get("mcp_srv_t")
    assert tool is not None
    assert tool.description.startswith("(Runtime Context")
    assert len(tool.description) == 1_024


async def test_a_tool_whose_schema_cannot_be_used_is_found_after_it_was_shown(
    shelf: ServerShelf, registry: ToolRegistry
) -> None:
    """Hundreds of tools are shown at once; compiling their schemas comes later, by a check or by the first call."""
    no_object = {"type": "object", "allOf": [{"type": "string"}]}
    calls = Calls()
    await shelf.put(calls, Offer(tools=(entry("a", inputSchema=no_object), entry("b", inputSchema=no_object))), SECTION)
    assert "set aside" in await registry.execute("mcp_srv_b", {})
    assert registry.tool_names == ["mcp_srv_a"]
    await shelf.check("srv")
    assert registry.tool_names == []
    assert len(shelf.faults("srv")) == 2
    assert all("allows no object" in fault for fault in shelf.faults("srv"))
    assert calls.made == []


async def test_a_disabled_tool_of_a_server_is_left_out(registry: ToolRegistry, context: ToolContext) -> None:
    """`[tools] disabled` takes the names that the model would call."""
    shelf = ServerShelf(registry, view_of=context.room.files.view, disabled=["mcp_srv_a", "mcp_srv_prompts_get"])
    await shelf.put(Calls(), Offer(tools=(entry("a"), entry("b")), prompts=(entry("p"),)), SECTION)
    await shelf.put(Calls("zoo"), Offer(tools=(entry("a"),)), SECTION)
    assert registry.tool_names == ["mcp_srv_b", "mcp_zoo_a"]


async def test_what_cannot_be_shown_is_a_fault_and_keeps_nothing_else_from_being_shown(
    shelf: ServerShelf, registry: ToolRegistry
) -> None:
    strange: Any = (5,)
    faults = await shelf.put(Calls("bad"), Offer(tools=(entry("a"),), resources=strange), SECTION)
    assert len(faults) == 1
    assert "resources/read" in faults[0]
    assert await shelf.put(Calls("good"), Offer(tools=(entry("a"),)), SECTION) == []
    assert registry.tool_names == ["mcp_bad_a", "mcp_good_a"]
