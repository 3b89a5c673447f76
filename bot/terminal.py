"""The terminal's side: a conversation over the control socket, and tables for people or JSON for programs.

`chat` always speaks through the socket. When no process holds the data directory it becomes that process, so
that a chat beside a service and a chat without one are the same code.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from bot.app import Engine
from bot.config import Config
from bot.control import Connection, ControlError, connect
from bot.errors import AlreadyRunning
from bot.messages import new_id
from bot.texts import say

EXIT_OK, EXIT_FAILURE = 0, 1
_REPLY_S = 900.0  # a one-shot waits this long for its reply; longer than any model call may take
_QUIET_S = 0.5  # no further message for so long: a turn that answered by tool has said everything
_START_S = 5.0

Event = dict[str, Any]


async def chat(config: Config, message: str | None) -> int:
    """Hold a conversation, or say one thing when `message` is given; returns the exit code."""
    async with _link(config, one_shot=message is not None) as (connection, own_engine):
        await connection.send({"cmd": "chat"})
        hello = await connection.receive()
        if hello is None or "ok" not in hello:
            raise ControlError("the running dutiful did not open a conversation")
        talk = _Talk(connection, str(hello["ok"]["name"]), config.bot.language)
        if message is not None:
            return await talk.once(message)
        return await talk.interactive(alone=own_engine)


@asynccontextmanager
async def _link(config: Config, *, one_shot: bool) -> AsyncIterator[tuple[Connection, bool]]:
    """Connect to the engine that holds the data directory, or run one here; True for one of our own."""
    connection = await connect(config.bot.data_dir)
    if connection is None:
        try:
            engine = await Engine.open(config, console_only=True, delivers=not one_shot)
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
    """Serve an engine of our own while the context is open."""
    serving = asyncio.create_task(engine.serve(), name="engine")
    try:
        yield
    finally:
        engine.stop()
        await serving


class _Talk:
    """One conversation over one connection."""

    def __init__(self, connection: Connection, name: str, language: str) -> None:
        self._connection = connection
        self._name = name
        self._language = language
        self._console = Console(highlight=False)
        self._seen: set[int] = set()

    # --- one shot

    async def once(self, text: str) -> int:
        """Send one line and print what answers it."""
        line_id = new_id("line-", 12)
        await self._connection.send({"say": text, "id": line_id})
        silent = False
        try:
            async with asyncio.timeout(_REPLY_S):
                while True:
                    event = await self._next(_QUIET_S if silent else None)
                    if event is None:
                        return EXIT_OK
                    if event.get("event") == "refused":
                        print(event["text"], file=sys.stderr)
                        return EXIT_FAILURE
                    if event.get("event") == "message" and await self._confirm(event):
                        print(_plain(event))
                        if event.get("answers") == line_id:
                            return EXIT_OK
                    if event.get("event") == "done" and line_id in event["lines"]:
                        silent = not event["replied"]
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

    async def _confirm(self, event: Event) -> bool:
        """Confirm a message as shown; False for one that was shown before."""
        fresh = event["outbox"] not in self._seen
        self._seen.add(event["outbox"])
        await self._connection.send({"shown": event["outbox"]})
        return fresh

    # --- interactive

    async def interactive(self, *, alone: bool) -> int:
        """Read lines until the end of input; show what comes meanwhile."""
        from prompt_toolkit import PromptSession  # 90 ms that a one-shot need not pay
        from prompt_toolkit.patch_stdout import patch_stdout

        where = "no service is running: reminders come while this is open" if alone else "beside the running service"
        self._console.print(Text(f"{self._name} — {where}. /help lists commands, Ctrl-D ends.", style="dim"))
        lines = _Lines(PromptSession() if sys.stdin.isatty() else None)
        with patch_stdout(raw=True):
            async with asyncio.TaskGroup() as group:
                showing = group.create_task(self._show_events(lines), name="events")
                try:
                    await self._read_lines(lines)
                finally:
                    showing.cancel()
        return EXIT_OK

    async def _read_lines(self, lines: _Lines) -> None:
        while (line := await lines.read()) is not None:
            if line.strip():
                lines.begin(line_id := new_id("line-", 12))
                await self._connection.send({"say": line, "id": line_id})
        await lines.answered()

    async def _show_events(self, lines: _Lines) -> None:
        draft = _Draft(self._console)
        while (event := await self._connection.receive()) is not None:
            kind = event.get("event")
            if kind == "draft":
                draft.grow(event["text"])
            elif kind == "message" and await self._confirm(event):
                draft.replace(event, self._name)
                lines.end(event.get("answers", ""))
            elif kind == "refused":
                self._console.print(Text(event["text"], style="red"))
                lines.end_all()
            elif kind == "done" and not event["replied"]:
                for line_id in event["lines"]:
                    lines.end(line_id)
        self._console.print(Text(say(self._language, "restarting") + " (connection closed)", style="red"))
        lines.end_all()


class _Lines:
    """Typed lines: from a terminal with editing, or from a pipe; and which of them still wait for an answer."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._open: set[str] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    async def read(self) -> str | None:
        """Return the next line, None at the end of input."""
        if self._session is None:
            line = await asyncio.to_thread(sys.stdin.readline)
            return line.rstrip("\n") if line else None
        try:
            text: str = await self._session.prompt_async("› ")
        except (EOFError, KeyboardInterrupt):
            return None
        return text

    def begin(self, line_id: str) -> None:
        self._open.add(line_id)
        self._none_open.clear()

    def end(self, line_id: str) -> None:
        self._open.discard(line_id)
        if not self._open:
            self._none_open.set()

    def end_all(self) -> None:
        self._open.clear()
        self._none_open.set()

    async def answered(self) -> None:
        """Wait for answers of lines from a pipe; a person who pressed Ctrl-D does not wait."""
        if self._session is None:
            async with asyncio.timeout(_REPLY_S):
                await self._none_open.wait()


