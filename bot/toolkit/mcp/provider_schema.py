"""Parameter schemas in the form that model providers take. Calls are checked against the server's own schema.

Providers take a subset of JSON Schema and refuse a whole request for one schema outside of it: an object at the
root without combinators, references that lead somewhere, no empty `anyOf`. What is lost here only makes the
description looser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

DEPTH_LIMIT = 12
"""Levels of nesting that are described; OpenAI's strict mode takes 10, and models read no more."""

NODE_LIMIT = 5_000
"""Nodes of one schema; references that are written out may make a small schema endless."""

_KEPT = frozenset(
    {
        "title",
        "description",
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "anyOf",
        "default",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "additionalProperties",
        "examples",
    }
)
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})

Json = dict[str, Any]


def for_providers(schema: Any) -> Json:
    """Return a schema of an object's properties that every provider takes; one without any for what is unusable."""
    made = _Maker(schema if isinstance(schema, Mapping) else {}).node(schema, 0, ())
    branches = made.pop("anyOf", [])
    root: Json = {"type": "object", **{key: made[key] for key in ("title", "description") if key in made}}
    properties: Json = dict(made.get("properties", {}))
    for branch in branches:
        for name, value in branch.get("properties", {}).items():
            properties.setdefault(name, value)
    root["properties"] = properties
    required = [name for name in made.get("required", ()) if name in properties]
    in_all = [set(branch.get("required", ())) for branch in branches]
    required += [name for name in properties if in_all and name not in required and all(name in s for s in in_all)]
    if required:
        root["required"] = required
    if made.get("additionalProperties") is False and not branches:
        root["additionalProperties"] = False
    return root


def provider_schemas(tools: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of listed tools in this form, by name. For many tools it takes long: call it in a thread."""
    return {str(tool["name"]): for_providers(tool.get("inputSchema")) for tool in tools}


class _Maker:
    """The rewriting of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def node(self, schema: Any, depth: int, refs: tuple[str, ...]) -> Json:
        """Return one subschema; {} (anything) where it cannot be said in the subset. `refs` are being written out."""
        self._nodes += 1
        if not isinstance(schema, Mapping) or depth > DEPTH_LIMIT or self._nodes > NODE_LIMIT:
            return {}
        schema = dict(schema)
        ref = schema.pop("$ref", schema.pop("$dynamicRef", None))
        if isinstance(ref, str):
            target = None if ref in refs else self._target(ref)
            beside = {key: value for key, value in schema.items() if key in {"title", "description", "default"}}
            return {} if target is None else self.node({**target, **beside}, depth, (*refs, ref))
        schema = self._merged(schema, depth, refs)
        made = {key: value for key, value in schema.items() if key in _KEPT and _fits(key, value)}
        made |= _types(schema.get("type"))
        if "const" in schema and "enum" not in made:
            made["enum"] = [schema["const"]]
        if isinstance(schema.get("properties"), Mapping):
            made["properties"] = {
                str(name): self.node(value, depth + 1, refs) for name, value in schema["properties"].items()
            }
            made.setdefault("type", "object")
        if "required" in made:
            named = made.get("properties", {})
            made["required"] = [name for name in made["required"] if name in named]
            if not made["required"]:
                del made["required"]
        if isinstance(made.get("additionalProperties"), Mapping):
            made["additionalProperties"] = self.node(made["additionalProperties"], depth + 1, refs)
        if made.get("type") == "array" or "items" in schema or "prefixItems" in schema:
            made["items"] = self._items(schema, depth, refs)
        branches = self._branches(schema, depth, refs)
        if branches:
            made["anyOf"] = branches
        return made

    def _target(self, ref: str) -> Mapping[str, Any] | None:
        """Return what a reference inside the schema leads to (RFC 6901), None for any other."""
        if not ref.startswith("#"):
            return None
        found: Any = self._root
        for part in ref[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found if isinstance(found, Mapping) else None

    def _merged(self, schema: Json, depth: int, refs: tuple[str, ...]) -> Json:
        """Return the schema with the parts of its `allOf` laid over it."""
        parts = schema.pop("allOf", None)
        for part in parts if isinstance(parts, list) else ():
            made = self.node(part, depth, refs)
            properties = {**made.pop("properties", {}), **_mapping(schema.get("properties"))}
            required = [*_names(schema.get("required")), *_names(made.pop("required", None))]
            schema = {**made, **schema}
            if properties:
                schema["properties"] = properties
            if required:
                schema["required"] = list(dict.fromkeys(required))
        return schema

    def _items(self, schema: Json, depth: int, refs: tuple[str, ...]) -> Json:
        items = schema.get("items")
        several = schema.get("prefixItems", items)
        if isinstance(several, list):  # one schema for each place: any of them at every place
            made = _different(self.node(item, depth + 1, refs) for item in several)
            return made[0] if len(made) == 1 else ({"anyOf": made} if made else {})
        return self.node(items, depth + 1, refs)

    def _branches(self, schema: Json, depth: int, refs: tuple[str, ...]) -> list[Json]:
        found: list[Any] = []
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                found += schema[key]
        made = _different(self.node(item, depth + 1, refs) for item in found)
        # A branch that allows anything makes the choice meaningless; null is said by leaving the property out.
        useful = [item for item in made if item != {"type": "null"}]
        return [] if {} in useful else useful


def _different(items: Iterable[Json]) -> list[Json]:
    found: list[Json] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _types(value: Any) -> Json:
    """Return {"type": one} for a type, or for a choice of one type and null; {} for what is looser."""
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    solid = [name for name in known if name != "null"] or known
    return {"type": solid[0]} if len(solid) == 1 else {}


def _is_regular(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _fits(key: str, value: Any) -> bool:
    """Say whether a keyword's value has the form it must have; those made anew by the caller are left out."""
    if key in {"properties", "items", "anyOf", "type"}:
        return False
    if key in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if key in {"minimum", "maximum", "multipleOf"}:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and (key != "multipleOf" or value > 0)
    if key == "pattern":
        return isinstance(value, str) and _is_regular(value)
    if key in {"title", "description", "format"}:
        return isinstance(value, str)
    if key in {"enum", "examples"}:
        return isinstance(value, list) and bool(value)
    if key == "required":
        return bool(_names(value)) and len(_names(value)) == len(value)
    if key == "uniqueItems":
        return isinstance(value, bool)
    if key == "additionalProperties":
        return isinstance(value, bool | Mapping)
    return True
