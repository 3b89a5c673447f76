"""What hostile schemas and arguments cannot do: crash the process, hang it, reach the network."""

from __future__ import annotations

import enum
import socket
import threading
from collections import OrderedDict
from typing import Any

import pytest

from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.measure import MAX_DEPTH, MAX_VALUES
from bot.toolkit.schema_index import SchemaError
from tests.support.tools import MadeTool, one, prepare, registry_with

pytestmark = pytest.mark.timeout(30)


def nested(depth: int, leaf: Any = None) -> Any:
    value: Any = {} if leaf is None else leaf
    for _ in range(depth):
        value = {"a": value}
    return value


def set_aside_reason(schema: Any) -> str:
    registry = registry_with(MadeTool("t", schema))
    assert registry.tool_names == []
    return registry.set_aside["t"]


# --- arguments ---


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 50_000])
def test_arguments_nested_too_deeply_are_an_error(depth: int) -> None:
    for schema in ({}, {"additionalProperties": {"$ref": "#"}}, one({"type": "integer"})):
        _, error = prepare(schema, nested(depth))
        assert error is not None
        assert "nested deeper than 100 levels" in error


def test_arguments_as_deep_as_allowed_are_checked() -> None:
    schema = {"type": "object", "additionalProperties": {"$ref": "#"}}
    assert prepare(schema, nested(MAX_DEPTH - 1))[1] is None
    assert prepare(schema, nested(MAX_DEPTH - 1, [1]))[1] is not None


@pytest.mark.parametrize("text", ['{"a":' * 100_000 + "1" + "}" * 100_000, '{"a":' + "[" * 5_000 + "]" * 5_000 + "}"])
def test_json_text_nested_too_deeply_is_an_error(text: str) -> None:
    _, error = prepare({}, text)
    assert error is not None
    assert "nested" in error


def test_arguments_that_contain_themselves_are_an_error() -> None:
    circle: dict[str, Any] = {}
    circle["a"] = circle
    assert prepare({}, circle)[1] is not None


def test_arguments_that_share_parts_many_times_over_are_an_error() -> None:
    value: Any = []
    for _ in range(60):
        value = [value, value]
    _, error = prepare({}, {"a": value})
    assert error is not None
    assert f"more than {MAX_VALUES} values" in error


@pytest.mark.parametrize("number", [10**400, -(10**3_900), 2**64, 1.7976931348623157e308, 5e-324], ids=list("abcde"))
def test_extreme_numbers_are_checked_not_feared(number: Any) -> None:
    assert prepare(one({"type": "number"}), {"x": number}) == ({"x": number}, None)
    assert prepare(one({"type": "string"}), {"x": number})[1] is not None


def test_a_number_too_long_to_be_written_out_is_an_error() -> None:
    for schema in ({}, one({"type": "integer"})):
        _, error = prepare(schema, {"x": [10**5_000]})
        assert error is not None
        assert "x[0] is a number of more than 4000 digits" in error
    assert prepare({}, '{"x": ' + "9" * 5_000 + "}")[1] is not None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have_are_an_error(number: float) -> None:
    for schema in ({}, one({"type": "number"}), one({"type": ["number", "null"]})):
        _, error = prepare(schema, {"x": number})
        assert error is not None
        assert "x is" in error
        assert "not a JSON number" in error


def test_json_text_with_numbers_that_json_does_not_have_is_an_error() -> None:
    for text in ('{"x": NaN}', '{"x": [-Infinity]}', '{"x": 1e999}'):
        assert "not a JSON number" in (prepare({}, text)[1] or "")


@pytest.mark.parametrize("key", [1, None, True, ("a",), b"a"])
def test_keys_that_are_no_strings_are_an_error(key: Any) -> None:
    _, error = prepare({}, {"x": [{key: 1}]})
    assert error is not None
    assert "x[0] has a key that is no string" in error


@pytest.mark.parametrize("given", [{"x": "\ud800"}, {"x": ["a\udfffb"]}, {"\ud800": 1}, '{"x": "\\ud800"}'])
def test_a_lone_surrogate_is_an_error_that_can_be_encoded(given: Any) -> None:
    _, error = prepare({}, given)
    assert error is not None
    assert "lone surrogate" in error
    assert error.encode()


