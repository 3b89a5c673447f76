"""The `exec_session` tool: programs on terminals that live on between calls.

Where a command may run is decided in `bot/shell/`, which sessions there are and whose in `bot/shell/sessions.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bot.clock import US_PER_S, Clock
from bot.messages import Replay, Risk
from bot.shell.keys import KEY_NAMES, UnknownKeyError, key_bytes
from bot.shell.launch import LaunchRefused
from bot.shell.programs import TerminalProgram
from bot.shell.run import DEFAULT_OUTPUT_CHARS, END_MARGIN_S, MAX_OUTPUT_CHARS, not_started
from bot.shell.sessions import (
    TITLE_CHARS,
    ExecSession,
    ExecSessions,
    NoSessionError,
    Program,
    SessionError,
)
from bot.shell.shell import Shell
from bot.shell.terminal import TerminalSize
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line
from bot.toolkit.context import RequestContext, ToolContext, current_request
from bot.toolkit.measure import shorten
from bot.toolkit.schema import ArraySchema, IntegerSchema, StringSchema, tool_parameters_schema
from bot.tools.exec import SHELLS, default_shell

DEFAULT_YIELD_MS = 1_000
MAX_YIELD_MS = 120_000
DEFAULT_WAIT_S = 30
MAX_WAIT_S = 120
"""Longest wait for a text (design 7)."""

MAX_TEXT_CHARS = 20_000
MAX_COLS, MAX_ROWS = 500, 200
_MAX_REGEX_CHARS = 1_000
_MAX_REGEX_BYTES = 1024 * 1024  # compiled; RE2 does that without letting others run: 20 ms, with its own 8 MiB 700 ms
_SIZE = TerminalSize()

Found = Callable[[str], bool]


class BadCallError(Exception):
    """The arguments do not fit the action; the text says which are missing."""


@tool_parameters(
    tool_parameters_schema(
        action=StringSchema(
            "start a program, send it text or keys, poll its new output, wait_for a text, resize, terminate, "
            "or list this chat's sessions.",
            enum=["start", "send", "poll", "wait_for", "resize", "terminate", "list"],
        ),
        session_id=StringSchema("Which session; may be left out when this chat has only one."),
        command=StringSchema(
            "start: what the shell runs; the session ends with it. Left out: an interactive shell.",
            min_length=1,
            max_length=MAX_TEXT_CHARS,
        ),
        working_dir=StringSchema("start: folder, relative to this chat's folder (default '.').", min_length=1),
        shell=StringSchema("start: the shell (default bash where there is one).", enum=SHELLS),
        cols=IntegerSchema(
            description="start, resize: width in characters (default 120).", minimum=1, maximum=MAX_COLS
        ),
        rows=IntegerSchema(description="start, resize: height in lines (default 32).", minimum=1, maximum=MAX_ROWS),
        text=StringSchema(
            "send: text to type, exactly as it is: the key enter is not added. wait_for: the text to wait for.",
            max_length=MAX_TEXT_CHARS,
        ),
        keys=ArraySchema(
            StringSchema(max_length=40),
            description=f"send: keys to press after the text: {KEY_NAMES}.",
            max_items=64,
        ),
        regex=StringSchema(
            "wait_for: a regular expression (RE2) instead of text.", min_length=1, max_length=_MAX_REGEX_CHARS
        ),
        timeout_s=IntegerSchema(
            description=f"wait_for: how long to wait, in seconds (default {DEFAULT_WAIT_S}).",
            minimum=1,
            maximum=MAX_WAIT_S,
        ),
        yield_time_ms=IntegerSchema(
            description="start, send, poll, resize: how long to wait for new output, in milliseconds "
            f"(default {DEFAULT_YIELD_MS}); the answer comes sooner when the output pauses.",
            minimum=0,
            maximum=MAX_YIELD_MS,
        ),
        max_output_chars=IntegerSchema(
            description=f"Characters of output at most, half from the beginning, half from the end "
            f"(default {DEFAULT_OUTPUT_CHARS}).",
            minimum=100,
            maximum=MAX_OUTPUT_CHARS,
        ),
        required=["action"],
        additional_properties=False,
    )
)
class ExecSessionTool(Tool):
    """Runs a program on a real terminal that lives on between calls.

    Parameters: action (start, send, poll, wait_for, resize, terminate, list); session_id; for start command,
    working_dir, shell (bash or sh), cols (1-500, default 120), rows (1-200, default 32); for send text (at most
    20,000 characters) and keys; for wait_for text or regex and timeout_s (1-120, default 30); yield_time_ms (0-120,000,
    default 1,000); max_output_chars (100-100,000; default 10,000).
    Result: the state of the session, with the exit code when it has ended, and the output since the last look as plain
    text, the first and last part if that is too long; after the end it is told once and the session is gone.
    Limits: 8 live sessions of all chats; one that its chat does not use for 30 min is ended; a chat sees its own only,
    also commands that `exec` left in the background; 64 KiB of input may wait for a program to read it, and a terminal
    in line mode takes lines of at most 4,095 bytes.
    Errors: no such session, too many sessions, unknown key, bad pattern, input that the program does not read.
    Refused: as `exec`.
    """

    name = "exec_session"
    description = (
        "Run a program on a terminal that lives on between calls: a shell, a REPL, a server, anything interactive. "
        "start gives a session_id; send types text and presses keys (['enter'] after a line, ['ctrl-c'] to "
        "interrupt); every answer has only the output that is new, and of long output the beginning and the end. "
        "Terminate what is no longer needed. For one command that ends by itself use exec."
    )
    _scopes = frozenset({"core", "subagent"})
    risk = Risk.EXECUTE
    replay = Replay.ONCE
    repeatable = True

    def __init__(self, shell: Shell, sessions: ExecSessions, clock: Clock) -> None:
        self._shell = shell
        self._sessions = sessions
        self._clock = clock
        self.unavailable = shell.unavailable
        self._actions = {
            "send": self._send,
            "poll": self._poll,
            "wait_for": self._wait_for,
            "resize": self._resize,
            "terminate": self._terminate,
        }

    @classmethod
    def create(cls, ctx: ToolContext) -> ExecSessionTool:
        """See `Tool.create`."""
        return cls(ctx.room.shell, ctx.room.sessions, ctx.clock)

    @property
    def exclusive(self) -> bool:
        """See `Tool.exclusive`."""
        return True

    def risk_for(self, params: dict[str, Any]) -> Risk:
        """See `Tool.risk_for`: looking at what is there already is a read."""
        return Risk.READ if self.only_looks(params) else Risk.EXECUTE

    def only_looks(self, params: dict[str, Any]) -> bool:
        """See `Tool.only_looks`."""
        return params.get("action") in {"poll", "list"}

    def time_limit_s(self, params: dict[str, Any]) -> float:
        """See `Tool.time_limit_s`: what the call waits by itself, and some more."""
        if params.get("action") == "wait_for":
            return float(params.get("timeout_s", DEFAULT_WAIT_S)) + END_MARGIN_S
        return float(params.get("yield_time_ms", DEFAULT_YIELD_MS)) / 1_000 + END_MARGIN_S

    async def execute(
        self, *, action: str, max_output_chars: int = DEFAULT_OUTPUT_CHARS, session_id: str = "", **params: Any
    ) -> ToolResult:
        """See the class."""
        request = current_request()
        if action == "list":
            return ToolResult(self._list(request))
        note = ""
        try:
            if action == "start":
                session = await self._start(request, **params)
                await session.settle(_yield_s(params))
            else:
                session = self._session(request, session_id)
                session.touch()
                note = await self._actions[action](session, **params)
        except (LaunchRefused, OSError) as error:
            self.unavailable = self._shell.unavailable  # a trial of the sandbox may have shown it now
            return not_started(error)
        except (SessionError, UnknownKeyError, BadCallError) as error:
            return ToolResult.error(f"{action}: {error}.")
        return ToolResult(await self._report(session, note, max_output_chars))

    async def _start(
        self,
        request: RequestContext,
        *,
        command: str = "",
        working_dir: str = ".",
        shell: str = "",
        cols: int = _SIZE.cols,
        rows: int = _SIZE.rows,
        **_: Any,
    ) -> ExecSession:
        size = TerminalSize(cols=cols, rows=rows)
        program = shell or await asyncio.to_thread(default_shell)
        argv = [program, "-c", command] if command else [program]
        launch = await self._shell.prepare(request, argv, cwd=working_dir)
        title = one_line(" ".join((command or argv[0]).split()), TITLE_CHARS)

        async def begin(on_output: Callable[[], None]) -> Program:
            return await TerminalProgram.start(self._shell, launch, size, on_output)

        return await self._sessions.start(request.session_key, title, begin, size=size)

    async def _send(self, session: ExecSession, *, text: str = "", keys: Sequence[str] = (), **params: Any) -> str:
        data = text.encode("utf-8", "replace") + b"".join(map(key_bytes, keys))
        if not data:
            raise BadCallError("needs text or keys")
        if session.live:
            session.send(data)
            await session.settle(_yield_s(params))
            return ""
        return "Nothing was sent: it had ended."

    async def _poll(self, session: ExecSession, **params: Any) -> str:
        await session.settle(_yield_s(params))
        return ""

    async def _wait_for(
        self, session: ExecSession, *, text: str = "", regex: str = "", timeout_s: int = DEFAULT_WAIT_S, **_: Any
    ) -> str:
        if bool(text) == bool(regex):
            raise BadCallError("needs text or regex, one of them")
        found = _pattern(regex) if regex else lambda output: text in output
        if await session.wait_for(found, timeout_s):
            return "It was found."
        if session.live:
            return f"It did not appear within {timeout_s} s."
        return "It did not appear before the end."

    async def _resize(
        self, session: ExecSession, *, cols: int | None = None, rows: int | None = None, **params: Any
    ) -> str:
        if cols is None and rows is None:
            raise BadCallError("needs cols or rows")
        size = session.size
        session.resize(TerminalSize(cols=cols or size.cols, rows=rows or size.rows))
        await session.settle(_yield_s(params))
        return f"Its terminal has {session.size.cols} columns and {session.size.rows} rows."

    async def _terminate(self, session: ExecSession, **_: Any) -> str:
        await self._sessions.terminate(session)
        return ""

    def _session(self, request: RequestContext, session_id: str) -> ExecSession:
        """Return the session that is meant: the named one, or the only one there is.

        Raises:
            NoSessionError: none is, in this chat.
        """
        own = self._sessions.of(request.session_key)
        if session_id:
            return self._sessions.get(request.session_key, session_id)
        if len(own) != 1:
            ids = ", ".join(session.id for session in own)
            raise NoSessionError(f"needs session_id, one of {ids}" if own else "this chat has no session")
        return own[0]

    async def _report(self, session: ExecSession, note: str, limit_chars: int) -> str:
        """Tell the state and what is new; after the end the session is gone with this."""
        reading = await session.read(limit_chars)
        if reading.end is not None:
            self._sessions.forget(session)
        first = f"Session {session.id} ({session.title}) {reading.state()}. {note}".rstrip()
        return f"{first}\n\n{reading.text or '(no new output)'}"

    def _list(self, request: RequestContext) -> str:
        own = self._sessions.of(request.session_key)
        if not own:
            return "This chat has no sessions."
        now_us = self._clock.now_us()
        lines = []
        for session in own:
            minutes = (now_us - session.started_us) // (60 * US_PER_S)
            news = ", has new output" if session.has_news else ""
            lines.append(f"{session.id} ({session.title}) {session.state()}, begun {minutes} min ago{news}")
        return "\n".join(lines)


def _yield_s(params: dict[str, Any]) -> float:
    return float(params.get("yield_time_ms", DEFAULT_YIELD_MS)) / 1_000


def _pattern(regex: str) -> Found:
    """Return the search for a pattern; linear in the output, whatever the pattern.

    Raises:
        BadCallError: it is none, or too large.
    """
    import re2  # 20 ms that most processes never need

    options = re2.Options()
    options.log_errors = False  # it would write to standard error
    options.max_mem = _MAX_REGEX_BYTES
    try:
        compiled = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadCallError(f"the regex cannot be used: {shorten(shown, 200)}") from None
    return lambda output: compiled.search(output) is not None
