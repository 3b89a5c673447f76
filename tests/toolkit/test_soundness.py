from __future__ import annotations

from typing import Any

import pytest

from bot.toolkit.registry import ToolRegistry
from tests.support.tools import MadeTool


def raising(_: Any) -> Any:
    raise RuntimeError("no key")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"description": None}, "its description is of type NoneType, not text"),
        ({"description": {"a": 1}}, "its description is of type dict, not text"),
        ({"risk": "banana"}, "its risk is none of talk, read, net, write, execute, reach, admin"),
        ({"risk": property(raising)}, "RuntimeError: no key"),
        ({"replay": "never"}, "its replay is none of safe, keyed, once"),
        ({"_scopes": None}, "its _scopes is not a set of names"),
        ({"_scopes": ["core", 5]}, "its _scopes is not a set of names"),
        ({"unavailable": None}, "its unavailable is of type NoneType, not text"),
        ({"unavailable": property(raising)}, "RuntimeError: no key"),
        ({"read_only": property(raising)}, "RuntimeError: no key"),
    ],
)
def test_a_tool_whose_properties_cannot_be_used_is_set_aside_with_the_reason(
    members: dict[str, Any], reason: str
) -> None:
    registry = ToolRegistry()
    registry.register(type("BadTool", (MadeTool,), members)("bad"))
    registry.register(MadeTool("good"))
    assert registry.tool_names == ["good"]
    assert reason in registry.set_aside["bad"]
