"""The `run_cli_app` tool: programs that the configuration declares, with arguments that it allows.

Where a program may run is decided in `bot/shell/shell.py`; `[cli_apps.NAME]` is described in `bot/config/tools.py`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.config.tools import CliAppSection
from bot.messages import Replay, Risk
from bot.security.sandbox import path_folders
from bot.shell.launch import LaunchRefused
from bot.shell.run import DEFAULT_OUTPUT_CHARS, END_MARGIN_S, not_started, run
from bot.shell.shell import Shell
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.schema import ArraySchema, IntegerSchema, StringSchema, tool_parameters_schema

MAX_TIMEOUT_S = 600
MAX_ARGUMENTS = 200

_SHOWN_CHARS = 300  # of one app's description, in the tool's


@tool_parameters(
    tool_parameters_schema(
        name=StringSchema("The app, one of those in this tool's description.", min_length=1),
        args=ArraySchema(
            StringSchema("One argument, given as it is: no shell reads it."),
            description="The app's arguments in order (default none).",
            max_items=MAX_ARGUMENTS,
        ),
        timeout=IntegerSchema(
            description=f"Time limit in seconds, at most {MAX_TIMEOUT_S} (default 60, unless configured).",
            minimum=1,
            maximum=MAX_TIMEOUT_S,
        ),
        required=["name"],
        additional_properties=False,
    )
)
class RunCliAppTool(Tool):
    """Runs a program that the operator has declared, in the same sandbox as `exec`.

    Parameters: name (of a `[cli_apps.NAME]` section), args (at most 200 strings; each has to match one of the
    section's `arguments` rules in full, if it has any), timeout (1-600 s; default the section's, else `[tools.exec]
    timeout_s`). No shell reads anything. The program is looked for in `[tools.exec] path`, then the system;
    one named by its whole path may lie elsewhere: its folder (not what lies beside that) is readable for it.
    Limits: those of `exec`, with 10,000 characters of output. Result: as `exec`. Errors: as `exec`; no such app (lists
    those there are), an argument that no rule allows (says the rules). Only there when an app is declared.
    """

    _scopes = frozenset({"core", "subagent"})
    risk = Risk.EXECUTE
    replay = Replay.ONCE
    needs = "a section [cli_apps.NAME]"
    name = "run_cli_app"

    def __init__(
        self, shell: Shell, apps: Mapping[str, CliAppSection], *, folders: Sequence[str], timeout_s: float
    ) -> None:
        self._shell = shell
        self._apps = dict(sorted(apps.items()))
        self._folders = tuple(folders)
        self._timeout_s = timeout_s
        self.unavailable = shell.unavailable

    @classmethod
    def enabled(cls, ctx: ToolContext) -> bool:
        """Whether any app is declared."""
        return bool(ctx.config.cli_apps)

    @classmethod
    def create(cls, ctx: ToolContext) -> RunCliAppTool:
        """Build the tool from the ToolContext."""
        section = ctx.config.exec
        return cls(ctx.room.shell, ctx.config.cli_apps, folders=path_folders(section), timeout_s=section.timeout_s)

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        apps = "".join(f"\n- {name}: {_about(app)}" for name, app in self._apps.items())
        return f"Run one of these programs in this chat's folder, without a shell, and wait for its end:{apps}"

    @property
    def exclusive(self) -> bool:
        """See `Tool.exclusive`."""
        return True

    def time_limit_s(self, params: dict[str, Any]) -> float:
        """See `Tool.time_limit_s`; the program's own limit comes first."""
        return self._limit_s(str(params.get("name", "")), params.get("timeout")) + END_MARGIN_S

    def _limit_s(self, name: str, wanted: float | None) -> float:
        app = self._apps.get(name)
        return float(wanted or (app and app.timeout_s) or self._timeout_s)

    async def execute(
        self, *, name: str, args: Sequence[str] = (), timeout: float | None = None, **_: Any
    ) -> ToolResult:
        """Run the app; failures and refusals are results."""
        app = self._apps.get(name)
        if app is None:
            return ToolResult.error(f"There is no app {one_line(name)!r}. Apps: {', '.join(self._apps)}.")
        if problem := _rules_problem(app, args):
            return ToolResult.error(f"{name}: {problem}")
        program = await asyncio.to_thread(_find, app.command[0], self._folders)
        if not program:
            return ToolResult.error(
                f"{name}: its program {app.command[0]!r} is not installed where commands find programs. "
                "An operator can install it, give its whole path, or add its folder to [tools.exec] path."
            )
        try:
            launch = await self._shell.prepare(
                current_request(), [program, *app.command[1:], *args], programs=(Path(program).parent,)
            )
            outcome = await run(self._shell, launch, limit_s=self._limit_s(name, timeout))
        except (LaunchRefused, OSError) as error:
            self.unavailable = self._shell.unavailable  # a trial of the sandbox may have shown it now
            return not_started(error)
        text = await asyncio.to_thread(outcome.text, DEFAULT_OUTPUT_CHARS)
        return ToolResult(text, is_error=outcome.is_failure)


def _about(app: CliAppSection) -> str:
    text = " ".join(app.description.split()) or app.command[0]
    if app.arguments is None:
        return one_line(text, _SHOWN_CHARS)
    rules = " or ".join(app.arguments) if app.arguments else "none"
    return f"{one_line(text, _SHOWN_CHARS)} (arguments: {one_line(rules, _SHOWN_CHARS)})"


def _rules_problem(app: CliAppSection, args: Sequence[str]) -> str:
    """Return which argument no rule allows; '' if all is well."""
    if app.arguments is None or not args:
        return ""
    if not app.arguments:
        return "it takes no arguments"
    # Late: 25 ms, and most installations have no rules. Linear in its input, which a model writes.
    import re2

    rules = [re2.compile(pattern) for pattern in app.arguments]  # each was compiled when the configuration was read
    for position, argument in enumerate(args, 1):
        if not any(rule.fullmatch(argument) for rule in rules):
            return (
                f"argument {position}, {one_line(argument)!r}, is not allowed. "
                f"Each argument has to match in full: {' or '.join(app.arguments)}"
            )
    return ""


def _find(program: str, folders: Sequence[str]) -> str:
    """Return the absolute path of a program, '' if there is none. A relative path means nothing here."""
    if "/" in program and not program.startswith("/"):
        return ""
    return shutil.which(program, path=os.pathsep.join(folders)) or ""
