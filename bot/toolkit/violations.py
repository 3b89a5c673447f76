"""What is wrong with a call's arguments, in words a model can act on: path, rule, type of the value.

Values themselves are not repeated: they may be long, and they may be secrets.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from typing import Any

from bot.toolkit.measure import json_type, label, shorten

MAX_MESSAGES = 8
_MAX_CHARS = 300

_BOUNDS = {
    "minimum": "must be >= {limit}",
    "maximum": "must be <= {limit}",
    "exclusiveMinimum": "must be > {limit}",
    "exclusiveMaximum": "must be < {limit}",
    "multipleOf": "must be a multiple of {multiple_of}",
    "minLength": "must be at least {limit} chars",
    "maxLength": "must be at most {limit} chars",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "minProperties": "must have at least {limit} properties",
    "maxProperties": "must have at most {limit} properties",
    "additionalItems": "must have at most {limit} items",
    "uniqueItems": "must not have two equal items",
    "pattern": "must match the pattern {pattern}",
    "falseSchema": "is not allowed",
    "not": "has a form that the rule 'not' forbids",
    "contains": "must have items as the rule 'contains' asks",
    "unevaluatedItems": "has items that the rule 'unevaluatedItems' forbids",
    "contentEncoding": "must be text in the encoding {content_encoding}",
    "contentMediaType": "must be text of the type {content_media_type}",
}


def explain(problems: list[Any], schema: Any, root: str) -> list[str]:
    """Return at most `MAX_MESSAGES` messages for the validator's errors, in a stable order."""
    messages: dict[str, None] = {}
    for problem in sorted(problems, key=_place):  # the validator's own order follows its hash tables
        for message in _explain_one(problem, schema, root):
            messages.setdefault(shorten(message, _MAX_CHARS))
    texts = list(messages)
    if len(texts) > MAX_MESSAGES:
        texts[MAX_MESSAGES - 1 :] = [f"and {len(texts) - MAX_MESSAGES + 1} more problems"]
    return texts


def _place(problem: Any) -> tuple[list[tuple[int, str]], str]:
    path = [(part, "") if isinstance(part, int) else (0, part) for part in problem.instance_path]
    return path, problem.kind.name


def _explain_one(problem: Any, schema: Any, root: str) -> Iterator[str]:
    kind = problem.kind.name
    details = problem.kind.as_dict()
    path = tuple(problem.instance_path)
    here = label(path, root)
    got = f"got {json_type(problem.instance)}"
    if kind == "type":
        wanted = sorted(details["types"], key=lambda name: (name == "null", name))
        yield f"{here} should be {' or '.join(wanted)}, {got}"
    elif kind == "required":
        yield f"missing required {label((*path, details['property']), root)}"
    elif kind in ("additionalProperties", "unevaluatedProperties"):
        known = _known_properties(problem, schema)
        for name in details["unexpected"]:
            close = difflib.get_close_matches(name[:100], known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            yield f"unexpected parameter {label((*path, name), root)}{hint}"
    elif kind == "enum":
        yield f"{here} must be one of {_as_json(details['options'])}, {got}"
    elif kind == "const":
        yield f"{here} must be {_as_json(details['expected_value'])}, {got}"
    elif kind in ("anyOf", "oneOf") and details.get("context"):
        yield from _explain_branches(problem, details["context"], schema, root)
    elif kind == "propertyNames":
        yield f"{here} has a property name that breaks the rule '{details['error'].kind.name}'"
    elif kind in _BOUNDS:
        yield f"{here} {_BOUNDS[kind].format(**details)}, {got}"
    else:
        yield f"{here} breaks the rule '{kind}', {got}"


def _explain_branches(problem: Any, context: list[list[Any]], schema: Any, root: str) -> Iterator[str]:
    path = list(problem.instance_path)
    here = label(tuple(path), root)
    got = f"got {json_type(problem.instance)}"
    if any(not branch for branch in context):
        yield f"{here} fits more than one form of '{problem.kind.name}', {got}"
        return
    wrong_type: Callable[[list[Any]], bool] = lambda branch: any(  # noqa: E731 - used twice, here only
        found.kind.name == "type" and list(found.instance_path) == path for found in branch
    )
    if all(wrong_type(branch) for branch in context):
        wanted = {name for branch in context for found in branch if found.kind.name == "type"
                  for name in found.kind.as_dict()["types"] if list(found.instance_path) == path}  # fmt: skip
        yield f"{here} should be {' or '.join(sorted(wanted, key=lambda n: (n == 'null', n)))}, {got}"
        return
    near = [branch for branch in context if not wrong_type(branch)]
    if len(near) == 1:
        for found in near[0]:
            yield from _explain_one(found, schema, root)
    else:
        yield f"{here} fits none of the {len(context)} forms of '{problem.kind.name}', {got}"


def _known_properties(problem: Any, schema: Any) -> list[str]:
    place = schema
    for token in list(problem.schema_path)[:-1]:
        try:
            place = place[token]
        except (LookupError, TypeError):
            return []
    properties = place.get("properties") if isinstance(place, dict) else None
    return [name for name in properties if isinstance(name, str)][:200] if isinstance(properties, dict) else []


def _as_json(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, default=str), 200)
