"""The `grep` tool: which files of the chat have a line that matches, how many, or the lines themselves.

How ripgrep is run and kept inside is in `bot/ripgrep`; which files a chat may search in
`bot/security/workspace.py`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from bot.messages import Replay, Risk
from bot.ripgrep.answers import CAREFUL_REMARK, answered, is_file, number, page_remark, within
from bot.ripgrep.child import in_own_thread
from bot.ripgrep.output import Row, Window
from bot.ripgrep.place import Filters
from bot.ripgrep.program import missing_reason
from bot.ripgrep.search import Found, Pattern, Search, deadline
from bot.security.workspace import WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.file_types import file_type
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema

DEFAULT_RESULTS = 250
MAX_RESULTS = 2_000
MAX_CONTEXT = 50
MAX_CHARS = 100_000
SEARCH_LIMIT_S = 40.0

_MAX_PATTERN_CHARS = 10_000
_MAX_NAME_CHARS = 1_000
_MAX_FILE_BYTES = 100 * 1024 * 1024
_MODES = ("files_with_matches", "content", "count")


@tool_parameters(
    tool_parameters_schema(
        pattern=StringSchema(
            "Regular expression (Rust syntax: no look-around, no back-references), matched within single lines.",
            min_length=1,
            max_length=_MAX_PATTERN_CHARS,
        ),
        path=StringSchema(
            "Folder or file to search, relative to this chat's folder (default '.'); shared files are under shared/.",
            min_length=1,
        ),
        glob=StringSchema(
            "Only files whose path matches, such as '*.py', '*.{ts,tsx}', 'src/**/*.c' (counted from path) or "
            "'!*.min.js'. A glob that names files takes precedence over .gitignore.",
            min_length=1,
            max_length=_MAX_NAME_CHARS,
        ),
        type=StringSchema(
            "Only files of this type of ripgrep's, such as py, js, md, json.", min_length=1, max_length=_MAX_NAME_CHARS
        ),
        case_insensitive=BooleanSchema(description="Ignore case (default false)."),
        fixed_strings=BooleanSchema(description="Take the pattern as plain text (default false)."),
        output_mode=StringSchema(
            "files_with_matches (default): the files; content: the lines with their numbers; count: lines per file.",
            enum=_MODES,
        ),
        context_before=IntegerSchema(
            description="Lines to show before each match in content mode (default 0).", minimum=0, maximum=MAX_CONTEXT
        ),
        context_after=IntegerSchema(
            description="Lines to show after each match in content mode (default 0).", minimum=0, maximum=MAX_CONTEXT
        ),
        head_limit=IntegerSchema(
            description=f"How many files, or matching lines in content mode, at most (default {DEFAULT_RESULTS}).",
            minimum=1,
            maximum=MAX_RESULTS,
        ),
        offset=IntegerSchema(description="How many of these to pass over first (default 0).", minimum=0),
        required=["pattern"],
        additional_properties=False,
    )
)
class GrepTool(Tool):
    """Searches the text of this chat's files for lines that match a regular expression.

    Parameters: `pattern`; `path` (folder or file, default "."), `glob` and `type` choose files;
    `case_insensitive`, `fixed_strings`; `output_mode` is files_with_matches, content or count;
    `context_before` and `context_after` (lines, 0-50, content mode); `head_limit` (1-2,000 files or matching
    lines, default 250), `offset`.

    Limits: 40 seconds, 100,000 characters of answer, 500 bytes of one line; a named file up to 100 MiB. What
    .gitignore excludes and folders such as node_modules are left out unless they are named by `path`; binary
    files are left out.

    Result: paths in path order (`path`, `path: count`, or `path:line: text` with `path-line- text` around it),
    then in brackets the totals, what was cut and how to get it. No match is a result, not an error. Errors: a
    pattern, glob or type that ripgrep does not take, with its reason; a path that is missing. Refused: a path
    outside of this chat's files.
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.READ
    replay = Replay.SAFE

    def __init__(self, files: ChatFiles, *, limit_s: float = SEARCH_LIMIT_S) -> None:
        self._files = files
        self._limit_s = limit_s
        self.unavailable = missing_reason()

    @classmethod
    def create(cls, ctx: ToolContext) -> GrepTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.files)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "grep"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Search the text of this chat's files with ripgrep: which files match (default), the matching lines "
            "with their numbers (output_mode content), or how many per file (count). What .gitignore excludes, "
            "folders such as node_modules and binary files are left out. Files that all chats may read are "
            "searched with path shared."
        )

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(
        self,
        *,
        pattern: str = "",
        path: str = ".",
        glob: str = "",
        type: str = "",  # noqa: A002 - the parameter's name in the contract
        case_insensitive: bool = False,
        fixed_strings: bool = False,
        output_mode: str = _MODES[0],
        context_before: int = 0,
        context_after: int = 0,
        head_limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        **_: Any,
    ) -> ToolResult:
        """Search; failures and refusals are results."""
        if any("\0" in text for text in (pattern, glob, type)):
            return ToolResult.error("a NUL character cannot be searched for; write \\x00 in a regular expression.")
        view = self._files.view(current_request())
        asked = _Asked(
            pattern=Pattern(text=pattern, is_plain=fixed_strings, ignores_case=case_insensitive),
            path=path,
            filters=Filters(glob=glob, type=type),
            mode=output_mode,
            window=Window(skip=offset, limit=head_limit, before=context_before, after=context_after),
        )
        until_s = deadline(self._limit_s)
        return await in_own_thread(
            lambda halt: answered(path, lambda: _search(Search(view=view, halt=halt, until_s=until_s), asked)),
            name="grep",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The call."""

    pattern: Pattern
    path: str
    filters: Filters
    mode: str
    window: Window


def _search(search: Search, asked: _Asked) -> ToolResult:
    shown = search.view.resolve(asked.path).shown
    if shown == ".":
        search.view.make_dirs()  # a chat's folder exists from when somebody first looks
    if is_file(search.view, asked.path):
        if refusal := _unsearchable(search.view, asked.path):
            return ToolResult.error(f"{one_line(shown)}: {refusal}")
        found, rows = search.file_rows(asked.path, asked.pattern, asked.window)
    elif asked.mode == "content":
        found, rows = search.folder_rows(asked.path, asked.filters, asked.pattern, asked.window)
    else:
        found, rows = search.folder(asked.path, asked.filters, asked.pattern, is_counted=asked.mode == "count"), []
    if not found.files:
        return ToolResult(f"({'; '.join([f'{one_line(shown)}: no match', *_remarks(search, found, shown)])})")
    lines, totals = _content(rows, found, asked.window) if asked.mode == "content" else _files(search, found, asked)
    return ToolResult("\n".join((*lines, f"({'; '.join([*totals, *_remarks(search, found, shown)])})")))


def _unsearchable(view: WorkspaceView, path: str) -> str:
    """Return why a named file has no lines to search; empty: it has."""
    with view.open_read(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > _MAX_FILE_BYTES:
            return f"is {size_text(size_bytes)}; a named file of up to {size_text(_MAX_FILE_BYTES)} can be searched."
        kind = file_type(file, limit_bytes=_MAX_FILE_BYTES)
    return "" if kind.encoding else f"is binary ({kind.mime}, {size_text(size_bytes)}) and has no lines to search."


def _files(search: Search, found: Found, asked: _Asked) -> tuple[list[str], list[str]]:
    first, limit = asked.window.skip, asked.window.limit
    page = [item for item in found.files[first : first + limit] if search.can_open(item[0])]
    lines = [
        one_line(path, _MAX_NAME_CHARS) + (f": {count:,}" if asked.mode == "count" else "") for path, count in page
    ]
    lines = within(lines, MAX_CHARS)
    total = number(len(found.files), "file")
    if asked.mode == "count":
        total = f"{number(found.total, 'matching line')} in {total}"
    shown = first + min(limit, len(found.files) - first) if len(lines) == len(page) else first + len(lines)
    return lines, [total, *page_remark("files", first, shown, len(found.files))]


def _content(rows: list[Row], found: Found, window: Window) -> tuple[list[str], list[str]]:
    """Return the lines, "--" where some are left out, and the totals."""
    lines: list[str] = []
    chars = matches = 0
    last: Row | None = None
    has_context = bool(window.before or window.after)
    for row in rows:
        if chars > MAX_CHARS and row.is_match:
            break
        if has_context and last and (row.path, row.number) != (last.path, last.number + 1):
            lines.append("--")
        mark = ":" if row.is_match else "-"
        lines.append(f"{one_line(row.path, _MAX_NAME_CHARS)}{mark}{row.number}{mark} {row.text}")
        chars += len(lines[-1])
        matches += row.is_match
        last = row
    total = found.total
    shown = min(window.skip + (matches or window.limit), total)
    said = f"{number(total, 'matching line')} in {number(len(found.files), 'file')}"
    return lines, [said, *page_remark("matching lines", window.skip, shown, total)]


def _remarks(search: Search, found: Found, shown: str) -> list[str]:
    """Return what the findings do not say by themselves."""
    said = []
    if not found.is_complete:
        said.append("not everything was searched in the time: name a folder, glob or type")
    if found.is_careful:
        said.append(CAREFUL_REMARK)
    if found.has_unread:
        said.append("some files could not be read")
    if not found.files:
        said.append("left out are .gitignore's, folders such as node_modules, binary files")
    if shown == "." and not found.files:
        said.append("other files to search: " + ", ".join(f"path {name}" for name in search.view.other_roots))
    return said
