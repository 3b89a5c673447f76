"""What a message event means for the bot: a pure function from the platform's JSON to an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.clock import to_us
from bot.messages import ChatType, InboundMessage
from channels.config import GroupPolicies, GroupPolicy
from channels.discord.content import (
    BotIdentity,
    Json,
    attachments_of,
    author_id,
    forwarded,
    is_from_bot,
    names_user,
    quote_of,
    replied_message,
    shown_name,
    text_of,
)
from channels.discord.places import Place

_SAID = frozenset({0, 19})
"""Message types people write: ordinary ones and replies. All others are notices of the platform or answers of programs
(https://docs.discord.com/developers/resources/message#message-object-message-types, read 2026-11-30)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads messages for one bot."""

    me: BotIdentity
    policies: GroupPolicies

    def message(self, message: Json, place: Place, *, role_id: str = "") -> InboundMessage | None:
        """Return a new message for the inbox, None when it is nothing to us.

        `role_id` is the role the platform made for this bot in the message's server, '' when that is not known. Who
        may speak is not decided here; which messages of a server are meant for the bot is.
        """
        if not self._may_be_for_us(message, place) or not self._is_for_us(message, place, role_id):
            return None
        return self._inbound(message, place, role_id)

    def edit(self, message: Json, place: Place, *, role_id: str = "") -> InboundMessage | None:
        """Return a message with its new text, None when nobody edited anything.

        The platform also tells of link previews this way; those have no time of edit. Whether the new text mentions us
        is no question: only what is queued already can change.
        """
        if not message.get("edited_timestamp") or "author" not in message or "content" not in message:
            return None
        if not self._may_be_for_us(message, place):
            return None
        return self._inbound(message, place, role_id)

    def _may_be_for_us(self, message: Json, place: Place) -> bool:
        """Say whether a message could be for the bot at all, whatever its text."""
        if message.get("type", 0) not in _SAID or author_id(message) == self.me.id:
            return False
        return not place.guild_id or policy_at(self.policies, place) is not GroupPolicy.OFF

    def _is_for_us(self, message: Json, place: Place, role_id: str) -> bool:
        roles = [str(number) for number in message.get("mention_roles") or ()]
        mentioned = names_user(message, self.me.id) or (bool(role_id) and role_id in roles)
        if is_from_bot(message):
            return mentioned  # two bots that answer each other's every word would never end
        if mentioned or not place.guild_id or policy_at(self.policies, place) is GroupPolicy.ALL:
            return True
        target = replied_message(message)
        return target is not None and author_id(target) == self.me.id

    def _inbound(self, message: Json, place: Place, role_id: str) -> InboundMessage | None:
        """Return the message for the inbox, None when it holds nothing."""
        attachments = attachments_of(message)
        text = text_of(message, without_user=self.me.id, without_role=role_id)
        # Somebody who says nothing but our name still said something.
        text = text or text_of(message)
        if not text and not attachments:
            return None
        target = replied_message(message)
        if not attachments and target is not None:
            attachments = attachments_of(target)  # "What is this?" under a picture means the picture
        return InboundMessage(
            address=place.address,
            message_id=str(message["id"]),
            text=text,
            sender_id=author_id(message),
            sender_name=shown_name(message["author"], message.get("member")),
            account=self.me.id,
            chat_type=place.chat_type,
            attachments=attachments,
            quote=quote_of(message, self.me),
            sent_us=_sent_us(message),
            reply_to=str(message["id"]) if place.chat_type is ChatType.GROUP else "",
            meta=_meta(message),
        )


def policy_at(policies: GroupPolicies, place: Place) -> GroupPolicy:
    """Return the policy of a place of a server; the strictest it may be under where it is only guessed."""
    return policies.of_some(*place.ids) if place.is_guess else policies.of(*place.ids)


def _sent_us(message: Json) -> int | None:
    """Return when a message was written, None where that is not told."""
    try:
        sent = datetime.fromisoformat(str(message.get("timestamp")))
    except ValueError:
        return None
    return to_us(sent if sent.tzinfo is not None else sent.replace(tzinfo=UTC))


def _meta(message: Json) -> Mapping[str, Any]:
    """Return marks for words that are not the sender's own, or whose sender is no person."""
    meta: dict[str, Any] = {}
    if is_from_bot(message):
        meta["from_bot"] = True
    if forwarded(message) is not None:
        meta["forwarded_from"] = "message"
    return meta
