"""The command /skills: which skills this chat has, and why some cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from bot.agent.commands import CommandResult, Handler
from bot.agent.skills import Skill, SkillLibrary
from bot.messages import ChatType, Role
from bot.records import Turn
from bot.security.untrusted import on_one_line
from bot.security.workspace import WorkspaceView
from bot.texts import say
from bot.toolkit.context import RequestContext

_MAX_LISTED = 60
"""A longer list fills several messages of a chat and is read by nobody."""

_ABOUT_CHARS = 120


class SkillCommands:
    """See `CommandGroup`."""

    def __init__(self, library: SkillLibrary, view_of: Callable[[RequestContext], WorkspaceView]) -> None:
        self._library = library
        self._view_of = view_of

    def handlers(self) -> Mapping[str, Handler]:
        """See `CommandGroup.handlers`."""
        return {"skills": self._skills}

    async def _skills(self, _turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        language = request.language
        found = await asyncio.to_thread(self._library.look, self._view_of(request))
        lines = [_line(skill, language) for skill in found.skills[:_MAX_LISTED]]
        if (more := len(found.skills) - _MAX_LISTED) > 0:
            lines.append(say(language, "skills.more", count=more))
        # Folders of the machine are for those who run it.
        if request.role is Role.OWNER and request.chat_type is ChatType.PRIVATE:
            lines += [say(language, "skills.folder", what=on_one_line(problem)) for problem in found.problems]
        if not lines:
            return CommandResult(text=say(language, "skills.none"))
        return CommandResult(text=say(language, "skills.list", skills="\n".join(lines)))


def _line(skill: Skill, language: str) -> str:
    name, source = on_one_line(skill.name), say(language, f"skills.from.{skill.source}")
    if skill.problem is not None:
        why = say(language, f"skills.problem.{skill.problem}", detail=on_one_line(skill.detail))
        return "- " + say(language, "skills.unusable", name=name, source=source, why=why)
    about = on_one_line(skill.description, _ABOUT_CHARS)
    return "- " + say(
        language, "skills.always" if skill.always else "skills.usable", name=name, source=source, about=about
    )
