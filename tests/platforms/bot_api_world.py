"""The world the Bot API server shows to the bot: chats, messages, files and how they come to be.

Methods act on it for the bot, the driver for the people. It knows no HTTP and no queue.
"""

from __future__ import annotations

import time
from typing import Any

from tests.platforms.bot_api_objects import Chat, Json, RefusalError, bad_request, bot_user


class World:
    """Everything that exists; ids are given here."""

    def __init__(self, bot_id: int, bot_username: str) -> None:
        self.bot = bot_user(bot_id, bot_username)
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, tuple[str, bytes, int]] = {}  # file_id -> path, content, size in bytes
        self.texts: dict[int, dict[int, str]] = {}  # what is read in each chat now
        self.commands: list[Json] = []
        self.reactions: dict[tuple[int, int], list[Json]] = {}
        self.open_queries: set[str] = set()
        self.answered_queries: dict[str, Json] = {}
        self._serial = 0

    def serial(self) -> int:
        """Return a number never returned before."""
        self._serial += 1
        return self._serial

    def chat_for_bot(self, chat_id: Any) -> Chat:
        """Return the chat a call names.

        Raises:
            RefusalError: missing, unknown, upgraded or closed to the bot.
        """
        if chat_id in {None, ""}:
            raise bad_request("chat_id is empty")
        chat: Chat | None
        if isinstance(chat_id, str) and chat_id.startswith("@"):
            chat = next((c for c in self.chats.values() if c.username == chat_id[1:] != ""), None)
        else:
            try:
                chat = self.chats.get(int(chat_id))
            except (TypeError, ValueError):
                chat = None
        if chat is None:
            raise bad_request("chat not found")
        if chat.migrated_to is not None:
            raise RefusalError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": chat.migrated_to},
            )
        if chat.gone:
            raise RefusalError(403, f"Forbidden: {chat.gone}")
        return chat

    def add_chat(self, chat: Chat) -> Chat:
        """Let a chat exist; its messages begin at 1."""
        self.chats[chat.id] = chat
        self.texts[chat.id] = {}
        return chat

    def add_file(self, content: bytes, path: str, *, size_bytes: int | None = None) -> str:
        """Store a file under a path of its own; return its file_id. `size_bytes` may claim another size."""
        number = self.serial()
        file_id = f"F{number}"
        folder, _, name = path.rpartition("/")
        unique = f"{folder or 'documents'}/{number}_{name}"
        self.files[file_id] = (unique, content, len(content) if size_bytes is None else size_bytes)
        return file_id

    def new_message(
        self,
        chat: Chat,
        sender: Json,
        body: Json,
        *,
        thread_id: int | None = None,
        reply_to: int | None = None,
        date: int | None = None,
        message_id: int | None = None,
    ) -> Json:
        """Put a message into a chat and return the whole Message object.

        A reply goes where the message it replies to is, as on the platform.
        """
        if message_id is None:
            message_id = chat.last_message_id + 1
        chat.last_message_id = max(chat.last_message_id, message_id)
        message: Json = {
            "message_id": message_id,
            "from": sender,
            "chat": chat.to_json(),
            "date": int(time.time()) if date is None else date,
        }
        target = chat.messages.get(reply_to) if reply_to is not None else None
        if thread_id is None and target is not None:
            thread_id = target.get("message_thread_id")
        if thread_id is not None:
            message["message_thread_id"] = thread_id
            if thread_id in chat.topics:
                message["is_topic_message"] = True
        if target is not None:
            message["reply_to_message"] = {k: v for k, v in target.items() if k != "reply_to_message"}
        message.update(body)
        self.put(chat, message)
        return message

    def put(self, chat: Chat, message: Json) -> None:
        """Store a message as it is now."""
        chat.messages[message["message_id"]] = message
        self.texts[chat.id][message["message_id"]] = str(message.get("text", message.get("caption", "")))

    def remove(self, chat: Chat, message_id: int) -> None:
        """Delete a message."""
        del chat.messages[message_id]
        del self.texts[chat.id][message_id]

    def is_own(self, message: Json) -> bool:
        """Say whether the bot wrote a message."""
        return bool(message["from"]["id"] == self.bot["id"])
