"""Ids of tool calls. A result belongs to its call by id alone, so ids must be there and be different."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from bot.messages import ToolCall, clean_text, new_id
from bot.records import Message

_ID_CHARS = 12
_KEPT_CHARS = 48  # providers take ids of up to 64 characters


def call_ids(rows: Iterable[Message]) -> set[str]:
    """Return the ids of all calls in rows of history, whatever shape those have."""
    found: set[str] = set()
    for row in rows:
        calls = row.get("tool_calls")
        if isinstance(calls, list):
            found.update(str(call.get("id")) for call in calls if isinstance(call, dict))
    return found


def with_unique_ids(calls: Iterable[ToolCall], taken: Collection[str] = ()) -> list[ToolCall]:
    """Return the calls with an id each: given ones are kept, missing and repeated ones are made.

    `taken` are ids of earlier calls of the same history. Do this once per reply, before anything is run or
    saved: made ids are random.
    """
    used = set(taken)
    result: list[ToolCall] = []
    for call in calls:
        kept = replace(call, id=clean_text(call.id or ""))  # ids are stored, too
        while not kept.id.strip() or kept.id in used:
            # A repeated id stays in front: the stand-in knows its own calls by how their ids begin.
            known = kept.id if kept.id.strip() else "call"
            kept = replace(call, id=f"{known[:_KEPT_CHARS]}-{new_id('', _ID_CHARS)}")
        used.add(kept.id)
        result.append(kept)
    return result
