"""The tool framework: checking one call, and the definitions of all tools."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bot.toolkit.base import Tool
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.schema import BooleanSchema, IntegerSchema, StringSchema, tool_parameters_schema
from tests.bench.figures import Figure

RUNS = 9
TOOLS = 25
US = 1_000_000

FIVE = tool_parameters_schema(
    path=StringSchema("Where.", min_length=1),
    pattern=StringSchema("What."),
    limit=IntegerSchema(description="How many.", minimum=1),
    offset=IntegerSchema(description="From where.", minimum=0),
    force=BooleanSchema(description="Whether at all costs."),
    required=["path"],
    additional_properties=False,
)
RIGHT = {"path": "notes/a.txt", "pattern": "x+", "limit": 20, "offset": 0, "force": False}
TO_CAST = {**RIGHT, "limit": "20", "force": "yes"}


class BenchTool(Tool):
    """Five parameters, as the larger built-in tools have."""

    _plugin_discoverable = False
    description = "does nothing"
    parameters = FIVE

    def __init__(self, number: int) -> None:
        self._name = f"tool_{number:02}"

    @property
    def name(self) -> str:
        return self._name

    async def execute(self, **_: Any) -> str:
        return ""


def _registry() -> ToolRegistry:
    registry = ToolRegistry()
    for number in range(TOOLS):
        registry.register(BenchTool(number))
    return registry


def _us_each(act: Callable[[], object], times: int) -> list[float]:
    """Microseconds per call, one value a run."""
    values = []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(times):
            act()
        values.append((time.perf_counter() - began) / times * US)
    return values


async def figures() -> list[Figure]:
    registry = _registry()
    extra = BenchTool(99)

    def change() -> object:
        registry.register(extra)
        registry.unregister(extra.name)
        return registry.get_definitions()

    def swap() -> object:
        registry.register(extra)
        registry.unregister(extra.name)
        return None

    uncached = [(whole - part) / TOOLS for whole, part in zip(_us_each(change, 200), _us_each(swap, 200), strict=True)]
    return [
        Figure(
            name="prepare_call, 5 right parameters",
            values=_us_each(lambda: registry.prepare_call("tool_07", dict(RIGHT)), 2_000),
            unit="us",
            limit="<= 15",
        ),
        Figure(
            name="prepare_call, 2 of 5 to be cast",
            values=_us_each(lambda: registry.prepare_call("tool_07", dict(TO_CAST)), 2_000),
            unit="us",
        ),
        Figure(
            name=f"get_definitions of {TOOLS} tools, cached",
            values=_us_each(registry.get_definitions, 20_000),
            unit="us",
            limit="<= 0.1",
        ),
        Figure(name="get_definitions uncached, per tool", values=uncached, unit="us", limit="<= 2"),
    ]
