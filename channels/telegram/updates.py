"""What an update means for the bot: a pure function from update to event. Imports without the SDK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.clock import to_us
from bot.messages import Address, ChatType, InboundMessage, clean_text
from channels.config import GroupPolicies, GroupPolicy
from channels.telegram.content import (
    CHANNEL,
    BotIdentity,
    Span,
    attachments_of,
    quote_of,
    replied_message,
    sender_of,
    spans_of,
    text_of,
    without,
)
from channels.telegram.taps import Pressed, Reacted, read_press, read_reaction

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from telegram import Chat, ChatMemberUpdated, Message, Update

ALLOWED_UPDATES = ("message", "edited_message", "callback_query", "my_chat_member", "message_reaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Something for the inbox. Of an album, one part; `addressed` says whether this part is meant for us."""

    message: InboundMessage
    addressed: bool = True
    album_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A message with its new text; identity is that of the original."""

    message: InboundMessage
    album_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """A group became a supergroup with another id."""

    old_chat_id: str
    new_chat_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The bot may not write there any more."""

    address: Address
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """The bot was let in (again)."""

    address: Address


Event = Received | Edited | Pressed | Reacted | Migrated | Closed | Reopened


def read_update(update: Update, me: BotIdentity, policies: GroupPolicies) -> Event | None:
    """Return what an update asks for, None when it is nothing to us.

    Who may speak is not decided here; which messages of a group are meant for the bot is.
    """
    if update.message is not None:
        return _read_message(update.message, me, policies.of(str(update.message.chat.id)))
    if update.edited_message is not None:
        return _read_edit(update.edited_message, me, policies.of(str(update.edited_message.chat.id)))
    if update.callback_query is not None:
        pressed = read_press(update.callback_query, me)
        return None if pressed is None or _is_off(pressed.chat_id, policies) else pressed
    if update.message_reaction is not None:
        chat_id = str(update.message_reaction.chat.id)
        return None if _is_off(chat_id, policies) else read_reaction(update.message_reaction, me, update.update_id)
    if update.my_chat_member is not None:
        return _read_membership(update.my_chat_member)
    return None


def _read_message(message: Message, me: BotIdentity, policy: GroupPolicy) -> Event | None:
    chat_id = str(message.chat.id)
    if message.migrate_to_chat_id is not None:
        return Migrated(old_chat_id=chat_id, new_chat_id=str(message.migrate_to_chat_id))
    if message.migrate_from_chat_id is not None:
        return Migrated(old_chat_id=str(message.migrate_from_chat_id), new_chat_id=chat_id)
    spans = spans_of(message)
    addressed = _is_for_us(message, spans, me, policy)
    if not addressed and not (message.media_group_id and _may_be_for_us(message, me, policy)):
        return None
    built = _inbound(message, spans, me)
    return (
        None if built is None else Received(message=built, addressed=addressed, album_id=message.media_group_id or "")
    )


def _read_edit(message: Message, me: BotIdentity, policy: GroupPolicy) -> Event | None:
    # No question whether the new text mentions us: only what is queued already can change.
    if not _may_be_for_us(message, me, policy):
        return None
    built = _inbound(message, spans_of(message), me)
    return None if built is None else Edited(message=built, album_id=message.media_group_id or "")


def _is_off(chat_id: str, policies: GroupPolicies) -> bool:
    # Groups have negative ids, people positive ones.
    return chat_id.startswith("-") and policies.of(chat_id) is GroupPolicy.OFF


def _read_membership(change: ChatMemberUpdated) -> Event | None:
    address = Address(channel=CHANNEL, chat_id=str(change.chat.id))
    old, new = change.old_chat_member, change.new_chat_member
    if change.chat.type == "channel":
        return None
    if not _can_write(new):
        return Closed(address=address, reason=f"the bot's status in this chat is now {new.status!s}")
    return Reopened(address=address) if not _can_write(old) else None


def _can_write(member: Any) -> bool:
    if member.status in {"left", "kicked"}:
        return False
    return bool(member.status != "restricted" or (member.is_member and member.can_send_messages))


def _chat_type(chat: Chat) -> ChatType:
    return ChatType.PRIVATE if chat.type == "private" else ChatType.GROUP


