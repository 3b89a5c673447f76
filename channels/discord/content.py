"""What a Discord message holds: text, files, the message it answers. Pure, from the platform's own JSON.

Shapes: https://docs.discord.com/developers/resources/message (read 2026-11-30).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.messages import Attachment, Quote, clean_text

Json = Mapping[str, Any]

_VOICE_FLAG = 1 << 13  # IS_VOICE_MESSAGE
_FORWARD = 1  # type of a message reference
_EMOJI = re.compile(r"<a?:(\w{2,32}):\d{5,}>")
_USER = re.compile(r"<@!?(\d{1,20})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class BotIdentity:
    """Who we are on the platform."""

    id: str


def number_of(message: Json) -> int:
    """Return a message's id as a number, 0 where it has none that can be read."""
    shown = str(message.get("id"))
    return int(shown) if shown.isascii() and shown.isdigit() else 0


def author_id(message: Json) -> str:
    """Return who wrote a message."""
    return str(message["author"]["id"])


def is_from_bot(message: Json) -> bool:
    """Say whether a program wrote a message: a bot, or a webhook."""
    return bool(message["author"].get("bot")) or bool(message.get("webhook_id"))


def shown_name(user: Json, member: Json | None = None) -> str:
    """Return the name people see."""
    nick = (member or {}).get("nick")
    return clean_text(str(nick or user.get("global_name") or user.get("username") or ""))


def names_user(message: Json, user_id: str) -> bool:
    """Say whether the text itself mentions a user; the ping of a reply does not count."""
    return user_id in _USER.findall(str(message.get("content") or ""))


def forwarded(message: Json) -> Json | None:
    """Return the message that was forwarded by this one, as far as the platform shows it."""
    if (message.get("message_reference") or {}).get("type") != _FORWARD:
        return None
    snapshots = message.get("message_snapshots") or ()
    return next((shot["message"] for shot in snapshots if isinstance(shot.get("message"), dict)), None)


def text_of(message: Json, *, without_user: str = "", without_role: str = "") -> str:
    """Return the text as a model can read it, without the mentions that address the bot.

    Other people appear as @name, custom emoji as :name:. Things said without words become a line that says what
    they are.
    """
    said = forwarded(message) or message
    text = str(said.get("content") or "")
    people = {str(user["id"]): shown_name(user, user.get("member")) for user in said.get("mentions") or ()}
    if without_user:
        text = _without(text, re.compile(rf"<@!?{without_user}>"))
    if without_role:
        text = _without(text, re.compile(rf"<@&{without_role}>"))
    text = _USER.sub(lambda found: f"@{people[found[1]]}" if people.get(found[1]) else found[0], text)
    text = _EMOJI.sub(r":\1:", text)
    poll = said.get("poll")
    if not text and isinstance(poll, dict):
        answers = ", ".join(str((one.get("poll_media") or {}).get("text") or "") for one in poll.get("answers") or ())
        text = f"[poll] {(poll.get('question') or {}).get('text') or ''} ({answers})"
    return clean_text(text)


def _without(text: str, mention: re.Pattern[str]) -> str:
    """Return `text` without a mention and the white space around it."""
    at = 0
    while (found := mention.search(text, at)) is not None:
        before, after = text[: found.start()], text[found.end() :]
        if not before.strip():
            before, after = "", after.lstrip(" \t\n,:")
        elif before[-1].isspace() and (not after or not after[0].isalnum()):
            before = before.rstrip(" \t")
        text, at = before + after, len(before)
    return text.strip()


def attachments_of(message: Json) -> tuple[Attachment, ...]:
    """Return the message's files by reference: where to ask for them, and their address, which expires after a day."""
    return tuple(_attachments(message))


def _attachments(message: Json) -> Iterator[Attachment]:
    said = forwarded(message) or message
    at = f"{message['channel_id']}/{message['id']}"
    is_voice = int(said.get("flags") or 0) & _VOICE_FLAG
    for file in said.get("attachments") or ():
        mime = str(file.get("content_type") or "").partition(";")[0].strip()
        size = file.get("size")
        yield Attachment(
            kind="voice" if is_voice else _kind(mime),
            name=clean_text(str(file.get("filename") or "")),
            mime=mime,
            size_bytes=size if isinstance(size, int) else None,
            ref=f"{at}/{file['id']} {file.get('url') or ''}".strip(),
        )
    for sticker in said.get("sticker_items") or ():
        yield Attachment(kind="sticker", name=clean_text(str(sticker.get("name") or "")))


def _kind(mime: str) -> str:
    family = mime.partition("/")[0]
    return family if family in {"image", "audio", "video"} else "document"


def replied_message(message: Json) -> Json | None:
    """Return the message that this one answers, if it still exists."""
    if (message.get("message_reference") or {}).get("type", 0) == _FORWARD:
        return None
    target = message.get("referenced_message")
    return target if isinstance(target, dict) else None


def quote_of(message: Json, me: BotIdentity) -> Quote | None:
    """Return what this message answers."""
    target = replied_message(message)
    return None if target is None else as_quote(target, me, sender_id=author_id(message))


def as_quote(message: Json, me: BotIdentity, *, sender_id: str) -> Quote:
    """Return a message as a quote for somebody who speaks now."""
    author = author_id(message)
    role = "bot" if author == me.id else "sender" if author == sender_id else "other"
    text = text_of(message)
    names = ", ".join(file.name or file.kind for file in attachments_of(message))
    if names:
        text = f"{text}\n[{names}]".strip()
    return Quote(
        message_id=str(message["id"]), author=role, text=text, name=shown_name(message["author"], message.get("member"))
    )
