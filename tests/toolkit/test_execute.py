from __future__ import annotations

import asyncio
import contextvars
import sys
from typing import Any

import pytest

from bot.toolkit.base import Tool, ToolResult
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.results import ADVICE
from tests.support.tools import MadeTool, registry_with


async def run(answer: Any, **options: Any) -> ToolResult:
    async def give(_: dict[str, Any]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return await registry_with(MadeTool("t", run=give), **options).execute("t", {})


class BuiltinTool(MadeTool):
    """Counts as a built-in: its class says that it lives in the package."""

    __module__ = "bot.tools.made"


# --- what a tool may return ---


async def test_text_is_the_result() -> None:
    result = await run("hello")
    assert (result, result.is_error) == ("hello", False)
    assert isinstance(result, ToolResult)


async def test_nothing_is_said_to_be_nothing() -> None:
    assert await run(None) == "(no output)"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (5, "5"),
        (True, "True"),
        (b"caf\xc3\xa9", "café"),
        ({"a": 1}, '{"a":1}'),
        ([1, "x"], '[1,"x"]'),
        ([], "[]"),
    ],
)
async def test_other_values_become_text(answer: Any, text: str) -> None:
    result = await run(answer)
    assert (result, result.blocks, result.is_error) == (text, (), False)


async def test_content_blocks_are_kept_and_described() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    result = await run([{"type": "text", "text": "a cat"}, image])
    assert result == "a cat\n[image_url]"
    assert result.blocks == ({"type": "text", "text": "a cat"}, image)
    assert (await run(image)).blocks == (image,)


async def test_values_that_json_cannot_hold_become_text_all_the_same() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "..." in await run(circle)
    assert "10000000000000000000000000" in await run({"n": 10**25})


async def test_a_flagged_error_gets_one_line_of_advice() -> None:
    result = await run(ToolResult.error("no such file"))
    assert result == f"no such file\n\n{ADVICE}"
    assert result.is_error
    assert result.count(ADVICE) == 1
    assert "\n" not in ADVICE


async def test_a_refusal_gets_no_advice() -> None:
    result = await run(ToolResult.refused("outside the workspace"))
    assert result == "outside the workspace"
    assert (result.is_error, result.is_refused) == (True, True)


async def test_a_plugins_text_that_begins_with_error_is_an_error() -> None:
    result = await run("Error: no such city")
    assert result.is_error
    assert result == f"Error: no such city\n\n{ADVICE}"
    assert not (await run("No Error")).is_error


async def test_a_built_ins_text_that_begins_with_error_is_text() -> None:
    async def give(_: dict[str, Any]) -> str:
        return "Errors of style\n(a file's first line)"

    result = await registry_with(BuiltinTool("t", run=give)).execute("t", {})
    assert (result.is_error, result) == (False, "Errors of style\n(a file's first line)")


# --- what a tool may raise ---


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (ValueError("bad\nday"), "ValueError: bad day"),
        (KeyError("k"), "KeyError: 'k'"),
        (TimeoutError(), "TimeoutError"),
        (SystemExit(3), "SystemExit: 3"),
        (RecursionError("deep"), "RecursionError: deep"),
        (UnprintableError(), "UnprintableError"),
        (ExceptionGroup("g", [OSError("inner")]), "OSError: inner"),
        (BaseExceptionGroup("g", [OSError("a"), OSError("b")]), "ExceptionGroup: g (2 sub-exceptions)"),
        (StopAsyncIteration(), "StopAsyncIteration"),
    ],
)
async def test_whatever_is_raised_becomes_an_error_without_traceback(raised: BaseException, words: str) -> None:
    result = await run(raised)
    assert result == f"Error executing t: {words}\n\n{ADVICE}"
    assert result.is_error
    assert "Traceback" not in result


async def test_a_very_long_exception_is_cut() -> None:
    assert len(await run(ValueError("x" * 1_000_000))) < 2_200


