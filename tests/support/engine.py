"""The engine in one process without its roof: real store and parts, with a scripted model, channel and clock.

Parts are wired as `bot/app.py` wires them. `Rig.crash` leaves the database as a killed process would.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import orjson

from bot.access.policy import AccessPolicy, AllowList
from bot.agent.commands import is_immediate
from bot.agent.governor import GovernorLimits
from bot.agent.models import Model, ModelShelf, Prices
from bot.assembly import Agent, AgentBase
from bot.bus import LocalSignal, MessageBus
from bot.config import BotSection, Config, JobsSection, LimitsSection, McpSection, SessionsSection, ToolsConfig
from bot.config.checking import CORE
from bot.delivery import Delivery
from bot.interfaces import ModelReply, ModelRequest, Provider, Topic
from bot.messages import Address, Attachment, ChatType, InboundMessage, Origin, Quote, ToolCall
from bot.records import Acceptance, Job
from bot.scheduler import JobComposer, Scheduler
from bot.sound import build_sound
from bot.store.store import SqlStore
from bot.toolkit.base import Tool
from bot.toolkit.room import ToolRoom
from tests.support.clock import FakeClock
from tests.support.memory_channel import MemoryChannel

T = TypeVar("T")

PATIENCE_S = 10.0
OWNER, MEMBER, OTHER = "1", "111", "222"


def said(text: str, **fields: Any) -> ModelReply:
    """Return a reply in words."""
    return ModelReply(text=text, **fields)


def calls(
    *wanted: tuple[str, Any], text: str = "", prefix: str = "call", finish_reason: str = "tool_calls"
) -> ModelReply:
    """Return a reply that calls tools: (name, arguments) pairs; arguments may be text as a model sends it."""
    made = tuple(
        ToolCall(
            id=f"{prefix}_{index}",
            name=name,
            arguments=arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode(),
        )
        for index, (name, arguments) in enumerate(wanted)
    )
    return ModelReply(text=text, tool_calls=made, finish_reason=finish_reason)


def last_user(request: ModelRequest) -> str:
    """Return the newest message of a person or of the system's own marks, without its runtime context."""
    row = [row for row in request.messages if row["role"] == "user"][-1]
    content = row["content"] if isinstance(row["content"], str) else row["content"][0]["text"]
    return str(content).partition("\n\n[Runtime Context")[0]


def roles(request: ModelRequest) -> list[str]:
    """Return the roles of a request's rows."""
    return [row["role"] for row in request.messages]


def tool_texts(request: ModelRequest) -> list[str]:
    """Return the tool results a request carries."""
    return [row["content"] for row in request.messages if row["role"] == "tool"]


