"""What an answer holds, as text or picture for a model: pages, JSON, documents, pictures, plain text.

The bytes decide before the server's word does. Slow or hostile formats are read in processes of their own
(`reader.py`, `bot/documents`); how a result is put for the model is the tools' part.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import orjson

from bot.documents.contract import DocumentError, DocumentKind
from bot.documents.reading import Documents
from bot.toolkit.file_types import DOCX, IMAGES, PDF, PPTX, UNKNOWN_BINARY, XLSX, file_type, is_whole_image
from bot.toolkit.measure import NotJsonError, measure
from bot.web.charsets import DecodedText, decode
from bot.web.reader import PageReader
from bot.web.wire import Answer

MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Providers refuse images somewhere between 5 and 20 MB."""

_MAX_JSON_BYTES = 2 * 1024 * 1024  # larger ones stay as they are: taking them apart would hold up everybody
_SNIFF_CHARS = 1_024
# What was passed over is not looked at again (possessive), or a page of comments would take for ever.
_MARKUP = re.compile(
    r"(?>\s+|<!--.*?-->|<\?xml[^>]*>)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_UNTOLD = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/x-unknown", "unknown/unknown"})
_DOCUMENTS: Mapping[str, DocumentKind] = MappingProxyType(
    {PDF: DocumentKind.PDF, DOCX: DocumentKind.DOCX, XLSX: DocumentKind.XLSX, PPTX: DocumentKind.PPTX}
)


class NoContent(Exception):
    """The answer has nothing that a model could read; the text goes on after "the answer"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What there is. `mime` as found; `text` is at most as long as was asked for.

    `total_chars` of the whole text, None if nobody counted them; `is_cut`: there is more than `text`. `notes` say
    what the reader of the text should know. `picture`: the bytes of one, `text` is then empty.
    """

    mime: str
    text: str = ""
    title: str = ""
    total_chars: int | None = None
    is_cut: bool = False
    notes: tuple[str, ...] = ()
    picture: bytes = field(default=b"", repr=False)


class ContentReader:
    """Reads answers, each format with the part that is made for it."""

    def __init__(self, documents: Documents, pages: PageReader) -> None:
        self._documents = documents
        self._pages = pages

    async def read(self, answer: Answer, *, markdown: bool, max_chars: int) -> Content:
        """Return what an answer holds, text up to `max_chars`.

        Raises:
            NoContent: nothing that can be read or looked at.
            WebError: the page's markup holds up its reader.
        """
        if not answer.body:
            raise NoContent("is empty")
        mime = await asyncio.to_thread(_binary_type, answer.body)
        if mime in IMAGES:
            return _picture(answer.body, mime)
        if mime in _DOCUMENTS:
            return await self._document(answer.body, mime, max_chars)
        told = answer.content_type
        is_page = told in {"text/html", "application/xhtml+xml"}
        is_markup = is_page or told in _UNTOLD or told.endswith(("/xml", "+xml"))
        decoded = await asyncio.to_thread(decode, answer.body, label=answer.charset, is_markup=is_markup)
        if mime or decoded is None:
            raise NoContent(
                f"is binary ({mime or answer.content_type or UNKNOWN_BINARY}), which cannot be read as text"
            )
        notes = _encoding_notes(decoded)
        if is_page or (told in _UNTOLD and _MARKUP.match(decoded.text[:_SNIFF_CHARS])):
            return await self._page(decoded.text, answer.url, notes, markdown=markdown, max_chars=max_chars)
        if told.endswith(("/json", "+json")) or (told in _UNTOLD and decoded.text[:1] in {"{", "["}):
            return await asyncio.to_thread(_json, decoded.text, notes, max_chars)
        mime = "text/plain" if told in _UNTOLD else told
        return _text(decoded.text, mime, notes, max_chars)

    async def _page(self, markup: str, url: str, notes: tuple[str, ...], *, markdown: bool, max_chars: int) -> Content:
        found = await self._pages.read(markup, url, markdown=markdown)
        if not found.text and not found.title:
            raise NoContent("is a page without text; it may be made by scripts, which are not run")
        if not found.article:
            notes = (*notes, "no article was found in the page: this is all its text, without links")
        return Content(
            mime="text/html",
            title=found.title,
            text=found.text[:max_chars],
            total_chars=found.total_chars,
            is_cut=found.total_chars > max_chars,
            notes=notes,
        )

    async def _document(self, body: bytes, mime: str, max_chars: int) -> Content:
        kind = _DOCUMENTS[mime]
        try:
            found = await self._documents.read(body, kind, max_chars=max_chars)
        except DocumentError as exc:
            raise NoContent(f"is a document ({kind}) that {exc}") from exc
        parts = f"{found.total_parts} {kind.part_name}s" if found.total_parts else ""
        return Content(mime=mime, text=found.text, is_cut=not found.is_end, notes=(parts,) if parts else ())


def _binary_type(body: bytes) -> str:
    """Return the type of a format that is no text, by its bytes; '' for text and for what nobody knows."""
    seen = file_type(io.BytesIO(body), limit_bytes=len(body))
    return "" if seen.encoding or seen.mime == UNKNOWN_BINARY else seen.mime


def _picture(body: bytes, mime: str) -> Content:
    if len(body) > MAX_IMAGE_BYTES:
        raise NoContent(f"is a picture ({mime}) of {len(body):,} bytes; {MAX_IMAGE_BYTES:,} can be looked at")
    if not is_whole_image(body, mime):
        raise NoContent(f"is a picture ({mime}) that is cut off or damaged")
    return Content(mime=mime, picture=body)


def _text(text: str, mime: str, notes: tuple[str, ...], max_chars: int) -> Content:
    return Content(mime=mime, text=text[:max_chars], total_chars=len(text), is_cut=len(text) > max_chars, notes=notes)


def _json(text: str, notes: tuple[str, ...], max_chars: int) -> Content:
    """Return JSON in lines; written out only as far as it is wanted, since indentation multiplies what is nested."""
    try:
        if len(text) > _MAX_JSON_BYTES:
            return _text(text, "application/json", notes, max_chars)
        value = orjson.loads(text)
        measure(value)
    except NotJsonError:
        return _text(text, "application/json", notes, max_chars)
    except ValueError:
        return _text(text, "application/json", (*notes, "it is not valid JSON"), max_chars)
    pieces: list[str] = []
    chars = 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
        pieces.append(piece)
        chars += len(piece)
        if chars > max_chars:
            shown = "".join(pieces)[:max_chars]
            return Content(mime="application/json", text=shown, is_cut=True, notes=notes)
    return Content(mime="application/json", text="".join(pieces), total_chars=chars, notes=notes)


def _encoding_notes(decoded: DecodedText) -> tuple[str, ...]:
    if not decoded.damaged:
        return ()
    return (f"{decoded.damaged:,} characters did not fit the encoding ({decoded.encoding}) and are shown as \ufffd",)
