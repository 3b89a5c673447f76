"""How fast drafts may follow one another: a steady rate in each chat, and over all chats of a channel.

Kept for the life of the process, since platforms count by chat and by bot, not by turn. Only ordinary pace is kept
here; a wait that a platform asks for is stored with the chat, where delivery keeps to it too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bot.interfaces import Channel
from bot.messages import Address, ChatType

_KEPT_CHATS = 1_000  # beyond that those whose time has come are forgotten


@dataclass(slots=True)
class _Chat:
    """When a chat may be shown something next, on the loop's clock; the lock is held by whoever is next."""

    free_at_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class DraftPace:
    """Lets drafts wait for their turn, first come, first served."""

    def __init__(self) -> None:
        self._chats: dict[str, _Chat] = {}  # by rate key
        self._free_at_s: dict[str, float] = {}  # by channel

    async def wait(self, channel: Channel, address: Address, chat_type: ChatType) -> None:
        """Return when the chat may be shown something; that counts as done, whether it is or not."""
        interval_s = channel.draft_interval_s or 0.0
        if chat_type is ChatType.GROUP and channel.draft_group_interval_s is not None:
            interval_s = channel.draft_group_interval_s
        chat = self._chat(address.rate_key)
        async with chat.lock:
            await asyncio.sleep(chat.free_at_s - _now_s())
            await self._wait_for_channel(channel)  # only now, so that a chat that waits delays no other
            chat.free_at_s = _now_s() + interval_s

    async def _wait_for_channel(self, channel: Channel) -> None:
        now_s = _now_s()
        at_s = max(now_s, self._free_at_s.get(channel.name, 0.0))
        self._free_at_s[channel.name] = at_s + channel.draft_gap_s
        await asyncio.sleep(at_s - now_s)

    def _chat(self, key: str) -> _Chat:
        if len(self._chats) > _KEPT_CHATS and key not in self._chats:
            now_s = _now_s()
            busy = {name: chat for name, chat in self._chats.items() if chat.lock.locked() or chat.free_at_s > now_s}
            self._chats = busy
        return self._chats.setdefault(key, _Chat())


def _now_s() -> float:
    return asyncio.get_running_loop().time()
