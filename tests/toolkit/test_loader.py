from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog.testing

from bot.toolkit.base import Tool
from bot.toolkit.loader import ToolLoader, ToolLoadError
from bot.toolkit.registry import ToolRegistry
from tests.support.tools import MadeTool

TOOL_SOURCE = """
from bot.toolkit.base import Tool


class {cls}(Tool):
    name = "{name}"
    description = "d"
    parameters = {{"type": "object", "properties": {{}}}}

    async def execute(self, **kwargs):
        return "done"
"""


def tool_class(cls_name: str, tool_name: str, **members: Any) -> type[Tool]:
    def create(cls: type[Tool], ctx: Any) -> Tool:
        return cls(tool_name)  # type: ignore[call-arg]

    return type(cls_name, (MadeTool,), {"create": classmethod(create), **members})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, Path]]:
    """An importable empty package and its folder."""
    folder = tmp_path / "loaded_tools"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("loaded_tools"), folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "loaded_tools"]:
        del sys.modules[name]


# --- built-ins ---


def test_built_ins_are_the_tool_classes_of_the_packages_modules_by_class_name(
    package: tuple[ModuleType, Path],
) -> None:
    module, folder = package
    (folder / "zeta.py").write_text(TOOL_SOURCE.format(cls="AlphaTool", name="alpha"))
    (folder / "alpha.py").write_text(
        TOOL_SOURCE.format(cls="ZetaTool", name="zeta")
        + "class _PrivateTool(ZetaTool):\n    pass\n"
        + "class HiddenTool(ZetaTool):\n    _plugin_discoverable = False\n"
        + "class HalfTool(Tool):\n    pass\n"
        + "Alias = ZetaTool\n"
    )
    (folder / "user.py").write_text("from loaded_tools.zeta import AlphaTool\n")
    (folder / "_helper.py").write_text("raise RuntimeError\n")
    loader = ToolLoader(module)
    assert [cls.__name__ for cls in loader.discover()] == ["AlphaTool", "ZetaTool"]
    registry = ToolRegistry()
    assert loader.load(None, registry) == ["alpha", "zeta"]
    assert registry.tool_names == ["alpha", "zeta"]


def test_a_built_in_that_does_not_import_stops_the_start_naming_its_file(
    package: tuple[ModuleType, Path],
) -> None:
    module, folder = package
    (folder / "bad.py").write_text("import a_module_that_nobody_has\n")
    with pytest.raises(ToolLoadError, match=r"loaded_tools/bad\.py: .*a_module_that_nobody_has"):
        ToolLoader(module).discover()


def test_a_built_in_with_a_syntax_error_stops_the_start_naming_its_file(
    package: tuple[ModuleType, Path],
) -> None:
    module, folder = package
    (folder / "bad.py").write_text("def (\n")
    with pytest.raises(ToolLoadError, match=r"loaded_tools/bad\.py: .*SyntaxError"):
        ToolLoader(module).load(None, ToolRegistry())


def test_a_built_in_that_cannot_be_created_stops_the_start_naming_its_file() -> None:
    def create(cls: type[Tool], ctx: Any) -> Tool:
        raise RuntimeError("no key")

    bad = type("BadTool", (MadeTool,), {"create": classmethod(create)})
    with pytest.raises(ToolLoadError, match=r"\.py: BadTool cannot be created: RuntimeError: no key"):
        ToolLoader(test_classes=[bad]).load(None, ToolRegistry())


def test_a_built_in_whose_schema_does_not_compile_stops_the_start() -> None:
    def create(cls: type[Tool], ctx: Any) -> Tool:
        return MadeTool("bad", {"type": "nothing"})

    bad = type("BadTool", (MadeTool,), {"create": classmethod(create)})
    with pytest.raises(ToolLoadError, match="BadTool: its parameter schema cannot be used"):
        ToolLoader(test_classes=[bad]).load(None, ToolRegistry())


def test_only_enabled_tools_of_the_scope_are_loaded() -> None:
    class Ctx:
        allowed = "yes"

    classes = [
        tool_class("C", "c", _scopes={"core", "subagent"}),
        tool_class("A", "a"),
        tool_class("B", "b", _scopes={"subagent"}),
        tool_class("D", "d", enabled=classmethod(lambda cls, ctx: ctx.allowed == "no")),
        tool_class("E", "e", enabled=classmethod(lambda cls, ctx: ctx.allowed == "yes")),
    ]
    loader = ToolLoader(test_classes=classes)
    assert loader.load(Ctx(), ToolRegistry()) == ["a", "c", "e"]
    assert loader.load(Ctx(), ToolRegistry(), scope="subagent") == ["b", "c"]
    assert loader.load(Ctx(), ToolRegistry(), "memory") == []