@pytest.mark.parametrize("value", [b"x", {1}, object(), 1j, print, MadeTool()])
def test_values_of_types_unknown_to_json_are_an_error(value: Any) -> None:
    _, error = prepare({}, {"x": [value]})
    assert error is not None
    assert "x[0] is of type" in error


def test_values_of_subclasses_become_plain_values() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    given = OrderedDict({"c": Colour.RED, "l": Level.HIGH, "t": (1, 2), Colour.RED: 1.5})
    prepared, error = prepare({"properties": {"c": {"enum": ["red"]}, "l": {"type": "integer"}}}, given)
    assert error is None
    assert prepared == {"c": "red", "l": 3, "t": [1, 2], "red": 1.5}
    assert [type(value) for value in prepared.values()] == [str, int, list, float]
    assert {type(key) for key in prepared} == {str}


def test_many_problems_in_a_large_argument_are_reported_in_time() -> None:
    _, error = prepare(one({"items": {"type": "string"}}), {"x": list(range(100_000))})
    assert error is not None
    assert "Invalid parameters" in error
    assert len(error) < 1_000


def test_a_large_right_argument_is_accepted() -> None:
    text = "x" * 5_000_000
    assert prepare(one({"type": "string"}), {"x": text})[1] is None
    rows = [{"id": number, "name": "n"} for number in range(30_000)]
    schema = one({"type": "array", "items": {"properties": {"id": {"type": "integer"}}, "required": ["name"]}})
    assert prepare(schema, {"x": rows})[1] is None


# --- schemas ---


def test_a_reference_circle_is_no_circle_for_the_check() -> None:
    for schema in (
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"x": {"type": "integer"}}},
    ):
        assert prepare(schema, {"y": "1"}) == ({"y": "1"}, None)


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"n0": {"type": "string"}}
    for level in range(1, levels):
        reference = {"$ref": f"#/$defs/n{level - 1}"}
        definitions[f"n{level}"] = {"allOf": [reference, reference]}
    return {"$defs": definitions, "properties": {"x": {"$ref": f"#/$defs/n{levels - 1}"}}}


def test_a_schema_that_doubles_at_every_level_is_set_aside() -> None:
    assert prepare(doubling(8), {"x": "s"})[1] is None
    assert "too intricate" in set_aside_reason(doubling(64))


def test_unevaluated_rules_nested_in_place_are_set_aside_when_they_explode() -> None:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(30):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    assert "too intricate" in set_aside_reason(schema)


RECURSIVE = [
    {"allOf": [{"additionalProperties": {"$ref": "#/$defs/t"}}] * 2, "type": ["object", "integer"]},
    {"anyOf": [
        *[{"type": "object", "additionalProperties": {"$ref": "#/$defs/t"}}] * 3, {"type": "integer"},
    ]},
    {"oneOf": [{"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}, "unevaluatedProperties": False},
               {"type": "object", "additionalProperties": {"$ref": "#/$defs/t"}, "minProperties": 9},
               {"type": "integer"}], "unevaluatedProperties": False},
]  # fmt: skip


@pytest.mark.parametrize("schema", RECURSIVE)
@pytest.mark.parametrize("leaf", ["x", 1, "1"])
def test_a_recursive_schema_that_branches_at_every_level_ends(schema: Any, leaf: Any) -> None:
    root = {"$ref": "#/$defs/t", "$defs": {"t": schema}}
    for depth in (3, 20, 90):
        prepare(root, nested(depth, leaf))


def test_problems_in_a_recursive_schema_too_branched_to_search_are_still_reported() -> None:
    _, error = prepare({"$ref": "#/$defs/t", "$defs": {"t": RECURSIVE[1]}}, nested(60, "x"))
    assert error is not None
    assert "do not fit the schema" in error


@pytest.mark.parametrize("used", [True, False])
def test_a_long_chain_of_references_is_set_aside(used: bool) -> None:
    chain: dict[str, Any] = {"n0": {"type": "object"}}
    for number in range(1, 60_000):
        chain[f"n{number}"] = {"$ref": f"#/$defs/n{number - 1}"}
    assert "deeper than" in set_aside_reason({"$ref": f"#/$defs/n{59_999 if used else 0}", "$defs": chain})


def test_a_long_circle_of_references_is_set_aside() -> None:
    circle = {f"n{number}": {"$ref": f"#/$defs/n{(number + 1) % 9_000}"} for number in range(9_000)}
    assert "deeper than" in set_aside_reason({"properties": {"x": {"$ref": "#/$defs/n5"}}, "$defs": circle})


def test_a_schema_may_define_many_things() -> None:
    definitions = {f"n{number}": {"type": "integer", "minimum": number} for number in range(3_000)}
    schema = {"$defs": definitions, "properties": {"x": {"$ref": "#/$defs/n7"}}}
    assert prepare(schema, {"x": "8"}) == ({"x": 8}, None)
    assert prepare(schema, {"x": 6})[1] is not None


def test_a_deeply_nested_schema_is_set_aside() -> None:
    for depth in (300, 5_000, 100_000):
        schema: Any = {"type": "string"}
        for _ in range(depth):
            schema = {"properties": {"a": schema}}
        assert "nested deeper" in set_aside_reason(schema)


def test_schemas_of_ordinary_depth_are_used() -> None:
    schema: Any = {"type": "integer"}
    for _ in range(20):
        schema = {"properties": {"a": schema}}
    assert prepare(schema, nested(20, "5")) == (nested(20, 5), None)


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+$)(a*)*b$", r"^(a*)*(?!x)\1b$", r"(?:(?<=a)a|a)*b", "(a?){50}a{50}b"],
)
def test_a_pattern_that_backtracks_ends(pattern: str) -> None:
    for subject in ("a" * 30 + "!", "a" * 50_000 + "!"):
        prepare(one({"type": "string", "pattern": pattern}), {"x": subject})
        prepare({"patternProperties": {pattern: {"type": "integer"}}}, {subject: "1"})
        prepare(one({"type": "array", "items": {"pattern": pattern}}), {"x": [subject[:40]] * 500})


