"""Programs that go on between the calls of a chat, and which chat each belongs to.

A session's owner is the lane that began it; to any other lane it does not exist. How a program is launched and
ended is the launcher's part, what its terminal does `terminal.py`'s, words for the model are the tools'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from bot.clock import Clock
from bot.errors import DutifulError
from bot.messages import new_id
from bot.shell.output import HeadTail
from bot.shell.process import Ending
from bot.shell.reading import Reading, SessionEnd, state_text
from bot.shell.run import DEFAULT_OUTPUT_CHARS
from bot.shell.terminal import TerminalSize

MAX_LIVE = 8
"""Sessions that run at the same time, of all chats together (design 7)."""

MAX_ENDED = 16
"""Ended sessions whose last output is kept until it is read; the oldest goes first."""

IDLE_S = 30 * 60.0
"""A session that its chat has not used for so long is ended (design 7)."""

QUIET_S = 0.15
"""A program that has written something and then nothing for so long has had its say for now."""

TITLE_CHARS = 60
"""Of a command, in the name by which a session is told."""

_SWEEP_S = 30.0
_ALL_CHARS = 1_000_000_000
_SEARCH_PAUSE_S = 0.05  # between two looks for a text in output that keeps coming

_log = structlog.get_logger("bot.shell")


class SessionError(DutifulError):
    """A session cannot be had or used like this; the text is for the model, without a full stop."""


class NoSessionError(SessionError):
    """There is no such session in this chat."""


class TooManySessionsError(SessionError):
    """No further session can be live now; the text says why and what to do."""


class SessionInputError(SessionError):
    """The program cannot be sent anything: it has ended, does not read, or has no terminal."""


class Program(Protocol):
    """A launched program with everything it started."""

    @property
    def output(self) -> HeadTail:
        """Its output that nobody has read."""

    def send(self, data: bytes) -> None:
        """Send input.

        Raises:
            SessionInputError: it takes none.
        """

    def resize(self, size: TerminalSize) -> None:
        """Change the size of its terminal.

        Raises:
            SessionInputError: it has none.
        """

    async def wait(self) -> Ending:
        """Wait until it has ended with everything it started; its output is complete then."""

    async def end(self) -> None:
        """End it and all its descendants; idempotent."""


Launch = Callable[[Callable[[], None]], Awaitable[Program]]
"""Starts a program that calls what it is given whenever there is new output."""


class ExecSession:
    """One program of one chat. Made by `ExecSessions`."""

    def __init__(self, *, session_id: str, owner: str, title: str, size: TerminalSize, clock: Clock) -> None:
        self.id = session_id
        self.owner = owner
        self.title = title
        self.size = size
        self.started_us = clock.now_us()
        self.used_s = clock.monotonic_s()
        self.exit_code: int | None = None
        self.end: SessionEnd | None = None
        self.cause: SessionEnd | None = None
        self._clock = clock
        self._program: Program | None = None
        self._bell = asyncio.Event()

    @property
    def live(self) -> bool:
        """Whether the program runs, or is about to."""
        return self.end is None

    @property
    def has_news(self) -> bool:
        """Whether there is something to read."""
        return self._program is not None and self._program.output.total_bytes > 0

    def state(self) -> str:
        """Return "is running" or how it ended, with the exit code."""
        return state_text(self.end, self.exit_code)

    def touch(self) -> None:
        """Note that its chat uses it."""
        self.used_s = self._clock.monotonic_s()

    def ring(self) -> None:
        """Wake up whoever waits for this session."""
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()

    def begin(self, program: Program) -> None:
        """Take over a launched program."""
        self._program = program

    def finish(self, ending: Ending) -> None:
        """Note that the program has ended: for the reason that it was made to, or by itself."""
        by_itself = SessionEnd.PROCESSES if ending.why == "processes" else SessionEnd.EXITED
        self.exit_code = ending.code
        self.end = self.cause if self.cause and ending.why == "asked" else by_itself
        self.touch()  # its last output is kept for as long as a session may be idle
        self.ring()

    def send(self, data: bytes) -> None:
        """Send input to the program.

        Raises:
            SessionInputError: it has ended, does not read what was sent before, or has no terminal.
        """
        if self._program is None or not self.live:
            raise SessionInputError("it has ended")
        self._program.send(data)

    def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size.

        Raises:
            SessionInputError: the program has ended or has no terminal.
        """
        if self._program is None or not self.live:
            raise SessionInputError("it has ended")
        self._program.resize(size)
        self.size = size

    async def read(self, limit_chars: int = DEFAULT_OUTPUT_CHARS) -> Reading:
        """Return what is new, its middle left out beyond `limit_chars`; it will not be returned again.

        When this is cancelled, nothing was read.
        """
        if self._program is None:
            return Reading(text="", exit_code=self.exit_code, end=self.end)
        output, exit_code, end = self._program.output, self.exit_code, self.end
        part = output.copy()
        if end is None:  # else nothing is kept back for a rest that will never come
            part.hold_back()
        text = await asyncio.to_thread(part.text, limit_chars)
        output.forget(part.total_bytes)
        return Reading(text=text, exit_code=exit_code, end=end)

    async def settle(self, limit_s: float, *, quiet_s: float = QUIET_S) -> None:
        """Wait until there is new output and no more for `quiet_s`, or the program has ended; at most `limit_s`."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while self.live:
            patience_s = until_s - loop.time()
            if self.has_news:
                patience_s = min(patience_s, quiet_s)
            if not await self._rings(patience_s):
                return

    async def ends(self, limit_s: float) -> bool:
        """Wait until the program has ended, at most `limit_s`; returns whether it has."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while self.live and await self._rings(until_s - loop.time()):
            pass
        return not self.live

    async def wait_for(self, found: Callable[[str], bool], limit_s: float) -> bool:
        """Wait until the unread output satisfies `found`, the program has ended, or `limit_s` are over.

        Returns whether it was found. Nothing is read by this. `found` is called in a thread.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while True:
            # What came while the look before was going on still counts, but a program may write without end.
            is_last = loop.time() >= until_s
            bell, live = self._bell, self.live
            if self._program is not None and await asyncio.to_thread(_look, self._program.output.copy(), found):
                return True
            if not live or is_last or (not bell.is_set() and not await self._rings(until_s - loop.time(), bell)):
                return False
            await asyncio.sleep(_SEARCH_PAUSE_S)

    async def _rings(self, limit_s: float, bell: asyncio.Event | None = None) -> bool:
        if limit_s <= 0:
            return False
        try:
            async with asyncio.timeout(limit_s):
                await (bell or self._bell).wait()
        except TimeoutError:
            return False
        return True


def _look(output: HeadTail, found: Callable[[str], bool]) -> bool:
    return found(output.text(_ALL_CHARS))


class ExecSessions:
    """All sessions of the process, live and ended."""

    def __init__(
        self, clock: Clock, *, max_live: int = MAX_LIVE, idle_s: float = IDLE_S, sweep_s: float = _SWEEP_S
    ) -> None:
        self._clock = clock
        self._max_live = max_live
        self._idle_s = idle_s
        self._sweep_s = sweep_s
        self._sessions: dict[str, ExecSession] = {}
        self._programs: dict[str, Program] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._closed = False

    async def start(
        self, owner: str, title: str, launch: Launch, *, size: TerminalSize | None = None, limit_s: float | None = None
    ) -> ExecSession:
        """Launch a program as a session of `owner`; with `limit_s` it is ended after that time.

        `size` is that of its terminal, if it has one.

        Raises:
            TooManySessionsError: as many as may be are live, or the process is about to end.
            Exception: whatever `launch` raises; there is no session then.
        """
        await self.end_idle()
        self._check_room(owner)
        session = ExecSession(
            session_id=self._new_id(), owner=owner, title=title, size=size or TerminalSize(), clock=self._clock
        )
        self._sessions[session.id] = session  # counts from now on, however long the launch takes
        try:
            program = await launch(session.ring)
        except BaseException:
            del self._sessions[session.id]
            raise
        self._adopt(session, program, limit_s)
        if self._closed:  # it came while everything was ended
            await self._end(session, SessionEnd.TERMINATED)
            raise TooManySessionsError("the assistant is shutting down")
        return session

    def _adopt(self, session: ExecSession, program: Program, limit_s: float | None) -> None:
        session.begin(program)
        self._programs[session.id] = program
        watch = self._watch(session, program, limit_s)
        self._watches[session.id] = asyncio.create_task(watch, name=f"session {session.id}")
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep(), name="idle sessions")

    def get(self, owner: str, session_id: str) -> ExecSession:
        """Return the owner's session.

        Raises:
            NoSessionError: the owner has none of this id.
        """
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise NoSessionError(
                f"this chat has no session {session_id[:20]!r}: it never had, or its end was told already"
            )
        return session

    def of(self, owner: str) -> list[ExecSession]:
        """Return the owner's sessions, oldest first."""
        return [session for session in self._sessions.values() if session.owner == owner]

    def forget(self, session: ExecSession) -> None:
        """Drop a session that has ended and whose end was told; without effect on a live one."""
        if not session.live:
            self._sessions.pop(session.id, None)

    async def terminate(self, session: ExecSession) -> None:
        """End the session with everything it started; its last output can still be read."""
        await self._end(session, SessionEnd.TERMINATED)

    async def end_all(self, owner: str) -> int:
        """End what runs in the background of a chat; returns how many programs that were."""
        live = [session for session in self.of(owner) if session.live]
        for session in live:
            await self.terminate(session)
        return len(live)

    async def end_idle(self) -> None:
        """End what its chat has not used for too long, and forget what ended so long ago."""
        oldest_s = self._clock.monotonic_s() - self._idle_s
        idle = [session for session in self._sessions.values() if session.used_s <= oldest_s]
        for session in idle:
            self.forget(session)
        await asyncio.gather(*(self._end(session, SessionEnd.IDLE) for session in idle if session.live))

    async def close(self) -> None:
        """End all sessions; nothing can be started afterwards. Idempotent."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        live = [session for session in self._sessions.values() if session.live]
        await asyncio.gather(*(self._end(session, SessionEnd.TERMINATED) for session in live))
        self._sessions.clear()

    # --- inside

    def _new_id(self) -> str:
        while (session_id := new_id("x-", 4)) in self._sessions:
            pass
        return session_id

    def _check_room(self, owner: str) -> None:
        if self._closed:
            raise TooManySessionsError("the assistant is shutting down")
        live = [session for session in self._sessions.values() if session.live]
        if len(live) >= self._max_live:
            own = sum(session.owner == owner for session in live)
            advice = "terminate one first" if own else "try again later"
            raise TooManySessionsError(
                f"{self._max_live} sessions are live, as many as may be ({own} of this chat): {advice}"
            )

    async def _watch(self, session: ExecSession, program: Program, limit_s: float | None) -> None:
        """Wait for the program's end and note it; the one place where a session's end is noted."""
        try:
            async with asyncio.timeout(limit_s):
                ending = await program.wait()
        except TimeoutError:
            session.cause = session.cause or SessionEnd.TIME_LIMIT
            await program.end()
            ending = await program.wait()
        session.finish(ending)
        self._programs.pop(session.id, None)
        self._watches.pop(session.id, None)
        self._drop_ended()
        _log.info("session ended", session=session.id, reason=session.end, exit_code=session.exit_code)

    async def _end(self, session: ExecSession, end: SessionEnd) -> None:
        program, watch = self._programs.get(session.id), self._watches.get(session.id)
        if program is None or watch is None:
            return
        session.cause = session.cause or end
        await program.end()
        await asyncio.shield(watch)

    def _drop_ended(self) -> None:
        ended = [session for session in self._sessions.values() if not session.live]
        for session in ended[: max(0, len(ended) - MAX_ENDED)]:
            self.forget(session)

    async def _sweep(self) -> None:
        while self._programs:
            await asyncio.sleep(self._sweep_s)
            await self.end_idle()
