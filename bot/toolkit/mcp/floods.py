"""Bounds of what a server may say that nobody waits for: notices, questions, answers to nothing, parts of an answer.

The SDK takes a millisecond for each message and several for each part, on the event loop. What is beyond the bounds is
dropped or cut before it gets there.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

MAX_PARTS = 1_000
"""Parts of one answer (content blocks, contents of a resource, messages of a prompt)."""

_BURST, _PER_S = 200, 50.0
_NEVER_DROPPED = frozenset({"notifications/cancelled", "notifications/elicitation/complete"})


class _Bucket:
    """So many at once, and so many in a second."""

    def __init__(self) -> None:
        self._left = float(_BURST)
        self._at = monotonic()

    def is_empty(self) -> bool:
        """Take one out; say whether there was none."""
        now = monotonic()
        self._left = min(_BURST, self._left + (now - self._at) * _PER_S)
        self._at = now
        if self._left < 1:
            return True
        self._left -= 1
        return False


class Flood:
    """Counts what one session hears unasked, each kind by itself: much progress hides no question."""

    def __init__(self) -> None:
        self._notices, self._requests, self._strays = _Bucket(), _Bucket(), _Bucket()

    def is_too_much(self, method: str) -> bool:
        """Say whether a notification is one too many, and count it."""
        return method not in _NEVER_DROPPED and self._notices.is_empty()

    def is_request_too_much(self) -> bool:
        """Say whether a request of the server is one too many, and count it."""
        return self._requests.is_empty()

    def is_stray_too_much(self) -> bool:
        """Say whether an answer to nothing that was asked is one too many, and count it."""
        return self._strays.is_empty()


def cut_parts(result: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its lists of parts within the bounds; the last part then says what is missing."""
    changed: dict[str, Any] = {}
    for key, as_part in _PARTS.items():
        parts = result.get(key)
        if isinstance(parts, list) and len(parts) > MAX_PARTS:
            note = f"[cut here: the answer has {len(parts):,} parts]"
            changed[key] = [*parts[: MAX_PARTS - 1], as_part(note, parts)]
    return {**result, **changed} if changed else result


def _block(note: str, _parts: list[Any]) -> dict[str, Any]:
    return {"type": "text", "text": note}


def _contents(note: str, parts: list[Any]) -> dict[str, Any]:
    uri = parts[0].get("uri") if isinstance(parts[0], Mapping) else None
    return {"uri": uri if isinstance(uri, str) else "cut:", "text": note}


def _message(note: str, parts: list[Any]) -> dict[str, Any]:
    return {"role": "user", "content": _block(note, parts)}


_PARTS = {"content": _block, "contents": _contents, "messages": _message}
