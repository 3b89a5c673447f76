"""Tools that tests build on the spot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bot.toolkit.base import Tool
from bot.toolkit.registry import ToolRegistry


class MadeTool(Tool):
    """A tool of any name and schema; `run` gets the arguments as a dict. Not from `bot`: third-party."""

    _plugin_discoverable = False

    def __init__(
        self,
        name: str = "made",
        parameters: Any = None,
        run: Callable[[dict[str, Any]], Awaitable[Any]] | None = None,
    ) -> None:
        self._name = name
        self._parameters = {"type": "object", "properties": {}} if parameters is None else parameters
        self._run = run
        self.calls: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        return f"the tool {self._name}"

    @property
    def parameters(self) -> Any:
        return self._parameters

    async def execute(self, /, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        return "done" if self._run is None else await self._run(kwargs)


def registry_with(*tools: Tool, **options: Any) -> ToolRegistry:
    """Return a registry that holds the tools."""
    registry = ToolRegistry(**options)
    for tool in tools:
        registry.register(tool)
    return registry


def prepare(schema: Any, params: Any) -> tuple[Any, str | None]:
    """Put one call against one schema; return the arguments as they would run and the error."""
    registry = registry_with(MadeTool("made", schema))
    assert not registry.set_aside
    _, prepared, error = registry.prepare_call("made", params)
    return prepared, error


def one(schema: Any, **root: Any) -> dict[str, Any]:
    """Return a parameter schema with the one required property `x`; `root` adds keywords at the root."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], **root}
