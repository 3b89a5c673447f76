"""The people's side of the Bot API server: what a test lets them say, edit, press, block and upgrade."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.bot_api_objects import Chat, Json, detect_entities, photo_sizes, user, utf16_len
from tests.platforms.bot_api_updates import UpdateQueue
from tests.platforms.bot_api_world import World
from tests.platforms.loopback import encode_json


class People:
    """Acts of people; each one that the bot learns of returns its update id."""

    def __init__(self, world: World, updates: UpdateQueue) -> None:
        self.world = world
        self.updates = updates

    def add_chat(
        self,
        chat_id: int,
        *,
        chat_type: str = "private",
        name: str = "Ada",
        username: str = "",
        is_forum: bool = False,
        topics: Sequence[int] = (),
    ) -> Chat:
        """Let a chat exist that nobody has written in yet."""
        chat = Chat(id=chat_id, type=chat_type, name=name, username=username, is_forum=is_forum)
        chat.topics.update({topic: f"Topic {topic}" for topic in topics})
        return self.world.add_chat(chat)

    def user_says(
        self,
        chat_id: int,
        text: str = "",
        *,
        user_id: int = 111,
        thread_id: int | None = None,
        reply_to: int | None = None,
        quote: str | None = None,
        entities: Sequence[Json] | None = None,
        chat_type: str = "private",
        is_forum: bool | None = None,
        username: str = "",
        first_name: str = "Ada",
        language: str = "en",
        photo: bytes | None = None,
        caption: str | None = None,
        media_group_id: str | None = None,
        date: int | None = None,
        message_id: int | None = None,
        is_bot: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        """A person writes in a chat, which comes to be if it is new; return the update id.

        A `thread_id` in a supergroup is a forum topic unless `is_forum` is False: then it is the thread of
        replies that supergroups have too. `entities` None = what the platform finds by itself. `extra` goes
        into the Message object as it is (`voice`, `document`, `forward_origin`, ...).
        """
        chat = self.world.chats.get(chat_id)
        if chat is None:
            name = first_name if chat_type == "private" else f"Chat {chat_id}"
            chat = self.add_chat(chat_id, chat_type=chat_type, name=name)
            if chat_type == "private":
                chat.username = username
        forum = (
            is_forum if is_forum is not None else chat.is_forum or (thread_id is not None and chat.type == "supergroup")
        )
        chat.is_forum = forum
        if thread_id is not None and (forum or chat.type == "private"):
            chat.topics.setdefault(thread_id, f"Topic {thread_id}")
        if reply_to is not None and reply_to not in chat.messages:
            raise ValueError(f"there is no message {reply_to} in chat {chat_id} to reply to")
        sender = user(user_id, first_name, username=username, language=language, is_bot=is_bot)
        message = self.world.new_message(
            chat,
            sender,
            self._body(text, entities, photo, caption),
            thread_id=thread_id,
            reply_to=reply_to,
            date=date,
            message_id=message_id,
        )
        if quote is not None and reply_to is not None:
            quoted = self.world.texts[chat_id][reply_to]
            position = utf16_len(quoted[: quoted.index(quote)])
            message["quote"] = {"text": quote, "position": position, "is_manual": True}
        if media_group_id is not None:
            message["media_group_id"] = media_group_id
        message.update(extra or {})
        return self.updates.push("message", message)

    def _body(self, text: str, entities: Sequence[Json] | None, photo: bytes | None, caption: str | None) -> Json:
        shown = caption if photo is not None or caption is not None else text
        body: Json = {}
        if photo is not None:
            file_id = self.world.add_file(photo, "photos/photo.jpg")
            body["photo"] = photo_sizes(file_id, len(photo))
        if shown:
            is_caption = photo is not None or caption is not None
            found = detect_entities(shown) if entities is None else list(entities)
            body["caption" if is_caption else "text"] = shown
            if found:
                body["caption_entities" if is_caption else "entities"] = found
        return body

    def edit(self, chat_id: int, message_id: int, text: str, *, entities: Sequence[Json] | None = None) -> int:
        """A person changes a message (its caption, if it has one); return the update id."""
        chat = self.world.chats[chat_id]
        message = dict(chat.messages[message_id])
        is_caption = "caption" in message or "photo" in message
        for key in ("text", "caption", "entities", "caption_entities"):
            message.pop(key, None)
        message.update(self._body("" if is_caption else text, entities, None, text if is_caption else None))
        message["edit_date"] = int(time.time())
        self.world.put(chat, message)
        return self.updates.push("edited_message", message)

    def press(self, chat_id: int, message_id: int, data: str, *, user_id: int = 111, first_name: str = "Ada") -> int:
        """A person presses the button with this data under a message of the bot; return the update id."""
        message = self.world.chats[chat_id].messages[message_id]
        rows = message.get("reply_markup", {}).get("inline_keyboard", [])
        offered = [button.get("callback_data") for row in rows for button in row]
        if data not in offered:
            raise ValueError(f"message {message_id} has no button {data!r}, only {offered}")
        query_id = f"q{self.world.serial()}"
        self.world.open_queries.add(query_id)
        query = {
            "id": query_id,
            "from": user(user_id, first_name),
            "message": message,
            "chat_instance": f"ci{chat_id}",
            "data": data,
        }
        return self.updates.push("callback_query", query)

    def react(
        self,
        chat_id: int,
        message_id: int,
        *emojis: str,
        user_id: int = 111,
        before: Sequence[str] = (),
        custom: Sequence[str] = (),
        anonymous: bool = False,
        is_bot: bool = False,
    ) -> int:
        """A person's reactions to a message are now these emojis and custom ones; return the update id."""

        def kinds(plain: Sequence[str]) -> list[Json]:
            return [{"type": "emoji", "emoji": emoji} for emoji in plain]

        chat = self.world.chats[chat_id]
        change: Json = {
            "chat": chat.to_json(),
            "message_id": message_id,
            "date": int(time.time()),
            "old_reaction": kinds(before),
            "new_reaction": kinds(emojis) + [{"type": "custom_emoji", "custom_emoji_id": name} for name in custom],
        }
        if anonymous:
            change["actor_chat"] = chat.to_json()
        else:
            change["user"] = user(user_id, "Ada", is_bot=is_bot)
        return self.updates.push("message_reaction", change)

    def push_raw(self, update: Json | bytes, *, update_id: int | None = None) -> int:
        """Queue an update as it is, to see what a bot does with one its SDK cannot parse; return its id.

        An object gets an `update_id` if it has none. Bytes go into the answer unchanged; when they are not
        JSON, the whole answer is not.
        """
        if isinstance(update, bytes):
            taken = self.updates.take_id(update_id)
            self.updates.push_encoded(taken, update)
            return taken
        taken = self.updates.take_id(update.get("update_id", update_id))
        self.updates.push_encoded(taken, encode_json({"update_id": taken, **update}))
        return taken

    def redeliver(self, update_id: int) -> None:
        """Hand an update out once more with the next getUpdates, whatever was confirmed."""
        self.updates.redeliver(update_id)

    def mention(self, text: str = "") -> str:
        """Return `text` addressed to the bot by its username."""
        return f"@{self.world.bot['username']} {text}".rstrip()

    def block(self, chat_id: int, *, user_id: int = 111) -> int:
        """The person blocks the bot, or the group removes it; return the update id of the notice."""
        chat = self.world.chats[chat_id]
        kinds = {"private": "bot was blocked by the user", "group": "bot was kicked from the group chat"}
        chat.gone = kinds.get(chat.type, "bot was kicked from the supergroup chat")
        return self._membership(chat, "member", "kicked", user_id)

    def unblock(self, chat_id: int, *, user_id: int = 111) -> int:
        """The bot may write there again; return the update id of the notice."""
        chat = self.world.chats[chat_id]
        chat.gone = ""
        return self._membership(chat, "kicked", "member", user_id)

    def _membership(self, chat: Chat, old: str, new: str, user_id: int) -> int:
        bot = user(self.world.bot["id"], self.world.bot["first_name"], is_bot=True)

        def member(status: str) -> Json:
            return {"status": status, "user": bot, **({"until_date": 0} if status == "kicked" else {})}

        change = {
            "chat": chat.to_json(),
            "from": user(user_id, "Ada"),
            "date": int(time.time()),
            "old_chat_member": member(old),
            "new_chat_member": member(new),
        }
        return self.updates.push("my_chat_member", change)

    def delete_topic(self, chat_id: int, thread_id: int) -> None:
        """A forum topic disappears; sends to it are refused from now on."""
        del self.world.chats[chat_id].topics[thread_id]

    def migrate(self, chat_id: int, new_chat_id: int, *, user_id: int = 111) -> list[int]:
        """A group becomes a supergroup; return the ids of the service messages on both sides."""
        old = self.world.chats[chat_id]
        new = self.add_chat(new_chat_id, chat_type="supergroup", name=old.name)
        sender = user(user_id, "Ada")
        leaving = self.world.new_message(old, sender, {"migrate_to_chat_id": new_chat_id})
        arriving = self.world.new_message(new, sender, {"migrate_from_chat_id": chat_id})
        old.migrated_to = new_chat_id
        return [self.updates.push("message", leaving), self.updates.push("message", arriving)]

    def add_file(self, content: bytes, name: str, *, size_bytes: int | None = None) -> str:
        """Put a file on the platform's disk, perhaps claiming another size; return its file_id."""
        return self.world.add_file(content, f"documents/{name}", size_bytes=size_bytes)
