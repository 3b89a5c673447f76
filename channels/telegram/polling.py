"""The durable receiving loop: an update is confirmed to Telegram only after the inbox has it.

The SDK's own updater confirms what it merely queued, hence this loop. Telegram takes getUpdates with an
offset as the confirmation of everything below (https://core.telegram.org/bots/api#getupdates, read 2026-11-29),
so the offset moves only past what was committed. What an update means is read in `updates`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from asyncio import TaskGroup
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bot.clock import US_PER_S, Clock
from bot.errors import ChannelAuthError, ChannelError, RateLimited, StoreError
from bot.faults import fault_point
from bot.interfaces import ChannelState, Cursors, Intake
from bot.log import get_logger
from bot.messages import Address, InboundMessage
from channels.config import GroupPolicies
from channels.supervision import Backoff
from channels.telegram.config import Timing
from channels.telegram.content import BotIdentity
from channels.telegram.errors import PollConflict
from channels.telegram.updates import (
    ALLOWED_UPDATES,
    CHANNEL,
    Closed,
    Edited,
    Event,
    Migrated,
    Received,
    Reopened,
    read_update,
)

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

OFFSET_MAX_AGE_US = 6 * 24 * 3600 * US_PER_S
"""Telegram may restart ids at random after a week without updates; an old offset would then hide new ones."""

OFFSET_IDLE_US = 12 * 3600 * US_PER_S
"""How long a running process repeats an offset: together with a restored one's age it stays below a week."""

CONFLICTS_TOLERATED = 3

_BATCH = 100  # the most one getUpdates returns
_FIRST_REST_S = 0.1  # see `_rest`
_ALBUM_LOOK_S = 0.25  # how often to look for further parts of an album
_REMEMBERED_ALBUMS = 256
_RAW_LIMIT = 100_000  # characters kept of an update nobody could read

# What the SDK and the reading of its objects stumble over when an update has an unexpected shape.
_UNREADABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, OSError, RecursionError)

_log = get_logger(__name__)

Report = Callable[[ChannelState, str], None]


@dataclass(slots=True)
class _Album:
    """Parts of an album that came so far; it holds the offset back until it is in the inbox."""

    address: Address
    due_s: float = 0.0
    parts: dict[int, Received] = field(default_factory=dict)  # by update id

    def message(self) -> InboundMessage:
        """Return all parts as one message: the identity of the first, all files, the caption."""
        messages = [part.message for _, part in sorted(self.parts.items())]
        first = messages[0]
        return replace(
            first,
            text="\n".join(message.text for message in messages if message.text),
            attachments=tuple(item for message in messages for item in message.attachments),
            quote=next((message.quote for message in messages if message.quote is not None), None),
        )


