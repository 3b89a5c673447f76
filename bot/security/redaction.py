"""Takes secrets out of text before people or files see it.

Two nets: the values that the configuration says are secret, and shapes that only credentials have. Who calls
it decides where; `bot.log` applies it to every log line.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import quote

REDACTED = "[redacted]"

# Shorter values would black out ordinary words and protect nothing.
_SHORTEST_CHARS = 4

_HEADER = re.compile(r"([A-Za-z][\w-]*) +(\S{8,})")  # a scheme and its credentials

# Credentials by shape, for those the configuration does not know: bot tokens (id, colon or its URL form,
# secret), authorization headers, API keys of the `sk-` family, Slack tokens.
_SHAPES = (
    r"\d{6,}(?::|%3[Aa])[\w-]{30,}",
    r"(?i:\bbearer[ \t]+)[\w.~+/=-]{8,}",
    r"\bsk-[\w-]{16,}",
    r"\bx(?:ox[a-z]|app)-[\w-]{10,}",
)


class Redactor:
    """Replaces known secret values and credential shapes in text; build once, use often."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        forms: set[str] = set()
        for secret in (part for whole in secrets for part in _parts(whole)):
            if len(secret) >= _SHORTEST_CHARS:
                # The forms in which URLs, JSON texts and reprs carry the same value.
                forms |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        # Longest first: a secret that begins with another one must go as a whole.
        values = [re.escape(form) for form in sorted(forms, key=len, reverse=True)]
        self._pattern = re.compile("|".join([*values, *_SHAPES]))

    def __call__(self, text: str) -> str:
        """Return `text` with each secret replaced by `[redacted]`."""
        return self._pattern.sub(REDACTED, text)


def _parts(secret: str) -> list[str]:
    """Return a secret, and what it is made of if it is the value of an authorization header (RFC 9110, 11.4)."""
    found = _HEADER.fullmatch(secret)
    if found is None:
        return [secret]
    parts = [secret, found[2]]
    if found[1].lower() == "basic":
        with suppress(ValueError):
            parts.append(b64decode(found[2], validate=True).decode().partition(":")[2])
    return parts


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """Return `text` without these secret values and without anything that looks like a credential."""
    return Redactor(secrets)(text)
