"""One turn's conversation with the model: steps of a model call and the tool calls it asked for.

Every step is recorded as it happens, so that a crash is a pause: `run` continues from the last recorded step.
Claiming turns, composing prompts and ending turns are the loop's part; which calls exist and whether they are
valid is the registry's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from bot.access.policy import AccessPolicy
from bot.agent.governor import ContextGovernor, GovernorLimits
from bot.agent.images import ImageStore
from bot.agent.tokens import estimate_tools
from bot.config import LimitsSection
from bot.errors import ProviderError, ProviderErrorKind
from bot.faults import fault_point
from bot.interfaces import ModelReply, ModelRequest, Provider, Steps
from bot.log import get_logger
from bot.messages import Replay, ToolCall, Usage
from bot.records import CallRecord, CallResult, CallState, Message, QueuedMessage, Turn
from bot.toolkit.base import Tool, ToolResult
from bot.toolkit.calls import with_unique_ids
from bot.toolkit.context import RequestContext, set_call_id, set_request
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.results import ADVICE

_REPEAT_LIMIT = 3  # equal call with equal result this often: stopped (tools.md 1)
_BROKEN_LIMIT = 3  # steps in a row without one usable call
_REFUSAL_LIMIT = 3  # refusals of the same call by a wall
_SHRINK = 0.5  # part of the input budget used after the provider found the context too long

_INTERRUPTED = (
    "This call was interrupted when the process stopped; it may or may not have taken effect. "
    "Check before you do it again, and tell the person if you cannot."
)
_CONTINUE = "[The answer was cut off by the output limit. Continue exactly where it stopped, without repeating.]"
_ANSWER_NOW = (
    "[The limit of steps for this turn is reached; no more tools can be used. Say briefly what was done, what is "
    "still open, and how to go on.]"
)
_TRY_AGAIN = "[The last tool call could not be read. Send it again as one well-formed call, or answer in words.]"
_EMPTY = "[Your answer was empty. Answer the person in words.]"

_log = get_logger(__name__)


class StopReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"  # the model gave its final text
    STEPS = "steps"  # the limit of steps is reached
    REPEAT = "repeat"  # the same call kept giving the same result
    BROKEN_CALL = "broken_call"  # the model kept sending calls that cannot be used
    EMPTY = "empty"  # the model gave no text, also when asked again
    NO_MODEL = "no_model"  # the model could not be had, or not in time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run needs beside its turn.

    `history` are stored rows, `fresh` the rows of this turn that are not stored yet (its user message).
    `compose` makes the row of a message that joins the turn; it runs on the store's thread. `tools` names the
    tools that exist in this turn. `time_limit_s` bounds the whole run, None leaves it to the limits of its parts.
    """

    request: RequestContext
    system: str
    history: Sequence[Message]
    fresh: Sequence[Message]
    compose: Callable[[QueuedMessage], Message]
    tools: frozenset[str]
    on_text: Callable[[str], None] | None = None
    time_limit_s: float | None = None


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """How a run ended. `rows` are not stored yet: the ending of the turn stores them."""

    turn: Turn
    stop: StopReason
    text: str = ""
    rows: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    answered_by_tool: bool = False  # a message to this very chat stands for the final text
    tool_words: str = ""  # what that message said
    used: Counter[str] = field(default_factory=Counter)  # successful calls by tool name
    changed: Counter[str] = field(default_factory=Counter)  # those of them that did not only look
    culprit: str = ""  # the tool that a stop is about
    notice: str = ""
    error: ProviderError | None = None  # why the model could not be had


class AgentRunner:
    """Runs turns; holds no state of any of them."""

    def __init__(
        self,
        *,
        provider: Provider,
        registry: ToolRegistry,
        steps: Steps,
        governor: ContextGovernor,
        policy: AccessPolicy,
        limits: LimitsSection,
        governor_limits: GovernorLimits,
        offload: Callable[[RequestContext, str, str], str],
        images: ImageStore,
        max_output_tokens: int | None = None,
        model: str = "",
    ) -> None:
        self.provider = provider
        self.registry = registry
        self.steps = steps
        self.governor = governor
        self.policy = policy
        self.limits = limits
        self.governor_limits = governor_limits
        self.offload = offload
        self.images = images
        self.max_output_tokens = max_output_tokens
        self.model = model
        self._tools_tokens: dict[tuple[int, frozenset[str]], int] = {}

    def tools_tokens(self, names: frozenset[str]) -> int:
        """Return the estimated tokens of these tools' definitions; counted again only when tools change."""
        key = (self.registry.version, names)
        if key not in self._tools_tokens:
            self._tools_tokens = {known: count for known, count in self._tools_tokens.items() if known[0] == key[0]}
            self._tools_tokens[key] = estimate_tools(self.registry.subset(names).get_definitions())
        return self._tools_tokens[key]

    async def run(self, turn: Turn, spec: RunSpec) -> RunOutcome:
        """Carry the turn to its final text, to a limit, or to a model that cannot be had.

        Steps recorded on the way stay, whatever the end; the outcome's turn knows of them.

        Raises:
            StaleLease: another worker has the turn now.
        """
        set_request(spec.request)
        run = _Run(self, turn, spec)
        limit = asyncio.timeout(spec.time_limit_s)
        try:
            async with limit:
                return await run.go()
        except ProviderError as exc:
            return run.without_model(exc)
        except TimeoutError:
            if not limit.expired():
                raise
            return run.without_model(
                ProviderError(ProviderErrorKind.TIMEOUT, f"not done within {spec.time_limit_s:g} s")
            )

    def _partition_tool_batches(self, calls: Sequence[_Prepared]) -> list[list[_Prepared]]:
        """Return the calls in order, neighbours that may run side by side as one batch."""
        batches: list[list[_Prepared]] = []
        for call in calls:
            if call.concurrent and batches and batches[-1][-1].concurrent:
                batches[-1].append(call)
            else:
                batches.append([call])
        return batches


