"""What memories said before: each change of a file is kept as a version, whoever made it."""

from __future__ import annotations

import asyncio

from bot.agent.memory import MemoryFiles
from bot.conversation import MemoryVersion
from bot.interfaces import Memory
from bot.log import get_logger
from bot.memories import MemoryHome

BY_HAND, BY_RUN, RESTORED = "hand", "run", "restore"
"""Why a version was kept; `restore` is followed by a blank and the number it goes back to."""

_log = get_logger(__name__)


class MemoryBook:
    """Files and versions together. Errors of files are `PathRefused`, of the store `StoreError`."""

    def __init__(self, files: MemoryFiles, memory: Memory) -> None:
        self._files = files
        self._memory = memory
        self._busy: set[str] = set()

    def is_busy(self, home: MemoryHome) -> bool:
        """Say whether a run is just now at work on this memory: others must not change it."""
        return home.key in self._busy

    def begin(self, home: MemoryHome) -> None:
        """Note that a run is at work on this memory."""
        self._busy.add(home.key)

    def end(self, home: MemoryHome) -> None:
        """Note that it is not any more."""
        self._busy.discard(home.key)

    async def look(self, home: MemoryHome) -> str | None:
        """Return what a memory says, None if that is too much to be kept; a change by hand becomes a version."""
        text = await asyncio.to_thread(self._files.read, home)
        if text is None:
            _log.warning("memory is too large to be kept as a version", home=home.key)
        elif not self.is_busy(home):
            await self._memory.keep(home, text, reason=BY_HAND)
        return text

    async def after_run(self, home: MemoryHome) -> str | None:
        """Return what a memory says after a run, for the turn's ending; None if that is too much to be kept."""
        await asyncio.to_thread(self._files.close_up, home)
        return await asyncio.to_thread(self._files.read, home)

    async def versions(self, home: MemoryHome, *, limit: int) -> list[MemoryVersion]:
        """Return the newest versions, newest first, the present text among them."""
        await self.look(home)
        return await self._memory.versions(home, limit=limit)

    async def version(self, home: MemoryHome, version_id: int) -> MemoryVersion | None:
        """Return one version, or None."""
        return await self._memory.version(home, version_id)

    async def restore(self, home: MemoryHome, version: MemoryVersion) -> None:
        """Let a memory say what it said in a version; what it says now is a version too."""
        await self.look(home)
        await asyncio.to_thread(self._files.write, home, version.body)
        await self._memory.keep(home, version.body, reason=f"{RESTORED} {version.id}")

    async def forget(self, home: MemoryHome) -> None:
        """Delete a memory, its versions too; what was said until now will not be read for it again."""
        await self._memory.forget(home)
        await asyncio.to_thread(self._files.remove, home)
