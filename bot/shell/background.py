"""A command that may go on in the background: to its end, or until the caller wants to go on.

It is a session from the beginning, so that there is never one more than may be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bot.shell.launch import Launch
from bot.shell.programs import PipedProgram
from bot.shell.reading import SessionEnd
from bot.shell.run import Outcome
from bot.shell.sessions import ExecSession, ExecSessions
from bot.shell.shell import Shell
from bot.toolkit.base import ToolResult


class Background:
    """Runs commands as sessions of one owner; `title` is what the session is told by."""

    def __init__(self, shell: Shell, sessions: ExecSessions, *, owner: str, title: str) -> None:
        self._shell = shell
        self._sessions = sessions
        self._owner = owner
        self._title = title

    async def run(self, launch: Launch, *, limit_s: float, yield_s: float, output_chars: int) -> ToolResult:
        """Run it for `yield_s`: the result is that of its end, or names the session that it goes on as.

        In the background it still ends after `limit_s`. When this is cancelled, the command ends.

        Raises:
            LaunchRefused, OSError, TooManySessionsError: it was not started.
        """
        began_s = time.monotonic()
        program: PipedProgram

        async def begin(on_output: Callable[[], None]) -> PipedProgram:
            nonlocal program
            program = await PipedProgram.start(self._shell, launch, on_output)
            return program

        session = await self._sessions.start(self._owner, self._title, begin, limit_s=limit_s)
        try:
            has_ended = await session.ends(yield_s)
        except BaseException:
            await self._sessions.terminate(session)
            self._sessions.forget(session)
            raise
        if not has_ended:
            return ToolResult(await _goes_on(session, yield_s, limit_s, output_chars))
        self._sessions.forget(session)
        outcome = Outcome(
            ending=await program.wait(),
            output=program.output,
            timed_out=session.end is SessionEnd.TIME_LIMIT,
            took_s=time.monotonic() - began_s,
            limit_s=limit_s,
            max_processes=launch.limits.processes,
        )
        text = await asyncio.to_thread(outcome.text, output_chars)
        return ToolResult(text, is_error=outcome.is_failure)


async def _goes_on(session: ExecSession, yield_s: float, limit_s: float, output_chars: int) -> str:
    text = (await session.read(output_chars)).text
    body = f"{text.removesuffix(chr(10))}\n" if text else ""
    return (
        f"{body}[still running after {yield_s:g} s: goes on in the background as session {session.id}, until its time "
        f"limit of {limit_s:g} s; exec_session polls or terminates it{'' if text else '; no output so far'}]"
    )
