"""What the Bot API refuses in a text, its entities, its markup and its buttons: pure checks.

Limits from https://core.telegram.org/bots/api (read 2026-11-29): text 1-4096 and caption 0-1024 UTF-16 units
after parsing, callback data 1-64 bytes. Markup is read only as far as needed to find what is malformed and
what the person would see; nesting rules of entities are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from tests.platforms.bot_api_objects import Json, bad_request, utf16_len

MAX_TEXT = 4096  # UTF-16 units
MAX_CAPTION = 1024  # UTF-16 units
MAX_ENTITIES = 100  # what comes after is ignored
MAX_CALLBACK_DATA_BYTES = 64

_ENTITY_TYPES = frozenset(
    {
        *("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"),
        *("bold", "italic", "underline", "strikethrough", "spoiler", "code", "pre"),
        *("blockquote", "expandable_blockquote", "text_link", "text_mention", "custom_emoji", "date_time"),
    }
)
_HTML_TAGS = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
    "s": "strikethrough", "strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler",
    "span": "spoiler", "a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote",
    "tg-emoji": "custom_emoji", "tg-time": "date_time",
}  # fmt: skip
_MARKS = {
    "```": "pre",
    "`": "code",
    "||": "spoiler",
    "__": "underline",
    "*": "bold",
    "_": "italic",
    "~": "strikethrough",
}
_RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
_CONTROL = {code: " " for code in range(32) if code != 10}


def final_text(params: Json, field: str) -> tuple[str, list[Json]]:
    """Return the text a person will see and its entities, from `text` or `caption` as it was requested.

    Raises:
        RefusalError: malformed markup, bad entities, empty or too long.
    """
    text = str(params.get(field, ""))
    mode = str(params.get("parse_mode") or "").lower()
    entities_field = "entities" if field == "text" else "caption_entities"
    if mode:
        text, entities = parse_markup(text, mode)
    else:
        entities = params.get(entities_field) or []
        check_entities(text, entities)
    limit, what = (MAX_TEXT, "message") if field == "text" else (MAX_CAPTION, "message caption")
    if field == "text" and not text:
        raise bad_request("message text is empty")
    text, entities = settle(text, entities)
    if field == "text" and not text:
        raise bad_request("text must be non-empty")
    if utf16_len(text) > limit:
        raise bad_request(f"{what} is too long")
    return text, entities


def settle(text: str, entities: Sequence[Json]) -> tuple[str, list[Json]]:
    """Return text and entities as the platform stores them: no outer white space, no control characters."""
    text = text.translate(_CONTROL)
    left = text.lstrip()
    skipped = utf16_len(text) - utf16_len(left)
    text = left.rstrip()
    size = utf16_len(text)
    kept = []
    for entity in entities[:MAX_ENTITIES]:
        start = max(0, entity["offset"] - skipped)
        end = min(size, entity["offset"] + entity["length"] - skipped)
        if start < end:
            kept.append({**entity, "offset": start, "length": end - start})
    return text, kept


def check_entities(text: str, entities: Any) -> None:
    """Refuse entities that the text cannot carry."""
    if not isinstance(entities, list):
        raise bad_request("can't parse entities: expected an Array of MessageEntity")
    if not entities:
        return
    starts = _character_starts(text)
    size = utf16_len(text)
    for entity in entities:
        if not isinstance(entity, dict) or entity.get("type") not in _ENTITY_TYPES:
            raise bad_request("can't parse MessageEntity: Unsupported type specified")
        offset, length = entity.get("offset"), entity.get("length")
        if not isinstance(offset, int) or offset < 0:
            raise bad_request(f"receive an entity with incorrect offset {offset}")
        if not isinstance(length, int) or length < 0:
            raise bad_request(f"receive an entity with incorrect length {length}")
        if offset > size:
            raise bad_request(f"entity begins after the end of the text at UTF-16 offset {offset}")
        if offset + length > size:
            raise bad_request(
                f"entity beginning at UTF-16 offset {offset} ends after the end of the text "
                f"at UTF-16 offset {offset + length}"
            )
        if starts is not None and offset not in starts:
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at UTF-16 offset {offset}")
        if starts is not None and offset + length not in starts:
            raise bad_request(
                f"entity beginning at UTF-16 offset {offset} ends in a middle of a UTF-16 symbol "
                f"at UTF-16 offset {offset + length}"
            )
        if entity["type"] == "text_link" and not entity.get("url"):
            raise bad_request("can't parse MessageEntity: Can't find field \"url\"")


def _character_starts(text: str) -> set[int] | None:
    """Return the UTF-16 offsets at which a character begins or the text ends; None when each one does."""
    if text.isascii() or max(text) <= "\uffff":
        return None
    starts, at = {0}, 0
    for char in text:
        at += 2 if char > "\uffff" else 1
        starts.add(at)
    return starts


def parse_markup(text: str, mode: str) -> tuple[str, list[Json]]:
    """Return plain text and entities of marked-up text.

    Raises:
        RefusalError: can't parse entities.
    """
    if mode == "html":
        reader = _HtmlReader()
        reader.feed(text)
        reader.close()
        if reader.open:
            raise _unparsable(f'Can\'t find end tag corresponding to start tag "{reader.open[-1][0]}"')
        return reader.text, reader.entities
    if mode in {"markdownv2", "markdown"}:
        return _read_markdown(text, strict=mode == "markdownv2")
    raise bad_request("unsupported parse_mode")


def _unparsable(why: str) -> Exception:
    return bad_request(f"can't parse entities: {why}")


class _HtmlReader(HTMLParser):
    """Collects text and entities, refusing unknown and unbalanced tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.entities: list[Json] = []
        self.open: list[tuple[str, int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _HTML_TAGS:
            raise _unparsable(f'Unsupported start tag "{tag}" at byte offset {self.getpos()[1]}')
        self.open.append((tag, utf16_len(self.text), dict(attrs).get("href") or ""))

    def handle_endtag(self, tag: str) -> None:
        if not self.open:
            raise _unparsable(f"Unexpected end tag at byte offset {self.getpos()[1]}")
        opened, start, href = self.open.pop()
        if opened != tag:
            where = f"Unmatched end tag at byte offset {self.getpos()[1]}"
            raise _unparsable(f'{where}, expected "</{opened}>", found "</{tag}>"')
        entity: Json = {"type": _HTML_TAGS[tag], "offset": start, "length": utf16_len(self.text) - start}
        if href:
            entity["url"] = href
        if entity["length"] and (tag != "a" or href):
            self.entities.append(entity)

    def handle_data(self, data: str) -> None:
        self.text += data


def _read_markdown(text: str, *, strict: bool) -> tuple[str, list[Json]]:
    """Read MarkdownV2 (strict: every reserved character is escaped or a mark) or the legacy Markdown."""
    seen = ""
    entities: list[Json] = []
    opened: list[tuple[str, int]] = []
    at = 0
    marks = _MARKS if strict else {"*": "bold", "_": "italic", "```": "pre", "`": "code"}
    while at < len(text):
        char = text[at]
        in_code = bool(opened) and opened[-1][0] in {"`", "```"}
        if char == "\\" and at + 1 < len(text):
            seen, at = seen + text[at + 1], at + 2
            continue
        mark = next((m for m in ("```", "||", "__") if m in marks and text.startswith(m, at)), char)
        if opened and opened[-1][0] == mark:
            start = opened.pop()[1]
            entities.append({"type": marks[mark], "offset": start, "length": utf16_len(seen) - start})
            at += len(mark)
        elif in_code:
            seen, at = seen + char, at + 1
        elif mark in marks:
            opened.append((mark, utf16_len(seen)))
            at += len(mark)
        elif char == "[":
            opened.append(("[", utf16_len(seen)))
            at += 1
        elif char == "]" and opened and opened[-1][0] == "[" and text.startswith("](", at):
            end = text.find(")", at)
            if end < 0:
                raise _unparsable(f"Can't find end of a URL at byte offset {len(text[:at].encode())}")
            start = opened.pop()[1]
            url = text[at + 2 : end].replace("\\", "")
            entities.append({"type": "text_link", "offset": start, "length": utf16_len(seen) - start, "url": url})
            at = end + 1
        elif strict and char in _RESERVED and not (char == ">" and (at == 0 or text[at - 1] == "\n")):
            raise _unparsable(f"Character '{char}' is reserved and must be escaped with the preceding '\\'")
        else:
            seen, at = seen + ("" if strict and char == ">" else char), at + 1
    if opened:
        name = marks.get(opened[-1][0], "text_url").title()
        raise _unparsable(f"Can't find end of {name} entity at byte offset {len(text.encode())}")
    return seen, sorted(entities, key=lambda entity: int(entity["offset"]))


def check_markup(markup: Any) -> None:
    """Refuse a `reply_markup` with buttons the platform does not take."""
    if markup is None:
        return
    if not isinstance(markup, dict):
        raise bad_request("object expected as reply markup")
    for row in markup.get("inline_keyboard", []):
        for button in row:
            if not button.get("text"):
                raise bad_request("can't parse InlineKeyboardButton: Text buttons must be non-empty")
            data = button.get("callback_data")
            if data is None and "url" not in button:
                raise bad_request(
                    "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard"
                )
            if data is not None and not 1 <= len(str(data).encode()) <= MAX_CALLBACK_DATA_BYTES:
                raise bad_request("BUTTON_DATA_INVALID")
