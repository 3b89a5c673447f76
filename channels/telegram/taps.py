"""What people do to the bot's messages without a word: press a button, put an emoji. Pure; no SDK at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.messages import ButtonPress, ChatType, Reaction, clean_text
from channels.buttons import read_token
from channels.telegram.content import CHANNEL, BotIdentity

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from telegram import CallbackQuery, MessageReactionUpdated


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """A button was pressed; `press` is None when what it carries is none of our tokens."""

    query_id: str
    chat_id: str
    message_id: str
    press: ButtonPress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reacted:
    """Emojis were put to a message."""

    reactions: tuple[Reaction, ...]


def read_press(query: CallbackQuery, me: BotIdentity) -> Pressed | None:
    """Return a press under a message of a chat; None for buttons of other kinds."""
    under = query.message
    if under is None or not query.data:
        return None
    chat_id, message_id = str(under.chat.id), str(under.message_id)
    token = read_token(query.data)
    if token is None:
        return Pressed(query_id=query.id, chat_id=chat_id, message_id=message_id)
    outbox_id, index = token
    press = ButtonPress(
        channel=CHANNEL,
        chat_id=chat_id,
        message_id=message_id,
        outbox_id=outbox_id,
        index=index,
        press_id=query.id,
        sender_id=str(query.from_user.id),
        sender_name=clean_text(query.from_user.full_name or ""),
        account=str(me.id),
        chat_type=ChatType.PRIVATE if under.chat.type == "private" else ChatType.GROUP,
    )
    return Pressed(query_id=query.id, chat_id=chat_id, message_id=message_id, press=press)


def read_reaction(change: MessageReactionUpdated, me: BotIdentity, update_id: int) -> Reacted | None:
    """Return the emojis that a person added, None where there are none.

    What was taken away, custom emojis, which are only numbers, and what bots or nameless people put is nothing to us.
    """
    person = change.user
    if person is None or person.is_bot:
        return None
    before = {_emoji(reaction) for reaction in change.old_reaction}
    added = [emoji for reaction in change.new_reaction if (emoji := _emoji(reaction)) and emoji not in before]
    if not added:
        return None
    return Reacted(
        reactions=tuple(
            Reaction(
                channel=CHANNEL,
                chat_id=str(change.chat.id),
                message_id=str(change.message_id),
                emoji=clean_text(emoji),
                sender_id=str(person.id),
                stamp=str(update_id),
                sender_name=clean_text(person.full_name or ""),
                account=str(me.id),
                chat_type=ChatType.PRIVATE if change.chat.type == "private" else ChatType.GROUP,
            )
            for emoji in added
        )
    )


def _emoji(reaction: object) -> str:
    """Return the emoji of a reaction, '' for one of another kind."""
    return str(getattr(reaction, "emoji", ""))
