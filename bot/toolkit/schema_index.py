"""A schema seen as a graph: its subschemas, where references lead, which types fit, what checking costs.

The casts (`casting.py`) walk this graph and `compiled.py` refuses schemas whose checking would not end in
reasonable time. Whether a value is valid is never decided here; that is the validator's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

from bot.toolkit.measure import json_type

MAX_SCHEMA_DEPTH = 250
"""How deep subschemas and references may lead; the validator's native stack allows more."""

ALL_TYPES = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""JSON's types, with "number" split: "integer" for whole numbers (also 3.0), "fraction" for the others."""

_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    "additionalProperties", "additionalItems", "items", "contains", "propertyNames", "not",
    "if", "then", "else", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_DEFINITIONS = ("$defs", "definitions")

_FANCY = re.compile(r"\(\?[=!<>P(]|\\[1-9k]|[+*?}]\+")
"""Look-around, back references, atomic groups, possessive marks: what only a backtracking engine can do."""

FANCY_COST = 5_000
EXTERNAL_COST = 300  # a reference to a meta-schema that the validator brings along
UNEVALUATED_FACTOR = 3  # measured: each level of nested unevaluated* multiplies the validator's work by 2.7


class SchemaError(ValueError):
    """The schema does not compile or is beyond the limits; the text says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One subschema. `pointer` is its URI-fragment JSON pointer, `base` the URI its references start from."""

    pointer: str
    schema: Any
    base: str


