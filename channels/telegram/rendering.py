"""From the bot's text to Telegram's parts: plain text with entities, cut to the platform's limit.

Entities instead of a markup mode: the platform cannot fail to parse them. Imports the markdown renderer
(80 ms), hence only loaded with the SDK.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyromark
from telegramify_markdown import MessageEntity, RenderConfig, convert

from bot.log import get_logger
from bot.messages import OutboundKind, clean_text
from channels.text import cut_at, utf16_length

TEXT_LIMIT = 4096
"""UTF-16 units of one message (https://core.telegram.org/bots/api#sendmessage, read 2026-11-29)."""

CAPTION_LIMIT = 1024
"""UTF-16 units of a caption (https://core.telegram.org/bots/api#sendphoto, read 2026-11-29)."""

ENTITIES_LIMIT = 100
"""Entities of one message; Telegram leaves out what comes after, links too. Not in its documentation, found out by
the SDK's authors (its constant `MessageLimit.MESSAGE_ENTITIES`, read 2026-11-30)."""

_MARKDOWN_KINDS = frozenset({OutboundKind.REPLY, OutboundKind.MESSAGE})

_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_TASKLISTS
    | pyromark.Options.ENABLE_MATH
)
_BREAK = re.compile(rb"<br\s*/?>", re.IGNORECASE)
_MAYBE_HTML = re.compile(r"(?<!\\)<[A-Za-z/!?]")
_HTML_PASSES = 4  # an escape can uncover further markup behind it

_log = get_logger(__name__)


def _style() -> RenderConfig:
    style = RenderConfig.isolated()
    symbols = style.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = ""
    symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item = "•"
    # The library's own mark of an open item, U+2611, looks done.
    symbols.task_uncompleted, symbols.task_completed = "☐", "☑"
    return style


_STYLE = _style()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """One message's worth of text. Entities are the API's JSON, offsets in UTF-16 units of this part."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()


def render(text: str, kind: OutboundKind, *, limit: int = TEXT_LIMIT) -> list[TextPart]:
    """Return the parts of a message, the same ones each time. No part is blank; blank text has no part."""
    text = clean_text(text)
    if not text.strip():
        return []
    if kind in _MARKDOWN_KINDS:
        plain, entities = _from_markdown(text)
        if plain.strip():
            return _cut(plain, entities, limit)
    return _cut(text, [], limit)


def _from_markdown(text: str) -> tuple[str, list[MessageEntity]]:
    try:
        return convert(_keep_html(text), config=_STYLE)
    except Exception as exc:  # noqa: BLE001  # an answer must not be lost to a markup library's bug
        _log.error("markdown not rendered, sent as plain text", error=f"{type(exc).__name__}: {exc}")
        return "", []


def _keep_html(text: str) -> str:
    """Return `text` with whatever markdown takes for HTML escaped.

    The renderer drops HTML, but `Vec<String>` is what somebody wrote. Spoiler tags keep their meaning and
    line breaks become such.
    """
    for _ in range(_HTML_PASSES):
        if not _MAYBE_HTML.search(text):
            return text
        source = text.encode()
        out = bytearray()
        at = 0
        for event, place in pyromark.events_with_range(text, options=_OPTIONS):
            if not isinstance(event, dict) or not ("Html" in event or "InlineHtml" in event):
                continue
            out += source[at : place["start"]]
            out += _escaped(source[place["start"] : place["end"]])
            at = place["end"]
        out += source[at:]
        escaped = out.decode()
        if escaped == text:
            return text
        text = escaped
    return text


def _escaped(html: bytes) -> bytes:
    if html.lower() in {b"<tg-spoiler>", b"</tg-spoiler>"}:
        return html
    if _BREAK.fullmatch(html):
        return b"\n"
    return html.replace(b"<", b"\\<")


def _cut(text: str, entities: list[MessageEntity], limit: int) -> list[TextPart]:
    entities = sorted(entities, key=lambda entity: entity.offset)
    parts: list[TextPart] = []
    at = units = 0
    while at < len(text):
        end = cut_at(text, at, limit)
        size = utf16_length(text[at:end])
        touching = [entity for entity in entities if _touches(entity, units, size)]
        if len(touching) > ENTITIES_LIMIT and (room := touching[ENTITIES_LIMIT].offset - units) > 0:
            end = cut_at(text, at, room)
            size = utf16_length(text[at:end])
        piece = text[at:end]
        if piece.strip():  # a blank message is refused
            parts.append(TextPart(text=piece, entities=_clip(touching, units, size)))
        at, units = end, units + size
    return parts


def _touches(entity: MessageEntity, start: int, size: int) -> bool:
    return bool(entity.offset < start + size and entity.offset + entity.length > start)


def _clip(entities: list[MessageEntity], start: int, size: int) -> tuple[dict[str, Any], ...]:
    """Return the entities that touch a piece, as far as they touch it."""
    clipped: list[dict[str, Any]] = []
    for entity in entities:
        first = max(entity.offset, start)
        last = min(entity.offset + entity.length, start + size)
        if first < last:
            clipped.append({**entity.to_dict(), "offset": first - start, "length": last - first})
    return tuple(clipped)
