"""A command from its start to its end or its time limit, and what the model is told of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from bot.shell.launch import Launch, LaunchRefused
from bot.shell.output import HeadTail
from bot.shell.process import Ending, Process
from bot.shell.shell import Shell
from bot.toolkit.base import ToolResult

DEFAULT_OUTPUT_CHARS = 10_000
MAX_OUTPUT_CHARS = 100_000

END_MARGIN_S = 15.5
"""What a call may need beyond its command's time limit: start, end of all descendants, last output."""

LAST_OUTPUT_S = 2.0
"""How long the end of the output may be waited for when the command has ended."""

_BYTES_A_CHAR = 8  # four at most, and room for what is taken out of it
_FREE_BYTES = 16 * 1024 * 1024
_PAUSE_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a command; `timed_out`: it was ended by its time limit, and `output` is what there was by then."""

    ending: Ending
    output: HeadTail
    timed_out: bool
    took_s: float
    limit_s: float
    max_processes: int

    @property
    def is_failure(self) -> bool:
        """Whether it was cut short. An exit code other than 0 is an answer: of grep, test and diff an ordinary one."""
        return self.timed_out or bool(self.ending.why)

    def text(self, limit_chars: int) -> str:
        """Return the output and a last line about the end, which always has the exit code."""
        body = self.output.text(limit_chars)
        return f"{body}{'' if body.endswith(chr(10)) or not body else chr(10)}[{'; '.join(self._remarks())}]"

    def _remarks(self) -> list[str]:
        remarks = []
        if self.timed_out:
            remarks.append(
                f"timed out: ended after its limit of {self.limit_s:g} s, with everything it had started"
                + ("; above is what it had written by then" if self.output.total_bytes else "")
            )
        elif self.ending.why == "processes":
            remarks.append(f"ended: more than {self.max_processes} processes at a time")
        elif self.ending.why:
            remarks.append("ended from outside")
        if not self.output.total_bytes:
            remarks.append("no output")
        remarks.append(exit_code_text(self.ending.code))
        if self.ending.left:
            remarks.append(f"{self.ending.left} of its processes could not be ended")
        return [*remarks, f"{self.took_s:.1f} s"]


def exit_code_text(code: int) -> str:
    """Return "exit code 1", with the signal's name where shells would mean one."""
    with suppress(ValueError):
        if code > 128:  # noqa: PLR2004 - POSIX, "Exit Status for Commands"
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"


async def run(shell: Shell, launch: Launch, *, limit_s: float, output_chars: int = DEFAULT_OUTPUT_CHARS) -> Outcome:
    """Run a command to its end or its time limit. When this is cancelled, the command ends.

    Raises:
        LaunchRefused, OSError: as `Shell.start`.
    """
    began_s = time.monotonic()
    process = await shell.start(launch)
    output = HeadTail(output_chars * _BYTES_A_CHAR)
    reader = asyncio.create_task(drain(process, output), name="command-output")
    timed_out = False
    try:
        try:
            async with asyncio.timeout(limit_s):
                ending = await process.wait()
        except TimeoutError:
            ending = await process.end()
            timed_out = ending.why == "asked"  # else it ended by itself in that very moment
        # With the last process the pipe is closed; only one that cannot be killed holds it longer.
        await asyncio.wait((reader,), timeout=LAST_OUTPUT_S)
    finally:
        process.let_go()
        reader.cancel()
        await process.wait()
    return Outcome(
        ending=ending,
        output=output,
        timed_out=timed_out,
        took_s=time.monotonic() - began_s,
        limit_s=limit_s,
        max_processes=launch.limits.processes,
    )


def not_started(error: LaunchRefused | OSError) -> ToolResult:
    """Return a tool's answer when a command was not started."""
    if isinstance(error, OSError):
        return ToolResult.error(f"The command cannot be started: {os.strerror(error.errno or 0)}.")
    return ToolResult.refused(str(error)) if error.is_wall else ToolResult.error(str(error))


async def drain(process: Process, output: HeadTail, on_output: Callable[[], None] | None = None) -> None:
    """Read on, so that the command can write on, but leave time for others when it writes without end."""
    while chunk := await process.read():
        output.write(chunk)
        if on_output is not None:
            on_output()
        if output.total_bytes > _FREE_BYTES:
            await asyncio.sleep(_PAUSE_S)
