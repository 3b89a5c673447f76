"""exec_session: a chat's programs on terminals, through the tool as the model calls it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.config import ToolsConfig
from bot.messages import ChatType, Replay, Risk, Role
from bot.toolkit.base import ToolResult
from bot.toolkit.context import RequestContext
from bot.toolkit.results import ADVICE
from tests.support.clock import FakeClock
from tests.support.commands import UNSANDBOXED, needs_bwrap
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.engine import OWNER as RIG_OWNER
from tests.support.engine import calls, rig, said, tool_texts
from tests.support.leftovers import alive, sleeper, until_alive, until_gone
from tests.support.providers import ScriptedProvider

OPEN = ToolsConfig(exec=UNSANDBOXED)
ME = request_context("111", role=Role.OWNER, sender_id="111")


class Chat:
    """One chat's use of the tool."""

    def __init__(self, desk: ToolDesk, request: RequestContext = ME) -> None:
        self.desk = desk
        self.request = request

    async def call(self, action: str, **params: Any) -> ToolResult:
        return await self.desk.call(self.request, "exec_session", action=action, **params)

    async def start(self, command: str = "", **params: Any) -> tuple[str, ToolResult]:
        result = await self.call("start", **({"command": command} if command else {}), **params)
        assert not result.is_error, result
        found = re.match(r"Session (x-\w+) ", result)
        assert found, result
        return found[1], result

    async def types(self, text: str = "", *keys: str, until: str) -> str:
        """Type, wait until the output has a pattern that is not in what is typed, and return the output."""
        sent = await self.call("send", text=text, keys=list(keys), yield_time_ms=0)
        result = await self.call("wait_for", regex=until, timeout_s=30)
        assert "It was found." in result, sent + result
        return result


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    async with tool_context(tmp_path, FakeClock(), config=OPEN) as ctx:
        yield ToolDesk(ctx)


@pytest.fixture
def chat(desk: ToolDesk) -> Chat:
    return Chat(desk)


async def test_a_shell_lives_on_between_calls_and_each_answer_has_only_what_is_new(chat: Chat) -> None:
    session, first = await chat.start(shell="sh")
    assert f"Session {session} (sh) is running." in first
    await chat.types("cd /usr; x=40; echo un$((x))til", "enter", until="un40til")
    answer = await chat.types("echo $PWD $((x+2))", "enter", until="/usr 42\n")
    assert "cd /usr" not in answer
    await chat.types("", "enter", until=r"\S")
    assert (await chat.call("poll", yield_time_ms=0)).endswith("(no new output)")
    await chat.call("send", text="exit 3", keys=["enter"], yield_time_ms=0)
    last = await chat.call("wait_for", text="never", timeout_s=30)
    assert f"Session {session} (sh) has ended: exit code 3." in last
    gone = await chat.call("poll", session_id=session)
    assert gone.is_error
    assert gone.startswith(f"poll: this chat has no session '{session}': it never had, or its end was told already.")


