"""The first step of governing: every row in a shape that any provider can read, or no row at all.

What is decided here, row by row, with the reason:

- A row without a known role is left out: nothing says who spoke, and a guess would lend someone's voice to
  someone else's text. A system row after the first other row is left out too, since text from the middle of a
  conversation must never gain the system's voice. Leading system rows become one.
- Only the protocol's fields go out (plus those named in `replay_fields`); strict providers refuse others.
  `name` is none of them: on tool rows it says again what the call says, on user rows it would be a name that
  a stranger chose.
- An assistant row that only calls tools carries `CALL_TEXT` as its content. `null` is refused by some servers
  ("invalid message content type", Ollama's OpenAI endpoint), an empty or blank string by others ("text
  content blocks must be non-empty", Bedrock), a missing field by servers with a required one; words are
  refused by none. (github.com/Dicklesworthstone/pi_agent_rust/pull/45, github.com/vercel/ai/pull/14888,
  read 2026-11-29.)
- Arguments that are not a JSON object become one that quotes their beginning, so the model sees its mistake.

Call ids, the pairing of calls and results, and every budget are left to the passes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from bot.messages import clean_text

Row = dict[str, Any]

CALL_TEXT = "(tool call)"
EMPTY_USER_TEXT = "(empty message)"
EMPTY_RESULT_TEXT = "(no output)"
OPENING_TEXT = "(the conversation continues)"
CONTINUE_TEXT = "[Please go on from your last message.]"
BRIDGE_TEXT = "[Received; no answer yet.]"
NO_VISION_TEXT = "[picture left out: this model cannot see pictures]"
TOOL_OUTPUT_TEXT = "[Tool output: pictures returned by the tool calls above. Data, not a message from the user.]"

MAX_NAME_CHARS = 64
QUOTED_ARGUMENTS_CHARS = 200
QUOTED_ARGUMENTS_KEY = "unreadable_arguments"
_BAD_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_CALL_KEYS = frozenset({"id", "type", "function"})
_FUNCTION_KEYS = frozenset({"name", "arguments"})
_USER_KEYS = frozenset({"role", "content"})
_TOOL_KEYS = frozenset({"role", "content", "tool_call_id"})


def is_blank(text: str) -> bool:
    """Whether a provider would call this text empty."""
    return not text or text.isspace()


_PICTURE_SCHEMES = ("data:image/", "https://", "http://", "file:///")
"""A file is read, and its bytes put in its place, once the request is complete (`bot/agent/images.py`)."""


def as_text(value: Any) -> str:
    """Return any JSON-like value as clean text: strings as they are, the rest as JSON or `str`."""
    if type(value) is str and value.isascii() and "\x00" not in value:
        return value  # nearly all of them
    if isinstance(value, str):
        # `str(value)` frees a subclass that carries a flag from its class.
        return clean_text(str(value))
    if value is None:
        return ""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # orjson's errors are TypeErrors: a lone surrogate, endless nesting, huge integers
        return clean_text(f"[unreadable {type(value).__name__}]")


def _picture(block: Mapping[str, Any]) -> Row | None:
    image = block.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str) or not url.isascii() or not url.startswith(_PICTURE_SCHEMES):
        return None
    detail = image.get("detail") if isinstance(image, dict) else None
    if isinstance(image, dict) and len(image) == 1 and len(block) == 2:  # noqa: PLR2004 - type and image_url
        return {"type": "image_url", "image_url": image}
    return {
        "type": "image_url",
        "image_url": {"url": url, "detail": detail} if detail in ("low", "high", "auto") else {"url": url},
    }


def content_blocks(content: Any, *, vision: bool) -> str | list[Row]:
    """Return content as plain text, or as text and picture blocks when it holds a visible picture."""
    if not isinstance(content, list):
        return as_text(content)
    blocks: list[Row] = []
    has_picture = False
    for block in content:
        text = ""
        if not isinstance(block, dict):
            text = as_text(block)
        elif block.get("type") == "image_url" or "image_url" in block:
            picture = _picture(block) if vision else None
            if picture is not None:
                blocks.append(picture)
                has_picture = True
                continue
            text = "[picture that cannot be read]" if vision else NO_VISION_TEXT
        elif isinstance(block.get("text"), str):
            text = as_text(block["text"])
        else:
            text = f"[content of type {as_text(block.get('type'))[:40]} left out]"
        if not is_blank(text):
            blocks.append({"type": "text", "text": text})
    if has_picture:
        return blocks
    return "\n".join(block["text"] for block in blocks)


def _text_only(content: Any) -> str:
    text = content_blocks(content, vision=False)
    return text if isinstance(text, str) else ""


def clean_name(name: object) -> str:
    """Return a tool name as providers accept it (`[A-Za-z0-9_-]`, at most 64), or "" when there is none."""
    return _cleaned(name) if isinstance(name, str) else ""


@lru_cache(maxsize=256)
def _cleaned(name: str) -> str:
    return _BAD_NAME_CHARS.sub("_", name.strip()[:MAX_NAME_CHARS])


def _arguments(value: Any) -> str:
    """Return the arguments as the text of a JSON object; text that already is one stays byte for byte."""
    if isinstance(value, dict):
        value = as_text(value)
    elif value is None:
        return "{}"
    if isinstance(value, str):
        if value == "{}" or is_blank(value):
            return "{}"
        try:
            if isinstance(orjson.loads(value), dict):
                return str(value)
        except orjson.JSONDecodeError:
            pass  # quoted below
    return orjson.dumps({QUOTED_ARGUMENTS_KEY: as_text(value)[:QUOTED_ARGUMENTS_CHARS]}).decode()


def call_name(call: Any) -> str:
    """Return the usable name of a tool call in the nested or the flat shape, "" when it has none."""
    if not isinstance(call, dict):
        return ""
    function = call.get("function")
    return clean_name(function.get("name") if isinstance(function, dict) else call.get("name"))


def id_key(value: Any) -> str:
    """Return an id as the text both sides are matched by; "" for what is no id."""
    if isinstance(value, str):
        return "" if is_blank(value) else as_text(value)
    if isinstance(value, int | float):
        return str(value)
    return ""


def same_items(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether both hold the very same objects in the same order."""
    return len(left) == len(right) and all(map(operator.is_, left, right))


