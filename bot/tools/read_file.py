"""The `read_file` tool: text with line numbers, pictures as image blocks, everything else by type and size.

How documents (PDF, office formats) are answered is in `read_document.py`. Which files a chat may open is decided
in `bot/security/workspace.py`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bot.documents.reading import Documents
from bot.messages import Replay, Risk
from bot.security.workspace import FileIdentity, PathMissing, PathRefused, WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line, problem, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.file_types import IMAGES, FileType, chunks, file_type, is_whole_image
from bot.toolkit.line_window import LineWindow, line_window
from bot.toolkit.reads import ReadLedger, seen_identity
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema
from bot.tools.read_document import DOCUMENTS, UNREADABLE, OpenDocument, Part, document_answer

DEFAULT_LINES = 2_000
MAX_CHARS = 128_000
MAX_FILE_BYTES = 100 * 1024 * 1024
MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Providers refuse images somewhere between 5 and 20 MB."""

_REMEMBERED = 512
_ReadKey = tuple[int, str, Part]  # session, file, what of it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What is there: an answer, or a document opened for one; `digest` tells whether that is new.

    `seen` is which file it was before it was read, None for what cannot be read.
    """

    found: ToolResult | OpenDocument
    digest: bytes
    seen: FileIdentity | None


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema("File, relative to this chat's folder; shared files are under shared/.", min_length=1),
        offset=IntegerSchema(description="First line to read, counted from 1 (default 1).", minimum=1),
        limit=IntegerSchema(description=f"How many lines at most (default {DEFAULT_LINES}).", minimum=1),
        pages=StringSchema(
            'Pages of a PDF or slides of a PowerPoint file, such as "1-3,7" or "5-" (default all). '
            "offset and limit count the lines of their text.",
            max_length=1_000,
        ),
        force=BooleanSchema(description="Answer in full even if nothing changed since the same read."),
        required=["path"],
        additional_properties=False,
    )
)
class ReadFileTool(Tool):
    """Reads one file of the chat: text, PDF and office documents, pictures.

    Parameters: path; offset, the first line from 1; limit, how many lines (2,000); pages of a PDF or slides of a
    PowerPoint file, such as "1-3,7" (all); force, to get an unchanged part again.

    Result: text comes as numbered lines, at most 128,000 characters of them, with a last line that tells the range, the
    total, how to go on, and the encoding if it is not UTF-8. PDF, docx, xlsx and pptx come as their text, with a
    line before each page, sheet or slide; of documents the last line tells which of them. PNG, JPEG, GIF and WebP
    up to 8 MiB come as an image. The same part of an unchanged file answers "unchanged" within a session.

    Errors: a missing file, a folder, other binary files (type and size are told), files over 100 MiB, documents
    that are damaged, need a password, have no text or would unpack to over 512 MiB, or take over 60 s to read.
    Refused: what lies outside of the chat's files, devices, pipes and sockets.

    The only state is which answers a session has got already: bounded, keyed by session and read, without
    influence on anything but the choice between the full answer and "unchanged".
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.READ
    replay = Replay.SAFE
    timeout_s = 240.0
    """A document has 60 s, and may have to wait for others before it."""

    def __init__(self, files: ChatFiles, documents: Documents, reads: ReadLedger) -> None:
        self._files = files
        self._reads = reads
        self._documents = documents
        self._answered: OrderedDict[_ReadKey, bytes] = OrderedDict()

    @classmethod
    def create(cls, ctx: ToolContext) -> ReadFileTool:
        """Build the tool from the ToolContext."""
        tool = cls(ctx.room.files, ctx.room.documents, ctx.room.reads)
        ctx.room.idle.on_forget(tool.forget_session)
        return tool

    def forget_session(self, session_id: int) -> None:
        """Drop which answers a session has got; the next read is answered in full."""
        for key in [key for key in self._answered if key[0] == session_id]:
            del self._answered[key]

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "read_file"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Read a text file of this chat with line numbers (they are not part of the file), the text of a document "
            "(PDF, docx, xlsx, pptx), or look at a picture (PNG, JPEG, GIF, WebP). Large files are read in parts with "
            "offset and limit, or with pages (PDF, pptx). Other binary files are refused. Reading the same unchanged "
            "part again answers 'unchanged' unless force is true."
        )

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(
        self,
        *,
        path: str = "",
        offset: int = 1,
        limit: int = DEFAULT_LINES,
        pages: str = "",
        force: bool = False,
        **_: Any,
    ) -> ToolResult:
        """Read the file; failures and refusals are results."""
        request = current_request()
        view = self._files.view(request)
        part = Part(offset=offset, limit=limit, pages=pages, max_chars=MAX_CHARS)
        look = await _looked_up(view, path, part)
        found, digest = look.found, look.digest
        if isinstance(found, ToolResult) and found.is_error:
            return found
        key = (request.turn.session_id, view.resolve(path).shown, part)
        if look.seen is not None:
            self._reads.note(key[0], key[1], look.seen)
        # What a resumed turn got before it was interrupted may never have reached the model.
        again = not force and request.turn.attempt == 1
        if isinstance(found, ToolResult):
            return self._unless_known(key, digest, found, again=again)
        with found.file:
            if again and self._answered.get(key) == digest:
                return _unchanged(key)
            result = await document_answer(self._documents, found, part)
        return result if result.is_error else self._unless_known(key, digest, result, again=again)

    def _unless_known(self, key: _ReadKey, digest: bytes, result: ToolResult, *, again: bool) -> ToolResult:
        """Note an answer's digest and return the answer, or "unchanged" if it is the same as last time."""
        known = self._answered.pop(key, None)
        self._answered[key] = digest
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return _unchanged(key) if again and known == digest else result


