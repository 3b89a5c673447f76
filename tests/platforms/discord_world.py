"""The world the Discord server shows to the bot: users, guilds, channels, messages, files, and how they come to be.

REST methods act on it for the bot, the driver for the people; what happens goes to `publish`, which is the
gateway. It knows no HTTP and no sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.platforms.discord_clock import WorldClock
from tests.platforms.discord_objects import (
    Channel,
    Guild,
    Intent,
    Json,
    Kind,
    RefusalError,
    User,
    member_json,
    mentioned_ids,
    timestamp,
    unknown,
)

NONCE_MEMORY_S = 300.0  # "the past few minutes" of enforce_nonce
FILE_URL_LIFE_S = 86_400.0
HAS_THREAD_FLAG = 1 << 5

DEFAULT, THREAD_CREATED, REPLY, SLASH_COMMAND, THREAD_STARTER = 0, 18, 19, 20, 21  # message types


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something the gateway tells sessions that have `intent` (None = all). `message`: content may be hidden."""

    name: str
    data: Json
    intent: Intent | None = None
    message: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file on the platform's disk."""

    name: str
    content: bytes
    content_type: str


@dataclass(slots=True)
class World:
    """Everything that exists; ids are given here."""

    publish: Callable[[Event], None]
    origin: Callable[[], str]
    bot: User
    clock: WorldClock = field(default_factory=WorldClock)
    users: dict[int, User] = field(default_factory=dict)
    guilds: dict[int, Guild] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)  # threads and DMs included
    files: dict[str, StoredFile] = field(default_factory=dict)  # by path
    reactions: dict[int, list[tuple[str, int]]] = field(default_factory=dict)  # message -> emoji and user
    may_read_content: bool = True  # the application's message content intent
    _nonces: dict[tuple[int, int, str], tuple[float, Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.users[self.bot.id] = self.bot

    # --- ids and look-ups

    def snowflake(self) -> int:
        """Return an id that tells the time and is above every id before it."""
        return self.clock.snowflake()

    def channel_for_bot(self, channel_id: int) -> Channel:
        """Return a channel the bot may see.

        Raises:
            RefusalError: 10003 unknown, 50001 missing access.
        """
        channel = self.channels.get(channel_id)
        if channel is None:
            raise unknown(10003, "Channel")
        if self.is_hidden(channel):
            raise RefusalError(403, 50001, "Missing Access")
        return channel

    def is_hidden(self, channel: Channel) -> bool:
        """Say whether the bot may not see a channel, or what it is in."""
        parent = self.channels.get(channel.parent_id) if channel.parent_id is not None else None
        guild = self.guilds.get(channel.guild_id) if channel.guild_id is not None else None
        return channel.hidden or (parent is not None and parent.hidden) or (guild is not None and guild.gone)

    def message_for_bot(self, channel: Channel, message_id: int) -> Json:
        """Return a message of a channel, as stored.

        Raises:
            RefusalError: 10008 unknown.
        """
        message = channel.messages.get(message_id)
        if message is None:
            raise unknown(10008, "Message")
        return message

    def present_guilds(self) -> list[Guild]:
        """Return the guilds the bot is in."""
        return [guild for guild in self.guilds.values() if not guild.gone]

    def guild_json(self, guild: Guild, *, all_members: bool) -> Json:
        """Return the Guild object of GUILD_CREATE, without what the bot may not see."""
        seen = [c for c in self.channels.values() if c.guild_id == guild.id and not self.is_hidden(c)]
        shown = list(guild.members.values()) if all_members else [self.bot]
        return guild.to_json(
            [c.to_json() for c in seen if not c.is_thread],
            [c.to_json() for c in seen if c.is_thread and not c.archived],
            shown,
        )

    def is_own(self, message: Json) -> bool:
        """Say whether the bot wrote a message."""
        return bool(message["author"]["id"] == str(self.bot.id))

    # --- what the bot is shown of a message

    def may_see_content(self, message: Json, channel: Channel) -> bool:
        """Say whether the bot is shown what a message says even without the message content intent."""
        mentioned = any(user["id"] == str(self.bot.id) for user in message["mentions"])
        return channel.guild_id is None or mentioned or self.is_own(message)

    def shown(self, message: Json, *, with_content: bool | None = None, nested: bool = False) -> Json:
        """Return a Message object as the bot gets it; `with_content` None = what the application may read."""
        channel = self.channels[int(message["channel_id"])]
        readable = self.may_read_content if with_content is None else with_content
        view = dict(message)
        view["attachments"] = [self._attachment_json(a) for a in message["attachments"]]
        thread = self.channels.get(int(message["id"]))
        if thread is not None and thread.is_thread:
            view["thread"] = thread.to_json()
        reacted = self.reactions.get(int(message["id"]), [])
        if reacted:
            view["reactions"] = [self._reaction_json(emoji, reacted) for emoji in dict.fromkeys(e for e, _ in reacted)]
        if not readable and not self.may_see_content(message, channel):
            view |= {"content": "", "attachments": [], "embeds": [], "components": []}
        reference = message.get("message_reference")
        if reference is not None and message["type"] in {REPLY, THREAD_STARTER} and not nested:
            target = self._referenced(reference)
            view["referenced_message"] = (
                None if target is None else self.shown(target, with_content=with_content, nested=True)
            )
        return view

    def _referenced(self, reference: Json) -> Json | None:
        channel = self.channels.get(int(reference["channel_id"]))
        return None if channel is None else channel.messages.get(int(reference["message_id"]))

    def _reaction_json(self, emoji: str, reacted: Sequence[tuple[str, int]]) -> Json:
        users = [user for name, user in reacted if name == emoji]
        details = {"burst": 0, "normal": len(users)}
        return {
            "emoji": {"id": None, "name": emoji},
            "count": len(users),
            "count_details": details,
            "burst_colors": [],
            "me": self.bot.id in users,
            "me_burst": False,
        }

    def _attachment_json(self, attachment: Json) -> Json:
        """Add the address, which expires (Signed Attachment CDN URLs)."""
        now = int(self.clock.now_s())
        path = attachment["path"]
        url = f"{self.origin()}{path}?ex={now + int(FILE_URL_LIFE_S):x}&is={now:x}&hm={'0' * 64}&"
        return {**{k: v for k, v in attachment.items() if k != "path"}, "url": url, "proxy_url": url}

    # --- messages

    def new_message(
        self,
        channel: Channel,
        author: User,
        content: str = "",
        *,
        kind: int = DEFAULT,
        reply_to: int | None = None,
        attachments: Sequence[Json] = (),
        embeds: Sequence[Json] = (),
        components: Sequence[Json] = (),
        nonce: str = "",
        flags: int = 0,
        allowed_mentions: Mapping[str, Any] | None = None,
        ping_reply: bool = True,
        message_id: int | None = None,
        extra: Mapping[str, Any] | None = None,
        hidden: bool = False,
    ) -> Json:
        """Put a message into a channel, publish it and return it as stored. `hidden`: only one person sees it."""
        if channel.is_thread and channel.archived:
            self.set_archived(channel, False)
        number = self.snowflake() if message_id is None else message_id
        target = channel.messages.get(reply_to) if reply_to is not None else None
        message: Json = {
            "id": str(number),
            "channel_id": str(channel.id),
            "author": author.to_json(),
            "content": content,
            "timestamp": timestamp(self.clock.now_s()),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": "@everyone" in content or "@here" in content,
            "mentions": self._mentions(content, allowed_mentions, target if ping_reply else None),
            "mention_roles": [],
            "attachments": list(attachments),
            "embeds": list(embeds),
            "components": list(components),
            "pinned": False,
            "type": REPLY if target is not None and kind == DEFAULT else kind,
            "flags": flags,
        }
        if nonce:
            message["nonce"] = nonce
        if target is not None:
            message["message_reference"] = self.reference(channel, number=reply_to)
        message.update(extra or {})
        if not hidden:
            channel.messages[number] = message
            channel.last_message_id = number
            channel.message_count += 1
            self.publish_message("MESSAGE_CREATE", channel, message)
        return message

    def reference(self, channel: Channel, *, number: int | None) -> Json:
        """Return the reference to a message (None: to the channel)."""
        body: Json = {"type": 0, "channel_id": str(channel.id)}
        if number is not None:
            body["message_id"] = str(number)
        if channel.guild_id is not None:
            body["guild_id"] = str(channel.guild_id)
        return body

    def _mentions(self, content: str, allowed: Mapping[str, Any] | None, replied: Json | None) -> list[Json]:
        found = [number for number in mentioned_ids(content) if number in self.users]
        if allowed is not None and "users" not in (allowed.get("parse") or ()):
            named = {int(number) for number in allowed.get("users") or ()}
            found = [number for number in found if number in named]
        pings = replied is not None and (allowed is None or bool(allowed.get("replied_user")))
        if pings and replied is not None and int(replied["author"]["id"]) not in found:
            found.append(int(replied["author"]["id"]))
        return [self.users[number].to_json() for number in found]

    def edit(self, channel: Channel, message: Json, changes: Mapping[str, Any]) -> Json:
        """Change a message, publish it and return it as stored."""
        message.update(changes)
        if "content" in changes:
            message["mentions"] = self._mentions(message["content"], changes.get("allowed_mentions"), None)
        message.pop("allowed_mentions", None)
        message["edited_timestamp"] = timestamp(self.clock.now_s())
        if int(message["id"]) in channel.messages:  # what one person alone sees is not published
            self.publish_message("MESSAGE_UPDATE", channel, message)
        return message

    def remove(self, channel: Channel, message: Json) -> None:
        """Delete a message and publish that."""
        del channel.messages[int(message["id"])]
        data: Json = {"id": message["id"], "channel_id": str(channel.id)}
        if channel.guild_id is not None:
            data["guild_id"] = str(channel.guild_id)
        self.publish(Event(name="MESSAGE_DELETE", data=data, intent=_by_place(channel, "MESSAGES")))

    def publish_message(self, name: str, channel: Channel, message: Json) -> None:
        """Tell the gateway of a message as it is now."""
        data = self.shown(message, with_content=True)
        data.pop("reactions", None)
        if channel.guild_id is not None:
            data["guild_id"] = str(channel.guild_id)
            data["member"] = member_json(self.users[int(message["author"]["id"])])
            data["mentions"] = [u | {"member": member_json(self.users[int(u["id"])])} for u in data["mentions"]]
        self.publish(Event(name=name, data=data, intent=_by_place(channel, "MESSAGES"), message=message))

    def remember_nonce(self, channel: Channel, author: User, nonce: str, message: Json) -> None:
        """Keep a message for the sends that repeat its nonce."""
        self._nonces[channel.id, author.id, nonce] = (self.clock.now_s(), message)

    def by_nonce(self, channel: Channel, author: User, nonce: str) -> Json | None:
        """Return the message sent with a nonce in the past few minutes; None when there is none (any more)."""
        at_s, message = self._nonces.get((channel.id, author.id, nonce), (0.0, None))
        if message is None or self.clock.now_s() - at_s > NONCE_MEMORY_S:
            return None
        return message if int(message["id"]) in channel.messages else None

    def store_file(self, channel: Channel, name: str, content: bytes, content_type: str, description: str = "") -> Json:
        """Keep a file's bytes; return what its message stores of it."""
        number = self.snowflake()
        path = f"/attachments/{channel.id}/{number}/{name}"
        self.files[path] = StoredFile(name=name, content=content, content_type=content_type)
        entry: Json = {"id": str(number), "filename": name, "size": len(content), "path": path}
        if content_type:
            entry["content_type"] = content_type
        return {**entry, **({"description": description} if description else {})}

    def react(self, channel: Channel, message: Json, user: User, emoji: str, *, add: bool) -> None:
        """Add or remove a reaction and publish that."""
        reacted = self.reactions.setdefault(int(message["id"]), [])
        if ((emoji, user.id) in reacted) is add:
            return
        (reacted.append if add else reacted.remove)((emoji, user.id))
        data: Json = {
            "user_id": str(user.id),
            "channel_id": str(channel.id),
            "message_id": message["id"],
            "emoji": {"id": None, "name": emoji},
            "burst": False,
            "type": 0,
        }
        if channel.guild_id is not None:
            data["guild_id"] = str(channel.guild_id)
        if add:
            data["message_author_id"] = message["author"]["id"]
            if channel.guild_id is not None:
                data["member"] = member_json(user) | {"user": user.to_json()}
        name = "MESSAGE_REACTION_ADD" if add else "MESSAGE_REACTION_REMOVE"
        self.publish(Event(name=name, data=data, intent=_by_place(channel, "MESSAGE_REACTIONS")))

    # --- channels

    def open_dm(self, user: User, channel_id: int | None = None) -> Channel:
        """Return the DM with a user, made if it is not there. The gateway is silent about DMs since version 8."""
        for channel in self.channels.values():
            if channel.recipient is user:
                return channel
        number = self.snowflake() if channel_id is None else channel_id
        channel = Channel(id=number, kind=Kind.DM, recipient=user)
        self.channels[number] = channel
        return channel

    def start_thread(self, parent: Channel, owner: User, name: str, source: Json | None, kind: Kind) -> Channel:
        """Make a thread, from a message if one is given (its id is the thread's), and publish it.

        Raises:
            RefusalError: 160004, the message has its thread already.
        """
        number = self.snowflake() if source is None else int(source["id"])
        if number in self.channels:
            raise RefusalError(400, 160004, "A thread has already been created for this message")
        thread = Channel(
            id=number,
            kind=kind,
            name=name,
            guild_id=parent.guild_id,
            parent_id=parent.id,
            owner_id=owner.id,
            changed_at_s=self.clock.now_s(),
        )
        self.channels[number] = thread
        self.publish(Event(name="THREAD_CREATE", data=thread.to_json() | {"newly_created": True}, intent=Intent.GUILDS))
        if source is not None:
            source["flags"] |= HAS_THREAD_FLAG
            self.publish_message("MESSAGE_UPDATE", parent, source)
            starter = {"message_reference": self.reference(parent, number=number)}
            self.new_message(thread, owner, kind=THREAD_STARTER, extra=starter)
        elif kind is Kind.PUBLIC_THREAD:
            notice = {"message_reference": self.reference(thread, number=None)}
            self.new_message(parent, owner, name, kind=THREAD_CREATED, extra=notice)
        return thread

    def remove_channel(self, channel: Channel) -> None:
        """Delete a channel with its threads, and publish that."""
        for thread in [c for c in self.channels.values() if c.parent_id == channel.id]:
            del self.channels[thread.id]
        del self.channels[channel.id]
        name = "THREAD_DELETE" if channel.is_thread else "CHANNEL_DELETE"
        self.publish(Event(name=name, data=channel.to_json(), intent=Intent.GUILDS))

    def set_archived(self, thread: Channel, archived: bool) -> None:
        """Archive or reopen a thread and publish that."""
        thread.archived = archived
        thread.changed_at_s = self.clock.now_s()
        self.publish(Event(name="THREAD_UPDATE", data=thread.to_json(), intent=Intent.GUILDS))


def _by_place(channel: Channel, what: str) -> Intent:
    return Intent[f"{'DIRECT' if channel.guild_id is None else 'GUILD'}_{what}"]
