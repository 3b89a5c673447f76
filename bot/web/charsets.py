"""Which encoding a page's bytes are in: by the server's label, the page's own, and the bytes themselves.

Nothing here fails: what fits no encoding is shown with replacement characters, and the result says so.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from bot.toolkit.file_types import FileType, file_type

# Where pages declare themselves: https://html.spec.whatwg.org/#prescan-a-byte-stream-to-determine-its-encoding
# (read 2026-11-30) looks at 1,024 bytes; pages with long scripts before the tag exist.
_PRESCAN_BYTES = 8 * 1024
# Blanks are taken in one piece (possessive): among two runs of them every split would be tried.
_DECLARED = re.compile(
    rb"""<meta\b[^<>]{0,400}?\bcharset\s*+=\s*+["']?\s*+([\w.:+-]{1,40})"""
    rb"""|^\s*+<\?xml\b[^<>]{0,200}?\bencoding\s*+=\s*+["']([\w.:+-]{1,40})""",
    re.IGNORECASE,
)

# What browsers read for what pages say, https://encoding.spec.whatwg.org/#names-and-labels (read 2026-11-30), in
# Python's names. A codec that is not among them is none for pages: some of Python's take quadratic time, or
# are no encodings at all.
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "utf-16": "utf-16-le",
}
_KNOWN = frozenset(_READ_AS.values()) | {
    *("utf-8", "utf-16-le", "utf-16-be", "euc_jp", "iso2022_jp", "hz", "koi8-r", "koi8-u", "cp866"),
    *(f"cp125{digit}" for digit in range(9)),
    *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    *("mac-roman", "mac-cyrillic"),
}
_LABELS = {"x-sjis": "cp932", "x-gbk": "gb18030", "x-x-big5": "big5hkscs", "x-euc-jp": "euc_jp", "unicode": "utf-16-le"}

# So many characters of several bytes are UTF-8 by chance in one text of a hundred million, whatever its encoding.
_SURE = 8
_WIDE = frozenset({"utf-16-le", "utf-16-be"})
_FIRST_BYTES = bytes(range(0xC0, 0x100))
_STEP_BYTES = 16 * 1024  # decoded at once: no other thread runs meanwhile, and bytes that do not fit take 0.5 us each


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
    """Text of bytes. `encoding` is Python's name for it; `damaged` counts what had to be replaced."""

    text: str
    encoding: str
    damaged: int


def decode(body: bytes, *, label: str = "", is_markup: bool = False) -> DecodedText | None:
    """Return the text of a body, or None if the bytes are not text at all.

    `label` is the charset that the server named; markup may name one itself. In order: a byte order mark, then
    labels that fit, then UTF-8 that cannot be chance, then what the bytes look like, then a label that does not fit.
    """
    seen = file_type(io.BytesIO(body), limit_bytes=len(body))
    if seen.mark_bytes:
        return _with(body[seen.mark_bytes :], seen.encoding)
    labels = [name for given in (label, _declared(body) if is_markup else "") if (name := _codec(given))]
    if seen.is_valid:
        # Most of UTF-8 would fit UTF-16 as well, and some of it many others.
        labels = [name for name in labels if name == "utf-8" or not (name in _WIDE or _is_surely_utf8(body))]
    elif not seen.encoding and not labels:
        return None
    fitting = next((name for name in labels if _fits(body, name)), "")
    if not fitting and not seen.encoding:
        return None
    return _with(body, fitting or _better(body, seen, labels))


def _better(body: bytes, seen: FileType, labels: list[str]) -> str:
    """Return what the bytes look like, unless a label that does not fit in full explains them better."""
    if not labels or seen.is_valid:
        return seen.encoding
    by_label, by_look = (_with(body, name).damaged for name in (labels[0], seen.encoding))
    return labels[0] if by_label <= by_look else seen.encoding


def _with(body: bytes, encoding: str) -> DecodedText:
    text = "".join(_pieces(body, encoding, "replace"))
    return DecodedText(text=text, encoding=encoding, damaged=text.count("\ufffd"))


def _codec(label: str) -> str:
    """Return Python's name of the encoding that browsers read for a label, '' for one that pages cannot have."""
    label = label.strip().lower()
    if label in _LABELS:
        return _LABELS[label]
    try:
        name = codecs.lookup(label).name if label else ""
    except (LookupError, ValueError):
        return ""
    name = _READ_AS.get(name, name)
    return name if name in _KNOWN else ""


def _declared(body: bytes) -> str:
    found = _DECLARED.search(body[:_PRESCAN_BYTES])
    label = (found[1] or found[2]).decode("ascii", "replace") if found else ""
    # A page whose declaration could be read as ASCII is not in UTF-16, whatever it says.
    return "utf-8" if label.lower().startswith("utf-16") else label


def _fits(body: bytes, encoding: str) -> bool:
    try:
        for _ in _pieces(body, encoding, "strict"):
            pass
    except ValueError:
        return False
    return True


def _pieces(body: bytes, encoding: str, errors: str) -> Iterator[str]:
    """Yield the text of a body step by step, so that the other threads have their turn in between."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for start in range(0, len(body), _STEP_BYTES):
        yield decoder.decode(body[start : start + _STEP_BYTES])
    yield decoder.decode(b"", final=True)


def _is_surely_utf8(body: bytes) -> bool:
    return len(body) - len(body.translate(None, _FIRST_BYTES)) >= _SURE
