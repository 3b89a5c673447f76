from __future__ import annotations

from typing import Any

import pytest

from bot.messages import Replay, Risk
from bot.toolkit.base import DEFAULT_TIMEOUT_S, Tool, ToolResult, tool_parameters
from bot.toolkit.schema import IntegerSchema, StringSchema, tool_parameters_schema
from tests.support.tools import MadeTool


@tool_parameters(
    tool_parameters_schema(
        query=StringSchema("what to look for", min_length=2),
        count=IntegerSchema(2, minimum=1, maximum=10),
        required=["query"],
    )
)
class LookupTool(Tool):
    @property
    def name(self) -> str:
        return "lookup"

    @property
    def description(self) -> str:
        return "looks things up"

    async def execute(self, *, query: str, count: int = 3) -> ToolResult:
        return ToolResult(f"{query} x{count}")


class ReadingTool(MadeTool):
    @property
    def read_only(self) -> bool:
        return True


class AloneTool(ReadingTool):
    @property
    def exclusive(self) -> bool:
        return True


def test_a_tool_without_its_four_parts_cannot_be_made() -> None:
    class Half(Tool):
        @property
        def name(self) -> str:
            return "half"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_defaults_are_the_careful_ones() -> None:
    tool = LookupTool()
    assert (tool.read_only, tool.exclusive, tool.concurrency_safe) == (False, False, False)
    assert (tool.risk, tool.replay, tool.repeatable) == (Risk.READ, Replay.ONCE, False)
    assert tool.timeout_s == DEFAULT_TIMEOUT_S == 60.0
    assert (Tool.config_key, Tool._plugin_discoverable, Tool._scopes) == ("", True, {"core"})
    assert (LookupTool.config_cls(), LookupTool.enabled(None)) == (None, True)
    assert isinstance(LookupTool.create(None), LookupTool)


def test_only_what_reads_and_need_not_be_alone_may_run_beside_others() -> None:
    assert ReadingTool().concurrency_safe
    assert not AloneTool().concurrency_safe
    assert not MadeTool().concurrency_safe


def test_the_risk_of_a_call_may_depend_on_its_arguments() -> None:
    class Sender(MadeTool):
        risk = Risk.WRITE

        def risk_for(self, params: dict[str, Any]) -> Risk:
            return Risk.REACH if "chat_id" in params else self.risk

    assert Sender().risk_for({}) is Risk.WRITE
    assert Sender().risk_for({"chat_id": "7"}) is Risk.REACH
    assert LookupTool().risk_for({"query": "x"}) is Risk.READ


def test_the_decorator_gives_each_reader_a_schema_of_his_own() -> None:
    first = LookupTool().parameters
    first["properties"]["query"]["minLength"] = 99
    assert LookupTool().parameters["properties"]["query"] == {
        "type": "string",
        "description": "what to look for",
        "minLength": 2,
    }


def test_the_decorator_keeps_what_the_author_later_changes_out() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}

    @tool_parameters(schema)
    class Made(LookupTool):
        pass

    schema["properties"]["late"] = True
    assert Made().parameters == {"type": "object", "properties": {}}


def test_to_schema_is_openais_function_shape() -> None:
    assert LookupTool().to_schema() == {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "looks things up",
            "parameters": LookupTool().parameters,
        },
    }


@pytest.mark.parametrize("parameters", [{}, True, False])
def test_a_schema_that_providers_refuse_is_sent_as_an_empty_object_schema(parameters: Any) -> None:
    sent = MadeTool(parameters=parameters).to_schema()["function"]["parameters"]
    assert sent == {"type": "object", "properties": {}}


def test_cast_params_mends_and_validate_params_reports() -> None:
    tool = LookupTool()
    assert tool.cast_params({"query": "ab", "count": "4"}) == {"query": "ab", "count": 4}
    assert tool.validate_params({"query": "ab", "count": 4}) == []
    assert tool.validate_params({"query": "a", "count": "4"}) == [
        "count should be integer, got string",
        "query must be at least 2 chars, got string",
    ]


def test_cast_params_leaves_its_argument_alone() -> None:
    given = {"query": "ab", "count": "4"}
    LookupTool().cast_params(given)
    assert given == {"query": "ab", "count": "4"}


def test_validate_params_takes_only_objects() -> None:
    assert LookupTool().validate_params(["a"]) == ["parameters must be an object, got list"]  # type: ignore[arg-type]


def test_a_schema_that_does_not_compile_is_reported_by_validate_params_and_casts_nothing() -> None:
    tool = MadeTool(parameters={"type": "strng"})
    assert tool.cast_params({"a": "1"}) == {"a": "1"}
    (message,) = tool.validate_params({})
    assert message.startswith("parameters cannot be checked:")
