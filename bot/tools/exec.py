"""The `exec` tool: one shell command, run to its end.

Where a command may run is decided in `bot/shell/shell.py`; processes and their ends are that package's matter too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any

from bot.messages import Replay, Risk
from bot.security.sandbox import STANDARD_PATH
from bot.shell.background import Background
from bot.shell.launch import LaunchRefused
from bot.shell.run import DEFAULT_OUTPUT_CHARS, END_MARGIN_S, MAX_OUTPUT_CHARS, not_started, run
from bot.shell.sessions import TITLE_CHARS, ExecSessions, SessionError
from bot.shell.shell import Shell
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.schema import IntegerSchema, StringSchema, tool_parameters_schema

MAX_TIMEOUT_S = 600
SHELLS = ("bash", "sh")


@tool_parameters(
    tool_parameters_schema(
        command=StringSchema("The command line, as one would type it.", min_length=1),
        working_dir=StringSchema("Folder to start in, relative to this chat's folder (default '.').", min_length=1),
        timeout=IntegerSchema(
            description=f"Time limit in seconds, at most {MAX_TIMEOUT_S} (default 60, unless configured).",
            minimum=1,
            maximum=MAX_TIMEOUT_S,
        ),
        shell=StringSchema("The shell that reads the command (default bash where there is one).", enum=SHELLS),
        yield_time_ms=IntegerSchema(
            description="Go on in the background if the command still runs after this many milliseconds: the result "
            "then has the id for exec_session (default: wait for the end). The time limit still holds.",
            minimum=0,
            maximum=MAX_TIMEOUT_S * 1_000,
        ),
        max_output_chars=IntegerSchema(
            description=f"How many characters of output to return at most (default {DEFAULT_OUTPUT_CHARS}).",
            minimum=100,
            maximum=MAX_OUTPUT_CHARS,
        ),
        required=["command"],
        additional_properties=False,
    )
)
class ExecTool(Tool):
    """Runs one shell command of this chat in a sandbox.

    Parameters: command (at most 120,000 bytes), working_dir (a folder of the chat), timeout (1-600 s; default
    `[tools.exec] timeout_s`, 60), shell (bash or sh), yield_time_ms (0-600,000: a command that runs on after that
    time becomes a session of exec_session, within the same time limit), max_output_chars (100-100,000; default 10,000).
    Result: standard output and error as they came, the first and last part if that is too long with a line that says
    how much was left out, without terminal control; then a line with the exit code (128 + signal) and the time taken.
    Limits: standard input is empty; 256 processes, 4 GiB of memory and per written file each; whatever it
    leaves in the background ends with it. Errors: time limit (with the output so far), too many processes.
    Refused: no working sandbox, unless an owner in a private chat may do without (`[tools.exec] unsandboxed`).
    """

    _scopes = frozenset({"core", "subagent"})
    risk = Risk.EXECUTE
    replay = Replay.ONCE
    name = "exec"

    def __init__(self, shell: Shell, sessions: ExecSessions, *, timeout_s: float, network: bool) -> None:
        self._shell = shell
        self._sessions = sessions
        self._timeout_s = timeout_s
        self._network = network
        self.unavailable = shell.unavailable

    @classmethod
    def create(cls, ctx: ToolContext) -> ExecTool:
        """Build the tool from the ToolContext."""
        section = ctx.config.exec
        return cls(ctx.room.shell, ctx.room.sessions, timeout_s=section.timeout_s, network=section.network)

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Run a shell command in this chat's folder and wait for its end, or only for yield_time_ms if it is to go "
            "on in the background. Its standard input is empty, so nothing can be typed in; when it ends, what it "
            f"left running ends with it. {self._reach()} The last line tells the exit code."
        )

    def _reach(self) -> str:
        if not self._shell.expects_sandbox:
            return (
                "There is no sandbox: it has all rights of the bot's own user on this machine, and only an owner's "
                "private chat may run it."
            )
        return (
            "It can write in this chat's folder and /tmp (which is empty each time), read shared/ and the system's "
            f"programs, and nothing else. It {'has' if self._network else 'has no'} network."
        )

    @property
    def exclusive(self) -> bool:
        """See `Tool.exclusive`."""
        return True

    def time_limit_s(self, params: dict[str, Any]) -> float:
        """See `Tool.time_limit_s`; the command's own limit comes first."""
        return float(params.get("timeout", self._timeout_s)) + END_MARGIN_S

    async def execute(
        self,
        *,
        command: str,
        working_dir: str = ".",
        timeout: float | None = None,
        shell: str = "",
        yield_time_ms: int | None = None,
        max_output_chars: int = DEFAULT_OUTPUT_CHARS,
        **_: Any,
    ) -> ToolResult:
        """Run the command; failures and refusals are results."""
        request = current_request()
        limit_s = timeout or self._timeout_s
        program = shell or await asyncio.to_thread(default_shell)
        try:
            launch = await self._shell.prepare(request, [program, "-c", command], cwd=working_dir)
            if yield_time_ms is not None:
                title = one_line(" ".join(command.split()), TITLE_CHARS)
                background = Background(self._shell, self._sessions, owner=request.session_key, title=title)
                return await background.run(
                    launch, limit_s=limit_s, yield_s=yield_time_ms / 1_000, output_chars=max_output_chars
                )
            outcome = await run(self._shell, launch, limit_s=limit_s, output_chars=max_output_chars)
        except SessionError as error:
            return ToolResult.error(f"The command was not started: {error}.")
        except (LaunchRefused, OSError) as error:
            self.unavailable = self._shell.unavailable  # a trial of the sandbox may have shown it now
            return not_started(error)
        text = await asyncio.to_thread(outcome.text, max_output_chars)
        return ToolResult(text, is_error=outcome.is_failure)


def default_shell() -> str:
    """Return the shell that reads commands unless another is named; looks at the disk."""
    return "bash" if shutil.which("bash", path=os.pathsep.join(STANDARD_PATH)) else "sh"
