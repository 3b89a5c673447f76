"""`/memory` and `/compact`: what is remembered, seen and governed by those it is about.

A private chat is about its person, a group about the group: its members may read that, its owners may change it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace

from bot.agent.commands import CommandResult, Handler
from bot.agent.consolidation import Consolidator
from bot.agent.memory import KEPT_BYTES, home_of
from bot.agent.memory_book import BY_HAND, BY_RUN, RESTORED, MemoryBook
from bot.agent.models import ModelShelf
from bot.agent.summary_words import SummaryFailed
from bot.config import MemorySection
from bot.conversation import MemoryVersion, NewSummary
from bot.errors import ProviderError
from bot.interfaces import Store, Unit
from bot.log import get_logger
from bot.memories import HomeKind, MemoryHome
from bot.messages import Role
from bot.records import CallResult, Turn
from bot.security.workspace import PathRefused
from bot.texts import say
from bot.toolkit.context import RequestContext
from bot.zones import local_text

COMPACT_LIMIT_S = 300.0
"""How long a chat may wait for /compact. What is committed by then stays."""

_SHOWN_VERSIONS = 20
_CALL_ID = "command"

_log = get_logger(__name__)

_NUMBER = re.compile(r"[0-9]{1,12}")
_REASONS = {BY_HAND: "memory.why.hand", BY_RUN: "memory.why.run", RESTORED: "memory.why.restore"}


class MemoryCommands:
    """See `bot.agent.commands.CommandGroup`."""

    def __init__(
        self,
        store: Store,
        models: ModelShelf,
        book: MemoryBook,
        consolidator: Consolidator,
        *,
        section: MemorySection,
    ) -> None:
        self._store = store
        self._models = models
        self._book = book
        self._consolidator = consolidator
        self._section = section

    def handlers(self) -> Mapping[str, Handler]:
        """See `CommandGroup.handlers`."""
        return {"memory": self._memory, "compact": self._compact}

    # --- /compact

    async def _compact(self, turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        language = request.language
        model = self._consolidator.fitted(self._models.get(turn.model))
        if not model.provider.needs_network:
            return CommandResult(text=say(language, "compact.offline"))
        if (known := await self._store.steps.recall(turn, _CALL_ID)) is not None:
            return CommandResult(text=known.text)  # a crash came between the summary and its answer

        async def save(summary: NewSummary, count: int) -> bool:
            answers = say(language, "compact.done", count=count), say(language, "compact.failed")
            return await self._save(turn, summary, *answers)

        try:
            async with asyncio.timeout(COMPACT_LIMIT_S):
                count = await self._consolidator.compact(turn, model, save)
        except (SummaryFailed, ProviderError, TimeoutError) as exc:
            _log.warning("conversation not summarised on demand", error=str(exc) or type(exc).__name__)
            return CommandResult(text=say(language, "compact.failed"))
        return CommandResult(text=say(language, "compact.done" if count else "compact.nothing", count=count))

    async def _save(self, turn: Turn, summary: NewSummary, done: str, failed: str) -> bool:
        """Commit a summary and the command's answer together."""

        def work(unit: Unit) -> CallResult:
            saved = unit.save_summary(summary)
            return CallResult(call_id=_CALL_ID, text=done if saved else failed, is_error=not saved)

        return not (await self._store.steps.once(turn, _CALL_ID, work)).is_error

    # --- /memory

    async def _memory(self, _turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        return CommandResult(text=await self._answer(request, arguments))

    async def _answer(self, request: RequestContext, arguments: str) -> str:
        language, home = request.language, home_of(request)
        if not self._section.enabled:
            return say(language, "memory.off")
        verb, _, rest = arguments.strip().lower().partition(" ")
        try:
            match verb, rest.strip():
                case "", "":
                    return await self._show(request, home)
                case "log", "":
                    return await self._list(request, home)
                case "show", number if _NUMBER.fullmatch(number):
                    return await self._show_version(request, home, int(number))
                case "restore", number if _NUMBER.fullmatch(number):
                    return await self._restore(request, home, int(number))
                case "share", ("on" | "off") as choice:
                    return await self._share(request, choice == "on")
                case "forget", "":
                    return await self._forget(request, home)
        except (PathRefused, OSError) as exc:
            _log.warning("memory cannot be used", home=home.key, error=str(exc))
            return say(language, "memory.unusable")
        return say(language, "memory.usage")

    async def _show(self, request: RequestContext, home: MemoryHome) -> str:
        language = request.language
        text = await self._book.look(home)
        if text is None:
            return say(language, "memory.too_large", limit=KEPT_BYTES // 1024)
        if not text.strip():
            return say(language, "memory.empty")
        title = say(language, "memory.yours" if home.kind is HomeKind.PERSON else "memory.chats")
        return f"{title}\n\n{self._bounded(text, language)}"

    def _bounded(self, text: str, language: str) -> str:
        limit = self._section.max_chars
        return text.strip() if len(text) <= limit else f"{text[:limit].strip()}\n{say(language, 'memory.cut')}"

    async def _list(self, request: RequestContext, home: MemoryHome) -> str:
        language = request.language
        versions = await self._book.versions(home, limit=_SHOWN_VERSIONS + 1)
        if not versions:
            return say(language, "memory.empty")
        sizes = [len(version.body) for version in versions] + [0]
        lines = [say(language, "memory.log")]
        for version, size, before in zip(versions[:_SHOWN_VERSIONS], sizes, sizes[1:], strict=False):
            lines.append(
                say(
                    language,
                    "memory.log_line",
                    number=version.id,
                    when=local_text(version.at_us, request.tz, language),
                    why=_why(version, language),
                    size=size,
                    change=f"{size - before:+d}",
                )
            )
        return "\n".join(lines)

    async def _show_version(self, request: RequestContext, home: MemoryHome, number: int) -> str:
        language = request.language
        version = await self._book.version(home, number)
        if version is None:
            return say(language, "memory.no_version", number=number)
        when = local_text(version.at_us, request.tz, language)
        title = say(language, "memory.version", number=number, when=when)
        return f"{title}\n\n{self._bounded(version.body, language)}"

    async def _restore(self, request: RequestContext, home: MemoryHome, number: int) -> str:
        language = request.language
        if not _may_change(request, home):
            return say(language, "owners_only")
        version = await self._book.version(home, number)
        if version is None:
            return say(language, "memory.no_version", number=number)
        if self._book.is_busy(home):
            return say(language, "memory.busy")
        async with self._book.hold(home):
            await self._book.restore(home, version)
        return say(language, "memory.restored", number=number)

    async def _forget(self, request: RequestContext, home: MemoryHome) -> str:
        if not _may_change(request, home):
            return say(request.language, "owners_only")
        if self._book.is_busy(home):
            return say(request.language, "memory.busy")
        async with self._book.hold(home):
            await self._book.forget(home)
        return say(request.language, "memory.forgotten")

    async def _share(self, request: RequestContext, wanted: bool) -> str:
        people = self._store.people
        person = await people.get(request.channel, request.sender_id)
        await people.save(replace(person, shares_memory=wanted))
        return say(request.language, "memory.share_on" if wanted else "memory.share_off")


def _may_change(request: RequestContext, home: MemoryHome) -> bool:
    """Say whether the sender may change a memory: their own, or as an owner that of a group."""
    return home.kind is HomeKind.PERSON or request.role is Role.OWNER


def _why(version: MemoryVersion, language: str) -> str:
    reason, _, number = version.reason.partition(" ")
    return say(language, _REASONS[reason], number=number)
