"""The repair passes: calls and results stand together, each call is answered once, nothing hangs loose.

Each pass is a pure function over a list of OpenAI-style messages of any shape. It returns the same list
object when there is nothing to mend, else a new list that shares every unchanged message with the old one.
Sizes and budgets are left to `governor_budget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.agent.governor_rows import CALL_TEXT, Row, call_name, id_key, is_blank, same_items

INTERRUPTED_TEXT = (
    "[No result: the call was interrupted before it finished. It may or may not have had an effect.]"
)
PLACEHOLDER_TEXTS = frozenset({CALL_TEXT, "[Previous assistant message omitted.]"})


def _role(row: Any) -> Any:
    return row.get("role") if isinstance(row, dict) else None


def _calls(row: Any) -> list[Any]:
    """Return the calls of an assistant row; [] for every other row or shape."""
    if isinstance(row, dict) and row.get("role") == "assistant":
        calls = row.get("tool_calls")
        if isinstance(calls, list):
            return calls
    return []


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
        elif content and not (
            isinstance(content, str) and (is_blank(content) or content in PLACEHOLDER_TEXTS)
        ):
            out.append(mended)
    return out if changed else messages


def drop_orphan_tool_results(messages: list[Any]) -> list[Any]:
    """Leave out results that answer no earlier call, or one that is answered already."""
    owners = Pairing(messages).owners
    kept = [row for index, row in enumerate(messages) if _role(row) != "tool" or index in owners]
    return messages if len(kept) == len(messages) else kept


def backfill_missing_tool_results(messages: list[Any]) -> list[Any]:
    """Put every result right behind its call's message, in the calls' order, a note where there is none."""
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
    note: Row = {"role": "tool", "tool_call_id": id_key(call.get("id")), "content": INTERRUPTED_TEXT}
    name = call_name(call)
    if name:
        note["name"] = name
    return note
