"""The repair passes: calls and results stand together, each call is answered once, nothing hangs loose.

Each pass is a pure function over a list of OpenAI-style messages of any shape. It returns the same list
object when there is nothing to mend, else a new list that shares every unchanged message with the old one.
Sizes and budgets are left to `governor_budget`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from bot.agent.governor_rows import BRIDGE_TEXT, CALL_TEXT, Row, as_text, call_name, id_key, is_blank, same_items

INTERRUPTED_TEXT = "[No result: the call was interrupted before it finished. It may or may not have had an effect.]"
MAX_ID_CHARS = 64
# What Bedrock takes (docs.aws.amazon.com, API_runtime_ToolUseBlockStart, read 2026-11-30); also `functions.cron:0`.
_USABLE_ID = re.compile(rf"[A-Za-z0-9_.:-]{{1,{MAX_ID_CHARS}}}")
PLACEHOLDER_TEXTS = frozenset({CALL_TEXT, BRIDGE_TEXT, "[Previous assistant message omitted.]"})


def _role(row: Any) -> Any:
    return row.get("role") if isinstance(row, dict) else None


def _calls(row: Any) -> list[Any]:
    """Return the calls of an assistant row; [] for every other row or shape."""
    if isinstance(row, dict) and row.get("role") == "assistant":
        calls = row.get("tool_calls")
        if isinstance(calls, list):
            return calls
    return []


def is_tidy(messages: Sequence[Any]) -> bool:
    """Whether each call has a usable id and its result in its place, so that there is nothing to pair."""
    waiting: list[Any] = []
    for row in messages:
        if not isinstance(row, dict):
            return False
        role = row.get("role")
        if role == "tool":
            if not waiting or row.get("tool_call_id") != waiting.pop():
                return False
            continue
        if waiting:
            return False
        if role == "assistant" and row.get("tool_calls"):
            calls = row["tool_calls"]
            if not isinstance(calls, list):
                return False
            waiting = [call.get("id") if isinstance(call, dict) else None for call in calls]
            if not all(isinstance(key, str) and id_key(key) == key for key in waiting):
                return False
            if len(waiting) > 1:
                if len(set(waiting)) < len(waiting):
                    return False
                waiting.reverse()
    return not waiting


class Pairing:
    """Which result answers which call.

    A result answers the latest earlier call with its id that has no answer yet; among calls of one message
    with the same id (or with none) the first. An id that is declared again belongs to the later message.
    """

    def __init__(self, messages: Sequence[Any]) -> None:
        self.owners: dict[int, tuple[int, int]] = {}  # result row -> (assistant row, position of the call)
        self.answers: dict[tuple[int, int], int] = {}  # and back
        unanswered: dict[str, list[tuple[int, int]]] = {}
        for index, row in enumerate(messages):
            calls = _calls(row)
            if calls:
                keys = [id_key(call.get("id")) if isinstance(call, dict) else None for call in calls]
                for key in keys:
                    if key is not None:
                        unanswered[key] = []
                for position, key in enumerate(keys):
                    if key is not None:
                        unanswered[key].append((index, position))
            elif _role(row) == "tool":
                waiting = unanswered.get(id_key(row.get("tool_call_id")))
                if waiting:
                    owner = waiting.pop(0)
                    self.owners[index] = owner
                    self.answers[owner] = index
        self.declared = unanswered.keys()
        self.unanswered = {key for key, waiting in unanswered.items() if waiting}


def _new_call_id(call: Row, taken: dict[str, int]) -> str:
    """Return a free id for a call, derived from its id or its content, so that it is the same next time."""
    given = id_key(call.get("id"))
    stem = given
    if len(given) > MAX_ID_CHARS - 8 or not _USABLE_ID.fullmatch(given):  # room for a number
        seed = given or as_text(call.get("function"))
        stem = f"call_{hashlib.sha256(seed.encode()).hexdigest()[:16]}"
        if stem not in taken:
            return stem
    number = max(2, taken.get(stem, 0))
    while f"{stem}-{number}" in taken:
        number += 1
    taken[stem] = number + 1  # some models call every id call_0: do not count from 2 each time
    return f"{stem}-{number}"


def unique_call_ids(rows: list[Row], taken: dict[str, int], *, tidy: bool | None = None) -> list[Row]:
    """Return the rows with unique call ids of 1-64 usual characters, changed on call and result alike.

    Ids are kept as given; only empty, overlong, odd and repeated ones get a new one. `taken` maps the ids of
    earlier rows to the number to try next when one comes again, and learns the new ones. A result that
    answers no call gets an empty id, so that it can match no id made here. `tidy` is `is_tidy(rows)` for a
    caller that knows it.
    """
    if is_tidy(rows) if tidy is None else tidy:
        ids = [call["id"] for row in rows for call in _calls(row)]
        if len(set(ids)) == len(ids) and not any(key in taken or not _USABLE_ID.fullmatch(key) for key in ids):
            taken.update(dict.fromkeys(ids, 0))
            return rows
    owners = Pairing(rows).owners
    out = list(rows)
    fresh: dict[tuple[int, int], str] = {}
    for index, row in enumerate(rows):
        calls = _calls(row)
        if calls:
            out[index] = {**row, "tool_calls": list(calls)}
        for position, call in enumerate(calls):
            if not isinstance(call, dict):
                continue
            key = id_key(call.get("id"))
            if key in taken or not _USABLE_ID.fullmatch(key):
                key = _new_call_id(call, taken)
            taken.setdefault(key, 0)
            fresh[index, position] = key
            if key != call.get("id"):
                out[index]["tool_calls"][position] = {**call, "id": key}
        if row.get("role") == "tool":
            key = fresh[owners[index]] if index in owners else ""
            if row.get("tool_call_id") != key:
                out[index] = {**row, "tool_call_id": key}
    return out


def strip_placeholder_assistant_messages(messages: list[Any]) -> list[Any]:
    """Leave out assistant messages that say nothing but a placeholder and call no tool."""

    def says_nothing(row: Any) -> bool:
        if _role(row) != "assistant" or row.get("tool_calls"):
            return False
        content = row.get("content")
        return isinstance(content, str) and len(content) < 80 and content.strip() in PLACEHOLDER_TEXTS  # noqa: PLR2004

    kept = [row for row in messages if not says_nothing(row)]
    return messages if len(kept) == len(messages) else kept


def strip_malformed_tool_calls(messages: list[Any]) -> list[Any]:
    """Leave out calls without a usable name, and the message if nothing else is in it.

    Their results become orphans, which the next pass leaves out.
    """
    out: list[Any] = []
    changed = False
    for row in messages:
        if _role(row) != "assistant" or not row.get("tool_calls"):
            out.append(row)
            continue
        calls = _calls(row)
        kept = [call for call in calls if call_name(call)]
        if kept and len(kept) == len(calls):
            out.append(row)
            continue
        changed = True
        mended = {key: value for key, value in row.items() if key != "tool_calls"}
        content = mended.get("content")
        if kept:
            mended["tool_calls"] = kept
            out.append(mended)
        elif content and not (isinstance(content, str) and (is_blank(content) or content in PLACEHOLDER_TEXTS)):
            out.append(mended)
    return out if changed else messages


def drop_orphan_tool_results(messages: list[Any]) -> list[Any]:
    """Leave out results that answer no earlier call, or one that is answered already."""
    if is_tidy(messages):
        return messages
    owners = Pairing(messages).owners
    kept = [row for index, row in enumerate(messages) if _role(row) != "tool" or index in owners]
    return messages if len(kept) == len(messages) else kept


def backfill_missing_tool_results(messages: list[Any]) -> list[Any]:
    """Put every result right behind its call's message, in the calls' order, a note where there is none."""
    if is_tidy(messages):
        return messages
    pairing = Pairing(messages)
    out: list[Any] = []
    for index, row in enumerate(messages):
        if index in pairing.owners:
            continue
        out.append(row)
        for position, call in enumerate(_calls(row)):
            if not isinstance(call, dict):
                continue
            answer = pairing.answers.get((index, position))
            out.append(_interrupted(call) if answer is None else messages[answer])
    return messages if same_items(out, messages) else out


def _interrupted(call: Row) -> Row:
    return {"role": "tool", "tool_call_id": id_key(call.get("id")), "content": INTERRUPTED_TEXT}