@dataclass(slots=True, kw_only=True)
class _Prepared:
    """One call on its way: checked, maybe already with its result."""

    call: ToolCall
    tool: Tool | None = None
    params: dict[str, Any] = field(default_factory=dict)
    result: ToolResult | None = None
    recorded: bool = False

    @property
    def concurrent(self) -> bool:
        return self.result is not None or (self.tool is not None and self.tool.concurrency_safe)

    @property
    def usable(self) -> bool:
        return self.tool is not None


class _Run:
    """The state of one run."""

    def __init__(self, runner: AgentRunner, turn: Turn, spec: RunSpec) -> None:
        self._runner = runner
        self._spec = spec
        self._messages = [*spec.history, *spec.fresh]
        self._fresh = list(spec.fresh)  # rows that the next recording must store
        self._outcome = RunOutcome(turn=turn, stop=StopReason.ANSWERED)
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()
        self._broken = 0
        self._taken = {str(call.get("id")) for row in self._messages for call in row.get("tool_calls") or ()}
        self._view = runner.registry.subset(spec.tools)
        self._tools_tokens = runner.tools_tokens(spec.tools)

    async def go(self) -> RunOutcome:
        outcome = self._outcome
        if outcome.turn.has_rows:
            await self._finish_open_step()
        while not outcome.culprit:
            if outcome.turn.step >= self._runner.limits.steps_per_turn:
                await self._answer_without_tools(_ANSWER_NOW, StopReason.STEPS)
                return outcome
            reply = await self._ask()
            if not reply.tool_calls and reply.malformed_calls:
                reply = await self._ask(nudge=_TRY_AGAIN)
                if not reply.tool_calls and reply.malformed_calls:
                    await self._answer_without_tools(_TRY_AGAIN, StopReason.ANSWERED)
                    return outcome
            if not reply.tool_calls:
                await self._conclude(reply)
                return outcome
            await self._step(reply)
        return outcome

    def without_model(self, error: ProviderError) -> RunOutcome:
        """Return the outcome of a run that the provider's failure ended."""
        outcome = self._outcome
        outcome.stop, outcome.error, outcome.rows = StopReason.NO_MODEL, error, self._fresh
        return outcome

    # --- the model

    async def _ask(self, *, nudge: str = "", tools: bool = True) -> ModelReply:
        """Call the model once; a context that is too long is shrunk harder and tried once more."""
        try:
            return await self._complete(nudge=nudge, tools=tools, shrink=1.0)
        except ProviderError as exc:
            if exc.kind is not ProviderErrorKind.CONTEXT_LENGTH:
                raise
            _log.warning("context too long, shrinking", detail=exc.detail)
            return await self._complete(nudge=nudge, tools=tools, shrink=_SHRINK)

    async def _complete(self, *, nudge: str, tools: bool, shrink: float) -> ModelReply:
        runner, request = self._runner, self._spec.request
        messages = runner.governor.prepare_for_model(
            self._messages,
            limits=runner.governor_limits,
            system=self._spec.system,
            tools_tokens=self._tools_tokens if tools else 0,
            shrink=shrink,
            session_key=str(self._outcome.turn.session_id),
            model=runner.model,
        )
        if nudge:
            messages = [*messages, {"role": "user", "content": nudge}]
        reply = await runner.provider.complete(
            ModelRequest(
                messages=await runner.images.embed(messages),
                tools=self._view.get_definitions() if tools else (),
                tools_json=self._view.definitions_json() if tools else b"",
                max_output_tokens=runner.max_output_tokens,
                zone=request.zone,
                language=request.language,
            ),
            self._spec.on_text,
        )
        self._outcome.usage += reply.usage
        self._outcome.notice = reply.notice or self._outcome.notice
        fault_point("replied")
        return reply

    async def _conclude(self, reply: ModelReply) -> None:
        """Take the final text: continued when it was cut off, asked for again when it was empty."""
        outcome = self._outcome
        text = reply.text
        for _ in range(self._runner.limits.length_continuations):
            if reply.finish_reason != "length" or not text:
                break
            self._messages.append({"role": "assistant", "content": text})
            reply = await self._ask(nudge=_CONTINUE, tools=False)
            self._messages.pop()
            text += reply.text
        if not text.strip() and not outcome.answered_by_tool:
            reply = await self._ask(nudge=_EMPTY, tools=False)
            text = reply.text
        outcome.text = text.strip()
        if outcome.text:
            self._fresh.append(_assistant_row(outcome.text, reply))
        elif not outcome.answered_by_tool:
            outcome.stop = StopReason.EMPTY
        outcome.rows = self._fresh
        self._calibrate(reply)

    def _calibrate(self, reply: ModelReply) -> None:
        """Teach the token estimate what the provider counted; once a turn, so that its choices stay fixed."""
        governor = self._runner.governor
        estimated = governor.estimated_tokens(str(self._outcome.turn.session_id))
        if estimated and reply.usage.input_tokens:
            governor.calibration.observe(self._runner.model, estimated, reply.usage.input_tokens)

    async def _answer_without_tools(self, nudge: str, stop: StopReason) -> None:
        """Ask for closing words; a provider that fails even at that leaves the text empty."""
        outcome = self._outcome
        outcome.stop = stop
        outcome.answered_by_tool = False
        try:
            reply = await self._ask(nudge=nudge, tools=False)
        except ProviderError as exc:
            _log.warning("no closing words", detail=exc.detail)
        else:
            outcome.text = reply.text.strip()
            if outcome.text:
                self._fresh.append(_assistant_row(outcome.text, reply))
        outcome.rows = self._fresh

    # --- one step

    async def _step(self, reply: ModelReply) -> None:
        calls = with_unique_ids(reply.tool_calls, self._taken)
        self._taken.update(call.id for call in calls)
        row = _assistant_row(reply.text, reply, calls)
        # Before the write: when the run is cut short during it, nobody knows whether the rows are stored.
        rows, self._fresh = [*self._fresh, row], []
        await self._runner.steps.record_reply(self._outcome.turn, rows, calls)
        self._messages.append(row)
        await self._carry_out([self._prepare(call, reply.finish_reason) for call in calls])

    async def _finish_open_step(self) -> None:
        """Resume: run what a crash left open of the last recorded step, and recall whether it was answered."""
        turn = self._outcome.turn
        records: list[CallRecord] = []
        for step in range(turn.step):
            records = await self._runner.steps.calls_of(turn, step)
            self._taken.update(record.call.id for record in records)
            for record in records:
                self._count(self._recalled(record))
        open_calls = await self._runner.steps.calls_of(turn, turn.step)
        if open_calls:
            self._taken.update(record.call.id for record in open_calls)
            await self._carry_out([self._recalled(record) for record in open_calls])
        elif records and self._messages[-1].get("role") == "tool":  # else somebody wrote after the step
            self._note_answer([self._recalled(record) for record in records])

    def _recalled(self, record: CallRecord) -> _Prepared:
        prepared = self._prepare(record.call, "")
        if record.result is not None:
            stored = record.result
            prepared.result = ToolResult(stored.text, is_error=stored.is_error, blocks=stored.blocks)
            prepared.recorded = True
        elif record.state is CallState.STARTED:
            prepared.result = ToolResult.error(_INTERRUPTED)
        return prepared

    def _prepare(self, call: ToolCall, finish_reason: str) -> _Prepared:
        """Check a call: does it exist in this turn, are its arguments valid, may this sender do it."""
        spec, runner = self._spec, self._runner
        if call.name in runner.registry and call.name not in spec.tools:
            known = runner.registry.get(call.name)
            reason = known and runner.policy.refusal(spec.request.role, spec.request.chat_type, known.risk)
            return _Prepared(call=call, result=ToolResult.refused(f"{call.name}: {reason or 'not available here'}."))
        tool, params, error = self._view.prepare_call(call.name, call.arguments, truncated=finish_reason == "length")
        if tool is None or error is not None:
            return _Prepared(call=call, result=ToolResult.error(f"{error}\n\n{ADVICE}"))
        refusal = runner.policy.refusal(spec.request.role, spec.request.chat_type, tool.risk_for(params))
        if refusal:
            return _Prepared(call=call, tool=tool, params=params, result=ToolResult.refused(f"{call.name}: {refusal}."))
        return _Prepared(call=call, tool=tool, params=params)

    async def _carry_out(self, prepared: list[_Prepared]) -> None:
        """Run the calls of a step in order, record everything, and note what must end the run."""
        outcome, steps = self._outcome, self._runner.steps
        for batch in self._runner._partition_tool_batches(prepared):  # noqa: SLF001 - the name is a contract
            await self._run_batch(batch)
            for item in batch:
                is_last = item is prepared[-1]
                if item.tool and item.tool.replay is Replay.ONCE and not item.recorded and not is_last:
                    await steps.record_result(outcome.turn, self._call_result(item))
                    item.recorded = True
        results = [self._call_result(item) for item in prepared]
        rows = [_tool_row(result) for result in results]
        outcome.turn, joined = await steps.record_step(outcome.turn, results, rows, self._spec.compose)
        fault_point("recorded")
        self._messages += [*rows, *joined]
        self._note_answer([] if joined else prepared)
        self._judge(prepared)

    async def _run_batch(self, batch: list[_Prepared]) -> None:
        limit = asyncio.Semaphore(self._runner.limits.parallel_calls)

        async def one(item: _Prepared) -> None:
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

    async def _run_call(self, item: _Prepared) -> None:
        assert item.tool is not None
        set_call_id(item.call.id)
        if item.tool.replay is Replay.ONCE:
            await self._runner.steps.start_call(self._outcome.turn, item.call.id)
        fault_point("before-call")
        result = await self._runner.registry.run(item.tool, item.params)
        item.result = result
        if result.blocks:
            blocks = await self._runner.images.keep(result.blocks)
            item.result = ToolResult(result, is_error=result.is_error, is_refused=result.is_refused, blocks=blocks)
        fault_point("after-call")

    def _call_result(self, item: _Prepared) -> CallResult:
        result = item.result
        assert result is not None
        text = str(result)
        if not item.recorded:

            def write(digest: str, full: str) -> str:
                return self._runner.offload(self._spec.request, digest, full)

            text = self._runner.governor.normalize_tool_result(
                text, item.call.name, limits=self._runner.governor_limits, write=write
            )
        return CallResult(call_id=item.call.id, text=text, is_error=result.is_error, blocks=result.blocks)

    def _note_answer(self, prepared: Sequence[_Prepared]) -> None:
        """Note whether the step's last call put words into this very chat that replace the final text."""
        last = prepared[-1] if prepared else None
        words = None
        if last is not None and last.tool is not None and last.result is not None and not last.result.is_error:
            words = last.tool.stands_for_answer(last.params)
        self._outcome.answered_by_tool = words is not None
        self._outcome.tool_words = words or ""

    def _judge(self, prepared: Sequence[_Prepared]) -> None:
        """Stop a run that goes in circles."""
        self._broken = 0 if any(item.usable for item in prepared) else self._broken + 1
        if self._broken >= _BROKEN_LIMIT:
            self._stop(StopReason.BROKEN_CALL, prepared[0])
        for item in prepared:
            assert item.result is not None
            self._count(item)
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

    def _count(self, item: _Prepared) -> None:
        if item.result is None or item.result.is_error:
            return
        self._outcome.used[item.call.name] += 1
        if item.tool is not None and not item.tool.only_looks(item.params):
            self._outcome.changed[item.call.name] += 1

    def _stop(self, reason: StopReason, item: _Prepared) -> None:
        self._outcome.stop = reason
        self._outcome.culprit = item.call.name
        self._outcome.answered_by_tool = False
        _log.warning("run stopped", reason=reason, tool=item.call.name)


