"""What a Telegram message holds: text, files, the message it answers. Pure; imports without the SDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.messages import Attachment, Quote, clean_text

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from telegram import Message, MessageEntity


CHANNEL = "telegram"


@dataclass(frozen=True, slots=True, kw_only=True)
class BotIdentity:
    """Who we are on the platform. `username` has no @."""

    id: int
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An entity with its place in the Python string."""

    kind: str
    start: int
    end: int
    text: str
    user_id: int | None = None


def text_of(message: Message) -> str:
    """Return text or caption; for things said without words, a line that says what they are."""
    words = message.text or message.caption
    if words:
        return words
    if message.poll is not None:
        options = ", ".join(option.text for option in message.poll.options)
        return f"[poll] {message.poll.question} ({options})"
    if message.dice is not None:
        return f"[dice] {message.dice.emoji} {message.dice.value}"
    return ""


def spans_of(message: Message) -> list[Span]:
    """Return the entities of text or caption, in order. Their offsets count UTF-16 units."""
    words, entities = message.text or "", message.entities
    if not words:
        words, entities = message.caption or "", message.caption_entities
    if not entities:
        return []
    units = words.encode("utf-16-le", "surrogatepass")
    return [_span(words, units, entity) for entity in sorted(entities, key=lambda entity: entity.offset)]


def _span(words: str, units: bytes, entity: MessageEntity) -> Span:
    if words.isascii():
        start, end = entity.offset, entity.offset + entity.length
    else:
        start = _chars(units[: entity.offset * 2])
        end = start + _chars(units[entity.offset * 2 : (entity.offset + entity.length) * 2])
    return Span(
        kind=str(entity.type),
        start=start,
        end=end,
        text=words[start:end],
        user_id=entity.user.id if entity.user is not None else None,
    )


def _chars(units: bytes) -> int:
    return len(units.decode("utf-16-le", "surrogatepass"))


def without(text: str, spans: Sequence[Span]) -> str:
    """Return `text` without the spans and the white space that stood around them."""
    for span in sorted(spans, key=lambda span: span.start, reverse=True):
        before, after = text[: span.start], text[span.end :]
        if not before.strip():
            before, after = "", after.lstrip(" \t\n,:")
        elif before[-1].isspace() and (not after or not after[0].isalnum()):
            before = before.rstrip(" \t")
        text = before + after
    return text.strip()


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    """Return the message's files by reference, places and contacts by value."""
    if message.photo:
        largest = max(message.photo, key=lambda size: (size.width * size.height, size.file_size or 0))
        return (Attachment(kind="image", mime="image/jpeg", size_bytes=largest.file_size, ref=largest.file_id),)
    # An animation also fills `document`: the first one that is set is the right one.
    for kind, media in (
        ("animation", message.animation),
        ("audio", message.audio),
        ("video", message.video),
        ("video", message.video_note),
        ("voice", message.voice),
        ("sticker", message.sticker),
        ("document", message.document),
    ):
        if media is not None:
            return (_file(kind, media),)
    if message.venue is not None:
        spot, title = message.venue.location, f" {message.venue.title}, {message.venue.address}"
        return (Attachment(kind="location", name=f"{spot.latitude},{spot.longitude}{title}"),)
    if message.location is not None:
        return (Attachment(kind="location", name=f"{message.location.latitude},{message.location.longitude}"),)
    if message.contact is not None:
        person = message.contact
        name = " ".join(part for part in (person.first_name, person.last_name, person.phone_number) if part)
        return (Attachment(kind="contact", name=clean_text(name)),)
    return ()


def _file(kind: str, media: object) -> Attachment:
    mime = getattr(media, "mime_type", None) or ""
    if kind == "animation":
        kind = "video"
    elif kind == "document" and mime.startswith("image/"):
        kind = "image"
    name = getattr(media, "file_name", None) or (getattr(media, "emoji", None) if kind == "sticker" else "") or ""
    return Attachment(
        kind=kind,
        name=clean_text(name),
        mime=mime,
        size_bytes=getattr(media, "file_size", None),
        ref=str(getattr(media, "file_id", "")),
    )


def replied_message(message: Message) -> Message | None:
    """Return the message this one replies to.

    Every message of a forum topic formally replies to the service message that opened the topic; that is no
    reply anybody made.
    """
    target = message.reply_to_message
    return None if target is None or target.forum_topic_created is not None else target


def quote_of(message: Message, me: BotIdentity) -> Quote | None:
    """Return what the message replies to: the highlighted part if there is one, else the whole text."""
    fragment = message.quote.text if message.quote is not None else None
    target = replied_message(message)
    if target is not None:
        author = "other"
        if target.from_user is not None and target.from_user.id == me.id:
            author = "bot"
        elif sender_of(target)[0] == sender_of(message)[0]:
            author = "sender"
        return Quote(
            message_id=str(target.message_id),
            author=author,
            text=clean_text(fragment or text_of(target) or _label(attachments_of(target))),
            is_fragment=fragment is not None,
        )
    outside = message.external_reply
    if outside is not None:
        return Quote(
            message_id=str(outside.message_id or ""),
            author="other",
            text=clean_text(fragment or "[message from another chat]"),
            is_fragment=fragment is not None,
        )
    return None


def _label(files: Sequence[Attachment]) -> str:
    return ", ".join(f"[{file.kind}{' ' + file.name if file.name else ''}]" for file in files)


def sender_of(message: Message) -> tuple[str, str]:
    """Return id and shown name of who wrote a message.

    Somebody who writes in a group as a chat (an anonymous admin, a channel) has that chat's id; `from_user`
    is then a stand-in account that all of them share.
    """
    if message.sender_chat is not None:
        return str(message.sender_chat.id), clean_text(message.sender_chat.effective_name or "")
    if message.from_user is not None:
        return str(message.from_user.id), clean_text(message.from_user.full_name or "")
    return "", ""