@pytest.mark.parametrize("pattern", ["((a{1000}){1000}){1000}", "(", "[z-a]", "(?P<n"])
def test_a_pattern_that_does_not_compile_sets_the_tool_aside(pattern: str) -> None:
    assert "cannot be used" in set_aside_reason(one({"type": "string", "pattern": pattern}))


def test_references_outside_are_refused_without_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        for reference in (f"http://127.0.0.1:{port}/s.json", "file:///etc/hostname", "s.json"):
            assert "cannot be used" in set_aside_reason(one({"$ref": reference}))
            assert "cannot be used" in set_aside_reason({"$schema": reference, **one({"$ref": reference})})
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("reference", ["#/$defs/none", "#none", "#/properties/x/5", "%%%", "http://[bad"])
def test_a_reference_that_leads_nowhere_sets_the_tool_aside(reference: str) -> None:
    assert "cannot be used" in set_aside_reason(one({"$ref": reference}))


def test_the_meta_schema_can_be_referred_to() -> None:
    schema = one({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert prepare(schema, {"x": {"type": "string"}})[1] is None
    assert prepare(schema, {"x": {"type": "strng"}})[1] is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strng"},
        {"type": 5},
        {"minimum": "1"},
        {"required": "a"},
        {"properties": []},
        {"enum": 5},
        {"items": 5},
        {"minimum": float("nan")},
        {1: 2},
        {"const": b"x"},
        {"title": "\ud800"},
    ],
)
def test_what_is_no_schema_cannot_be_compiled(schema: Any) -> None:
    with pytest.raises(SchemaError):
        CompiledSchema(schema)


def test_compiling_leaves_the_schema_as_it_was() -> None:
    schema = one({"type": "integer", "nullable": True})
    CompiledSchema(schema)
    assert schema == one({"type": "integer", "nullable": True})


def test_a_compiled_schema_may_be_used_in_a_thread_with_a_small_stack() -> None:
    compiled = CompiledSchema({"additionalProperties": {"$ref": "#"}, "type": "object"})
    found: list[Any] = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(compiled.errors(nested(MAX_DEPTH - 1, 5))))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(found) == 1
    assert found[0]


# --- properties that raise ---


class Broken(MadeTool):
    @property
    def parameters(self) -> Any:
        raise RuntimeError("no schema today")


def test_a_tool_whose_schema_raises_is_set_aside() -> None:
    registry = registry_with(Broken("broken"), MadeTool("good"))
    assert registry.tool_names == ["good"]
    assert "RuntimeError: no schema today" in registry.set_aside["broken"]
