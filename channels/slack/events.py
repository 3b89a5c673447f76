"""From Slack's payloads to the engine's messages: who said what, where, and whether it is meant for us.

Pure; imports without the SDK. A conversation is a DM as a whole, or one thread: what is said in a channel belongs
to the thread below it, so that the answer goes there and each question has a talk of its own. The same message gives
the same value whether it comes as `message`, as `app_mention` or out of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from bot.messages import Address, ChatType, InboundMessage, Quote, Reaction
from channels.config import GroupPolicies, GroupPolicy
from channels.slack.content import (
    Identity,
    Json,
    Names,
    attachments_of,
    instant_us,
    mentions,
    plain_text,
    shared_message,
    words_of,
)

CHANNEL = "slack"

_SPOKEN = frozenset({"", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of messages that a person wrote (https://docs.slack.dev/reference/events/message, read 2026-11-30)."""

_SLACKBOT = "USLACKBOT"

InThread = Callable[[Json], bool]
"""Says whether a message in a thread goes on with a talk with us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads events for one installation."""

    me: Identity
    policies: GroupPolicies
    names: Names
    in_talk: InThread

    def message(self, event: Json) -> InboundMessage | None:
        """Return the message of a `message` or `app_mention` event if it is meant for us, else None."""
        if not is_spoken(event, self.me) or not self._is_for_us(event):
            return None
        return self._read(event)

    def edit(self, event: Json) -> InboundMessage | None:
        """Return the new form of a message that its author changed, None for any other `message_changed`."""
        changed, before = event.get("message"), event.get("previous_message")
        if not isinstance(changed, dict) or not isinstance(before, dict):
            return None
        whole = {**changed, "channel": event.get("channel"), "channel_type": event.get("channel_type")}
        if not is_spoken(whole, self.me) or "edited" not in changed or changed.get("text") == before.get("text"):
            return None  # link previews and counts of replies come as changes, too
        return self._read(whole)

    def reaction(self, event: Json) -> Reaction | None:
        """Return a reaction to one of our messages, else None."""
        item = event.get("item")
        user = str(event.get("user") or "")
        if not isinstance(item, dict) or item.get("type") != "message" or event.get("item_user") != self.me.user_id:
            return None
        if not user or user == self.me.user_id:
            return None
        channel = str(item.get("channel") or "")
        return Reaction(
            channel=CHANNEL,
            chat_id=channel,
            message_id=str(item.get("ts") or ""),
            emoji=emoji(str(event.get("reaction") or "")),
            sender_id=user,
            stamp=str(event.get("event_ts") or ""),
            sender_name=self.names(user),
            account=self.me.account,
            chat_type=chat_type(channel),
        )

    def command(self, body: Json, menu: Collection[str]) -> InboundMessage | None:
        """Return what a slash command says: `/dutiful remind …` is `/remind …`, plain words are a message."""
        channel, user = str(body.get("channel_id") or ""), str(body.get("user_id") or "")
        # It is what makes a command known when it comes again; without it each is a new one.
        trigger = str(body.get("trigger_id") or uuid4().hex)
        kind = chat_type(channel)
        if not channel or not user:
            return None
        if kind is ChatType.GROUP and self.policies.of(channel) is GroupPolicy.OFF:
            return None
        return InboundMessage(
            address=Address(channel=CHANNEL, chat_id=channel),
            message_id=trigger,
            text=command_text(
                str(body.get("command") or ""), plain_text(str(body.get("text") or ""), self.names), menu
            ),
            sender_id=user,
            sender_name=self.names(user) or str(body.get("user_name") or ""),
            account=self.me.account,
            chat_type=kind,
        )

    def _is_for_us(self, event: Json) -> bool:
        from_bot = is_bot(event)
        if chat_type(str(event["channel"])) is ChatType.PRIVATE:
            return not from_bot or mentions(event, self.me)
        policy = self.policies.of(str(event["channel"]))
        if policy is GroupPolicy.OFF:
            return False
        if mentions(event, self.me):
            return True
        return not from_bot and (policy is GroupPolicy.ALL or self.in_talk(event))

    def _read(self, event: Json) -> InboundMessage:
        channel, ts = str(event["channel"]), str(event["ts"])
        sender = sender_of(event)
        kind = chat_type(channel)
        meta: dict[str, Any] = {"from_bot": True} if is_bot(event) else {}
        quote = shared_message(event, self.me, self.names)
        if quote is None and event.get("parent_user_id") == self.me.user_id:
            # What it says comes with the earlier messages of the thread; the id lets the engine know a reminder.
            quote = Quote(message_id=str(event["thread_ts"]), author="bot", text="")
        return InboundMessage(
            address=address_of(event),
            message_id=ts,
            text=words_of(event, self.me, self.names),
            sender_id=sender,
            sender_name=self.names(sender),
            account=self.me.account,
            chat_type=kind,
            attachments=attachments_of(event),
            quote=quote,
            sent_us=instant_us(ts),
            reply_to=ts if kind is ChatType.GROUP else "",
            meta=meta,
        )


def chat_type(channel_id: str) -> ChatType:
    """Return what a conversation is by its id: D… are direct messages, all others have several people."""
    return ChatType.PRIVATE if channel_id.startswith("D") else ChatType.GROUP


def address_of(event: Json) -> Address:
    """Return where a message belongs, and its answer with it."""
    channel, thread = str(event["channel"]), event.get("thread_ts")
    if not thread and chat_type(channel) is ChatType.GROUP:
        thread = event["ts"]
    return Address(channel=CHANNEL, chat_id=channel, thread_id=str(thread) if thread else None)


def sender_of(event: Json) -> str:
    """Return the id of who wrote a message; a bot without a user has its bot's id."""
    return str(event.get("user") or event.get("bot_id") or "")


def is_own(event: Json, me: Identity) -> bool:
    """Say whether we wrote a message."""
    return event.get("user") == me.user_id or (bool(me.bot_id) and event.get("bot_id") == me.bot_id)


def is_bot(event: Json) -> bool:
    """Say whether another app wrote a message."""
    return bool(event.get("bot_id")) or event.get("subtype") == "bot_message"


def is_spoken(event: Json, me: Identity) -> bool:
    """Say whether a message was written by somebody else in words or files, and not by Slack itself."""
    subtype = str(event.get("subtype") or "")
    if not event.get("channel") or not event.get("ts") or event.get("hidden") or is_own(event, me):
        return False
    sender = sender_of(event)
    return bool(sender) and sender != _SLACKBOT and (subtype in _SPOKEN or subtype == "bot_message")


def command_text(command: str, text: str, menu: Collection[str]) -> str:
    """Return what a slash command means: one of our commands, or else a message."""
    name, text = command.removeprefix("/"), text.strip()
    if name in menu:
        return f"/{name} {text}".strip()
    if not text:
        return "/help"
    return f"/{text}" if text.split(None, 1)[0] in menu else text


def emoji(name: str) -> str:
    """Return the character of a reaction's name; a workspace's own emoji keeps its name."""
    from rich.emoji import Emoji  # 13 ms, for the few who react

    bare, _, _ = name.partition("::")
    return Emoji.replace(f":{bare}:")
