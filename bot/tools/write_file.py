"""The `write_file` tool: a whole file's text, in place of whatever was there.

Which files a chat may change and how a file is replaced is decided in `bot/security/`.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from bot.messages import Replay, Risk
from bot.security.workspace import (
    FileIdentity,
    FileSlot,
    FileTooLarge,
    PathChanged,
    PathMissing,
    PathRefused,
    PathTaken,
    WorkspaceView,
)
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line, problem, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.reads import ReadLedger
from bot.toolkit.schema import StringSchema, tool_parameters_schema

MAX_CONTENT_BYTES = 10 * 1024 * 1024

# As much as read_file reads: what is larger cannot have been read, so there is nothing to compare with.
_COMPARED_BYTES = 100 * 1024 * 1024
_ATTEMPTS = 3


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema("File, relative to this chat's folder; missing folders are made.", min_length=1),
        content=StringSchema(
            f"The whole text of the file, saved as UTF-8 exactly as given (at most {size_text(MAX_CONTENT_BYTES)})."
        ),
        required=["path", "content"],
        additional_properties=False,
    )
)
class WriteFileTool(Tool):
    """Writes one text file of the chat, whole: a new one, or in place of the one that is there.

    Parameters: path (missing folders are made), content (text, at most 10 MiB as UTF-8; line ends as given).
    The file is replaced in one step and keeps its permissions; a full disk or a crash leaves the old one.
    Result: created or replaced, with bytes and lines; it says so when the old file had not been read in this
    conversation or had changed since, with the old size, but replaces it all the same.
    Errors: a folder, a read-only file or disk, a full disk, text that UTF-8 cannot hold, too much content;
    refused: a path outside of the chat's files or in shared/, a device, pipe or socket.
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.WRITE
    replay = Replay.ONCE

    def __init__(self, files: ChatFiles, reads: ReadLedger) -> None:
        self._files = files
        self._reads = reads

    @classmethod
    def create(cls, ctx: ToolContext) -> WriteFileTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.files, ctx.room.reads)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "write_file"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Write a text file of this chat: the content becomes the whole file, missing folders are made. An existing "
            "file is replaced, so read it first; to change a part of a file use edit_file."
        )

    async def execute(self, *, path: str = "", content: str = "", **_: Any) -> ToolResult:
        """Write the file; failures and refusals are results."""
        data = content.encode()  # lone surrogates are refused with the arguments
        if len(data) > MAX_CONTENT_BYTES:
            return ToolResult.error(
                f"content: is {size_text(len(data))}; at most {size_text(MAX_CONTENT_BYTES)} can be written at once."
            )
        request = current_request()
        view = self._files.view(request)
        try:
            named = view.resolve(path).shown
            known = self._reads.known(request.turn.session_id, named)
            # People edit a memory by hand while a run works: what the run has not read, it does not replace.
            blind = request.scope != "memory"
            written_of = await asyncio.to_thread(_write, view, path, data, known, blind)
        except PathRefused as error:
            return problem(error)
        if written_of is None:
            return ToolResult.error(f"{one_line(named)}: is not as this run last read it. Read it, then write again.")
        result, written = written_of
        self._reads.note(request.turn.session_id, named, written)
        return result


def _write(
    view: WorkspaceView, path: str, data: bytes, known: FileIdentity | None, blind: bool
) -> tuple[ToolResult, FileIdentity] | None:
    """Write a file; None when it is not `blind`ly written and is not what was read."""
    with view.slot(path, make_parents=True) as slot:
        for attempt in range(_ATTEMPTS):
            try:
                return _put(slot, data, known, blind)
            except (PathTaken, PathChanged):  # by somebody else, between our look and our write
                if attempt == _ATTEMPTS - 1:
                    raise
    raise AssertionError("the last attempt returns or raises")


def _put(
    slot: FileSlot, data: bytes, known: FileIdentity | None, blind: bool
) -> tuple[ToolResult, FileIdentity] | None:
    """Write over exactly the file that the result tells about."""
    shown, size = one_line(slot.shown), _size(data)
    try:
        old = slot.identity(limit_bytes=_COMPARED_BYTES)
    except PathMissing:
        return ToolResult(f"{shown}: created ({size})."), slot.create(data)
    except FileTooLarge as error:
        before = f"it had {size_text(error.size_bytes)}, too much to have been read"
        return ToolResult(f"{shown}: replaced ({size}; {before})."), slot.replace(data)
    if old.sha256 == hashlib.sha256(data).digest():
        return ToolResult(f"{shown}: has exactly this content already ({size})."), old
    if not blind and (known is None or not known.same_bytes(old)):
        return None
    written = slot.replace(data, expected=old)
    told = f"{shown}: replaced ({size}; it had {size_text(old.size_bytes)})."
    if known is None:
        told += " This conversation had not read the file that was there."
    elif not known.same_bytes(old):
        told += " The file had changed since this conversation last read or wrote it."
    return ToolResult(told), written


def _size(data: bytes) -> str:
    lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    return f"{size_text(len(data))}, {lines:,} line{'' if lines == 1 else 's'}"
