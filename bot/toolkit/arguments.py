"""From what a model sent as arguments to a dict, or to the reason why not.

Models send JSON text, text in text, fences, an `arguments` wrapper, small damage. Whatever was cut off is
refused: half a command or half a file must never run. Checking the dict against a schema is left to
`compiled.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from bot.toolkit.measure import json_type

_MAX_REPAIR_CHARS = 100_000  # the repair takes about a second at worst for this much
_MAX_TEXT_CHARS = 20_000_000

_FENCE = re.compile(r"\A```[A-Za-z0-9]*\s*(.*?)\s*```\Z", re.DOTALL)

_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)
"""Not strict: models leave line breaks inside strings as they are."""


class ArgumentsError(ValueError):
    """The arguments cannot be used; the text completes "Error: ... parameters" for the model."""


def coerce(raw: Any, declares: Callable[[str], bool], *, truncated: bool = False) -> dict[str, Any]:
    """Return the arguments as a dict.

    `declares(name)` tells whether the schema itself has that property. `truncated` = the reply was ended by
    the length limit, so that nothing may be repaired and nothing missing may be taken for "no arguments".

    Raises:
        ArgumentsError: cut off, or not an object.
    """
    value = _read(raw, truncated=truncated)
    if len(value) == 1 and "arguments" in value and not declares("arguments"):
        inner = value["arguments"]
        if inner is None or isinstance(inner, dict):
            return inner or {}
        if isinstance(inner, str) and (not inner.strip() or inner.lstrip()[0] in "{`\"'"):
            return _read(inner, truncated=truncated)
        if isinstance(inner, list | tuple):
            raise ArgumentsError(_not_object(inner))
    return value


def _not_object(value: Any) -> str:
    return (
        f"must be a JSON object, got {type(value).__name__} (a JSON {json_type(value)}). "
        "Give named parameters as the tool's schema has them."
    )


def _cut_off(text: str) -> str:
    return (
        f"were cut off after {len(text)} characters, so the call was not run. "
        "They must be a JSON object that is complete: send the call again, in smaller parts if it is long."
    )


def _read(raw: Any, *, truncated: bool) -> dict[str, Any]:
    value = raw
    for _ in range(3):  # JSON text, and JSON text within JSON text
        if isinstance(value, dict):
            return value
        if isinstance(value, (bytes, bytearray)):
            value = bytes(value).decode("utf-8", "replace")
        if value is None or (isinstance(value, str) and not value.strip()):
            if truncated:
                raise ArgumentsError(_cut_off(value or ""))
            return {}
        if not isinstance(value, str):
            break
        value = _parse(value, truncated=truncated)
    if isinstance(value, dict):
        return value
    raise ArgumentsError(_not_object(value))


def _parse(text: str, *, truncated: bool) -> Any:
    """Return what the text holds; the text itself when it is no JSON and no object was meant."""
    bare = text.strip()
    if len(bare) > _MAX_TEXT_CHARS:
        raise ArgumentsError(f"are too long ({len(bare)} characters)")
    if bare.startswith("```"):
        fenced = _FENCE.match(bare)
        bare = fenced.group(1) if fenced else bare
    try:
        return _DECODER.decode(bare)
    except RecursionError:
        raise ArgumentsError("are nested too deeply") from None
    except json.JSONDecodeError:
        pass
    except ValueError:
        raise ArgumentsError("hold a number of too many digits") from None
    if not bare.startswith(("{", "```{", "```json")):
        if truncated:
            raise ArgumentsError(_cut_off(text))
        raise ArgumentsError(_not_object(text))
    if truncated or not _is_closed(bare):
        raise ArgumentsError(_cut_off(text))
    return _repair(bare)


def _is_closed(text: str) -> bool:
    """Whether the text's first bracket is closed at its end; strings in either quotes are skipped over.

    Judged on the safe side: damage that makes the end uncertain counts as cut off.
    """
    depth = 0
    closed = False
    quote = ""
    escaped = False
    for char in text:
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "\"'":
            if closed:
                return False
            quote = char
        elif char in "{[":
            if closed:
                return False
            depth += 1
        elif char in "}]":
            depth -= 1
            closed = depth <= 0
        elif closed and not char.isspace() and char not in ";`":
            return False
    return closed and not quote


def _repair(text: str) -> dict[str, Any]:
    """Mend quotes, commas and brackets. A repair that would lose or invent a word is no repair."""
    repaired: Any = None
    if len(text) <= _MAX_REPAIR_CHARS:
        try:
            import json_repair  # 10 ms of the start, for what a sound model never needs

            repaired = json_repair.loads(text, skip_json_loads=True)
        except (ValueError, RecursionError, TypeError, IndexError, KeyError):
            repaired = None
    if not isinstance(repaired, dict) or _words(text) != _words(json.dumps(repaired, ensure_ascii=False)):
        raise ArgumentsError("are not valid JSON. They must be a JSON object; check quotes, commas and brackets.")
    return repaired


def _words(text: str) -> str:
    plain = _ESCAPE.sub("", text).lower()
    return "".join(char for char in plain if char.isalnum()).replace("none", "null")
