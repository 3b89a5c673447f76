"""The `find_files` tool: files of the chat by name, anywhere below a folder.

How ripgrep is run and kept inside is in `bot/ripgrep`; which folders a chat may open in
`bot/security/workspace.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bot.messages import Replay, Risk
from bot.ripgrep.answers import CAREFUL_REMARK, answered, is_file, number, page_remark, within
from bot.ripgrep.child import in_own_thread
from bot.ripgrep.place import Filters
from bot.ripgrep.program import missing_reason
from bot.ripgrep.search import Search, deadline
from bot.security.workspace import PathRefused
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema

DEFAULT_RESULTS = 200
MAX_RESULTS = 2_000
MAX_CHARS = 100_000
SEARCH_LIMIT_S = 40.0

_MAX_NAME_CHARS = 1_000
_SORTS = ("path", "modified")


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema(
            "Folder to look below, relative to this chat's folder (default '.'); shared files are under shared/.",
            min_length=1,
        ),
        query=StringSchema(
            "Words that the path contains, in any case; if no path does, paths with these letters in this order.",
            max_length=_MAX_NAME_CHARS,
        ),
        glob=StringSchema(
            "Only files whose path matches, such as '*.pdf', 'src/**/*.c' (counted from path) or '!*.min.js'. A glob "
            "that names files takes precedence over .gitignore.",
            min_length=1,
            max_length=_MAX_NAME_CHARS,
        ),
        type=StringSchema(
            "Only files of this type of ripgrep's, such as py, js, md, json.", min_length=1, max_length=_MAX_NAME_CHARS
        ),
        include_dirs=BooleanSchema(description="Also name the folders that such files are in (default false)."),
        sort=StringSchema("Order: path (default), or modified: newest first.", enum=_SORTS),
        head_limit=IntegerSchema(
            description=f"How many paths at most (default {DEFAULT_RESULTS}).", minimum=1, maximum=MAX_RESULTS
        ),
        offset=IntegerSchema(description="How many paths to pass over first (default 0).", minimum=0),
        additional_properties=False,
    )
)
class FindFilesTool(Tool):
    """Finds files of this chat by name, in a folder and all folders below it.

    Parameters: `path` (folder, default "."); `query` (words of the path, in any case, else its letters in order),
    `glob` and `type` choose files; `include_dirs` also names folders that hold such files, with a slash at the
    end (empty folders are not found); `sort` is path or modified (newest first); `head_limit` (1-2,000 paths,
    default 200), `offset`.

    Limits: 40 seconds, 100,000 characters of answer. What .gitignore excludes and folders such as node_modules
    are left out unless they are named by `path`; links are not followed and not named.

    Result: one path a line, then in brackets the total, what was cut and how to get it. Nothing found is a
    result, not an error. Errors: a glob or type that ripgrep does not take, with its reason; a folder that is
    missing. Refused: a folder outside of this chat's files.
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.READ
    replay = Replay.SAFE

    def __init__(self, files: ChatFiles, *, limit_s: float = SEARCH_LIMIT_S) -> None:
        self._files = files
        self._limit_s = limit_s
        self.unavailable = missing_reason()

    @classmethod
    def create(cls, ctx: ToolContext) -> FindFilesTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.files)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "find_files"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Find files of this chat by name, in all folders below a folder. What .gitignore excludes and folders "
            "such as node_modules are left out. Files that all chats may read are found with path shared. To search "
            "what is in files, use grep."
        )

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(
        self,
        *,
        path: str = ".",
        query: str = "",
        glob: str = "",
        type: str = "",  # noqa: A002 - the parameter's name in the contract
        include_dirs: bool = False,
        sort: str = _SORTS[0],
        head_limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        **_: Any,
    ) -> ToolResult:
        """Find; failures and refusals are results."""
        if any("\0" in text for text in (glob, type)):
            return ToolResult.error("no file name contains a NUL character.")
        view = self._files.view(current_request())
        asked = _Asked(
            path=path,
            query=query,
            filters=Filters(glob=glob, type=type),
            has_folders=include_dirs,
            is_newest_first=sort == "modified",
            first=offset,
            limit=head_limit,
        )
        until_s = deadline(self._limit_s)
        return await in_own_thread(
            lambda halt: answered(path, lambda: _find(Search(view=view, halt=halt, until_s=until_s), asked)),
            name="find_files",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The call."""

    path: str
    query: str
    filters: Filters
    has_folders: bool
    is_newest_first: bool
    first: int
    limit: int


def _find(search: Search, asked: _Asked) -> ToolResult:
    view = search.view
    shown = view.resolve(asked.path).shown
    if shown == ".":
        view.make_dirs()  # a chat's folder exists from when somebody first looks
    if is_file(view, asked.path):
        return ToolResult.error(f"{one_line(shown)}: is not a folder. read_file reads it.")
    found = search.folder(asked.path, asked.filters)
    paths = [path for path, _ in found.files]
    below = "" if shown == "." else f"{shown}/"
    if asked.has_folders:
        paths = sorted({*paths, *_folders(paths, below)}, key=lambda path: path.split("/"))
    paths, is_loose = _matching(paths, asked.query, len(below))
    total = f"{number(len(paths), 'path' if asked.has_folders else 'file')}"
    if asked.is_newest_first:
        paths = _newest_first(search, paths)
    page = [path for path in paths[asked.first : asked.first + asked.limit] if _is_there(search, path)]
    lines = within([one_line(path, _MAX_NAME_CHARS) for path in page], MAX_CHARS)
    end = asked.first + (len(lines) if len(lines) < len(page) else asked.limit)
    if paths:
        said = [total, *page_remark("paths", asked.first, min(end, len(paths)), len(paths))]
    else:
        said = [f"{one_line(shown)}: no such file", "left out are .gitignore's and folders such as node_modules"]
        if shown == ".":
            said.append("other folders to look below: " + ", ".join(f"path {name}" for name in view.other_roots))
    if is_loose and paths:
        said.append("none contains the query; these have its letters in order")
    if not found.is_complete:
        said.append("not everything was looked at: name a folder, glob or type")
    if found.is_careful:
        said.append(CAREFUL_REMARK)
    if found.has_unread:
        said.append("some folders could not be read")
    return ToolResult("\n".join((*lines, f"({'; '.join(said)})")))


def _folders(paths: Iterable[str], below: str) -> set[str]:
    """Return the folders of the files, with a slash, as far as they lie below the folder that is searched."""
    folders: set[str] = set()
    for path in paths:
        end = path.rfind("/")
        while end >= len(below) and (folder := path[: end + 1]) not in folders:
            folders.add(folder)
            end = path.rfind("/", 0, end)
    return folders


def _matching(paths: list[str], query: str, skip: int) -> tuple[list[str], bool]:
    """Return the paths whose part from `skip` on has all words of the query, and whether only its letters count."""
    words = query.casefold().split()
    if not words:
        return paths, False

    def kept(test: Callable[[str], bool]) -> list[str]:
        return [path for path in paths if test(path[skip:].casefold())]

    if exact := kept(lambda path: all(word in path for word in words)):
        return exact, False
    return kept(lambda path: all(_in_order(word, path) for word in words)), True


def _in_order(word: str, path: str) -> bool:
    letters = iter(path)
    return all(letter in letters for letter in word)


def _newest_first(search: Search, paths: list[str]) -> list[str]:
    """Return the paths by time of change, newest first; equal ones by path. What cannot be seen comes last."""
    changed_ns: dict[str, int] = {}
    for folder, inside in groupby(paths, key=lambda path: path.rstrip("/").rpartition("/")[0]):
        names = list(inside)
        if search.halt.is_set:
            break
        try:
            with search.view.hold_folder(folder or ".") as (descriptor, _):
                changed_ns |= {path: _changed_ns(path, descriptor) for path in names}
        except (PathRefused, OSError):
            continue
    return sorted(paths, key=lambda path: -changed_ns.get(path, 0))


def _changed_ns(path: str, folder: int) -> int:
    try:
        return os.stat(path.rstrip("/").rpartition("/")[2], dir_fd=folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _is_there(search: Search, path: str) -> bool:
    if not path.endswith("/"):
        return search.can_open(path)
    try:
        with search.view.hold_folder(path):
            return True
    except (PathRefused, OSError):
        return False