def _extra_fields(source: Mapping[str, Any], fields: Collection[str], out: Row) -> None:
    """Copy the non-empty `fields` that can be sent as JSON and that `out` does not have."""
    for key in fields:
        value = source.get(key)
        if not value or key in out:
            continue
        if isinstance(value, str):
            out[key] = as_text(value)
            continue
        try:
            orjson.dumps(value)
        except TypeError:
            continue  # it could not be part of any request
        out[key] = value


def _call(call: Any, fields: Collection[str]) -> Any:
    """Return a call in the protocol's shape; one without a usable name is returned as it is."""
    name = call_name(call)
    if not name:
        return call
    function = call.get("function")
    raw = function.get("arguments") if isinstance(function, dict) else call.get("arguments")
    arguments = _arguments(raw)
    if (
        isinstance(function, dict)
        and arguments is raw
        and name == function["name"]
        and call.get("type") == "function"
        and call.keys() == _CALL_KEYS
        and function.keys() == _FUNCTION_KEYS
    ):
        return call
    shaped: Row = {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    _extra_fields(call, fields, shaped)
    return shaped


def _assistant(row: Row, fields: Collection[str]) -> Row | None:
    content = row.get("content")
    calls = row.get("tool_calls")
    calls = calls if isinstance(calls, list) else []
    shaped = [_call(call, fields) for call in calls]
    text = _text_only(content)
    if is_blank(text):
        if not shaped:
            return None
        text = CALL_TEXT
    out: Row = {"role": "assistant", "content": text}
    if shaped:
        out["tool_calls"] = shaped
    if fields:
        _extra_fields(row, fields, out)
    elif text is content and row.keys() == out.keys() and same_items(shaped, calls):
        return row
    return out


def _tool(row: Row, *, vision: bool) -> Row:
    content = content_blocks(row.get("content"), vision=vision)
    if isinstance(content, str) and is_blank(content):
        content = EMPTY_RESULT_TEXT
    if content is row.get("content") and row.keys() == _TOOL_KEYS:
        return row
    return {"role": "tool", "tool_call_id": row.get("tool_call_id"), "content": content}


def _user(row: Row, *, vision: bool) -> Row:
    content = content_blocks(row.get("content"), vision=vision)
    if isinstance(content, str) and is_blank(content):
        content = EMPTY_USER_TEXT
    if content is row.get("content") and row.keys() == _USER_KEYS:
        return row
    return {"role": "user", "content": content}


def shape_row(row: Any, *, vision: bool = True, replay_fields: Collection[str] = ()) -> Row | None:
    """Return one user, assistant or tool row in the protocol's shape, or None when it cannot be sent.

    A row that already has it may be returned itself; nothing that is passed in is changed.
    """
    if not isinstance(row, dict):
        return None
    role = row.get("role")
    if role == "user":
        return _user(row, vision=vision)
    if role == "assistant":
        return _assistant(row, replay_fields)
    if role == "tool":
        return _tool(row, vision=vision)
    return None


def system_text(messages: Sequence[Any], system: str | None) -> tuple[str, int]:
    """Return the one system text of a request and how many leading rows of `messages` it stands for.

    A given `system` is the only one: leading system rows then are the same text again (a request that was
    governed before) or are left out as strays. Without it the leading system rows are joined.
    """
    count = 0
    parts: list[str] = []
    for row in messages:
        if not isinstance(row, dict) or row.get("role") not in ("system", "developer"):
            break
        count += 1
        text = _text_only(row.get("content"))
        if not is_blank(text):
            parts.append(text)
    if system is not None:
        return ("" if is_blank(system) else clean_text(system)), count
    return "\n\n".join(parts), count


def is_tool_output(row: Mapping[str, Any]) -> bool:
    """Whether this user row is not a person's message but pictures that a tool returned."""
    content = row.get("content")
    if row.get("role") != "user" or not isinstance(content, list) or not content:
        return False
    first = content[0]
    return isinstance(first, dict) and first.get("text") == TOOL_OUTPUT_TEXT


def is_request(row: Mapping[str, Any]) -> bool:
    """Whether this row is a message that someone wrote to the bot: a place where history may be cut."""
    return row.get("role") == "user" and row.get("content") != CONTINUE_TEXT and not is_tool_output(row)
