"""What one look at a session found, and how it is told."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum

MAX_OUTPUT_CHARS = 10_000
"""Output in one answer, unless the call says otherwise: half from the beginning, half from the end."""


class SessionEnd(StrEnum):
    """Why a session is over."""

    EXITED = "exited"  # the program came to its end
    TERMINATED = "terminated"  # its chat asked for it, or the process ends
    IDLE = "idle"  # its chat did not use it any more
    TIME_LIMIT = "time limit"  # a command that went on in the background had used up its time


_SIGNALS = 128  # added to a signal's number for the exit code, as shells do

_WHY = {
    SessionEnd.EXITED: "has ended",
    SessionEnd.TERMINATED: "was terminated",
    SessionEnd.IDLE: "was ended because it had not been used for a long time",
    SessionEnd.TIME_LIMIT: "was ended because its time limit was over",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Text that was not read before, and whether the program runs.

    With `cut_bytes` more than `text` was written: so many bytes are lost between it and `tail`. `exit_code`
    (128 + number for a signal) and `end` are None while the program runs.
    """

    text: str
    cut_bytes: int = 0
    tail: str = ""
    exit_code: int | None = None
    end: SessionEnd | None = None

    def state(self) -> str:
        """Return "is running" or how it ended, with the exit code."""
        return state_text(self.end, self.exit_code)

    def output(self, limit_chars: int = MAX_OUTPUT_CHARS) -> str:
        """Return the text, its middle left out if it is longer than `limit_chars`, and said to be."""
        text, tail = self.text, self.tail
        if not self.cut_bytes:
            excess = len(text) - limit_chars
            if excess <= 0:
                return text
            text, tail = text[: limit_chars // 2], text[len(text) - (limit_chars - limit_chars // 2) :]
            cut = f"{excess:,} characters"
        else:
            head, last = text[: limit_chars // 2], tail[max(0, len(tail) - (limit_chars - limit_chars // 2)) :]
            dropped = len(text) - len(head) + len(tail) - len(last)
            text, tail, cut = head, last, f"about {self.cut_bytes + dropped:,} bytes"
        return f"{text}\n[... {cut} left out; send long output to a file and read that in parts ...]\n{tail}"


def state_text(end: SessionEnd | None, exit_code: int | None) -> str:
    """Return "is running" (no end), or how it ended, with the exit code."""
    return "is running" if end is None or exit_code is None else f"{_WHY[end]}: {exit_text(exit_code)}"


def exit_text(code: int) -> str:
    """Return "exit code 3", with the signal's name where a shell would mean one: "exit code 130 (SIGINT)"."""
    try:
        return f"exit code {code} ({signal.Signals(code - _SIGNALS).name})"
    except ValueError:
        return f"exit code {code}"
