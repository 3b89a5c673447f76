"""Albums: several photos or files sent at once come as one update each, and are one message to the bot.

Each part is parked durably as it came, so that its update may be confirmed at once: a webhook gets the next part
only then, and a crash between two parts loses none. The album goes to the inbox when no part came for a while.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from bot.clock import Clock
from bot.errors import StoreError
from bot.interfaces import Cursors
from bot.log import get_logger
from bot.messages import Address, InboundMessage
from channels.supervision import Backoff
from channels.telegram.config import Timing
from channels.telegram.content import CHANNEL
from channels.telegram.updates import Edited, Received

_REMEMBERED = 256  # albums that are out, so that a part that comes (again) later finds its album

_log = get_logger(__name__)

Publish = Callable[[InboundMessage], Awaitable[object]]
Beside = Callable[[Coroutine[Any, Any, None], str], None]
"""Lets something go on in a task of that name, which somebody owns."""


@dataclass(slots=True, kw_only=True)
class _Album:
    """Parts of an album, by update id. Whoever changes it holds `lock`; nothing is added once it is `out`."""

    address: Address
    parts: dict[int, Received] = field(default_factory=dict)
    due_s: float = 0.0
    out: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def addressed(self) -> bool:
        """Whether it is meant for us: a caption that mentions the bot speaks for all parts."""
        return any(part.addressed for part in self.parts.values())

    def message(self) -> InboundMessage:
        """Return all parts as one message: the identity of the first, all files, the caption."""
        messages = [part.message for _, part in sorted(self.parts.items())]
        return replace(
            messages[0],
            text="\n".join(message.text for message in messages if message.text),
            attachments=tuple(item for message in messages for item in message.attachments),
            quote=next((message.quote for message in messages if message.quote is not None), None),
        )

    def update_of(self, message: InboundMessage) -> int | None:
        """Return the update id of the part that is this message, None when it is none of them."""
        same = (key for key, part in self.parts.items() if part.message.message_id == message.message_id)
        return next(same, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """An album that is in the inbox. `album` is None where only its record was kept over a restart."""

    addressed: bool
    message_ids: frozenset[str]
    album: _Album | None = None


class AlbumDesk:
    """Collects the parts of albums and publishes each album once; see the module."""

    def __init__(
        self, *, account: str, publish: Publish, beside: Beside, cursors: Cursors, clock: Clock, timing: Timing
    ) -> None:
        self._publish = publish
        self._beside = beside
        self._cursors = cursors
        self._clock = clock
        self._timing = timing
        self._parked = f"{CHANNEL}:{account}:parked:"
        self._recorded = f"{CHANNEL}:{account}:album:"
        self._albums: dict[str, _Album] = {}
        self._past: OrderedDict[str, _Past] = OrderedDict()

    async def restore(self, read: Callable[[Any], Received | None]) -> None:
        """Take up what a process before this one left; `read` makes a part of an update.

        Raises:
            StoreError: the database cannot be read now.
        """
        kept = await self._cursors.starting_with(self._recorded)
        records = [(name.removeprefix(self._recorded), json.loads(value)) for name, value in kept.items()]
        for key, record in sorted(records, key=lambda item: int(item[1]["at_us"])):
            self._past[key] = _Past(addressed=record["addressed"], message_ids=frozenset(record["ids"]))
        parked = await self._cursors.starting_with(self._parked)
        for update_id, raw in sorted((int(name.removeprefix(self._parked)), raw) for name, raw in parked.items()):
            part = read(json.loads(raw))
            if part is not None:
                self._add(update_id, part)

    async def hold(self, update_id: int, part: Received, raw: Any) -> Received | None:
        """Put a part aside; one whose album is out already is returned, to go on its own, unless it was in there.

        Raises:
            StoreError: it could not be parked.
        """
        key = _key(part)
        album = self._albums.get(key)
        if album is not None:
            async with album.lock:
                if not album.out:
                    await self._park(update_id, raw)
                    self._add(update_id, part)
                    return None
        if (past := self._past.get(key)) is not None:
            if part.message.message_id in past.message_ids:
                return None
            return replace(part, addressed=part.addressed or past.addressed)
        await self._park(update_id, raw)
        self._add(update_id, part)
        return None

    async def edit(self, event: Edited, raw: Any) -> InboundMessage | None:
        """Return what an edit of an album's part makes of its album; None when the part still waits here.

        An album of before a restart cannot be put together again: the edit is ignored rather than its photos lost.

        Raises:
            StoreError: the changed part could not be parked.
        """
        key = _key(event)
        album = self._albums.get(key)
        if album is not None:
            async with album.lock:
                update_id = album.update_of(event.message)
                if not album.out and update_id is not None:
                    await self._park(update_id, {"update_id": update_id, "message": raw["edited_message"]})
                    _change(album, update_id, event.message)
                    return None
        past = self._past.get(key)
        if past is None or past.album is None or (update_id := past.album.update_of(event.message)) is None:
            _log.info("edit of an album that is not known any more ignored", chat=event.message.address.key)
            return None
        _change(past.album, update_id, event.message)
        return past.album.message()

    async def publish_of(self, address: Address) -> None:
        """Publish the albums that wait in a chat: what is said there next must not overtake them.

        Raises:
            StoreError: the inbox did not take one; it waits on.
        """
        for key, album in list(self._albums.items()):
            if album.address == address:
                await self._put_out(key, album)

    # --- life of one album

    async def _park(self, update_id: int, raw: Any) -> None:
        # Escaped: a lone surrogate has no other form that can be stored.
        await self._cursors.set(f"{self._parked}{update_id}", json.dumps(raw, ensure_ascii=True), durable=True)

    def _add(self, update_id: int, part: Received) -> None:
        key = _key(part)
        album = self._albums.get(key)
        if album is None:
            album = self._albums[key] = _Album(address=part.message.address)
            self._beside(self._wait_for_end(key, album), f"telegram-album {key}")
        album.parts[update_id] = part
        album.due_s = self._clock.monotonic_s() + self._timing.album_quiet_s

    async def _wait_for_end(self, key: str, album: _Album) -> None:
        """Publish an album once it is complete, as often as it takes."""
        failures = Backoff(self._timing.retry_base_s, self._timing.retry_cap_s)
        while not album.out:
            wait_s = album.due_s - self._clock.monotonic_s()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            try:
                await self._put_out(key, album)
            except StoreError as exc:
                wait_s = failures.next_s()
                _log.warning("album not stored, trying again", error=str(exc), retry_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)

    async def _put_out(self, key: str, album: _Album) -> None:
        """Hand an album to the inbox. Each write may be the last before a crash: doing all again changes nothing."""
        async with album.lock:
            if album.out:
                return
            if album.addressed:
                await self._publish(album.message())
            ids = frozenset(part.message.message_id for part in album.parts.values())
            await self._record(key, _Past(addressed=album.addressed, message_ids=ids, album=album))
            for update_id in album.parts:
                await self._cursors.remove(f"{self._parked}{update_id}")
            album.out = True
            if self._albums.get(key) is album:
                del self._albums[key]

    async def _record(self, key: str, past: _Past) -> None:
        record = {"at_us": self._clock.now_us(), "addressed": past.addressed, "ids": sorted(past.message_ids)}
        await self._cursors.set(f"{self._recorded}{key}", json.dumps(record))
        self._past[key] = past
        while len(self._past) > _REMEMBERED:
            oldest, _ = self._past.popitem(last=False)
            await self._cursors.remove(f"{self._recorded}{oldest}")


def _change(album: _Album, update_id: int, message: InboundMessage) -> None:
    album.parts[update_id] = replace(album.parts[update_id], message=message)


def _key(part: Received | Edited) -> str:
    return f"{part.message.address.key}/{part.album_id}"
