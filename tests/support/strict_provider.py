"""What the strictest chat-completions providers refuse, as a checker that knows nothing of the governor."""

from __future__ import annotations

import json
import re
from typing import Any

FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def _content_violations(role: str, content: Any) -> list[str]:
    if isinstance(content, str):
        found = [] if content.strip() else ["empty content"]
        try:
            content.encode()
        except UnicodeEncodeError:
            found.append("content is not valid Unicode")
        return found
    if not isinstance(content, list) or not content or role != "user":
        return [f"content {content!r:.60} is no text"]
    found = []
    for block in content:
        if block.get("type") == "text" and set(block) == {"type", "text"}:
            found += _content_violations("block", block["text"])
        elif block.get("type") == "image_url" and set(block) == {"type", "image_url"}:
            url = block["image_url"].get("url")
            if not isinstance(url, str) or not re.match(r"https?://|data:image/", url):
                found.append("picture without a usable address")
        else:
            found.append(f"unknown block {block!r:.60}")
    return found


def _call_violations(call: Any) -> list[str]:
    if not isinstance(call, dict) or set(call) != {"id", "type", "function"} or call["type"] != "function":
        return [f"no tool call: {call!r:.60}"]
    found = []
    if not isinstance(call["id"], str) or not call["id"].strip() or len(call["id"]) > 64:
        found.append(f"call id {call['id']!r:.80}")
    function = call["function"]
    if set(function) != {"name", "arguments"}:
        return [*found, "function with other fields"]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
        found.append(f"function name {function['name']!r:.80}")
    try:
        if not isinstance(json.loads(function["arguments"]), dict):
            found.append("arguments are no object")
    except (TypeError, ValueError):
        found.append("arguments are no JSON")
    return found


def violations(messages: list[Any]) -> list[str]:
    """Return every rule the request's messages break; [] means accepted."""
    found: list[str] = []
    seen_ids: set[str] = set()
    expected: list[str] = []
    roles: list[Any] = []
    for index, row in enumerate(messages):
        role = row.get("role")
        roles.append(role)
        if role not in FIELDS:
            found.append(f"{index}: role {role!r}")
            continue
        if not set(row) <= FIELDS[role]:
            found.append(f"{index}: fields {sorted(map(str, row))}")
        found += [f"{index}: {why}" for why in _content_violations(role, row.get("content"))]
        if role == "tool":
            if not expected or row.get("tool_call_id") != expected[0]:
                found.append(f"{index}: result {row.get('tool_call_id')!r} where {expected[:1]} is due")
            expected = expected[1:]
            continue
        if expected:
            found.append(f"{index}: calls {expected} have no result")
            expected = []
        if "tool_calls" in row:
            if not row["tool_calls"]:
                found.append(f"{index}: empty tool_calls")
            for call in row["tool_calls"]:
                found += [f"{index}: {why}" for why in _call_violations(call)]
                if call.get("id") in seen_ids:
                    found.append(f"{index}: id {call['id']!r} twice")
                seen_ids.add(call.get("id"))
                expected.append(call.get("id"))
    if expected:
        found.append(f"end: calls {expected} have no result")
    conversation = [role for role in roles if role != "system"]
    if "system" in roles[1:]:
        found.append("a system message that is not the first message")
    if not conversation or conversation[0] != "user":
        found.append(f"the conversation begins with {conversation[:1]}")
    if conversation and conversation[-1] == "assistant":
        found.append("the conversation ends with the assistant")
    return found
