"""What memories said before: each change of a file is kept as a version, whoever made it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from bot.agent.memory import MemoryFiles
from bot.conversation import MemoryVersion
from bot.interfaces import Memory
from bot.log import get_logger
from bot.memories import HomeKind, MemoryHome

BY_HAND, BY_RUN, RESTORED = "hand", "run", "restore"
"""Why a version was kept; `restore` is followed by a blank and the number it goes back to."""

_log = get_logger(__name__)


class MemoryBook:
    """Files and versions together. Errors of files are `PathRefused`, of the store `StoreError`."""

    def __init__(self, files: MemoryFiles, memory: Memory) -> None:
        self._files = files
        self._memory = memory
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_busy(self, home: MemoryHome) -> bool:
        """Say whether somebody is just now at work on this memory."""
        lock = self._locks.get(home.key)
        return lock is not None and lock.locked()

    @asynccontextmanager
    async def hold(self, home: MemoryHome) -> AsyncIterator[None]:
        """Be the only one who changes this memory; waits for others."""
        lock = self._locks.setdefault(home.key, asyncio.Lock())
        async with lock:
            yield

    async def look(self, home: MemoryHome, *, holds: bool = False) -> str | None:
        """Return what a memory says, None if that is too much to be kept; a change by hand becomes a version.

        What somebody else, who holds it, has made of it until now is no change by hand.
        """
        text = await asyncio.to_thread(self._files.read, home)
        if text is None:
            _log.warning("memory is too large to be kept as a version", home=home.key)
        elif holds or not self.is_busy(home):
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
        """Let a memory, which the caller holds, say what it said in a version; what it says now is a version too."""
        await self.look(home, holds=True)
        await asyncio.to_thread(self._files.write, home, version.body)
        await self._memory.keep(home, version.body, reason=f"{RESTORED} {version.id}")

    async def forget(self, home: MemoryHome) -> None:
        """Delete a memory, which the caller holds, with its versions; what was said will not be read for it again."""
        await self._memory.forget(home)
        await asyncio.to_thread(self._files.remove, home)

    async def move_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Let a chat that has another id now keep its file; its versions move with the chat's other rows.

        Waits for nobody: the platform's next messages wait behind this, and a run may take minutes. What the run
        still writes under the old id is lost, and made anew from the same messages by the new id's next run.
        """
        old, new = (
            MemoryHome(kind=HomeKind.CHAT, channel=channel, ident=ident) for ident in (old_chat_id, new_chat_id)
        )
        try:
            await asyncio.to_thread(self._files.move, old, new)
        except OSError as exc:
            _log.error("memory of a chat was not moved", home=old.key, to=new.key, error=str(exc))
