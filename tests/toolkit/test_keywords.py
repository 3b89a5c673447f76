"""JSON Schema keyword by keyword, from the specifications, as parameter schemas and arguments of a call.

Sources: json-schema.org/draft/2020-12 (core, validation) and draft-07, read 2026-11-29. Each instance stands
as the property `x`; `right` ones must be accepted unchanged, `wrong` ones refused. Values that one of the
documented casts would mend are not among the wrong ones: those casts have their own tests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tools import one, prepare

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"

CASES: list[tuple[str, Any, list[Any], list[Any]]] = [
    # any instance type
    ("true", True, [1, "a", None, [], {}], []),
    ("false", False, [], [1, "a", None, [], {}]),
    ("empty schema", {}, [1, "a", None, [], {}], []),
    ("type string", {"type": "string"}, ["", "1"], [1, 1.5, True, None, [], {}]),
    ("type integer", {"type": "integer"}, [0, -1, 10**30], [1.5, True, None, [], {}, "a"]),
    ("type number", {"type": "number"}, [0, 1.5, -1e30], [True, None, [], {}, "a"]),
    ("type boolean", {"type": "boolean"}, [True, False], [0, 1, None, [], {}, "a"]),
    ("type null", {"type": "null"}, [None], [0, False, "", [], {}]),
    ("type array", {"type": "array"}, [[], [1]], [1, True, None, {}, "a"]),
    ("type object", {"type": "object"}, [{}, {"a": 1}], [1, True, None, [], "a"]),
    ("type list", {"type": ["integer", "string"]}, [1, "a"], [1.5, True, None, [], {}]),
    ("enum", {"enum": [1, "a", None, [1], {"k": 2}, False]}, [1, 1.0, "a", None, [1], {"k": 2}, False],
     [2, "b", True, 0, [], [1, 1], {"k": 3}]),
    ("enum 0 is not false", {"enum": [0]}, [0, 0.0], [False]),
    ("enum 1 is not true", {"enum": [[1]]}, [[1], [1.0]], [[True]]),
    ("const", {"const": {"a": [1, {"b": None}]}}, [{"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}],
     [{}, {"a": [1, {"b": 0}]}, 1]),
    ("const null", {"const": None}, [None], [0, False, ""]),
    # numbers
    ("multipleOf", {"multipleOf": 2}, [0, 4, -2, 3e1, "3"], [1, 7, 3.5]),
    ("multipleOf fraction", {"multipleOf": 0.01}, [0.07, 1, 4.35], [0.075]),
    ("maximum", {"maximum": 3.0}, [3, 2.9, "4"], [3.1, 4]),
    ("exclusiveMaximum", {"exclusiveMaximum": 3}, [2.9], [3, 3.1]),
    ("minimum", {"minimum": -2}, [-2, 0, "x"], [-2.1, -3]),
    ("exclusiveMinimum", {"exclusiveMinimum": -2}, [-1.9], [-2, -3]),
    # strings
    ("maxLength", {"maxLength": 2}, ["", "ab", "\U0001f600\U0001f600", 100], ["abc", "\U0001f600" * 3]),
    ("minLength", {"minLength": 2}, ["ab", 1], ["", "a", "\U0001f600"]),
    ("pattern is not anchored", {"pattern": "^a+"}, ["ab", "a", 1], ["ba", ""]),
    ("pattern inside", {"pattern": "[0-9]{2}"}, ["ab12c"], ["1a2"]),
    ("format is annotation", {"format": "ipv4"}, ["no address", "1.2.3.4", 1], []),
    ("format date-time is annotation", {"type": "string", "format": "date-time"}, ["yesterday"], [1]),
    ("content is annotation", {"contentEncoding": "base64", "contentMediaType": "application/json"},
     ["{:}", "%%%"], []),
    # arrays
    ("items", {"items": {"type": "integer"}}, [[], [1, 2], "a", {"0": "x"}], [["a"], [1, None]]),
    ("items false", {"items": False}, [[]], [[1]]),
    ("prefixItems", {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
     [[], [1], [1, "a"], [1, "a", None]], [["a"], [1, 2]]),
    ("prefixItems and items", {"prefixItems": [{"type": "integer"}], "items": {"type": "null"}},
     [[1], [1, None, None]], [[1, 1], [None]]),
    ("prefixItems closed", {"prefixItems": [{}], "items": False}, [[], [1]], [[1, 2]]),
    ("contains", {"contains": {"minimum": 5}}, [[3, 5], [6]], [[], [3, 4]]),
    ("minContains", {"contains": {"const": 1}, "minContains": 2}, [[1, 1], [1, 2, 1]], [[1], [1, 2], []]),
    ("minContains 0", {"contains": {"const": 1}, "minContains": 0}, [[], [2]], []),
    ("maxContains", {"contains": {"const": 1}, "maxContains": 1}, [[1], [1, 2]], [[1, 1], []]),
    ("minItems", {"minItems": 1}, [[1], "", {}], [[]]),
    ("maxItems", {"maxItems": 1}, [[], [1]], [[1, 2]]),
    ("uniqueItems", {"uniqueItems": True}, [[1, 2], [1, True], [0, False], [{"a": 1}, {"a": 2}], [[1],
     [True]]],
     [[1, 1], [1.0, 1], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]]),
    ("unevaluatedItems", {"prefixItems": [{}], "unevaluatedItems": False}, [[], [1]], [[1, 2]]),
    ("unevaluatedItems after allOf", {"allOf": [{"prefixItems": [{}, {}]}],
     "unevaluatedItems": {"type": "null"}},
     [[1, 2], [1, 2, None]], [[1, 2, 3]]),
    ("unevaluatedItems sees contains", {"contains": {"type": "string"},
     "unevaluatedItems": {"type": "integer"}},
     [["a", 1], ["a", "b"]], [["a", None]]),
    # objects
    ("properties", {"properties": {"a": {"type": "string"}}}, [{}, {"a": "b"}, {"b": 1}, [], 1], [{"a": 1}]),
    ("properties with odd names", {"properties": {"__proto__": {"type": "number"},
     "a b/c~d%": {"type": "null"}}},
     [{"__proto__": 1, "a b/c~d%": None}], [{"__proto__": "a"}, {"a b/c~d%": 1}]),
    ("patternProperties", {"patternProperties": {"^S_": {"type": "string"}, "n$": {"type": "integer"}}},
     [{"S_a": "a", "an": 1, "x": None}], [{"S_a": 1}, {"S_n": 1}, {"an": "x"}]),
    ("additionalProperties false", {"properties": {"a": {}}, "patternProperties": {"^p": {}},
                                    "additionalProperties": False},
     [{}, {"a": 1, "pq": 2}, []], [{"b": 1}]),
    ("additionalProperties schema", {"properties": {"a": {}}, "additionalProperties": {"type": "boolean"}},
     [{"a": 1, "b": True}], [{"b": 5}]),
    ("additionalProperties looks at siblings only", {"allOf": [{"properties": {"a": {}}}],
                                                     "additionalProperties": False}, [{}], [{"a": 1}]),
    ("propertyNames", {"propertyNames": {"maxLength": 2}}, [{}, {"ab": 1}], [{"abc": 1}]),
    ("required", {"required": ["a", "b"]}, [{"a": 1, "b": None}, [], "a"], [{}, {"a": 1}]),
    ("minProperties", {"minProperties": 1}, [{"a": 1}, []], [{}]),
    ("maxProperties", {"maxProperties": 1}, [{}, {"a": 1}], [{"a": 1, "b": 2}]),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}, 1],
     [{"a": 1}]),
    ("dependentSchemas", {"dependentSchemas": {"a": {"minProperties": 2}, "f": False}},
     [{}, {"a": 1, "b": 1}], [{"a": 1}, {"f": 1, "b": 1}]),
    ("unevaluatedProperties", {"properties": {"a": {}}, "unevaluatedProperties": False}, [{"a": 1}],
     [{"b": 1}]),
    ("unevaluatedProperties sees allOf and $ref",
     {"allOf": [{"properties": {"a": {}}}], "$ref": "#/$defs/b", "unevaluatedProperties": False},
     [{"a": 1, "b": 2}], [{"c": 3}]),
    ("unevaluatedProperties sees the branch taken",
     {"if": {"required": ["k"], "properties": {"k": {}}}, "then": {"properties": {"t": {}}},
      "else": {"properties": {"e": {}}}, "unevaluatedProperties": {"type": "null"}},
     [{"k": 1, "t": 1}, {"e": 1}, {"e": 1, "z": None}], [{"k": 1, "e": 1}, {"t": 1}]),
    ("unevaluatedProperties sees anyOf branches that fit",
     {"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {}}}],
      "unevaluatedProperties": False},
     [{"a": 1}, {"a": 1, "b": 2}, {"b": 1}], [{"a": 2}, {"c": 1}]),
    # combinations and conditions
    ("allOf", {"allOf": [{"minimum": 1}, {"maximum": 3}]}, [1, 3, "a"], [0, 4]),
    ("anyOf", {"anyOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [1.5]),
    ("oneOf", {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, [2, 3, 9], [6, 1, "both fit text"]),
    ("not", {"not": {"type": ["integer", "boolean"]}}, ["a", None], [1, True]),
    ("not true", {"not": True}, [], [1, "a", {}]),
    ("if then else", {"if": {"maximum": 0}, "then": {"minimum": -10}, "else": {"multipleOf": 2}},
     [-1, 0, 4], [-11, 3]),
    ("if alone", {"if": {"const": 0}}, [0, 1], []),
    ("then without if", {"then": False}, [1], []),
    # references
    ("$ref to $defs", {"$ref": "#/$defs/positive"}, [1, 2.5], [0, -1]),
    ("$ref with siblings", {"$ref": "#/$defs/positive", "maximum": 3}, [1, 3], [0, 4]),
    ("$ref to an anchor", {"$ref": "#here"}, [None], [1, "a"]),
    ("$ref to a property", {"$ref": "#/properties/y"}, [True], [1, "a"]),
    ("$ref with escapes", {"$ref": "#/$defs/a~1b~0c%25"}, [1], ["a", None]),
    ("$ref through $ref", {"$ref": "#/$defs/again"}, [1], [-1]),
    ("$ref to a boolean schema", {"$ref": "#/$defs/never"}, [], [1, {}, "a"]),
    ("recursive $ref", {"$ref": "#/$defs/list"},
     [None, {"next": None}, {"next": {"next": None}}], [1, {"next": {"next": 1}}, {"nxt": None}]),
    ("$dynamicRef", {"$dynamicRef": "#here"}, [None], [1]),
    ("embedded $id", {"$id": "https://example.com/e", "$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"},
     [None], [1, "a"]),
    ("unknown keywords", {"x-note": {"type": "string"}, "nullability": 3, "$comment": "c"}, [1, None], []),
    ("annotations", {"title": "t", "description": "d", "default": "wrong type", "examples": [1],
                     "deprecated": True, "readOnly": True, "writeOnly": True, "type": "integer"}, [1], ["a"]),
    ("keywords as property names", {"properties": {"$ref": {"type": "integer"}, "enum": {"type": "null"}}},
     [{"$ref": 1, "enum": None}], [{"$ref": "a"}, {"enum": 1}]),
    ("const that looks like a schema", {"const": {"type": "integer", "nullable": True}},
     [{"type": "integer", "nullable": True}], [1, {"type": ["integer", "null"], "nullable": True}]),
]  # fmt: skip

DEFS = {
    "positive": {"exclusiveMinimum": 0},
    "b": {"properties": {"b": {}}},
    "null": {"$anchor": "here", "$dynamicAnchor": "here", "type": "null"},
    "a/b~c%": {"type": "integer"},
    "again": {"$ref": "#/$defs/positive"},
    "never": False,
    "list": {
        "type": ["object", "null"],
        "properties": {"next": {"$ref": "#/$defs/list"}},
        "required": ["next"],
    },
}

LEGACY: list[tuple[str, str, Any, list[Any], list[Any]]] = [
    (DRAFT_7, "items as a list", {"items": [{"type": "integer"}, {"type": "null"}]},
     [[], [1], [1, None, "x"]], [[None], [1, 1]]),
    (DRAFT_7, "additionalItems", {"items": [{}], "additionalItems": {"type": "null"}}, [[1], [1, None]],
     [[1, 1]]),
    (DRAFT_7, "additionalItems without a list", {"items": {"type": "integer"}, "additionalItems": False},
     [[1, 2]], [[None]]),
    (DRAFT_7, "dependencies on names", {"dependencies": {"a": ["b", "c"]}}, [{}, {"a": 1, "b": 1, "c": 1}],
     [{"a": 1}, {"a": 1, "b": 1}]),
    (DRAFT_7, "dependencies on a schema", {"dependencies": {"a": {"properties": {"b": {"type": "null"}}}}},
     [{"b": 1}, {"a": 1, "b": None}], [{"a": 1, "b": 1}]),
    (DRAFT_7, "definitions", {"$ref": "#/definitions/positive"}, [1], [0]),
    (DRAFT_7, "$ref hides siblings", {"$ref": "#/definitions/positive", "maximum": 3}, [4], [0]),
    (DRAFT_7, "$id as an anchor", {"$ref": "#here"}, [None], [1]),
    (DRAFT_7, "if then else", {"if": {"maximum": 0}, "then": {"minimum": -10}, "else": {"multipleOf": 2}},
     [-1, 4], [-11, 3]),
    (DRAFT_7, "contains", {"contains": {"const": 1}}, [[1, 2]], [[], [2]]),
    (DRAFT_7, "propertyNames", {"propertyNames": {"pattern": "^a"}}, [{"ab": 1}], [{"ba": 1}]),
    (DRAFT_7, "later keywords mean nothing", {"prefixItems": [{"type": "null"}],
     "dependentRequired": {"a": ["b"]},
                                              "unevaluatedProperties": False}, [[1], {"a": 1}], []),
    (DRAFT_7, "format is annotation", {"format": "ipv4"}, ["no address"], []),
    (DRAFT_6, "const and exclusive bounds", {"const": 3, "exclusiveMinimum": 2}, [3], [2, 4]),
    (DRAFT_6, "if means nothing yet", {"if": {}, "then": False}, [1], []),
    (DRAFT_4, "exclusiveMinimum as a flag", {"minimum": 2, "exclusiveMinimum": True}, [2.1, 3], [2, 1]),
    (DRAFT_4, "const means nothing yet", {"const": 3}, [4], []),
    (DRAFT_2019, "unevaluatedItems", {"items": [{}], "unevaluatedItems": False}, [[1]], [[1, 2]]),
    (DRAFT_2019, "dependentSchemas", {"dependentSchemas": {"a": {"minProperties": 2}}}, [{"a": 1, "b": 1}],
     [{"a": 1}]),
    (DRAFT_2019, "$ref with siblings", {"$ref": "#/definitions/positive", "maximum": 3}, [1], [0, 4]),
]  # fmt: skip

LEGACY_DEFS = {"positive": {"minimum": 1}, "null": {"$id": "#here", "type": "null"}}


def check(schema: dict[str, Any], right: list[Any], wrong: list[Any]) -> None:
    for instance in right:
        prepared, error = prepare(schema, {"x": instance})
        assert error is None, instance
        # Equal in type too; only a whole float may have become the integer that it is.
        assert json.dumps(prepared).replace(".0", "") == json.dumps({"x": instance}).replace(".0", "")
    for instance in wrong:
        prepared, error = prepare(schema, {"x": instance})
        assert error is not None, instance
        assert "Invalid parameters" in error
        assert prepared == {"x": instance}


@pytest.mark.parametrize(("schema", "right", "wrong"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_keywords_of_2020_12(schema: Any, right: list[Any], wrong: list[Any]) -> None:
    root = one(schema, **{"$defs": DEFS})
    root["properties"]["y"] = {"type": "boolean"}
    check(root, right, wrong)
    check({"$schema": "https://json-schema.org/draft/2020-12/schema", **root}, right, wrong)


@pytest.mark.parametrize(
    ("draft", "schema", "right", "wrong"),
    [(case[0], *case[2:]) for case in LEGACY],
    ids=[f"{case[0].rstrip('schema/#')[-10:]} {case[1]}" for case in LEGACY],
)
def test_keywords_of_earlier_drafts(draft: str, schema: Any, right: list[Any], wrong: list[Any]) -> None:
    definitions = {"positive": LEGACY_DEFS["positive"]} if draft == DRAFT_2019 else LEGACY_DEFS
    check({"$schema": draft, **one(schema, definitions=definitions)}, right, wrong)


def test_keywords_hold_at_the_root_too() -> None:
    schema = {
        "required": ["a"],
        "properties": {"a": {"type": "integer"}},
        "dependentRequired": {"b": ["c"]},
        "patternProperties": {"^s_": {"type": "string"}},
        "propertyNames": {"maxLength": 5},
        "maxProperties": 3,
        "not": {"required": ["never"]},
        "unevaluatedProperties": {"type": "null"},
    }
    for right in ({"a": 1}, {"a": 1, "s_1": "x"}, {"a": 1, "z": None}):
        assert prepare(schema, right) == (right, None)
    for wrong in (
        {},
        {"a": "x"},
        {"a": 1, "b": None},
        {"a": 1, "s_1": 2},
        {"a": 1, "toolong": None},
        {"a": 1, "never": None},
        {"a": 1, "x": None, "y": None, "z": None},
        {"a": 1, "z": 1},
    ):
        assert prepare(schema, wrong)[1] is not None


def test_a_boolean_can_be_the_whole_schema() -> None:
    assert prepare(True, {"a": 1}) == ({"a": 1}, None)
    assert prepare({}, {"a": 1}) == ({"a": 1}, None)


def test_a_schema_without_a_draft_that_only_draft_7_understands_is_read_as_draft_7() -> None:
    schema = one({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]})
    assert prepare(schema, {"x": [1, "a"]})[1] is None
    assert prepare(schema, {"x": ["a", 1]})[1] is not None


def test_a_draft_that_nobody_knows_is_read_as_2020_12() -> None:
    schema = {"$schema": "https://example.com/meta", **one({"prefixItems": [{"type": "integer"}]})}
    assert prepare(schema, {"x": [1]})[1] is None
    assert prepare(schema, {"x": ["a"]})[1] is not None


def test_nullable_beside_a_type_allows_null() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "nullable": True},
            "b": {"type": ["integer"], "nullable": True, "enum": [1, 2]},
            "c": {"type": "string", "nullable": False},
            "d": {"type": "object", "properties": {"e": {"type": "integer", "nullable": True}}},
        },
        "required": ["a", "b"],
    }
    right = {"a": None, "b": None, "d": {"e": None}}
    assert prepare(schema, right) == (right, None)
    assert prepare(schema, {"a": 1, "b": None})[1] is not None
    assert prepare(schema, {"a": "", "b": 3})[1] is not None
