"""Watching over the parts: keeps channels receiving, cleans up, and says how things stand.

The roof owns the parts and their order; this only looks at them and restarts what may be restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from bot.bus import MessageBus
from bot.clock import US_PER_S, Clock
from bot.config import Config
from bot.errors import ChannelAuthError, DutifulError
from bot.interfaces import Channel, ChannelState, Store
from bot.log import get_logger
from bot.messages import OutboundKind, OutboundMessage
from bot.notify import notify
from bot.spool import Spool
from channels.console import ConsoleChannel

CHANNEL_RETRY_S = 10.0
KEPT_DAYS = 30
"""Platforms redeliver within days; this long a settled message guards against a repeat (design 3)."""

_HOUSEKEEPING_S = 3_600.0
_POLL_STALE_S = 300.0
_DAY_US = 86_400 * US_PER_S

_log = get_logger(__name__)


class Watch:
    """Supervises the channels of one engine. `give_up` is called when no platform is left that could work."""

    def __init__(
        self,
        *,
        config: Config,
        channels: Mapping[str, Channel],
        bus: MessageBus,
        store: Store,
        clock: Clock,
        sweep_idle: Callable[[], object],
        spool: Spool,
        give_up: Callable[[], None],
    ) -> None:
        self._config = config
        self._channels = channels
        self._bus = bus
        self._store = store
        self._clock = clock
        self._sweep_idle = sweep_idle
        self._spool = spool
        self._give_up = give_up
        self.tasks: Mapping[str, asyncio.Task[None]] = {}
        """The engine's loops by name, once they are started."""

    async def supervise(self, channel: Channel) -> None:
        """Keep one channel receiving. One of the four places that catch everything: others must go on."""
        while True:
            try:
                await channel.run()
            except ChannelAuthError as exc:
                channel.state = ChannelState.FAILED
                channel.problem = str(exc)
                _log.error("channel is off until its configuration changes", channel=channel.name, error=str(exc))
                await self._channel_failed(channel)
                return
            except Exception as exc:  # noqa: BLE001 - one of the four boundaries (design 10.6)
                channel.state = ChannelState.OFFLINE
                channel.problem = f"{type(exc).__name__}: {exc}"
                _log.exception("channel stopped, starting it again", channel=channel.name)
            await asyncio.sleep(CHANNEL_RETRY_S)

    async def _channel_failed(self, failed: Channel) -> None:
        """Tell owners elsewhere; when no platform is left, the configuration is what is wrong."""
        platforms = [channel for channel in self._channels.values() if channel.needed]
        console_wanted = ConsoleChannel.name in self._config.channels
        if not console_wanted and all(channel.state is ChannelState.FAILED for channel in platforms):
            self._give_up()
            return
        for owner in self._config.access.owners:
            name, _, user_id = owner.partition(":")
            channel = self._channels.get(name)
            if channel is None or channel is failed or (address := channel.private_address(user_id)) is None:
                continue
            text = f"Channel {failed.name} is off: {failed.problem}"
            try:
                await self._bus.publish_outbound(OutboundMessage(address=address, text=text, kind=OutboundKind.NOTICE))
            except DutifulError as exc:
                _log.error("owner cannot be told", error=str(exc))

    async def keep_house(self) -> None:
        """Forget what is long settled and what conversations left in memory, at the start and every hour."""
        days = self._config.sessions.retention_days
        while True:
            now_us = self._clock.now_us()
            self._sweep_idle()
            try:
                count = await self._store.overview.prune(older_than_us=now_us - KEPT_DAYS * _DAY_US)
                count += await self._store.overview.retire(older_than_us=now_us - days * _DAY_US if days else None)
                _log.debug("old rows removed", count=count)
                await self._spool.clean(self._store.outbox.copied_files)
            except (DutifulError, OSError) as exc:
                _log.error("housekeeping failed", error=str(exc))
            await asyncio.sleep(_HOUSEKEEPING_S)

    async def report_to_supervisor(self, interval_s: float) -> None:
        """Tell systemd's watchdog that the process works, as long as it does."""
        while True:
            if self.health()[0]:
                notify("WATCHDOG=1")
            await asyncio.sleep(interval_s)

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Say whether every loop of ours runs and platforms are still being asked for news."""
        stopped = [name for name in ("loop", "delivery", "scheduler") if _is_done(self.tasks.get(name))]
        stale = [
            name
            for name, channel in self._channels.items()
            if channel.state is not ChannelState.FAILED and (channel.last_poll_age_s() or 0) > _POLL_STALE_S
        ]
        return not stopped and not stale, {"stopped": stopped, "stale": stale}

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Say whether messages can come in and go out on every platform right now."""
        states = {name: channel.state for name, channel in self._channels.items() if channel.needed}
        well = bool(self.tasks) and all(state is ChannelState.READY for state in states.values())
        return well, {"channels": states}

    def channel_states(self) -> Mapping[str, Mapping[str, str]]:
        """Return state and problem of each channel."""
        return {name: {"state": item.state, "problem": item.problem} for name, item in self._channels.items()}


def _is_done(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()
