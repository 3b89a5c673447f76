"""The `edit_file` tool: some words of a text file become others, and every other byte stays.

How the words are found and fitted is in `bot/edits/`, which files a chat may change in `bot/security/`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bot.edits.edit import Edit, Edited, EditError
from bot.edits.matching import Selector, numbers_text
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
    WrongKind,
)
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line, problem, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.reads import ReadLedger
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_OLD_CHARS = 1_000_000


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema("File, relative to this chat's folder.", min_length=1),
        old_text=StringSchema(
            "What to replace, as it stands in the file, without read_file's line numbers: enough lines to be found "
            "once. Empty: create the file, which must not exist yet or have no text.",
            max_length=MAX_OLD_CHARS,
        ),
        new_text=StringSchema("What to put there; empty deletes old_text."),
        replace_all=BooleanSchema(description="Replace every place where old_text is found (default false)."),
        occurrence=IntegerSchema(description="Replace only this one of several places, counted from 1.", minimum=1),
        line_hint=IntegerSchema(
            description="Replace only the place that begins nearest to this line, counted from 1.", minimum=1
        ),
        expected_replacements=IntegerSchema(
            description="Do nothing unless this many places are replaced; more than 1 replaces all.", minimum=1
        ),
        required=["path", "old_text", "new_text"],
        additional_properties=False,
    )
)
class EditFileTool(Tool):
    """Replaces a piece of a text file of the chat, and touches no other byte.

    Parameters: path, old_text, new_text; to choose among several places replace_all, occurrence (from 1) or
    line_hint (a line number, the nearest place is taken); expected_replacements (a check). Files up to 10 MiB,
    edited in their own encoding; line ends, byte order mark and a missing last line end are kept.
    old_text is looked for as it is, then without white space around lines, then with typographic quotes taken
    for straight ones; a match that is not exact is told, with a diff. An empty old_text creates the file, or fills an
    empty one.
    Result: the line of each change, and the new size.
    Errors: not found (with the closest lines as a diff and the likely cause), several places without a choice
    (with their lines), not as many as expected, binary or too large, characters the encoding lacks, changed by
    somebody meanwhile; refused: a path outside of the chat's files or in shared/, a device, pipe or socket.
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.WRITE
    replay = Replay.ONCE

    def __init__(self, files: ChatFiles, reads: ReadLedger) -> None:
        self._files = files
        self._reads = reads

    @classmethod
    def create(cls, ctx: ToolContext) -> EditFileTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.files, ctx.room.reads)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "edit_file"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Change a part of a text file of this chat: old_text becomes new_text, everything else stays. old_text "
            "must be found once, unless replace_all, occurrence or line_hint says which places are meant. Read the "
            "file first."
        )

    async def execute(
        self,
        *,
        path: str = "",
        old_text: str = "",
        new_text: str = "",
        replace_all: bool = False,
        occurrence: int | None = None,
        line_hint: int | None = None,
        expected_replacements: int | None = None,
        **_: Any,
    ) -> ToolResult:
        """Change the file; failures and refusals are results."""
        selector = Selector(
            replace_all=replace_all, occurrence=occurrence, line_hint=line_hint, expected=expected_replacements
        )
        conflict = _conflict(selector)
        if conflict:
            return ToolResult.error(conflict)
        request = current_request()
        view = self._files.view(request)
        edit = Edit(old=old_text, new=new_text, selector=selector)
        try:
            named = view.resolve(path).shown
            known = self._reads.known(request.turn.session_id, named)
            result, written = await asyncio.to_thread(_edit, view, path, edit, known)
        except FileTooLarge as error:
            return ToolResult.error(
                f"{one_line(named)}: is {size_text(error.size_bytes)}; "
                f"files up to {size_text(MAX_FILE_BYTES)} can be edited."
            )
        except PathMissing as error:
            return ToolResult.error(f"{error}. An empty old_text creates it; list_dir shows what is there.")
        except PathRefused as error:
            return problem(error)
        except EditError as error:
            # Behind a diff it would belong to the file's text.
            end = "" if "\n" in str(error) or str(error).endswith(".") else "."
            return ToolResult.error(f"{one_line(named)}: {error}{end}")
        self._reads.note(request.turn.session_id, named, written)
        return result


def _conflict(selector: Selector) -> str:
    chosen = [
        name
        for name, is_given in (
            ("replace_all", selector.replace_all),
            ("occurrence", selector.occurrence is not None),
            ("line_hint", selector.line_hint is not None),
        )
        if is_given
    ]
    if len(chosen) > 1:
        return f"{' and '.join(chosen)} contradict each other; give one of them."
    if chosen and chosen[0] != "replace_all" and (selector.expected or 1) > 1:
        return f"{chosen[0]} chooses one place, so expected_replacements can only be 1 with it."
    return ""


def _edit(view: WorkspaceView, path: str, edit: Edit, known: FileIdentity | None) -> tuple[ToolResult, FileIdentity]:
    with view.slot(path, make_parents=not edit.old) as slot:
        shown = one_line(slot.shown)
        if not edit.old:
            try:
                written = slot.create(edit.new.encode())
            except PathTaken as error:
                if (filled := _filled(slot, edit.new.encode())) is not None:
                    return ToolResult(f"{shown}: was empty; filled ({size_text(filled.size_bytes)})."), filled
                raise EditError("exists already; to change it, old_text must say what to replace") from error
            return ToolResult(f"{shown}: created ({size_text(written.size_bytes)})."), written
        try:
            data, seen = slot.read(limit_bytes=MAX_FILE_BYTES)
            edited = edit.apply(data)
            written = slot.replace(edited.data, expected=seen)
        except PathChanged:  # by somebody else, while we looked; once more with what is there now
            data, seen = slot.read(limit_bytes=MAX_FILE_BYTES)
            edited = edit.apply(data)
            written = slot.replace(edited.data, expected=seen)
    return _told(shown, edited, is_changed=known is not None and not known.same_bytes(seen)), written


def _filled(slot: FileSlot, data: bytes) -> FileIdentity | None:
    """Fill a file that has no bytes, in which no old text can be named; return None for any other."""
    try:
        return slot.replace(data, expected=slot.identity(limit_bytes=0))
    except (FileTooLarge, PathChanged, WrongKind):
        return None


def _told(shown: str, edited: Edited, *, is_changed: bool) -> ToolResult:
    count = len(edited.lines)
    places = "1 place" if count == 1 else f"{count:,} places"
    remarks = list(edited.remarks)
    if is_changed:
        remarks.append("The file had changed since this conversation last read or wrote it")
    told = f"{shown}: replaced {places}, at {numbers_text(edited.lines)} ({size_text(len(edited.data))} now)."
    told += "".join(f" {remark}." for remark in remarks)
    return ToolResult(f"{told}\n{edited.diff}" if edited.diff else told)
