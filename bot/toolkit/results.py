"""What a tool returned, or raised, as the one form that the runner and the model get."""

from __future__ import annotations

from typing import Any

import orjson

from bot.toolkit.base import Tool, ToolResult
from bot.toolkit.measure import shorten

ADVICE = "[Look at what went wrong and try another way.]"
"""The one line put under an error; not under a refusal, which must not be tried around."""

NO_OUTPUT = "(no output)"
_MAX_FAILURE_CHARS = 2_000


def as_result(tool: Tool, raw: Any) -> ToolResult:
    """Return what `execute` gave as a `ToolResult`; errors get the advice, refusals do not."""
    if isinstance(raw, ToolResult):
        result = raw
    elif raw is None:
        result = ToolResult(NO_OUTPUT)
    elif isinstance(raw, str):
        # Older plugins have no flag: for them the word at the start is the flag. Built-ins always use it,
        # since a file or a page may well begin with this word.
        result = ToolResult(raw, is_error=raw.startswith("Error") and not _is_builtin(tool))
    elif isinstance(raw, (dict, list, tuple)):
        result = _from_blocks(raw)
    elif isinstance(raw, (bytes, bytearray)):
        result = ToolResult(bytes(raw).decode("utf-8", "replace"))
    else:
        result = ToolResult(raw)
    if result.is_error and not result.is_refused and not result.endswith(ADVICE):
        return result + f"\n\n{ADVICE}"
    return result


def failure_text(exc: BaseException) -> str:
    """Return an exception as one bounded line without its traceback."""
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    try:
        text = " ".join(str(exc).split())
    except Exception:  # noqa: BLE001 - part of the boundary of one tool call: a plugin's own __str__
        text = ""
    name = type(exc).__name__
    return shorten(f"{name}: {text}" if text else name, _MAX_FAILURE_CHARS)


def _is_builtin(tool: Tool) -> bool:
    return type(tool).__module__.partition(".")[0] == "bot"


def _from_blocks(raw: dict[str, Any] | list[Any] | tuple[Any, ...]) -> ToolResult:
    blocks = [raw] if isinstance(raw, dict) else list(raw)
    if blocks and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        texts = [str(block.get("text", "")) if block["type"] == "text" else f"[{block['type']}]" for block in blocks]
        return ToolResult("\n".join(texts) or NO_OUTPUT, blocks=blocks)
    try:
        return ToolResult(orjson.dumps(raw, default=str, option=orjson.OPT_NON_STR_KEYS).decode())
    except TypeError:  # deeper or larger than the encoder takes
        return ToolResult(shorten(repr(raw), 16_000))
