"""The tool calls of one step: checked, run in batches, recorded, and judged for going in circles.

Every result is recorded as it comes, so that a crash is a pause. What the model says before and after is the
runner's part; whether a call is valid is the registry's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from bot.agent.runs import RunnerParts, RunOutcome, RunSpec, StopReason
from bot.faults import fault_point
from bot.log import get_logger
from bot.messages import Replay, ToolCall
from bot.records import CallRecord, CallResult, CallState, Message
from bot.toolkit.base import Tool, ToolResult
from bot.toolkit.context import set_call_id
from bot.toolkit.results import ADVICE

_REPEAT_LIMIT = 3  # equal call with equal result this often: stopped (tools.md 1)
_BROKEN_LIMIT = 3  # steps in a row without one usable call
_REFUSAL_LIMIT = 3  # refusals of the same call by a wall

_INTERRUPTED = (
    "This call was interrupted when the process stopped; it may or may not have taken effect. "
    "Check before you do it again, and tell the person if you cannot."
)

_log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class PreparedCall:
    """One call on its way: checked, maybe already with its result."""

    call: ToolCall
    tool: Tool | None = None
    params: dict[str, Any] = field(default_factory=dict)
    result: ToolResult | None = None
    recorded: bool = False

    @property
    def concurrent(self) -> bool:
        """Whether it may run beside its neighbours, or need not run at all."""
        return self.result is not None or (self.tool is not None and self.tool.concurrency_safe)

    @property
    def ends_turn(self) -> bool:
        """Whether it succeeded and nothing is left to say."""
        return self.tool is not None and self.tool.ends_turn and self.result is not None and not self.result.is_error

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
        self._seen: Counter[tuple[str, str, str]] = Counter()
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
            return PreparedCall(
                call=call, tool=tool, params=params, result=ToolResult.refused(f"{call.name}: {refusal}.")
            )
        return PreparedCall(call=call, tool=tool, params=params)

    async def carry_out(self, prepared: list[PreparedCall]) -> list[Message]:
        """Run the calls of a step in order and record everything; returns the rows that follow the reply.

        What must end the run is noted in the outcome, which also gets the turn as it now is.
        """
        outcome, steps = self._outcome, self._parts.steps
        for batch in partition_tool_batches(prepared):
            await self._run_batch(batch)
            for item in batch:
                is_last = item is prepared[-1]
                if item.tool and item.tool.replay is Replay.ONCE and not item.recorded and not is_last:
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
        set_call_id(item.call.id)
        if item.tool.replay is Replay.ONCE:
            await self._parts.steps.start_call(self._outcome.turn, item.call.id)
        fault_point("before-call")
        result = await self._parts.registry.run(item.tool, item.params)
        item.result = result
        if result.blocks:
            blocks = await self._parts.images.keep(result.blocks)
            item.result = ToolResult(result, is_error=result.is_error, is_refused=result.is_refused, blocks=blocks)
        fault_point("after-call")

    async def _call_result(self, item: PreparedCall) -> CallResult:
        result = item.result
        assert result is not None
        text = str(result)
        if not item.recorded:
            text = await self._normalized(text, item.call.name)
        return CallResult(call_id=item.call.id, text=text, is_error=result.is_error, blocks=result.blocks)

    async def _normalized(self, text: str, tool_name: str) -> str:
        """Return output as it is recorded; what is too long goes to a file, in a thread."""
        parts, request = self._parts, self._spec.request

        def write(digest: str, full: str) -> str:
            return parts.offload(request, digest, full)

        def normalize() -> str:
            return parts.governor.normalize_tool_result(text, tool_name, limits=parts.governor_limits, write=write)

        too_long = len(text) > parts.governor_limits.tool_result_chars
        return await asyncio.to_thread(normalize) if too_long else normalize()

    def note_answer(self, prepared: Sequence[PreparedCall]) -> None:
        """Note whether the step's last call, or one that ends the turn, put words into this very chat.

        Such words replace the final text.
        """
        ends = [item for item in prepared if item.ends_turn]
        last = (ends or prepared)[-1] if prepared else None
        words = None
        if last is not None and last.tool is not None and last.result is not None and not last.result.is_error:
            words = last.tool.stands_for_answer(last.params)
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
            if item.tool is not None and item.tool.repeatable:
                continue
            arguments = orjson.dumps(item.params, option=orjson.OPT_SORT_KEYS, default=str).decode()
            self._seen[item.call.name, arguments, str(item.result)] += 1
            if item.usable and self._seen[item.call.name, arguments, str(item.result)] >= _REPEAT_LIMIT:
                self._stop(StopReason.REPEAT, item)
            if item.result.is_refused:
                self._refused[item.call.name, item.call.arguments] += 1
                if self._refused[item.call.name, item.call.arguments] >= _REFUSAL_LIMIT:
                    self._stop(StopReason.REPEAT, item)

    def count(self, item: PreparedCall) -> None:
        """Count a call that succeeded, and whether it changed anything."""
        if item.result is None or item.result.is_error:
            return
        self._outcome.used[item.call.name] += 1
        if item.tool is not None and not item.tool.only_looks(item.params):
            self._outcome.changed[item.call.name] += 1

    def _stop(self, reason: StopReason, item: PreparedCall) -> None:
        self._outcome.stop = reason
        self._outcome.culprit = item.call.name
        self._outcome.answered_by_tool = False
        _log.warning("run stopped", reason=reason, tool=item.call.name)


def _tool_row(result: CallResult) -> Message:
    content: Any = result.text
    if result.blocks:
        pictures = [block for block in result.blocks if str(block.get("text") or "\0") not in result.text]
        content = [{"type": "text", "text": result.text}, *pictures]  # the text has the words of the blocks already
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}
