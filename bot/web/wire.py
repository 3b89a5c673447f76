"""What goes out and what comes back: one request, one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.security.network import Target

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""The statuses whose Location is followed, RFC 9110 section 15.4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it goes out: `headers` with lower-case names, `body` None for none.

    `silence_s` is how long nothing may come before and between the pieces of the answer.
    """

    method: str
    target: Target
    silence_s: float
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. HTTP errors are answers, their `body` cut at 64 KiB.

    `url` is where it came from after `redirects`; `headers` have lower-case names; `content_type` is "type/subtype" in
    lower case, '' if there is none of that form, `charset` the label given with it; `body` is unpacked by
    its Content-Encoding; `is_cut` tells that it is not whole.
    """

    status: int
    url: str
    headers: Mapping[str, str]
    content_type: str
    charset: str
    body: bytes = field(repr=False)
    is_cut: bool = False
    redirects: int = 0

    @property
    def leads_to(self) -> str:
        """Where a redirect points, as it is written; '' for every other answer."""
        return self.headers.get("location", "") if self.status in REDIRECTS else ""
