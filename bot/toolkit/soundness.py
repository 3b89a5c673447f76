"""Whether a tool is what it says it is: a plugin's properties are its own code, and everybody reads them.

Looked at once, when a tool is registered, so that one tool's mistake sets that tool aside instead of ending
every turn and every listing. Its schema is `compiled.py`'s part.
"""

from __future__ import annotations

from typing import Any

from bot.messages import Replay, Risk


def flaw_of(tool: Any) -> str | None:
    """Return what is wrong with the tool's properties, None when all can be used. Raises what a property raises."""
    if not isinstance(tool.description, str):
        return f"its description is of type {type(tool.description).__name__}, not text"
    if tool.risk not in list(Risk):
        return f"its risk is none of {', '.join(Risk)}"
    if tool.replay not in list(Replay):
        return f"its replay is none of {', '.join(Replay)}"
    scopes = tool._scopes  # noqa: SLF001 - the interface's own name
    if not isinstance(scopes, (set, frozenset, list, tuple)) or not all(isinstance(scope, str) for scope in scopes):
        return "its _scopes is not a set of names"
    if not isinstance(tool.unavailable, str):
        return f"its unavailable is of type {type(tool.unavailable).__name__}, not text"
    for name in ("read_only", "exclusive", "concurrency_safe", "repeatable", "ends_turn"):
        getattr(tool, name)
    return None
