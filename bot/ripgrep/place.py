"""Where a search runs: a folder held open below a top, with the rules and options that bound the walk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.ripgrep.child import Command
from bot.security.landlock import abi_version
from bot.security.workspace import Location, WorkspaceView
from bot.toolkit.ignore_rules import NOISE, IgnoreRules, rules_above, workspace_depth

QUIET = ("--no-config", "--color=never", "--no-messages", "--no-ignore-messages", "--no-mmap", "--crlf")
# Only .gitignore counts, from the folder downwards and without a repository; what is above comes by rules of ours.
_WALK = (
    "--null", "--hidden", "--no-follow", "--no-require-git", "--no-ignore-parent", "--no-ignore-dot",
    "--no-ignore-exclude", "--no-ignore-global",
)  # fmt: skip
# With one thread, its choice where there is one processor, ripgrep puts other bytes between files (14.1, --crlf).
_THREADS = f"--threads={min(max(len(os.sched_getaffinity(0)), 2), 12)}"  # 12: the most that it takes by itself
_CAREFUL = ("--no-ignore-vcs", "--max-filesize=100M")
_SPECIAL = re.compile(r"([*?\[\]{}\\!# ])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which files are looked at. A glob with a slash counts from the folder that is searched."""

    glob: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder held open, and the top of the workspace it lies in, where the program runs."""

    top: int
    start: int
    prefix: str  # the top as the chat writes it, with a slash; "" for its own folder
    below: str  # the folder from the top, "" for the top itself
    options: tuple[str, ...]
    rules: tuple[int, ...]
    is_guarded: bool

    def command(self, filters: Filters, what: Sequence[str], *, is_careful: bool = False) -> Command:
        """Return a run of ripgrep over the folder; a careful one reads no .gitignore below it and no huge file."""
        careful = _CAREFUL if is_careful else ()
        options = (*QUIET, _THREADS, *_WALK, *careful, *_filters(filters, self.below), *self.options, *what)
        return Command(
            arguments=(*options, "--", f"./{self.below}"),
            folders=(self.start,),
            others=self.rules,
            start_in=self.top,
            ends_when_stuck=not is_careful,
        )

    def shown(self, path: str) -> str:
        """Return a printed path as the chat writes it."""
        return self.prefix + path[2:]  # after the "./" of the argument

    def printed(self, shown: str) -> str:
        """Return a path of the chat as ripgrep prints it."""
        return f"./{shown[len(self.prefix) :]}"


@contextmanager
def opened(view: WorkspaceView, path: str) -> Iterator[Place]:
    """Hold a folder of the chat open. Raises `PathMissing` or `PathRefused`."""
    with ExitStack() as held:
        start, where = held.enter_context(view.hold_folder(path))
        shown = where.shown
        parts = [] if shown == "." else shown.split("/")
        depth = workspace_depth(view, shown)
        prefix = "".join(f"{part}/" for part in parts[:depth])
        top, _ = held.enter_context(view.hold_folder(prefix or "."))
        options = [f"--glob=!**/{name}/" for name in sorted(NOISE)]
        # Else what is said of a binary file could be a part of a path. In brackets: a plain last dot matches nothing.
        options.append("--glob=!**/*\n[.]/")
        if not parts:
            # What really lies under these names is hidden by the folders that the chat sees there.
            options += [f"--glob=!/{name}" for name in view.other_roots]
        options += _without_workspace(view, where, top)
        rules: tuple[int, ...] = ()
        if lines := _ignore_file(rules_above(view, shown), prefix):
            rules = (os.memfd_create("ignore rules", os.MFD_CLOEXEC),)
            held.callback(os.close, rules[0])
            os.write(rules[0], lines)
            options.append(f"--ignore-file=/proc/self/fd/{rules[0]}")
        yield Place(
            top=top,
            start=start,
            prefix=prefix,
            below="/".join(parts[depth:]),
            options=tuple(options),
            rules=rules,
            is_guarded=is_guarded(shown) and "\n./" not in f"{shown}/",
        )


def is_guarded(shown: str) -> bool:
    """Whether the kernel keeps a search there from whatever the view does not show.

    Landlock takes nothing out of what it grants: the workspace may lie within a further root, which goes by its
    absolute path.
    """
    return bool(abi_version()) and not shown.startswith("/")


def _without_workspace(view: WorkspaceView, where: Location, top: int) -> list[str]:
    """Return what keeps ripgrep from walking into the workspace from a further root that contains it."""
    if not where.root.name.startswith("/"):
        return []
    inside = Path(os.path.realpath(view.workspace))
    around = Path(f"/proc/self/fd/{top}").readlink()
    return [f"--glob=!/{_plain(str(inside.relative_to(around)))}"] if inside.is_relative_to(around) else []


def _filters(filters: Filters, below: str) -> list[str]:
    chosen = []
    if filters.glob:
        glob = filters.glob.removeprefix("!")
        mark = "!" if glob != filters.glob else ""
        if "/" in glob.rstrip("/") and not glob.startswith("**/"):
            glob = f"/{_plain(below)}/{glob.lstrip('/').removeprefix('./')}".replace("//", "/")
        chosen.append(f"--glob={mark}{glob}")
    if filters.type:
        chosen.append(f"--type={filters.type}")
    return chosen


def _ignore_file(rules: Sequence[IgnoreRules], prefix: str) -> bytes:
    """Return rules of several folders as one file that counts from the workspace's top.

    https://git-scm.com/docs/gitignore (read 2026-11-30): a slash at the beginning or in the middle binds a
    pattern to its folder, any other holds at every depth below it.
    """
    lines: list[str] = []
    for rule in rules:
        folder = rule.folder.removeprefix(prefix)
        if not folder:
            lines += rule.lines
        elif "\n" not in folder:
            lines += [_bound(line, folder) for line in rule.lines if not line.startswith("#")]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _bound(line: str, folder: str) -> str:
    pattern = line.removeprefix("!")
    mark = "!" if pattern != line else ""
    is_bound = "/" in pattern.rstrip("/")
    return f"{mark}/{_plain(folder)}{'' if is_bound else '**/'}{pattern.lstrip('/')}"


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
