"""Servers' schemas in the form that providers take; what is lost only makes them looser."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.mcp.provider_schema import NODE_LIMIT, for_providers

EMPTY = {"type": "object", "properties": {}}


@pytest.mark.parametrize("schema", [None, {}, [], "x", True, {"type": "string"}, {"type": "array", "items": {}}])
def test_a_root_that_is_no_object_becomes_one_without_properties(schema: Any) -> None:
    assert for_providers(schema) == EMPTY


def test_what_providers_take_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "description": "of a search",
        "properties": {
            "query": {"type": "string", "description": "words", "minLength": 1, "maxLength": 80},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert for_providers(schema) == schema


def test_references_are_written_out_and_endless_ones_are_cut() -> None:
    schema = {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "number"}}}
        },
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node", "description": "the first"}, "lost": {"$ref": "#/$defs/no"}},
        "required": ["root", "gone"],
    }
    made = for_providers(schema)
    assert made["properties"]["root"] == {
        "description": "the first",
        "type": "object",
        "properties": {"next": {}, "n": {"type": "number"}},
    }
    assert made["properties"]["lost"] == {}
    assert made["required"] == ["root"]
    assert "$defs" not in made


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_choice_at_the_root_becomes_the_properties_of_all_its_branches(word: str) -> None:
    schema = {
        "type": "object",
        word: [
            {"properties": {"id": {"type": "integer"}, "kind": {"const": "one"}}, "required": ["id", "kind"]},
            {"properties": {"name": {"type": "string"}, "kind": {"const": "two"}}, "required": ["name", "kind"]},
        ],
    }
    made = for_providers(schema)
    assert set(made["properties"]) == {"id", "name", "kind"}
    assert made["required"] == ["kind"]
    assert word not in made


def test_parts_of_all_of_are_laid_over_each_other() -> None:
    schema = {
        "allOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]
    }
    made = for_providers(schema)
    assert made["properties"] == {"a": {"type": "string"}, "b": {"type": "integer"}}
    assert sorted(made["required"]) == ["a", "b"]


def test_empty_and_pointless_words_go() -> None:
    schema = {
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "a": {"anyOf": [], "enum": [], "required": []},
            "b": {"type": ["string", "null"], "default": None},
            "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "d": {"oneOf": [{}, {"type": "string"}]},
            "e": {"type": "array"},
            "f": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "g": {"type": "string", "pattern": 3, "minLength": True, "if": {}, "not": {}},
        },
    }
    made = for_providers(schema)["properties"]
    assert made["a"] == {}
    assert made["b"]["type"] == "string"
    assert made["c"] == {"anyOf": [{"type": "integer"}]}
    assert made["d"] == {}
    assert made["e"] == {"type": "array", "items": {}}
    assert made["f"]["items"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert made["g"] == {"type": "string"}


def test_a_schema_that_grows_by_its_references_ends_at_the_limit() -> None:
    levels = {
        f"l{n}": {"type": "object", "properties": {str(m): {"$ref": f"#/$defs/l{n + 1}"} for m in range(9)}}
        for n in range(9)
    }
    made = for_providers({"$defs": levels, "type": "object", "properties": {"x": {"$ref": "#/$defs/l0"}}})

    def nodes(value: Any) -> int:
        return 1 + sum(nodes(item) for item in value.get("properties", {}).values())

    assert 1_000 < nodes(made) <= NODE_LIMIT + 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
words = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "$ref",
        "$defs",
        "prefixItems",
        "additionalProperties",
        "default",
        "minimum",
        "multipleOf",
        "minLength",
        "pattern",
        "description",
        "not",
    ]
)
odd_schemas = st.recursive(
    st.dictionaries(words, json_values, max_size=5),
    lambda inner: st.dictionaries(
        words, inner | st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_size=5
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(odd_schemas)
def test_whatever_a_server_sends_becomes_a_valid_schema_of_an_object(schema: dict[str, Any]) -> None:
    made = for_providers(schema)
    jsonschema_rs.meta.validate(made)
    CompiledSchema(made)
    assert made["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"} & set(made)
    assert set(made.get("required", ())) <= set(made["properties"])