async def _looked_up(view: WorkspaceView, path: str, part: Part) -> _Look:
    """Look at the file in a thread, once: each hand-over costs as much as a short file does.

    Closes an opened document that nobody waits for any more.
    """
    looking = asyncio.create_task(asyncio.to_thread(_look, view, path, part), name="read_file")
    try:
        return await asyncio.shield(looking)
    except asyncio.CancelledError:
        looking.add_done_callback(_close_unwanted)
        raise


def _close_unwanted(looking: asyncio.Task[_Look]) -> None:
    if looking.cancelled() or looking.exception():
        return
    found = looking.result().found
    if isinstance(found, OpenDocument):
        found.file.close()


def _unchanged(key: _ReadKey) -> ToolResult:
    return ToolResult(
        f"{one_line(key[1])}: unchanged since the same part was read earlier in this conversation. "
        "If that answer is no longer at hand, read again with force=true."
    )


def _look(view: WorkspaceView, path: str, part: Part) -> _Look:
    """Return the answer with its digest, or a document with that of its bytes.

    Digests, because time stamps of files are coarser than two quick writes.
    """
    seen = seen_identity(view, path, limit_bytes=MAX_FILE_BYTES)
    found = _answer(view, path, part)
    digest = hashlib.sha256()
    if isinstance(found, OpenDocument):
        for chunk in chunks(found.file, 0, limit_bytes=MAX_FILE_BYTES):
            digest.update(chunk)
    else:
        digest.update(found.encode("utf-8", "surrogatepass"))
        for block in found.blocks:
            digest.update(str(block).encode())
    return _Look(found=found, digest=digest.digest(), seen=seen)


def _answer(view: WorkspaceView, path: str, part: Part) -> ToolResult | OpenDocument:
    try:
        return _read_opened(view, path, part)
    except PathMissing as error:
        return ToolResult.error(f"{error}. list_dir shows what is there.")
    except PathRefused as error:
        if _is_folder(view, path):
            return ToolResult.error(f"{error}. list_dir shows what is in it.")
        return problem(error)
    except OSError as error:
        return ToolResult.error(f"{one_line(path)}: cannot be read: {os.strerror(error.errno or 0)}")


def _is_folder(view: WorkspaceView, path: str) -> bool:
    try:
        view.scandir(path, limit=0)
    except PathRefused:
        return False
    return True


def _read_opened(view: WorkspaceView, path: str, part: Part) -> ToolResult | OpenDocument:
    shown = one_line(view.resolve(path).shown)
    with ExitStack() as opened:
        file = opened.enter_context(view.open_read(path))
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > MAX_FILE_BYTES:
            return ToolResult.error(
                f"{shown}: is {size_text(size_bytes)}; files up to {size_text(MAX_FILE_BYTES)} can be read."
            )
        kind = file_type(file, limit_bytes=MAX_FILE_BYTES)
        document = DOCUMENTS.get(kind.mime)
        if part.pages.strip() and document is None:
            return ToolResult.error(f"{shown}: is {kind.mime}, which has no pages to select; use offset and limit.")
        if document is not None:
            found = OpenDocument(file=file, kind=document, shown=shown)
            opened.pop_all()
            return found
        if kind.mime in IMAGES:
            file.seek(0)
            return _picture(shown, kind.mime, file.read(MAX_IMAGE_BYTES + 1), size_bytes)
        if not kind.encoding:
            about = UNREADABLE.get(kind.mime, "is binary ({mime}, {size}) and cannot be read as text")
            return ToolResult.error(f"{shown}: {about.format(mime=kind.mime, size=size_text(size_bytes))}.")
        window = line_window(
            file, kind, first=part.offset, max_lines=part.limit, max_chars=part.max_chars, limit_bytes=MAX_FILE_BYTES
        )
    return _text(shown, window, kind, size_bytes, part.offset)


def _text(shown: str, window: LineWindow, kind: FileType, size_bytes: int, offset: int) -> ToolResult:
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
