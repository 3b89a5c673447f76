"""Whether a value is JSON at all, and how big it is, before anything recursive looks at it.

Arguments come from a model and schemas from strangers' servers. The validator is native code with its own
stack: a value nested too deeply would end the process, so nothing reaches it unmeasured. Checking a value
against a schema is left to `compiled.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 100
"""Levels of nesting an argument may have; the validator's native stack holds some 20,000 in 8 MiB."""

MAX_VALUES = 200_000
"""Values (containers, their items, scalars) one call may hold."""

_MAX_DIGITS = 4_000
_MAX_INT_BITS = _MAX_DIGITS * 10 // 3  # Python converts no longer ones to text unless told to


class NotJsonError(ValueError):
    """The value has no JSON form or is beyond the limits; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What `measure` found: number of values, characters in strings, and what needs care later."""

    values: int
    chars: int
    has_float: bool  # an integral float may have to become an integer
    has_subclass: bool  # str, int or float subclasses, tuples: the validator knows only the plain types


_Path = tuple[str | int, ...]


def label(path: _Path, root: str = "") -> str:
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
    values = 1
    chars = 0
    has_float = has_subclass = False
    todo: list[tuple[Any, _Path]] = [([value], ())]  # the value itself as if it were an only item
    while todo:
        container, path = todo.pop()
        if isinstance(container, dict):
            pairs: Iterable[tuple[Any, Any]] = container.items()
            has_subclass = _check_keys(container, path) or has_subclass
        else:
            pairs = enumerate(container)
        for key, item in pairs:
            kind = type(item)
            if kind is str:
                chars += len(item)
                if not item.isascii():
                    _check_text(item, (*path, key))
            elif item is None or kind is bool:
                pass
            elif kind is int or kind is float:
                has_float = has_float or kind is float
                _check_number(item, (*path, key))
            elif isinstance(item, (dict, list, tuple)):
                has_subclass = has_subclass or (kind is not dict and kind is not list)
                values += len(item)
                if len(path) > MAX_DEPTH:
                    raise NotJsonError(f"nested deeper than {MAX_DEPTH} levels")
                if values > MAX_VALUES:
                    raise NotJsonError(f"more than {MAX_VALUES} values")
                todo.append((item, (*path, key)))
            elif isinstance(item, (str, int, float)):
                has_subclass = True
            else:
                raise NotJsonError(f"{_label((*path, key))} is of type {kind.__name__}, unknown to JSON")
    return Size(values=values, chars=chars, has_float=has_float, has_subclass=has_subclass)


def _label(path: _Path) -> str:
    return label(path[1:])  # without the place of the value itself


def _check_keys(container: dict[Any, Any], path: _Path) -> bool:
    """Check the property names; return whether one is of a subclass of str."""
    has_subclass = False
    for key in container:
        if type(key) is not str:
            if not isinstance(key, str):
                raise NotJsonError(f"{_label(path)} has a key that is no string ({type(key).__name__})")
            has_subclass = True
        if not key.isascii():
            _check_text(key, (*path, key))
    return has_subclass


def _check_number(number: float, path: _Path) -> None:
    if isinstance(number, int):
        if number.bit_length() > _MAX_INT_BITS:
            raise NotJsonError(f"{_label(path)} is a number of more than {_MAX_DIGITS} digits")
    elif not math.isfinite(number):
        raise NotJsonError(f"{_label(path)} is {number}, which is not a JSON number")


def _check_text(text: str, path: _Path) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJsonError(
            f"{_label(path)} has a lone surrogate (half of a character); send whole characters"
        ) from None


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
