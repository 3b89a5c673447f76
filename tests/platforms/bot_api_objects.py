"""The Bot API's JSON objects and the record of a call, as plain builders without state.

Shapes: https://core.telegram.org/bots/api#available-types (read 2026-11-29). What a chat holds is the world's
business, what is refused that of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_COMMAND = re.compile(r"(?<!\S)/[A-Za-z0-9_]{1,32}(?:@[A-Za-z0-9_]{5,32})?")
_MENTION = re.compile(r"(?<![\w@/])@[A-Za-z0-9_]{4,32}")
_URL = re.compile(r"https?://\S+")


class RefusalError(Exception):
    """The platform says no: HTTP status, description, and the `parameters` object when there is one."""

    def __init__(self, status: int, description: str, parameters: Mapping[str, int] | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters

    def body(self) -> Json:
        """Return the answer's JSON object."""
        body: Json = {"ok": False, "error_code": self.status, "description": self.description}
        if self.parameters:
            body["parameters"] = dict(self.parameters)
        return body


def bad_request(what: str) -> RefusalError:
    """Return the 400 that says `what`."""
    return RefusalError(400, f"Bad Request: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of the bot, as it arrived, with its outcome.

    `thread_id` and `reply_to` are what the bot asked for. `message_id` is the message it made, edited or
    deleted; `ok` says whether it took effect, also if a fault then kept the answer from the bot.
    """

    method: str
    params: Mapping[str, Any]
    chat_id: int | None = None
    thread_id: int | None = None
    text: str = ""  # text or caption as requested, before trimming and markup
    entities: tuple[Json, ...] = ()
    reply_to: int | None = None
    message_id: int | None = None
    at_monotonic: float = 0.0
    ok: bool = True
    error: str = ""


@dataclass(slots=True)
class Chat:
    """A chat with all it holds. `gone` is the 403 every call gets while the bot may not write there."""

    id: int
    type: str
    name: str
    username: str = ""
    is_forum: bool = False
    topics: dict[int, str] = field(default_factory=dict)
    messages: dict[int, Json] = field(default_factory=dict)  # whole Message objects
    last_message_id: int = 0
    gone: str = ""
    migrated_to: int | None = None

    def to_json(self) -> Json:
        """Return the Chat object that messages carry."""
        chat: Json = {"id": self.id, "type": self.type}
        chat["first_name" if self.type == "private" else "title"] = self.name
        if self.username:
            chat["username"] = self.username
        if self.is_forum:
            chat["is_forum"] = True
        return chat


def utf16_len(text: str) -> int:
    """Return the length in UTF-16 code units, the unit of every Bot API limit and entity."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def user(user_id: int, first_name: str, *, username: str = "", language: str = "en", is_bot: bool = False) -> Json:
    """Return a User object."""
    made: Json = {"id": user_id, "is_bot": is_bot, "first_name": first_name}
    if username:
        made["username"] = username
    if not is_bot:
        made["language_code"] = language
    return made


def bot_user(bot_id: int, username: str) -> Json:
    """Return what getMe returns."""
    return {
        "id": bot_id,
        "is_bot": True,
        "first_name": "Dutiful",
        "username": username,
        "can_join_groups": True,
        "can_read_all_group_messages": False,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
    }


def detect_entities(text: str) -> list[Json]:
    """Return the entities the platform finds by itself in a person's text: commands, mentions, links."""
    found: list[Json] = []
    for kind, pattern in (("bot_command", _COMMAND), ("mention", _MENTION), ("url", _URL)):
        found.extend(
            {"type": kind, "offset": utf16_len(text[: hit.start()]), "length": utf16_len(hit.group())}
            for hit in pattern.finditer(text)
        )
    return sorted(found, key=lambda entity: int(entity["offset"]))


def photo_sizes(file_id: str, size_bytes: int) -> list[Json]:
    """Return the PhotoSize list of one photo: a thumbnail and the photo itself."""
    return [
        {
            "file_id": f"{file_id}-s",
            "file_unique_id": f"u{file_id}-s",
            "width": 90,
            "height": 90,
            "file_size": 900,
        },
        {
            "file_id": file_id,
            "file_unique_id": f"u{file_id}",
            "width": 800,
            "height": 800,
            "file_size": size_bytes,
        },
    ]


def file_object(kind: str, file_id: str, name: str, mime: str, size_bytes: int) -> Any:
    """Return the value of a message's `photo`, `document`, `voice`, `audio`, `video` or `animation` field."""
    if kind == "photo":
        return photo_sizes(file_id, size_bytes)
    made: Json = {
        "file_id": file_id,
        "file_unique_id": f"u{file_id}",
        "file_size": size_bytes,
        "mime_type": mime,
    }
    if kind != "voice":
        made["file_name"] = name
    if kind != "document":
        made["duration"] = 3
    if kind in {"video", "animation"}:
        made["width"] = made["height"] = 320
    return made