@needs_bwrap
async def test_the_sandbox_is_the_same_as_for_every_command(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    async with tool_context(tmp_path) as ctx:
        chat = Chat(ToolDesk(ctx), request_context("5", role=Role.OWNER))
        root = chat.desk.root(request_context("5"))
        _, answer = await chat.start(
            f"test -t 0 && echo terminal; cat {tmp_path}/secret; env; echo mine > mine.txt",
            yield_time_ms=20_000,
        )
    assert "terminal\n" in answer
    assert "outside" not in answer
    assert (root / "mine.txt").read_text() == "mine\n"
    names = set(re.findall(r"^(\w+)=", answer, re.MULTILINE))
    assert names <= {
        "HOME", "PATH", "PWD", "OLDPWD", "LANG", "TERM", "PAGER", "HISTFILE", "USER", "LOGNAME", "TMPDIR", "SHLVL", "_",
    }  # fmt: skip


async def test_size_resize_and_control_c_are_those_of_a_real_terminal(chat: Chat) -> None:
    sleep = sleeper()
    session, _ = await chat.start(shell="sh", cols=99, rows=21)
    await chat.types("test -t 0 && stty size\n", until="\n21 99\n")
    assert "77 columns and 21 rows" in await chat.call("resize", cols=77, yield_time_ms=0)
    await chat.types("stty size", "enter", until="\n21 77\n")
    await chat.call("send", text=sleep, keys=["enter"], yield_time_ms=0)
    await until_alive(sleep)
    await chat.types("", "ctrl-c", until=r"\^C")
    await until_gone(sleep)
    await chat.types("echo code $?", "enter", until="code 130")
    await chat.call("send", keys=["ctrl-d"], yield_time_ms=0)
    last = await chat.call("wait_for", text="never", timeout_s=30)
    assert last.startswith(f"Session {session} (sh) has ended")


async def test_text_is_typed_as_it_is_and_keys_follow_it(chat: Chat) -> None:
    await chat.start("stty -icanon -echo; echo ready; exec od -An -tx1 -v -w1 -N 11", yield_time_ms=20_000)
    await chat.call("send", text="a\té", keys=["up", "Ctrl+A", "escape", "^D", "enter"], yield_time_ms=0)
    answer = await chat.call("wait_for", text="0a", timeout_s=20)
    assert "".join(answer.partition("\n\n")[2].split()) == "6109c3a91b5b41011b040a"


async def test_waiting_for_a_text_or_a_pattern_ends_when_it_appears(chat: Chat) -> None:
    await chat.start("sleep 0.3; echo listening on port 8123; exec cat", yield_time_ms=0)
    found = await chat.call("wait_for", regex=r"port \d{4}\b", timeout_s=20)
    assert "It was found." in found
    assert "listening on port 8123" in found
    missed = await chat.call("wait_for", text="never", timeout_s=1)
    assert not missed.is_error
    assert "is running. It did not appear within 1 s." in missed
    await chat.call("send", keys=["ctrl-d"], yield_time_ms=0)
    over = await chat.call("wait_for", text="never", timeout_s=20)
    assert "has ended: exit code 0. It did not appear before the end." in over


@pytest.mark.parametrize("regex", ["(", "a{5000}{5000}", r"(?=x)", "[z-a]", r"(?i)(\pL\pN?){300}"])
async def test_a_pattern_that_cannot_be_used_is_an_error_and_writes_nothing_to_standard_error(
    chat: Chat, capfd: pytest.CaptureFixture[str], regex: str
) -> None:
    await chat.start("cat")
    result = await chat.call("wait_for", regex=regex)
    assert result.is_error
    assert result.startswith("wait_for: the regex cannot be used: ")
    assert "re2" not in capfd.readouterr().err


async def test_a_hostile_pattern_costs_no_more_than_any_other(chat: Chat) -> None:
    await chat.start("printf 'a%.0s' $(seq 1 5000); cat", yield_time_ms=20_000)
    assert "did not appear within 1 s" in await chat.call("wait_for", regex="(a*)*(a|aa)+$x", timeout_s=1)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"action": "send"}, "send: needs text or keys."),
        ({"action": "send", "keys": ["hyper-x"]}, "send: no key is called 'hyper-x'; keys: enter, tab"),
        ({"action": "wait_for"}, "wait_for: needs text or regex, one of them."),
        ({"action": "wait_for", "text": "a", "regex": "b"}, "wait_for: needs text or regex, one of them."),
        ({"action": "resize"}, "resize: needs cols or rows."),
        ({"action": "poll", "session_id": "x-none"}, "poll: this chat has no session 'x-none'"),
    ],
)
async def test_what_an_action_lacks_is_told(chat: Chat, params: dict[str, Any], told: str) -> None:
    await chat.start("cat")
    result = await chat.call(**params)
    assert result.is_error
    assert result.startswith(told)
    assert ADVICE in result


@pytest.mark.parametrize(
    "params",
    [
        {}, {"action": "open"}, {"action": "start", "cols": 0}, {"action": "start", "command": ""},
        {"action": "wait_for", "timeout_s": 121}, {"action": "poll", "yield_time_ms": 120_001},
        {"action": "poll", "id": "x"},
        {"action": "poll", "max_output_chars": 100_001}, {"action": "send", "text": "x" * 20_001},
        {"action": "send", "keys": ["up"] * 65}, {"action": "start", "shell": "/bin/evil"},
    ],
)  # fmt: skip
async def test_arguments_outside_of_the_schema_are_refused(desk: ToolDesk, params: dict[str, Any]) -> None:
    result = await desk.call(ME, "exec_session", **params)
    assert result.is_error
    assert "Invalid parameters" in result


