"""Any schema that a server and any arguments that a model may send: an answer, no exception, no hang."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.toolkit.base import ToolResult
from tests.support.tools import MadeTool, registry_with

NAMES = st.sampled_from(["a", "b", "arguments", "x/y", "~", "", "ä", "$ref", "type"])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
PATTERNS = st.sampled_from(["^a", "b$", ".*", "(a+)+$", "^(?=a)", r"(a)\1", "[", "\\d", ""])
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#a", "#/properties/a", "#/nowhere", "http://[", "b", "%"])

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "3.0", "true", "no", "[1]", '{"a": "1"}', "{", "a" * 40, "\ud800", 10**400, 2**64])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
ODDITIES = (
    st.binary(max_size=4) | st.tuples(st.integers()) | st.builds(object) | st.dictionaries(st.integers(), st.none())
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    counts = st.integers(0, 3) | st.floats(0, 3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "$ref": REFERENCES,
        "$dynamicRef": REFERENCES,
        "$anchor": st.sampled_from(["a", "b"]),
        "$dynamicAnchor": st.sampled_from(["a", "meta"]),
        "$id": st.sampled_from(["b", "#a", "http://example.com/s", ""]),
        "$defs": named,
        "definitions": named,
        "type": TYPES | st.lists(TYPES, max_size=3, unique=True),
        "nullable": st.booleans(),
        "enum": st.lists(VALUES, max_size=3),
        "const": VALUES,
        "properties": named,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "propertyNames": inner,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "dependentSchemas": named,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
        "dependencies": named,
        "items": inner | several,
        "prefixItems": several,
        "additionalItems": inner,
        "unevaluatedItems": inner,
        "contains": inner,
        "minContains": st.integers(0, 2),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "minimum": SCALARS,
        "exclusiveMaximum": st.integers(-3, 3),
        "multipleOf": counts,
        "maxLength": counts,
        "minItems": counts,
        "maxProperties": counts,
        "uniqueItems": st.booleans(),
        "pattern": PATTERNS,
        "format": st.sampled_from(["date", "ipv4", "unknown"]),
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=5, unique=True)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({key: keywords[key] for key in keys}))


DRAFTS = st.sampled_from(
    [
        {},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": "https://json-schema.org/draft/2019-09/schema"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"$schema": "somewhere"},
        {"type": "object"},
    ]
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=12)
ROOTS = st.builds(lambda draft, schema: {**draft, **schema} if isinstance(schema, dict) else schema, DRAFTS, SCHEMAS)
ARGUMENTS = (
    VALUES
    | st.dictionaries(NAMES, VALUES, max_size=5)
    | st.dictionaries(NAMES, VALUES | ODDITIES, max_size=3)
    | ODDITIES
    | st.dictionaries(NAMES, VALUES, max_size=5).map(json.dumps)
    | st.dictionaries(NAMES, VALUES, max_size=5).map(lambda value: json.dumps(value)[:-2])
    | st.text(alphabet="{}[]\"':,\\ab1 \n", max_size=40)
)

thorough = settings(max_examples=400, deadline=5_000, suppress_health_check=list(HealthCheck))


@thorough
@given(ROOTS, ARGUMENTS, st.booleans())
@example({}, {"arguments": (0,)}, False)
@example(True, {"arguments": {"arguments": None}}, False)
def test_any_schema_and_any_arguments_get_an_answer(schema: Any, arguments: Any, truncated: bool) -> None:
    registry = registry_with(MadeTool("t", schema))
    tool, params, error = registry.prepare_call("t", arguments, truncated=truncated)
    if error is None:
        assert tool is not None
        assert isinstance(params, dict)
        if set(params) != {"arguments"}:  # that looks like one more wrapper
            assert registry.prepare_call("t", params)[1:] == (params, None)  # what is right stays as it is
    else:
        assert error.startswith("Error: ")
        assert error.encode()
        assert (tool is None) == ("t" in registry.set_aside)


@thorough
@given(VALUES | ODDITIES, ARGUMENTS)
def test_things_that_are_no_schemas_get_an_answer_too(schema: Any, arguments: Any) -> None:
    registry = registry_with(MadeTool("t", schema))
    assert len(registry) + len(registry.set_aside) == 1
    registry.prepare_call("t", arguments)
    registry.definitions_json()


@thorough
@given(ROOTS, st.dictionaries(NAMES, VALUES, max_size=5))
def test_a_call_that_the_validator_accepts_is_never_changed_but_for_whole_floats(
    schema: Any, arguments: dict[str, Any]
) -> None:
    tool = MadeTool("t", schema)
    registry = registry_with(tool)
    if "t" in registry.set_aside or set(arguments) == {"arguments"}:
        return
    if tool.validate_params(arguments) == []:
        assert registry.prepare_call("t", arguments)[1:] == (arguments, None)


@settings(max_examples=60, deadline=None)
@given(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5) | ODDITIES)
async def test_any_return_value_becomes_a_result(value: Any) -> None:
    async def give(_: dict[str, Any]) -> Any:
        return value

    assert isinstance(await registry_with(MadeTool("t", run=give)).execute("t", {}), ToolResult)
