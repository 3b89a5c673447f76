"""Puts the agent together: tools, models, loop and commands, from configuration and the parts of one process.

The engine's roof (`bot/app.py`) and nobody else decides when they start and end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bot.access.policy import AccessPolicy
from bot.agent.commands import CommandContext, CommandGroup, Commands
from bot.agent.consolidation import Consolidator
from bot.agent.endings import EndingWriter
from bot.agent.governor import ContextGovernor
from bot.agent.hearing import Listener
from bot.agent.images import ImageStore
from bot.agent.loop import AgentLoop, LoopSettings, TurnEnded
from bot.agent.mcp_commands import McpCommands
from bot.agent.mcp_sampling import ServerSampler
from bot.agent.memory import MemoryFiles
from bot.agent.memory_book import MemoryBook
from bot.agent.memory_commands import MemoryCommands
from bot.agent.memory_runs import MemoryKeeper, MemorySchedule
from bot.agent.model_commands import ModelCommands
from bot.agent.models import ModelShelf
from bot.agent.prompt import ContextBuilder
from bot.agent.runner import AgentRunner, offload_to
from bot.agent.runs import RunnerParts
from bot.agent.session_commands import SessionCommands
from bot.agent.skill_commands import SkillCommands
from bot.agent.skills import SkillLibrary
from bot.agent.voice import Voice, VoiceCommands
from bot.bus import MessageBus
from bot.clock import Clock
from bot.config import Config
from bot.interfaces import Channel, FiringComposer, Signal, Store
from bot.jobs import JobDesk
from bot.log import get_logger
from bot.messages import Address, InboundMessage
from bot.scheduler import SystemJob
from bot.security.sandbox import path_folders
from bot.sound import Sound
from bot.toolkit.catalogue import ToolCatalogue
from bot.toolkit.context import ToolContext
from bot.toolkit.loader import ToolLoader
from bot.toolkit.mcp.questions import as_answer
from bot.toolkit.mcp.shelf import ServerShelf
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.room import ToolRoom

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBase:
    """What an agent stands on. `delivers` is False when this process ends before any job could fire."""

    config: Config
    store: Store
    signal: Signal
    clock: Clock
    policy: AccessPolicy
    bus: MessageBus
    composer: FiringComposer
    channels: Mapping[str, Channel]
    room: ToolRoom
    models: ModelShelf
    sound: Sound
    on_end: TurnEnded
    request_restart: Callable[[], None]
    started_us: int
    delivers: bool = True
    owned: Collection[str] | None = None  # the channels whose turns it runs; None: all


class Agent:
    """The tools, the loop and the commands of one process."""

    def __init__(self, base: AgentBase) -> None:
        self._base = base
        self._loader = ToolLoader(disabled=base.config.tools.main.disabled)
        self.skills = self._build_skills()
        self.tool_context = self._build_tool_context()
        self.registry = self._load_tools()
        self._connect_asks()
        self.runner = self._build_runner()
        self.memory_files, self.memory_book = self._build_memory()
        self.consolidator = self._build_consolidator()
        self.voice = self._build_voice()
        self.loop = self._build_loop()
        self.loop.commands = Commands(self._command_context(), self._command_groups())

    def _build_tool_context(self) -> ToolContext:
        base, config = self._base, self._base.config
        return ToolContext(
            store=base.store,
            signal=base.signal,
            clock=base.clock,
            policy=base.policy,
            composer=base.composer,
            workspace=config.bot.workspace,
            data_dir=config.bot.data_dir,
            room=base.room,
            config=config.tools,
            llm=config.llm,
            limits=config.limits,
            jobs=config.jobs,
            channels=tuple(base.channels),
            delivers_jobs=base.delivers,
            sections=self._loader.default_sections()
            | {name: model for name, model in config.plugins.items() if "." not in name},
        )

    def _build_skills(self) -> SkillLibrary:
        config = self._base.config
        return SkillLibrary(
            config.bot.workspace,
            self._base.clock,
            paths=config.skills.paths,
            disabled=config.skills.disabled,
            program_path=path_folders(config.tools.exec),
        )

    def _load_tools(self) -> ToolRegistry:
        registry = ToolRegistry(time_limit_s=self._base.config.limits.tool_timeout_s)
        self._loader.load(self.tool_context, registry)
        self._base.room.catalogue = ToolCatalogue(self._loader, registry)
        self._base.room.mcp.shelf = ServerShelf(
            registry,
            view_of=self._base.room.files.view,
            waiting=self._base.room.asks.calls,
            disabled=self._base.config.tools.main.disabled,
        )
        return registry

    def _connect_asks(self) -> None:
        """Let MCP servers ask persons, by the bus, and the model."""
        base = self._base
        sampler = ServerSampler(base.models, base.store.summaries.charge, limit_s=base.config.limits.call_total_s)
        base.room.asks.connect(
            inbound=base.bus.publish_inbound, outbound=base.bus.publish_outbound, sampler=sampler.answer
        )
        base.bus.words_of = as_answer

    def _build_runner(self) -> AgentRunner:
        base, config = self._base, self._base.config
        governor = ContextGovernor()
        base.room.idle.on_forget(base.store.history.forget)
        base.room.idle.on_forget(lambda session_id: governor.forget(str(session_id)))
        return AgentRunner(
            RunnerParts(
                models=base.models,
                registry=self.registry,
                steps=base.store.steps,
                governor=governor,
                policy=base.policy,
                limits=config.limits,
                settings=base.room.settings,
                waits=base.room.waits,
                offload=offload_to(base.room.files.view),
                images=ImageStore(config.bot.data_dir / "media"),
            )
        )

    def _build_memory(self) -> tuple[MemoryFiles, MemoryBook]:
        section = self._base.config.memory
        view_of = self._base.room.files.memory_view
        files = MemoryFiles(view_of, max_chars=section.max_chars, enabled=section.enabled)
        book = MemoryBook(files, self._base.store.memory)
        self._base.bus.before_migration = self._move_chat
        return files, book

    async def _move_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Let a chat that has another id now keep its files and its memory."""
        old, new = (Address(channel=channel, chat_id=chat_id).rate_key for chat_id in (old_chat_id, new_chat_id))
        try:
            await asyncio.to_thread(self._base.room.files.move_chat, old, new)
        except OSError as exc:
            _log.error("files of a chat were not moved", chat=old, to=new, error=str(exc))
        await self.memory_book.move_chat(channel, old_chat_id, new_chat_id)

    def _build_consolidator(self) -> Consolidator:
        base, config = self._base, self._base.config
        return Consolidator(
            base.store.summaries,
            base.clock,
            replay_tokens=config.sessions.replay_tokens,
            zone=config.bot.timezone,
            call_limit_s=config.limits.call_total_s,
        )

    def system_jobs(self) -> tuple[SystemJob, ...]:
        """Return the work of the agent's own that the scheduler starts; none without a model."""
        base, section = self._base, self._base.config.memory
        if not (section.enabled and base.delivers and base.models.default.provider.needs_network):
            return ()
        schedule = MemorySchedule(
            base.store,
            base.clock,
            base.policy,
            section=section,
            zone=base.config.bot.timezone,
            ring=base.bus.ring,
            channels=base.owned,
        )
        return (schedule,)

    def _build_voice(self) -> Voice:
        base = self._base
        folder = base.config.bot.data_dir / "media" / "voice"
        return Voice(base.sound.speaker, base.store.settings, base.bus, folder)

    def _build_loop(self) -> AgentLoop:
        base, config = self._base, self._base.config
        return AgentLoop(
            bus=base.bus,
            store=base.store,
            clock=base.clock,
            policy=base.policy,
            runner=self.runner,
            builder=ContextBuilder(
                name=config.bot.name,
                workspace=config.bot.workspace,
                format_hints={name: channel.format_hint for name, channel in base.channels.items()},
                skills=self.skills,
                view_of=base.room.files.view,
                memory=self.memory_files,
                memory_limit_chars=config.memory.max_chars,
            ),
            endings=EndingWriter(read_order=self._read_order),
            consolidator=self.consolidator,
            memory=MemoryKeeper(
                self.runner,
                base.store,
                self.memory_book,
                section=config.memory,
                zone=config.bot.timezone,
                time_limit_s=config.limits.subagent_timeout_s,
            ),
            listener=Listener(base.sound.transcriber, steps=base.store.steps, view_of=base.room.files.view),
            voice=self.voice,
            channels=base.channels,
            settings=LoopSettings(
                limits=config.limits,
                default_zone=config.bot.timezone,
                language=config.bot.language,
                catch_up_max_age_h=config.jobs.catch_up_max_age_h,
                channels=base.owned,
            ),
            idle_sessions=base.room.idle,
            on_end=base.on_end,
            tools_away=base.room.mcp.note,
        )

    def _command_context(self) -> CommandContext:
        base = self._base
        return CommandContext(
            store=base.store,
            signal=base.signal,
            clock=base.clock,
            control=self.loop,
            read_reminder=_read_reminder,
            desk=JobDesk(base.config.jobs, delivers=base.delivers),
            request_restart=base.request_restart,
            end_programs=base.room.sessions.end_all,
            end_calls=base.room.asks.stop,
            models=base.models,
            started_us=base.started_us,
            servers_away=base.room.mcp.away,
        )

    def _command_groups(self) -> tuple[CommandGroup, ...]:
        base = self._base
        return (
            SessionCommands(self._command_context()),
            MemoryCommands(base.store, base.models, self.memory_book, self.consolidator, section=base.config.memory),
            ModelCommands(base.store, base.models),
            VoiceCommands(base.store.settings, can_speak=base.sound.speaker is not None),
            SkillCommands(self.skills, base.room.files.view),
            McpCommands(base.room.asks, base.room.mcp.statuses),
        )

    def _read_order(self, message: InboundMessage, zone: str, language: str) -> str:
        from bot.providers.phrases_orders import read_order  # its patterns compile for 60 ms, not at start

        return read_order(message, now_us=self._base.clock.now_us(), zone=zone, language=language)


def _read_reminder(text: str, *, now_us: int, zone: str, language: str) -> Mapping[str, object] | str:
    from bot.providers.phrases_orders import read_reminder  # as in `_read_order`

    return read_reminder(text, now_us=now_us, zone=zone, language=language)
