from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.support.tools import one, prepare

NULLABLE_INT = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def same(left: Any, right: Any) -> bool:
    """Equal also in type: 3 is not 3.0 and 1 is not True here."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


MENDED = [
    ({"type": "integer"}, "12", 12),
    ({"type": "integer"}, " 12 ", 12),
    ({"type": "integer"}, "-3", -3),
    ({"type": "integer"}, "+3", 3),
    ({"type": "integer"}, "3.0", 3),
    ({"type": "integer"}, "3.", 3),
    ({"type": "integer"}, 3.0, 3),
    ({"type": "integer"}, -0.0, 0),
    ({"type": "integer"}, "9" * 40, int("9" * 40)),
    ({"type": "integer", "maximum": 10}, 3.0, 3),
    ({"type": "number"}, "3.5", 3.5),
    ({"type": "number"}, "1e3", 1000.0),
    ({"type": "number"}, "12", 12),
    ({"type": "number"}, "-.5", -0.5),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "TRUE", True),
    ({"type": "boolean"}, "1", True),
    ({"type": "boolean"}, "Yes", True),
    ({"type": "boolean"}, "false", False),
    ({"type": "boolean"}, "0", False),
    ({"type": "boolean"}, "NO", False),
    ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
    ({"type": "array", "items": {"type": "integer"}}, ["1", 2.0, "3.0"], [1, 2, 3]),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a": "1"}', {"a": 1}),
    ({"type": ["object", "null"]}, '{"a": "1"}', {"a": "1"}),
    # type lists and nullable
    ({"type": ["integer", "null"]}, "5", 5),
    ({"type": ["null", "boolean"]}, "yes", True),
    ({"type": ["integer", "boolean"]}, "1", 1),
    ({"type": ["integer", "boolean"]}, "true", True),
    ({"type": "integer", "nullable": True}, "5", 5),
    # references and combinations
    ({"$ref": "#/$defs/n"}, "5", 5),
    ({"$ref": "#/$defs/again"}, "5", 5),
    ({"$ref": "#named"}, "5", 5),
    (NULLABLE_INT, "5", 5),
    ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
    ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, "5", 5),
    ({"allOf": [{"$ref": "#/$defs/n"}], "description": "with more"}, "5", 5),
    ({"anyOf": [{"type": "boolean"}, {"type": "integer"}]}, "7", 7),
    ({"anyOf": [{"type": "integer", "maximum": 3}, {"type": "number"}]}, "7", 7),
    (
        {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ["1", "2"],
        [1, 2],
    ),
    (
        {"oneOf": [
            {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind"]},
            {"properties": {"kind": {"const": "b"}, "n": {"type": "string"}}, "required": ["kind"]},
        ]},
        {"kind": "a", "n": "5"},
        {"kind": "a", "n": 5},
    ),
    ({"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "string"}]},
     {"n": "5"}, {"n": 5}),
    # arrays and objects
    ({"prefixItems": [{"type": "integer"}, {"type": "boolean"}]}, ["1", "no", "x"], [1, False, "x"]),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["1", "2"], ["1", 2]),
    ({"items": {"type": "array", "items": {"type": "number"}}}, [["1.5"], ["2.5"]], [[1.5], [2.5]]),
    ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": "1", "s": "1"}, {"n_a": 1, "s": "1"}),
    ({"patternProperties": {"^(?!s)": {"type": "integer"}}}, {"n": "1", "s": "1"}, {"n": 1, "s": "1"}),
    ({"additionalProperties": {"type": "integer"}}, {"a": "1"}, {"a": 1}),
    (
        {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
        {"a": "1", "b": "1"},
        {"a": "1", "b": 1},
    ),
    ({"properties": {"a/b~c d": {"type": "integer"}}}, {"a/b~c d": "1"}, {"a/b~c d": 1}),
    # conditions
    (
        {"if": {"properties": {"k": {"const": "n"}}}, "then": {"properties": {"v": {"type": "integer"}}}},
        {"k": "n", "v": "1"},
        {"k": "n", "v": 1},
    ),
    (
        {"if": {"required": ["k"]}, "else": {"properties": {"v": {"type": "integer"}}}},
        {"v": "1"},
        {"v": 1},
    ),
    ({"dependentSchemas": {"k": {"properties": {"v": {"type": "integer"}}}}},
     {"k": 1, "v": "1"}, {"k": 1, "v": 1}),
    # null for what is optional
    ({"properties": {"a": {"type": "integer"}}}, {"a": None, "b": None}, {"b": None}),
    ({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["b"]}, {"a": None, "b": None}, {"b": None}),
]  # fmt: skip

DEFS = {"n": {"type": "integer", "$anchor": "named"}, "again": {"$ref": "#/$defs/n"}}


@pytest.mark.parametrize(("schema", "given", "right"), MENDED)
def test_a_documented_cast_is_made(schema: Any, given: Any, right: Any) -> None:
    before = copy.deepcopy(given)
    prepared, error = prepare(one(schema, **{"$defs": DEFS}), {"x": given})
    assert error is None
    assert same(prepared, {"x": right})
    assert same(given, before)


UNTOUCHED = [
    ({"type": ["string", "integer"]}, "5"),
    ({"type": ["string", "integer"]}, 5),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5"),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 5),
    ({"type": "string"}, "true"),
    ({"type": "string"}, '{"a": 1}'),
    ({"type": ["string", "array"]}, "[1]"),
    ({}, "5"),
    (True, "5"),
    ({"not": {"type": "integer"}}, "5"),
    ({"enum": ["1", 2]}, "1"),
    ({"type": "number"}, 3.0),
    ({"type": "number"}, 3),
    ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, 3.0),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3.0"),
    ({"type": ["boolean", "integer"]}, 1),
    ({"type": "object", "properties": {"a": {}}}, {"a": None}),
    ({"type": "object", "properties": {"a": NULLABLE_INT}}, {"a": None}),
    ({"type": "object", "properties": {"a": {"type": "integer", "nullable": True}}}, {"a": None}),
    (
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "nullable": True}}},
        {"a": None},
    ),
    ({"type": "array", "items": {"type": ["number", "null"]}}, [1.0, None, 2]),
    ({"contains": {"type": "integer"}}, ["1", 2]),
]


@pytest.mark.parametrize(("schema", "given"), UNTOUCHED)
def test_a_value_that_satisfies_its_schema_is_never_changed(schema: Any, given: Any) -> None:
    prepared, error = prepare(one(schema), {"x": given})
    assert error is None
    assert same(prepared, {"x": given})


def test_what_is_right_stays_untouched_beside_what_is_mended() -> None:
    schema = {
        "properties": {
            "n": {"type": "integer"},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "deep": {"properties": {"s": {"type": "string"}, "b": {"type": "boolean"}}},
        }
    }
    given = {"n": "1", "either": "2", "deep": {"s": "true", "b": "true"}, "extra": "3"}
    prepared, error = prepare(schema, given)
    assert error is None
    assert same(prepared, {"n": 1, "either": "2", "deep": {"s": "true", "b": True}, "extra": "3"})


FAILING = [
    ({"type": "integer"}, "abc"),
    ({"type": "integer"}, "12.5"),
    ({"type": "integer"}, "12.5.7"),
    ({"type": "integer"}, "1_000"),
    ({"type": "integer"}, "1,000"),
    ({"type": "integer"}, "١٢"),
    ({"type": "integer"}, "0x10"),
    ({"type": "integer"}, ""),
    ({"type": "integer"}, True),
    ({"type": "integer"}, 3.5),
    ({"type": "integer"}, None),
    ({"type": "integer"}, ["1"]),
    ({"type": "integer"}, "9" * 5_000),
    ({"type": "number"}, "nan"),
    ({"type": "number"}, "inf"),
    ({"type": "number"}, "1e999"),
    ({"type": "number"}, False),
    ({"type": "boolean"}, 1),
    ({"type": "boolean"}, 0),
    ({"type": "boolean"}, "maybe"),
    ({"type": "boolean"}, "on"),
    ({"type": "string"}, 5),
    ({"type": "string"}, True),
    ({"type": "string"}, None),
    ({"type": "null"}, "null"),
    ({"type": "array"}, "a, b"),
    ({"type": "array"}, '["a"'),
    ({"type": "array"}, '{"a": 1}'),
    ({"type": "array", "items": {"type": "string"}}, "x"),
    ({"type": "object"}, "[1]"),
    ({"type": "object"}, "[" * 500 + "]" * 500),
    ({"type": "array"}, "[" * 500 + "]" * 500),
    ({"type": "array"}, "[" * 100_000 + "]" * 100_000),
    ({"type": "array"}, "[NaN]"),
    ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "integer"}]}, "123"),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": None}),
    ({"type": "object", "properties": {"a": False}}, {"a": None}),
    ({"type": "object", "additionalProperties": False}, {"a": None}),
    ({"enum": [1, 2]}, "x"),
    (False, 1),
]


@pytest.mark.parametrize(("schema", "given"), FAILING)
def test_what_cannot_be_cast_stays_for_validation_to_report(schema: Any, given: Any) -> None:
    prepared, error = prepare(one(schema), {"x": given})
    assert error is not None
    assert "Invalid parameters" in error
    assert same(prepared, {"x": given})


def test_a_cast_value_is_held_to_the_other_rules() -> None:
    _, error = prepare(one({"type": "integer", "maximum": 10}), {"x": "15"})
    assert error == "Error: Invalid parameters for tool 'made': x must be <= 10, got integer"


def test_the_only_fitting_branch_is_mended_before_its_faults_are_told() -> None:
    branch = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}}
    _, error = prepare(one({"anyOf": [branch, {"type": "null"}]}), {"x": {"n": "1", "m": "many"}})
    assert error == "Error: Invalid parameters for tool 'made': x.m should be integer, got string"


def test_draft_7_ignores_what_stands_beside_a_reference() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"s": {"type": "string"}},
        "properties": {"x": {"$ref": "#/definitions/s", "type": "integer"}},
    }
    assert prepare(schema, {"x": "5"}) == ({"x": "5"}, None)


def test_draft_7_arrays_and_dependencies_are_cast_too() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"x": {"items": [{"type": "integer"}], "additionalItems": {"type": "boolean"}}},
        "dependencies": {"x": {"properties": {"y": {"type": "integer"}}}, "z": ["x"]},
    }
    prepared, error = prepare(schema, {"x": ["1", "yes"], "y": "2"})
    assert error is None
    assert same(prepared, {"x": [1, True], "y": 2})


def test_references_through_an_id_are_followed() -> None:
    schema = {
        "$id": "https://example.com/root",
        "$defs": {"n": {"$id": "number", "type": "integer", "$defs": {"b": {"type": "boolean"}}}},
        "properties": {"x": {"$ref": "number"}, "y": {"$ref": "https://example.com/number#/$defs/b"}},
    }
    prepared, error = prepare(schema, {"x": "5", "y": "yes"})
    assert error is None
    assert same(prepared, {"x": 5, "y": True})


def test_a_recursive_schema_is_cast_all_the_way_down() -> None:
    schema = {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
            }
        },
    }
    given: dict[str, Any] = {"n": "0"}
    right: dict[str, Any] = {"n": 0}
    for number in range(1, 20):
        given = {"n": str(number), "kids": [given]}
        right = {"n": number, "kids": [right]}
    prepared, error = prepare(schema, given)
    assert error is None
    assert same(prepared, right)
