"""`dutiful tools`: every tool with its risk, scope and status, also those that are off, and installed plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.toolkit.catalogue import ToolCatalogue, ToolListing
from bot.toolkit.loader import ToolLoader
from bot.toolkit.registry import ToolRegistry
from tests.support.program import ROOT, Program
from tests.support.tools import MadeTool


class WorkingTool(MadeTool):
    """Works. And more than that."""

    name = "working"

    @classmethod
    def create(cls, ctx: Any) -> WorkingTool:
        return cls()


class SwitchedOffTool(WorkingTool):
    """Is not wanted."""

    name = "switched_off"


class BareTool(WorkingTool):
    """Has no key."""

    name = "bare"

    @classmethod
    def enabled(cls, ctx: Any) -> bool:
        return False


class WalledTool(WorkingTool):
    """Has no sandbox."""

    name = "walled"
    unavailable = "bubblewrap is missing"
    _scopes = frozenset({"core", "subagent"})


def listings(*classes: type[MadeTool]) -> dict[str, ToolListing]:
    loader, registry = ToolLoader(test_classes=classes, disabled=["switched_off"]), ToolRegistry()
    loader.load(None, registry)
    registry.register(MadeTool("mcp_server_tool"))
    return {row.name: row for row in ToolCatalogue(loader, registry).listings()}


def test_the_status_says_why_a_tool_is_off() -> None:
    rows = listings(WorkingTool, SwitchedOffTool, BareTool, WalledTool)
    assert list(rows) == sorted(rows)
    assert {name: row.status for name, row in rows.items() if row.source in ("built-in", "mcp")} == {
        "working": "on",
        "switched_off": "off: in [tools] disabled",
        "bare": "off: not configured",
        "walled": "off: bubblewrap is missing",
        "mcp_server_tool": "on",
    }
    assert (rows["walled"].scopes, rows["walled"].risk) == (("core", "subagent"), "read")
    assert (rows["working"].summary, rows["working"].source) == ("Works", "built-in")
    assert rows["mcp_server_tool"].source == "mcp"


@pytest.fixture
def program(tmp_path: Path, site: Path) -> Program:
    made = Program(tmp_path)
    made.env["PYTHONPATH"] = f"{ROOT}:{site}"
    made.configure('[tools]\ndisabled = ["list_dir"]\n[tools.sample]\ngreeting = "hi"\n')
    return made


async def test_the_command_lists_built_ins_plugins_and_what_is_off(program: Program) -> None:
    result = await program.run("tools", "--json")
    assert result.code == 0, result.err
    rows = {row["name"]: row for row in result.json}
    assert (rows["read_file"]["risk"], rows["read_file"]["status"]) == ("read", "on")
    assert rows["list_dir"]["status"] == "off: in [tools] disabled"
    assert (rows["sample"]["status"], rows["sample"]["source"]) == ("on", "plugin sample")
    assert rows["sample_broken"]["status"].startswith("off: does not import")
    table = (await program.run("tools")).out
    assert "list_dir" in table
    assert "in [tools] disabled" in table


async def test_the_command_asks_a_running_service(program: Program) -> None:
    program.configure('[channels.console]\n[server]\nlisten = "off"\n[tools]\ndisabled = ["spawn"]\n')
    async with program.service():
        program.configure("[channels.console]\n")  # the service still has what it was started with
        rows = {row["name"]: row["status"] for row in (await program.run("tools", "--json")).json}
    assert rows["spawn"] == "off: in [tools] disabled"


async def test_a_plugin_is_given_its_section(program: Program) -> None:
    program.configure("[tools.sample]\ngreeting = 5\n")
    result = await program.run("tools")
    assert (result.code, result.out) == (78, "")
    assert "sample.greeting" in result.err


async def test_a_name_of_no_tool_among_the_disabled_stops_the_start(program: Program) -> None:
    program.configure('[tools]\ndisabled = ["exce", "mcp_server_tool", "sample", "sample_broken"]\n')
    for command in (("check",), ("tools",), ("chat", "-m", "hi")):
        result = await program.run(*command)
        assert result.code == 78
        assert "tools.disabled: unknown tool 'exce'; did you mean 'exec'?" in result.err
        assert "sample" not in result.err


async def test_what_is_not_configured_says_what_it_needs(program: Program) -> None:
    rows = {row["name"]: row["status"] for row in (await program.run("tools", "--json")).json}
    assert rows["generate_image"] == "off: not configured; it needs [tools.image] model"
    assert rows["run_cli_app"] == "off: not configured; it needs a section [cli_apps.NAME]"


async def test_a_plugin_that_says_no_risk_is_for_owners(program: Program) -> None:
    rows = {row["name"]: row["risk"] for row in (await program.run("tools", "--json")).json}
    assert rows["sample"] == "execute"


@pytest.mark.usefixtures("installed")
async def test_a_plugin_without_a_section_gets_its_defaults() -> None:
    sections = ToolLoader(test_classes=[]).default_sections()
    assert getattr(sections["sample"], "greeting") == "hello"  # noqa: B009 - the class is the plugin's
