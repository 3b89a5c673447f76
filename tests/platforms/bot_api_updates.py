"""The update queue of a bot: what getUpdates hands out, confirms and forgets.

Semantics from https://core.telegram.org/bots/api#getupdates (read 2026-11-29). Updates are kept as encoded
JSON, so that handing them out costs nothing and a broken one can be queued too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.platforms.bot_api_faults import OTHER_POLLER
from tests.platforms.bot_api_objects import Json, RefusalError
from tests.platforms.loopback import Bell, encode_json

_EMPTY = b'{"ok":true,"result":[]}'
_NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


class UpdateQueue:
    """Unconfirmed updates in order, and the one open poll."""

    def __init__(self, bell: Bell, first_id: int) -> None:
        self.confirmed_offset = 0  # every update below it was confirmed
        self.webhook_url = ""
        self.allowed: list[str] = []  # empty: the default set
        self._bell = bell
        self._next_id = first_id
        self._pending: deque[tuple[int, bytes]] = deque()
        self._again: deque[tuple[int, bytes]] = deque()  # handed out once more, whatever the offset
        self._published: dict[int, bytes] = {}
        self.poll_count = 0  # polls begun, conflicts included

    def push(self, kind: str, value: Json, *, update_id: int | None = None) -> int:
        """Queue an update of one kind; return its id. Kinds the bot does not want are dropped, as there."""
        update_id = self.take_id(update_id)
        wanted = kind in self.allowed if self.allowed else kind not in _NOT_BY_DEFAULT
        if wanted:
            self.push_encoded(update_id, encode_json({"update_id": update_id, kind: value}))
        return update_id

    def push_encoded(self, update_id: int, encoded: bytes) -> None:
        """Queue the bytes of an update as they are."""
        self._published[update_id] = encoded
        self._pending.append((update_id, encoded))
        self._bell.ring()

    def take_id(self, update_id: int | None = None) -> int:
        """Return the next free update id, or the given one, after which ids go on."""
        taken = self._next_id if update_id is None else update_id
        self._next_id = max(self._next_id, taken + 1)
        return taken

    def redeliver(self, update_id: int) -> None:
        """Hand an update out once more with the next poll, even if it was confirmed."""
        self._again.append((update_id, self._published[update_id]))
        self._bell.ring()

    @property
    def pending_count(self) -> int:
        """How many updates are not confirmed."""
        return len(self._pending)

    def waiting(self) -> list[tuple[int, bytes]]:
        """Return what a webhook is to get, in order: what is handed out once more, then what is not confirmed."""
        return [*self._again, *self._pending]

    def taken(self, update_id: int) -> None:
        """Note that the webhook took an update."""
        self._again = deque(item for item in self._again if item[0] != update_id)
        self._pending = deque(item for item in self._pending if item[0] != update_id)
        self.confirmed_offset = max(self.confirmed_offset, update_id + 1)
        self._bell.ring()

    def is_pending(self, update_id: int) -> bool:
        """Say whether an update waits to be confirmed."""
        return any(known == update_id for known, _ in self._pending)

    def drop_pending(self) -> None:
        """Forget what is not confirmed (`drop_pending_updates`)."""
        self._pending.clear()

    async def poll(self, params: Json, *, ignore_offset: bool, gone: Callable[[], bool]) -> bytes:
        """Answer a getUpdates call; `gone` says whether the caller hung up.

        Raises:
            RefusalError: 409, a webhook is set or another poll took over.
        """
        if self.webhook_url:
            raise RefusalError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first",
            )
        self.poll_count += 1
        mine = self.poll_count
        self._bell.ring()
        if "allowed_updates" in params:
            self.allowed = list(params["allowed_updates"] or [])
        limit = min(100, max(1, _integer(params, "limit", 100)))
        timeout_s = min(50, max(0, _integer(params, "timeout", 0)))
        if not ignore_offset:
            self._confirm(_integer(params, "offset", 0))
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not (self._pending or self._again):
            try:
                async with asyncio.timeout_at(deadline):
                    await self._bell.wait()
            except TimeoutError:
                break
            if gone():
                return _EMPTY  # nobody reads this: nothing may be used up by it
            if mine != self.poll_count:
                raise RefusalError(409, OTHER_POLLER)
        return self._batch(limit)

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            while len(self._pending) > -offset:
                self.confirmed_offset = self._pending.popleft()[0] + 1
        elif offset:
            while self._pending and self._pending[0][0] < offset:
                self._pending.popleft()
            self.confirmed_offset = max(self.confirmed_offset, offset)
        self._bell.ring()

    def _batch(self, limit: int) -> bytes:
        batch = [encoded for _, encoded in self._again]
        self._again.clear()
        batch.extend(encoded for (_, encoded), _ in zip(self._pending, range(limit), strict=False))
        return b'{"ok":true,"result":[' + b",".join(batch) + b"]}"


def _integer(params: Json, name: str, default: int) -> int:
    value: Any = params.get(name)
    try:
        return default if value in {None, ""} else int(value)
    except (TypeError, ValueError):
        return default
