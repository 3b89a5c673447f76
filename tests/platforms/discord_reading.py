"""What Discord's REST methods share: reading a call's channel, message fields and files, and refusing them.

See `discord_rest` for the methods themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.platforms import discord_rules as rules
from tests.platforms.discord_objects import Channel, Json, RefusalError, Route, invalid_form
from tests.platforms.discord_world import World

SENDABLE_FLAGS = 1 << 2 | 1 << 6 | 1 << 12  # no embeds, ephemeral (interactions only), silent


@dataclass(slots=True, kw_only=True)
class Request:
    """A call as read: the route's path parts, the JSON body, the query, and files by their number."""

    route: Route
    parts: Mapping[str, str]
    params: Json = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[int, tuple[str, bytes, str]] = field(default_factory=dict)  # name, content, content type
    message: Json | None = None  # the message the call made, edited or deleted

    def number(self, name: str) -> int:
        """Return an id of the path.

        Raises:
            RefusalError: 50035, it is no snowflake.
        """
        text = self.parts[name]
        if not text.isascii() or not text.isdigit():
            raise invalid_form(name, "NUMBER_TYPE_COERCE", f'Value "{text}" is not snowflake.')
        return int(text)


@dataclass(slots=True, kw_only=True)
class Reading:
    """Turns calls into checked parts of the world."""

    world: World
    upload_limit_bytes: int = rules.UPLOAD_LIMIT_BYTES

    def channel(self, request: Request) -> Channel:
        return self.world.channel_for_bot(request.number("channel"))

    def readable(self, request: Request) -> Channel:
        channel = self.channel(request)
        if channel.no_history:
            raise RefusalError(403, 50001, "Missing Access")
        return channel

    def writable(self, request: Request) -> Channel:
        channel = self.channel(request)
        if channel.recipient is not None and (channel.recipient.closed_dms or channel.recipient.is_bot):
            raise RefusalError(403, 50007, "Cannot send messages to this user")
        if channel.read_only:
            raise RefusalError(403, 50013, "Missing Permissions")
        if channel.locked:
            refuse_archived(channel)
        return channel

    def reply_to(self, channel: Channel, reference: Any) -> int | None:
        if not reference:
            return None
        number = int(reference.get("message_id") or 0)
        if channel.no_history:
            raise RefusalError(400, 160002, "Cannot reply without permission to read message history")
        elsewhere = int(reference.get("channel_id") or channel.id) != channel.id
        if number in channel.messages and not elsewhere:
            return number
        if reference.get("fail_if_not_exists", True):
            raise invalid_form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return None

    def fields(self, channel: Channel, request: Request) -> Json:
        """Return the checked fields of a new message.

        Raises:
            RefusalError: 50006 when there is nothing in it, and what the rules refuse.
        """
        params = request.params
        content = rules.check_content(params.get("content"))
        embeds = rules.check_embeds(params.get("embeds"))
        components = rules.check_components(params.get("components"))
        mentions = rules.check_mentions(params.get("allowed_mentions"))
        rules.check_files(request.files, params.get("attachments"), self.upload_limit_bytes)
        if not (content or embeds or components or request.files):
            raise RefusalError(400, 50006, "Cannot send an empty message")
        flags = int(params.get("flags") or 0)
        if flags & ~SENDABLE_FLAGS:
            raise invalid_form("flags", "MESSAGE_FLAGS_INVALID", "Not played here.")
        return {
            "content": content,
            "embeds": embeds,
            "components": components,
            "allowed_mentions": mentions,
            "attachments": self._store_files(channel, request),
            "flags": flags,
        }

    def changes(self, channel: Channel, message: Json, request: Request) -> Json:
        """Return the checked changes of an edit; what is not named stays.

        Raises:
            RefusalError: 50006 when nothing would be left, and what the rules refuse.
        """
        params = request.params
        changes: Json = {}
        if "content" in params:
            changes["content"] = rules.check_content(params["content"])
            changes["allowed_mentions"] = rules.check_mentions(params.get("allowed_mentions"))
        if "embeds" in params:
            changes["embeds"] = rules.check_embeds(params["embeds"])
        if "components" in params:
            changes["components"] = rules.check_components(params["components"])
        if "attachments" in params or request.files:
            rules.check_files(request.files, params.get("attachments"), self.upload_limit_bytes)
            kept = {str(entry["id"]) for entry in params.get("attachments") or ()}
            stay = [a for a in message["attachments"] if "attachments" not in params or a["id"] in kept]
            changes["attachments"] = stay + self._store_files(channel, request)
        after = message | changes
        if not (after["content"] or after["embeds"] or after["attachments"] or after["components"]):
            raise RefusalError(400, 50006, "Cannot send an empty message")
        return changes

    def _store_files(self, channel: Channel, request: Request) -> list[Json]:
        described = {int(entry["id"]): entry for entry in request.params.get("attachments") or ()}
        stored: list[Json] = []
        for number, (name, content, content_type) in sorted(request.files.items()):
            entry = described.get(number, {})
            shown_name = str(entry.get("filename") or name)
            description = str(entry.get("description") or "")
            stored.append(self.world.store_file(channel, shown_name, content, content_type, description))
        return stored


def refuse_archived(channel: Channel) -> None:
    if channel.archived:
        raise RefusalError(400, 50083, "Thread is archived")
