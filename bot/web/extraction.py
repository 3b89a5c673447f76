"""What there is to read on a page: its article, or all its text. Runs in the reader's process only.

Hostile markup makes the libraries slow or large; whoever runs this bounds it (`reader_process.py`).
"""

from __future__ import annotations

import html
import re
from typing import Any

import trafilatura
from lxml import etree
from lxml.html import HTMLParser, document_fromstring

MAX_TITLE_CHARS = 300

_SHORT_CHARS = 200  # an "article" of less is often a notice in front of the real text
_FAR_MORE = 3
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "legend",
    "li", "main", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "td", "th", "title", "tr", "ul",
})  # fmt: skip


def page_text(markup: str, url: str, *, markdown: bool, plain: bool) -> dict[str, Any]:
    """Return `title` and `text` of a page, and whether it is the `article` or all there is.

    `plain` asks for all there is at once: that takes time in proportion to the page, finding the article may not.
    """
    title = _title(markup)
    article = None if plain else _article(markup, url, markdown=markdown)
    if article and len(article) >= _SHORT_CHARS:
        return {"title": title, "text": article, "article": True}
    whole = _whole(markup)
    if article and len(whole) <= _FAR_MORE * len(article):
        return {"title": title, "text": article, "article": True}
    return {"title": title, "text": whole, "article": False}


def _article(markup: str, url: str, *, markdown: bool) -> str | None:
    try:
        return trafilatura.extract(
            markup,
            url=url,
            output_format="markdown" if markdown else "txt",
            include_links=markdown,
            include_formatting=markdown,
            include_tables=True,
            favor_recall=True,
        )
    except Exception:  # noqa: BLE001 - boundary: the library raises anything over odd markup
        return None


def _title(markup: str) -> str:
    found = re.search(r"<title\b[^>]{0,200}>([^<]{1,2000})", markup, re.IGNORECASE)
    if not found:
        return ""
    return " ".join(html.unescape(found[1]).split())[:MAX_TITLE_CHARS]


def _whole(markup: str) -> str:
    """Return all visible text, one line per block."""
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = document_fromstring(markup.encode(), parser=parser)
    except etree.ParserError:  # nothing in it
        return ""
    etree.strip_elements(tree, "script", "style", "template", "title", with_tail=False)
    pieces: list[str] = []
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        if element.tag in _BLOCKS:
            pieces.append("\n")
        pieces.append((element.text if event == "start" else element.tail) or "")
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
