"""What an endpoint's error answers mean: from status, headers and body to one `ProviderError`.

Pure functions over plain values. Nobody agrees on wordings; the lists below
are what OpenAI, Azure, OpenRouter, Gemini, Groq, Mistral, DeepSeek, Anthropic's compatible endpoint, vLLM,
llama.cpp and Ollama say. Whether to try again is decided in `openai_compatible`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import orjson

from bot.clock import US_PER_S, to_us
from bot.errors import ProviderError, ProviderErrorKind

DETAIL_LIMIT_CHARS = 500

LONGEST_WAIT_S = 7 * 24 * 3600.0
"""A longer wait is a mistake of the endpoint's, such as an instant where seconds belong; it counts as none named."""

_MAX_DEPTH = 6
_MOST_DIGITS = 12
_STATUSES = range(400, 600)

_CONTEXT_LENGTH = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|max_model_len|maximum model length"
    r"|(?:prompt|input|request|messages?|conversation) (?:is |are )?too (?:long|large)"
    r"|too many (?:input |prompt )?tokens|input (?:length|token count)"
    r"|number of (?:input )?tokens .{0,40}exceed"
    r"|reduce (?:the|your) (?:length|prompt|input|message)|token limit exceeded"
    r"|exceeds? the (?:token limit|model's)|longer than the model|string_above_max_length|request_too_large",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:maximum|max\.?|total) (?:context|model|sequence) (?:length|size|window) (?:is|of|:)? ?(?P<a>[\d,]{3,})"
    r"|context (?:length|window|size)\W{0,3}(?:is |of |limit )?(?:only )?\(?(?P<b>[\d,]{3,})"
    r"|max_model_len\D{1,12}(?P<c>[\d,]{3,})"
    r"|[\d,]{3,} tokens > (?P<d>[\d,]{3,}) maximum",
    re.IGNORECASE,
)
_CONTENT_FILTER = re.compile(
    r"content[_ ](?:filter|policy|(?:exists )?risk|moderation|management)|responsible ?ai|safety system"
    r"|flagged|moderation|inappropriate content|data_inspection_failed|sensitive (?:content|words?)"
    r"|violat\w+ .{0,40}(?:policy|policies|guidelines)|usage policies",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|balance|credits?|funds)|exceeded your current quota|billing|credit balance"
    r"|out of credits?|more credits|quota[_ ]exhausted|spend(?:ing)? limit|payment required"
    r"|account .{0,20}(?:arrears|overdue)",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|missing|expired)[_ ]api[_ ]key"
    r"|api[_ ]key (?:is )?(?:not valid|invalid|expired|missing|not found)",
    re.IGNORECASE,
)
_TOO_LARGE_FOR_RATE = re.compile(r"request too large", re.IGNORECASE)
_WAIT_TEXT = re.compile(
    r"(?:try again|retry)(?: after| in)\s+(?:(?P<h>\d+)h)?\s*(?:(?P<m>\d+)m(?!s))?\s*"
    r"(?:(?P<n>\d+(?:\.\d+)?)\s*(?P<unit>ms|milliseconds?|s(?:ec(?:ond)?s?)?|minutes?))?",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(?P<n>\d+(?:\.\d+)?)s\Z")
_SECRETS = re.compile(r"(?i)\bbearer\s+\S+|\b(?:sk|key|gsk|xai|pk|rk)-[A-Za-z0-9_*-]{6,}|\bAIza[A-Za-z0-9_-]{10,}")

_KIND_BY_STATUS = {
    401: ProviderErrorKind.AUTH,
    402: ProviderErrorKind.QUOTA,
    403: ProviderErrorKind.AUTH,
    404: ProviderErrorKind.NOT_FOUND,
    405: ProviderErrorKind.NOT_FOUND,  # a web server that knows the path for other things
    408: ProviderErrorKind.TIMEOUT,
    409: ProviderErrorKind.SERVER,
    413: ProviderErrorKind.CONTEXT_LENGTH,
    425: ProviderErrorKind.SERVER,
    429: ProviderErrorKind.RATE_LIMIT,
    451: ProviderErrorKind.CONTENT_FILTER,
}
_STATUS_BY_WORD = (
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("resource_exhausted", 429),
    ("overloaded", 503),
    ("unavailable", 503),
    ("server_error", 500),
    ("internal", 500),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("timeout", 408),
    ("invalid_request", 400),
    ("bad_request", 400),
)
"""For errors inside a stream, which often carry a word and no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error answer in plain values. `words` is everything readable in it, for matching; untrimmed."""

    status: int
    message: str
    words: str
    param: str = ""
    retry_after_s: float | None = None
    window_tokens: int | None = None  # the model's window, where the answer names it


def read_failure(status: int, headers: Mapping[str, str], body: bytes, *, now_us: int) -> Failure:
    """Return an HTTP error answer in plain values; `body` may be anything."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = body[:4000].decode(errors="replace")
    failure = _from_value(status, value)
    wait = _header_wait_s(headers, now_us)
    return failure if wait is None else replace(failure, retry_after_s=wait)


def reported_error(value: Mapping[str, Any]) -> ProviderError:
    """Return the error that a stream or a 200 answer reports, under `error` or as a whole."""
    error = value.get("error", value)
    code = error.get("code") if isinstance(error, dict) else None
    failure = _from_value(code if isinstance(code, int) and code in _STATUSES else 0, dict(value))
    if not failure.status:
        words = failure.words.lower()
        status = next((number for word, number in _STATUS_BY_WORD if word in words), 500)
        failure = replace(failure, status=status)
    return to_error(failure)


def to_error(failure: Failure) -> ProviderError:
    """Return the failure as the error the engine knows, its detail scrubbed and cut."""
    detail = clean_detail(f"HTTP {failure.status}: {failure.message}")
    return ProviderError(
        kind_of(failure), detail, retry_after_s=failure.retry_after_s, window_tokens=failure.window_tokens
    )


def without_key(failure: Failure, api_key: str) -> Failure:
    """Return the failure without the key; not before it was read: JSON may spell it with escapes."""
    if not api_key:
        return failure
    message, words, param = (text.replace(api_key, "***") for text in (failure.message, failure.words, failure.param))
    return replace(failure, message=message, words=words, param=param)


def clean_detail(text: str, api_key: str = "") -> str:
    """Return `text` on one line, without the key or what looks like one, at most 500 characters."""
    if api_key:
        text = text.replace(api_key, "***")
    text = " ".join(_SECRETS.sub("***", text).split())
    return text if len(text) <= DETAIL_LIMIT_CHARS else text[: DETAIL_LIMIT_CHARS - 1] + "…"


def kind_of(failure: Failure) -> ProviderErrorKind:
    """Return what went wrong, judged by status and words together."""
    status, words = failure.status, failure.words
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        if _QUOTA.search(words):
            return ProviderErrorKind.QUOTA
        # A request above the limit of a whole minute is refused for ever: only a shorter one helps.
        return ProviderErrorKind.CONTEXT_LENGTH if _TOO_LARGE_FOR_RATE.search(words) else ProviderErrorKind.RATE_LIMIT
    if status not in {401, 402, 408} and _CONTEXT_LENGTH.search(words):
        return ProviderErrorKind.CONTEXT_LENGTH
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        if _QUOTA.search(words):
            return ProviderErrorKind.QUOTA
        if status != HTTPStatus.UNAUTHORIZED and _CONTENT_FILTER.search(words):
            return ProviderErrorKind.CONTENT_FILTER
        if _BAD_KEY.search(words):
            return ProviderErrorKind.AUTH
    default = ProviderErrorKind.BAD_REQUEST if status < HTTPStatus.INTERNAL_SERVER_ERROR else ProviderErrorKind.SERVER
    return _KIND_BY_STATUS.get(status, default)


def _from_value(status: int, value: Any) -> Failure:
    while isinstance(value, list) and value:  # Gemini wraps its error in a list
        value = value[0]
    words = " ".join(_words(value, 0))
    error = value.get("error", value) if isinstance(value, dict) else value
    message, param = words, ""
    if isinstance(error, dict):
        message = str(error.get("message") or "") or words
        param = str(error.get("param") or "")
        raw = error.get("metadata", {}).get("raw") if isinstance(error.get("metadata"), dict) else None
        if isinstance(raw, str):  # OpenRouter: the words of the provider behind it
            message = f"{message}: {raw}"
    elif isinstance(error, str):
        message = error
    return Failure(
        status=status,
        message=message or "no explanation",
        words=words,
        param=param,
        retry_after_s=_body_wait_s(value, message),
        window_tokens=_window(error, words),
    )


def named_count(match: re.Match[str]) -> int | None:
    """Return the number that the only group of a match holds, None for what is no count of tokens."""
    digits = next(group for group in match.groups() if group).replace(",", "")
    return int(digits) or None if 0 < len(digits) <= _MOST_DIGITS else None


def _window(error: Any, words: str) -> int | None:
    """Return the size of the context window that an answer names; llama.cpp has it as a number."""
    named = error.get("n_ctx") if isinstance(error, dict) else None
    if isinstance(named, int) and not isinstance(named, bool) and named > 0:
        return named
    match = _WINDOW.search(words[:4000])
    return None if match is None else named_count(match)


def _words(value: Any, depth: int) -> Iterator[str]:
    """Yield the strings of an error body: messages, codes, types, and locations of validation errors."""
    if isinstance(value, str):
        yield value[:4000]
    elif depth < _MAX_DEPTH:
        if isinstance(value, dict):
            for item in value.values():
                yield from _words(item, depth + 1)
        elif isinstance(value, list):
            for item in value[:20]:
                yield from _words(item, depth + 1)


def _header_wait_s(headers: Mapping[str, str], now_us: int) -> float | None:
    wait_s = _named_wait_s(headers, now_us)
    return wait_s if wait_s is None or wait_s <= LONGEST_WAIT_S else None


def _named_wait_s(headers: Mapping[str, str], now_us: int) -> float | None:
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the latter for a zone that is days away
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (to_us(moment) - now_us) / US_PER_S)


def _body_wait_s(value: Any, message: str) -> float | None:
    """Return a wait named in the body: `retry_after` anywhere near, a RetryInfo detail, or words."""
    for holder in _holders(value):
        for key in ("retry_after", "retry_after_seconds", "retryAfter"):
            if (seconds := _number(holder.get(key))) is not None and seconds <= LONGEST_WAIT_S:
                return seconds
        delay = holder.get("retryDelay")
        if isinstance(delay, str) and (match := _DURATION.match(delay)):
            seconds = float(match["n"])
            return seconds if seconds <= LONGEST_WAIT_S else None
    return _wait_in_words(message)


def _holders(value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        return
    yield value
    for key in ("error", "metadata", "details", "parameters"):
        inner = value.get(key)
        for item in inner if isinstance(inner, list) else [inner]:
            yield from _holders(item)


def _wait_in_words(message: str) -> float | None:
    for match in _WAIT_TEXT.finditer(message[:4000]):
        if not (match["h"] or match["m"] or match["n"]):
            continue
        seconds = float(match["h"] or 0) * 3600 + float(match["m"] or 0) * 60
        unit = (match["unit"] or "s").lower()
        factor = 0.001 if unit.startswith(("ms", "milli")) else 60 if unit.startswith("minute") else 1
        seconds += float(match["n"] or 0) * factor
        return seconds if seconds <= LONGEST_WAIT_S else None
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