async def test_the_only_session_need_not_be_named_but_one_of_two_must(chat: Chat) -> None:
    assert (await chat.call("poll")).startswith("poll: this chat has no session.")
    first, _ = await chat.start("cat")
    assert not (await chat.call("poll", yield_time_ms=0)).is_error
    second, _ = await chat.start("cat")
    assert (await chat.call("poll")).startswith(f"poll: needs session_id, one of {first}, {second}.")


async def test_listing_shows_state_and_age_and_does_not_read(desk: ToolDesk, chat: Chat) -> None:
    assert await chat.call("list") == "This chat has no sessions."
    cat, _ = await chat.start("cat")
    done, _ = await chat.start("sleep 0.3; echo bye; exit 4", yield_time_ms=0)
    listing = await chat.call("list")
    while "exit code 4" not in listing:
        await asyncio.sleep(0.02)
        listing = await chat.call("list")
    assert listing == (
        f"{cat} (cat) is running, begun 0 min ago\n"
        f"{done} (sleep 0.3; echo bye; exit 4) has ended: exit code 4, begun 0 min ago, has new output"
    )
    last = await chat.call("poll", session_id=done)
    assert last == f"Session {done} (sleep 0.3; echo bye; exit 4) has ended: exit code 4.\n\nbye\n"
    assert await chat.call("list") == f"{cat} (cat) is running, begun 0 min ago"


async def test_another_chat_cannot_list_read_write_or_end_a_session(desk: ToolDesk, chat: Chat) -> None:
    session, _ = await chat.start("cat")
    others = [
        request_context("222", role=Role.OWNER),
        request_context("111", role=Role.OWNER, thread_id="7"),
        request_context("111", role=Role.OWNER, channel="discord"),
    ]
    for request in others:
        other = Chat(desk, request)
        assert await other.call("list") == "This chat has no sessions."
        tries: dict[str, dict[str, Any]] = {
            "send": {"text": "x"}, "poll": {}, "wait_for": {"text": "x"}, "resize": {"cols": 5}, "terminate": {},
        }  # fmt: skip
        for action, params in tries.items():
            result = await other.call(action, session_id=session, **params)
            assert result.is_error
            assert result.startswith(f"{action}: this chat has no session '{session}'")
    await chat.types("hello\n", until="hello\nhello")


async def test_a_ninth_session_is_refused_with_the_reason(chat: Chat) -> None:
    for _ in range(8):
        await chat.start("cat", yield_time_ms=0)
    result = await chat.call("start", command="cat")
    assert result.is_error
    assert result.startswith("start: 8 sessions are live, as many as may be (8 of this chat): terminate one first.")


async def test_terminating_tells_the_last_output_and_the_end(chat: Chat) -> None:
    sleep = sleeper()
    session, _ = await chat.start(f"echo begun; (setsid {sleep} &); exec {sleep}")
    await until_alive(sleep, 2)
    result = await chat.call("terminate")
    assert result.startswith(f"Session {session} (")
    assert "was terminated: exit code 137 (SIGKILL)." in result
    assert alive(sleep) == []


async def test_input_after_the_end_is_not_lost_in_silence(chat: Chat) -> None:
    await chat.start("echo over", yield_time_ms=0)
    while "is running" in await chat.call("list"):
        await asyncio.sleep(0.02)
    result = await chat.call("send", text="hello")
    assert "has ended: exit code 0. Nothing was sent: it had ended." in result
    assert "over" in result


async def test_output_is_cut_in_the_middle_and_says_how_much(chat: Chat) -> None:
    _, answer = await chat.start("seq 1 3000; sleep 0.3", yield_time_ms=20_000, max_output_chars=1_000)
    output = answer.partition("\n\n")[2]
    assert output.startswith("1\n2\n3\n")
    assert output.endswith("2999\n3000\n")
    assert re.search(r"\n\[\.\.\. 12,893 characters left out ", output)
    _, plain = await chat.start("seq 1 3000; sleep 0.3", yield_time_ms=20_000)
    assert len(plain.partition("\n\n")[2]) < 10_200


async def test_endless_output_is_bounded_in_the_answer_and_in_memory(chat: Chat) -> None:
    await chat.start("yes", yield_time_ms=300)
    for _ in range(3):
        answer = await chat.call("poll", yield_time_ms=300)
        assert len(answer) < 10_300
        assert re.search(r"[\d,]{7,} bytes left out", answer)


