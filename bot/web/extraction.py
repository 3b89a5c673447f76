"""What there is to read on a page: its article, or all its text. Runs in the reader's process only.

Hostile markup makes the libraries slow or large; whoever runs this bounds it (`reader_process.py`).
"""

from __future__ import annotations

import re
from typing import Any

import trafilatura
from lxml import html as lxml_html
from lxml_html_clean import Cleaner

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
    return trafilatura.extract(
        markup,
        url=url,
        output_format="markdown" if markdown else "txt",
        include_links=markdown,
        include_formatting=markdown,
        include_tables=True,
        favor_recall=True,
    )


def _title(markup: str) -> str:
    found = re.search(r"<title\b[^>]{0,200}>([^<]{1,2000})", markup, re.IGNORECASE)
    if not found:
        return ""
    text = str(lxml_html.fromstring(f"<p>{found[1]}</p>").text_content())
    return " ".join(text.split())[:MAX_TITLE_CHARS]


def _whole(markup: str) -> str:
    """Return all visible text, one line per block."""
    tree = trafilatura.load_html(markup)
    if tree is None:
        return ""
    Cleaner(scripts=True, style=True, comments=True, page_structure=False, safe_attrs_only=False)(tree)
    for element in tree.iter():
        if element.tag in _BLOCKS:
            element.text = "\n" + (element.text or "")
            element.tail = "\n" + (element.tail or "")
    lines = (" ".join(line.split()) for line in str(tree.text_content()).split("\n"))
    return "\n".join(line for line in lines if line)
