"""What tools there are and whether each can be used: for `dutiful tools` and for the model that asks.

Loading is the loader's part, running the registry's; this only looks at both.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.toolkit.base import Tool
from bot.toolkit.loader import ToolLoader
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.results import failure_text

ON = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """One tool. `status` is "on", or "off: " and the reason; `source` is "built-in", "mcp" or "plugin NAME"."""

    name: str
    risk: str
    scopes: tuple[str, ...]
    status: str
    source: str
    summary: str


class ToolCatalogue:
    """The tools of one process."""

    def __init__(self, loader: ToolLoader, registry: ToolRegistry) -> None:
        self._loader = loader
        self._registry = registry

    def listings(self) -> list[ToolListing]:
        """Return all tools by name: those in use, those left out, and plugins that failed (by plugin name)."""
        rows = [
            _listing_of(tool, name, self._source(tool, name))
            for name in self._registry.tool_names
            if (tool := self._registry.get(name)) is not None
        ]
        rows += [
            _listing(cls, name, reason, self._source_of(cls)) for name, (cls, reason) in self._loader.left_out.items()
        ]
        rows += [_failed(name, reason, f"plugin {name}") for name, reason in self._loader.failures.items()]
        return sorted(rows, key=lambda row: row.name)

    def _source(self, tool: Tool, name: str) -> str:
        return "mcp" if name.startswith("mcp_") else self._source_of(type(tool))

    def _source_of(self, cls: type[Tool]) -> str:
        plugin = self._loader.plugin_of(cls)
        return "built-in" if plugin is None else f"plugin {plugin}"


def _listing_of(tool: Tool, name: str, source: str) -> ToolListing:
    try:
        return _listing(tool, name, tool.unavailable, source)
    except Exception as exc:  # noqa: BLE001 - a plugin's own code; the other rows are still wanted
        return _failed(name, failure_text(exc), source)


def _failed(name: str, reason: str, source: str) -> ToolListing:
    return ToolListing(name=name, risk="", scopes=(), status=f"off: {reason}", source=source, summary="")


def _listing(tool: Tool | type[Tool], name: str, off: str, source: str) -> ToolListing:
    cls = tool if isinstance(tool, type) else type(tool)
    return ToolListing(
        name=name,
        risk=str(tool.risk) if isinstance(tool.risk, str) else "",  # a class may have a property there
        scopes=tuple(sorted(map(str, cls._scopes or ()))),
        status=f"off: {off}" if off else ON,
        source=source,
        summary=summary_of(cls),
    )


def summary_of(cls: type[Tool]) -> str:
    """Return the first sentence of the class's docstring."""
    text = " ".join(str(cls.__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".")
