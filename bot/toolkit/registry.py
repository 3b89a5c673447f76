"""The tools that exist now: their definitions for the model, and the check of a call.

Who may use which tool is decided in `bot/access/`; a turn gets a `subset`. In which order and how many calls
of a step run is the runner's part; the run itself is that of `bounded_calls`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import structlog

from bot.toolkit.arguments import ArgumentsError, coerce
from bot.toolkit.base import DEFAULT_TIMEOUT_S, Tool, ToolResult
from bot.toolkit.bounded_calls import CANCEL_GRACE_S, BoundedCalls
from bot.toolkit.closest_name import closest_name
from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.definitions import DefinitionCache, Definitions
from bot.toolkit.measure import shorten
from bot.toolkit.results import ADVICE, failure_text
from bot.toolkit.schema_index import SchemaError
from bot.toolkit.soundness import flaw_of

_log = structlog.get_logger("bot.toolkit")

Prepared = tuple[Tool | None, Any, str | None]
"""The tool (None: no such tool), the arguments as they would be used, the reason why not (None: run it)."""

_MAX_SUBSETS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One registered tool and what was learned about it at registration."""

    tool: Tool
    compiled: CompiledSchema | None  # None: not yet, see `Tool.compiles_late`
    definition: dict[str, Any]
    definition_json: bytes
    own_checks: bool  # the class has its own cast_params or validate_params


class ToolSubset:
    """The tools of one turn: everything outside `names` is absent. Follows the registry's changes."""

    def __init__(self, registry: ToolRegistry, names: frozenset[str]) -> None:
        self._registry = registry
        self._allowed = names
        self._version = -1
        self._cache = DefinitionCache(())

    def _definitions(self) -> DefinitionCache:
        if self._version != self._registry.version:
            self._cache = self._registry.definitions_of(self._allowed)
            self._version = self._registry.version
        return self._cache

    @property
    def tool_names(self) -> list[str]:
        """The names, in the order of the definitions."""
        return self._definitions().names

    def get(self, name: str) -> Tool | None:
        """Return the tool, or None when there is none of that name here."""
        return self._registry.get(name) if name in self._allowed else None

    def has(self, name: str) -> bool:
        """Whether there is such a tool here."""
        return name in self._allowed and self._registry.has(name)

    def __contains__(self, name: object) -> bool:
        return name in self._allowed and name in self._registry

    def __len__(self) -> int:
        return len(self._definitions().names)

    def get_definitions(self) -> Definitions:
        """As `ToolRegistry.get_definitions`."""
        return self._definitions().as_list()

    def definitions_json(self) -> bytes:
        """As `ToolRegistry.definitions_json`."""
        return self._definitions().as_json()

    def prepare_call(self, name: Any, params: Any, *, truncated: bool = False) -> Prepared:
        """As `ToolRegistry.prepare_call`; a tool outside the subset is not found."""
        return self._registry.prepare_call(name, params, truncated=truncated, among=self)

    async def execute(self, name: Any, params: Any, *, truncated: bool = False) -> ToolResult:
        """As `ToolRegistry.execute`; a tool outside the subset is not found."""
        return await self._registry.execute(name, params, truncated=truncated, among=self)

    async def run(self, tool: Tool, params: dict[str, Any]) -> ToolResult:
        """As `ToolRegistry.run`."""
        return await self._registry.run(tool, params)


