"""A schema made ready for use once: cast and validate values against it, in bounded time, without network.

Full JSON Schema by jsonschema-rs: 2020-12 unless `$schema` names another draft; `format` is annotation only.
OpenAPI's `nullable: true` is understood beside `type`, since many tool servers send it.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema_rs

from bot.toolkit.casting import Caster, OutOfWorkError
from bot.toolkit.measure import NotJsonError, Size, measure
from bot.toolkit.schema_index import MAX_SCHEMA_DEPTH, Node, SchemaError, SchemaIndex
from bot.toolkit.violations import MAX_MESSAGES, explain

MAX_WEIGHT = 200_000
"""Subschemas that checking one value may lead to; a schema beyond it is refused when it is compiled."""

MAX_WORK = 20_000_000
"""Steps (one value against one subschema, some 10 ns) that one validation may take at worst."""

MAX_EXPLAINED_WORK = 20_000
"""The same for finding out what is wrong, which costs the validator some 1,000 times more a step."""

_BACKTRACK_LIMIT = 10_000
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_KNOWN_DRAFTS = ("https://json-schema.org/draft/20", "http://json-schema.org/draft-0")
_LEGACY = (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft6Validator, jsonschema_rs.Draft7Validator)


class CompiledSchema:
    """One schema, ready. Safe to share between tasks: it holds no state of a call."""

    def __init__(self, schema: Any) -> None:
        """Compile.

        Raises:
            SchemaError: not a valid schema, a reference that leads nowhere, or beyond the limits.
        """
        try:
            size = measure(schema)
            plain = json.loads(json.dumps(schema)) if size.has_subclass else schema
            self._schema, self._index, self._validator = _compile(_with_nullable(copy.deepcopy(plain)))
        except NotJsonError as exc:
            raise SchemaError(str(exc)) from None
        except RecursionError:
            raise SchemaError(f"nested deeper than {MAX_SCHEMA_DEPTH} levels") from None
        self._weight = self._index.weight(self._index.root)
        self._parts: jsonschema_rs.ValidatorMap | None = None
        self._patterns: dict[str, jsonschema_rs.Validator] = {}

    def declares(self, name: str) -> bool:
        """Whether an object valid here may have a property that the schema itself calls `name`."""
        todo, seen = [self._index.root], set()
        while todo:
            node = todo.pop()
            if node.pointer in seen or not isinstance(node.schema, dict):
                continue
            seen.add(node.pointer)
            properties = node.schema.get("properties")
            if isinstance(properties, dict) and name in properties:
                return True
            patterns = self._index.children(node, ("patternProperties",))
            if any(self._matches(str(pattern), name) for _, pattern, _ in patterns):
                return True
            target = self._index.target(node)
            todo += [target] if target is not None else []
            todo += [found for _, _, found in self._index.children(node, ("allOf", "anyOf", "oneOf", "then", "else"))]
        return False

    def allows_object(self) -> bool:
        """Whether an object can be valid at all, as far as types tell."""
        return "object" in self._index.types(self._index.root)

    def prepare(self, value: Any, root: str = "") -> tuple[Any, list[str]]:
        """Cast, then validate: return the value as the schema wants it and what is still wrong with it."""
        try:
            size = measure(value)
            if size.has_subclass:
                value = json.loads(json.dumps(value))
            if self._affordable(value, size):
                if self._validator.is_valid(value):
                    return (self._mended(value) if size.has_float else value), []
                value = self._mended(value)
        except NotJsonError as exc:
            return value, [str(exc)]
        return value, self.errors(value, root)

    def cast(self, value: Any) -> Any:
        """Return the value, mended where the schema asks for it (see `casting.py`)."""
        try:
            size = measure(value)
            if size.has_subclass or not self._affordable(value, size):
                return value
            if self._validator.is_valid(value) and not size.has_float:
                return value
            return self._mended(value)
        except NotJsonError:
            return value

    def errors(self, value: Any, root: str = "") -> list[str]:
        """Return what is wrong with the value; empty means valid. `root` is the value's own name."""
        try:
            size = measure(value)
        except NotJsonError as exc:
            return [str(exc)]
        if size.has_subclass:
            value = json.loads(json.dumps(value))
        if not self._affordable(value, size):
            return ["too large to be checked against this schema; send less at once"]
        if self._validator.is_valid(value):
            return []
        if self._work(value, MAX_EXPLAINED_WORK, remembered=False) > MAX_EXPLAINED_WORK:
            return [f"{root or 'the parameters'} do not fit the schema, which is too intricate to say where"]
        return explain(list(self._validator.iter_errors(value)), self._schema, root)[:MAX_MESSAGES]

    def _mended(self, value: Any) -> Any:
        try:
            return Caster(self._index, self._fits, self._matches, work=MAX_WORK).cast(value, self._index.root)
        except (OutOfWorkError, RecursionError):
            return value

    def _fits(self, pointer: str, value: Any) -> bool:
        if self._parts is None:
            self._parts = jsonschema_rs.validator_map_for(
                self._schema, validate_formats=False, offline=True, pattern_options=_PATTERNS
            )
        part = self._parts.get(pointer)
        return part is not None and part.is_valid(value)

    def _matches(self, pattern: str, name: str) -> bool:
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = jsonschema_rs.validator_for(
                {"pattern": pattern}, pattern_options=_PATTERNS
            )
        return known.is_valid(name)

    def _affordable(self, value: Any, size: Size) -> bool:
        quick = self._weight * size.values + (10 * size.chars if self._index.has_pattern else 0)
        return quick <= MAX_WORK or self._work(value, MAX_WORK, remembered=True) <= MAX_WORK

    def _work(self, value: Any, limit: int, *, remembered: bool) -> int:
        """Estimate the steps of one validation; `remembered` = a recursive pair is checked once only."""
        try:
            return _Estimate(self._index, limit, remembered=remembered).of(self._index.root, value)
        except RecursionError:
            return limit + 1


