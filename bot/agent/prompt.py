"""What a model is told: the order of the system prompt's sections, and what is built again when.

The system prompt changes only when its sources do, since providers cache by prefix; whatever varies goes into
the runtime-context block of the user's row (`user_row.py`), which is stored and replayed as it was.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from bot.agent.bootstrap import BootstrapFiles
from bot.agent.prompt_sections import (
    MEMORY_ABOUT,
    MEMORY_LIMIT_CHARS,
    MEMORY_PART,
    RECENT_ABOUT,
    RECENT_LIMIT_CHARS,
    RECENT_PART,
    SEPARATOR,
    SUMMARY_ABOUT,
    SUMMARY_LIMIT_CHARS,
    SUMMARY_PART,
    always_on,
    catalogue,
    identity,
    quoted,
    recent_history,
    tool_contract,
)
from bot.agent.skills import SkillLibrary, SkillSet
from bot.conversation import SessionPast
from bot.security.workspace import WorkspaceView
from bot.toolkit.context import RequestContext

_SECTIONS_KEPT = 64
"""Sections that differ from chat to chat and are kept made up; each has some kilobytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPrompt:
    """The system prompt of a turn; the skills its messages may ask for; what their sender lets be known here."""

    system: str
    skills: SkillSet
    shared: str = ""


class MemorySource(Protocol):
    """What is remembered of the people and the chat of a turn. Asked at every turn: files are read when they change."""

    def section(self, request: RequestContext) -> str:
        """Return what the system prompt shows: a person's memory in a private chat, the chat's in a group; or ''."""

    def shared(self, request: RequestContext) -> str:
        """Return what the sender lets be known of them in a group, for the runtime context; or ''."""


class ContextBuilder:
    """Builds prompts for one bot; may be asked for many turns at once."""

    def __init__(
        self,
        *,
        name: str,
        workspace: Path,
        format_hints: Mapping[str, str],
        skills: SkillLibrary,
        view_of: Callable[[RequestContext], WorkspaceView],
        memory: MemorySource | None = None,
        memory_limit_chars: int = MEMORY_LIMIT_CHARS,
    ) -> None:
        self._name = name
        self._format_hints = dict(format_hints)
        self._bootstrap = BootstrapFiles(workspace)
        self._skills = skills
        self._view_of = view_of
        self._memory = memory
        self._memory_limit_chars = memory_limit_chars
        self._lock = threading.Lock()
        self._identity = lru_cache(maxsize=_SECTIONS_KEPT)(identity)
        self._quoted = lru_cache(maxsize=_SECTIONS_KEPT)(quoted)
        self._recent = lru_cache(maxsize=_SECTIONS_KEPT)(recent_history)
        self._always_on = lru_cache(maxsize=_SECTIONS_KEPT)(always_on)
        self._catalogue = lru_cache(maxsize=_SECTIONS_KEPT)(catalogue)

    async def for_turn(self, request: RequestContext, past: SessionPast, *, window_tokens: int) -> TurnPrompt:
        """Return what the turn's requests begin with: the same text until one of its sources changes.

        `window_tokens` is how much the turn's model can read at once.
        """
        return await asyncio.to_thread(self.build, request, past, window_tokens=window_tokens)

    def build(self, request: RequestContext, past: SessionPast, *, window_tokens: int) -> TurnPrompt:
        """Do as `for_turn` does; looks at files."""
        skills = self._skills.look(self._view_of(request))
        with self._lock:
            bootstrap = self._bootstrap.text()
        memory = self._memory.section(request) if self._memory is not None else ""
        sections = [
            self._identity(self._name, self._format_hints.get(request.channel, "")),
            bootstrap,
            tool_contract(request.scope),
            self._quoted("Memory", MEMORY_ABOUT, memory, self._memory_limit_chars, window_tokens // MEMORY_PART),
            self._always_on(skills),
            self._catalogue(skills),
            self._quoted(
                "Recent history",
                RECENT_ABOUT,
                self._recent(past.recent),
                RECENT_LIMIT_CHARS,
                window_tokens // RECENT_PART,
            ),
            self._quoted(
                "Archived summary", SUMMARY_ABOUT, past.summary, SUMMARY_LIMIT_CHARS, window_tokens // SUMMARY_PART
            ),
        ]
        return TurnPrompt(
            system=SEPARATOR.join(section for section in sections if section),
            skills=skills,
            shared=self._memory.shared(request) if self._memory is not None else "",
        )