def _assistant_row(text: str, reply: ModelReply, calls: Sequence[ToolCall] = ()) -> Message:
    row: Message = {"role": "assistant"}
    if text:
        row["content"] = text
    if reply.reasoning:
        row["reasoning_content"] = reply.reasoning
    if calls:
        row["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _valid_json(call)}}
            for call in calls
        ]
    return row


def _valid_json(call: ToolCall) -> str:
    """Return arguments that may be replayed: a provider refuses a request whose old arguments are not JSON."""
    try:
        return call.arguments if isinstance(orjson.loads(call.arguments), dict) else "{}"
    except orjson.JSONDecodeError:
        return "{}"


def _tool_row(result: CallResult) -> Message:
    content: Any = result.text
    if result.blocks:
        pictures = [block for block in result.blocks if str(block.get("text") or "\0") not in result.text]
        content = [{"type": "text", "text": result.text}, *pictures]  # the text has the words of the blocks already
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


def offload_to(workspace_folder: Callable[[RequestContext], Path]) -> Callable[[RequestContext, str, str], str]:
    """Return a writer that keeps full tool output in the chat's folder, named by its content."""

    def write(request: RequestContext, digest: str, text: str) -> str:
        folder = workspace_folder(request) / "tool-output"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{digest[:32]}.txt"
        if not path.exists():
            path.write_text(text, encoding="utf-8")
        return f"tool-output/{path.name}"

    return write
