"""The `list_dir` tool: what is in a folder of the chat, or in the whole tree below it.

Links are named, never followed. Which folders a chat may open is decided in `bot/security/workspace.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from bot.messages import Replay, Risk
from bot.security.workspace import Entry, EntryKind, PathMissing, PathRefused, WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import ChatFiles, one_line, problem, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.ignore_rules import NOISE, RULES_FILE, IgnoreRules, is_ignored, rules_above, rules_of
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema

DEFAULT_ENTRIES = 200
MAX_ENTRIES = 2_000

# A listing works in a thread that no call's time limit can end: these end it.
_TIME_LIMIT_S = 10.0
_MAX_EXAMINED = 50_000
_MAX_IN_FOLDER = 5_000

_HIDDEN_NAMED = 10
_CHATS = "chats"  # stands for the other chats' folders at the top of an owner's


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema("Folder, relative to this chat's folder (default '.').", min_length=1),
        recursive=BooleanSchema(description="Also list what is in the folders below (default false)."),
        max_entries=IntegerSchema(
            description=f"How many entries to list at most (default {DEFAULT_ENTRIES}).",
            minimum=1,
            maximum=MAX_ENTRIES,
        ),
        additional_properties=False,
    )
)
class ListDirTool(Tool):
    """Lists one folder of the chat.

    Parameters: path (default "."), recursive, max_entries (1 to 2,000; default 200). What .gitignore excludes and
    folders such as node_modules are left out, unless they are named by path. Limits: 10 seconds, links are not
    followed. Result: folders first, then files with their sizes; the total when not all are shown. Errors: a folder
    that is missing, a file. Refused: a folder outside of this chat's files.
    """

    _scopes = frozenset({"core", "subagent", "memory"})
    risk = Risk.READ
    replay = Replay.SAFE

    def __init__(self, files: ChatFiles, *, time_limit_s: float = _TIME_LIMIT_S) -> None:
        self._files = files
        self._time_limit_s = time_limit_s

    @classmethod
    def create(cls, ctx: ToolContext) -> ListDirTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.files)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "list_dir"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "List a folder of this chat, folders first, with the sizes of files. What .gitignore excludes is left "
            "out and counted; in a recursive listing folders such as node_modules are named but not opened. Files "
            "that all chats may read are under shared/."
        )

    @property
    def read_only(self) -> bool:
        """See `Tool.read_only`."""
        return True

    async def execute(
        self, *, path: str = ".", recursive: bool = False, max_entries: int = DEFAULT_ENTRIES, **_: Any
    ) -> ToolResult:
        """List the folder; failures and refusals are results."""
        view = self._files.view(current_request())
        listing = _Listing(
            view=view, max_entries=max_entries, until_s=time.monotonic() + self._time_limit_s, is_deep=recursive
        )
        return await asyncio.to_thread(_list, listing, path)


def _list(listing: _Listing, path: str) -> ToolResult:
    view = listing.view
    try:
        place = view.resolve(path)
        if place.shown == ".":
            view.make_dirs()  # a chat's folder exists from when somebody first looks
        listing.run(place.shown)
    except PathMissing as error:
        return ToolResult.error(f"{error}.")
    except PathRefused as error:
        if _is_file(view, path):
            return ToolResult.error(f"{error}. read_file reads it.")
        return problem(error)
    except OSError as error:
        return ToolResult.error(f"{one_line(path)}: cannot be listed: {os.strerror(error.errno or 0)}")
    return ToolResult("\n".join((*listing.lines, f"({'; '.join(listing.remarks(one_line(place.shown)))})")))


def _is_file(view: WorkspaceView, path: str) -> bool:
    try:
        view.open_read(path).close()
    except (PathRefused, OSError):
        return False
    return True


@dataclass(slots=True, kw_only=True)
class _Listing:
    """One listing on its way: breadth first, so that a cut leaves the overview."""

    view: WorkspaceView
    max_entries: int
    is_deep: bool
    until_s: float
    lines: list[str] = field(default_factory=list)
    total: int = 0
    hidden: int = 0
    hidden_names: list[str] = field(default_factory=list)
    unopened: int = 0
    examined: int = 0
    is_complete: bool = True

    def run(self, shown: str) -> None:
        prefix = "" if shown == "." else f"{shown}/"
        waiting = deque([("", rules_above(self.view, shown))])
        while waiting:
            below, rules = waiting.popleft()
            folder = f"{prefix}{below}"
            try:
                entries = self._entries(folder or ".")
            except PathRefused:
                if not below:
                    raise
                self.unopened += 1  # removed, replaced or closed to us meanwhile
                continue
            if any(entry.name == RULES_FILE for entry in entries):
                rules = (*rules, *rules_of(self.view, folder))
            for entry in entries:
                if time.monotonic() > self.until_s:
                    self.is_complete = False
                    return
                opened = self._take(folder, below, entry, rules)
                if opened is not None:
                    waiting.append((f"{below}{entry.name}/", opened))

    def _take(
        self, folder: str, below: str, entry: Entry, rules: tuple[IgnoreRules, ...]
    ) -> tuple[IgnoreRules, ...] | None:
        """Show or count one entry; return the rules to open it with, None if it is not to be opened."""
        is_folder = entry.kind is EntryKind.FOLDER
        is_other_root = not folder and entry.name in self.view.other_roots
        if is_other_root:
            rules = ()  # the chat's own rules do not reach into what it shares
        if is_ignored(rules, f"{folder}{entry.name}{'/' if is_folder else ''}"):
            self._hide(f"{below}{entry.name}")
            return None
        # The other chats are no part of this one's tree: an owner opens them by name.
        is_closed = entry.name in NOISE or (is_other_root and entry.name == _CHATS)
        self._show(f"{below}{entry.name}", entry, is_named_only=self.is_deep and is_closed)
        return rules if is_folder and self.is_deep and not is_closed else None

    def _entries(self, folder: str) -> list[Entry]:
        """Return a folder's entries, folders first, as far as the listing may still look."""
        limit = min(_MAX_IN_FOLDER, _MAX_EXAMINED - self.examined)
        if limit <= 0:
            self.is_complete = False
            return []
        entries, count = self.view.scandir(folder, limit=limit)
        self.examined += len(entries) + 1
        self.is_complete = self.is_complete and count <= limit
        return sorted(entries, key=lambda entry: (entry.kind is not EntryKind.FOLDER, entry.name))

    def _hide(self, name: str) -> None:
        self.hidden += 1
        if len(self.hidden_names) < _HIDDEN_NAMED:
            self.hidden_names.append(one_line(name))

    def _show(self, name: str, entry: Entry, *, is_named_only: bool) -> None:
        self.total += 1
        if len(self.lines) >= self.max_entries:
            return
        line = one_line(name, 1_000)
        if entry.kind is EntryKind.FOLDER:
            line += "/ (not opened)" if is_named_only else "/"
        elif entry.kind is EntryKind.FILE:
            line += f" ({size_text(entry.size_bytes)})"
        else:
            line += " (link)" if entry.kind is EntryKind.LINK else " (special file)"
        self.lines.append(line)

    def remarks(self, shown: str) -> list[str]:
        """Return what the lines do not say: how many there are, what is missing, how to get it."""
        count = f"{'' if self.is_complete else 'at least '}{self.total:,} {'entry' if self.total == 1 else 'entries'}"
        if not self.total:
            said = [f"{shown}: nothing to list" if self.hidden or not self.is_complete else f"{shown}: is empty"]
        elif self.total > len(self.lines):
            said = [f"the first {len(self.lines):,} of {count}; list a folder below, or raise max_entries"]
        else:
            said = [count]
        if not self.is_complete:
            said.append("too many to look at all; list folders below one by one")
        if self.hidden:
            names = ", ".join(self.hidden_names) + (", …" if self.hidden > len(self.hidden_names) else "")
            said.append(f"{self.hidden:,} left out by .gitignore: {names}; list_dir of such a folder opens it")
        if self.unopened:
            said.append(f"{self.unopened:,} folders could not be opened")
        return said
