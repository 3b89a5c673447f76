"""What an images endpoint's error answer means, in a sentence for the model. Pure: no request is made here."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import orjson

from bot.security.redaction import redact
from bot.security.untrusted import on_one_line
from bot.web.wire import Answer

_WORDS_CHARS = 300
_MAX_WAIT_S = 86_400

# `code` and `message` as OpenAI (https://developers.openai.com/api/docs/guides/error-codes, read 2026-11-30), Azure and
# compatible servers write them.
_POLICY = re.compile(
    r"moderation|content[_ ]policy|content[_ ]filter|safety system|responsible ?ai|usage polic", re.IGNORECASE
)
_MONEY = re.compile(
    r"billing|insufficient[_ ](?:quota|balance|credits?|funds)|exceeded your current quota|credit balance|payment",
    re.IGNORECASE,
)


def refusal(answer: Answer, api_key: str) -> str:
    """Return why there are no pictures; the endpoint's own words on one line, without the key."""
    code, message = _error(answer.body)
    words = f"{code} {message}"
    status = answer.status
    if status < HTTPStatus.INTERNAL_SERVER_ERROR and _POLICY.search(words):
        return "the endpoint refuses the request by its content policy; the same request will be refused again"
    if status == HTTPStatus.PAYMENT_REQUIRED or (status < HTTPStatus.INTERNAL_SERVER_ERROR and _MONEY.search(words)):
        return "the endpoint's account has no money or quota left; only its owner can change that"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return f"the endpoint's rate limit is reached; try again {_wait(answer)}"
    if status == HTTPStatus.UNAUTHORIZED:
        return "the endpoint refuses the key of [tools.image]"
    said = on_one_line(redact(message, {api_key} - {""}), _WORDS_CHARS)
    said = f': "{said}"' if said else ""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"the endpoint has a fault (status {status}); later it may work"
    if status == HTTPStatus.NOT_FOUND:
        return f"the endpoint does not know the model or the address of [tools.image]{said}"
    return f"the endpoint does not accept the request (status {status}){said}"


def _error(body: bytes) -> tuple[str, str]:
    """Return the code and the message of an error answer, '' for what is not there."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", ""
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, dict):
        found = (error.get("code") or error.get("type"), error.get("message") or error.get("detail"))
        code, message = (part if isinstance(part, str) else "" for part in found)
        return code, message
    return "", error if isinstance(error, str) else ""


def _wait(answer: Answer) -> str:
    given = answer.headers.get("retry-after", "")
    return f"in {int(given)} s" if re.fullmatch(r"[0-9]{1,5}", given) and int(given) <= _MAX_WAIT_S else "later"
