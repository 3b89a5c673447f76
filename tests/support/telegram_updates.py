"""Updates as the platform makes them, read without any network."""

from __future__ import annotations

from typing import Any

import orjson
from telegram import Bot, Update

from bot.messages import InboundMessage
from channels.config import GroupPolicies, GroupPolicy
from channels.telegram.content import BotIdentity
from channels.telegram.updates import Event, Received, read_update
from tests.platforms.bot_api import BotApi

ME = BotIdentity(id=123, username="MyBot")
BOT = Bot("123:ABC")
GROUP = -1001


def platform() -> BotApi:
    """Return a platform, not listening, with a group that has topic 42."""
    made = BotApi("123:ABC", username="MyBot")
    made.add_chat(GROUP, chat_type="supergroup", is_forum=True, topics=(42,))
    return made


def read(api: BotApi, update_id: int, policy: GroupPolicy = GroupPolicy.MENTION) -> Event | None:
    """Return what a queued update means."""
    raw = orjson.loads(api.updates._published[update_id])
    return read_update(Update.de_json(raw, BOT), ME, GroupPolicies(default=policy))


def received(api: BotApi, update_id: int, policy: GroupPolicy = GroupPolicy.MENTION) -> InboundMessage:
    """Return the message that a queued update is, meant for the bot."""
    event = read(api, update_id, policy)
    assert isinstance(event, Received)
    assert event.addressed
    return event.message


def bot_says(api: BotApi, chat_id: int, text: str, *, thread_id: int | None = None) -> int:
    """Put a message of the bot into a chat; return its id."""
    sender = {"id": 123, "is_bot": True, "first_name": "Dutiful", "username": "MyBot"}
    chat = api.world.chats[chat_id]
    return int(api.world.new_message(chat, sender, {"text": text}, thread_id=thread_id)["message_id"])


def group_says(api: BotApi, text: str, **more: Any) -> int:
    """Let a person write in the group; return the update id."""
    return api.user_says(GROUP, text, chat_type="supergroup", **more)
