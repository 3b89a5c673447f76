"""Updates with less in them than the SDK insists on: what is always the same is filled in before it looks.

Telegram sends whole objects; other servers that speak the Bot API (bridges, test servers, archives played
back) leave out what they hold for obvious. Pure; imports without the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from channels.text import utf16_length

Json = dict[str, Any]

_NAMES = re.compile(r"\A/[a-zA-Z0-9_]{1,32}(?:@\w{3,32})?(?![\w/])|(?<![\w@/.])@[a-zA-Z]\w{2,31}\b(?!@)", re.ASCII)


def asked_for(update: Json, kinds: Collection[str]) -> Json:
    """Return the update without what nobody asked for, its messages filled in."""
    kept = {"update_id": update.get("update_id")}
    for kind in kinds:
        value = update.get(kind)
        if isinstance(value, dict):
            kept[kind] = _filled(kind, value)
        elif value is not None:
            kept[kind] = value
    return kept


def _filled(kind: str, value: Json) -> Json:
    if kind.endswith("message"):
        return _message(value)
    if kind == "message_reaction":
        return _reaction(value)
    filled = {**value, "from": _person(value.get("from"))} if "from" in value else dict(value)
    if kind == "callback_query":
        filled.setdefault("chat_instance", "")
        if isinstance(filled.get("message"), dict):
            filled["message"] = _message(filled["message"])
    return filled


def _reaction(change: Json) -> Json:
    filled = {"date": 0, "old_reaction": [], "new_reaction": [], **change}
    if isinstance(change.get("chat"), dict):
        filled["chat"] = {"type": _chat_type(change["chat"]), **change["chat"]}
    if "user" in change:
        filled["user"] = _person(change["user"])
    return filled


def _message(message: Json) -> Json:
    filled = {"date": 0, **message}
    chat = message.get("chat")
    if isinstance(chat, dict):
        filled["chat"] = {"type": _chat_type(chat), **chat}
        if "from" not in message and "sender_chat" not in message and filled["chat"]["type"] == "private":
            # In a private chat the chat is the person.
            filled["from"] = {key: chat[key] for key in ("id", "first_name", "last_name", "username") if key in chat}
    for words, entities in (("text", "entities"), ("caption", "caption_entities")):
        if isinstance(message.get(words), str) and entities not in message:
            filled[entities] = _names_in(message[words])
    if "from" in filled:
        filled["from"] = _person(filled["from"])
    if isinstance(message.get("reply_to_message"), dict):
        # A reply names its chat only where it is another one.
        filled["reply_to_message"] = _message({"chat": filled.get("chat"), **message["reply_to_message"]})
    return filled


def _names_in(text: str) -> list[Json]:
    """Return entities for the names and the command in a text that came without any; places in UTF-16 units.

    Telegram marks every name and command, so this finds nothing in what it sends unmarked.
    """
    return [
        {
            "type": "bot_command" if match[0].startswith("/") else "mention",
            "offset": utf16_length(text[: match.start()]),
            "length": utf16_length(match[0]),
        }
        for match in _NAMES.finditer(text)
    ]


def _person(person: Any) -> Any:
    if not isinstance(person, dict):
        return person
    return {"is_bot": False, "first_name": "", **person}


def _chat_type(chat: Json) -> str:
    """Return the type that the id's sign stands for: people have positive ids, everything else negative ones."""
    number = chat.get("id")
    return "supergroup" if isinstance(number, int) and number < 0 else "private"