async def test_arguments_that_the_method_does_not_take_are_an_error() -> None:
    class Narrow(MadeTool):
        async def execute(self, /, *, a: int) -> str:
            return str(a)

    registry = registry_with(Narrow("n", {}))
    assert await registry.execute("n", {"a": 1}) == "1"
    assert (await registry.execute("n", {"b": 1})).startswith("Error executing n: TypeError")


async def test_a_parameter_may_be_called_self() -> None:
    tool = MadeTool("t", {"properties": {"self": {"type": "integer"}, "tool": {"type": "integer"}}})
    assert await registry_with(tool).execute("t", {"self": 1, "tool": 2}) == "done"
    assert tool.calls == [{"self": 1, "tool": 2}]


async def test_a_method_that_is_not_async_is_an_error() -> None:
    class Plain(MadeTool):
        def execute(self, /, **kwargs: Any) -> Any:
            return "done"

    assert (await registry_with(Plain("p")).execute("p", {})).is_error


# --- what is not run ---


async def test_an_invalid_or_unknown_call_is_an_error_with_advice_and_runs_nothing() -> None:
    tool = MadeTool("t", {"properties": {"n": {"type": "integer"}}})
    registry = registry_with(tool)
    for result, word in (
        (await registry.execute("t", {"n": "x"}), "Invalid parameters"),
        (await registry.execute("T", {}), "Did you mean 't'"),
        (await registry.execute("t", "[]"), "must be a JSON object"),
    ):
        assert result.is_error
        assert word in result
        assert result.endswith(ADVICE)
    assert tool.calls == []


async def test_a_subset_runs_only_its_own_tools() -> None:
    inside, outside = MadeTool("in"), MadeTool("out")
    view = registry_with(inside, outside).subset(["in"])
    assert await view.execute("in", {}) == "done"
    assert "not found" in await view.execute("out", {})
    assert outside.calls == []


async def test_a_prepared_call_can_be_run_later() -> None:
    tool = MadeTool("t", {"properties": {"n": {"type": "integer"}}})
    registry = registry_with(tool)
    found, params, error = registry.prepare_call("t", '{"n": "4"}')
    assert found is tool
    assert error is None
    assert await registry.run(tool, params) == "done"
    assert await registry.subset(["t"]).run(tool, params) == "done"
    assert tool.calls == [{"n": 4}, {"n": 4}]


# --- time and cancellation ---


def held(gate: asyncio.Event, entered: asyncio.Event | None = None) -> MadeTool:
    async def wait(_: dict[str, Any]) -> str:
        if entered is not None:
            entered.set()
        await gate.wait()
        return "late"

    return MadeTool("held", run=wait)


async def test_a_call_over_its_limit_says_which_tool_and_how_long() -> None:
    registry = registry_with(held(asyncio.Event()), time_limits_s={"held": 0.01})
    result = await registry.execute("held", {})
    assert result == (f"Error: Tool 'held' was stopped: it took longer than its limit of 0.01 s.\n\n{ADVICE}")
    assert result.is_error


async def test_the_tools_own_limit_holds_unless_configured_otherwise() -> None:
    tool = held(asyncio.Event())
    tool.timeout_s = 0.02
    assert "limit of 0.02 s" in await registry_with(tool).execute("held", {})
    assert "limit of 0.01 s" in await registry_with(tool, time_limits_s={"held": 0.01}).execute("held", {})


@pytest.mark.parametrize("limit", [None, 0, -1, float("inf"), float("nan"), "60"])
def test_no_tool_can_have_no_limit(limit: Any) -> None:
    tool = MadeTool("t")
    tool.timeout_s = limit
    assert ToolRegistry().calls.limit_s(tool, {}) == 60.0
    assert ToolRegistry(time_limit_s=7).calls.limit_s(tool, {}) == 7


class PatientTool(MadeTool):
    """Lets each call say how long it may take."""

    def time_limit_s(self, params: dict[str, Any]) -> float:
        limit_s: float = params["wait_s"]
        return limit_s


