"""Making one turn fit that is too large by itself: shorter texts first, fewer steps last.

Used when dropping older turns is not enough. Everything that goes leaves a visible note. Which history is
dropped before it comes to this is left to `governor_budget`.
"""

from __future__ import annotations

from typing import Any

import orjson

from bot.agent.governor_order import is_bridge, join_answers
from bot.agent.governor_rows import CALL_TEXT, Row, is_tool_output
from bot.agent.tokens import CALL_OVERHEAD_TOKENS, ROW_OVERHEAD_TOKENS, estimate_message, estimate_text

STEPS_LEFT_OUT_TEXT = "[Earlier steps of this turn were left out to fit the model's context window.]"
PICTURE_LEFT_OUT_TEXT = "[picture left out to fit the model's context window]"
ARGUMENTS_LEFT_OUT_KEY = "left_out"
MIN_ROW_TOKENS = 40  # below this a shortened message is little but its note
_NOTE_ROOM_CHARS = 80


def cut_middle(text: str, limit_chars: int) -> str:
    """Return `text` within about `limit_chars`: its head, a note with the numbers, its tail."""
    if len(text) <= limit_chars:
        return text
    room = max(0, limit_chars - _NOTE_ROOM_CHARS)
    head, tail = room * 2 // 3, room // 3
    note = f"\n[... {len(text) - head - tail:,} of {len(text):,} characters left out ...]\n"
    return text[:head] + note + (text[-tail:] if tail else "")


def fit_text(text: str, limit_tokens: int) -> str:
    """Return `text` cut in the middle to `limit_tokens` estimated tokens (the note alone may be more)."""
    cost = estimate_text(text)
    chars = len(text)
    while cost > limit_tokens and chars > 0:
        chars = min(chars - 1, int(chars * max(limit_tokens, 1) / cost * 0.95))
        short = cut_middle(text, chars)
        cost = estimate_text(short)
        if cost <= limit_tokens or chars <= _NOTE_ROOM_CHARS:
            return short
    return text


