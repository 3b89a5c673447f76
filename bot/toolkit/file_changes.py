"""Carrying out a planned change of a chat's files in the name of a running call: the one way tools do it.

What a change is to be is the tool's part, how it is made whole the journal's (`bot/edits/journal.py`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from bot.edits.change_record import Author
from bot.edits.journal import ChangeJournal, FileChange
from bot.edits.plan import Plan
from bot.security.workspace import FileIdentity
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.measure import shorten
from bot.toolkit.reads import ReadLedger

if TYPE_CHECKING:
    from bot.toolkit.context import RequestContext  # which holds the room that holds this

_ID_CHARS = 200

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[_T]):
    """What the planning returned, and whether any file was changed."""

    outcome: _T
    is_changed: bool


class FileChanges:
    """Plans and carries out changes; notes what the conversation knows of the files then."""

    def __init__(self, files: ChatFiles, reads: ReadLedger, journal: ChangeJournal) -> None:
        self._files = files
        self._reads = reads
        self._journal = journal

    async def recover(self) -> None:
        """Take back what an earlier process left half done."""
        await asyncio.to_thread(self._journal.recover, self._files.view_of_folder)

    async def carry_out(
        self,
        request: RequestContext,
        work: Callable[[Plan], _T],
        *,
        tool: str,
        call_id: str,
        dry_run: bool = False,
    ) -> Done[_T]:
        """Let `work` make a plan, in a thread, and carry it out whole; in a dry run only the former.

        A call that is stopped before a file was touched changes none; later the change is finished.

        Raises:
            ChangeFailed: the change did not happen.
            Exception: what `work` raised; nothing was changed.
        """
        view = self._files.view(request)
        author = Author(
            tool=tool,
            call_id=shorten(call_id, _ID_CHARS),
            turn_id=request.turn_id,
            session_id=request.turn.session_id,
            sender_id=shorten(request.sender_id, _ID_CHARS),
        )
        called_off = threading.Event()

        def run() -> tuple[_T, list[tuple[FileChange, FileIdentity | None]]]:
            plan = Plan(view)
            outcome = work(plan)
            changes = [] if dry_run else plan.changes()
            if not changes:
                return outcome, []
            now = self._journal.carry_out(view, author, changes, is_called_off=called_off.is_set)
            return outcome, list(zip(changes, now, strict=True))

        try:
            outcome, changed = await asyncio.to_thread(run)
        except asyncio.CancelledError:
            called_off.set()  # the thread cannot be ended, but it need not begin to write
            raise
        for change, identity in changed:
            if identity is None:
                self._reads.forget(request.turn.session_id, change.path)
            else:
                self._reads.note(request.turn.session_id, change.path, identity)
        return Done(outcome=outcome, is_changed=bool(changed))