async def test_a_call_may_have_a_limit_of_its_own() -> None:
    tool = PatientTool("patient", {"type": "object"}, run=held(asyncio.Event())._run)
    assert "limit of 0.01 s" in await registry_with(tool).execute("patient", {"wait_s": 0.01})
    assert ToolRegistry().calls.limit_s(tool, {}) == 60.0  # a failing method is no way to have no limit


async def test_a_tool_that_cannot_work_here_refuses_with_its_reason() -> None:
    tool = MadeTool("t")
    tool.unavailable = "there is no sandbox"
    result = await registry_with(tool).execute("t", {})
    assert result == "Tool 't' cannot be used here: there is no sandbox"
    assert result.is_refused


async def test_a_tools_own_timeout_is_its_failure_not_the_limit() -> None:
    async def impatient(_: dict[str, Any]) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    result = await registry_with(MadeTool("t", run=impatient)).execute("t", {})
    assert result == f"Error executing t: TimeoutError\n\n{ADVICE}"


async def test_cancelling_the_caller_cancels_the_call_and_goes_on() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(_: dict[str, Any]) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(registry_with(MadeTool("t", run=wait)).execute("t", {}))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()


async def test_a_tool_that_answers_its_cancellation_does_not_stop_the_callers() -> None:
    entered = asyncio.Event()

    async def stubborn(_: dict[str, Any]) -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "never mind"
        return ""

    task = asyncio.create_task(registry_with(MadeTool("t", run=stubborn)).execute("t", {}))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("by_caller", [True, False])
async def test_a_tool_that_never_stops_is_left_behind_after_a_grace(by_caller: bool) -> None:
    entered, free = asyncio.Event(), asyncio.Event()

    async def deaf(_: dict[str, Any]) -> str:
        entered.set()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    limit_s = 60.0 if by_caller else 0.01
    registry = registry_with(MadeTool("t", run=deaf), time_limits_s={"t": limit_s}, cancel_grace_s=0.01)
    task = asyncio.create_task(registry.execute("t", {}))
    await entered.wait()
    if by_caller:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        assert "was stopped" in await task
    (left,) = registry.calls.left_behind
    free.set()
    await left
    assert registry.calls.left_behind == set()


async def test_a_tool_that_cancels_itself_is_an_error_not_a_cancelled_turn() -> None:
    result = await run(asyncio.CancelledError())
    assert result.is_error
    assert "cancelled itself" in result


async def test_a_call_that_ends_while_it_is_being_stopped_leaves_nothing_behind() -> None:
    registry = registry_with(held(asyncio.Event()), time_limits_s={"held": 0.01})
    await registry.execute("held", {})
    assert registry.calls.left_behind == set()
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("tool:")] == []


async def test_the_callers_context_reaches_the_tool() -> None:
    asking: contextvars.ContextVar[str] = contextvars.ContextVar("asking")

    async def who(_: dict[str, Any]) -> str:
        return asking.get()

    registry = registry_with(MadeTool("t", run=who))

    async def turn(name: str) -> str:
        asking.set(name)
        return await registry.execute("t", {})

    assert list(await asyncio.gather(turn("ann"), turn("bob"))) == ["ann", "bob"]


async def test_calls_do_not_wait_for_each_other() -> None:
    gate, entered = asyncio.Event(), asyncio.Event()
    registry = registry_with(held(gate, entered), MadeTool("quick"))
    slow = asyncio.create_task(registry.execute("held", {}))
    await entered.wait()
    assert await registry.execute("quick", {}) == "done"
    gate.set()
    assert await slow == "late"


def test_a_tool_is_third_party_unless_its_class_is_the_packages() -> None:
    assert Tool.__module__.partition(".")[0] == "bot"
    assert MadeTool.__module__ in sys.modules
    assert MadeTool.__module__.partition(".")[0] != "bot"
