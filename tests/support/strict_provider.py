"""The strictest chat-completions provider there could be: it refuses whatever any of them refuses.

`violations` knows nothing of the governor. Its rules, each with who insists on it:

- Only known roles and fields; one system message at most, and it is the first (templates of local servers).
- No null, empty or blank content, also not beside calls; system, assistant and tool messages carry text alone.
- Calls: an id of 1-64 characters out of `[A-Za-z0-9_.:-]` (Bedrock), unique in the request; a name out of
  `[A-Za-z0-9_-]{1,64}`; arguments that are the JSON text of an object, in the standard's JSON (no NaN).
- Each call is answered once, right behind its message, in the order of the calls; nothing else is answered.
- The first message is the user's and the last is not the assistant's. Between them roles take turns: no two user and no
  two assistant messages side by side (Mistral's and Gemma's templates), and tool results are followed by results or by
  the assistant, never by the user ("Unexpected role 'user' after role 'tool'", Mistral's API).
- Valid Unicode without NUL.
- Not longer than `limit_tokens`, by the estimate the product goes by: no provider's own count is at hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from itertools import pairwise
from typing import Any, NoReturn

from bot.agent.tokens import estimate_message

FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_FOLLOWERS = {
    "system": {"user"},
    "user": {"assistant"},
    "assistant": {"user", "tool"},
    "tool": {"tool", "assistant"},
}
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PICTURE = re.compile(r"https?://|data:image/|file:///")
"""A file's address stands for its bytes until the request goes out; on the wire it is refused (`openai_rules`)."""


def _text_violations(text: Any) -> list[str]:
    if not isinstance(text, str):
        return [f"content {text!r:.60} is no text"]
    found = [] if text.strip() else ["empty content"]
    if "\0" in text:
        found.append("content has a NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        found.append("content is not valid Unicode")
    return found


def _content_violations(role: str, content: Any) -> list[str]:
    if role != "user" or not isinstance(content, list):
        return _text_violations(content)
    found = [] if content else ["no content blocks"]
    for block in content:
        if not isinstance(block, dict):
            found.append(f"block {block!r:.60}")
        elif block.get("type") == "text" and set(block) == {"type", "text"}:
            found += _text_violations(block["text"])
        elif block.get("type") == "image_url" and set(block) == {"type", "image_url"}:
            found += _picture_violations(block["image_url"])
        else:
            found.append(f"unknown block {block!r:.60}")
    return found


def _picture_violations(image: Any) -> list[str]:
    if not isinstance(image, dict) or not {"url"} <= set(image) <= {"url", "detail"}:
        return [f"picture {image!r:.60}"]
    if not isinstance(image["url"], str) or not _PICTURE.match(image["url"]):
        return ["picture without a usable address"]
    return [] if image.get("detail", "auto") in ("auto", "low", "high") else ["picture of unknown detail"]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _call_violations(call: Any, fields: Collection[str]) -> list[str]:
    if (
        not isinstance(call, dict)
        or set(call) - set(fields) != {"id", "type", "function"}
        or call["type"] != "function"
    ):
        return [f"no tool call: {call!r:.60}"]
    found = []
    if not isinstance(call["id"], str) or not _ID.fullmatch(call["id"]):
        found.append(f"call id {call['id']!r:.80}")
    function = call["function"]
    if not isinstance(function, dict) or set(function) != {"name", "arguments"}:
        return [*found, "function with other fields"]
    if not isinstance(function["name"], str) or not _NAME.fullmatch(function["name"]):
        found.append(f"function name {function['name']!r:.80}")
    try:
        if not isinstance(json.loads(function["arguments"], parse_constant=_no_constant), dict):
            found.append("arguments are no object")
    except (TypeError, ValueError):
        found.append("arguments are no JSON")
    return found


def violations(
    messages: list[Any], *, limit_tokens: int | None = None, replay_fields: Collection[str] = ()
) -> list[str]:
    """Return every rule the request's messages break; [] means accepted.

    `replay_fields` are fields of assistant messages and calls that this provider takes beyond the usual ones.
    """
    found: list[str] = []
    for index, row in enumerate(messages):
        role = row.get("role") if isinstance(row, dict) else None
        if not isinstance(role, str) or role not in FIELDS:
            found.append(f"{index}: role {role!r:.60}")
            continue
        allowed = FIELDS[role] | (set(replay_fields) if role == "assistant" else set())
        if not set(row) <= allowed:
            found.append(f"{index}: fields {sorted(map(str, row))}")
        found += [f"{index}: {why}" for why in _content_violations(role, row.get("content"))]
    if found:
        return found  # what follows takes the rows' shape for granted
    found = [*_order_violations([row["role"] for row in messages]), *_pair_violations(messages, replay_fields)]
    if limit_tokens is not None and (cost := sum(map(estimate_message, messages))) > limit_tokens:
        found.append(f"{cost:,} tokens where {limit_tokens:,} are allowed")
    return found


def _order_violations(roles: list[str]) -> list[str]:
    found = []
    conversation = roles[1:] if roles[:1] == ["system"] else roles
    if not conversation or conversation[0] != "user":
        found.append(f"the conversation begins with {conversation[:1]}")
    if roles and roles[-1] in ("assistant", "system"):
        found.append(f"the conversation ends with the {roles[-1]}")
    for index, (before, role) in enumerate(pairwise(roles), start=1):
        if role not in _FOLLOWERS[before]:
            found.append(f"{index}: role {role!r} after role {before!r}")
    return found


def _pair_violations(messages: list[Any], replay_fields: Collection[str]) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    due: list[str] = []
    for index, row in enumerate(messages):
        if row["role"] == "tool":
            if not due or row.get("tool_call_id") != due[0]:
                found.append(f"{index}: result {row.get('tool_call_id')!r} where {due[:1]} is due")
            due = due[1:]
            continue
        if due:
            found.append(f"{index}: calls {due} have no result")
            due = []
        calls = row.get("tool_calls", ())
        if "tool_calls" in row and (not isinstance(calls, list) or not calls):
            found.append(f"{index}: tool_calls {calls!r:.60}")
            continue
        for call in calls:
            if problems := _call_violations(call, replay_fields):
                found += [f"{index}: {why}" for why in problems]
                continue
            if call["id"] in seen:
                found.append(f"{index}: id {call['id']!r} twice")
            seen.add(call["id"])
            due.append(call["id"])
    if due:
        found.append(f"end: calls {due} have no result")
    return found
