"""What single endpoints refuse that others take, and errors in OpenAI's shape.

Texts and codes as https://platform.openai.com/docs/guides/error-codes words them (read 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHARS_PER_TOKEN = 4  # of the request's JSON; coarse, and the same for every test


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How this endpoint differs; the default takes everything."""

    api_key: str = ""  # not empty: required as a bearer token
    refuse_max_tokens: bool = False
    refuse_max_completion_tokens: bool = False
    refuse_temperature: bool = False  # other than 1
    refuse_stream_options: bool = False
    context_window: int = 0  # tokens; not 0: input estimate + output limit must fit
    models: tuple[str, ...] = ("test-model",)

    def refusal(self, body: Mapping[str, Any], raw_bytes: int) -> tuple[int, dict[str, Any]] | None:
        """Return status and error object if this endpoint refuses the request."""
        if self.refuse_max_tokens and body.get("max_tokens") is not None:
            text = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            )
            return 400, error(text, param="max_tokens", code="unsupported_parameter")
        if self.refuse_max_completion_tokens and body.get("max_completion_tokens") is not None:
            text = "Unrecognized request argument supplied: max_completion_tokens"
            return 400, error(text)
        temperature = body.get("temperature")
        if self.refuse_temperature and temperature is not None and temperature != 1:
            text = (
                f"Unsupported value: 'temperature' does not support {temperature} with this model. "
                "Only the default (1) value is supported."
            )
            return 400, error(text, param="temperature", code="unsupported_value")
        if self.refuse_stream_options and body.get("stream_options") is not None:
            return 400, error("Unrecognized request argument supplied: stream_options")
        return self._overflow(body, raw_bytes)

    def _overflow(self, body: Mapping[str, Any], raw_bytes: int) -> tuple[int, dict[str, Any]] | None:
        if not self.context_window:
            return None
        given = raw_bytes // CHARS_PER_TOKEN
        wanted = int(body.get("max_completion_tokens") or body.get("max_tokens") or 1)
        if given + wanted <= self.context_window:
            return None
        text = (
            f"This model's maximum context length is {self.context_window} tokens. However, you requested "
            f"{given + wanted} tokens ({given} in the messages, {wanted} in the completion). "
            "Please reduce the length of the messages or completion."
        )
        return 400, error(text, param="messages", code="context_length_exceeded")


def error(
    message: str, *, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error body in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_for(status: int) -> dict[str, Any]:
    """Return the error body that usually comes with a status."""
    usual = {
        401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
        402: ("Insufficient balance.", "invalid_request_error", "insufficient_balance"),
        429: ("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    }
    text, kind, code = usual.get(status, ("The server had an error processing your request.", "server_error", None))
    return error(text, kind=kind, code=code)


def quota_exceeded() -> dict[str, Any]:
    """Return the body of the 429 that no waiting helps against."""
    text = "You exceeded your current quota, please check your plan and billing details."
    return error(text, kind="insufficient_quota", code="insufficient_quota")
