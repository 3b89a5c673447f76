"""Whether a value is JSON at all, and how big it is, before anything recursive looks at it.

Arguments come from a model and schemas from strangers' servers. The validator is native code with its own
stack: a value nested too deeply would end the process, so nothing reaches it unmeasured. Checking a value
against a schema is left to `compiled.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 100
"""Levels of nesting an argument may have; the validator's native stack holds some 20,000 in 8 MiB."""

MAX_VALUES = 200_000
"""Values (containers, their items, scalars) one call may hold."""


class NotJsonError(ValueError):
    """The value has no JSON form or is beyond the limits; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What `measure` found: number of values, characters in strings, and what needs care later."""

    values: int
    chars: int
    has_float: bool  # an integral float may have to become an integer
    has_subclass: bool  # str, int or float subclasses, tuples: the validator knows only the plain types


def label(path: tuple[str | int, ...], root: str = "") -> str:
    """Return `a.b[2]` for a path; `root` is put in front, and stands alone for the value itself."""
    text = root
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return shorten(text, 120) or "parameter"


def shorten(text: str, limit_chars: int) -> str:
    """Return `text` fit for an error message: bounded, and free of what cannot be encoded."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= limit_chars else f"{text[: limit_chars - 1]}…"


def measure(value: Any) -> Size:
    """Return the size of a JSON value.

    Raises:
        NotJsonError: nested deeper than `MAX_DEPTH`, more than `MAX_VALUES` values, a key that is no text, a
            number that JSON does not have (NaN, infinity), a lone surrogate, or a type that is not JSON's.
    """
    values = chars = 0
    has_float = has_subclass = False
    todo: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while todo:
        item, path = todo.pop()
        values += 1
        kind = type(item)
        if kind is str:
            chars += len(item)
            if not item.isascii():
                _check_text(item, path)
        elif kind is dict or isinstance(item, dict):
            has_subclass = has_subclass or kind is not dict
            _check_container(item, path, values + len(todo))
            for key, child in item.items():
                if type(key) is not str:
                    if not isinstance(key, str):
                        raise NotJsonError(f"{label(path)} has a key that is no string ({type(key).__name__})")
                    has_subclass = True
                if not key.isascii():
                    _check_text(key, path)
                todo.append((child, (*path, key)))
        elif kind is list or isinstance(item, (list, tuple)):
            has_subclass = has_subclass or kind is not list
            _check_container(item, path, values + len(todo))
            todo.extend((child, (*path, number)) for number, child in enumerate(item))
        elif item is None or kind is bool or kind is int:
            pass
        elif kind is float:
            has_float = True
            if not math.isfinite(item):
                raise NotJsonError(f"{label(path)} is {item}, which is not a JSON number")
        elif isinstance(item, (str, int, float)):
            has_subclass = True
        else:
            raise NotJsonError(f"{label(path)} is of type {kind.__name__}, which JSON does not have")
    return Size(values=values, chars=chars, has_float=has_float, has_subclass=has_subclass)


def _check_container(item: Any, path: tuple[str | int, ...], so_far: int) -> None:
    if len(path) >= MAX_DEPTH:
        raise NotJsonError(f"nested deeper than {MAX_DEPTH} levels")
    if so_far + len(item) > MAX_VALUES:
        raise NotJsonError(f"more than {MAX_VALUES} values")


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJsonError(f"{label(path)} has a lone surrogate (half of a character); send whole characters") from None


_JSON_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (dict, "object"),
    ((list, tuple), "array"),
)


def json_type(value: Any) -> str:
    """Return the JSON name of the value's type; Python's name for what JSON does not have."""
    if value is None:
        return "null"
    for types, name in _JSON_TYPES:
        if isinstance(value, types):
            return name
    return type(value).__name__