class AnsweringProvider(Provider):
    """A model that is a function of the request."""

    name: ClassVar[str] = "answering"
    needs_network: ClassVar[bool] = False

    def __init__(self, answer: Callable[[ModelRequest], ModelReply | Awaitable[ModelReply]]) -> None:
        self._answer = answer
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`."""
        self.requests.append(request)
        reply = self._answer(request)
        if not isinstance(reply, ModelReply):
            reply = await reply
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


@dataclass(slots=True, kw_only=True)
class Setup:
    """What a rig is built from; survives a crash of the rig."""

    folder: Path
    provider: Provider
    clock: FakeClock = field(default_factory=FakeClock)
    limits: LimitsSection = field(default_factory=LimitsSection)
    jobs: JobsSection = field(default_factory=JobsSection)
    zone: str = "Europe/Berlin"
    language: Literal["en", "de", "zh"] = "en"
    tools: Sequence[Tool] = ()
    tools_config: ToolsConfig = field(default_factory=ToolsConfig)
    owners: Collection[str] = (f"memory:{OWNER}",)
    allow_from: AllowList = (MEMBER, OTHER)
    delivers: bool = True
    channels: Sequence[MemoryChannel] = ()
    window_tokens: int = 128_000
    sessions: SessionsSection = field(default_factory=SessionsSection)
    presets: Mapping[str, Model] = field(default_factory=dict)
    replay_fields: Collection[str] = ()
    prices: Mapping[str, Prices] = field(default_factory=dict)  # by the model that answers
    servers: Mapping[str, McpSection] = field(default_factory=dict)  # MCP servers by name
    sections: Mapping[str, Any] = field(default_factory=dict)  # further sections of the configuration, by name

    def config(self) -> Config:
        """Return the configuration that this amounts to."""
        sections: dict[str, Any] = {name: model() for name, model in CORE.items()}
        sections["bot"] = BotSection(
            data_dir=self.folder, workspace=self.folder / "workspace", timezone=self.zone, language=self.language
        )
        sections |= {"jobs": self.jobs, "limits": self.limits, "sessions": self.sessions, **self.sections}
        return Config(
            **sections, tools=self.tools_config, mcp=self.servers, channels={}, plugins={}, path=None, unread={}
        )


class Rig:
    """One process's engine. Build with `rig` or `Rig.start`."""

    def __init__(self, setup: Setup, store: SqlStore) -> None:
        self.setup = setup
        self.store = store
        self.clock = setup.clock
        self.ended: list[list[str]] = []
        self.restarts = 0
        self.crashed = asyncio.Event()
        self._numbers = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        limits = setup.limits
        self.signal = LocalSignal()
        self.channels = {channel.name: channel for channel in setup.channels}
        self.policy = AccessPolicy(owners=setup.owners, allow_from=dict.fromkeys(self.channels, setup.allow_from))
        self.bus = MessageBus(store, self.signal, self.clock, self.policy, is_immediate)
        self.composer = JobComposer(setup.language)
        self.scheduler = Scheduler(
            store, self.signal, self.clock, self.composer, catch_up_max_age_h=setup.jobs.catch_up_max_age_h
        )
        workspace = setup.folder / "workspace"
        (workspace / "shared").mkdir(parents=True, exist_ok=True)
        self.workspace = workspace
        self.room = ToolRoom(
            setup.tools_config,
            workspace=workspace,
            data_dir=setup.folder,
            clock=self.clock,
            limits=limits,
            idle_minutes=setup.sessions.idle_minutes,
            skill_paths=setup.config().skills.paths,
            servers=setup.servers,
        )
        self.delivery = Delivery(
            self.bus,
            store.outbox,
            self.channels,
            self.clock,
            dead_letter_after_min=limits.dead_letter_after_min,
            rate_limited_after_min=limits.rate_limited_after_min,
            spool=self.room.spool,
        )
        self.models = ModelShelf(
            Model(
                name="",
                model="scripted",
                provider=setup.provider,
                limits=GovernorLimits(
                    context_window_tokens=setup.window_tokens,
                    max_output_tokens=4_096,
                    replay_tokens=setup.sessions.replay_tokens,
                    tool_result_chars=limits.tool_result_chars,
                    preview_chars=limits.preview_chars,
                ),
                replay_fields=setup.replay_fields,
                prices=setup.prices,
            ),
            setup.presets,
        )
        self.sound = build_sound(setup.config(), self.clock)
        agent = Agent(
            AgentBase(
                config=setup.config(),
                store=store,
                signal=self.signal,
                clock=self.clock,
                policy=self.policy,
                bus=self.bus,
                composer=self.composer,
                channels=self.channels,
                room=self.room,
                models=self.models,
                sound=self.sound,
                on_end=self._on_end,
                request_restart=self._restart,
                started_us=self.clock.now_us(),
                delivers=setup.delivers,
            )
        )
        self.registry, self.loop, self.runner = agent.registry, agent.loop, agent.runner
        self.tool_context, self.skills = agent.tool_context, agent.skills
        self.consolidator, self.memory_book, self.voice = agent.consolidator, agent.memory_book, agent.voice
        self.scheduler.system_jobs = agent.system_jobs()
        for tool in setup.tools:
            self.registry.register(tool)

    def _on_end(self, channel: str, message_ids: list[str], *, replied: bool) -> None:
        self.ended.append(message_ids)
        self.channel.bell.ring()

    def _restart(self) -> None:
        self.restarts += 1
        self.channel.bell.ring()

    # --- life

    @classmethod
    async def open(cls, setup: Setup) -> Rig:
        """Open the store as the only instance, and build; nothing runs yet."""
        made = cls(setup, await SqlStore.open(setup.folder / "dutiful.db", setup.clock, exclusive=True))
        made.room.settings.apply(await made.store.settings.all())
        await made.room.start()
        return made

    def start(self, *parts: str) -> None:
        """Start the named parts, or all of them."""
        runs = {"loop": self.loop.run, "delivery": self.delivery.run, "scheduler": self.scheduler.run}
        for name in parts or runs:
            self._tasks[name] = asyncio.create_task(runs[name](), name=name)

    async def stop(self) -> None:
        """Shut down in order, as the roof does."""
        if self.crashed.is_set():
            await self.crash()
            return
        await self._end("scheduler")
        await self.stop_loop()
        await self._end("delivery")
        await self.room.close()
        await self.sound.close()
        await self.store.close()

    async def stop_loop(self) -> None:
        """Begin no more turns and let running ones end, up to the grace."""
        await self._end("loop")

    async def stop_delivery(self) -> None:
        """Send nothing more."""
        await self._end("delivery")

    async def _end(self, name: str) -> None:
        if task := self._tasks.pop(name, None):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def crash(self) -> None:
        """End without a single further write, as a killed process does."""
        await self.store.close()
        tasks, self._tasks = list(self._tasks.values()), {}
        for _ in range(2):  # the first begins an orderly end, which waits for turns; the second cuts it short
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.room.close()
        await self.sound.close()

    async def die(self) -> None:
        """Crash from inside of a tool or a model call, which never returns."""
        try:
            await self.store.close()
        finally:
            # A loop whose write met the closed database may end, and with it the task this runs in.
            self.crashed.set()
        await asyncio.Event().wait()

    # --- people

    @property
    def channel(self) -> MemoryChannel:
        """The first channel."""
        return self.setup.channels[0]

    async def says(
        self,
        text: str,
        *,
        sender: str = MEMBER,
        chat: str = "c1",
        thread: str | None = None,
        chat_type: ChatType = ChatType.PRIVATE,
        message_id: str = "",
        reply_to: str = "",
        quote: Quote | None = None,
        attachments: tuple[Attachment, ...] = (),
        sender_name: str = "",
        channel: str = "",
    ) -> Acceptance:
        """Let a person write."""
        self._numbers += 1
        return await self.bus.publish_inbound(
            InboundMessage(
                address=Address(channel=channel or self.channel.name, chat_id=chat, thread_id=thread),
                message_id=message_id or f"in{self._numbers}",
                text=text,
                sender_id=sender,
                sender_name=sender_name,
                chat_type=chat_type,
                origin=Origin.USER,
                account="bot",
                reply_to=reply_to,
                quote=quote,
                attachments=attachments,
            )
        )

    async def until(self, predicate: Callable[[], T]) -> T:
        """Return the predicate's first true value, looking again after each event of the channel."""
        try:
            return await self.channel.bell.wait_for(predicate, timeout_s=PATIENCE_S)
        except TimeoutError:
            seen = [item.text for item in self.channel.arrived]
            raise TimeoutError(f"never true; arrived: {seen}; ended: {self.ended}") from None

    async def reads(self, *texts: str, chat: str = "c1", thread: str | None = None) -> None:
        """Wait until as many messages are in a chat, then compare them."""
        await self.until(lambda: len(self.channel.texts(chat, thread)) >= len(texts))
        assert self.channel.texts(chat, thread) == list(texts)

    async def texts_count(self, count: int, *, chat: str = "c1", thread: str | None = None) -> list[str]:
        """Wait until so many messages are in a chat, and return them."""
        await self.until(lambda: len(self.channel.texts(chat, thread)) >= count)
        return self.channel.texts(chat, thread)

    async def asks(self, text: str, **fields: Any) -> str:
        """Let a person write, and return the next message in that chat."""
        chat, thread = fields.get("chat", "c1"), fields.get("thread")
        before = len(self.channel.texts(chat, thread))
        await self.says(text, **fields)
        await self.until(lambda: len(self.channel.texts(chat, thread)) > before)
        return self.channel.texts(chat, thread)[before]

    async def turns_end(self, count: int) -> None:
        """Wait until as many turns have ended since the rig was built."""
        await self.until(lambda: len(self.ended) >= count)

    async def idle(self) -> None:
        """Wait until nothing is queued, running or to be sent now."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                status = await self.store.overview.status()
                if not (status.inbox_queued or status.turns_running or status.outbox_queued or self.loop.running()):
                    return
                await asyncio.sleep(0)

    # --- time and jobs

    def ring(self) -> None:
        """Ring every doorbell."""
        for topic in Topic:
            self.signal.notify(topic)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers of the machine do not know, so the doorbells say it."""
        self.clock.advance(seconds)
        self.ring()

    def move_to(self, text: str) -> None:
        """Let time pass until an instant."""
        self.clock.move_to(text)
        self.ring()

    async def jobs(self, chat: str = "c1") -> list[Job]:
        """Return the jobs of a chat."""
        return await self.store.jobs.list(Address(channel=self.channel.name, chat_id=chat))

    async def history(self, chat: str = "c1", thread: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of a chat's current session."""
        key = Address(channel=self.channel.name, chat_id=chat, thread_id=thread).key

        def work(conn: Any) -> Any:
            row = conn.execute("SELECT session_id FROM lanes WHERE key = ?", (key,)).fetchone()
            return None if row is None else row[0]

        session_id = await self.store._database.read(work)
        return [] if session_id is None else (await self.store.history.window(session_id, limit_tokens=1_000_000)).rows


@asynccontextmanager
async def rig(folder: Path, provider: Provider, *, start: Sequence[str] = (), **options: Any) -> AsyncIterator[Rig]:
    """Have an engine running over a folder; `start` names the parts that run (default all)."""
    options.setdefault("channels", (MemoryChannel(),))
    built = await Rig.open(Setup(folder=folder, provider=provider, **options))
    built.start(*start)
    try:
        yield built
    finally:
        await built.stop()


@asynccontextmanager
async def again(setup: Setup, *, start: Sequence[str] = ()) -> AsyncIterator[Rig]:
    """Have the engine running again after a crash, over the same folder, clock and platform."""
    built = await Rig.open(setup)
    built.start(*start)
    try:
        yield built
    finally:
        await built.stop()