def _shorten_calls(row: Row, limit_tokens: int) -> Row:
    calls: list[Any] = row["tool_calls"]
    share = max(0, limit_tokens // max(1, len(calls)) - 2 * CALL_OVERHEAD_TOKENS)
    out = []
    for call in calls:
        arguments = call["function"]["arguments"]
        if estimate_text(arguments) > share and len(arguments) > _NOTE_ROOM_CHARS:
            note = {ARGUMENTS_LEFT_OUT_KEY: f"{len(arguments):,} characters of arguments"}
            function = {**call["function"], "arguments": orjson.dumps(note).decode()}
            out.append({"id": call["id"], "type": "function", "function": function})
        else:
            out.append({key: call[key] for key in ("id", "type", "function")})
    return {"role": "assistant", "content": row["content"], "tool_calls": out}


def _shorten_blocks(content: list[Row], limit_tokens: int) -> str | list[Row]:
    """Keep texts, shortened, and as many pictures from the front as fit beside them."""
    text = "\n".join(block["text"] for block in content if "text" in block)
    if estimate_text(text) > limit_tokens // 2:
        text = fit_text(text, limit_tokens // 2)
    blocks: list[Row] = [{"type": "text", "text": text}] if text else []
    for block in content:
        if "image_url" in block and estimate_message({"content": [*blocks, block]}) <= limit_tokens:
            blocks.append(block)
    if not any("image_url" in block for block in blocks):
        return f"{text}\n{PICTURE_LEFT_OUT_TEXT}" if text else PICTURE_LEFT_OUT_TEXT
    return blocks


def shorten_row(row: Row, limit_tokens: int) -> Row:
    """Return the governed row cut to about `limit_tokens`; a row that already fits is returned itself."""
    if estimate_message(row) <= limit_tokens:
        return row
    content = row["content"]
    out = row
    if row.get("tool_calls"):
        out = _shorten_calls(row, limit_tokens)
    elif row["role"] == "assistant":
        out = {"role": "assistant", "content": content}  # reasoning fields are the first to go
    if estimate_message(out) <= limit_tokens:
        return out
    if isinstance(content, list):
        return {**out, "content": _shorten_blocks(content, limit_tokens - ROW_OVERHEAD_TOKENS)}
    others = estimate_message({**out, "content": ""})
    short = fit_text(content, max(1, limit_tokens - others))
    if row.get("tool_calls") and others + estimate_text(short) > limit_tokens:
        short = CALL_TEXT
    return {**out, "content": short}


def _cap(tokens: list[int], budget: int) -> int:
    """Return the largest c such that the sum of min(t, c) is within `budget`: the longest give way alone."""
    left, rest = budget, len(tokens)
    for value in sorted(tokens):
        if value * rest > left:
            return left // rest
        left -= value
        rest -= 1
    return budget


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Split rows into units that must stay together: a message with its results and their pictures."""
    groups: list[list[Row]] = []
    for row in rows:
        if groups and (row["role"] in ("tool", "user") or is_bridge(row)):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _without_large_pictures(rows: list[Row], cap: int) -> list[Row]:
    """Leave out tool pictures that cost more than `cap` tokens, with a note in the result before them."""
    out: list[Row] = []
    for row in rows:
        if out and is_tool_output(row) and estimate_message(row) > cap:
            if len(out) > 1 and is_bridge(out[-1]):
                out.pop()
            out[-1] = {**out[-1], "content": f"{out[-1]['content']}\n{PICTURE_LEFT_OUT_TEXT}"}
        else:
            out.append(row)
    return out


def _preview_results(rows: list[Row], *, budget: int, preview_chars: int) -> tuple[list[Row], int]:
    """Return the rows with as many results as needed cut to previews, largest first, and their tokens."""
    out = list(rows)
    tokens = [estimate_message(row) for row in out]
    total = sum(tokens)
    results = [index for index, row in enumerate(out) if row["role"] == "tool"]
    for index in sorted(results, key=lambda index: -tokens[index]):
        if total <= budget:
            break
        out[index] = {**out[index], "content": cut_middle(out[index]["content"], preview_chars)}
        total += estimate_message(out[index]) - tokens[index]
    return out, total


def _with_note(row: Row, note: str) -> Row:
    content = row["content"]
    if isinstance(content, str):
        return {**row, "content": f"{content}\n{note}"}
    return {**row, "content": [*content, {"type": "text", "text": note}]}


def squeeze(rows: list[Row], *, budget: int, preview_chars: int) -> list[Row]:
    """Return one turn (its message first) within `budget` tokens.

    Tool results become previews, largest first; then the longest messages are shortened to a common length;
    then the oldest steps are left out; the message itself is shortened last and always stays.
    """
    out, total = _preview_results(rows, budget=budget, preview_chars=preview_chars)
    if total <= budget:
        return out
    cap = max(MIN_ROW_TOKENS, _cap([estimate_message(row) for row in out], budget))
    out = [shorten_row(row, cap) for row in _without_large_pictures(out, cap)]
    if sum(map(estimate_message, out)) <= budget:
        return out
    note: Row = {"role": "assistant", "content": STEPS_LEFT_OUT_TEXT}
    groups = _groups(out[1:])
    left = budget - estimate_message(note) - estimate_message(out[0])
    kept: list[list[Row]] = []
    while groups and (cost := sum(map(estimate_message, groups[-1]))) <= left:
        left -= cost
        kept.append(groups.pop())
    steps = [row for group in reversed(kept) for row in group]
    room = left + estimate_message(out[0])  # what was left out may leave room for more of the message
    message = shorten_row(rows[0], room)
    if estimate_message(message) > room:
        message = out[0]
    if not groups:
        return [message, *steps]
    if steps:
        return join_answers([message, note, *steps])
    return [_with_note(message, STEPS_LEFT_OUT_TEXT)]
