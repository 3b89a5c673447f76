"""One folder of skills, read again only where something in it changed.

Looking costs one stat for the folder and one per skill. Files are opened through the view of a chat, so that no
link leads out of where that chat may read. Everything here blocks: call it from a thread, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.agent.skill_file import FILE_NAME, MAX_FILE_BYTES, SkillBroken, SkillFile, parse_skill
from bot.agent.sources import Stamp, is_settled, stamp_of
from bot.security.workspace import EntryKind, PathMissing, PathRefused, WorkspaceView

MAX_SKILLS = 200
"""How many entries of one folder are looked at: a prompt has no room for a catalogue of more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSkill:
    """An entry of the folder: what its SKILL.md says, or why that cannot be used."""

    name: str
    path: str  # of the SKILL.md, as file tools of the chat write it
    file: SkillFile | None
    reason: str = ""


@dataclass(slots=True)
class _Entry:
    stamp: Stamp
    settled: bool
    found: FoundSkill


class SkillFolder:
    """What is known of one folder; `shown` is how the chat names it, `place` where it is."""

    def __init__(self, shown: str, place: Path, *, limit: int = MAX_SKILLS, is_expected: bool = False) -> None:
        """With `is_expected`, a folder that is not there is a problem."""
        self.shown = shown
        self._is_expected = is_expected
        self._limit = limit
        self._place = str(place)
        self._stamp: Stamp | None = None
        self._settled = False
        self._names: tuple[str, ...] = ()
        self._entries: dict[str, _Entry] = {}
        self.found: Sequence[FoundSkill] = ()
        """All of them by name; another object whenever something changed."""
        self.problem = ""
        """Why the folder itself cannot be looked at; empty also where there is none."""

    def look(self, view: WorkspaceView) -> Sequence[FoundSkill]:
        """Read what is new or changed, and return `found`."""
        stamp = stamp_of(self._place)
        if stamp != self._stamp or not self._settled:
            self._stamp, self._settled = stamp, is_settled(stamp)
            self._names = self._listed(view)
        changed = False
        for name in self._names:
            stamp = stamp_of(f"{self._place}/{name}/{FILE_NAME}")
            known = self._entries.get(name)
            if known is None or known.stamp != stamp or not known.settled:
                settled = is_settled(stamp)
                entry = _Entry(stamp, settled, self._read(view, name))
                changed = changed or known is None or known.found != entry.found
                self._entries[name] = entry
        gone = self._entries.keys() - set(self._names)
        for name in gone:
            del self._entries[name]
        if changed or gone:
            self.found = tuple(self._entries[name].found for name in self._names)
        return self.found

    def _listed(self, view: WorkspaceView) -> tuple[str, ...]:
        self.problem = ""
        try:
            entries, total = view.scandir(self.shown, limit=self._limit)
        except PathMissing as error:
            self.problem = _words(error) if self._is_expected else ""
            return ()
        except (PathRefused, OSError) as error:
            self.problem = _words(error)
            return ()
        if total > self._limit:
            self.problem = f"has {total:,} entries; only the first {self._limit} are looked at"
        kinds = (EntryKind.FOLDER, EntryKind.LINK)  # where a link leads is seen on the way to its file
        return tuple(entry.name for entry in entries if entry.kind in kinds and not entry.name.startswith("."))

    def _read(self, view: WorkspaceView, name: str) -> FoundSkill:
        path = f"{self.shown}/{name}/{FILE_NAME}"
        try:
            with view.open_read(path) as file:
                skill = parse_skill(file.read(MAX_FILE_BYTES + 1), name)
        except PathMissing:
            return FoundSkill(name=name, path=path, file=None, reason=f"has no {FILE_NAME}")
        except SkillBroken as error:
            return FoundSkill(name=name, path=path, file=None, reason=str(error))
        except (PathRefused, OSError) as error:
            return FoundSkill(name=name, path=path, file=None, reason=_words(error))
        return FoundSkill(name=name, path=path, file=skill)


def _words(error: Exception) -> str:
    """Return why, without the path, which the skill's name stands for."""
    if isinstance(error, OSError):
        return f"cannot be read: {os.strerror(error.errno or 0)}"
    return str(error).rpartition(": ")[2]


def problems(folders: Iterable[SkillFolder]) -> tuple[str, ...]:
    """Return what is wrong with the folders themselves, one line each."""
    return tuple(f"{folder.shown}: {folder.problem}" for folder in folders if folder.problem)
