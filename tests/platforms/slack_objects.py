"""Slack's JSON objects and the records of the Slack server, as plain builders without state.

Shapes: https://docs.slack.dev/reference/objects and https://docs.slack.dev/reference/events (read 2026-11-30).
What a channel holds is the world's business, what is refused that of the rules.
"""

from __future__ import annotations

import json
import mimetypes
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

Json = dict[str, Any]

TEAM_ID = "T0LOOP00001"
TEAM_DOMAIN = "loopback"
APP_ID = "A0LOOP00001"
BOT_ID = "B0LOOP00001"  # the bot: what `bot_id` of a message says
BOT_USER_ID = "U0LOOP00001"  # the bot's user: what people mention
ADA = "U0ADA000001"  # the person who acts when a test names nobody


class RefusalError(Exception):
    """Slack says no: `ok: false` with this error string, and the fields that come with it."""

    def __init__(self, error: str, *, messages: tuple[str, ...] = (), **fields: Any) -> None:
        super().__init__(error)
        self.error = error
        self.fields = fields
        self.messages = messages

    def body(self) -> Json:
        """Return the answer's JSON object."""
        body: Json = {"ok": False, "error": self.error, **self.fields}
        if self.messages:
            body["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in self.messages]}
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of the bot, as it arrived, with its outcome.

    `ts` is the message it made, changed or deleted; `ok` says whether it took effect, also if a fault then kept
    the answer from the bot. `thread_ts` and `text` are what the bot asked for.
    """

    method: str
    params: Mapping[str, Any]
    channel: str = ""
    thread_ts: str | None = None
    text: str = ""
    blocks: tuple[Json, ...] = ()
    ts: str = ""
    at_monotonic: float = 0.0
    ok: bool = True
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ephemeral:
    """A message that only one person sees: no history holds it."""

    channel: str
    user: str
    text: str
    blocks: tuple[Json, ...] = ()
    thread_ts: str | None = None


class Kind(StrEnum):
    """What a conversation is; the values are those of `channel_type`."""

    IM = "im"
    CHANNEL = "channel"
    GROUP = "group"  # a private channel
    MPIM = "mpim"


@dataclass(slots=True, kw_only=True)
class Person:
    """A user of the workspace, who may be a bot."""

    id: str
    name: str
    real_name: str
    tz: str = "Europe/Berlin"
    is_bot: bool = False
    deleted: bool = False
    bot_id: str = ""

    def to_json(self) -> Json:
        """Return the User object of users.info."""
        offset = datetime.now(ZoneInfo(self.tz)).utcoffset()
        profile: Json = {"real_name": self.real_name, "display_name": self.name, "team": TEAM_ID}
        if self.bot_id:
            profile |= {"bot_id": self.bot_id, "api_app_id": APP_ID}
        made: Json = {
            "id": self.id,
            "team_id": TEAM_ID,
            "name": self.name,
            "deleted": self.deleted,
            "profile": profile,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "updated": 1_700_000_000,
        }
        if not self.deleted:
            made |= {
                "real_name": self.real_name,
                "tz": self.tz,
                "tz_label": self.tz,
                "tz_offset": int(offset.total_seconds()) if offset is not None else 0,
            }
        return made


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A conversation with all it holds: messages by ts, in order, replies included."""

    id: str
    kind: Kind
    name: str = ""
    user: str = ""  # the other side of an IM
    members: set[str] = field(default_factory=set)
    archived: bool = False
    restricted: bool = False  # posting is left to admins
    messages: dict[str, Json] = field(default_factory=dict)  # Message objects

    @property
    def has_bot(self) -> bool:
        """Whether the bot is in it."""
        return BOT_USER_ID in self.members

    def replies(self, thread_ts: str) -> list[Json]:
        """Return the messages below the first one of a thread, oldest first."""
        return [m for m in self.messages.values() if m.get("thread_ts") == thread_ts and m["ts"] != thread_ts]

    def to_json(self) -> Json:
        """Return the Conversation object."""
        made: Json = {
            "id": self.id,
            "created": 1_700_000_000,
            "is_archived": self.archived,
            "is_im": self.kind is Kind.IM,
            "is_org_shared": False,
            "context_team_id": TEAM_ID,
        }
        if self.kind is Kind.IM:
            return made | {"user": self.user, "is_user_deleted": False, "priority": 0}
        return made | {
            "name": self.name,
            "name_normalized": self.name,
            "is_channel": self.kind is Kind.CHANNEL,
            "is_group": self.kind is Kind.GROUP,
            "is_mpim": self.kind is Kind.MPIM,
            "is_private": self.kind is not Kind.CHANNEL,
            "is_member": self.has_bot,
            "is_general": False,
            "topic": {"value": "", "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
        }


@dataclass(slots=True, kw_only=True)
class StoredFile:
    """A file of the workspace; `content` is None until it was uploaded."""

    id: str
    name: str
    user: str
    size_bytes: int
    title: str = ""
    content: bytes | None = None
    mimetype: str = ""  # empty: from the name
    complete: bool = False
    shares: list[tuple[str, bool, str]] = field(default_factory=list)  # channel id, public, ts

    def to_json(self, origin: str) -> Json:
        """Return the File object, with URLs below `origin`."""
        kind = self.mimetype or mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        suffix = self.name.rpartition(".")[2].lower() if "." in self.name else "binary"
        private = f"{origin}/files-pri/{TEAM_ID}-{self.id}"
        return {
            "id": self.id,
            "created": int(time.time()),
            "timestamp": int(time.time()),
            "name": self.name,
            "title": self.title or self.name,
            "mimetype": kind,
            "filetype": suffix,
            "pretty_type": suffix.upper(),
            "user": self.user,
            "user_team": TEAM_ID,
            "editable": False,
            "size": self.size_bytes,
            "mode": "hosted",
            "is_external": False,
            "is_public": any(public for _, public, _ in self.shares),
            "url_private": f"{private}/{self.name}",
            "url_private_download": f"{private}/download/{self.name}",
            "permalink": f"https://{TEAM_DOMAIN}.slack.com/files/{self.user}/{self.id}/{self.name}",
            "file_access": "visible",
        }

    def shares_json(self) -> Json:
        """Return the `shares` of files.info: where the file is to be seen."""
        made: Json = {}
        for channel, public, ts in self.shares:
            made.setdefault("public" if public else "private", {}).setdefault(channel, []).append({"ts": ts})
        return made


def escape(text: str) -> str:
    """Return a person's text as Slack hands it out: the three control characters as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rich_text(text: str) -> list[Json]:
    """Return the blocks that Slack adds to what a person wrote."""
    parts: list[Json] = []
    for piece in re.split(r"(<@[UW][A-Z0-9]+>)", text):
        if piece.startswith("<@"):
            parts.append({"type": "user", "user_id": piece[2:-1]})
        elif piece:
            parts.append({"type": "text", "text": piece})
    return [{"type": "rich_text", "block_id": "rt", "elements": [{"type": "rich_text_section", "elements": parts}]}]


def bot_fields() -> Json:
    """Return what every message of the bot carries."""
    return {
        "user": BOT_USER_ID,
        "bot_id": BOT_ID,
        "app_id": APP_ID,
        "team": TEAM_ID,
        "bot_profile": {
            "id": BOT_ID,
            "deleted": False,
            "name": "Dutiful",
            "updated": 1_700_000_000,
            "app_id": APP_ID,
            "user_id": BOT_USER_ID,
            "team_id": TEAM_ID,
        },
    }


def readable(message: Mapping[str, Any]) -> str:
    """Return what people read: the blocks' texts without buttons, or the text where there are no blocks."""
    blocks = message.get("blocks") or []
    if not blocks:
        return str(message.get("text", ""))
    return "\n".join(text for text in map(block_text, blocks) if text)


def block_text(block: Mapping[str, Any]) -> str:
    """Return the text that a block shows, buttons left out."""
    kind = block.get("type")
    if kind == "actions":
        return ""
    if kind == "table":
        return "\n".join(" | ".join(map(_cell_text, row)) for row in block.get("rows", []))
    return _texts(block.get("text")) + _texts(block.get("fields")) + _texts(block.get("elements"))


def _cell_text(cell: Mapping[str, Any]) -> str:
    return str(cell["text"]) if cell.get("type") == "raw_text" else _texts(cell.get("elements"))


def _texts(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_texts, value))
    if not isinstance(value, dict):
        return ""
    if value.get("type") == "user":
        return f"<@{value['user_id']}>"
    if value.get("type") == "link":
        return str(value.get("text") or value["url"])
    if value.get("type") == "emoji":
        return f":{value.get('name', '')}:"
    return _texts(value.get("text")) + _texts(value.get("elements"))


def parse_json(value: Any) -> Any:
    """Return a parameter that may have come as JSON text (in a form) or as an object (in a JSON body).

    Raises:
        ValueError: a text that is not JSON.
    """
    return json.loads(value) if isinstance(value, str) else value
