"""Which skills a chat has: where they come from, which of them can be used, and when a message asks for one.

A skill is a folder with a SKILL.md (`skill_file.py`). Those of the installation come from `shared/skills` of the
workspace, the folders of `[skills] paths` and the package, in this order if names are equal. No chat can write
there. A chat may have more of its own in its folder `skills`: no other chat sees them, they replace none of the
installation's and are never always on, since whoever may write files in a chat must not rule what its other
people's turns are told.

How they look in a prompt is in `prompt.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import is_
from pathlib import Path

from bot.agent.skill_file import NAME
from bot.agent.skill_folder import FoundSkill, SkillFolder, problems
from bot.clock import US_PER_S, Clock
from bot.security.sandbox import STANDARD_PATH
from bot.security.workspace import WorkspaceView
from bot.shipped import SKILLS

_CHATS_KEPT = 64
"""Chats whose own skills are remembered; the others' are read again when they write."""

_CHAT_SKILLS = 30
"""How many of its own a chat may have: anyone who may write files there can fill the memory with them."""

_PROGRAMS_KEPT = 1_000

_PROGRAMS_KEPT_US = 60 * US_PER_S
"""How long it takes to be noticed that a program was installed or removed."""

_MAX_REQUESTED = 3
"""How many skills one message may ask for: their bodies are stored with it."""


class SkillSource(StrEnum):
    """Where a skill comes from."""

    SHARED = "shared"  # the workspace's shared/skills
    CONFIGURED = "configured"  # a folder of [skills] paths
    BUILT_IN = "built-in"  # the package
    CHAT = "chat"  # this chat's own folder


class SkillProblem(StrEnum):
    """Why a skill cannot be used; the detail says what."""

    BROKEN = "broken"  # its SKILL.md
    DISABLED = "disabled"  # by [skills] disabled
    PROGRAM = "program"  # a program it needs is not there
    VARIABLE = "variable"  # an environment variable it needs is not set
    TAKEN = "taken"  # a chat's own one has the name of one of the installation


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill of a chat. `path` is what `read_file` takes; `always` says that its body is in every prompt."""

    name: str
    source: SkillSource
    path: str
    description: str = ""
    body: str = ""
    always: bool = False
    problem: SkillProblem | None = None
    detail: str = ""

    @property
    def reason(self) -> str:
        """Why it cannot be used, for a model; empty if it can."""
        return "" if self.problem is None else _REASONS[self.problem].format(detail=self.detail)


_REASONS: Mapping[SkillProblem, str] = {
    SkillProblem.BROKEN: "it is broken: {detail}",
    SkillProblem.DISABLED: "it is disabled in this installation",
    SkillProblem.PROGRAM: "the program {detail} is not installed",
    SkillProblem.VARIABLE: "the environment variable {detail} is not set",
    SkillProblem.TAKEN: "its name is taken by a skill of this installation",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SkillSet:
    """The skills of one chat at one moment: the same object as long as nothing changed.

    `problems` tells of folders that could not be looked at; `names` are those of the installation.
    """

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    @property
    def usable(self) -> list[Skill]:
        """Those without a problem."""
        return [skill for skill in self.skills if skill.problem is None]

    def requested(self, text: str) -> list[Skill]:
        """Return the skills that a person's text asks for by `$name`, in its order; unknown names are no request.

        A name counts at the beginning of a word and in full. Code between backticks, prices, variables in commands
        and the like ask for nothing.
        """
        if "$" not in text or not self.skills:
            return []
        known = {skill.name: skill for skill in self.skills if skill.problem is not SkillProblem.TAKEN}
        names = dict.fromkeys(match[1] for match in _REQUEST.finditer(_CODE.sub(" ` ", text)))
        return [known[name] for name in names if name in known][:_MAX_REQUESTED]


# A fence ends with as many signs as it began with, code within a line too.
_CODE = re.compile(r"(`{3,}|^~{3,}).*?(?:\1|\Z)|(?<!`)(`{1,2})(?!`)[^\n]*?(?<!`)\2(?!`)", re.DOTALL | re.MULTILINE)
# Scripts without blanks between words, and their punctuation: a name may stand between them as it is.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uff0f\uff1a-\uff20"
_CLOSING = r"[.,:;!?)\]}”“’»›…>]"
_REQUEST = re.compile(
    rf"(?<![^\s(\[“„‚‘«‹¿¡{_UNSPACED}])\$({NAME})(?=\Z|[\s{_UNSPACED}]|{_CLOSING}+(?:\Z|[\s{_UNSPACED}]))"
)


@dataclass(slots=True, kw_only=True)
class _Chat:
    """What is known of one chat's own skills."""

    folder: SkillFolder
    found: Sequence[FoundSkill] = ()
    common: SkillSet | None = None
    skills: SkillSet | None = None


