"""Discord's JSON objects, its refusals and the record of a call, as plain builders without state.

Shapes: https://docs.discord.com/developers/resources (user, guild, channel, message; read 2026-11-30). Ids are
integers here and strings on the wire. What exists is the world's business, what is refused that of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, IntFlag, StrEnum
from typing import Any

Json = dict[str, Any]

EPOCH_MS = 1_420_070_400_000  # the first second of 2015, from which snowflakes count

_USER_MENTION = re.compile(r"<@!?(\d+)>")


class Route(StrEnum):
    """Every call the server takes, by its title in the documentation; faults and records name it."""

    GET_GATEWAY = "get_gateway"
    GATEWAY = "gateway"  # opening the WebSocket
    CDN = "cdn"  # downloading an attachment
    GET_ME = "get_me"
    GET_USER = "get_user"
    GET_APPLICATION = "get_application"
    CREATE_DM = "create_dm"
    GET_CHANNEL = "get_channel"
    MODIFY_CHANNEL = "modify_channel"
    DELETE_CHANNEL = "delete_channel"
    GET_GUILD = "get_guild"
    GET_GUILD_CHANNELS = "get_guild_channels"
    GET_ACTIVE_THREADS = "get_active_threads"
    GET_MEMBER = "get_member"
    CREATE_MESSAGE = "create_message"
    EDIT_MESSAGE = "edit_message"
    DELETE_MESSAGE = "delete_message"
    GET_MESSAGE = "get_message"
    GET_MESSAGES = "get_messages"
    TRIGGER_TYPING = "trigger_typing"
    CREATE_REACTION = "create_reaction"
    DELETE_REACTION = "delete_reaction"
    START_THREAD = "start_thread"  # from a message
    CREATE_THREAD = "create_thread"  # without a message
    JOIN_THREAD = "join_thread"
    SYNC_COMMANDS = "sync_commands"
    GET_COMMANDS = "get_commands"
    CALLBACK = "callback"  # the first answer to an interaction
    FOLLOW_UP = "follow_up"
    GET_RESPONSE = "get_response"  # @original or a follow-up
    EDIT_RESPONSE = "edit_response"
    DELETE_RESPONSE = "delete_response"
    UNKNOWN = "unknown"


class Kind(IntEnum):
    """Channel types."""

    TEXT = 0
    DM = 1
    PUBLIC_THREAD = 11
    PRIVATE_THREAD = 12


class Intent(IntFlag):
    """Gateway intents that decide what a session is told."""

    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15


PRIVILEGED = Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES | Intent.MESSAGE_CONTENT
KNOWN_INTENTS = (1 << 26) - 1  # the highest bit given out so far is 25


class RefusalError(Exception):
    """The platform says no: HTTP status, its own error code, the text, and which field is to blame."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(f"{code} {message}")
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors

    def body(self) -> Json:
        """Return the answer's JSON object."""
        body: Json = {"message": self.message, "code": self.code}
        if self.errors:
            body["errors"] = self.errors
        return body


def invalid_form(path: str, code: str, message: str) -> RefusalError:
    """Return the 400 for one bad field; `path` is dotted, as in `components.0.custom_id`."""
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return RefusalError(400, 50035, "Invalid Form Body", errors)