def test_disabled_tools_are_left_out_without_being_created() -> None:
    created: list[str] = []

    class Costly(MadeTool):
        @property
        def name(self) -> str:
            return "costly"

        @classmethod
        def create(cls, ctx: Any) -> Tool:
            created.append("costly")
            return cls()

    classes: list[type[Tool]] = [Costly, tool_class("A", "a"), tool_class("B", "b")]
    assert ToolLoader(test_classes=classes, disabled=["costly", "b"]).load(None, ToolRegistry()) == ["a"]
    assert created == []


# --- plugins ---


class GreetTool(MadeTool):
    """The built-in whose name a plugin wants."""

    @property
    def name(self) -> str:
        return "greet"


@pytest.mark.usefixtures("installed")
async def test_an_installed_plugin_is_found_loaded_and_run() -> None:
    registry = ToolRegistry()
    loader = ToolLoader(test_classes=[GreetTool])
    assert {"greet", "sample"} <= set(loader.load(None, registry))
    assert await registry.execute("sample", {"who": "Ann"}) == "hello Ann"
    assert (await registry.execute("sample", {"who": "nobody"})).is_error


@pytest.mark.usefixtures("installed")
def test_a_plugin_that_fails_is_skipped_and_its_reason_kept() -> None:
    loader = ToolLoader(test_classes=[GreetTool])
    with structlog.testing.capture_logs() as logs:
        loader.load(None, ToolRegistry())
    failures = loader.failures
    assert sorted(name for name in failures if name.startswith("sample")) == [
        "sample_bad_schema",
        "sample_broken",
        "sample_half",
        "sample_imposter",
        "sample_misnamed",
        "sample_no_tool",
        "sample_quitter",
    ]
    assert "a_module_that_nobody_has" in failures["sample_broken"]
    assert failures["sample_imposter"] == "its tool name 'greet' is taken; a plugin never replaces another tool"
    assert "'not a name'" in failures["sample_misnamed"]
    assert "not a Tool class" in failures["sample_no_tool"]
    assert "lacks description, execute, name, parameters" in failures["sample_half"]
    assert "SystemExit" in failures["sample_quitter"]
    assert "schema cannot be used" in failures["sample_bad_schema"]
    said = {entry["plugin"] for entry in logs if entry["event"] == "tool plugin left out"}
    assert said == set(failures)


@pytest.mark.usefixtures("installed")
def test_a_plugin_does_not_take_the_name_of_a_built_in_that_is_off() -> None:
    class OffTool(GreetTool):
        @classmethod
        def enabled(cls, ctx: Any) -> bool:
            return False

    for loader in (
        ToolLoader(test_classes=[OffTool]),
        ToolLoader(test_classes=[GreetTool], disabled=["greet"]),
    ):
        registry = ToolRegistry()
        assert loader.load(None, registry) == ["sample"]
        assert "greet" not in registry


@pytest.mark.usefixtures("installed")
def test_a_plugin_takes_no_name_that_the_registry_already_holds() -> None:
    registry = ToolRegistry()
    registry.register(MadeTool("sample"))
    loader = ToolLoader(test_classes=[])
    assert loader.load(None, registry) == ["greet"]
    assert isinstance(registry.get("sample"), MadeTool)
    assert "taken" in loader.failures["sample"]


@pytest.mark.usefixtures("installed")
def test_plugins_can_be_disabled_and_have_scopes_too() -> None:
    loader = ToolLoader(test_classes=[], disabled=["sample", "greet"])
    assert loader.load(None, ToolRegistry()) == []
    assert ToolLoader(test_classes=[]).load(None, ToolRegistry(), scope="subagent") == ["sub"]


@pytest.mark.usefixtures("installed")
def test_plugins_are_looked_up_once(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    loader = ToolLoader(test_classes=[])
    found = loader._discover_plugins()
    assert "sample" in found
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(site)])
    importlib.invalidate_caches()
    assert loader._discover_plugins() == found
    assert "sample" not in ToolLoader(test_classes=[])._discover_plugins()


@pytest.mark.usefixtures("installed")
def test_config_sections_of_built_ins_and_plugins_are_collected() -> None:
    class Section:
        """What a built-in's section looks like is not the loader's matter."""

    built_in = tool_class("A", "a", config_key="web", config_cls=classmethod(lambda cls: Section))
    sections = ToolLoader(test_classes=[built_in, tool_class("B", "b")]).config_sections()
    assert {"sample", "web"} <= set(sections)  # other plugins may be installed beside the tests
    assert sections["web"] is Section
    assert sections["sample"].__name__ == "SampleConfig"


@pytest.mark.usefixtures("installed")
def test_a_plugin_does_not_take_a_built_ins_config_section() -> None:
    class Section:
        """The built-in's own."""

    built_in = tool_class("A", "a", config_key="sample", config_cls=classmethod(lambda cls: Section))
    loader = ToolLoader(test_classes=[built_in])
    assert loader.config_sections()["sample"] is Section
    assert "belongs to another tool" in loader.failures["sample"]
