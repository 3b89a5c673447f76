"""Results fit to be read: text without markup and control signs, web addresses only, each of them once."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser

from bot.security.network import BadUrl, NetworkRefused, parse_target
from bot.web.search.engine import Found

TITLE_CHARS = 200
SNIPPET_CHARS = 500
URL_CHARS = 1_000
"""A result with a longer URL is left out: cut, it would lead elsewhere."""

_MARKUP_FACTOR = 4  # so much longer may text be with its markup
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # make text read other than it is
_BREAKS = frozenset({"Cc", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result: `url` in its one form, `title` and `snippet` each on one line and of limited length."""

    title: str
    url: str
    snippet: str


def hits_from(found: Iterable[Found], *, count: int) -> tuple[Hit, ...]:
    """Return the first `count` usable results."""
    hits: dict[str, Hit] = {}
    for result in found:
        url = _web_url(result.url)
        if not url or url in hits:
            continue
        title = plain_text(result.title, TITLE_CHARS)
        hits[url] = Hit(title=title or url, url=url, snippet=plain_text(result.snippet, SNIPPET_CHARS))
        if len(hits) == count:
            break
    return tuple(hits.values())


def plain_text(text: str, limit_chars: int) -> str:
    """Return a piece of HTML or of plain text as one line of at most `limit_chars`."""
    text = _visible(text[: _MARKUP_FACTOR * limit_chars])
    if "<" in text or "&" in text:
        text = _visible(_without_markup(text))
    text = " ".join(text.split())
    return text if len(text) <= limit_chars else text[: limit_chars - 1] + "…"


class _Text(HTMLParser):
    """Keeps the text between tags, references read."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        """See `HTMLParser.handle_data`."""
        self.parts.append(data)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read "<![" as browsers do: a comment up to the next ">". The library's own way fails for most of them."""
        return self.parse_bogus_comment(i, report)


def _without_markup(text: str) -> str:
    parser = _Text()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_sign, text))


def _sign(char: str) -> str:
    category = unicodedata.category(char)
    if category in _BREAKS:
        return " "
    return "" if category == "Cs" or char in _TURNS else char


def _web_url(url: str) -> str:
    try:
        found = parse_target(url).url
    except (BadUrl, NetworkRefused):
        return ""
    return found if len(found) <= URL_CHARS else ""
