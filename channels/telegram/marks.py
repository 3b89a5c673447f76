"""What shows that the bot is there: the mark on a message that it has seen it, a reaction; and how often it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.clock import Clock
from bot.errors import ChannelError, RateLimited, SendRejected
from bot.log import get_logger
from bot.messages import Address
from channels.telegram.courtesies import Courtesies

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

_FORBIDDEN_CHATS = 1_000  # remembered; of more, all are tried anew
_PAUSED_CHATS = 1_000  # likewise

# What Telegram says of an emoji that is no reaction, or none of those a group allows.
_NOT_ALLOWED = ("reaction_invalid", "reactions_", "reaction is not allowed")

_log = get_logger(__name__)


class Pauses:
    """Chats in which Telegram wants no more of one kind of call for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[str, float] = {}

    def begin(self, address: Address, limited: RateLimited) -> None:
        """Take the wait that Telegram asks for."""
        if len(self._until_s) >= _PAUSED_CHATS:
            self._until_s.clear()
        self._until_s[address.chat_id] = self._clock.monotonic_s() + (limited.retry_after_s or 0.0)

    def holds(self, address: Address) -> bool:
        """Say whether a chat is to be left alone."""
        until_s = self._until_s.get(address.chat_id)
        if until_s is None:
            return False
        if self._clock.monotonic_s() < until_s:
            return True
        del self._until_s[address.chat_id]
        return False


class SeenMark:
    """Puts one emoji to messages, until Telegram says that it cannot be put."""

    def __init__(self, emoji: str, courtesies: Courtesies, clock: Clock) -> None:
        self._emoji = emoji
        self._courtesies = courtesies
        self._pauses = Pauses(clock)
        self._forbidden: set[str] = set()

    async def put(self, api: BotApi, address: Address, message_id: str) -> None:
        """Mark a message; best effort."""
        if not self._emoji or address.chat_id in self._forbidden or not message_id.isdecimal():
            return
        if self._pauses.holds(address):
            return
        reaction = [{"type": "emoji", "emoji": self._emoji}]
        params = {"chat_id": address.chat_id, "message_id": message_id, "reaction": reaction}
        try:
            await self._courtesies.call(api, "setMessageReaction", params)
        except SendRejected as exc:
            self._refused(address, str(exc))
        except ChannelError as exc:
            if isinstance(exc, RateLimited):
                self._pauses.begin(address, exc)
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
