"""The tool calls of one step: checked, run in batches, recorded, and judged for going in circles.

Every result is recorded as it comes, so that a crash is a pause. What the model says before and after is the
runner's part; whether a call is valid is the registry's.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bot.agent.runs import RunnerParts, RunOutcome, RunSpec, StopReason
from bot.faults import fault_point
from bot.log import get_logger
from bot.messages import Replay, ToolCall
from bot.records import CallRecord, CallResult, CallState, Message
from bot.toolkit.base import Tool, ToolResult
from bot.toolkit.context import set_call_id
from bot.toolkit.results import ADVICE, failure_text

_REPEAT_LIMIT = 3  # equal call with equal result this often: stopped (tools.md 1)
_BROKEN_LIMIT = 3  # steps in a row without one usable call
_REFUSAL_LIMIT = 3  # refusals of the same call by a wall

_INTERRUPTED = (
    "This call was interrupted when the process stopped; it may or may not have taken effect. "
    "Check before you do it again, and tell the person if you cannot."
)

_NOT_AGAIN = f"Not run: this very call gave the very same result {_REPEAT_LIMIT} times in this turn."

T = TypeVar("T")

_log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class PreparedCall:
    """One call on its way: checked, maybe already with its result."""

    call: ToolCall
    tool: Tool | None = None
    params: dict[str, Any] = field(default_factory=dict)
    result: ToolResult | None = None
    recorded: bool = False
    repeats: int = 0  # equal calls with equal results in this run, this one included
    # What the tool says of itself, read once: a plugin's properties are its own code.
    concurrency_safe: bool = False
    replay: Replay = Replay.ONCE
    repeatable: bool = False
    concludes: bool = False

    @property
    def concurrent(self) -> bool:
        """Whether it may run beside its neighbours, or need not run at all."""
        return self.result is not None or self.concurrency_safe

    @property
    def ends_turn(self) -> bool:
        """Whether it succeeded and nothing is left to say."""
        return self.concludes and self.result is not None and not self.result.is_error

    @property
    def usable(self) -> bool:
        """Whether it names a tool with arguments that fit."""
        return self.tool is not None


def partition_tool_batches(calls: Sequence[PreparedCall]) -> list[list[PreparedCall]]:
    """Return the calls in order, neighbours that may run side by side as one batch."""
    batches: list[list[PreparedCall]] = []
    for call in calls:
        if call.concurrent and batches and batches[-1][-1].concurrent:
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


class StepCalls:
    """Carries out the calls of one run, step after step, and keeps count of what repeats."""

    def __init__(self, parts: RunnerParts, spec: RunSpec, outcome: RunOutcome) -> None:
        self._parts = parts
        self._spec = spec
        self._outcome = outcome
        self._view = parts.registry.subset(spec.tools)
        self._seen: Counter[tuple[str, int, int]] = Counter()
        self._repeated: Counter[tuple[str, int]] = Counter()  # the same by call, for its most frequent result
        self._refused: Counter[tuple[str, str]] = Counter()
        self._broken = 0

    def recalled(self, record: CallRecord) -> PreparedCall:
        """Return a stored call with what is known of its outcome; one that had begun has an unknown one."""
        prepared = self.prepare(record.call, "")
        if record.result is not None:
            stored = record.result
            prepared.result = ToolResult(stored.text, is_error=stored.is_error, blocks=stored.blocks)
            prepared.recorded = True
        elif record.state is CallState.STARTED:
            prepared.result = ToolResult.error(_INTERRUPTED)
        return prepared

    def prepare(self, call: ToolCall, finish_reason: str) -> PreparedCall:
        """Check a call: does it exist in this turn, are its arguments valid, may this sender do it."""
        try:
            return self._prepare(call, finish_reason)
        except Exception as exc:  # noqa: BLE001 - part of the boundary of one tool call: a plugin's own code
            text = f"Error: Tool '{call.name}' cannot be used: {failure_text(exc)}"
            return PreparedCall(call=call, result=ToolResult.error(f"{text}\n\n{ADVICE}"))

    def _prepare(self, call: ToolCall, finish_reason: str) -> PreparedCall:
        spec, parts = self._spec, self._parts
        if call.name in parts.registry and call.name not in spec.tools:
            known = parts.registry.get(call.name)
            reason = known and parts.policy.refusal(spec.request.role, spec.request.chat_type, known.risk)
            return PreparedCall(call=call, result=ToolResult.refused(f"{call.name}: {reason or 'not available here'}."))
        tool, params, error = self._view.prepare_call(call.name, call.arguments, truncated=finish_reason == "length")
        if tool is None or error is not None:
            return PreparedCall(call=call, result=ToolResult.error(f"{error}\n\n{ADVICE}"))
        refusal = parts.policy.refusal(spec.request.role, spec.request.chat_type, tool.risk_for(params))
        if refusal:
            result = ToolResult.refused(f"{call.name}: {refusal}.")
            return PreparedCall(call=call, tool=tool, params=params, result=result)
        return PreparedCall(
            call=call,
            tool=tool,
            params=params,
            concurrency_safe=bool(tool.concurrency_safe),
            replay=Replay(tool.replay),
            repeatable=bool(tool.repeatable),
            concludes=bool(tool.ends_turn),
        )

    async def known_results(self, prepared: Sequence[PreparedCall]) -> list[CallResult]:
        """Return the results of calls that will not be run, to be recorded with the reply itself.

        Only now it is known that the reply was cut off: after a crash missing arguments would pass for none.
        """
        known = [item for item in prepared if item.result is not None]
        results = [await self._call_result(item) for item in known]
        for item in known:
            item.recorded = True
        return results

    async def carry_out(self, prepared: list[PreparedCall]) -> list[Message]:
        """Run the calls of a step in order and record everything; returns the rows that follow the reply.

        What must end the run is noted in the outcome, which also gets the turn as it now is.
        """
        outcome, steps = self._outcome, self._parts.steps
        for item in prepared:
            self._note_repeat(item)
        for batch in partition_tool_batches(prepared):
            await self._run_batch(batch)
            for item in batch:
                is_last = item is prepared[-1]
                if item.tool and item.replay is Replay.ONCE and not item.recorded and not is_last:
                    await steps.record_result(outcome.turn, await self._call_result(item))
                    item.recorded = True
        results = [await self._call_result(item) for item in prepared]
        rows = [_tool_row(result) for result in results]
        outcome.turn, joined = await steps.record_step(outcome.turn, results, rows, self._spec.compose)
        fault_point("recorded")
        self.note_answer([] if joined else prepared)
        self._judge(prepared)
        return [*rows, *joined]

    async def _run_batch(self, batch: list[PreparedCall]) -> None:
        limit = asyncio.Semaphore(self._parts.settings["parallel_calls"])

        async def one(item: PreparedCall) -> None:
            async with limit:
                await self._run_call(item)

        todo = [item for item in batch if item.result is None]
        if len(todo) == 1:
            await self._run_call(todo[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for item in todo:
                    group.create_task(one(item), name=f"call {item.call.name}")
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed  # only the store can fail here, and the loop knows its errors

    async def _run_call(self, item: PreparedCall) -> None:
        assert item.tool is not None
        if not item.repeatable and self._repeated[item.call.name, _arguments_hash(item)] >= _REPEAT_LIMIT:
            item.result = ToolResult.error(_NOT_AGAIN)
            return
        set_call_id(item.call.id)
        if item.replay is Replay.ONCE:
            await self._parts.steps.start_call(self._outcome.turn, item.call.id)
        fault_point("before-call")
        result = await self._parts.registry.run(item.tool, item.params)
        item.result = result
        if result.blocks:
            blocks = await self._parts.images.keep([block for block in result.blocks if isinstance(block, dict)])
            item.result = ToolResult(result, is_error=result.is_error, is_refused=result.is_refused, blocks=blocks)
        self._note_repeat(item)
        fault_point("after-call")

    async def _call_result(self, item: PreparedCall) -> CallResult:
        result = item.result
        assert result is not None
        if not item.recorded:
            # Kept, since a result is recorded by itself and again as a row of its step.
            result = item.result = result.with_text(await self._normalized(str(result), item.call.name))
        return CallResult(call_id=item.call.id, text=str(result), is_error=result.is_error, blocks=result.blocks)

    async def _normalized(self, text: str, tool_name: str) -> str:
        """Return output as it is recorded; what is too long goes to a file, in a thread."""
        parts, request = self._parts, self._spec.request

        def write(digest: str, full: str) -> str:
            return parts.offload(request, digest, full)

        def normalize() -> str:
            return parts.governor.normalize_tool_result(text, tool_name, limits=self._spec.model.limits, write=write)

        too_long = len(text) > self._spec.model.limits.tool_result_chars
        return await asyncio.to_thread(normalize) if too_long else normalize()

    def note_answer(self, prepared: Sequence[PreparedCall]) -> None:
        """Note whether the step's last call, or one that ends the turn, put words into this very chat.

        Such words replace the final text.
        """
        ends = [item for item in prepared if item.ends_turn]
        last = (ends or prepared)[-1] if prepared else None
        words = None
        if last is not None and last.tool is not None and last.result is not None and not last.result.is_error:
            words = _told(last.call.name, last.tool.stands_for_answer, last.params)
        self._outcome.answered_by_tool = words is not None
        self._outcome.tool_words = words or ""
        self._outcome.concluded = bool(ends)

    def _judge(self, prepared: Sequence[PreparedCall]) -> None:
        """Stop a run that goes in circles."""
        self._broken = 0 if any(item.usable for item in prepared) else self._broken + 1
        if self._broken >= _BROKEN_LIMIT:
            self._stop(StopReason.BROKEN_CALL, prepared[0])
        for item in prepared:
            assert item.result is not None
            self.count(item)
            if item.repeatable:
                continue
            if item.usable and item.repeats >= _REPEAT_LIMIT:
                self._stop(StopReason.REPEAT, item)
            if item.result.is_refused:
                self._refused[item.call.name, item.call.arguments] += 1
                if self._refused[item.call.name, item.call.arguments] >= _REFUSAL_LIMIT:
                    self._stop(StopReason.REPEAT, item)

    def _note_repeat(self, item: PreparedCall) -> None:
        """Count equal calls with equal results, as results come; by hashes, since a run may see many large ones."""
        if item.result is None or item.tool is None or item.repeatable:
            return
        call = (item.call.name, _arguments_hash(item))
        result = (*call, hash(item.result))
        self._seen[result] += 1
        item.repeats = self._seen[result]
        self._repeated[call] = max(self._repeated[call], item.repeats)

    def count(self, item: PreparedCall) -> None:
        """Count a call that succeeded, and whether it changed anything."""
        if item.result is None or item.result.is_error:
            return
        self._outcome.used[item.call.name] += 1
        if item.tool is not None and not _told(item.call.name, item.tool.only_looks, item.params):
            self._outcome.changed[item.call.name] += 1

    def _stop(self, reason: StopReason, item: PreparedCall) -> None:
        self._outcome.stop = reason
        self._outcome.culprit = item.call.name
        self._outcome.answered_by_tool = False
        _log.warning("run stopped", reason=reason, tool=item.call.name)


def _told(name: str, question: Callable[[dict[str, Any]], T], params: dict[str, Any]) -> T | None:
    """Return what the tool says of a call, None if it fails at that: the call itself has been carried out."""
    try:
        return question(params)
    except Exception as exc:  # noqa: BLE001 - part of the boundary of one tool call: a plugin's own code
        _log.error("tool cannot judge its own call", tool=name, error=failure_text(exc))
        return None


def _arguments_hash(item: PreparedCall) -> int:
    # Not orjson: it takes no integers beyond 64 bits, which are valid arguments.
    return hash(json.dumps(item.params, sort_keys=True, default=str))


def _tool_row(result: CallResult) -> Message:
    content: Any = result.text
    if result.blocks:
        pictures = [block for block in result.blocks if str(block.get("text") or "\0") not in result.text]
        content = [{"type": "text", "text": result.text}, *pictures]  # the text has the words of the blocks already
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}