def unknown(code: int, what: str) -> RefusalError:
    """Return the 404 of something that does not exist."""
    return RefusalError(404, code, f"Unknown {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of the bot, as it arrived, with its outcome.

    `text`, `nonce`, `reply_to` and `files` are what the bot asked for. `message_id` is the message it made,
    edited or deleted; `ok` says whether it took effect, also if a fault then kept the answer from the bot.
    """

    route: Route
    method: str
    path: str
    params: Mapping[str, Any]  # JSON body and query
    channel_id: int | None = None
    text: str = ""
    nonce: str = ""
    reply_to: int | None = None
    files: tuple[str, ...] = ()  # names
    message_id: int | None = None
    at_monotonic: float = 0.0
    ok: bool = True
    status: int = 200
    code: int = 0  # the platform's error code
    error: str = ""


@dataclass(slots=True, kw_only=True)
class User:
    """A person or a bot. `closed_dms`: nobody may write to it, which is error 50007."""

    id: int
    name: str
    is_bot: bool = False
    closed_dms: bool = False
    locale: str = "en-US"

    def to_json(self) -> Json:
        """Return the User object."""
        return {
            "id": str(self.id),
            "username": self.name.lower().replace(" ", "_"),
            "discriminator": "0000" if self.is_bot else "0",
            "global_name": None if self.is_bot else self.name,
            "avatar": None,
            "bot": self.is_bot,
            "public_flags": 0,
        }


@dataclass(slots=True, kw_only=True)
class Channel:
    """A channel, thread or DM with all it holds.

    `hidden`: the bot may not see it (50001). `read_only`: it may not write there (50013). `no_history`: it may
    not read back, so it may not reply either.
    """

    id: int
    kind: Kind
    name: str = ""
    guild_id: int | None = None
    parent_id: int | None = None
    owner_id: int | None = None
    recipient: User | None = None
    messages: dict[int, Json] = field(default_factory=dict)  # whole Message objects, by id
    last_message_id: int | None = None  # stays when that message is deleted, as there
    archived: bool = False
    locked: bool = False
    hidden: bool = False
    read_only: bool = False
    no_history: bool = False
    changed_at_s: float = 0.0
    message_count: int = 0

    @property
    def is_thread(self) -> bool:
        """Whether it is a thread of another channel."""
        return self.kind in {Kind.PUBLIC_THREAD, Kind.PRIVATE_THREAD}

    def to_json(self) -> Json:
        """Return the Channel object."""
        last = None if self.last_message_id is None else str(self.last_message_id)
        body: Json = {"id": str(self.id), "type": int(self.kind), "last_message_id": last, "flags": 0}
        if self.recipient is not None:
            return {**body, "recipients": [self.recipient.to_json()]}
        body |= {"guild_id": str(self.guild_id), "name": self.name, "rate_limit_per_user": 0}
        if not self.is_thread:
            rest = {"position": 0, "permission_overwrites": [], "nsfw": False, "topic": None, "parent_id": None}
            return {**body, **rest}
        return {
            **body,
            "parent_id": str(self.parent_id),
            "owner_id": str(self.owner_id),
            "message_count": self.message_count,
            "total_message_sent": self.message_count,
            "member_count": 1,
            "thread_metadata": {
                "archived": self.archived,
                "locked": self.locked,
                "auto_archive_duration": 1440,
                "archive_timestamp": timestamp(self.changed_at_s),
                "create_timestamp": timestamp(self.changed_at_s),
            },
        }


@dataclass(slots=True, kw_only=True)
class Guild:
    """A server with its members; its channels are found through the world. `gone`: the bot is no member."""

    id: int
    name: str
    gone: bool = False
    out: bool = False  # by an outage
    members: dict[int, User] = field(default_factory=dict)

    def to_json(self, channels: list[Json], threads: list[Json], shown: list[User]) -> Json:
        """Return the Guild object of GUILD_CREATE; `shown` are the members the bot is told of."""
        everyone = {
            "id": str(self.id),
            "name": "@everyone",
            "color": 0,
            "hoist": False,
            "position": 0,
            "permissions": str((1 << 50) - 1 & ~(1 << 3)),  # all but administrator
            "managed": False,
            "mentionable": False,
            "flags": 0,
        }
        return {
            "id": str(self.id),
            "name": self.name,
            "icon": None,
            "owner_id": "1",
            "unavailable": False,
            "large": False,
            "joined_at": timestamp(EPOCH_MS / 1000),
            "member_count": len(self.members),
            "members": [member_json(user) | {"user": user.to_json()} for user in shown],
            "roles": [everyone],
            "channels": channels,
            "threads": threads,
            "features": [],
            "preferred_locale": "en-US",
            "premium_tier": 0,
            **dict.fromkeys(("verification_level", "default_message_notifications", "mfa_level", "nsfw_level"), 0),
            **dict.fromkeys(("explicit_content_filter", "afk_timeout", "system_channel_flags"), 0),
            **{name: [] for name in ("emojis", "stickers", "presences", "voice_states", "stage_instances")},
            "guild_scheduled_events": [],
        }


def member_json(user: User) -> Json:
    """Return the partial Member object that a guild's message carries beside its author."""
    return {
        "roles": [],
        "joined_at": timestamp(EPOCH_MS / 1000),
        "nick": None,
        "avatar": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "permissions": str((1 << 50) - 1 & ~(1 << 3)),
    }


def timestamp(at_s: float) -> str:
    """Return a time (s since 1970) as the platform writes it."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")


def mentioned_ids(content: str) -> list[int]:
    """Return the users a text mentions, in order, each once."""
    return list(dict.fromkeys(int(found) for found in _USER_MENTION.findall(content)))


def buttons_of(message: Json) -> list[Json]:
    """Return the buttons under a message, row by row."""
    return [part for row in message.get("components", ()) for part in row["components"] if part["type"] == 2]