class ToolRegistry:
    """All tools by name.

    `time_limits_s` overrides the limits of single tools, by name; `time_limit_s` is for those that leave theirs at
    the default.
    """

    def __init__(
        self,
        *,
        time_limit_s: float = DEFAULT_TIMEOUT_S,
        time_limits_s: Mapping[str, float] | None = None,
        cancel_grace_s: float = CANCEL_GRACE_S,
    ) -> None:
        self._entries: dict[str, _Entry] = {}
        self.calls = BoundedCalls(default_s=time_limit_s, limits_s=time_limits_s or {}, grace_s=cancel_grace_s)
        self._cache: DefinitionCache | None = None
        self._subsets: dict[frozenset[str], ToolSubset] = {}
        self.version = 0
        """Counts changes, so that a holder of something derived can tell that it is out of date."""
        self.set_aside: dict[str, str] = {}
        """Tools that are not usable, by name, and why: most often a schema that does not compile."""

    def register(self, tool: Tool) -> None:
        """Add the tool, in place of one of the same name. One with an unusable schema is set aside."""
        name = tool.name
        self.unregister(name)
        try:
            _require_sound(tool)
            compiled = None if tool.compiles_late else _usable_schema(tool)
            definition = tool.to_schema()
            definition_json = orjson.dumps(definition)
            definition = orjson.loads(definition_json)
        except BaseException as exc:  # a plugin's properties, a server's schema
            if not _is_failure(exc):
                raise
            self._set_aside(name, exc)
            return
        cls = type(tool)
        own_checks = cls.cast_params is not Tool.cast_params or cls.validate_params is not Tool.validate_params
        self._entries[name] = _Entry(
            tool=tool,
            compiled=compiled,
            definition=definition,
            definition_json=definition_json,
            own_checks=own_checks,
        )

    async def check(self, name: str) -> None:
        """Compile the schema of a tool that `compiles_late`, off the loop; set the tool aside if that fails."""
        entry = self._entries.get(name)
        if entry is None or entry.compiled is not None:
            return
        failure: BaseException | None = None
        try:
            compiled = await asyncio.to_thread(_usable_schema, entry.tool)
        except BaseException as exc:  # a server's schema
            if not _is_failure(exc):
                raise
            failure = exc
        if self._entries.get(name) is not entry:  # replaced meanwhile
            return
        if failure is not None:
            self._set_aside(name, failure)
        else:
            self._entries[name] = replace(entry, compiled=compiled)

    def _set_aside(self, name: str, exc: BaseException) -> None:
        self.unregister(name)
        self.set_aside[name] = _why_set_aside(exc)
        _log.warning("tool set aside", tool=name, reason=self.set_aside[name])

    def unregister(self, name: str) -> None:
        """Remove the tool; without effect when there is none."""
        self._entries.pop(name, None)
        self.set_aside.pop(name, None)
        self._cache = None
        self.version += 1

    def get(self, name: str) -> Tool | None:
        """Return the tool, or None."""
        entry = self._entries.get(name)
        return None if entry is None else entry.tool

    def has(self, name: str) -> bool:
        """Whether there is such a tool."""
        return name in self._entries

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def tool_names(self) -> list[str]:
        """All names, in the order of the definitions."""
        return self._definitions().names

    def subset(self, names: Iterable[str]) -> ToolSubset:
        """Return the view in which only `names` exist; the same names give the same view."""
        key = frozenset(names)
        view = self._subsets.get(key)
        if view is None:
            if len(self._subsets) >= _MAX_SUBSETS:
                self._subsets.clear()
            view = self._subsets[key] = ToolSubset(self, key)
        return view

    def definitions_of(self, names: frozenset[str]) -> DefinitionCache:
        """Build the definitions of the registered tools among `names`."""
        return DefinitionCache(
            (name, entry.definition, entry.definition_json) for name, entry in self._entries.items() if name in names
        )

    def _definitions(self) -> DefinitionCache:
        if self._cache is None:
            self._cache = self.definitions_of(frozenset(self._entries))
        return self._cache

    def get_definitions(self) -> Definitions:
        """Return the OpenAI function definitions: built-ins by name, then `mcp_*` by name.

        The caller may change the list and what is in it; nobody else sees that.
        """
        cache = self._cache
        return (self._definitions() if cache is None else cache).as_list()

    def definitions_json(self) -> bytes:
        """Return the same as JSON text, encoded once per change of the registry."""
        return self._definitions().as_json()

    def prepare_call(
        self, name: Any, params: Any, *, truncated: bool = False, among: ToolSubset | None = None
    ) -> Prepared:
        """Resolve the name, coerce, cast and validate the arguments. Never raises.

        `truncated` says that the length limit ended the model's reply: arguments that are not complete JSON
        are refused then, also when they are missing altogether. `among` limits the choice of tools.
        """
        entry = None
        try:
            if isinstance(name, str) and (among is None or name in among):
                entry = self._entries.get(name)
            if entry is None:
                return None, params, self._not_found(name, among or self)
            return self._check(entry, str(name), params, truncated=truncated)
        except BaseException as exc:  # a call must not end its turn, whatever was sent
            if not _is_failure(exc):
                raise
            tool = None if entry is None else entry.tool
            shown = shorten(str(name) if isinstance(name, str) else type(name).__name__, 100)
            return (
                tool,
                params,
                f"Error: Invalid parameters for tool '{shown}': not checkable ({type(exc).__name__})",
            )

    def _check(self, entry: _Entry, name: str, params: Any, *, truncated: bool) -> Prepared:
        try:
            compiled = entry.compiled or _usable_schema(entry.tool)
        except SchemaError as exc:
            self._set_aside(name, exc)
            return None, params, self._not_found(name, self)
        if type(params) is dict and not (len(params) == 1 and "arguments" in params):
            value = params
        else:
            try:
                value = coerce(params, compiled.declares, truncated=truncated)
            except ArgumentsError as exc:
                return entry.tool, params, f"Error: Tool '{name}' parameters {exc}"
        if entry.own_checks:
            value = entry.tool.cast_params(value)
            problems = entry.tool.validate_params(value)
        else:
            value, problems = compiled.prepare(value)
        if problems:
            return entry.tool, value, f"Error: Invalid parameters for tool '{name}': {'; '.join(problems)}"
        return entry.tool, value, None

    def _not_found(self, name: Any, among: ToolRegistry | ToolSubset) -> str:
        shown = shorten(name if isinstance(name, str) else f"of type {type(name).__name__}", 100)
        if isinstance(name, str) and name in self.set_aside:
            return f"Error: Tool '{shown}' not found: it was set aside, {self.set_aside[name]}"
        names = among.tool_names
        close = closest_name(name, names) if isinstance(name, str) else None
        hint = f" Did you mean '{close}'? Names must match exactly." if close else ""
        return f"Error: Tool '{shown}' not found.{hint} Available: {', '.join(names) or 'none'}"

    async def execute(
        self, name: Any, params: Any, *, truncated: bool = False, among: ToolSubset | None = None
    ) -> ToolResult:
        """Prepare and run one call. Everything but cancellation of the caller comes back as a result."""
        tool, prepared, error = self.prepare_call(name, params, truncated=truncated, among=among)
        if error is not None or tool is None:
            return ToolResult.error(f"{error}\n\n{ADVICE}")
        return await self.calls.run(tool, prepared)

    async def run(self, tool: Tool, params: dict[str, Any]) -> ToolResult:
        """Run a call that `prepare_call` accepted; see `BoundedCalls.run`."""
        return await self.calls.run(tool, params)


class _UnsoundError(Exception):
    """A tool whose properties cannot be used; the text says which."""


def _require_sound(tool: Tool) -> None:
    try:
        flaw = flaw_of(tool)
    except Exception as exc:  # noqa: BLE001 - a plugin's own code
        flaw = f"its properties cannot be read: {failure_text(exc)}"
    if flaw:
        raise _UnsoundError(flaw)


def _usable_schema(tool: Tool) -> CompiledSchema:
    """Return a tool's schema, compiled. Raises `SchemaError`, and whatever a plugin raises."""
    compiled = tool.compiled()
    if not compiled.allows_object():
        raise SchemaError("its root allows no object")
    return compiled


def _why_set_aside(exc: BaseException) -> str:
    if isinstance(exc, _UnsoundError):
        return shorten(str(exc), 300)
    reason = str(exc) if isinstance(exc, SchemaError) else failure_text(exc)
    return f"its parameter schema cannot be used: {shorten(reason, 300)}"


def _is_failure(exc: BaseException) -> bool:
    # A panic in the validator's native code is no Exception, yet only says that this value was too much.
    return isinstance(exc, Exception) or type(exc).__name__ == "PanicException"
