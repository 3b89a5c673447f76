"""What the search tools answer alike: failures and refusals in words, pages of a long result."""

from __future__ import annotations

import os
from collections.abc import Callable

from bot.ripgrep.program import RipgrepMissing
from bot.ripgrep.search import SearchFailed
from bot.security.landlock import LandlockError
from bot.security.workspace import PathMissing, PathRefused, WorkspaceView
from bot.toolkit.base import ToolResult
from bot.toolkit.chat_files import one_line, problem

CAREFUL_REMARK = "some file was too much for it, so files over 100 MiB are left out and .gitignore files do not count"

_REASON_CHARS = 300


def answered(path: str, search: Callable[[], ToolResult]) -> ToolResult:
    """Return the answer of a search in `path`, whatever it ends with."""
    try:
        return search()
    except PathMissing as error:
        return ToolResult.error(f"{error}. list_dir shows what is there.")
    except PathRefused as error:
        return problem(error)
    except SearchFailed as error:
        return ToolResult.error(one_line(str(error), _REASON_CHARS))
    except (RipgrepMissing, LandlockError) as error:
        return ToolResult.error(f"nothing can be searched: {error}")
    except OSError as error:
        return ToolResult.error(f"{one_line(path)}: cannot be searched: {os.strerror(error.errno or 0)}")


def is_file(view: WorkspaceView, path: str) -> bool:
    """Whether a path leads to an ordinary file that the chat may open."""
    try:
        view.open_read(path).close()
    except PathRefused:
        return False
    return True


def page_remark(what: str, first: int, end: int, total: int) -> list[str]:
    """Return which part of the results is shown and how to go on; nothing when it is all of them."""
    if first >= total:
        return [f"offset {first:,} is past the last of {total:,} {what}"]
    if first == 0 and end >= total:
        return []
    said = [f"{what} {first + 1:,}-{end:,} are shown"]
    return said if end >= total else [*said, f"go on with offset={end}"]


def within(lines: list[str], limit_chars: int) -> list[str]:
    """Return the first lines that together have no more characters than the limit, at least one."""
    chars = 0
    for index, line in enumerate(lines):
        chars += len(line) + 1
        if chars > limit_chars and index:
            return lines[:index]
    return lines


def number(count: int, noun: str) -> str:
    """Return "1 file", "2,000 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
