"""The `read_file` tool: text with line numbers, pictures as image blocks, everything else by type and size.

Documents (PDF, office formats) are refused as binary. Which files a chat may open is decided in
`bot/security/workspace.py`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections import OrderedDict
from typing import Any

from bot.messages import Replay, Risk
from bot.security.workspace import PathMissing, PathRefused, WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.file_types import IMAGES, FileType, file_type, is_whole_image
from bot.toolkit.line_window import LineWindow, line_window
from bot.toolkit.reads import ReadLedger, seen_identity
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema

DEFAULT_LINES = 2_000
MAX_CHARS = 128_000
MAX_FILE_BYTES = 100 * 1024 * 1024
MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Providers refuse images somewhere between 5 and 20 MB."""

_REMEMBERED = 512


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema("File, relative to this chat's folder; shared files are under shared/.", min_length=1),
        offset=IntegerSchema(description="First line to read, counted from 1 (default 1).", minimum=1),
        limit=IntegerSchema(description=f"How many lines at most (default {DEFAULT_LINES}).", minimum=1),
        force=BooleanSchema(description="Answer in full even if nothing changed since the same read."),
        required=["path"],
        additional_properties=False,
    )
)
class ReadFileTool(Tool):
    """Reads one file of the chat.

    The only state is which answers a session has got already: bounded, keyed by session and read, without
    influence on anything but the choice between the full answer and "unchanged".
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.READ
    replay = Replay.SAFE

    def __init__(self, files: ChatFiles, reads: ReadLedger) -> None:
        self._files = files
        self._reads = reads
        self._answered: OrderedDict[tuple[int, str, int, int], bytes] = OrderedDict()

    @classmethod
    def create(cls, ctx: ToolContext) -> ReadFileTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.files, ctx.room.reads)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "read_file"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Read a text file of this chat with line numbers (they are not part of the file), or look at a picture "
            "(PNG, JPEG, GIF, WebP). Large files are read in parts with offset and limit. Other binary files are "
            "refused. Reading the same unchanged part again answers 'unchanged' unless force is true."
        )

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(
        self, *, path: str = "", offset: int = 1, limit: int = DEFAULT_LINES, force: bool = False, **_: Any
    ) -> ToolResult:
        """Read the file; failures and refusals are results."""
        request = current_request()
        view = self._files.view(request)
        seen = await asyncio.to_thread(seen_identity, view, path, limit_bytes=MAX_FILE_BYTES)
        result, digest = await asyncio.to_thread(_read, view, path, offset, limit)
        if result.is_error:
            return result
        if seen is not None:
            self._reads.note(request.turn.session_id, view.resolve(path).shown, seen)
        key = (request.turn.session_id, view.resolve(path).shown, offset, limit)
        is_known = self._remember(key, digest)
        # What a resumed turn got before it was interrupted may never have reached the model.
        if force or not is_known or request.turn.attempt > 1:
            return result
        return ToolResult(
            f"{one_line(key[1])}: unchanged since the same part was read earlier in this conversation. "
            "If that answer is no longer at hand, read again with force=true."
        )

    def _remember(self, key: tuple[int, str, int, int], digest: bytes) -> bool:
        """Note an answer's digest and return whether it is the same as last time."""
        known = self._answered.pop(key, None)
        self._answered[key] = digest
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return known == digest


def _read(view: WorkspaceView, path: str, offset: int, limit: int) -> tuple[ToolResult, bytes]:
    """Return the answer and its digest: time stamps of files are coarser than two quick writes."""
    result = _answer(view, path, offset, limit)
    digest = hashlib.sha256(result.encode("utf-8", "surrogatepass"))
    for block in result.blocks:
        digest.update(str(block).encode())
    return result, digest.digest()


def _answer(view: WorkspaceView, path: str, offset: int, limit: int) -> ToolResult:
    try:
        return _read_opened(view, path, offset, limit)
    except PathMissing as error:
        return ToolResult.error(f"{error}. list_dir shows what is there.")
    except PathRefused as error:
        if _is_folder(view, path):
            return ToolResult.error(f"{error}. list_dir shows what is in it.")
        return ToolResult.refused(f"{error}.")
    except OSError as error:
        return ToolResult.error(f"{one_line(path)}: cannot be read: {os.strerror(error.errno or 0)}")


def _is_folder(view: WorkspaceView, path: str) -> bool:
    try:
        view.scandir(path, limit=0)
    except PathRefused:
        return False
    return True


def _read_opened(view: WorkspaceView, path: str, offset: int, limit: int) -> ToolResult:
    shown = one_line(view.resolve(path).shown)
    with view.open_read(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > MAX_FILE_BYTES:
            return ToolResult.error(
                f"{shown}: is {size_text(size_bytes)}; files up to {size_text(MAX_FILE_BYTES)} can be read."
            )
        kind = file_type(file, limit_bytes=MAX_FILE_BYTES)
        if kind.mime in IMAGES:
            file.seek(0)
            return _picture(shown, kind.mime, file.read(MAX_IMAGE_BYTES + 1), size_bytes)
        if not kind.encoding:
            return ToolResult.error(
                f"{shown}: is binary ({kind.mime}, {size_text(size_bytes)}) and cannot be read as text."
            )
        window = line_window(file, kind, first=offset, max_lines=limit, max_chars=MAX_CHARS, limit_bytes=MAX_FILE_BYTES)
    if not window.total:
        return ToolResult(f"{shown}: is empty ({size_text(size_bytes)}).")
    if not window.lines:
        return ToolResult.error(f"{shown}: has {_count(window.total)}; offset {offset} is past its end.")
    body = "\n".join(f"{number}| {line}" for number, line in enumerate(window.lines, window.first))
    return ToolResult(f"{body}\n\n{_footer(window, kind)}")


def _picture(shown: str, mime: str, data: bytes, size_bytes: int) -> ToolResult:
    about = f"{shown}: a picture ({mime}, {size_text(size_bytes)})"
    if len(data) > MAX_IMAGE_BYTES:
        return ToolResult.error(f"{about}; pictures up to {size_text(MAX_IMAGE_BYTES)} can be looked at.")
    if not is_whole_image(data, mime):
        return ToolResult.error(f"{about} that is cut off or damaged.")
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return ToolResult(f"{about}.", blocks=[{"type": "image_url", "image_url": {"url": url}}])


def _footer(window: LineWindow, kind: FileType) -> str:
    """Say which part this is, how to go on, and what about the bytes the text does not show."""
    whole = window.first == 1 and window.last == window.total
    parts = [
        _count(window.total) if whole else f"lines {window.first:,}-{window.last:,} of {window.total:,}",
        "end of file" if window.last == window.total else f"go on with offset={window.last + 1}",
    ]
    if window.hidden_chars:
        parts.append(f"line {window.last} goes on for {window.hidden_chars:,} more characters, which are not shown")
    if kind.encoding != "utf-8" or kind.mark_bytes:
        mark = " with byte order mark" if kind.mark_bytes else ""
        parts.append(f"encoding {kind.encoding}{mark}{' (guessed)' if kind.is_guess else ''}")
    if window.crlf_count:
        which = "lines" if window.crlf_count == len(window.lines) else f"{window.crlf_count:,} of these lines"
        parts.append(f"{which} end in CRLF")
    if not kind.is_valid and any("\ufffd" in line for line in window.lines):
        parts.append(f"bytes that are not valid {kind.encoding} are shown as \ufffd")
    return f"({'; '.join(parts)})"


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines:,} lines"
