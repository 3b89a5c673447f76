"""How fast drafts may follow one another: a steady rate in each chat, and over all chats of a channel.

Kept for the life of the process, since platforms count by chat and by bot, not by turn. Only ordinary pace is kept
here; a wait that a platform asks for is stored with the chat, where delivery keeps to it too.
"""

from __future__ import annotations

import asyncio

from bot.interfaces import Channel
from bot.messages import Address, ChatType

_KEPT_CHATS = 1_000  # beyond that those whose time is over are forgotten


class DraftPace:
    """Lets drafts wait for their turn, first come, first served."""

    def __init__(self) -> None:
        self._free_at_s: dict[str, float] = {}  # by rate key, and by channel name: on the loop's clock

    async def wait(self, channel: Channel, address: Address, chat_type: ChatType) -> None:
        """Return when the chat may be shown something; that counts as done, whether it is or not."""
        interval_s = channel.draft_interval_s or 0.0
        if chat_type is ChatType.GROUP and channel.draft_group_interval_s is not None:
            interval_s = channel.draft_group_interval_s
        await self._wait(address.rate_key, interval_s)
        await self._wait(channel.name, channel.draft_gap_s)  # only now, so that a slow chat delays no other

    async def _wait(self, key: str, interval_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        at_s = max(now_s, self._free_at_s.get(key, 0.0))
        if len(self._free_at_s) > _KEPT_CHATS:
            self._free_at_s = {name: free_s for name, free_s in self._free_at_s.items() if free_s > now_s}
        self._free_at_s[key] = at_s + interval_s
        if at_s > now_s:
            await asyncio.sleep(at_s - now_s)
