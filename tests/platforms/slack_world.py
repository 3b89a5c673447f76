"""The world the Slack server shows to the bot: people, conversations, messages, files and how they come to be.

Methods act on it for the bot, `People` for the people. It knows no HTTP and no sockets; what happens is told to
`announce` as events of the Events API (https://docs.slack.dev/reference/events, read 2026-11-30).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.platforms.slack_objects import (
    BOT_ID,
    BOT_USER_ID,
    Conversation,
    Ephemeral,
    Json,
    Kind,
    Person,
    RefusalError,
    StoredFile,
)

Announce = Callable[[Json], None]


class World:
    """Everything that exists; ids and timestamps are given here."""

    def __init__(self, bot_name: str, announce: Announce) -> None:
        self.people: dict[str, Person] = {}
        self.conversations: dict[str, Conversation] = {}
        self.files: dict[str, StoredFile] = {}
        self.ephemerals: list[Ephemeral] = []
        self.statuses: list[tuple[str, str, str]] = []  # channel, thread_ts, status as set, newest last
        self.titles: dict[tuple[str, str], str] = {}
        self.prompts: dict[tuple[str, str | None], list[Json]] = {}
        self.assistant = True  # whether the workspace has the assistant
        self.origin = ""  # where files are downloaded from
        self.response_urls: dict[str, tuple[str, str, str]] = {}  # key -> channel, person, message pressed or ""
        self.announce = announce
        self._serial = 0
        self._last_us = 0
        self.add_person(
            Person(id=BOT_USER_ID, name=bot_name, real_name="Dutiful", tz="UTC", is_bot=True, bot_id=BOT_ID)
        )

    def serial(self) -> int:
        """Return a number never returned before."""
        self._serial += 1
        return self._serial

    def new_ts(self) -> str:
        """Return a timestamp that is later than all before."""
        self._last_us = max(self._last_us + 1, time.time_ns() // 1_000)
        return f"{self._last_us // 1_000_000}.{self._last_us % 1_000_000:06d}"

    def add_person(self, person: Person) -> Person:
        """Let a user exist."""
        self.people[person.id] = person
        return person

    def add_conversation(self, conversation: Conversation) -> Conversation:
        """Let a conversation exist."""
        self.conversations[conversation.id] = conversation
        return conversation

    def im_with(self, user_id: str) -> Conversation:
        """Return the bot's DM with a person; it comes to be when it is new."""
        for conversation in self.conversations.values():
            if conversation.kind is Kind.IM and conversation.user == user_id:
                return conversation
        return self.add_conversation(
            Conversation(id=f"D{self.serial():010d}", kind=Kind.IM, user=user_id, members={user_id, BOT_USER_ID})
        )

    def visible(self, channel_id: Any) -> Conversation:
        """Return the conversation of a call, if the bot may know of it.

        Raises:
            RefusalError: channel_not_found.
        """
        found = self.conversations.get(str(channel_id or ""))
        if found is None or (found.kind is not Kind.CHANNEL and not found.has_bot):
            raise RefusalError("channel_not_found")
        return found

    def joined(self, channel_id: Any) -> Conversation:
        """Return the conversation of a call, if the bot is in it.

        Raises:
            RefusalError: channel_not_found, not_in_channel.
        """
        found = self.visible(channel_id)
        if not found.has_bot:
            raise RefusalError("not_in_channel")
        return found

    def add_file(
        self, *, name: str, user: str, content: bytes | None, size_bytes: int, mimetype: str = ""
    ) -> StoredFile:
        """Let a file exist, uploaded or to be uploaded."""
        file_id = f"F{self.serial():010d}"
        stored = StoredFile(id=file_id, name=name, user=user, content=content, size_bytes=size_bytes, mimetype=mimetype)
        self.files[file_id] = stored
        return stored

    def share(self, conversation: Conversation, message: Json, files: Iterable[StoredFile]) -> None:
        """Let files be seen in a conversation."""
        for stored in files:
            stored.complete = True
            stored.shares.append((conversation.id, conversation.kind is Kind.CHANNEL, message["ts"]))

    def put(
        self, conversation: Conversation, body: Json, *, thread_ts: str | None = None, ts: str = "", told: bool = True
    ) -> Json:
        """Put a message into a conversation and announce it if `told`; return the whole Message object."""
        message: Json = {"type": "message", **body, "ts": ts or self.new_ts()}
        if thread_ts is not None:
            message["thread_ts"] = thread_ts
            parent = conversation.messages.get(thread_ts)
            if parent is not None:
                message["parent_user_id"] = parent.get("user", "")
        conversation.messages[message["ts"]] = message
        if ts:
            conversation.messages = dict(sorted(conversation.messages.items()))
        if thread_ts is not None:
            self._count_replies(conversation, thread_ts)
        if told:
            self.announce(self.event(conversation, message, message["ts"]))
        return message

    def change(self, conversation: Conversation, ts: str, changed: Json) -> None:
        """Replace a message and announce the change."""
        before = conversation.messages[ts]
        conversation.messages[ts] = changed
        hidden: Json = {"type": "message", "subtype": "message_changed", "hidden": True}
        hidden |= {"message": changed, "previous_message": before}
        self.announce(self.event(conversation, hidden, self.new_ts()))

    def remove(self, conversation: Conversation, ts: str) -> None:
        """Delete a message and announce it; the first one of a thread leaves a tombstone."""
        before = conversation.messages[ts]
        if conversation.replies(ts):
            kept = {key: before[key] for key in ("type", "ts", "thread_ts", "reply_count") if key in before}
            stone = kept | {
                "subtype": "tombstone",
                "user": "USLACKBOT",
                "text": "This message was deleted.",
                "hidden": True,
            }
            self.change(conversation, ts, stone)
            return
        del conversation.messages[ts]
        if before.get("thread_ts", ts) != ts:
            self._count_replies(conversation, before["thread_ts"])
        hidden: Json = {"type": "message", "subtype": "message_deleted", "hidden": True}
        hidden |= {"deleted_ts": ts, "previous_message": before}
        self.announce(self.event(conversation, hidden, self.new_ts()))

    def event(self, conversation: Conversation, body: Json, ts: str) -> Json:
        """Return the `message` event for a message or a change of one."""
        shown = {key: value for key, value in body.items() if key != "metadata"}
        return shown | {"channel": conversation.id, "channel_type": conversation.kind.value, "ts": ts, "event_ts": ts}

    def is_own(self, message: Json) -> bool:
        """Say whether the bot wrote a message."""
        return message.get("bot_id") == BOT_ID

    def _count_replies(self, conversation: Conversation, thread_ts: str) -> None:
        parent = conversation.messages.get(thread_ts)
        if parent is None:
            return
        replies = conversation.replies(thread_ts)
        parent["thread_ts"] = thread_ts
        parent["reply_count"] = len(replies)
        parent["reply_users"] = sorted({reply.get("user", "") for reply in replies})
        parent["latest_reply"] = replies[-1]["ts"] if replies else "0"

    def new_response_url(self, channel_id: str, user_id: str, ts: str) -> str:
        """Return a URL by which a press or a command can be answered."""
        key = f"r{self.serial()}"
        self.response_urls[key] = (channel_id, user_id, ts)
        return f"{self.origin}/response/{key}"
