"""The roof: constructs every part once, starts them in order, and takes them down in order.

`Engine` is the parts of one process; `Engine.serve` is its life. Nothing here decides anything about messages.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from bot.access.policy import AccessPolicy, AllowList
from bot.agent.commands import is_immediate
from bot.assembly import Agent, AgentBase
from bot.bus import LocalSignal, MessageBus
from bot.clock import SystemClock
from bot.config import Config
from bot.control import ControlServer
from bot.delivery import Delivery
from bot.desk import ControlDesk
from bot.errors import ConfigError, StoreError, StoreUnavailable
from bot.interfaces import Channel, ChannelContext, ChannelState, MenuCommand, Topic
from bot.lock import DataLock
from bot.log import get_logger
from bot.notify import notify, watchdog_interval_s
from bot.parts import build_models, channel_classes
from bot.reload import Reloaded, follow
from bot.scheduler import JobComposer, Scheduler
from bot.server import HealthServer
from bot.sound import build_sound
from bot.store.store import SqlStore
from bot.toolkit.room import ToolRoom
from bot.watch import Watch
from channels.console import USER_ID as CONSOLE_USER
from channels.console import ConsoleChannel

EXIT_OK, EXIT_RESTART, EXIT_CONFIG = 0, 75, 78
"""78 is EX_CONFIG and 75 EX_TEMPFAIL of sysexits.h; the service unit acts on both."""

_OUTBOX_DRAIN_S = 5.0
_WARM_UP_PATIENCE_S = 5

_log = get_logger(__name__)


class Engine:
    """All parts of one process, built by `open`."""

    def __init__(self, config: Config, store: SqlStore, lock: DataLock, *, console_only: bool, delivers: bool) -> None:
        self.config = config
        self.store = store
        self.console_only = console_only
        self.exit_code = EXIT_OK
        self.stopping = asyncio.Event()
        self.ready = asyncio.Event()
        self._lock = lock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reloading: asyncio.Task[None] | None = None
        self._reload_wanted = False
        self._following = asyncio.Lock()
        self.clock = SystemClock()
        self.started_us = self.clock.now_us()
        self.signal = LocalSignal()
        sections = {} if console_only else dict(config.channels)
        self.policy = AccessPolicy(
            owners=[*config.access.owners, f"console:{CONSOLE_USER}"],
            allow_from={name: _allow_list(section) for name, section in sections.items()},
        )
        self.bus = MessageBus(store, self.signal, self.clock, self.policy, is_immediate)
        self.console = ConsoleChannel(self.bus, self.clock)
        self.channels = self._build_channels(sections)
        composer = JobComposer(config.bot.language)
        owned = [ConsoleChannel.name] if console_only else None
        self.scheduler = Scheduler(
            store,
            self.signal,
            self.clock,
            composer,
            catch_up_max_age_h=config.jobs.catch_up_max_age_h,
            channels=owned,
        )
        self.room = self._build_room()
        self.delivery = Delivery(
            self.bus,
            store.outbox,
            self.channels,
            self.clock,
            dead_letter_after_min=config.limits.dead_letter_after_min,
            rate_limited_after_min=config.limits.rate_limited_after_min,
            spool=self.room.spool,
        )
        self.models = build_models(config, self.clock)
        self.sound = build_sound(config, self.clock)
        agent = self._build_agent(composer, owned=owned, delivers=delivers)
        self.registry, self.loop = agent.registry, agent.loop
        self.scheduler.system_jobs = agent.system_jobs()
        self.watch = Watch(
            config=config,
            channels=self.channels,
            bus=self.bus,
            store=store,
            clock=self.clock,
            sweep_idle=self.room.idle.sweep,
            spool=self.room.spool,
            give_up=lambda: self.stop(EXIT_CONFIG),
        )
        self.desk = ControlDesk(self, composer)
        self.control = ControlServer(config.bot.data_dir, self.desk.handlers(), self.desk.chat)
        self.health = self._build_health()

    @classmethod
    async def open(cls, config: Config, *, console_only: bool = False, delivers: bool = True) -> Engine:
        """Take the data directory's lock, open the database, build everything; no network is used.

        `console_only` leaves platforms and their jobs alone (a terminal chat without a running service);
        `delivers` is False when this process ends before any job could fire.

        Raises:
            AlreadyRunning: another process holds the directory.
            ConfigError: nothing usable is configured, or a folder cannot be written.
            StoreError: the database is damaged or newer than this version.
        """
        if not console_only and not config.channels:
            raise ConfigError(
                f"{config.path or 'no configuration file'}: no channel is configured; add a section such as "
                "[channels.telegram] (see config.example.toml), or use `dutiful chat` in a terminal"
            )
        lock = DataLock.take(config.bot.data_dir)
        try:
            for folder in (config.bot.workspace, config.bot.workspace / "shared"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            store = await SqlStore.open(
                config.bot.database,
                SystemClock(),
                exclusive=True,
                max_waiting=config.limits.inbox_max,
            )
        except OSError as exc:
            lock.release()
            raise ConfigError(f"[bot] workspace: {config.bot.workspace} cannot be used: {exc.strerror}") from exc
        except StoreUnavailable as exc:
            lock.release()
            raise ConfigError(f"[bot] data_dir: the database cannot be written: {exc}") from exc
        except BaseException:
            lock.release()
            raise
        try:
            return cls(config, store, lock, console_only=console_only, delivers=delivers)
        except BaseException:
            await store.close()
            lock.release()
            raise

    # --- construction

    def _build_channels(self, sections: Mapping[str, Any]) -> dict[str, Channel]:
        classes = channel_classes()
        platforms = {
            name: classes[name].create(self._channel_context(section))
            for name, section in sections.items()
            if name != ConsoleChannel.name
        }
        return {**platforms, ConsoleChannel.name: self.console}

    def _build_room(self) -> ToolRoom:
        return ToolRoom(
            self.config.tools,
            workspace=self.config.bot.workspace,
            data_dir=self.config.bot.data_dir,
            clock=self.clock,
            limits=self.config.limits,
            idle_minutes=self.config.sessions.idle_minutes,
            skill_paths=self.config.skills.paths,
            servers=self.config.mcp,
        )

    def _build_agent(self, composer: JobComposer, *, owned: Collection[str] | None, delivers: bool) -> Agent:
        return Agent(
            AgentBase(
                config=self.config,
                store=self.store,
                signal=self.signal,
                clock=self.clock,
                policy=self.policy,
                bus=self.bus,
                composer=composer,
                channels=self.channels,
                room=self.room,
                models=self.models,
                sound=self.sound,
                on_end=self._turn_ended,
                request_restart=lambda: self.stop(EXIT_RESTART),
                started_us=self.started_us,
                delivers=delivers,
                owned=owned,
            )
        )

    def _channel_context(self, section: Any) -> ChannelContext:
        return ChannelContext(
            section=section,
            intake=self.bus,
            cursors=self.store.cursors,
            clock=self.clock,
            workspace=str(self.config.bot.workspace),
            bot_name=self.config.bot.name,
            language=self.config.bot.language,
            menu=self._menu,
        )

    def _menu(self) -> Sequence[MenuCommand]:
        commands = self.loop.commands
        return () if commands is None else commands.menu(self.config.bot.language)

    def _build_health(self) -> HealthServer | None:
        address = self.config.server.address
        if address is None or self.console_only:
            return None
        return HealthServer(*address, health=self.watch.health, readiness=self._readiness)

    # --- life

    def stop(self, exit_code: int = EXIT_OK) -> None:
        """Begin an orderly shutdown; asked a second time, do not wait for running turns."""
        if self.stopping.is_set():
            self.loop.hurry()
            return
        self.exit_code = exit_code
        self.stopping.set()

    async def reload(self) -> Reloaded:
        """Follow the configuration file.

        Raises:
            ConfigError: it has problems, and nothing was changed.
        """
        async with self._following:  # one after the other: what the file says last is what counts
            self.config, done = await follow(self.config.path, self.config, self.room.mcp)
        return done

    def reload_soon(self) -> None:
        """Follow the configuration file in the background; problems go to the log."""
        self._reload_wanted = True  # also while one runs, which may have read the file already
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload_and_tell(), name="reload")

    async def _reload_and_tell(self) -> None:
        while self._reload_wanted:
            self._reload_wanted = False
            try:
                await self.reload()
            except ConfigError as exc:
                _log.error("the configuration has problems, nothing was changed", problems=str(exc))

    async def serve(self) -> int:
        """Run until `stop`, then shut down in order; returns the exit code.

        Raises:
            StoreError: the database turned out to be damaged.
        """
        try:
            self.room.settings.apply(await self.store.settings.all())
            await self.bus.restore_moves()
            await self.room.start()
            await self.control.start()
            if self.health is not None:
                self.health.bind()
            async with asyncio.TaskGroup() as group:
                self._start_parts(group)
                self.ready.set()
                notify("READY=1")
                _log.info("ready", channels=sorted(self.channels))
                await self.stopping.wait()
                notify("STOPPING=1")
                await self._wind_down()
        except BaseExceptionGroup as group_error:  # `except*` would wrap what is raised here, on some Pythons
            raise _damage_in(group_error) from None
        finally:
            await self.close()
        return self.exit_code

    def _start_parts(self, group: asyncio.TaskGroup) -> None:
        parts = {
            "loop": self.loop.run(),
            "delivery": self.delivery.run(),
            "scheduler": self.scheduler.run(),
            "housekeeping": self.watch.keep_house(),
            "warm-up": self._warm_up(),
            **{f"channel {name}": self.watch.supervise(channel) for name, channel in self.channels.items()},
        }
        if interval_s := watchdog_interval_s():
            parts["watchdog"] = self.watch.report_to_supervisor(interval_s)
        self._tasks = {name: group.create_task(part, name=name) for name, part in parts.items()}
        self.watch.tasks = self._tasks

    async def _warm_up(self) -> None:
        """Load what the first request needs, one after the other: the platforms' own start goes before."""
        if self.health is not None:
            await self.health.serve()
        for _ in range(_WARM_UP_PATIENCE_S):
            if not any(item.needed and item.state is ChannelState.STARTING for item in self.channels.values()):
                break
            await asyncio.sleep(1)
        await self.models.warm_up()
        # Everything imported so far stays: the collector need not look at these half a million objects again.
        # No collection first: it would hold up the loop for a tenth of a second, for little garbage.
        gc.freeze()
        gc.enable()

    async def _wind_down(self) -> None:
        """Stop receiving, let turns end, drain the outbox; each bounded."""
        receiving = [name for name in self._tasks if name.startswith("channel ")]
        await self._end(*receiving, "scheduler", "housekeeping", "warm-up")
        if self._reloading is not None:
            self._reloading.cancel()
        await self._end("loop")
        try:
            async with asyncio.timeout(_OUTBOX_DRAIN_S):
                await self.delivery.drain()
        except TimeoutError:
            _log.warning("messages are left in the outbox, they go out at the next start")
        await self._end("delivery", "watchdog")

    async def _end(self, *names: str) -> None:
        tasks = [task for name in names if (task := self._tasks.get(name)) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let go of everything, whatever one part's end fails with; for `serve`, or for one who only opened."""
        async with AsyncExitStack() as ends:  # last in, first out
            ends.callback(self._lock.release)
            ends.push_async_callback(self.store.close)
            ends.push_async_callback(self.control.close)
            if self.health is not None:
                ends.push_async_callback(self.health.close)
            ends.push_async_callback(self.models.close)
            ends.push_async_callback(self.sound.close)
            ends.push_async_callback(self.room.close)
            for channel in self.channels.values():
                ends.push_async_callback(channel.close)

    # --- glue

    @property
    def mode(self) -> str:
        """What this process does: "run", "chat", or "stopped" when it only looks into the data."""
        if not self.ready.is_set():
            return "stopped"
        return "chat" if self.console_only else "run"

    def _readiness(self) -> tuple[bool, dict[str, Any]]:
        well, details = self.watch.readiness()
        return well and not self.stopping.is_set(), details

    def _turn_ended(self, channel: str, message_ids: list[str], *, replied: bool) -> None:
        if channel == ConsoleChannel.name:
            self.console.turn_ended(message_ids, replied=replied)

    def ring_all(self) -> None:
        """Ring every doorbell, after rows were written by other means."""
        for topic in Topic:
            self.signal.notify(topic)


def _damage_in(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return one sentence for a damaged file, which every part meets that looks into it; else the group itself."""
    _, others = group.split(StoreError)
    if others is not None:
        return group
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    advice = "" if isinstance(error, StoreUnavailable) else "; restore a backup (see deploy/RUNBOOK.md)"
    return StoreError(f"{error}{advice}")


def _allow_list(section: Any) -> AllowList:
    allowed: AllowList = getattr(section, "allow_from", ())
    return allowed