async def test_control_sequences_and_broken_bytes_never_reach_the_model(chat: Chat) -> None:
    _, answer = await chat.start(
        r"printf '\033[31mred\033[0m \033]0;title\007 10%%\r100%% \377 \000.'; sleep 0.3", yield_time_ms=20_000
    )
    assert answer.endswith("\n\n100% \ufffd .")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", answer)


async def test_a_folder_outside_is_refused_and_a_missing_one_is_an_error(chat: Chat) -> None:
    outside = await chat.call("start", command="pwd", working_dir="../../..")
    assert outside.is_refused
    missing = await chat.call("start", command="pwd", working_dir="no/such")
    assert missing.is_error
    assert await chat.call("list") == "This chat has no sessions."


async def test_who_may_run_no_commands_gets_the_reason(desk: ToolDesk) -> None:
    for request in (
        request_context("111", role=Role.OWNER, chat_type=ChatType.GROUP),
        request_context("111", role=Role.MEMBER),
    ):
        result = await Chat(desk, request).call("start", command="id")
        assert result.is_refused
        assert "only an owner's private chat" in result
        assert ADVICE not in result


def test_looking_is_a_read_and_everything_else_an_execution(desk: ToolDesk) -> None:
    tool = desk.registry.get("exec_session")
    assert tool is not None
    for action in ("start", "send", "poll", "wait_for", "resize", "terminate", "list"):
        looks = action in {"poll", "list"}
        assert tool.risk_for({"action": action}) is (Risk.READ if looks else Risk.EXECUTE)
        assert tool.only_looks({"action": action}) is looks
    assert (tool.risk, tool.replay, tool.repeatable) == (Risk.EXECUTE, Replay.ONCE, True)
    assert not tool.concurrency_safe
    assert tool.time_limit_s({"action": "wait_for", "timeout_s": 120}) > 120
    assert tool.time_limit_s({"action": "poll", "yield_time_ms": 120_000}) > 120


async def test_the_same_poll_many_times_is_not_taken_for_a_loop(tmp_path: Path) -> None:
    polls = [calls(("exec_session", {"action": "poll", "yield_time_ms": 0}), prefix=f"p{n}") for n in range(6)]
    start = calls(("exec_session", {"action": "start", "command": "cat", "yield_time_ms": 0}))
    provider = ScriptedProvider(start, *polls, said("done"))
    async with rig(tmp_path, provider, tools_config=OPEN) as engine:
        assert await engine.asks("watch it", sender=RIG_OWNER) == "done"
        assert sum("(no new output)" in text for text in tool_texts(provider.requests[-1])) >= 6


async def test_stop_gives_up_a_held_wait_at_once_and_leaves_the_session_as_it_is(tmp_path: Path) -> None:
    sleep = sleeper()
    provider = ScriptedProvider(
        calls(("exec_session", {"action": "start", "command": f"echo begun; exec {sleep}", "yield_time_ms": 0})),
        calls(("exec_session", {"action": "wait_for", "text": "never", "timeout_s": 120}), prefix="w"),
        calls(("exec_session", {"action": "poll", "yield_time_ms": 0}), prefix="p"),
        said("it runs"),
    )
    async with rig(tmp_path, provider, tools_config=OPEN) as engine:
        await engine.says("wait for it", sender=RIG_OWNER)
        await until_alive(sleep)
        async with asyncio.timeout(20):
            while len(provider.requests) < 2 or not any(
                task.get_name() == "tool:exec_session" for task in asyncio.all_tasks()
            ):
                await asyncio.sleep(0.01)
        assert await engine.asks("/stop", sender=RIG_OWNER) == "Stopped."
        await engine.idle()
        assert len(alive(sleep)) == 1
        assert await engine.asks("and now?", sender=RIG_OWNER) == "it runs"
        assert "is running.\n\nbegun" in tool_texts(provider.requests[-1])[-1]
    await until_gone(sleep)


async def test_sessions_outlive_a_new_conversation_and_a_subagent_has_its_own(desk: ToolDesk, chat: Chat) -> None:
    session, _ = await chat.start("cat")
    assert session in await Chat(desk, request_context("111", role=Role.OWNER, session_id=2)).call("list")
    turn = replace(ME.turn, lane="sub:sub-abc")
    subagent = Chat(desk, replace(ME, turn=turn, scope="subagent"))
    assert await subagent.call("list") == "This chat has no sessions."
    own, _ = await subagent.start("cat")
    assert own not in await chat.call("list")
