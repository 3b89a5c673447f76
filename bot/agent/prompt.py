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

from bot.agent.bootstrap import BootstrapFiles
from bot.agent.prompt_sections import (
    MEMORY_ABOUT,
    MEMORY_LIMIT_CHARS,
    RECENT_ABOUT,
    RECENT_LIMIT_CHARS,
    SEPARATOR,
    SUMMARY_ABOUT,
    SUMMARY_LIMIT_CHARS,
    always_on,
    catalogue,
    identity,
    quoted,
    tool_contract,
)
from bot.agent.skills import SkillLibrary, SkillSet
from bot.security.workspace import WorkspaceView
from bot.toolkit.context import RequestContext

_SECTIONS_KEPT = 64
"""Sections that differ from chat to chat and are kept made up; each has some kilobytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPrompt:
    """The system prompt of a turn, and the skills its messages may ask for."""

    system: str
    skills: SkillSet


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
    ) -> None:
        self._name = name
        self._format_hints = dict(format_hints)
        self._bootstrap = BootstrapFiles(workspace)
        self._skills = skills
        self._view_of = view_of
        self._lock = threading.Lock()
        self._identity = lru_cache(maxsize=_SECTIONS_KEPT)(identity)
        self._quoted = lru_cache(maxsize=_SECTIONS_KEPT)(quoted)
        self._always_on = lru_cache(maxsize=_SECTIONS_KEPT)(always_on)
        self._catalogue = lru_cache(maxsize=_SECTIONS_KEPT)(catalogue)

    async def for_turn(
        self, request: RequestContext, *, memory: str = "", recent: str = "", summary: str = ""
    ) -> TurnPrompt:
        """Return what the turn's requests begin with: the same text until one of its sources changes."""
        return await asyncio.to_thread(self.build, request, memory=memory, recent=recent, summary=summary)

    def build(self, request: RequestContext, *, memory: str = "", recent: str = "", summary: str = "") -> TurnPrompt:
        """Do as `for_turn` does; looks at files."""
        skills = self._skills.look(self._view_of(request))
        with self._lock:
            bootstrap = self._bootstrap.text()
        sections = [
            self._identity(self._name, self._format_hints.get(request.channel, "")),
            bootstrap,
            tool_contract(request.scope),
            self._quoted("Memory", MEMORY_ABOUT, memory, MEMORY_LIMIT_CHARS),
            self._always_on(skills),
            self._catalogue(skills),
            self._quoted("Recent history", RECENT_ABOUT, recent, RECENT_LIMIT_CHARS),
            self._quoted("Archived summary", SUMMARY_ABOUT, summary, SUMMARY_LIMIT_CHARS),
        ]
        return TurnPrompt(system=SEPARATOR.join(section for section in sections if section), skills=skills)
