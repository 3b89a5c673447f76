"""The connection to one server: one task opens, serves and closes it, again and again; calls come from any task."""

from __future__ import annotations

import asyncio
import importlib
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from typing import Any, TypeVar

from bot.config import McpSection
from bot.log import get_logger
from bot.security.redaction import Redactor
from bot.toolkit.mcp.asks import CallLimit, current_holder
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.requests import CANCEL_S, Requests
from bot.toolkit.mcp.server_calls import McpCallError, ProgressListener, ServerState
from bot.toolkit.mcp.session import CallFailed, Fate, Opener, Session, SessionFailed, SessionSpec, Signals

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Between attempts to connect; each wait is up to twice the one before, at random below that."""

STEADY_S = 10.0
"""A session that lasted this long was a good one: after it the next attempt is made at once."""

PATIENCE_S = 3.0
"""How long a call goes on trying to connect though attempts fail; one that hangs is waited for longer."""

CLOSE_S = 5.0
"""How long a server may take to close in order."""

_HURRIED_WAIT_S = 0.5
_RELIST_PAUSE_S = 0.5
_CHECK_S = 10.0

T = TypeVar("T")
OfferListener = Callable[["ServerConnection", Offer], Awaitable[None]]

_log = get_logger(__name__)


def _load_opener() -> Opener:
    opener: Opener = importlib.import_module("bot.toolkit.mcp.client").open_session
    return opener


class ServerConnection:
    """See `ServerCalls`. `start` and `close` once each; everything else at any time."""

    def __init__(self, spec: SessionSpec, *, on_offer: OfferListener) -> None:
        self._spec = spec
        self._on_offer = on_offer
        known = [*spec.section.env.values(), *spec.section.headers.values()]
        if spec.section.oauth_client_secret is not None:
            known.append(spec.section.oauth_client_secret)
        self._redact = Redactor([secret.get_secret_value() for secret in known])  # servers say what they were given
        self._state = ServerState.STARTING
        self._problem = ""
        self._session: Session | None = None
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._hurry = asyncio.Event()  # somebody wants it now
        self._news = asyncio.Event()  # replaced at each change of state
        self._waiting = 0
        self._attempts = 0  # that were begun
        self._failures = 0  # in a row
        self._retry_at: float | None = None
        self._suspect = asyncio.Event()  # a call got no answer
        self._places = asyncio.Semaphore(spec.section.max_concurrency)
        self._requests = Requests()

    # --- how it stands

    @property
    def name(self) -> str:
        """See `ServerCalls.name`."""
        return self._spec.name

    @property
    def section(self) -> McpSection:
        """What it was built from."""
        return self._spec.section

    @property
    def state(self) -> ServerState:
        """See `ServerCalls.state`."""
        return self._state

    @property
    def problem(self) -> str:
        """See `ServerCalls.problem`."""
        return self._problem

    @property
    def retry_in_s(self) -> float | None:
        """When the next attempt begins; None while one runs or none is needed."""
        return None if self._retry_at is None else max(0.0, self._retry_at - monotonic())

    def _set(self, state: ServerState, problem: str = "") -> None:
        problem = self._redact(problem)
        if problem != self._problem and problem:
            _log.warning("mcp server is not usable", server=self.name, state=state, problem=problem)
        self._state, self._problem = state, problem
        news, self._news = self._news, asyncio.Event()
        news.set()

    # --- life

    def start(self) -> None:
        """Begin to connect, in the background."""
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")

    def poke(self) -> None:
        """Cut the wait before the next attempt short; who waits for a login may hope again."""
        if self._state is ServerState.LOGIN:
            self._set(ServerState.STARTING)
        self._hurry.set()

    async def close(self, grace_s: float = CLOSE_S) -> None:
        """End the session and the server's process; from any task, idempotent, bounded."""
        self._closing.set()
        owner = self._owner
        if owner is None or owner.done():
            return
        if self._session is None:
            owner.cancel()
        await asyncio.wait({owner}, timeout=grace_s)
        if not owner.done():
            owner.cancel()
            await asyncio.wait({owner}, timeout=grace_s)
        self._requests.close()
        self._state = ServerState.OFF

    async def _own(self) -> None:
        """Open, serve and close, all in this task, until `close`."""
        try:
            opener = await asyncio.to_thread(_load_opener)  # over a second, the first time
            while not self._closing.is_set():
                await self._attempt(opener)
                if self._closing.is_set():
                    break
                await self._rest()
        finally:
            self._session = None
            self._set(ServerState.OFF)

    async def _attempt(self, opener: Opener) -> None:
        """Open a session and serve it until it is over; sets the state that follows."""
        signals = Signals()
        self._attempts += 1
        self._hurry.clear()
        self._suspect.clear()
        ready_at: float | None = None
        problem, state = "", ServerState.OFFLINE
        limit = asyncio.timeout(self.section.start_timeout_s)
        try:
            async with limit, opener(self._spec, signals) as session:
                offer = await session.list_all()
                limit.reschedule(None)
                ready_at = monotonic()
                await self._on_offer(self, offer)
                self._ready(session, offer)
                await self._serve(session)
                problem = signals.why
        except TimeoutError:
            problem = f"not connected within {self.section.start_timeout_s:g} s (start_timeout_s)"
        except SessionFailed as error:
            problem = str(error)
            state = ServerState.LOGIN if error.wants_login and self.section.auth == "oauth" else state
        except CallFailed as error:
            problem = f"its lists cannot be read: {error}"
            state = ServerState.LOGIN if error.wants_login and self.section.auth == "oauth" else state
        except Exception as error:  # noqa: BLE001 - the boundary of one server: nothing of it may reach the others
            problem = f"{type(error).__name__}: {error}"
        finally:
            self._session = None
        if self._closing.is_set():
            return
        was_good = ready_at is not None and monotonic() - ready_at >= STEADY_S
        self._failures = 0 if was_good else self._failures + 1
        self._set(state, problem or "the connection is lost")

    def _ready(self, session: Session, offer: Offer) -> None:
        self._session = session
        self._retry_at = None
        self._set(ServerState.READY)
        _log.info("mcp server is ready", server=self.name, tools=len(offer.tools), protocol=offer.protocol_version)

    async def _serve(self, session: Session) -> None:
        """Follow changes of the lists until the session is over or to be closed."""
        signals = session.signals
        watching = asyncio.create_task(session.watch(), name=f"changes of mcp {self.name}")
        events = (signals.over, self._closing, signals.changed, signals.doubt, self._suspect)
        try:
            while True:
                await _first_of(*events)
                if signals.over.is_set() or self._closing.is_set():
                    return
                if self._suspect.is_set() or signals.doubt.is_set():
                    self._suspect.clear()
                    signals.doubt.clear()
                    await self._check(session)
                elif signals.changed.is_set():
                    signals.changed.clear()
                    await self._list_again(session)
                    with suppress(TimeoutError):  # a server that changes all the time is followed at this pace
                        async with asyncio.timeout(_RELIST_PAUSE_S):
                            await _first_of(signals.over, self._closing, signals.doubt, self._suspect)
        finally:
            watching.cancel()
            await asyncio.wait({watching}, timeout=CANCEL_S)

    async def _list_again(self, session: Session) -> None:
        try:
            async with asyncio.timeout(self.section.start_timeout_s):
                offer = await session.list_all()
            await self._on_offer(self, offer)
        except TimeoutError:
            session.signals.end("its lists were not read in time (start_timeout_s)")
        except CallFailed as error:
            session.signals.end(f"its lists cannot be read: {error}")

    async def _check(self, session: Session) -> None:
        try:
            async with asyncio.timeout(min(_CHECK_S, self.section.start_timeout_s)):
                await session.check()
        except TimeoutError:
            session.signals.end("the server does not answer any more")
        except CallFailed as error:
            if error.is_over:
                session.signals.end(str(error))

    async def _rest(self) -> None:
        """Wait before the next attempt; a call or a person cuts it short."""
        if self._failures == 0:
            return
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(self._failures - 1, 10))
        wait_s = random.uniform(longest / 2, longest)  # noqa: S311 - so that many bots do not come back as one
        self._retry_at = monotonic() + wait_s
        begun = monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await _first_of(self._hurry, self._closing)
        if self._hurry.is_set() and not self._closing.is_set() and self._failures > 1:
            pause = _HURRIED_WAIT_S - (monotonic() - begun)
            if pause > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._closing.wait()
        self._retry_at = None

    # --- calls

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        may_repeat: bool,
        on_progress: ProgressListener | None = None,
    ) -> Json:
        """See `ServerCalls.call_tool`."""
        listener = None if on_progress is None else _in_this_context(on_progress)
        return await self._call(
            f"tool {tool!r}", lambda session: session.call_tool(tool, arguments, listener), may_repeat=may_repeat
        )

    async def read_resource(self, uri: str) -> Json:
        """See `ServerCalls.read_resource`."""
        return await self._call(f"resource {uri!r}", lambda session: session.read_resource(uri), may_repeat=True)

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> Json:
        """See `ServerCalls.get_prompt`."""
        what = f"prompt {prompt!r}"
        return await self._call(what, lambda session: session.get_prompt(prompt, arguments), may_repeat=True)

    async def _call(self, what: str, ask: Callable[[Session], Awaitable[T]], *, may_repeat: bool) -> T:
        """Make a call, on a new session where the old one was lost before the call reached the server."""
        repeats = 0
        until = monotonic() + self.section.timeout_s + self.section.start_timeout_s
        while True:
            session = await self.connected()
            try:
                return await self._on(session, what, ask, limit_s=min(self.section.timeout_s, until - monotonic()))
            except CallFailed as failure:
                if failure.is_over:
                    session.signals.end(str(failure))
                    await self._left_behind(session)
                again = failure.fate is Fate.UNSENT or (failure.fate is Fate.UNKNOWN and may_repeat)
                if again and not _has_asked() and repeats == 0 and monotonic() < until:
                    repeats += 1
                    continue
                raise self._error(what, failure, may_repeat=may_repeat) from None

    async def _on(self, session: Session, what: str, ask: Callable[[Session], Awaitable[T]], *, limit_s: float) -> T:
        """Make a call on a session, within the time limit, which counts the wait for a free place."""
        is_sent = False
        try:
            async with CallLimit(max(0.0, limit_s), self._places):
                is_sent = True
                return await self._requests.run(ask(session))
        except TimeoutError:
            pass
        seconds = f"{self.section.timeout_s:g} s (timeout_s of [mcp.{self.name}])"
        if not is_sent:
            places = self.section.max_concurrency
            raise McpCallError(
                f"The MCP server {self.name} was busy with {places} other calls (max_concurrency) for {seconds}; the "
                f"{what} was not called."
            )
        self._suspect.set()
        raise McpCallError(
            f"The MCP server {self.name} did not answer the call of its {what} within {seconds}. The call was "
            "cancelled; the server may have carried it out all the same.",
            outcome_unknown=True,
        )

    async def connected(self) -> Session:
        """Return the session, connecting within the limits if there is none.

        Raises:
            McpCallError: there is none to be had now.
        """
        until = monotonic() + self.section.start_timeout_s
        patient_until = monotonic() + min(PATIENCE_S, self.section.start_timeout_s)
        seen = self._attempts
        while True:
            session = self._session
            if session is not None:
                session.signals.look()
                if not session.signals.over.is_set():
                    return session
            if self._closing.is_set() or self._owner is None or self._owner.done():
                raise McpCallError(f"The MCP server {self.name} is switched off.")
            if self._state is ServerState.LOGIN:
                text = f"The MCP server {self.name} needs somebody to log in: `dutiful mcp login {self.name}`."
                raise McpCallError(text, wants_login=True)
            now = monotonic()
            has_failed = self._attempts > seen and self._state is ServerState.OFFLINE and session is None
            if now >= until or (has_failed and now >= patient_until):
                why = self._problem or "it is still being connected"
                raise McpCallError(f"The MCP server {self.name} is not available: {why}.")
            self.poke()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(until, max(patient_until, now + _HURRIED_WAIT_S)) - now):
                    await self._news.wait()

    async def _left_behind(self, session: Session) -> None:
        """Wait for the owner to notice that a session is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while self._session is session:
                    await self._news.wait()

    def _error(self, what: str, failure: CallFailed, *, may_repeat: bool) -> McpCallError:
        whose, why = f"The MCP server {self.name}", self._redact(str(failure))
        if failure.wants_login and self.section.auth == "oauth":
            help_ = f"Somebody has to log in: `dutiful mcp login {self.name}`."
            return McpCallError(f"{whose} refused the call of its {what}: {why}. {help_}", wants_login=True)
        if failure.fate is Fate.REFUSED:
            return McpCallError(f"{whose} refused the call of its {what}: {why}.", is_answer=failure.is_answer)
        if failure.fate is Fate.UNSENT:
            return McpCallError(f"{whose} was not reached with the call of its {what}: {why}.")
        text = f"{whose} did not answer the call of its {what}: {why}."
        if may_repeat:
            return McpCallError(text)
        return McpCallError(
            f"{text} The outcome is unknown: it may or may not have been carried out, and it was not repeated. Check "
            "before you do it again, and tell the person if you cannot.",
            outcome_unknown=True,
        )


def _has_asked() -> bool:
    """Whether a person was asked for the sake of the call that this task makes; they are not asked the same again."""
    holder = current_holder()
    return holder is not None and holder.has_asked


def _in_this_context(listener: ProgressListener) -> ProgressListener:
    """Return the listener as the calling task would run it: progress arrives in tasks of the session."""
    context = copy_context()
    return lambda done, total, words: context.run(listener, done, total, words)


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
