from __future__ import annotations

from typing import Any

import pytest

from bot.toolkit.schema import (
    ArraySchema,
    BooleanSchema,
    IntegerSchema,
    NumberSchema,
    ObjectSchema,
    Schema,
    StringSchema,
    fragment,
    tool_parameters_schema,
    validate_json_schema_value,
)


def test_builders_give_what_one_would_write_by_hand() -> None:
    built = tool_parameters_schema(
        query=StringSchema("what", min_length=2, max_length=9),
        count=IntegerSchema(2, description="how many", minimum=0, maximum=10),
        ratio=NumberSchema(0.5, minimum=0.0, maximum=1, enum=[0.5, 1]),
        mode=StringSchema(enum=["fast", "full"]),
        level=IntegerSchema(enum=(1, 2), nullable=True),
        deep=BooleanSchema(description="all of it", default=False),
        meta=ObjectSchema(
            {"tag": StringSchema()},
            flags=ArraySchema(StringSchema(), min_items=1, max_items=3),
            required=["tag"],
            additional_properties=False,
            nullable=True,
        ),
        raw={"type": "null"},
        required=["query"],
        description="search",
        additional_properties=False,
    )
    assert built == {
        "type": "object",
        "description": "search",
        "required": ["query"],
        "additionalProperties": False,
        "properties": {
            "query": {"type": "string", "description": "what", "minLength": 2, "maxLength": 9},
            "count": {"type": "integer", "description": "how many", "minimum": 0, "maximum": 10},
            "ratio": {"type": "number", "minimum": 0.0, "maximum": 1, "enum": [0.5, 1]},
            "mode": {"type": "string", "enum": ["fast", "full"]},
            "level": {"type": ["integer", "null"], "enum": [1, 2]},
            "deep": {"type": "boolean", "description": "all of it", "default": False},
            "meta": {
                "type": ["object", "null"],
                "required": ["tag"],
                "additionalProperties": False,
                "properties": {
                    "tag": {"type": "string"},
                    "flags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
                },
            },
            "raw": {"type": "null"},
        },
    }


def test_an_array_holds_text_unless_said() -> None:
    assert ArraySchema().to_json_schema() == {"type": "array", "items": {"type": "string"}}


def test_each_build_is_a_fresh_dict() -> None:
    schema = StringSchema(enum=["a"])
    schema.to_json_schema()["type"] = "changed"
    assert schema.to_json_schema() == {"type": "string", "enum": ["a"]}


def test_fragment_takes_builders_and_dicts_and_nothing_else() -> None:
    given: dict[str, Any] = {"type": "null"}
    assert fragment(given) is given
    assert fragment(BooleanSchema()) == {"type": "boolean"}
    assert Schema.fragment(BooleanSchema()) == {"type": "boolean"}
    with pytest.raises(TypeError, match="must be a Schema or a dict, got str"):
        fragment("string")


def test_single_values_are_checked_with_their_name() -> None:
    assert validate_json_schema_value(3, {"type": "integer"}, "n") == []
    assert validate_json_schema_value("3", {"type": "integer"}, "n") == ["n should be integer, got string"]
    assert validate_json_schema_value("3", {"type": "integer"}) == ["parameter should be integer, got string"]
    assert validate_json_schema_value({"a": [1]}, {"properties": {"a": {"items": {"minimum": 2}}}}, "p") == [
        "p.a[0] must be >= 2, got integer"
    ]
    assert IntegerSchema(minimum=1).validate_value(0, "n") == ["n must be >= 1, got integer"]
    assert Schema.validate_json_schema_value(None, {"type": "string"}, "s") == ["s should be string, got null"]


@pytest.mark.parametrize(
    ("value", "schema", "messages"),
    [
        ({}, {"required": ["b", "a"]}, ["missing required p.b", "missing required p.a"]),
        ({"b": 1}, {"properties": {"a": {}}, "additionalProperties": False}, ["unexpected parameter p.b"]),
        ("x", {"enum": ["a", 1]}, ['p must be one of ["a", 1], got string']),
        ("x", {"const": None}, ["p must be null, got string"]),
        (1, {"type": ["string", "null"]}, ["p should be string or null, got integer"]),
        (1, {"anyOf": [{"type": "string"}, {"type": "null"}]}, ["p should be string or null, got integer"]),
        (1, {"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["p must be >= 5, got integer"]),
        (1, {"anyOf": [{"minimum": 9}, {"minimum": 5}]},
         ["p fits none of the 2 forms of 'anyOf', got integer"]),
        (9, {"oneOf": [{"minimum": 9}, {"minimum": 5}]},
         ["p fits more than one form of 'oneOf', got integer"]),
        (1, {"not": {}}, ["p has a form that the rule 'not' forbids, got integer"]),
        (1, False, ["p is not allowed, got integer"]),
        ([1, 1], {"uniqueItems": True}, ["p must not have two equal items, got array"]),
        ([1], {"contains": {"type": "null"}}, ["p must have items as the rule 'contains' asks, got array"]),
        ("ab", {"pattern": "^b"}, ["p must match the pattern ^b, got string"]),
        ({"abc": 1}, {"propertyNames": {"maxLength": 2}},
         ["p has a property name that breaks the rule 'maxLength'"]),
        (5, {"multipleOf": 2}, ["p must be a multiple of 2, got integer"]),
        (5, {"exclusiveMaximum": 5}, ["p must be < 5, got integer"]),
        ([], {"minItems": 1}, ["p must have at least 1 items, got array"]),
        ({}, {"minProperties": 1}, ["p must have at least 1 properties, got object"]),
        ([1], {"prefixItems": [], "items": False}, ["p[0] is not allowed, got integer"]),
    ],
)  # fmt: skip
def test_each_rule_has_its_words(value: Any, schema: Any, messages: list[str]) -> None:
    assert sorted(validate_json_schema_value(value, schema, "p")) == sorted(messages)


@pytest.mark.parametrize("schema", [{"type": "strng"}, {"const": b"x"}, [], {"$ref": "#/nowhere"}])
def test_a_schema_that_does_not_compile_is_reported_as_a_message(schema: Any) -> None:
    (message,) = validate_json_schema_value(1, schema, "p")
    assert message.startswith("p cannot be checked: ")


def test_schemas_beyond_64_bit_numbers_keep_their_exact_value() -> None:
    limit = 2**70 + 1
    assert validate_json_schema_value(limit, {"maximum": limit}) == []
    assert validate_json_schema_value(limit + 1, {"const": limit}) != []
