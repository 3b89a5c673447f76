"""The terminal's side of a conversation over the control socket.

`chat` always speaks through the socket. When no process holds the data directory it becomes that process, so
that a chat beside a service and a chat without one are the same code. How things look is `bot/screen.py`'s.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from bot.app import Engine
from bot.config import Config
from bot.control import Connection, ControlError, connect
from bot.errors import AlreadyRunning
from bot.messages import new_id
from bot.screen import LINE_LIMIT_CHARS, Event, Screen, is_interactive, open_screen, plain, typed

EXIT_OK, EXIT_FAILURE = 0, 1
_REPLY_S = 900.0  # a one-shot waits this long for its reply; longer than any model call may take
_QUIET_S = 0.5  # no further message for so long: a turn that answered by tool has said everything
_START_S = 5.0
_GRACE_S = 2.0  # who closes a chat does not wait long for a turn: it goes on when the next one opens
_TOO_LONG = f"This line has more than {LINE_LIMIT_CHARS:,} characters and was not sent."


async def chat(config: Config, message: str | None) -> int:
    """Hold a conversation, or say one thing when `message` is given; returns the exit code."""
    stays = message is None and is_interactive()
    async with _link(config, stays=stays) as (connection, own_engine):
        await connection.send({"cmd": "chat"})
        hello = await connection.receive()
        if hello is None or "ok" not in hello:
            raise ControlError("the running dutiful did not open a conversation")
        if message is not None:
            return await _Talk(connection).once(typed(message))
        screen = open_screen()
        where = "no service is running: reminders come while this is open" if own_engine else "beside the service"
        screen.greet(str(hello["ok"]["name"]), f"{where}. /help lists commands, Ctrl-D ends.")
        try:
            return await _Talk(connection).converse(screen)
        finally:
            screen.close()


@asynccontextmanager
async def _link(config: Config, *, stays: bool) -> AsyncIterator[tuple[Connection, bool]]:
    """Connect to the engine that holds the data directory, or run one here; True for one of our own.

    `stays`: somebody keeps this open, so a reminder set here can be delivered here.
    """
    connection = await connect(config.bot.data_dir)
    if connection is None:
        config.require_secrets()
        grace_s = min(config.limits.shutdown_grace_s, _GRACE_S)
        hasty = replace(config, limits=config.limits.model_copy(update={"shutdown_grace_s": grace_s}))
        try:
            engine = await Engine.open(hasty, console_only=True, delivers=stays)
        except AlreadyRunning:
            connection = await wait_for_engine(config)
        else:
            async with _hosting(engine):
                connection = await wait_for_engine(config)
                try:
                    yield connection, True
                finally:
                    await connection.close()
            return
    try:
        yield connection, False
    finally:
        await connection.close()


async def wait_for_engine(config: Config) -> Connection:
    """Connect to an engine that is just starting.

    Raises:
        AlreadyRunning: it does not listen within a few seconds.
    """
    for _ in range(int(_START_S / 0.05)):
        connection = await connect(config.bot.data_dir)
        if connection is not None:
            return connection
        await asyncio.sleep(0.05)
    raise AlreadyRunning(f"{config.bot.data_dir} is in use, but its process does not answer; try again")


@asynccontextmanager
async def _hosting(engine: Engine) -> AsyncIterator[None]:
    """Serve an engine of our own while the context is open. What it fails with at start is raised as it is."""
    serving = asyncio.create_task(engine.serve(), name="engine")
    ready = asyncio.create_task(engine.ready.wait(), name="engine ready")
    try:
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not serving.done():
            yield
    finally:
        engine.stop(engine.exit_code)
        await serving


class _Talk:
    """One conversation over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seen: set[int] = set()
        self._open: set[str] = set()  # lines that wait for an answer
        self._none_open = asyncio.Event()
        self._answers: set[str] = set()  # lines that a message named as what it answers
        self._joined: list[set[str]] = []  # lines of one finished turn, whose message is on its way

    # --- one shot

    async def once(self, text: str) -> int:
        """Send one line and print what answers it."""
        if len(text) > LINE_LIMIT_CHARS:
            raise ControlError(_TOO_LONG)
        line_id = await self._say(text)
        silent = False  # the turn ended without a message of its own; what its tools sent may still come
        try:
            async with asyncio.timeout(_REPLY_S):
                while True:
                    event = await self._next(_QUIET_S if silent else None)
                    if event is None:
                        return EXIT_OK
                    if event.get("event") == "refused":
                        print(event["text"], file=sys.stderr)
                        return EXIT_FAILURE
                    if event.get("event") == "message" and self._is_new(event):
                        print(plain(event), flush=True)
                        await self._confirm(event)
                    if line_id in self._settled_by(event):
                        if event.get("replied", True):
                            return EXIT_OK
                        silent = True
        except TimeoutError:
            print("dutiful: no reply in time; it is still being worked on if a service is running", file=sys.stderr)
            return EXIT_FAILURE

    async def _next(self, quiet_s: float | None) -> Event | None:
        """Return the next event; None after `quiet_s` without one."""
        try:
            async with asyncio.timeout(quiet_s):
                event = await self._connection.receive()
        except TimeoutError:
            return None
        if event is None:
            raise ControlError("dutiful stopped before it answered")
        return event

    # --- both

    async def _say(self, text: str) -> str:
        """Send a line and return its id."""
        line_id = new_id("line-", 12)
        await self._connection.send({"say": text, "id": line_id})
        return line_id

    def _is_new(self, event: Event) -> bool:
        return event["outbox"] not in self._seen

    async def _confirm(self, event: Event) -> None:
        """Confirm a message: only what was shown, or it would be lost with this terminal."""
        self._seen.add(event["outbox"])
        await self._connection.send({"shown": event["outbox"]})

    def _settled_by(self, event: Event) -> set[str]:
        """Return the lines that need no further answer after this event.

        Lines may share a turn, and then one message answers them all, naming one; it may come before or after
        the end of the turn.
        """
        if event.get("event") == "message" and (answered := event["answers"]):
            self._answers.add(answered)
            together = [lines for lines in self._joined if answered in lines]
            self._joined = [lines for lines in self._joined if answered not in lines]
            return {answered}.union(*together)
        if event.get("event") == "refused":
            return {event["id"]}
        if event.get("event") == "done":
            lines = set(event["lines"])
            if not event["replied"] or lines & self._answers:
                return lines
            self._joined.append(lines)
        return set()

    # --- a conversation

    async def converse(self, screen: Screen) -> int:
        """Send lines until the end of input; show what comes meanwhile."""
        reading = asyncio.create_task(self._send_lines(screen), name="lines")
        showing = asyncio.create_task(self._show_events(screen), name="events")
        try:
            done, _ = await asyncio.wait({reading, showing}, return_when=asyncio.FIRST_COMPLETED)
            return max(task.result() for task in done)
        finally:
            for task in (reading, showing):
                task.cancel()
            await asyncio.gather(reading, showing, return_exceptions=True)

    async def _send_lines(self, screen: Screen) -> int:
        while (line := await screen.read()) is not None:
            if len(line) > LINE_LIMIT_CHARS:
                await screen.complain(_TOO_LONG)
            elif line.strip():
                self._none_open.clear()
                self._open.add(await self._say(line))
                screen.working(True)
        if screen.waits_at_end and self._open:
            try:
                async with asyncio.timeout(_REPLY_S):
                    await self._none_open.wait()
            except TimeoutError:
                await screen.complain("dutiful: not everything was answered in time")
                return EXIT_FAILURE
        return EXIT_OK

    async def _show_events(self, screen: Screen) -> int:
        while (event := await self._connection.receive()) is not None:
            kind = event.get("event")
            if kind == "draft":
                screen.draft(event["text"])
            elif kind == "message":
                if self._is_new(event):
                    await screen.show(event)
                await self._confirm(event)
            elif kind == "refused":
                await screen.complain(event["text"])
            self._open -= self._settled_by(event)
            if not self._open:
                self._none_open.set()
            if kind in ("message", "refused", "done"):
                screen.working(bool(self._open))
        await screen.complain("dutiful has stopped; start this chat again to go on")
        return EXIT_FAILURE
