"""The rules of strict chat-completions providers, as one pure checker over a request body.

Sources, read 2026-11-29: https://platform.openai.com/docs/api-reference/chat/create (fields, names, tools)
and the known refusals of stricter relatives: no empty text blocks, arguments that are an object, system
messages only at the start (chat templates of local servers), no unknown message fields. What single endpoints
differ in (the output limit's name, temperature, window) is `openai_endpoint`'s business.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_ID_CHARS = 64
MAX_TOOLS = 128

_BODY_FIELDS = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options"),
        *("max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "n", "seed", "user"),
        *(
            "metadata",
            "store",
            "response_format",
            "reasoning_effort",
            "frequency_penalty",
            "presence_penalty",
        ),
        *("logit_bias", "logprobs", "top_logprobs", "modalities", "prediction", "service_tier", "verbosity"),
        *("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "web_search_options"),
    }
)
_MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}
_SYSTEM = frozenset({"system", "developer"})


def check_request(body: Any) -> list[str]:
    """Return what a strict provider would refuse in a request body, in reading order; empty = accepted."""
    if not isinstance(body, dict):
        return ["the body is not an object"]
    problems = [f"unrecognized argument: {name}" for name in body if name not in _BODY_FIELDS]
    if not isinstance(body.get("model"), str) or not body["model"]:
        problems.append("model: missing")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        problems.append("messages: must be a non-empty array")
    elif not all(isinstance(message, dict) for message in messages):
        problems.append("messages: every item must be an object")
    else:
        for index, message in enumerate(messages):
            problems.extend(f"messages[{index}]: {why}" for why in _check_message(message))
        problems.extend(_check_order(messages))
        problems.extend(_check_pairs(messages))
    problems.extend(_check_tools(body))
    problems.extend(_check_numbers(body))
    return problems


def _check_message(message: dict[str, Any]) -> list[str]:
    role = message.get("role")
    if not isinstance(role, str) or role not in _MESSAGE_FIELDS:
        return [f"invalid role {role!r}"]
    problems = [f"unrecognized field {name!r}" for name in message if name not in _MESSAGE_FIELDS[role]]
    content = message.get("content")
    calls = message.get("tool_calls")
    if "tool_calls" in message:
        problems.extend(_check_calls(calls))
    if not (role == "assistant" and calls and content is None):
        problems.extend(_check_content(role, content))
    return problems


def _check_content(role: str, content: Any) -> list[str]:
    if isinstance(content, str):
        return [] if content.strip() else [f"content of the {role} message is empty"]
    if content is None:
        return [f"content of the {role} message is null"]
    if not isinstance(content, list):
        return [f"content of the {role} message must be a string or an array"]
    if not content:
        return [f"content of the {role} message is an empty array"]
    problems = []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            text = part.get("text")
            if not isinstance(text, str) or not text.strip():
                problems.append(f"content[{index}]: text content blocks must be non-empty")
        elif kind == "image_url" and role == "user":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else None
            if not isinstance(url, str) or not url.startswith(("data:image/", "https://", "http://")):
                problems.append(f"content[{index}]: image_url.url is not an image")
        elif not (kind in {"input_audio", "file"} and role == "user"):
            problems.append(f"content[{index}]: type {kind!r} is not allowed in a {role} message")
    return problems


def _check_calls(calls: Any) -> list[str]:
    if not isinstance(calls, list) or not calls:
        return ["tool_calls: must be a non-empty array"]
    problems = []
    for index, call in enumerate(calls):
        where = f"tool_calls[{index}]"
        if not isinstance(call, dict) or call.get("type") != "function":
            problems.append(f"{where}: type must be 'function'")
            continue
        if not isinstance(call.get("id"), str) or not 1 <= len(call["id"]) <= MAX_ID_CHARS:
            problems.append(f"{where}: id must be a string of 1 to {MAX_ID_CHARS} characters")
        function = call.get("function")
        if not isinstance(function, dict):
            problems.append(f"{where}: function is missing")
            continue
        if not NAME.fullmatch(str(function.get("name", ""))):
            problems.append(f"{where}: name {function.get('name')!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$")
        problems.extend(f"{where}: {why}" for why in _check_arguments(function.get("arguments")))
    return problems


def _check_arguments(arguments: Any) -> list[str]:
    if not isinstance(arguments, str):
        return ["arguments must be a string"]
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return [f"arguments are not valid JSON: {arguments[:60]!r}"]
    return [] if isinstance(value, dict) else ["arguments are not a JSON object"]


def _check_order(messages: list[dict[str, Any]]) -> list[str]:
    problems = []
    roles = [message.get("role") for message in messages]
    first = next((index for index, role in enumerate(roles) if role not in _SYSTEM), None)
    if first is None:
        return ["messages: there is no message from the user"]
    if roles[first] != "user":
        problems.append(f"messages[{first}]: the first message after the system's must be from the user")
    problems.extend(
        f"messages[{index}]: a system message must be at the beginning"
        for index, role in enumerate(roles)
        if role in _SYSTEM and index > first
    )
    if roles[-1] == "assistant":
        problems.append(f"messages[{len(roles) - 1}]: the last message must not be the assistant's")
    return problems


def _check_pairs(messages: list[dict[str, Any]]) -> list[str]:
    """Each call is answered once, in order, directly after; no result without its call; ids are unique."""
    problems = []
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            answered = message.get("tool_call_id")
            if waiting and answered == waiting[0]:
                waiting.pop(0)
            elif answered in waiting:
                problems.append(f"messages[{index}]: result {answered!r} is out of order, {waiting[0]!r} is next")
                waiting.remove(answered)
            else:
                problems.append(f"messages[{index}]: result {answered!r} answers no call directly before it")
            continue
        problems.extend(f"messages[{index}]: call {missing!r} before it has no result" for missing in waiting)
        waiting = []
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            call_id = str(call.get("id")) if isinstance(call, dict) else ""
            if call_id in seen:
                problems.append(f"messages[{index}]: call id {call_id!r} is used twice")
            seen.add(call_id)
            waiting.append(call_id)
    problems.extend(f"messages: call {missing!r} has no result" for missing in waiting)
    return problems


def _check_tools(body: dict[str, Any]) -> list[str]:
    if "tools" not in body:
        return [f"{name}: only allowed with tools" for name in ("tool_choice", "parallel_tool_calls") if name in body]
    tools = body["tools"]
    if not isinstance(tools, list) or not 1 <= len(tools) <= MAX_TOOLS:
        return [f"tools: must be an array of 1 to {MAX_TOOLS}"]
    problems = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            problems.append(f"tools[{index}]: must be of type function")
            continue
        name = str(function.get("name", ""))
        if not NAME.fullmatch(name):
            problems.append(f"tools[{index}]: name {name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$")
        if name in names:
            problems.append(f"tools[{index}]: name {name!r} is used twice")
        names.add(name)
        if not isinstance(function.get("description", ""), str):
            problems.append(f"tools[{index}]: description must be a string")
        problems.extend(f"tools[{index}] ({name}): {why}" for why in _check_schema(function.get("parameters")))
    return problems


def _check_schema(schema: Any) -> list[str]:
    if schema is None:
        return []
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ["parameters must be a schema of type 'object'"]
    problems = [
        f"parameters must not have {word!r} at the top level"
        for word in ("oneOf", "anyOf", "allOf", "enum", "not")
        if word in schema
    ]
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        problems.append("parameters.properties must be an object")
    elif not set(schema.get("required", [])) <= set(properties):
        problems.append("parameters.required names an unknown property")
    return problems


def _check_numbers(body: dict[str, Any]) -> list[str]:
    problems = []
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            problems.append(f"{name}: must be an integer of at least 1")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        problems.append("max_tokens and max_completion_tokens exclude each other")
    temperature = body.get("temperature")
    if temperature is not None and not (isinstance(temperature, int | float) and 0 <= temperature <= 2):
        problems.append("temperature: must be a number from 0 to 2")
    if body.get("stream_options") is not None and not body.get("stream"):
        problems.append("stream_options: only allowed when stream is true")
    return problems
