"""The durable polling loop: an update is confirmed to Telegram only after the desk has committed it.

The SDK's own updater confirms what it merely queued, hence this loop. Telegram takes getUpdates with an
offset as the confirmation of everything below (https://core.telegram.org/bots/api#getupdates, read 2026-11-29),
so the offset moves only past what was committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bot.clock import US_PER_S, Clock
from bot.errors import ChannelAuthError, ChannelError, RateLimited, StoreError
from bot.interfaces import ChannelState, Cursors
from bot.log import get_logger
from channels.supervision import Backoff
from channels.telegram.config import Timing
from channels.telegram.content import CHANNEL
from channels.telegram.desk import UpdateDesk
from channels.telegram.errors import PollConflict
from channels.telegram.updates import ALLOWED_UPDATES

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

OFFSET_MAX_AGE_US = 6 * 24 * 3600 * US_PER_S
"""Telegram may restart ids at random after a week without updates; an old offset would then hide new ones."""

OFFSET_IDLE_US = 12 * 3600 * US_PER_S
"""How long a running process repeats an offset: together with a restored one's age it stays below a week."""

CONFLICTS_TOLERATED = 3

_BATCH = 100  # the most one getUpdates returns
_FIRST_REST_S = 0.1  # see `_rest`

_log = get_logger(__name__)

Report = Callable[[ChannelState, str], None]


class Poller:
    """Polls until cancelled. One per bot token; a second one in the world causes conflicts."""

    def __init__(
        self,
        *,
        api: BotApi,
        desk: UpdateDesk,
        account: str,
        cursors: Cursors,
        clock: Clock,
        timing: Timing,
        report: Report,
    ) -> None:
        self._api = api
        self._desk = desk
        self._cursors = cursors
        self._clock = clock
        self._timing = timing
        self._report = report
        self._cursor = f"{CHANNEL}:{account}:offset"
        self._offset: int | None = None
        self._saved_offset: int | None = None
        self._offset_us = 0
        self._network = Backoff(timing.retry_base_s, timing.retry_cap_s)
        self._storage = Backoff(timing.retry_base_s, timing.retry_cap_s)
        self._idle = Backoff(_FIRST_REST_S, timing.poll_pause_s)
        self._conflicts = 0
        self.asked_at_s: float | None = None

    async def run(self) -> None:
        """Receive until cancelled; the desk must be serving.

        Raises:
            ChannelAuthError: the token is refused.
        """
        # Nothing is asked first: where a webhook stands in the way, polling says so.
        self._report(ChannelState.READY, "")
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
        if self._has_news(updates):
            self._idle.reset()
        self._report(ChannelState.READY, "")
        for raw in updates:
            await self._desk.take(raw)
            self._move_offset(raw)
        await self._save_offset()
        self._storage.reset()

    async def _fetch(self) -> Sequence[Any]:
        quick = self._network.failures > 0 or self._conflicts > 0
        if self._offset is not None and self._clock.now_us() - self._offset_us > OFFSET_IDLE_US:
            self._offset = None
        # After a failure the first answer should come at once, to know that we are back.
        timeout_s = 0 if quick else self._timing.poll_s
        asked_at_s = self.asked_at_s = self._clock.monotonic_s()
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
        if not quick and not self._has_news(result):
            await self._rest(asked_at_s)
        self.asked_at_s = self._clock.monotonic_s()
        return result

    def _has_news(self, updates: Sequence[Any]) -> bool:
        """Say whether anything is handed out that the offset has not passed; some servers take no note of it."""
        ids = [raw.get("update_id") for raw in updates if isinstance(raw, dict)]
        return any(isinstance(number, int) and number >= (self._offset or number) for number in ids)

    async def _rest(self, asked_at_s: float) -> None:
        """Wait a little where an answer without news came at once: not every server holds a poll until there is news.

        Short waits first, so that a conversation there stays quick.
        """
        left_s = self._timing.poll_pause_s - (self._clock.monotonic_s() - asked_at_s)
        if left_s <= 0:
            self._idle.reset()
        else:
            await asyncio.sleep(min(left_s, self._idle.next_s()))

    def _move_offset(self, raw: Any) -> None:
        """Move the offset past an update that is done; one that is handed out again does not move it back."""
        update_id = raw.get("update_id") if isinstance(raw, dict) else None
        if isinstance(update_id, int):
            if self._offset is None or update_id >= self._offset:
                self._offset = update_id + 1
            self._offset_us = self._clock.now_us()

    async def _save_offset(self) -> None:
        if self._offset is not None and self._offset != self._saved_offset:
            await self._cursors.set(self._cursor, str(self._offset))
            self._saved_offset = self._offset

    async def _pause_for_conflict(self, exc: PollConflict) -> None:
        self._conflicts += 1
        if "webhook" in str(exc).lower() and self._conflicts <= CONFLICTS_TOLERATED and await self._remove_webhook():
            return
        if self._conflicts > CONFLICTS_TOLERATED:
            self._report(ChannelState.OFFLINE, f"another process polls with the same token ({exc})")
        _log.warning("polling conflict", error=str(exc), in_a_row=self._conflicts)
        await asyncio.sleep(self._timing.conflict_s)
        if self._conflicts > CONFLICTS_TOLERATED and "webhook" in str(exc).lower():
            await self._remove_webhook()

    async def _remove_webhook(self) -> bool:
        """Take a webhook away, which forbids polling; what waits for it is kept. Say whether it went.

        Raises:
            ChannelAuthError: the token is refused.
        """
        _log.warning("removing the webhook, it forbids polling")
        try:
            await self._api.call("deleteWebhook", {"drop_pending_updates": False}, timeout_s=self._timing.call_s)
        except RateLimited as limited:
            await asyncio.sleep(limited.retry_after_s or self._timing.retry_base_s)
        except ChannelAuthError:
            raise
        except ChannelError as failed:
            _log.warning("webhook not removed", error=str(failed))
        else:
            return True
        return False
