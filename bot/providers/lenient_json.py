"""JSON as endpoints really send it: strict and fast first, then with what only a lenient reader takes.

Servers escape half a surrogate pair when a token ends inside an emoji, write NaN for a probability, put a byte
order mark in front, or declare another encoding. None of that may cost an answer.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def read_json(data: bytes) -> Any:
    """Return the value; its strings may hold lone surrogates, which `clean_text` takes out.

    Raises:
        ValueError: not JSON under any reading.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as strict:
        try:
            return json.loads(data.decode("utf-8-sig", errors="replace"))
        except RecursionError:
            raise strict from None


def write_json(value: Any) -> str:
    """Return a value that `read_json` gave as text, lone surrogates included."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
