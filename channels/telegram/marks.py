"""The mark on a message that the bot has seen it: a reaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.errors import ChannelError, SendRejected
from bot.log import get_logger
from bot.messages import Address
from channels.telegram.config import Timing

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

_FORBIDDEN_CHATS = 1_000  # remembered; of more, all are tried anew

# What Telegram says of an emoji that is no reaction, or none of those a group allows.
_NOT_ALLOWED = ("reaction_invalid", "reactions_", "reaction is not allowed")

_log = get_logger(__name__)


class SeenMark:
    """Puts one emoji to messages, until Telegram says that it cannot be put."""

    def __init__(self, emoji: str, timing: Timing) -> None:
        self._emoji = emoji
        self._timing = timing
        self._forbidden: set[str] = set()

    async def put(self, api: BotApi, address: Address, message_id: str) -> None:
        """Mark a message; best effort."""
        if not self._emoji or address.chat_id in self._forbidden or not message_id.isdecimal():
            return
        reaction = [{"type": "emoji", "emoji": self._emoji}]
        params = {"chat_id": address.chat_id, "message_id": message_id, "reaction": reaction}
        try:
            await api.call("setMessageReaction", params, timeout_s=self._timing.call_s)
        except SendRejected as exc:
            self._refused(address, str(exc))
        except ChannelError as exc:
            _log.debug("message not marked as seen", chat=address.key, error=str(exc))

    def _refused(self, address: Address, error: str) -> None:
        """Do not try again what cannot work: groups choose which reactions they allow, private chats take all."""
        if not any(mark in error.lower() for mark in _NOT_ALLOWED):
            _log.debug("message not marked as seen", chat=address.key, error=error)
        elif address.chat_id.startswith("-"):
            _log.info("reactions are not allowed in this group", chat=address.key, error=error)
            if len(self._forbidden) >= _FORBIDDEN_CHATS:
                self._forbidden.clear()
            self._forbidden.add(address.chat_id)
        else:
            _log.warning("seen_reaction is none of Telegram's reactions: off until a restart", emoji=self._emoji)
            self._emoji = ""
