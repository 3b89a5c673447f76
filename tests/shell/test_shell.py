"""Who may run commands where: configuration, role, chat and what the machine can do."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from bot.config.tools import ExecSection
from bot.messages import ChatType, Role
from bot.shell.detection import detect
from bot.shell.launch import LaunchRefused
from bot.toolkit.context import RequestContext
from tests.support.commands import MEMBER, OWNER, OWNER_IN_GROUP, commands, needs_bwrap, open_descriptors
from tests.support.contexts import request_context

GUEST = request_context("4", role=Role.GUEST)
MEMBER_IN_GROUP = request_context("5", chat_type=ChatType.GROUP)
CONSOLE = request_context("console", channel="console", role=Role.OWNER)
OTHERS = [OWNER_IN_GROUP, MEMBER, MEMBER_IN_GROUP, GUEST]

OPERATOR = "An operator can install bubblewrap and let it make user namespaces"
NONE_THERE = "bubblewrap is not installed (the program bwrap)"


def broken_bwrap(folder: Path, script: str) -> str:
    """Return the path of a program that is installed as bwrap and does not work."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("request_of", [OWNER, CONSOLE, *OTHERS])
async def test_without_bubblewrap_commands_are_off_and_the_reason_is_told(
    tmp_path: Path, request_of: RequestContext
) -> None:
    async with commands(tmp_path, ExecSection(), bwrap="") as desk:
        assert desk.exec.unavailable == f"{NONE_THERE}. {OPERATOR}"
        with pytest.raises(LaunchRefused) as refused:
            await desk.shell.prepare(request_of, ["true"])
        assert str(refused.value) == (
            f"Commands cannot run: {NONE_THERE}. An operator can install bubblewrap and let it make user namespaces, "
            "or set [tools.exec] unsandboxed = true, which lets owners run commands in their private chats with all of "
            "the bot's own rights."
        )
        assert refused.value.is_wall


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_unsandboxed_serves_owners_in_private_chats_and_nobody_else(tmp_path: Path, sandbox: str) -> None:
    section = ExecSection(sandbox=sandbox, unsandboxed=True)  # type: ignore[arg-type]  # a parameter
    async with commands(tmp_path, section, bwrap="") as desk:
        assert desk.exec.unavailable == ""
        for request in (OWNER, CONSOLE):
            launch = await desk.shell.prepare(request, ["true"])
            assert not launch.sandboxed
            assert (await desk.run("echo ran", request)).startswith("ran\n[exit code 0;")
        for request in OTHERS:
            result = await desk.run(f"touch {tmp_path}/ran-anyway", request)
            assert result.is_refused
            assert "without a sandbox only an owner's private chat may run commands" in result
            assert ("switched off" if sandbox == "off" else NONE_THERE) in result
        assert not (tmp_path / "ran-anyway").exists()


@needs_bwrap
async def test_a_sandbox_that_works_is_used_for_owners_too(tmp_path: Path) -> None:
    async with commands(tmp_path, ExecSection(unsandboxed=True)) as desk:
        for request in (OWNER, *OTHERS):
            assert (await desk.shell.prepare(request, ["true"])).sandboxed


async def test_whoever_demands_bubblewrap_gets_nothing_else(tmp_path: Path) -> None:
    async with commands(tmp_path, ExecSection(sandbox="bubblewrap", unsandboxed=True), bwrap="") as desk:
        assert desk.exec.unavailable == f"{NONE_THERE}. {OPERATOR}"
        with pytest.raises(LaunchRefused, match='sandbox = "bubblewrap" demands it'):
            await desk.shell.prepare(OWNER, ["true"])


async def test_switched_off_and_nothing_else_allowed_is_known_before_any_call(tmp_path: Path) -> None:
    async with commands(tmp_path, ExecSection(sandbox="off")) as desk:
        reason = 'commands are switched off ([tools.exec] sandbox = "off") and unsandboxed is not set'
        assert desk.exec.unavailable == desk.apps.unavailable == f'{reason}. An operator can set it to "auto"'
        result = await desk.run("true")
        assert result.is_refused
        assert reason in result


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "exit code -9"),
    ],
)
async def test_a_bubblewrap_that_does_not_work_is_as_none_and_says_why(
    tmp_path: Path, script: str, problem: str
) -> None:
    async with commands(tmp_path, bwrap=broken_bwrap(tmp_path, script)) as desk:
        assert desk.exec.unavailable == ""  # it has not been tried yet
        first = await desk.run("true")
        assert first.is_refused
        assert f"bubblewrap does not work here: {'bwrap: ' if 'No perm' in script else ''}{problem}" in first
        assert problem in desk.exec.unavailable  # from now on nobody is offered it


async def test_the_trial_is_made_once_for_all_and_leaves_no_descriptor(tmp_path: Path) -> None:
    bwrap = broken_bwrap(tmp_path, f"echo tried >> {tmp_path}/log; exit 1")
    async with commands(tmp_path, bwrap=bwrap) as desk:
        before = open_descriptors()
        for _ in range(5):
            assert (await desk.run("true")).is_refused
        assert (tmp_path / "log").read_text() == "tried\n" * 2  # one per way to use it
        assert open_descriptors() == before


async def test_a_program_that_cannot_be_started_is_no_sandbox(tmp_path: Path) -> None:
    found = await detect(str(tmp_path / "missing"))
    assert found.problem == "bubblewrap cannot be started: No such file or directory"
    assert found.lasting


@needs_bwrap
async def test_a_machine_that_was_full_is_tried_again(tmp_path: Path) -> None:
    async with commands(tmp_path) as desk:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors(), limits[1]))
        try:
            found = await desk.shell.detection()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert found.problem == "bubblewrap cannot be started: Too many open files"
        assert desk.shell.unavailable == ""
        assert "ran" in await desk.run("echo ran")


async def test_closing_during_the_trial_does_not_wait_for_it(tmp_path: Path) -> None:
    async with commands(tmp_path, bwrap=broken_bwrap(tmp_path, "exec sleep 4321")) as desk:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await desk.shell.detection()
    # `commands` asserts that no process is left


@pytest.mark.parametrize("cwd", ["../", "/etc", "~", "a\x00b", "x" * 300, "shared/../.."])
async def test_a_folder_outside_is_refused(tmp_path: Path, cwd: str) -> None:
    async with commands(tmp_path, ExecSection(sandbox="off", unsandboxed=True)) as desk:
        with pytest.raises(LaunchRefused, match="working_dir") as refused:
            await desk.shell.prepare(OWNER, ["pwd"], cwd=cwd)
        assert refused.value.is_wall


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["a\x00b"], "NUL"),
        (["echo", "\ud800"], "surrogate"),
        (["x" * 130_000], "too long"),
        (["echo", *["x" * 100_000] * 11], "too long"),
    ],
)
async def test_what_no_program_can_be_given_is_said(tmp_path: Path, argv: list[str], words: str) -> None:
    async with commands(tmp_path) as desk:
        with pytest.raises(LaunchRefused, match=words) as refused:
            await desk.shell.prepare(OWNER, argv)
        assert not refused.value.is_wall
