"""How many tokens a message costs, without a tokenizer and without the network.

The estimate is linear in the text, errs on the high side, and is corrected per model by what the provider
reports (`Calibration`). Deciding what to do about a number is left to the governor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from bot.agent.picture_size import picture_size

ROW_OVERHEAD_TOKENS = 4  # role and separators around each message
CALL_OVERHEAD_TOKENS = 8  # id and structure of one tool call
LOW_DETAIL_IMAGE_TOKENS = 85
MAX_IMAGE_TOKENS = 1_600  # larger pictures are scaled down by the provider before they are counted
_PIXELS_PER_TOKEN = 750
_FACTOR_MIN, _FACTOR_MAX = 0.5, 3.0
_FACTOR_STEPS = 20  # factors move in steps of 5 %, so that a small drift does not move every budget
_SMOOTHING = 0.25
_PRICED_KEYS = frozenset({"role", "name", "content", "tool_calls", "tool_call_id"})
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_LETTERS = _LOWER + _LOWER.upper()
_ALNUM = _LETTERS + b"0123456789"
_MIN_SAMPLE_TOKENS = 200  # fixed per-request costs drown the signal in smaller requests


def estimate_text(text: str) -> int:
    """Return the estimated tokens of `text`.

    Each class of character has its price: small letters mostly travel in whole words, capitals, digits and
    punctuation mostly open a token of their own, and text without blanks (base64, hex, minified code) is cut
    finer. Characters outside ASCII are charged by their UTF-8 bytes. The prices were fitted to two public
    BPE vocabularies on prose, source code, JSON, logs, encoded data and nine languages.
    """
    length = len(text)
    if not length:
        return 0
    data = text.encode("ascii", "ignore")
    wide_cost = 0.0
    if len(data) != length:
        size_bytes = len(text.encode("utf-8", "surrogatepass"))
        # Every byte of a wide character after the first: Cyrillic 0.6, CJK 1.2, emoji 1.8 tokens.
        wide_cost = (size_bytes - length) * 0.6
        length = len(data)
    lines = data.count(b"\n")
    blanks = data.count(b" ") + lines
    without_lower = len(data.translate(None, _LOWER))
    without_letters = len(data.translate(None, _LETTERS))
    without_alnum = len(data.translate(None, _ALNUM))
    lower, upper = length - without_lower, without_lower - without_letters
    digits, marks = without_letters - without_alnum, without_alnum - blanks
    unbroken = max(0, length - blanks - 9 * (blanks + 1))
    words_cost = 0.22 * lower + 0.55 * upper + 0.5 * digits + 0.65 * marks + 0.06 * blanks
    return 1 + int(wide_cost + words_cost + lines + 0.2 * unbroken)


def estimate_image(url: str, detail: str = "auto") -> int:
    """Return the estimated tokens of one picture: its pixels over 750, between 85 and 1,600.

    The ratio is Anthropic's; OpenAI's tiles come out below it for every size
    (https://docs.anthropic.com/en/docs/build-with-claude/vision and
    https://platform.openai.com/docs/guides/images-vision, read 2026-11-29).
    """
    if detail == "low":
        return LOW_DETAIL_IMAGE_TOKENS
    size = picture_size(url)
    if size is None:
        return MAX_IMAGE_TOKENS
    return min(MAX_IMAGE_TOKENS, max(LOW_DETAIL_IMAGE_TOKENS, size[0] * size[1] // _PIXELS_PER_TOKEN))


def _estimate_block(block: Any) -> int:
    if isinstance(block, dict):
        text = block.get("text")
        if isinstance(text, str):
            return estimate_text(text)
        image = block.get("image_url")
        if isinstance(image, dict) and isinstance(image.get("url"), str):
            return estimate_image(image["url"], str(image.get("detail", "auto")))
        if isinstance(image, str):
            return estimate_image(image)
    return _estimate_value(block)


def _estimate_value(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return estimate_text(value)
    if isinstance(value, Mapping):
        return sum(estimate_text(str(key)) + _estimate_value(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_estimate_value, value))
    return estimate_text(str(value))


def _estimate_calls(calls: Any) -> int:
    if not isinstance(calls, list):
        return _estimate_value(calls)
    total = 0
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            total += CALL_OVERHEAD_TOKENS + estimate_text(f"{function.get('name')} {function['arguments']}")
            if len(call) > 3:  # noqa: PLR2004 - more than id, type and function: a provider's own fields
                total += _estimate_value({k: v for k, v in call.items() if k not in ("id", "type", "function")})
        else:
            total += CALL_OVERHEAD_TOKENS + _estimate_value(call)
    return total


def estimate_message(row: Mapping[str, Any]) -> int:
    """Return the estimated tokens of one OpenAI-style message, whatever its shape."""
    total = ROW_OVERHEAD_TOKENS
    content = row.get("content")
    if isinstance(content, str):
        total += estimate_text(content)
    elif isinstance(content, list):
        total += sum(map(_estimate_block, content))
    else:
        total += _estimate_value(content)
    if not row.keys() <= _PRICED_KEYS:
        total += sum(_estimate_value(row[key]) for key in row.keys() - _PRICED_KEYS)
    if "tool_calls" in row:
        total += _estimate_calls(row["tool_calls"])
    elif "tool_call_id" in row:
        total += ROW_OVERHEAD_TOKENS
    return total


def estimate_tools(definitions: Sequence[Mapping[str, Any]]) -> int:
    """Return the estimated tokens of a request's tool definitions."""
    if not definitions:
        return 0
    return estimate_text(orjson.dumps(definitions, default=str).decode())


class Calibration:
    """What providers reported against what was estimated, as one bounded factor per model.

    The factor moves a quarter of the way to each new observation and is read in steps of 5 %, rounded up, so
    that budgets (and with them the cached prefix) stay put while the numbers wander a little.
    """

    def __init__(self) -> None:
        self._raw: dict[str, float] = {}

    def observe(self, model: str, estimated_tokens: int, reported_tokens: int) -> None:
        """Learn from one answered request; both numbers are input tokens of that same request.

        Numbers that cannot be right (zero, negative, a tiny request) are ignored.
        """
        if estimated_tokens < _MIN_SAMPLE_TOKENS or reported_tokens <= 0:
            return
        sample = min(_FACTOR_MAX, max(_FACTOR_MIN, reported_tokens / estimated_tokens))
        before = self._raw.get(model, 1.0)
        self._raw[model] = before + _SMOOTHING * (sample - before)

    def factor(self, model: str) -> float:
        """Return reported tokens per estimated token, between 0.5 and 3.0; 1.0 for a model never seen."""
        raw = self._raw.get(model)
        if raw is None:
            return 1.0
        return -int(-raw * _FACTOR_STEPS // 1) / _FACTOR_STEPS
