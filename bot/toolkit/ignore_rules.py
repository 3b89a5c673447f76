"""What .gitignore files leave out of a chat's files, and the folders nobody wants to see into.

The rules count from the top of the workspace that a folder lies in: a chat's own do not reach into shared ones.
Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.security.workspace import PathRefused, WorkspaceView

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

RULES_FILE = ".gitignore"

NOISE = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", "bower_components", "__pycache__", ".venv", "venv", ".tox", ".nox",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache", ".gradle", ".terraform", ".next", ".nuxt",
    }
)  # fmt: skip
"""Folders that are named but not opened, unless a call names one itself."""

_CHATS = "chats"
_MAX_RULES_BYTES = 64 * 1024
_MAX_RULES = 1_000
_MAX_RULE_CHARS = 256
_MAX_WILDCARDS = 4_000
"""In all rules of one file: with more RE2 gives up, after a while, and trying rules one by one takes seconds."""
_ODD_SET = re.compile(r"\[[^\n]*(?:\[|--|&&|~~|\|\|)")


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRules:
    """One .gitignore and the folder it stands in, as the chat would write it with a slash ("" at the top)."""

    folder: str
    lines: tuple[str, ...]
    spec: GitIgnoreSpec


def workspace_depth(view: WorkspaceView, shown: str) -> int:
    """Return how many leading parts of a folder's path name its workspace, such as 0 of "a/b", 1 of "shared/a".

    Each chat below chats/ is one of its own, and so is each further root.
    """
    if shown == ".":
        return 0
    parts = shown.split("/")
    depth = len(parts) - len(view.resolve(shown).parts)
    return min(len(parts), depth + (parts[0] == _CHATS and view.all_chats))


def rules_above(view: WorkspaceView, shown: str) -> tuple[IgnoreRules, ...]:
    """Return the rules from the top of the folder's workspace to above it.

    None when they exclude the folder itself: whoever names it wants to see what is in it.
    """
    if shown == ".":
        return ()
    parts = shown.split("/")
    rules: tuple[IgnoreRules, ...] = ()
    for depth in range(workspace_depth(view, shown), len(parts)):
        rules += rules_of(view, "".join(f"{part}/" for part in parts[:depth]))
        if is_ignored(rules, "".join(f"{part}/" for part in parts[: depth + 1])):
            return ()
    return rules


def rules_of(view: WorkspaceView, folder: str) -> tuple[IgnoreRules, ...]:
    """Return the rules of a folder's own .gitignore: none if it is missing, unreadable or not UTF-8."""
    try:
        with view.open_read(f"{folder}{RULES_FILE}") as file:
            lines = file.read(_MAX_RULES_BYTES).decode("utf-8-sig").split("\n")
    except (PathRefused, OSError, UnicodeDecodeError):
        return ()
    lines = [line for line in map(str.rstrip, lines) if line and len(line) <= _MAX_RULE_CHARS][:_MAX_RULES]
    wildcards = itertools.accumulate(line.count("*") + line.count("?") for line in lines)
    lines = [line for line, count in zip(lines, wildcards, strict=True) if count <= _MAX_WILDCARDS]
    # git passes over a line that is no pattern; pathspec refuses all of them for one.
    spec = _spec(lines) or _spec([line for line in lines if _spec([line])])
    return (IgnoreRules(folder=folder, lines=tuple(lines), spec=spec),) if spec else ()


def _spec(lines: list[str]) -> GitIgnoreSpec | None:
    """Return the compiled rules, or None when there are none or they cannot be compiled.

    By RE2, which needs linear time: with `re` a pattern of four stars holds the interpreter for a second a name.
    """
    import re2
    from pathspec import GitIgnoreSpec

    try:
        # pathspec passes brackets on to `re`, which warns of those that may mean something else one day.
        spec = GitIgnoreSpec.from_lines((line for line in lines if not _ODD_SET.search(line)), backend="re2")
    except (ValueError, re.error, re2.error):
        return None
    return spec if any(pattern.include is not None for pattern in spec.patterns) else None


def is_ignored(rules: tuple[IgnoreRules, ...], path: str) -> bool:
    """Whether the rules exclude a path (with a slash at the end: a folder); the nearest word counts."""
    for rule in reversed(rules):
        inside = path[len(rule.folder) :].encode("utf-8", "replace").decode()  # names may be any bytes
        verdict = rule.spec.check_file(inside).include
        if verdict is not None:
            return verdict
    return False