def _thread_id(message: Message) -> str | None:
    # Without the flag the number belongs to a thread of replies, or to General, which must not be named.
    if message.is_topic_message and message.message_thread_id is not None:
        return str(message.message_thread_id)
    return None


def _may_be_for_us(message: Message, me: BotIdentity, policy: GroupPolicy) -> bool:
    """Say whether a message could be for the bot at all, whatever its text."""
    if message.chat.type == "channel" or message.is_automatic_forward:
        return False
    if message.from_user is not None and message.from_user.id == me.id:
        return False
    return message.chat.type == "private" or policy is not GroupPolicy.OFF


def _is_for_us(message: Message, spans: list[Span], me: BotIdentity, policy: GroupPolicy) -> bool:
    if not _may_be_for_us(message, me, policy) or _is_command_for_another(spans, me):
        return False
    if message.chat.type == "private":
        return True
    mentioned = any(_names_us(span, me) for span in spans)
    if _is_from_a_bot(message):
        return mentioned  # two bots that answer each other's every word would never end
    if policy is GroupPolicy.ALL or mentioned:
        return True
    target = replied_message(message)
    return target is not None and target.from_user is not None and target.from_user.id == me.id


def _is_from_a_bot(message: Message) -> bool:
    # An anonymous admin and a linked channel write through a bot of Telegram's, in the name of a chat.
    author = message.from_user
    return author is not None and author.is_bot and message.sender_chat is None


def _names_us(span: Span, me: BotIdentity) -> bool:
    if span.kind == "text_mention":
        return span.user_id == me.id
    ours = f"@{me.username}".casefold()
    if span.kind == "mention":
        return span.text.casefold() == ours
    return span.kind == "bot_command" and span.text.casefold().endswith(ours)


def _is_command_for_another(spans: list[Span], me: BotIdentity) -> bool:
    """Say whether the message begins with a command that carries another bot's name."""
    if not spans or spans[0].kind != "bot_command" or spans[0].start != 0:
        return False
    _, at, name = spans[0].text.partition("@")
    return bool(at) and name.casefold() != me.username.casefold()


def _spoken(message: Message, spans: list[Span], me: BotIdentity) -> str:
    """Return the text as it is meant for the bot: without its own name."""
    text = text_of(message)
    removed: list[Span] = []
    for span in spans:
        if not _names_us(span, me):
            continue
        if span.kind == "bot_command":
            name_start = span.start + span.text.index("@")
            # The command stays, only the name that addresses it goes.
            removed.append(Span(kind=span.kind, start=name_start, end=span.end, text=""))
        else:
            removed.append(span)
    if not removed:
        return text
    # Somebody who says nothing but our name still said something.
    return without(text, removed) or text


def _inbound(message: Message, spans: list[Span], me: BotIdentity) -> InboundMessage | None:
    """Return the message for the inbox, None when it holds nothing anybody said (service messages)."""
    attachments = attachments_of(message)
    text = _spoken(message, spans, me)
    if not text and not attachments:
        return None
    target = replied_message(message)
    if not attachments and target is not None:
        # "What is this?" under a photo means the photo.
        attachments = attachments_of(target)
    chat_type = _chat_type(message.chat)
    sender_id, sender_name = sender_of(message)
    return InboundMessage(
        address=Address(channel=CHANNEL, chat_id=str(message.chat.id), thread_id=_thread_id(message)),
        message_id=str(message.message_id),
        text=clean_text(text),
        sender_id=sender_id,
        sender_name=sender_name,
        account=str(me.id),
        chat_type=chat_type,
        attachments=attachments,
        quote=quote_of(message, me),
        sent_us=to_us(message.date),
        reply_to=str(message.message_id) if chat_type is ChatType.GROUP else "",
        meta=_meta(message),
    )


def _meta(message: Message) -> dict[str, Any]:
    """Return marks for words that are not the sender's own, or whose sender is no person."""
    meta: dict[str, Any] = {}
    if _is_from_a_bot(message):
        meta["from_bot"] = True
    if message.forward_origin is not None:
        meta["forwarded_from"] = str(message.forward_origin.type)
    if message.external_reply is not None:
        meta["external_reply"] = True
    return meta