class SkillLibrary:
    """Gives each chat its skills; may be asked from many threads at once."""

    def __init__(
        self,
        workspace: Path,
        clock: Clock,
        *,
        paths: Sequence[Path] = (),
        disabled: Collection[str] = (),
        program_path: Sequence[str] = STANDARD_PATH,
        environment: Mapping[str, str] = os.environ,
        built_in: Path = SKILLS,
    ) -> None:
        """Read nothing yet. `program_path` has the folders in which commands of a chat find their programs."""
        self._disabled = frozenset(disabled)
        self._programs = _Programs(program_path, clock)
        self._environment = environment
        self._folders = [
            (SkillSource.SHARED, SkillFolder("shared/skills", workspace / "shared" / "skills")),
            *((SkillSource.CONFIGURED, SkillFolder(os.path.normpath(path), path, is_expected=True)) for path in paths),
            (SkillSource.BUILT_IN, SkillFolder(str(built_in), built_in, is_expected=True)),
        ]
        self._common = SkillSet()
        self._common_key: tuple[object, ...] = ()
        self._chats: OrderedDict[Path, _Chat] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, view: WorkspaceView) -> SkillSet:
        """Return the skills of the chat with this view: the same object until something changed.

        Blocks for some microseconds a skill, longer where something is to be read: call it from a thread.
        """
        with self._lock:
            common = self._look_common(view)
            chat = self._chats.pop(view.root, None) or _Chat(
                folder=SkillFolder("skills", view.root / "skills", limit=_CHAT_SKILLS)
            )
            found = chat.folder.look(view)
            if not found and not chat.folder.problem:
                return common
            self._chats[view.root] = chat
            if len(self._chats) > _CHATS_KEPT:
                self._chats.popitem(last=False)
            told = (*common.problems, *problems([chat.folder]))
            is_known = chat.found is found and chat.common is common
            if chat.skills is None or not is_known or chat.skills.problems != told:
                own = [self._judged(skill, SkillSource.CHAT, common.names) for skill in found]
                skills = sorted((*common.skills, *own), key=lambda skill: skill.name)
                chat.skills = SkillSet(skills=tuple(skills), problems=told)
                chat.found, chat.common = found, common
            return chat.skills

    def _look_common(self, view: WorkspaceView) -> SkillSet:
        """Return the installation's skills, which every chat has."""
        found = [(source, folder.look(view)) for source, folder in self._folders]
        key = (*(entries for _, entries in found), self._programs.look())
        told = problems(folder for _, folder in self._folders)
        is_known = len(key) == len(self._common_key) and all(map(is_, key, self._common_key))
        if not is_known or told != self._common.problems:
            skills: dict[str, Skill] = {}
            for source, entries in found:
                for entry in entries:
                    if entry.name not in skills:  # what was found first wins
                        skills[entry.name] = self._judged(entry, source, frozenset())
            self._common = SkillSet(
                skills=tuple(skills[name] for name in sorted(skills)), problems=told, names=frozenset(skills)
            )
            self._common_key = key
        return self._common

    def _judged(self, found: FoundSkill, source: SkillSource, taken: Collection[str]) -> Skill:
        file = found.file
        problem, detail = (SkillProblem.TAKEN, "") if found.name in taken else self._obstacle(found)
        return Skill(
            name=found.name,
            source=source,
            path=found.path,
            description=file.description if file else "",
            body=file.body if file else "",
            always=bool(file and file.always) and source is not SkillSource.CHAT,
            problem=problem,
            detail=detail,
        )

    def _obstacle(self, found: FoundSkill) -> tuple[SkillProblem | None, str]:
        file = found.file
        if file is None:
            return SkillProblem.BROKEN, found.reason
        if file.name in self._disabled:
            return SkillProblem.DISABLED, ""
        for program in file.bins:
            if not self._programs.has(program):
                return SkillProblem.PROGRAM, program
        for variable in file.env:
            if not self._environment.get(variable):
                return SkillProblem.VARIABLE, variable
        return None, ""


class _Programs:
    """Which programs there are, looked for again now and then."""

    def __init__(self, folders: Sequence[str], clock: Clock) -> None:
        self._path = os.pathsep.join(folders)
        self._clock = clock
        self._known: dict[str, bool] = {}
        self._looked_us = 0
        self._state = object()

    def look(self) -> object:
        """Return another object once a program that was asked for has come or gone."""
        now_us = self._clock.now_us()
        if not 0 <= now_us - self._looked_us < _PROGRAMS_KEPT_US:
            self._looked_us = now_us
            known = {name: self._is_there(name) for name in self._known}
            if known != self._known:
                self._known, self._state = known, object()
        return self._state

    def has(self, name: str) -> bool:
        """Say whether commands find a program of this name."""
        if name not in self._known:
            if len(self._known) >= _PROGRAMS_KEPT:
                self._known.clear()
            self._known[name] = self._is_there(name)
        return self._known[name]

    def _is_there(self, name: str) -> bool:
        return shutil.which(name, path=self._path) is not None
