from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.toolkit.registry import ToolRegistry
from tests.support.tools import MadeTool, registry_with


def names(definitions: list[dict[str, Any]]) -> list[str]:
    return [definition["function"]["name"] for definition in definitions]


def test_built_ins_come_first_by_name_then_mcp_tools_by_name() -> None:
    registry = registry_with(*map(MadeTool, ["mcp_git_status", "write_file", "mcp_fs_list", "read_file"]))
    expected = ["read_file", "write_file", "mcp_fs_list", "mcp_git_status"]
    assert names(registry.get_definitions()) == expected
    assert registry.tool_names == expected


@given(st.permutations(["b", "a", "mcp_b", "mcp_a", "c"]))
def test_the_order_does_not_depend_on_who_registered_first(order: list[str]) -> None:
    assert names(registry_with(*map(MadeTool, order)).get_definitions()) == ["a", "b", "c", "mcp_a", "mcp_b"]


def test_a_changing_mcp_server_moves_no_built_in() -> None:
    registry = registry_with(MadeTool("z"), MadeTool("a"))
    before = registry.definitions_json()
    registry.register(MadeTool("mcp_aaa"))
    assert registry.definitions_json().startswith(before[:-1])
    registry.unregister("mcp_aaa")
    assert registry.definitions_json() == before


def test_definitions_are_built_once_until_the_tools_change() -> None:
    looks: list[str] = []

    class Watched(MadeTool):
        def to_schema(self) -> dict[str, Any]:
            looks.append(self.name)
            return super().to_schema()

    registry = registry_with(Watched("a"))
    for _ in range(3):
        registry.get_definitions()
    assert registry.definitions_json() is registry.definitions_json()
    assert looks == ["a"]
    registry.register(MadeTool("b"))
    assert names(registry.get_definitions()) == ["a", "b"]
    registry.unregister("a")
    assert names(registry.get_definitions()) == ["b"]


def change_name(held: list[dict[str, Any]]) -> None:
    held[0]["function"]["name"] = "evil"


def change_while_looping(held: list[dict[str, Any]]) -> None:
    for definition in held:
        definition["function"]["parameters"]["properties"]["evil"] = {}


def change_a_popped_one(held: list[dict[str, Any]]) -> None:
    held.pop()["function"].clear()


def change_from_behind(held: list[dict[str, Any]]) -> None:
    next(reversed(held))["function"]["name"] = "evil"


def change_in_a_copy(held: list[dict[str, Any]]) -> None:
    held.copy()[0]["function"]["name"] = "evil"
    (held + held)[0]["function"]["name"] = "evil"
    (held * 2)[0]["function"]["name"] = "evil"
    copy.copy(held)[0]["function"]["name"] = "evil"


def change_while_sorting(held: list[dict[str, Any]]) -> None:
    def rename(definition: dict[str, Any]) -> str:
        definition["function"]["name"] = "evil"
        return ""

    held.sort(key=rename)


@pytest.mark.parametrize(
    "change",
    [
        change_name,
        change_while_looping,
        change_a_popped_one,
        change_from_behind,
        change_in_a_copy,
        change_while_sorting,
        list.clear,
        lambda held: held.append({}),
        lambda held: held.__delitem__(0),
    ],
)
def test_a_caller_cannot_corrupt_the_cache(change: Callable[[list[dict[str, Any]]], None]) -> None:
    registry = registry_with(MadeTool("a"), MadeTool("b"))
    before = copy.deepcopy(registry.get_definitions())
    view_before = registry.subset(["a"]).definitions_json()
    held_by_another = registry.get_definitions()
    change(registry.get_definitions())
    assert registry.get_definitions() == before
    assert held_by_another == before
    assert registry.definitions_json() == orjson.dumps(before)
    assert registry.subset(["a"]).definitions_json() == view_before


def test_a_holder_keeps_his_own_changes() -> None:
    held = registry_with(MadeTool("a")).get_definitions()
    held[0]["function"]["name"] = "mine"
    assert names(held) == ["mine"]


def test_encoders_read_the_same_as_callers() -> None:
    registry = registry_with(MadeTool("a", {"type": "object", "properties": {"ä": {"type": "string"}}}))
    expected = [registry.get("a").to_schema()]  # type: ignore[union-attr]
    assert orjson.loads(registry.definitions_json()) == expected
    assert orjson.loads(orjson.dumps(registry.get_definitions())) == expected
    assert json.loads(json.dumps(registry.get_definitions())) == expected
    assert registry.get_definitions() == expected


def test_a_schema_that_changes_after_registration_changes_no_definition() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    registry = registry_with(MadeTool("a", schema))
    schema["properties"]["late"] = {}
    assert registry.get_definitions()[0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_an_empty_registry_has_no_definitions() -> None:
    assert ToolRegistry().get_definitions() == []
    assert ToolRegistry().definitions_json() == b"[]"


def test_a_subset_has_only_its_tools_and_follows_the_registry() -> None:
    registry = registry_with(*map(MadeTool, ["a", "b", "mcp_x"]))
    view = registry.subset(["mcp_x", "a", "late"])
    assert names(view.get_definitions()) == view.tool_names == ["a", "mcp_x"]
    assert orjson.loads(view.definitions_json()) == view.get_definitions()
    assert (len(view), "a" in view, "b" in view, view.has("b")) == (2, True, False, False)
    assert view.get("b") is None
    assert view.get("a") is registry.get("a")
    registry.register(MadeTool("late"))
    registry.unregister("a")
    assert view.tool_names == ["late", "mcp_x"]
    assert "a" not in view


def test_the_same_names_give_the_same_subset() -> None:
    registry = registry_with(*map(MadeTool, ["a", "b"]))
    assert registry.subset(["a", "b"]) is registry.subset(("b", "a"))
    assert registry.subset(["a"]) is not registry.subset(["b"])


def test_the_number_of_remembered_subsets_is_bounded() -> None:
    registry = registry_with(MadeTool("a"))
    for number in range(1_000):
        registry.subset(["a", f"n{number}"])
    assert len(registry._subsets) <= 64
