"""Small mends of arguments that a schema refuses: "12" for an integer, "true" for a boolean, and the like.

A value that satisfies its schema is left alone, with one exception: a whole number written as 3.0 becomes 3
where only integers are wanted. Text is converted only where the schema allows no text at all. What cannot be
mended stays as it is, for validation to report. The documented casts:

- "12" and "3.0" to integers, "3.5" and "1e3" to numbers (JSON's own notation, surrounding spaces allowed)
- "true", "1", "yes" and "false", "0", "no", in any case, to booleans
- text holding a JSON array or object to that array or object
- null for an optional property whose schema refuses null: the property is left out
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from bot.toolkit.measure import NotJsonError, json_type, measure
from bot.toolkit.schema_index import Node, SchemaIndex

_MAX_HOPS = 40
"""In-place steps ($ref, allOf, anyOf ...) followed for one value; ends circles of references."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


_MAX_TEXT_CHARS = 1_000_000  # longer text is content, not a number or a list in disguise
_MAX_NUMBER_CHARS = 400
_STEP_WORK = 500  # one step here costs about as much as 500 of the validator's


class OutOfWorkError(Exception):
    """The schema offers more ways than is worth trying; the arguments stay as they are."""


class Caster:
    """Casts one call's arguments.

    `fits(pointer, value)` is the validator's verdict on one subschema, `matches(pattern, name)` on one name:
    Python's `re` could run for ever and reads patterns differently. `work` bounds the tries, in units of one
    value against one subschema.
    """

    def __init__(
        self,
        index: SchemaIndex,
        fits: Callable[[str, Any], bool],
        matches: Callable[[str, str], bool],
        *,
        work: int,
    ) -> None:
        self._index = index
        self._verdict = fits
        self._matches = matches
        self._work = work
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}

    def cast(self, value: Any, node: Node | None, hops: int = 0) -> Any:
        """Return the value, mended where its schema asks for it; the argument itself is never changed.

        Raises:
            OutOfWorkError: more than `work` would be needed.
        """
        if node is None or not isinstance(node.schema, dict) or hops > _MAX_HOPS:
            return value
        self._spend(_STEP_WORK)
        if isinstance(value, str):
            return self._cast_text(value, node)
        if isinstance(value, float):
            types = self._index.types(node)
            whole = value.is_integer() and "integer" in types and "fraction" not in types
            return int(value) if whole else value
        if isinstance(value, (dict, list)):
            # Recursive schemas lead to one pair on many ways. The value is kept so that its id stays its own.
            pair = (node.pointer, id(value))
            if pair not in self._known:
                self._known[pair] = (value, value)
                self._known[pair] = (value, self._cast_container(value, node, hops))
            return self._known[pair][1]
        return value

    def _cast_text(self, text: str, node: Node) -> Any:
        types = self._index.types(node)
        if "string" in types or len(text) > _MAX_TEXT_CHARS:
            return text
        first: Any = text
        for candidate in _readings(text, types):
            mended = self._cast_container(candidate, node, 0) if isinstance(candidate, (dict, list)) else candidate
            if self._fits(node, mended):
                return mended
            if first is text:
                first = mended
        return first

    def _cast_container(self, value: Any, node: Node, hops: int) -> Any:
        target = self._index.target(node)
        if target is not None:
            value = self.cast(value, target, hops + 1)
        if self._index.hides_siblings(node):
            return value
        value = self._cast_items(value, node) if isinstance(value, list) else self._cast_properties(value, node)
        for _, _, part in self._index.children(node, ("allOf",)):
            value = self.cast(value, part, hops + 1)
        for keyword in ("anyOf", "oneOf"):
            branches = [branch for _, _, branch in self._index.children(node, (keyword,))]
            if branches:
                value = self._cast_branches(value, node, branches, hops)
        return self._cast_conditional(value, node, hops)

    def _cast_items(self, value: list[Any], node: Node) -> list[Any]:
        prefix = [n for _, pos, n in self._index.children(node, ("prefixItems", "items")) if pos is not None]
        rest = self._index.child(node, "additionalItems" if isinstance(node.schema.get("items"), list) else "items")
        if not prefix and rest is None:
            return value
        mended = [
            self.cast(item, prefix[number] if number < len(prefix) else rest) for number, item in enumerate(value)
        ]
        return mended if any(new is not old for new, old in zip(mended, value, strict=True)) else value

    def _cast_properties(self, value: dict[str, Any], node: Node) -> dict[str, Any]:
        properties = {name: found for _, name, found in self._index.children(node, ("properties",))}
        patterns = self._index.children(node, ("patternProperties",))
        rest = self._index.child(node, "additionalProperties")
        required = node.schema.get("required")
        mended = {}
        changed = False
        for key, item in value.items():
            places: list[Node | None] = [properties[key]] if key in properties else []
            places += [found for _, name, found in patterns if self._matches(str(name), key)]
            new = item
            for place in places or [rest]:
                new = self.cast(new, place)
            if item is None and key in properties and not (isinstance(required, list) and key in required):
                place = properties[key]
                if place.schema is not False and not self._fits(place, None):
                    changed = True
                    continue
            changed = changed or new is not item
            mended[key] = new
        return mended if changed else value

    def _fits(self, node: Node, value: Any) -> bool:
        if isinstance(value, (dict, list)):
            self._spend(self._index.weight(node) * measure(value).values)
        return self._verdict(node.pointer, value)

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise OutOfWorkError

    def _cast_branches(self, value: Any, node: Node, branches: list[Node], hops: int) -> Any:
        right = [branch for branch in branches if self._fits(branch, value)]
        if right:
            for branch in right:  # nothing to mend, but 3.0 may have to become 3
                value = self.cast(value, branch, hops + 1)
            return value
        usable = None
        for branch in branches:
            mended = self.cast(value, branch, hops + 1)
            if self._fits(branch, mended):
                if self._fits(node, mended):
                    return mended
                usable = mended if usable is None else usable
        if usable is not None:
            return usable
        alike = [branch for branch in branches if json_type(value) in self._index.types(branch)]
        # The only branch for this type of value is what was meant: mend what can be mended, report the rest.
        return self.cast(value, alike[0], hops + 1) if len(alike) == 1 else value

    def _cast_conditional(self, value: Any, node: Node, hops: int) -> Any:
        condition = self._index.child(node, "if")
        if condition is not None:
            verdict = "then" if self._fits(condition, value) else "else"
            value = self.cast(value, self._index.child(node, verdict), hops + 1)
        if isinstance(value, dict):
            for _, name, found in self._index.children(node, ("dependentSchemas", "dependencies")):
                if name in value:
                    value = self.cast(value, found, hops + 1)
        return value


def _readings(text: str, types: frozenset[str]) -> Iterator[Any]:
    """Yield what the text may stand for among the types, most specific first."""
    bare = text.strip()
    if types & {"integer", "fraction"}:
        if "integer" in types and _INTEGER.fullmatch(bare):
            yield int(bare.partition(".")[0])
        elif "fraction" in types and len(bare) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(bare):
            number = float(bare)
            if number - number == 0:  # neither infinite nor NaN
                yield number
    if "boolean" in types and bare.lower() in _WORDS:
        yield _WORDS[bare.lower()]
    if types & {"array", "object"} and bare[:1] in ("[", "{"):
        try:
            parsed = json.loads(bare)
            measure(parsed)
        except (ValueError, RecursionError, NotJsonError):
            return
        if json_type(parsed) in types:
            yield parsed