class _Estimate:
    """Counts steps with each (subschema, value) pair computed once, so that counting itself stays short."""

    _MAX_PAIRS = 100_000

    def __init__(self, index: SchemaIndex, limit: int, *, remembered: bool) -> None:
        self._index = index
        self._limit = limit
        self._remembered = remembered
        self._known: dict[tuple[str, int], int] = {}

    def of(self, node: Node, value: Any, depth: int = 0) -> int:
        if not isinstance(node.schema, dict):
            return 1
        pair = (node.pointer, id(value))
        if pair in self._known:
            again = self._remembered and node.pointer in self._index.cyclic
            return 1 if again else self._known[pair]
        if len(self._known) >= self._MAX_PAIRS or depth > MAX_SCHEMA_DEPTH:
            return self._limit + 1
        self._known[pair] = 1
        total = 1 + self._index.own_cost(node)
        if isinstance(value, str) and self._index.has_pattern:
            total += 10 * len(value)
        for found in self._index.followed(node):
            for part in self._values_for(found, node, value):
                total += self.of(found, part, depth + 1)
                if total > self._limit:
                    return self._limit + 1
        total *= self._index.factor(node)
        self._known[pair] = total
        return total

    @staticmethod
    def _values_for(found: Node, node: Node, value: Any) -> list[Any]:
        keyword, _, name = found.pointer.removeprefix(node.pointer + "/").partition("/")
        if keyword == "properties":
            name = name.replace("~1", "/").replace("~0", "~")
            return [value[name]] if isinstance(value, dict) and name in value else []
        if keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            return list(value.values()) if isinstance(value, dict) else []
        if keyword == "propertyNames":
            return list(value) if isinstance(value, dict) else []
        if keyword in ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"):
            return value if isinstance(value, list) else []
        return [value]


def _compile(schema: Any) -> tuple[Any, SchemaIndex, jsonschema_rs.Validator]:
    """Return the schema as it was understood, its index, and its validator.

    A schema that names no draft, or one that nobody knows, and is not valid as 2020-12 is tried as draft 7:
    many tool servers write draft 7 without saying so.
    """
    if not isinstance(schema, (dict, bool)):
        raise SchemaError(f"a schema must be an object, got {type(schema).__name__}")
    candidates = [schema]
    if isinstance(schema, dict) and not str(schema.get("$schema", "")).startswith(_KNOWN_DRAFTS):
        bare = {key: value for key, value in schema.items() if key != "$schema"}
        candidates = [bare, {"$schema": _DRAFT_7, **bare}]
    reason = ""
    for candidate in candidates:
        try:
            legacy = issubclass(jsonschema_rs.validator_cls_for(candidate), _LEGACY)
            # Before the native compiler sees it: that one follows references on its stack without a limit.
            index = _bounded_index(candidate, legacy=legacy)
            validator = jsonschema_rs.validator_for(
                candidate, validate_formats=False, offline=True, pattern_options=_PATTERNS
            )
        except SchemaError:
            raise
        except (ValueError, jsonschema_rs.ReferencingError) as exc:
            reason = reason or str(exc).partition("\n")[0][:300] or "does not compile"
        else:
            return candidate, index, validator
    raise SchemaError(reason)


def _bounded_index(schema: Any, *, legacy: bool) -> SchemaIndex:
    index = SchemaIndex(schema, legacy=legacy)
    if index.survey() > MAX_WEIGHT:
        raise SchemaError(f"too intricate: one value leads to more than {MAX_WEIGHT} subschemas")
    return index


def _with_nullable(schema: Any) -> Any:
    """Turn OpenAPI's `nullable: true` beside a `type` into JSON Schema's null type, in place."""
    todo = [schema]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(value for key, value in item.items() if key not in ("enum", "const", "default", "examples"))
            named = item.get("type")
            if item.get("nullable") is True and isinstance(named, (str, list)):
                names = [named] if isinstance(named, str) else named
                item["type"] = names if "null" in names else [*names, "null"]
                if isinstance(item.get("enum"), list) and None not in item["enum"]:
                    item["enum"] = [*item["enum"], None]
    return schema
