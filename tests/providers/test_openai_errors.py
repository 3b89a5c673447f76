"""Error answers of many endpoints, mapped to what the engine can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.providers.openai_errors import clean_detail, read_failure, reported_error, to_error

NOW_US = 1_764_460_800_000_000  # 2025-11-30 00:00:00 UTC
K = ProviderErrorKind


def mapped(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return to_error(read_failure(status, headers or {}, raw, now_us=NOW_US))


def said(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, said("Invalid value for 'messages'", type="invalid_request_error"), K.BAD_REQUEST),
        (401, said("Incorrect API key provided", code="invalid_api_key"), K.AUTH),
        (403, said("Project does not have access to model"), K.AUTH),
        (400, [said("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT")], K.AUTH),
        (402, said("Insufficient Balance"), K.QUOTA),
        (429, said("You exceeded your current quota", code="insufficient_quota"), K.QUOTA),
        (400, said("Your credit balance is too low to access the API."), K.QUOTA),
        (403, said("This request requires more credits, or fewer max_tokens."), K.QUOTA),
        (
            429,
            said("Rate limit reached for gpt-x on requests per min", code="rate_limit_exceeded"),
            K.RATE_LIMIT,
        ),
        (429, b"<html>Too many requests</html>", K.RATE_LIMIT),
        (
            429,
            said("Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000."),
            K.CONTEXT_LENGTH,
        ),
        (429, said("Rate limit: too many tokens per minute, try again in 7s"), K.RATE_LIMIT),
        (404, said("The model `x` does not exist", code="model_not_found"), K.NOT_FOUND),
        (408, b"", K.TIMEOUT),
        (413, b"", K.CONTEXT_LENGTH),
        (500, said("The server had an error"), K.SERVER),
        (502, b"<html>Bad gateway</html>", K.SERVER),
        (503, b"", K.SERVER),
        (529, said("Overloaded", type="overloaded_error"), K.SERVER),
    ],
)
def test_a_status_with_its_body_becomes_one_kind(status: int, body: Any, kind: K) -> None:
    assert mapped(status, body).kind is kind


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, said("This model's maximum context length is 8192 tokens.", code="context_length_exceeded")),
        (
            400,
            {
                "object": "error",
                "message": "This model's maximum context length is 4096 tokens. However, ...",
            },
        ),
        (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size",
                    "n_ctx": 4096,
                }
            },
        ),
        (500, said("the request exceeds the available context size. try increasing the context size")),
        (400, said("prompt is too long: 213000 tokens > 200000 maximum")),
        (
            400,
            [said("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")],
        ),
        (400, {"error": "input length exceeds the context length"}),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "Too many tokens: 9000 > 8192"}]}),
        (
            400,
            said(
                "Provider returned error",
                metadata={"raw": '{"message":"Input is too long for requested model."}'},
            ),
        ),
        (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
        (400, said("Please reduce the length of the messages or completion.")),
    ],
)
def test_every_wording_of_a_full_context_is_understood(status: int, body: Any) -> None:
    assert mapped(status, body).kind is K.CONTEXT_LENGTH


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, said("Content Exists Risk", code="invalid_request_error")),
        (
            400,
            said(
                "The response was filtered due to the prompt triggering content management policy",
                code="content_filter",
            ),
        ),
        (400, said("Your request was rejected by our safety system", code="content_policy_violation")),
        (403, said("Input requires moderation on openai/gpt. Your input was flagged for violence")),
        (400, said("Input data may contain inappropriate content.", code="data_inspection_failed")),
    ],
)
def test_a_declined_prompt_is_not_a_bad_request(status: int, body: Any) -> None:
    error = mapped(status, body)
    assert error.kind is K.CONTENT_FILTER
    assert not error.retryable


@pytest.mark.parametrize(
    ("headers", "body", "wait_s"),
    [
        ({"retry-after": "7"}, b"", 7.0),
        ({"retry-after": "0.5"}, b"", 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, b"", 1.5),
        ({"retry-after": "Sun, 30 Nov 2025 00:01:30 GMT"}, b"", 90.0),
        ({"retry-after": "Sat, 29 Nov 2025 00:00:00 GMT"}, b"", 0.0),
        ({"retry-after": "-5"}, b"", 0.0),
        ({"retry-after": "soon"}, b"", None),
        ({"retry-after": "1796083200"}, b"", None),  # an instant, where seconds belong
        ({"retry-after": "1e300"}, b"", None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, b"", None),
        ({"retry-after": "Sun, 30 Nov 2025 00:01:30 +99999999999999"}, b"", None),
        ({"retry-after": "1796083200"}, said("try again in 3s"), 3.0),
        ({}, said(f"try again in {'9' * 400}h"), None),
        ({}, b'{"error": {"message": "no", "retry_after": 1e308}}', None),
        ({}, b'{"error": {"details": [{"retryDelay": "%bs"}]}}' % (b"9" * 400), None),
        ({"retry-after": "nan"}, b"", None),
        ({"retry-after": "9"}, said("try again in 3s"), 9.0),
        ({}, said("slow down", retry_after=12), 12.0),
        ({}, {"retry_after": "12.5", "message": "slow down"}, 12.5),
        ({}, said("slow", metadata={"retry_after_seconds": 4}), 4.0),
        ({}, [said("quota per minute", details=[{"@type": "x"}, {"retryDelay": "31s"}])], 31.0),
        ({}, said("Rate limit reached. Please try again in 7s. Visit ..."), 7.0),
        ({}, said("Please try again in 7.66s."), 7.66),
        ({}, said("Please try again in 500ms."), 0.5),
        ({}, said("Please try again in 1m30s."), 90.0),
        ({}, said("Please try again in 2h3m4.5s."), 7384.5),
        ({}, said("Please retry after 20 seconds."), 20.0),
        ({}, said("Please try again in 2 minutes."), 120.0),
        ({}, said("Please try again later."), None),
    ],
)
def test_the_wait_a_provider_asks_for_is_found(headers: dict[str, str], body: Any, wait_s: float | None) -> None:
    assert mapped(429, body, headers).retry_after_s == wait_s


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, K.RATE_LIMIT),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, K.RATE_LIMIT),
        ({"type": "overloaded_error", "message": "Overloaded"}, K.SERVER),
        ({"type": "server_error", "message": "oops"}, K.SERVER),
        ({"code": "context_length_exceeded", "message": "too much"}, K.CONTEXT_LENGTH),
        ({"code": 403, "message": "flagged by moderation"}, K.CONTENT_FILTER),
        ({"type": "invalid_request_error", "message": "no"}, K.BAD_REQUEST),
        ("something broke", K.SERVER),
    ],
)
def test_an_error_inside_a_stream_is_mapped_by_its_words(error: Any, kind: K) -> None:
    assert reported_error({"error": error}).kind is kind


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"null", b"[]", b"[[]]", b'"x"', b"7", b'{"error": null}', b'{"error": []}']
)
def test_any_body_makes_an_error_and_never_a_crash(body: bytes) -> None:
    assert mapped(500, body).kind is K.SERVER


def test_details_carry_no_keys_and_no_long_bodies() -> None:
    detail = clean_detail("bad\nkey my-own-key and sk-abcdef123456 in Bearer zzz\n" + "x" * 5000, "my-own-key")
    assert detail.startswith("bad key *** and *** in *** xxx")
    assert len(detail) == 500


@pytest.mark.parametrize("named", [",,,,", "9" * 400])
def test_a_window_without_a_number_that_could_be_one_is_not_named(named: str) -> None:
    assert mapped(400, said(f"maximum context length is {named} tokens")).window_tokens is None
