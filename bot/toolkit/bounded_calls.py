"""The run of one accepted tool call: bounded in time, and whatever goes wrong in it comes back as a result."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import structlog

from bot.toolkit.base import DEFAULT_TIMEOUT_S, Tool, ToolResult
from bot.toolkit.results import ADVICE, as_result, failure_text

_log = structlog.get_logger("bot.toolkit")

CANCEL_GRACE_S = 5.0
"""How long a call that must stop may take to clean up before nobody waits for it any more."""


class BoundedCalls:
    """Runs calls within limits: those in `limits_s` by name, else the tool's own; `default_s` is for its default."""

    def __init__(self, *, default_s: float, limits_s: Mapping[str, float], grace_s: float) -> None:
        self._default_s = default_s
        self._limits_s = dict(limits_s)
        self._grace_s = grace_s
        self.left_behind: set[asyncio.Task[ToolResult]] = set()
        """Calls that must stop and have not yet."""

    async def run(self, tool: Tool, params: dict[str, Any]) -> ToolResult:
        """Run a call whose arguments were checked, within its time limit.

        The call has a task of its own, since a tool that swallows its cancellation could otherwise hold the
        caller for ever: after a grace it is left behind, and logged. When the caller is cancelled the call is
        too, and `CancelledError` goes on.
        """
        name = type(tool).__name__
        try:
            name, unavailable = tool.name, tool.unavailable
        except Exception as exc:  # noqa: BLE001 - part of the boundary of one tool call: a plugin's own code
            return ToolResult.error(f"Error executing {name}: {failure_text(exc)}\n\n{ADVICE}")
        if unavailable:
            return ToolResult.refused(f"Tool '{name}' cannot be used here: {unavailable}")
        limit_s = self.limit_s(tool, params)
        task = asyncio.create_task(_guarded(tool, name, params), name=f"tool:{name}")
        try:
            await asyncio.wait((task,), timeout=limit_s)
            timed_out = not task.done()
            if timed_out:
                await self._stop(task, name)
        except asyncio.CancelledError:
            await self._stop(task, name)
            raise
        if timed_out:
            text = f"Error: Tool '{name}' was stopped: it took longer than its limit of {limit_s:g} s."
            return ToolResult.error(f"{text}\n\n{ADVICE}")
        if task.cancelled():
            return ToolResult.error(f"Error executing {name}: it cancelled itself\n\n{ADVICE}")
        return task.result()

    def limit_s(self, tool: Tool, params: dict[str, Any]) -> float:
        """Return how long a call of the tool with these arguments may take, in seconds."""
        limit_s = self._limits_s.get(tool.name)
        if limit_s is None:
            try:
                limit_s = tool.time_limit_s(params)
            except Exception:  # noqa: BLE001 - part of the boundary of one tool call: a plugin's own code
                limit_s = None
        # A plugin may say None or 0 and mean "no limit"; every call has one.
        if not isinstance(limit_s, (int, float)) or not 0 < limit_s < math.inf or limit_s == DEFAULT_TIMEOUT_S:
            return self._default_s
        return limit_s

    async def _stop(self, task: asyncio.Task[ToolResult], name: str) -> None:
        self.left_behind.add(task)  # a strong reference, also when this wait is cut short
        task.add_done_callback(self.left_behind.discard)
        task.cancel()
        await asyncio.wait((task,), timeout=self._grace_s)
        if not task.done():
            _log.error("tool call does not stop", tool=name, waited_s=self._grace_s)


async def _guarded(tool: Tool, name: str, params: dict[str, Any]) -> ToolResult:
    try:
        raw = await tool.execute(**params)
        return as_result(tool, raw)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001 - boundary of one tool call; also SystemExit out of a plugin
        return ToolResult.error(f"Error executing {name}: {failure_text(exc)}\n\n{ADVICE}")
