"""Finds tools and puts them into a registry: the modules of `bot.tools`, then plugins by entry point.

A built-in that does not load is a broken installation and stops the start. A plugin that does not load is
left out and remembered in `failures`, which `dutiful doctor` repeats; it never takes a built-in's name.

A plugin is a class of an installed distribution, named in its pyproject.toml:

    [project.entry-points."dutiful.tools"]
    weather = "dutiful_weather:WeatherTool"
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TextIO

import structlog
from pydantic import BaseModel

from bot.config import may_be_plugin_section
from bot.errors import DutifulError
from bot.messages import Risk
from bot.toolkit.base import Tool
from bot.toolkit.measure import shorten
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.results import failure_text

_log = structlog.get_logger("bot.toolkit")

PLUGIN_GROUP = "dutiful.tools"
_BUILTIN_PACKAGE = "bot.tools"

_DISABLED = "in [tools] disabled"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names that every provider takes; one bad name would make the whole request invalid."""


class ToolLoadError(DutifulError):
    """A built-in tool does not load; the text names its file."""


class ToolLoader:
    """Discovers once, loads into any number of registries (one per scope).

    `package` is where built-ins live (default `bot.tools`), `test_classes` stands in for it in tests. Tools
    whose names are in `disabled` are left out, built-ins and plugins alike.
    """

    def __init__(
        self,
        package: ModuleType | None = None,
        *,
        test_classes: Sequence[type[Tool]] | None = None,
        disabled: Collection[str] = (),
    ) -> None:
        self._package = package
        self._discovered = None if test_classes is None else sorted(test_classes, key=lambda cls: cls.__name__)
        self._plugins: dict[str, type[Tool]] | None = None
        self._disabled = frozenset(disabled)
        self.failures: dict[str, str] = {}
        """Plugins that are not in use though installed, by entry-point name, and why."""
        self._told: dict[str, str] = {}
        self.left_out: dict[str, tuple[type[Tool], str]] = {}
        """Tools that work but are not in use, by tool name: their class, and why."""

    def discover(self) -> list[type[Tool]]:
        """Return the built-in tool classes, sorted by class name.

        Raises:
            ToolLoadError: a module does not import.
        """
        if self._discovered is None:
            package = self._package
            if package is None:
                package = importlib.import_module(_BUILTIN_PACKAGE)  # by name: tools stand a floor above
            found = [cls for module in _import_all(package) for cls in _tool_classes(module)]
            self._discovered = sorted(found, key=lambda cls: cls.__name__)
        return list(self._discovered)

    def _discover_plugins(self) -> dict[str, type[Tool]]:
        """Return the plugin classes by entry-point name, in the order of these names. Looks only once."""
        if self._plugins is None:
            self._plugins = {}
            for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: (point.name, point.value)):
                if point.name in self._plugins:
                    self._fail(point.name, f"a second plugin of this name ({point.value}) was left out")
                    continue
                cls = self._load_plugin(point)
                if cls is not None:
                    self._plugins[point.name] = cls
        return dict(self._plugins)

    def plugin_of(self, cls: type[Tool]) -> str | None:
        """Return the entry-point name of a plugin's class, None for a class that is none."""
        return next((name for name, plugin in self._discover_plugins().items() if plugin is cls), None)

    def known_names(self) -> set[str]:
        """Return every name that `disabled` may mean: of tools, and of plugins whose tools have no fixed one."""
        built_ins = {declared_name(cls) or cls.__name__ for cls in self.discover()}
        return (
            built_ins
            | {declared_name(cls) or name for name, cls in self._discover_plugins().items()}
            | set(self.failures)
        )

    def default_sections(self) -> dict[str, BaseModel]:
        """Return the sections that hold where the configuration has none, of those whose keys all have defaults."""
        defaults: dict[str, BaseModel] = {}
        for key, model in self.config_sections().items():
            with contextlib.suppress(Exception):  # a plugin's own code, or a key without a default
                defaults[key] = model()
        return defaults

    def config_sections(self) -> dict[str, type[Any]]:
        """Return the config models of all tools by section name (`config_key`)."""
        sections: dict[str, type[Any]] = {}
        for cls in self.discover():
            model = cls.config_cls()
            if cls.config_key and model is not None:
                sections[cls.config_key] = model
        for name, cls in self._discover_plugins().items():
            try:
                with _quiet_stdout():
                    key, model = _section_of(cls)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as exc:  # noqa: BLE001 - a plugin's code; it must not stop the start
                self._leave_out(name, f"its config_cls failed: {failure_text(exc)}")
                continue
            if model is None:
                continue
            if not may_be_plugin_section(key):
                self._leave_out(name, f"its config_key {shorten(key, 100)!r} is no name for a plugin's section")
            elif not (isinstance(model, type) and issubclass(model, BaseModel)):
                self._leave_out(name, "its config_cls gives no pydantic model")
            elif sections.setdefault(key, model) is not model:
                self._leave_out(name, f"its config section '{key}' belongs to another tool")
        return sections

    def load(self, ctx: Any, registry: ToolRegistry, scope: str = "core") -> list[str]:
        """Create the tools of a scope that are enabled and register them; return their names.

        Raises:
            ToolLoadError: a built-in cannot be imported or created, or its schema does not compile.
        """
        loaded: list[str] = []
        reserved: set[str] = set()
        self.config_sections()  # a plugin whose section cannot be read is not loaded without it
        for cls in self.discover():
            tool = self._create_builtin(cls, ctx, scope, reserved)
            if tool is None:
                continue
            registry.register(tool)
            if tool.name in registry.set_aside:
                raise ToolLoadError(f"{_file_of(cls)}: {cls.__name__}: {registry.set_aside[tool.name]}")
            loaded.append(tool.name)
        for name, cls in self._discover_plugins().items():
            tool = self._create_plugin(name, cls, ctx, scope)
            if tool is not None and self._may_register(name, tool, reserved | set(registry.tool_names)):
                registry.register(tool)
                if tool.name in registry.set_aside:
                    self._fail(name, registry.set_aside[tool.name])
                else:
                    loaded.append(tool.name)
        # Only here: what is found while the configuration is read comes before logging is set up.
        for name, reason in self.failures.items() - self._told.items():
            _log.error("tool plugin left out", plugin=name, reason=reason)
        self._told |= self.failures
        return loaded

    def _create_builtin(self, cls: type[Tool], ctx: Any, scope: str, reserved: set[str]) -> Tool | None:
        try:
            declared = declared_name(cls)
            reserved.update([declared] if declared else [])
            if scope not in cls._scopes:
                return None
            if declared in self._disabled or not cls.enabled(ctx):
                reason = _DISABLED if declared in self._disabled else _unconfigured(cls)
                self.left_out[declared or cls.__name__] = (cls, reason)
                return None
            tool = cls.create(ctx)
            reserved.add(tool.name)
        except Exception as exc:
            raise ToolLoadError(f"{_file_of(cls)}: {cls.__name__} cannot be created: {failure_text(exc)}") from exc
        if tool.name in self._disabled:
            self.left_out[tool.name] = (cls, _DISABLED)
            return None
        return tool

    def _create_plugin(self, point: str, cls: type[Tool], ctx: Any, scope: str) -> Tool | None:
        try:
            with _quiet_stdout():
                if scope not in cls._scopes:
                    return None
                if not cls.enabled(ctx):
                    self.left_out[declared_name(cls) or point] = (cls, _unconfigured(cls))
                    return None
                tool = cls.create(ctx)
                name: Any = tool.name
                if not _says_risk(tool):
                    tool.risk = Risk.EXECUTE  # closed by default: nobody but an owner may try what it does
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:  # noqa: BLE001 - a plugin's code; it must not stop the start
            self._fail(point, f"cannot be created: {failure_text(exc)}")
            return None
        if isinstance(name, str) and _NAME.fullmatch(name):
            return tool
        self._fail(point, f"its tool name {name!r} is not of the form [A-Za-z_][A-Za-z0-9_-]*")
        return None

    def _may_register(self, point: str, tool: Tool, taken: set[str]) -> bool:
        if tool.name in self._disabled:
            self.left_out[tool.name] = (type(tool), _DISABLED)
            return False
        if tool.name in taken:
            self._fail(point, f"its tool name '{tool.name}' is taken; a plugin never replaces another tool")
            return False
        return True

    def _load_plugin(self, point: EntryPoint) -> type[Tool] | None:
        try:
            with _quiet_stdout():
                cls = point.load()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:  # noqa: BLE001 - a plugin's code; it must not stop the start
            self._fail(point.name, f"does not import ({point.value}): {failure_text(exc)}")
            return None
        if not (isinstance(cls, type) and issubclass(cls, Tool)):
            self._fail(point.name, f"{point.value} is not a Tool class")
            return None
        missing = sorted(cls.__abstractmethods__)
        if missing:
            self._fail(point.name, f"{point.value} lacks {', '.join(missing)}")
            return None
        return cls if cls._plugin_discoverable else None

    def _leave_out(self, name: str, reason: str) -> None:
        self._fail(name, reason)
        if self._plugins is not None:
            del self._plugins[name]

    def _fail(self, name: str, reason: str) -> None:
        self.failures[name] = reason