class SchemaIndex:
    """The subschemas of one schema. `legacy` = draft 7 and before, where `$ref` hides its siblings."""

    def __init__(self, schema: Any, *, legacy: bool) -> None:
        self.legacy = legacy
        self._nodes: dict[str, Node] = {}
        self._resources: dict[str, Node] = {}
        self._anchors: dict[tuple[str, str], Node] = {}
        self._children: dict[tuple[str, tuple[str, ...]], tuple[tuple[str, str | int | None, Node], ...]] = {}
        self._types: dict[str, frozenset[str]] = {}
        self._weights: dict[str, tuple[int, int]] = {}
        self._path: set[str] = set()
        self.cyclic: set[str] = set()
        self.has_pattern = False
        self.root = self._add("#", schema, "")
        self._resources.setdefault("", self.root)
        self._learn_names(self.root)

    def _add(self, pointer: str, schema: Any, base: str) -> Node:
        known = self._nodes.get(pointer)
        if known is not None:
            return known
        if isinstance(schema, dict):
            identifier = schema.get("$id", schema.get("id") if self.legacy else None)
            if isinstance(identifier, str) and not identifier.startswith("#"):
                base = _join(base, identifier).partition("#")[0]
        node = self._nodes[pointer] = Node(pointer, schema, base)
        return node

    def child(self, node: Node, *tokens: str | int) -> Node | None:
        """Return the subschema at `tokens` below `node`, or None when there is no schema there."""
        value = node.schema
        pointer = node.pointer
        for token in tokens:
            if isinstance(value, dict) and token in value:
                value = value[str(token)]
            elif isinstance(value, list) and str(token).isdecimal() and int(token) < len(value):
                value = value[int(token)]
            else:
                return None
            pointer += "/" + str(token).replace("~", "~0").replace("/", "~1")
        return self._add(pointer, value, node.base) if isinstance(value, (dict, bool)) else None

    def children(self, node: Node, keys: tuple[str, ...]) -> tuple[tuple[str, str | int | None, Node], ...]:
        """Return (keyword, name or position, subschema) for the given keywords, in their order."""
        known = self._children.get((node.pointer, keys))
        if known is None:
            known = self._children[node.pointer, keys] = tuple(self._find_children(node, keys))
        return known

    def _find_children(self, node: Node, keys: tuple[str, ...]) -> Iterator[tuple[str, str | int | None, Node]]:
        for keyword in keys:
            value = node.schema.get(keyword) if isinstance(node.schema, dict) else None
            names: Any = (None,)
            if isinstance(value, list) and keyword in _LISTS:
                names = range(len(value))
            elif isinstance(value, dict) and keyword in (*_MAPS, *_DEFINITIONS):
                names = value
            elif not isinstance(value, (dict, bool)) or keyword not in _SINGLES:
                continue
            for name in names:
                found = self.child(node, keyword) if name is None else self.child(node, keyword, name)
                if found is not None:
                    yield keyword, name, found

    def _learn_names(self, root: Node) -> None:
        todo = [(root, 0)]
        keys = tuple(dict.fromkeys((*_MAPS, *_LISTS, *_SINGLES, *_DEFINITIONS)))
        while todo:
            node, depth = todo.pop()
            if depth > MAX_SCHEMA_DEPTH:
                raise SchemaError(f"nested deeper than {MAX_SCHEMA_DEPTH} levels")
            if isinstance(node.schema, dict):
                self._resources.setdefault(node.base, node)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(node.schema.get(keyword), str):
                        self._anchors.setdefault((node.base, node.schema[keyword]), node)
                identifier = node.schema.get("$id", node.schema.get("id") if self.legacy else None)
                if self.legacy and isinstance(identifier, str) and identifier.startswith("#"):
                    self._anchors.setdefault((node.base, identifier[1:]), node)
            todo.extend((found, depth + 1) for _, _, found in self.children(node, keys))

    def target(self, node: Node) -> Node | None:
        """Return where the node's `$ref` leads inside this schema; None without one or when it leads out."""
        reference = node.schema.get("$ref") if isinstance(node.schema, dict) else None
        if not isinstance(reference, str):
            return None
        uri, _, fragment = reference.partition("#")
        resource = self._resources.get(_join(node.base, uri) if uri else node.base)
        if resource is None:
            return None
        fragment = unquote(fragment)
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            return self._anchors.get((resource.base, fragment))
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in fragment[1:].split("/")]
        return self.child(resource, *tokens)

    def hides_siblings(self, node: Node) -> bool:
        """Whether everything beside the node's `$ref` is ignored (draft 7 and before)."""
        return self.legacy and isinstance(node.schema, dict) and "$ref" in node.schema

    def types(self, node: Node | None) -> frozenset[str]:
        """Return which of `ALL_TYPES` a value may have here, as far as keywords at this place tell."""
        if node is None or not isinstance(node.schema, dict):
            return ALL_TYPES
        known = self._types.get(node.pointer)
        if known is not None:
            return known
        self._types[node.pointer] = ALL_TYPES  # what a reference back to here adds: nothing
        result = self._own_types(node)
        self._types[node.pointer] = result
        return result

    def _own_types(self, node: Node) -> frozenset[str]:
        schema = node.schema
        result = self.types(self.target(node))
        if self.hides_siblings(node):
            return result
        named = schema.get("type")
        if isinstance(named, (str, list)):
            result &= _atoms([named] if isinstance(named, str) else named)
        for options in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
            if isinstance(options, list):
                result &= _atoms([json_type(option) for option in options])
        for _, _, found in self.children(node, ("allOf",)):
            result &= self.types(found)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                result &= frozenset().union(*(self.types(b) for _, _, b in self.children(node, (keyword,))))
        return result

    def weight(self, node: Node) -> int:
        """Return how many subschemas one value can be checked against, references followed.

        A recursive reference counts once: the validator remembers its verdict on such a pair.
        """
        return self._survey(node, 0)[0]

    def survey(self) -> int:
        """Look at every subschema, used or not, and return the greatest weight among them.

        Afterwards `cyclic` and `has_pattern` are known.

        Raises:
            SchemaError: subschemas or references lead deeper than `MAX_SCHEMA_DEPTH`.
        """
        return max(self._survey(node, 0)[0] for node in list(self._nodes.values()))

    def _survey(self, node: Node, above: int) -> tuple[int, int]:
        """Return weight and depth of the node; `above` is how deep the way to it was."""
        if not isinstance(node.schema, dict):
            return 1, 1
        if node.pointer in self._weights:
            return self._weights[node.pointer]
        if node.pointer in self._path:
            self.cyclic.add(node.pointer)
            return 1, 1
        if above > MAX_SCHEMA_DEPTH:
            raise SchemaError(f"nested deeper than {MAX_SCHEMA_DEPTH} levels")
        self._path.add(node.pointer)
        total, deepest = 1 + self.own_cost(node), 0
        for found in self.followed(node):
            weight, depth = self._survey(found, above + 1)
            total += weight
            deepest = max(deepest, depth)
        total *= self.factor(node)
        self._path.discard(node.pointer)
        if deepest >= MAX_SCHEMA_DEPTH:
            raise SchemaError(f"nested deeper than {MAX_SCHEMA_DEPTH} levels")
        self._weights[node.pointer] = total, deepest + 1
        return total, deepest + 1

    def followed(self, node: Node) -> Iterator[Node]:
        """Yield every subschema that checking a value here may lead to, the `$ref` target first."""
        found = self.target(node)
        if found is not None:
            yield found
        if self.hides_siblings(node):
            return
        keys = tuple(dict.fromkeys((*_MAPS, *_LISTS, *_SINGLES)))
        for _, _, found in self.children(node, keys):
            yield found

    def own_cost(self, node: Node) -> int:
        """Return what this node costs beyond one step: patterns that may backtrack, references outside."""
        cost = 0
        schema = node.schema
        patterns = list(schema["patternProperties"]) if isinstance(schema.get("patternProperties"), dict) else []
        if isinstance(schema.get("pattern"), str):
            patterns.append(schema["pattern"])
        for pattern in patterns:
            self.has_pattern = True
            cost += FANCY_COST if _FANCY.search(pattern) else 1
        if "$ref" in schema and self.target(node) is None:
            cost += EXTERNAL_COST
        return cost

    @staticmethod
    def factor(node: Node) -> int:
        """Return by how much the node multiplies the work below it."""
        schema = node.schema
        return UNEVALUATED_FACTOR if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1


def _atoms(names: list[Any]) -> frozenset[str]:
    atoms = {name for name in names if isinstance(name, str)}
    if "number" in atoms:
        atoms |= {"integer", "fraction"}
    return ALL_TYPES & atoms


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # no URI at all: then it names nothing in this schema
        return reference