class Poller:
    """Polls until cancelled. One per bot token; a second one in the world causes conflicts."""

    def __init__(
        self,
        *,
        api: BotApi,
        me: BotIdentity,
        policies: GroupPolicies,
        intake: Intake,
        cursors: Cursors,
        clock: Clock,
        timing: Timing,
        report: Report,
    ) -> None:
        self._api = api
        self._me = me
        self._policies = policies
        self._intake = intake
        self._cursors = cursors
        self._clock = clock
        self._timing = timing
        self._report = report
        self._cursor = f"{CHANNEL}:{me.id}:offset"
        self._offset: int | None = None
        self._saved_offset: int | None = None
        self._offset_us = 0
        self._done: set[int] = set()  # handled, but not yet below the offset
        self._albums: dict[str, _Album] = {}
        self._past_albums: OrderedDict[str, bool] = OrderedDict()  # was it meant for us
        self._network = Backoff(timing.retry_base_s, timing.retry_cap_s)
        self._storage = Backoff(timing.retry_base_s, timing.retry_cap_s)
        self._idle = Backoff(_FIRST_REST_S, timing.poll_pause_s)
        self._conflicts = 0
        self._tasks: TaskGroup | None = None
        self.polled_at_s: float | None = None

    async def run(self) -> None:
        """Receive until cancelled.

        Raises:
            ChannelAuthError: the token is refused.
        """
        refused: ChannelAuthError | None = None
        async with TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await self._poll_forever()
            except ChannelAuthError as exc:
                refused = exc
        if refused is not None:
            raise refused

    async def _poll_forever(self) -> None:
        restored = False
        while True:
            try:
                if not restored:
                    await self._restore()
                    restored = True
                await self._poll_once()
            except ChannelAuthError:
                raise
            except PollConflict as exc:
                await self._pause_for_conflict(exc)
            except RateLimited as exc:
                await asyncio.sleep(exc.retry_after_s or self._timing.retry_base_s)
            except ChannelError as exc:
                wait_s = self._network.next_s()
                self._report(ChannelState.OFFLINE, str(exc))
                _log.warning("polling failed", error=str(exc), retry_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)
            except StoreError as exc:
                wait_s = self._storage.next_s()
                _log.warning("update not stored, will ask again", error=str(exc), retry_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)

    async def _restore(self) -> None:
        stored = await self._cursors.get(self._cursor, max_age_us=OFFSET_MAX_AGE_US)
        if stored is not None:
            self._offset = self._saved_offset = int(stored)
            self._offset_us = self._clock.now_us()

    async def _poll_once(self) -> None:
        updates = await self._fetch()
        self._network.reset()
        self._conflicts = 0
        if updates:
            self._idle.reset()
        self._report(ChannelState.READY, "")
        try:
            for raw in updates:
                await self._take(raw)
            await self._publish_due_albums()
        finally:
            self._move_offset()
        await self._save_offset()
        self._storage.reset()

    async def _fetch(self) -> Sequence[Any]:
        quick = bool(self._albums) or self._network.failures > 0 or self._conflicts > 0
        if self._albums:
            first_due_s = min(album.due_s for album in self._albums.values())
            await asyncio.sleep(max(0.0, min(_ALBUM_LOOK_S, first_due_s - self._clock.monotonic_s())))
        if self._offset is not None and self._clock.now_us() - self._offset_us > OFFSET_IDLE_US:
            self._offset = None
            self._done.clear()
        # After a failure the first answer should come at once, to know that we are back.
        timeout_s = 0 if quick else self._timing.poll_s
        asked_at_s = self.polled_at_s = self._clock.monotonic_s()
        result = await self._api.call(
            "getUpdates",
            {
                "offset": self._offset,
                "limit": _BATCH,
                "timeout": timeout_s,
                "allowed_updates": list(ALLOWED_UPDATES),
            },
            timeout_s=timeout_s + self._timing.poll_margin_s,
        )
        if not isinstance(result, list):
            raise ChannelError("getUpdates: the answer is not a list")
        if not result and not quick:
            await self._rest(asked_at_s)
        self.polled_at_s = self._clock.monotonic_s()
        return result

    async def _rest(self, asked_at_s: float) -> None:
        """Wait a little where an empty answer came at once: not every server holds a poll until there is news.

        Short waits first, so that a conversation there stays quick.
        """
        left_s = self._timing.poll_pause_s - (self._clock.monotonic_s() - asked_at_s)
        if left_s <= 0:
            self._idle.reset()
        else:
            await asyncio.sleep(min(left_s, self._idle.next_s()))

    async def _take(self, raw: Any) -> None:
        """Handle one update; returns once it may be confirmed or is held as part of an album."""
        update_id = raw.get("update_id") if isinstance(raw, dict) else None
        if update_id in self._done:
            return  # seen again because an album before it still waits
        try:
            if not isinstance(update_id, int) or isinstance(update_id, bool):
                raise TypeError("no update_id")
            event = read_update(self._api.parse_update(raw), self._me, self._policies)
        except _UNREADABLE as exc:
            await self._keep_unreadable(raw, update_id, exc)
        else:
            if isinstance(event, Received) and event.album_id:
                held = self._hold_part(update_id, event)
                if held is None:
                    return
                event = held
            if event is not None:
                await self._handle(event)
        if isinstance(update_id, int):
            self._done.add(update_id)

    async def _keep_unreadable(self, raw: Any, update_id: object, exc: Exception) -> None:
        text = json.dumps(raw, ensure_ascii=True, default=str)[:_RAW_LIMIT]
        name = str(update_id) if isinstance(update_id, int) else hashlib.sha256(text.encode()).hexdigest()
        error = f"{type(exc).__name__}: {exc}"
        _log.error("update cannot be read, kept as it is", update_id=name, error=error)
        await self._intake.publish_unparsed(
            channel=CHANNEL, account=str(self._me.id), update_id=name, raw=text, error=error
        )

    async def _handle(self, event: Event) -> None:
        match event:
            case Received():
                # What the same chat says after an album must not overtake it.
                await self._publish_albums(lambda album: album.address == event.message.address)
                if event.addressed:
                    await self._publish(event)
            case Edited():
                await self._take_edit(event)
            case Migrated():
                await self._intake.migrate_chat(CHANNEL, event.old_chat_id, event.new_chat_id)
            case Closed():
                paused = await self._intake.close_chat(event.address, event.reason)
                _log.warning("chat closed", chat=event.address.key, reason=event.reason, jobs_paused=paused)
            case Reopened():
                await self._intake.reopen_chat(event.address)

    async def _publish(self, event: Received) -> None:
        fault_point("received")
        await self._intake.publish_inbound(event.message)
        if event.callback_id and self._tasks is not None:
            self._tasks.create_task(self._stop_spinner(event.callback_id), name="telegram-answer-callback")

    async def _stop_spinner(self, callback_id: str) -> None:
        """Tell the person's app that the press arrived; it stops by itself after a while anyway."""
        try:
            await self._api.call(
                "answerCallbackQuery", {"callback_query_id": callback_id}, timeout_s=self._timing.call_s
            )
        except ChannelError as exc:
            _log.info("button press not answered", error=str(exc))

    # --- albums ------------------------------------------------------------------------------------------

    def _hold_part(self, update_id: int, part: Received) -> Received | None:
        """Put an album's part aside; a part whose album is out already is returned to go on its own."""
        key = _album_key(part.message.address, part.album_id)
        if key in self._past_albums:
            return replace(part, addressed=part.addressed or self._past_albums[key])
        album = self._albums.get(key)
        if album is None:
            album = self._albums[key] = _Album(address=part.message.address)
        if update_id not in album.parts:
            album.parts[update_id] = part
            album.due_s = self._clock.monotonic_s() + self._timing.album_quiet_s
        return None

    async def _take_edit(self, event: Edited) -> None:
        for album in self._albums.values():
            for update_id, part in album.parts.items():
                same_chat = part.message.address == event.message.address
                if same_chat and part.message.message_id == event.message.message_id:
                    album.parts[update_id] = replace(part, message=event.message)
                    return
        await self._intake.publish_edit(event.message)

    async def _publish_due_albums(self) -> None:
        now_s = self._clock.monotonic_s()
        await self._publish_albums(lambda album: album.due_s <= now_s)

    async def _publish_albums(self, wanted: Callable[[_Album], bool]) -> None:
        for key, album in list(self._albums.items()):
            if not wanted(album):
                continue
            # A caption that mentions the bot speaks for all parts.
            addressed = any(part.addressed for part in album.parts.values())
            if addressed:
                await self._publish(Received(message=album.message()))
            del self._albums[key]
            self._done.update(album.parts)
            self._past_albums[key] = addressed
            if len(self._past_albums) > _REMEMBERED_ALBUMS:
                self._past_albums.popitem(last=False)

    # --- offset ------------------------------------------------------------------------------------------

    def _move_offset(self) -> None:
        """Move the offset past everything that is handled without a gap before it."""
        held = [update_id for album in self._albums.values() for update_id in album.parts]
        candidates = [min(held)] if held else [update_id + 1 for update_id in self._done]
        if not candidates:
            return
        offset = max(candidates)
        # An update that is handed out twice must not move it back.
        if self._offset is None or offset > self._offset:
            self._offset = offset
        self._offset_us = self._clock.now_us()
        self._done = {update_id for update_id in self._done if update_id >= offset}

    async def _save_offset(self) -> None:
        if self._offset is not None and self._offset != self._saved_offset:
            await self._cursors.set(self._cursor, str(self._offset))
            self._saved_offset = self._offset

    async def _pause_for_conflict(self, exc: PollConflict) -> None:
        self._conflicts += 1
        if self._conflicts > CONFLICTS_TOLERATED:
            self._report(ChannelState.OFFLINE, f"another process polls with the same token ({exc})")
        _log.warning("polling conflict", error=str(exc), in_a_row=self._conflicts)
        await asyncio.sleep(self._timing.conflict_s)
        if "webhook" in str(exc):
            try:
                await remove_webhook(self._api, self._timing)
            except RateLimited as limited:
                await asyncio.sleep(limited.retry_after_s or self._timing.retry_base_s)
            except ChannelAuthError:
                raise
            except ChannelError as failed:
                _log.warning("webhook not removed", error=str(failed))


async def remove_webhook(api: BotApi, timing: Timing) -> None:
    """Take a webhook away, which forbids polling; what waits for it is kept.

    Raises:
        ChannelError: the platform did not answer or refused.
    """
    info = await api.call("getWebhookInfo", {}, timeout_s=timing.call_s)
    if isinstance(info, dict) and info.get("url"):
        _log.warning("removing the webhook, it forbids polling")
        await api.call("deleteWebhook", {"drop_pending_updates": False}, timeout_s=timing.call_s)


def _album_key(address: Address, group_id: str) -> str:
    return f"{address.key}/{group_id}"