class _Draft:
    """Text that grows on screen line by line, and the message that replaces it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = ""

    def grow(self, text: str) -> None:
        """Show the lines that are complete; a line once printed cannot be taken back, so only whole ones."""
        complete = text[: text.rfind("\n") + 1]
        if complete.startswith(self._shown) and len(complete) > len(self._shown):
            self._console.print(Text(complete[len(self._shown) :].rstrip("\n"), style="dim"))
            self._shown = complete

    def replace(self, event: Event, name: str) -> None:
        """Show the final message."""
        self._shown = ""
        self._console.print(Text(f"{name}:", style="bold"))
        if event["kind"] in ("reply", "message"):
            self._console.print(Markdown(event["text"]))
        else:
            self._console.print(Text(event["text"]))
        for path in event.get("files", ()):
            self._console.print(Text(f"file: {path}", style="cyan"))


def _plain(event: Event) -> str:
    files = "".join(f"\nfile: {path}" for path in event.get("files", ()))
    return f"{event['text']}{files}"


# --- reports


def print_status(report: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what the control command `status` returned."""
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    queues = report["queues"]
    console.print(f"dutiful {report['version']} ({report['mode']}), up {report['uptime_s']} s, model {report['model']}")
    console.print(f"healthy: {_yes(report['healthy'])}   ready: {_yes(report['ready'])}")
    for name, channel in report["channels"].items():
        problem = f" — {channel['problem']}" if channel["problem"] else ""
        console.print(Text(f"channel {name}: {channel['state']}{problem}"))
    console.print(f"sessions: {report['sessions']}")
    console.print(f"queues: {queues['inbox']} in, {queues['turns']} running, {queues['outbox']} out")
    console.print(f"uncertain sends: {report['uncertain_sends']}")
    console.print(f"dead letters: {report['dead_letter_count']}")
    for letter in report["dead_letters"]:
        line = f"  {letter['direction']} {letter['id']} {letter['at']} {letter['address']}: {letter['error']}"
        console.print(Text(line))
        console.print(Text(f"    {letter['text'][:200]!r}", style="dim"))
    print_jobs(report["jobs"], as_json=False)


def print_jobs(jobs: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a list of jobs."""
    if as_json:
        print(json.dumps(jobs, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not jobs:
        console.print("no jobs")
        return
    table = Table("id", "chat", "kind", "next", "schedule", "text", box=None, pad_edge=False)
    for job in jobs:
        when = job["next_local"] or job["state"]
        table.add_row(job["id"], job["chat"], job["kind"], when, job["schedule"], Text(job["name"] or job["text"][:80]))
    console.print(table)


def print_change(what: str, job: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what happened to one job."""
    if as_json:
        print(json.dumps({what: job}, indent=2, ensure_ascii=False))
    else:
        print(f"{what} {job['id']}: {job['name'] or job['text']}")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
