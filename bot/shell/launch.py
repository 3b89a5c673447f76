"""What is about to be started, as values: the command with its environment and limits, and why it may not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from bot.errors import DutifulError

_MIB = 1024 * 1024


class LaunchRefused(DutifulError):
    """The command will not be started. The text is for the model; `is_wall`: a rule said no, not a mistake."""

    def __init__(self, text: str, *, is_wall: bool = True) -> None:
        super().__init__(text)
        self.is_wall = is_wall


MAX_ARGUMENT_BYTES = 120_000
"""One argument of a program may have 128 KiB: MAX_ARG_STRLEN, execve(2)."""

MAX_ALL_BYTES = 1_000_000
"""All of them together have a quarter of the stack's limit, 2 MiB as a rule: execve(2)."""


def check_arguments(argv: Sequence[str]) -> None:
    """Check that a program can be given these arguments.

    Raises:
        LaunchRefused: one contains NUL, is no text or too long; or all together are.
    """
    total_bytes = 0
    for text in argv:
        if "\x00" in text:
            raise LaunchRefused("The command contains a NUL character, which no program can be given.", is_wall=False)
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            raise LaunchRefused(
                "The command contains half of a surrogate pair, which is no text.", is_wall=False
            ) from None
        total_bytes += size_bytes
        if size_bytes > MAX_ARGUMENT_BYTES or total_bytes > MAX_ALL_BYTES:
            raise LaunchRefused(
                f"The command is too long: a single argument may have {MAX_ARGUMENT_BYTES:,} bytes and all together "
                f"{MAX_ALL_BYTES:,}. Put long text into a file first.",
                is_wall=False,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What one command may use. Per process, except `processes`, which counts threads too and all descendants.

    `nice` and the warden's choice of who is killed first when memory runs out keep the bot itself alive.
    """

    processes: int = 256
    data_bytes: int = 4096 * _MIB  # private writable memory (RLIMIT_DATA): runtimes reserve far more than they use
    file_bytes: int = 4096 * _MIB
    open_files: int = 4096
    nice: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command that may be started; `terminal_argv` is the same for a terminal."""

    argv: tuple[str, ...]
    terminal_argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    sandboxed: bool
    data: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    limits: ProcessLimits = field(default_factory=ProcessLimits)

    def order(self, *, terminal: bool) -> dict[str, Any]:
        """Return what the warden is told, as JSON values."""
        return {
            "argv": list(self.terminal_argv if terminal else self.argv),
            "env": dict(self.env),
            "cwd": self.cwd,
            # In a sandbox the terminal is taken inside: bubblewrap itself must not get its signals.
            "terminal": terminal and not self.sandboxed,
            "own_keyring": self.sandboxed,
            "data": {str(fd): text for fd, text in self.data.items()},
            "processes": self.limits.processes,
            "data_bytes": self.limits.data_bytes,
            "file_bytes": self.limits.file_bytes,
            "open_files": self.limits.open_files,
            "nice": self.limits.nice,
        }
