"""Turns that a reaction began: what the model is told of it, and that it may say nothing.

A reaction to one of our messages is an inbound message whose text is the emoji and whose quote is the message it
belongs to (`MessageBus.publish_reaction`).
"""

from __future__ import annotations

from bot.messages import NO_REPLY, InboundMessage
from bot.records import Turn
from bot.security.untrusted import on_one_line

_EMOJI_LIMIT_CHARS = 64


def is_reaction(message: InboundMessage) -> bool:
    """Say whether somebody put an emoji to a message of ours instead of writing."""
    return bool(message.meta.get("reaction"))


def reaction_words(message: InboundMessage) -> str:
    """Return what stands for the message's words in the history; an emoji may be a name that somebody chose."""
    emoji = on_one_line(message.text, _EMOJI_LIMIT_CHARS) or "unknown"
    return (
        f"[Reaction {emoji} of the sender to the quoted message. It may need no answer: to say nothing, answer "
        f"exactly {NO_REPLY}.]"
    )


def may_stay_silent(turn: Turn) -> bool:
    """Say whether nobody has asked anything: all of the turn's messages are reactions."""
    return all(is_reaction(item.message) for item in turn.messages)


def says_nothing(turn: Turn, text: str) -> bool:
    """Say whether a final text is none: empty, or the sign for silence where that was on offer."""
    text = text.strip()
    return not text or (text == NO_REPLY and any(is_reaction(item.message) for item in turn.messages))