def _quiet_stdout() -> contextlib.redirect_stdout[TextIO]:
    """Send what a plugin prints to standard error: standard output is for answers, of which some are JSON."""
    return contextlib.redirect_stdout(sys.stderr)


def _section_of(cls: type[Tool]) -> tuple[str, Any]:
    """Return a plugin's section name and model, None for no section. Raises what the plugin's code raises."""
    key: Any = cls.config_key
    if not isinstance(key, str):
        raise TypeError(f"config_key is of type {type(key).__name__}, not text")
    return key, cls.config_cls() if key else None


def _import_all(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__):
        if found.name.startswith("_"):
            continue
        try:
            yield importlib.import_module(f"{package.__name__}.{found.name}")
        except Exception as exc:
            spec = importlib.util.find_spec(f"{package.__name__}.{found.name}")
            file = spec.origin if spec and spec.origin else found.name
            raise ToolLoadError(f"{file}: the built-in tool does not import: {failure_text(exc)}") from exc


def _tool_classes(module: ModuleType) -> Iterator[type[Tool]]:
    for name, value in vars(module).items():
        if (
            isinstance(value, type)
            and issubclass(value, Tool)
            and value.__module__ == module.__name__  # imported ones belong to their own module
            and not name.startswith("_")
            and value.__name__ == name
            and not value.__abstractmethods__
            and value._plugin_discoverable  # noqa: SLF001 - the interface's own name
        ):
            yield value


def _unconfigured(cls: type[Tool]) -> str:
    needs = getattr(cls, "needs", "")
    return f"not configured; it needs {needs}" if needs and isinstance(needs, str) else "not configured"


def _says_risk(tool: Tool) -> bool:
    own = (vars(cls) for cls in type(tool).__mro__ if cls is not Tool)
    return "risk" in getattr(tool, "__dict__", {}) or any("risk" in members for members in own)


def declared_name(cls: type[Tool]) -> str | None:
    """Return the name a class's tools bear where that can be told without creating one."""
    declared: Any = getattr(cls, "name", None)
    if isinstance(declared, property) and declared.fget is not None:
        try:
            declared = declared.fget(object.__new__(cls))
        except Exception:  # noqa: BLE001 - a class's own code; its name depends on what the constructor sets
            return None
    return declared if isinstance(declared, str) else None


def _file_of(cls: type[Tool]) -> str:
    return getattr(importlib.import_module(cls.__module__), "__file__", None) or cls.__module__
