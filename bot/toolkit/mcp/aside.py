"""Large values that go round the SDK: it is handed a small stand-in, and the value is put back behind it.

The SDK takes messages of HTTP apart on the event loop, walks them several times, and gives up at 1 MiB over the old
SSE transport. So the door to the network keeps a large answer here and sends a stand-in through; the ear on the
SDK's streams puts the answer back, and keeps the entries of a list here on their further way.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

import orjson

from bot.messages import new_id
from bot.toolkit.mcp.wire_text import whole_letters

LARGE_BYTES = 256 * 1024
"""What takes longer to parse than the loop may stand still; smaller messages go the usual way."""

# Values that nobody came for, as those of cancelled requests, are dropped by those that follow: the oldest beyond so
# many if they are large together. All answers of a server may come at once, and be many (`max_concurrency`).
_KEPT, _KEPT_SMALL, _KEPT_BYTES = 16, 256, 128 * 1024 * 1024
_KEY = "dutiful/aside"


class Aside:
    """What one session keeps aside. Tickets cannot be guessed, so that no server can forge a stand-in."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, value: Any, size_bytes: int = 0) -> dict[str, Any]:
        """Keep a value of that size as text, and return the object that stands for it."""
        ticket = new_id("aside-", 24)
        self._values[ticket] = value, size_bytes
        self._bytes += size_bytes
        while len(self._values) > _KEPT and (self._bytes > _KEPT_BYTES or len(self._values) > _KEPT_SMALL):
            self._bytes -= self._values.popitem(last=False)[1][1]
        return {_KEY: ticket}

    def take(self, stand_in: Any) -> Any:
        """Return what an object stands for, once; the object itself when it stands for nothing."""
        ticket = stand_in.get(_KEY) if isinstance(stand_in, dict) else None
        if not isinstance(ticket, str) or ticket not in self._values:
            return stand_in
        value, size_bytes = self._values.pop(ticket)
        self._bytes -= size_bytes
        return value

    async def shrink(self, message: bytes) -> bytes:
        """Return a JSON-RPC message whose result is kept aside; every other or small message with whole letters."""
        if len(message) < LARGE_BYTES:
            return whole_letters(message)
        message = await asyncio.to_thread(whole_letters, message)
        try:
            parsed = await asyncio.to_thread(orjson.loads, message)
        except ValueError:
            return message  # the SDK says what is wrong with it
        if not isinstance(parsed, dict) or not isinstance(parsed.get("result"), dict):
            return message
        parsed["result"] = self.keep(parsed["result"], len(message))
        return orjson.dumps(parsed)
