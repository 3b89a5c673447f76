"""run_cli_app: only declared programs, only allowed arguments, no shell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.config import ToolsConfig
from bot.config.tools import CliAppSection, ExecSection
from bot.messages import Replay, Risk
from bot.toolkit.base import ToolResult
from bot.toolkit.results import ADVICE
from bot.tools.run_cli_app import RunCliAppTool
from tests.support.commands import BWRAP_PROBLEM, OWNER, UNSANDBOXED, Commands, commands, needs_bwrap
from tests.support.contexts import ToolDesk, tool_context

SECTION = UNSANDBOXED if BWRAP_PROBLEM else ExecSection()

APPS = {
    "show": CliAppSection(command=["printf", "<%s>"], description="Prints its arguments.", arguments=None),
    "size": CliAppSection(command=["wc", "-c"], arguments=[r"[a-z]+\.txt", "--version"]),
    "hour": CliAppSection(command=["date", "+%H"], arguments=[]),
    "slow": CliAppSection(command=["sleep", "300"], arguments=[], timeout_s=1),
    "absent": CliAppSection(command=["no-such-program"]),
    "relative": CliAppSection(command=["./program"]),
    "hard": CliAppSection(command=["echo"], arguments=["(a+)+b"]),
}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Commands]:
    async with commands(tmp_path, SECTION, apps=APPS) as made:
        yield made


async def app(desk: Commands, name: str, *args: str, **params: object) -> ToolResult:
    return await desk.call(OWNER, "run_cli_app", name=name, args=list(args), **params)


async def test_arguments_reach_the_program_as_they_are(desk: Commands) -> None:
    args = ["$HOME", "a b", "; ls", "`id`", "$(id)", "*", "'", '"', "\\", "", "-n", "ü🙂", "a\nb"]
    result = await app(desk, "show", *args)
    assert result.startswith("".join(f"<{arg}>" for arg in args))
    assert "exit code 0" in result
    assert "<>" in await desk.call(OWNER, "run_cli_app", name="show")


async def test_fixed_arguments_come_first_and_the_folder_is_the_chats(desk: Commands) -> None:
    (desk.root() / "a.txt").write_text("12345")
    assert (await app(desk, "size", "a.txt")).startswith("5 a.txt\n[exit code 0")


@pytest.mark.parametrize("argument", ["a.txt.sh", "/etc/passwd", "../a.txt", "a.txt\n", "A.txt", "--files0-from=x", ""])
async def test_an_argument_that_no_rule_matches_in_full_is_an_error_with_the_rules(
    desk: Commands, argument: str
) -> None:
    result = await app(desk, "size", "a.txt", argument)
    assert result.is_error
    assert "argument 2" in result
    assert r"Each argument has to match in full: [a-z]+\.txt or --version" in result


async def test_no_arguments_means_none(desk: Commands) -> None:
    assert "exit code 0" in await app(desk, "hour")
    refused = await app(desk, "hour", "-s", "12:00")
    assert refused == f"hour: it takes no arguments\n\n{ADVICE}"


@pytest.mark.parametrize(
    ("argument", "words"), [("a\x00b", "NUL"), ("\ud800", "surrogate"), ("x" * 200_000, "too long")]
)
async def test_what_no_program_can_be_given_is_an_error(desk: Commands, argument: str, words: str) -> None:
    result = await app(desk, "show", argument)
    assert result.is_error
    assert words in result


async def test_an_unknown_app_is_an_error_that_lists_them(desk: Commands) -> None:
    result = await app(desk, "bash")
    assert result == (f"There is no app 'bash'. Apps: absent, hard, hour, relative, show, size, slow.\n\n{ADVICE}")


@pytest.mark.parametrize("name", ["absent", "relative"])
async def test_a_program_that_is_not_there_says_what_an_operator_can_do(desk: Commands, name: str) -> None:
    result = await app(desk, name)
    assert result.is_error
    assert "[tools.exec] path" in result


async def test_no_argument_can_hang_a_rule(desk: Commands) -> None:
    # With backtracking this takes longer than the universe has time.
    assert "is not allowed" in await app(desk, "hard", "a" * 50_000)


async def test_the_time_limit_is_the_calls_then_the_apps_then_the_configured_one(desk: Commands) -> None:
    assert desk.apps.time_limit_s({"name": "slow"}) == 16.5
    assert desk.apps.time_limit_s({"name": "slow", "timeout": 5}) == 20.5
    assert desk.apps.time_limit_s({"name": "show"}) == 75.5
    result = await app(desk, "slow")
    assert result.is_error
    assert "timed out: ended after its limit of 1 s" in result


def greeter(folder: Path) -> Path:
    folder.mkdir(parents=True)
    program = folder / "greet"
    program.write_text('#!/bin/sh\ncat "$(dirname "$0")/words" ../../../secret\n')
    program.chmod(0o755)
    (folder / "words").write_text("greetings\n")
    return program


@needs_bwrap
async def test_a_program_elsewhere_sees_its_own_folder_and_nothing_beside_it(tmp_path: Path) -> None:
    program = greeter(tmp_path / "opt" / "bin")
    (tmp_path / "secret").write_text("TOP SECRET")
    (tmp_path / "opt" / "beside").write_text("TOP SECRET")
    apps = {
        "greet": CliAppSection(command=[str(program)]),
        "look": CliAppSection(command=["cat", str(tmp_path / "opt" / "beside")]),
    }
    async with commands(tmp_path, apps=apps) as desk:
        result = await app(desk, "greet")
        assert result.startswith("greetings\n")
        assert "TOP SECRET" not in result
        assert "TOP SECRET" not in await app(desk, "look")


async def test_the_configured_path_comes_before_the_systems(tmp_path: Path) -> None:
    greeter(tmp_path / "opt").rename(tmp_path / "opt" / "date")
    section = SECTION.model_copy(update={"path": str(tmp_path / "opt")})
    async with commands(tmp_path, section, apps={"date": CliAppSection(command=["date"])}) as desk:
        assert (await app(desk, "date")).startswith("greetings\n")


async def test_it_exists_only_with_apps_and_lists_them(tmp_path: Path) -> None:
    async with tool_context(tmp_path, config=ToolsConfig(exec=SECTION, cli_apps=APPS)) as ctx:
        assert RunCliAppTool.enabled(ctx)
        tool = RunCliAppTool.create(ctx)
        assert (
            "\n- show: Prints its arguments.\n- size: wc (arguments: [a-z]+\\.txt or --version)\n" in tool.description
        )
        assert "\n- hour: date (arguments: none)" in tool.description
        assert (tool.risk, tool.replay, tool.exclusive) == (Risk.EXECUTE, Replay.ONCE, True)
        assert "run_cli_app" in ToolDesk(ctx).names
    async with tool_context(tmp_path / "none", config=ToolsConfig(exec=SECTION)) as ctx:
        assert not RunCliAppTool.enabled(ctx)
