"""What one look at a session found, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.shell.run import exit_code_text


class SessionEnd(StrEnum):
    """Why a session is over."""

    EXITED = "exited"  # the program came to its end
    TERMINATED = "terminated"  # its chat asked for it, or the process ends
    IDLE = "idle"  # its chat did not use it any more
    TIME_LIMIT = "time limit"  # a command that went on in the background had used up its time
    PROCESSES = "processes"  # it had started more than are allowed


_WHY = {
    SessionEnd.EXITED: "has ended",
    SessionEnd.TERMINATED: "was terminated",
    SessionEnd.IDLE: "was ended because it had not been used for a long time",
    SessionEnd.TIME_LIMIT: "was ended because its time limit was over",
    SessionEnd.PROCESSES: "was ended because it had too many processes at a time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Text that was not read before, and how the program ended (None while it runs)."""

    text: str
    exit_code: int | None = None
    end: SessionEnd | None = None

    def state(self) -> str:
        """Return "is running" or how it ended, with the exit code."""
        return state_text(self.end, self.exit_code)


def state_text(end: SessionEnd | None, exit_code: int | None) -> str:
    """Return "is running" (no end), or how it ended, with the exit code."""
    return "is running" if end is None or exit_code is None else f"{_WHY[end]}: {exit_code_text(exit_code)}"
