"""The frozen values every floor shares: who speaks where, what came in, what goes out.

Nothing here does I/O. Instants are integer microseconds since the epoch in UTC (`*_us`), sizes are bytes,
platform identifiers are always strings, whatever the platform's own type.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

NO_REPLY = "NO_REPLY"
"""What a model answers to say nothing, where it is told that it may."""


class Origin(StrEnum):
    """Who caused an inbound message."""

    USER = "user"  # a person wrote it
    JOB = "job"  # a scheduled task became due
    SUBAGENT = "subagent"  # a background helper reports its outcome
    APPROVAL = "approval"  # an owner answered an approval request
    HOOK = "hook"  # an outside system called a webhook
    GOAL = "goal"  # a sustained goal goes on
    MEMORY = "memory"  # what was said is read for long-term memory


class ChatType(StrEnum):
    """Who can read a chat."""

    PRIVATE = "private"  # one person and the bot
    GROUP = "group"  # several people


class Role(StrEnum):
    """What a person may do (design 5)."""

    STRANGER = "stranger"  # nothing; not even an answer
    GUEST = "guest"  # talk and keep own reminders
    MEMBER = "member"  # also read, fetch and write in the own chat
    OWNER = "owner"  # everything the chat type allows


class Risk(StrEnum):
    """What the worst outcome of a tool call touches (design 5)."""

    TALK = "talk"  # words in the own chat: messages and the sender's own reminders
    READ = "read"  # the own chat's files and history
    NET = "net"  # the web and open-world MCP servers
    WRITE = "write"  # the own chat's files, jobs, memory
    EXECUTE = "execute"  # commands, subagents, destructive MCP tools
    REACH = "reach"  # other chats
    ADMIN = "admin"  # the bot itself


class Replay(StrEnum):
    """What may happen to a call that a crash cut short (design 4)."""

    SAFE = "safe"  # read-only: run it again
    KEYED = "keyed"  # its effect is a row keyed by (turn, call): running again is exactly-once
    ONCE = "once"  # anything else: never run twice, its outcome is reported as unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One place where a conversation happens: a chat, or one thread or forum topic of it."""

    channel: str
    chat_id: str
    thread_id: str | None = None

    @property
    def key(self) -> str:
        """The stable text form, `channel:chat` or `channel:chat:thread`; also the lane of ordinary turns."""
        base = f"{self.channel}:{self.chat_id}"
        return base if self.thread_id is None else f"{base}:{self.thread_id}"

    @property
    def rate_key(self) -> str:
        """The key a platform limits by: the chat without its thread."""
        return f"{self.channel}:{self.chat_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message or goes out with one.

    `ref` is the platform's handle of an inbound file, `path` an absolute local path once it is on disk; an
    `error` says why an inbound file could not be fetched. `root` is the folder that an outbound file of a chat must
    still be in when it is read: below it the chat's tools may have put a link in its place. `copy` is the file as it
    was when its message was accepted, which is what is sent (`bot/spool.py`). `transcript` is what a recording says,
    `unheard` why that is not known although it was tried.
    """

    kind: str  # image, document, voice, audio, video, sticker, location, contact
    name: str = ""
    mime: str = ""
    size_bytes: int | None = None
    ref: str = ""
    path: str = ""
    root: str = ""
    copy: str = ""
    error: str = ""
    transcript: str = ""
    unheard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The message (or the highlighted part of it) that an inbound message replies to."""

    message_id: str
    author: str  # "bot", "sender" or "other": roles, since names are chosen by the people who bear them
    text: str
    is_fragment: bool = False
    name: str = ""  # the author's shown name, where several people speak


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """One thing that reached the bot. (channel, account, chat, message_id, variant) is its identity.

    `variant` tells apart what platforms publish under one message id: the edit stamp of an edited message or
    the id of a button press; empty for an ordinary message. `meta` carries what the origin needs on the way
    back (a job's run id, a subagent's id) and only JSON values.
    """

    address: Address
    message_id: str
    text: str
    sender_id: str
    account: str = ""
    variant: str = ""
    sender_name: str = ""
    chat_type: ChatType = ChatType.PRIVATE
    origin: Origin = Origin.USER
    attachments: tuple[Attachment, ...] = ()
    quote: Quote | None = None
    earlier: tuple[Quote, ...] = ()  # of its thread, from before the bot was there; not kept in the inbox
    sent_us: int | None = None
    lane: str = ""  # empty: the address's own lane
    reply_to: str = ""  # the platform message an answer should reply to; empty: none
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A button under a message; pressing it counts as if the person had typed `data`, which stays on our side."""

    label: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonPress:
    """Somebody pressed button `index` (from 0, row by row) under the message that went out as `outbox_id`.

    `press_id` is the platform's id of this press. The thread is that of the message, whatever the platform says.
    """

    channel: str
    chat_id: str
    message_id: str
    outbox_id: int
    index: int
    press_id: str
    sender_id: str
    sender_name: str = ""
    account: str = ""
    chat_type: ChatType = ChatType.PRIVATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """Somebody put an emoji to a message of the bot. `stamp` tells apart two of the same, one after the other."""

    channel: str
    chat_id: str
    message_id: str
    emoji: str
    sender_id: str
    stamp: str
    sender_name: str = ""
    account: str = ""
    chat_type: ChatType = ChatType.PRIVATE


class OutboundKind(StrEnum):
    """Why a message goes out; decides markup and whether it may be dropped."""

    REPLY = "reply"  # a turn's answer, markdown
    MESSAGE = "message"  # written by the message tool, markdown
    REMINDER = "reminder"  # a reminder's own words, sent as they are
    NOTICE = "notice"  # the bot's own sentence, plain text


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    """One message to send. Text of kind reply and message is markdown; the channel renders it."""

    address: Address
    text: str
    kind: OutboundKind = OutboundKind.REPLY
    reply_to: str = ""
    buttons: tuple[tuple[Button, ...], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    answers: str = ""  # the inbound message id this settles; lets `chat -m` find its reply
    job_id: str = ""  # the job whose reminder this is, so that a reply to it can name the job
    draft_id: str = ""  # the platform message to edit into the final text instead of sending a new one

    @property
    def withdraws(self) -> bool:
        """Whether this only removes the draft that it names."""
        return bool(self.draft_id) and not (self.text or self.attachments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call of a model reply. `arguments` is what the model sent, normally JSON text.

    `extra_content` is the sender's own (a signature of its thoughts), to be given back with the call.
    """

    id: str
    name: str
    arguments: str
    extra_content: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model call, as the provider reported them, and what they cost.

    `cached_tokens` are part of the input; `cost_micros` are millionths of the currency that prices are given in.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int = 0

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cached_tokens=self.cached_tokens - other.cached_tokens,
            cost_micros=self.cost_micros - other.cost_micros,
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
        )


def new_id(prefix: str, length: int = 6) -> str:
    """Return a short random id such as `job-k3x9aq`, unambiguous to read aloud (no 0, o, 1, l, i)."""
    return prefix + "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(length))


def clean_text(text: str) -> str:
    """Return `text` as it can be stored and sent: no NUL characters, lone surrogates replaced.

    SQLite text ends at a NUL for many readers and UTF-8 has no form for a lone surrogate; chat platforms let
    both through now and then.
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        # A pair split over two code units is joined again; what stays alone becomes U+FFFD.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
