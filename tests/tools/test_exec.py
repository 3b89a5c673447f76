"""exec: what the model is told of a command, its limits, and that it holds up nobody else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.config import ToolsConfig
from bot.config.tools import ExecSection
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Replay, Risk
from bot.toolkit.base import ToolResult
from bot.toolkit.results import ADVICE
from bot.tools.exec import ExecTool
from tests.support.commands import (
    BWRAP_PROBLEM,
    MEMBER,
    OWNER,
    SANDBOXED,
    UNSANDBOXED,
    Commands,
    Rope,
    both_modes,
    commands,
    needs_bwrap,
    open_descriptors,
)
from tests.support.contexts import ToolDesk, tool_context
from tests.support.engine import AnsweringProvider, calls, last_user, rig, said, tool_texts

MODE = UNSANDBOXED if BWRAP_PROBLEM else SANDBOXED
"""For what is alike in both: the better one that there is."""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Commands]:
    async with commands(tmp_path, MODE) as made:
        yield made


def untimed(result: ToolResult) -> str:
    """Return a result without the time that it took."""
    return re.sub(r"; \d+\.\d s\]", "; N s]", result)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree\n[exit code 0; N s]"),
        ("printf 'no line end'; exit 3", "no line end\n[exit code 3; N s]"),
        ("true", "[no output; exit code 0; N s]"),
        ("kill -9 $$", "[no output; exit code 137 (SIGKILL); N s]"),
        ("cat; read line || echo nothing to read", "nothing to read\n[exit code 0; N s]"),
        ("exit 255", "[no output; exit code 255; N s]"),
    ],
)
async def test_output_and_exit_code_are_told(desk: Commands, command: str, text: str) -> None:
    result = await desk.run(command)
    assert untimed(result) == text
    assert not result.is_error


async def test_the_folder_and_the_shell_are_as_asked_for(desk: Commands) -> None:
    (desk.root() / "a folder").mkdir()
    assert (await desk.run("pwd", working_dir="a folder")).startswith(f"{desk.root()}/a folder\n")
    assert "bash" in await desk.run("echo $0")
    assert (await desk.run("echo $0; echo ${BASH_VERSION:-none}", shell="sh")).startswith("sh\nnone\n")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"shell": "/bin/zsh"}, "shell"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 601}, "timeout"),
        ({"max_output_chars": 5}, "max_output_chars"),
        ({"comand": "x"}, "command"),
        ({"command": ""}, "command"),
    ],
)
async def test_arguments_out_of_range_are_errors(desk: Commands, params: dict[str, object], words: str) -> None:
    result = await desk.call(OWNER, "exec", **{"command": "true", **params})
    assert result.is_error
    assert "Invalid parameters" in result
    assert words in result


async def test_a_missing_folder_is_an_error_and_one_outside_a_refusal(desk: Commands) -> None:
    missing = await desk.run("true", working_dir="missing")
    assert missing == f"working_dir: missing: does not exist.\n\n{ADVICE}"
    outside = await desk.run("true", working_dir="/etc")
    assert outside.is_refused
    assert "outside" in outside


def test_it_is_never_run_twice_nor_beside_others(tmp_path: Path) -> None:
    assert (ExecTool.risk, ExecTool.replay) == (Risk.EXECUTE, Replay.ONCE)
    tool = ExecTool.__new__(ExecTool)
    assert tool.exclusive
    assert not tool.read_only
    assert not tool.concurrency_safe


async def test_the_time_limit_is_the_calls_or_the_configured_one(tmp_path: Path) -> None:
    async with commands(tmp_path, ExecSection(timeout_s=7)) as desk:
        assert desk.exec.time_limit_s({"command": "true"}) == 22.5
        assert desk.exec.time_limit_s({"command": "true", "timeout": 600}) == 615.5


# --- time limits


@both_modes
@pytest.mark.parametrize("background", ["sleep 300 &", "setsid sleep 300 &", "(setsid sh -c '(sleep 300 &); exit' &)"])
async def test_a_time_limit_ends_all_of_it_and_keeps_the_output(
    tmp_path: Path, section: ExecSection, background: str
) -> None:
    """C081, with its variants."""
    async with commands(tmp_path, section) as desk:
        rope = Rope(desk.root())
        call = asyncio.create_task(desk.run(f"{rope.hold}; {background}\necho pid $!; sleep 300", timeout=2))
        await rope.held()
        result = await call
        await rope.released()
        assert result.is_error
        assert re.match(
            r"pid ?\d*\n\[timed out: ended after its limit of 2 s, with everything it had started; "
            r"above is what it had written by then; exit code 137 \(SIGKILL\); [234]\.\d s\]\n",
            result,
        )


@both_modes
async def test_fifty_commands_that_time_out_leave_nothing(tmp_path: Path, section: ExecSection) -> None:
    """C082."""
    async with commands(tmp_path, section) as desk:
        await desk.run("true")
        before = open_descriptors()
        for _ in range(2):
            results = await asyncio.gather(
                *(desk.run("sleep 300 & setsid sleep 300 & sleep 300", timeout=1) for _ in range(25))
            )
            assert all("timed out" in result for result in results)
        assert psutil.Process().children(recursive=True) == []
        assert open_descriptors() == before


@both_modes
async def test_endless_output_keeps_memory_flat_and_is_cut(tmp_path: Path, section: ExecSection) -> None:
    """C084."""
    async with commands(tmp_path, section) as desk:
        await desk.run("yes | head -c 1000000", timeout=10)
        before = psutil.Process().memory_info().rss
        result = await desk.run("echo first; yes", timeout=2)
        assert psutil.Process().memory_info().rss - before < 8 * 1024 * 1024
        assert result.startswith("first\ny\ny\n")
        assert re.search(r"\ny\n+\[\.\.\. [\d,]{9,} bytes left out \.\.\.\]\n+y\ny\n", result)
        assert "y\n[timed out" in result
        assert len(result) < 10_500


async def test_max_output_chars_is_kept(desk: Commands) -> None:
    result = await desk.run("seq 100000", max_output_chars=100)
    assert result.startswith("1\n2\n3\n")
    assert "100000\n[exit code 0" in result
    assert len(result) < 250
    assert "left out ...]" in result


async def test_a_cancelled_call_ends_its_command(desk: Commands) -> None:
    """What /stop does."""
    rope = Rope(desk.root())
    call = asyncio.create_task(desk.run(f"{rope.hold}; setsid sleep 4321 & sleep 4321"))
    await rope.held()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await rope.released()


# --- any bytes


@given(data=st.binary(max_size=300))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_in_the_output_give_a_storable_text(tmp_path: Path, data: bytes) -> None:
    async def shown() -> ToolResult:
        async with commands(tmp_path, UNSANDBOXED) as desk:
            (desk.root() / "data").write_bytes(data)
            return await desk.run("cat data")

    result = asyncio.run(shown())
    assert not result.is_error
    assert "exit code 0" in result
    result.encode()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result)


# --- among other chats and tools


@needs_bwrap
async def test_chats_do_not_see_each_others_files(desk: Commands) -> None:
    await desk.run("echo mine > note")
    assert "No such file" in await desk.run("cat note", MEMBER)


async def test_another_chat_is_answered_while_a_command_is_held(tmp_path: Path) -> None:
    ends: list[str] = []

    def answer(request: ModelRequest) -> ModelReply:
        if last_user(request) == "hello":
            return said("hello yourself")
        if results := tool_texts(request):
            return said(results[-1].partition("\n")[0])
        return calls(("exec", {"command": "echo up > up; cat gate"}))

    config = ToolsConfig(exec=MODE)
    async with rig(tmp_path, AnsweringProvider(answer), tools_config=config) as engine:
        root = tmp_path / "workspace" / "chats" / "memory=3Aheld"
        root.mkdir(parents=True, mode=0o700)
        rope = Rope(root, "up")
        gate = Rope(root, "gate")
        await engine.says("run it", chat="held", sender="1")
        async with asyncio.timeout(30):
            up = await asyncio.create_subprocess_exec("cat", str(rope.path), stdout=-1)
            assert (await up.communicate())[0] == b"up\n"
        ends.append(await engine.asks("hello", chat="other", sender="1"))
        assert engine.channel.texts("held") == []
        await asyncio.to_thread(gate.path.write_text, "let go\n")
        await engine.reads("let go", chat="held")
    assert ends == ["hello yourself"]


async def test_the_loader_offers_it_to_turns_and_subagents_alike(tmp_path: Path) -> None:
    async with tool_context(tmp_path, config=ToolsConfig(exec=MODE)) as ctx:
        for scope in ("core", "subagent"):
            desk = ToolDesk(ctx, scope)
            assert "exec" in desk.names
            assert "run_cli_app" not in desk.names
            assert "ran" in await desk.call(OWNER, "exec", command="echo ran")


@pytest.mark.parametrize(
    ("section", "bwrap", "words"),
    [
        (UNSANDBOXED, None, "There is no sandbox"),
        (ExecSection(unsandboxed=True), "", "There is no sandbox"),
        (SANDBOXED, "/usr/bin/bwrap", "and nothing else. It has no network."),
        (ExecSection(network=True), "/usr/bin/bwrap", "and nothing else. It has network."),
    ],
)
async def test_the_description_says_what_a_command_reaches(
    tmp_path: Path, section: ExecSection, bwrap: str | None, words: str
) -> None:
    async with commands(tmp_path, section, bwrap=bwrap) as desk:
        assert words in desk.exec.description
