"""One turn's conversation with the model: steps of a model call and the tool calls it asked for.

Every step is recorded as it happens, so that a crash is a pause: `run` continues from the last recorded step.
Claiming turns, composing prompts and ending turns are the loop's part; which calls exist and whether they are
valid is the registry's.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from bot.agent.draft_text import DraftText
from bot.agent.model_talk import ModelTalk, assistant_row, replayed
from bot.agent.models import Model
from bot.agent.reactions import may_stay_silent, says_nothing
from bot.agent.runs import Offload, RunnerParts, RunOutcome, RunSpec, StopReason
from bot.agent.step import PreparedCall, StepCalls, partition_tool_batches
from bot.agent.tokens import estimate_tools
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply
from bot.log import get_logger
from bot.messages import NO_REPLY
from bot.records import CallRecord, Turn
from bot.security.workspace import FileSlot, FileTooLarge, PathMissing, PathRefused, WorkspaceView
from bot.toolkit.calls import call_ids, with_unique_ids
from bot.toolkit.context import RequestContext, set_progress, set_request

_ANSWER_NOW = (
    "[The limit of steps for this turn is reached; no more tools can be used. Say briefly what was done, what is "
    "still open, and how to go on.]"
)
_BUDGET_SPENT = (
    "[The budget of the goal is used up; no more tools can be used. Say briefly what was done and what is still open.]"
)
_TRY_AGAIN = "[The last tool call could not be read. Send it again as one well-formed call, or answer in words.]"

_log = get_logger(__name__)


class AgentRunner:
    """Runs turns; holds no state of any of them."""

    def __init__(self, parts: RunnerParts) -> None:
        self.parts = parts
        self._tools_tokens: dict[tuple[int, frozenset[str]], int] = {}

    def tools_tokens(self, names: frozenset[str]) -> int:
        """Return the estimated tokens of these tools' definitions; counted again only when tools change."""
        key = (self.parts.registry.version, names)
        if key not in self._tools_tokens:
            self._tools_tokens = {known: count for known, count in self._tools_tokens.items() if known[0] == key[0]}
            self._tools_tokens[key] = estimate_tools(self.parts.registry.subset(names).get_definitions())
        return self._tools_tokens[key]

    def context_tokens(self, session_id: int, model: Model) -> int:
        """Return the estimated tokens of a session's last request, corrected as budgets are; 0 if there was none."""
        governor = self.parts.governor
        estimated = governor.estimated_tokens(str(session_id)) or 0
        return round(estimated * governor.calibration.factor(model.model))

    async def run(self, turn: Turn, spec: RunSpec) -> RunOutcome:
        """Carry the turn to its final text, to a limit, or to a model that cannot be had.

        Steps recorded on the way stay, whatever the end; the outcome's turn knows of them.

        Raises:
            StaleLease: another worker has the turn now.
        """
        set_request(spec.request)
        draft = None if spec.on_text is None else DraftText(spec.on_text)
        set_progress(None if draft is None else draft.show_line)
        if draft is not None:
            spec = replace(spec, on_text=draft.show)
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

    @staticmethod
    def _partition_tool_batches(calls: Sequence[PreparedCall]) -> list[list[PreparedCall]]:
        """See `bot.agent.step.partition_tool_batches`; the name is a contract."""
        return partition_tool_batches(calls)


class _Run:
    """The state of one run."""

    def __init__(self, runner: AgentRunner, turn: Turn, spec: RunSpec) -> None:
        self._parts = runner.parts
        self._spec = spec
        self._messages = replayed([*spec.history, *spec.fresh], spec.model)
        self._fresh = list(spec.fresh)  # rows that the next recording must store
        self._outcome = RunOutcome(turn=turn, stop=StopReason.ANSWERED)
        self._calls = StepCalls(runner.parts, spec, self._outcome)
        self._talk = ModelTalk(runner.parts, spec, self._outcome, tools_tokens=runner.tools_tokens(spec.tools))

    @cached_property
    def _taken(self) -> set[str]:
        """The ids of all calls so far; looked for when a call is made, not in each turn."""
        return call_ids(self._messages)

    async def go(self) -> RunOutcome:
        outcome = self._outcome
        if outcome.turn.has_rows:
            await self._finish_open_step()
        while not outcome.culprit and not outcome.concluded:
            if outcome.turn.step >= self._parts.settings["steps_per_turn"]:
                await self._answer_without_tools(_ANSWER_NOW, StopReason.STEPS)
                return outcome
            if outcome.turn.step and self._spec.is_spent is not None and await self._spec.is_spent(outcome):
                await self._answer_without_tools(_BUDGET_SPENT, StopReason.BUDGET)
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
        if outcome.concluded:
            outcome.rows = [*self._fresh, {"role": "assistant", "content": outcome.tool_words}]
        return outcome

    def without_model(self, error: ProviderError) -> RunOutcome:
        """Return the outcome of a run that the provider's failure ended."""
        outcome = self._outcome
        outcome.stop, outcome.error, outcome.rows = StopReason.NO_MODEL, error, self._fresh
        return outcome

    # --- the model

    async def _ask(self, *, nudge: str = "", tools: bool = True) -> ModelReply:
        return await self._talk.ask(self._messages, nudge=nudge, tools=tools)

    async def _conclude(self, reply: ModelReply) -> None:
        """Take the final text, whole if it can be had."""
        outcome = self._outcome
        reply = await self._talk.in_full(self._messages, reply)
        if says_nothing(outcome.turn, reply.text):
            reply = replace(reply, text="")
        outcome.text = reply.text.strip()
        if outcome.text:
            self._fresh.append(assistant_row(replace(reply, text=outcome.text)))
        elif may_stay_silent(outcome.turn):
            outcome.silent = True
            self._fresh.append(assistant_row(replace(reply, text=NO_REPLY)))
        elif not outcome.answered_by_tool:
            outcome.stop = StopReason.EMPTY
        outcome.rows = self._fresh

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
            outcome.text = "" if says_nothing(outcome.turn, reply.text) else reply.text.strip()
            if outcome.text:
                self._fresh.append(assistant_row(replace(reply, text=outcome.text)))
        outcome.rows = self._fresh

    # --- one step

    async def _step(self, reply: ModelReply) -> None:
        calls = with_unique_ids(reply.tool_calls, self._taken)
        self._taken.update(call.id for call in calls)
        row = assistant_row(reply, calls)
        # Before the write: when the run is cut short during it, nobody knows whether the rows are stored.
        rows, self._fresh = [*self._fresh, row], []
        prepared = [self._calls.prepare(call, reply.finish_reason) for call in calls]
        for item in prepared:
            item.repeatable = item.repeatable or reply.may_repeat
        known = await self._calls.known_results(prepared)
        outcome = self._outcome
        await self._parts.steps.record_reply(outcome.turn, rows, calls, known, outcome.unrecorded)
        outcome.recorded = outcome.usage
        self._messages.append(row)
        await self._carry_out(prepared)

    async def _carry_out(self, prepared: list[PreparedCall]) -> None:
        self._messages += await self._calls.carry_out(prepared)

    async def _finish_open_step(self) -> None:
        """Resume: run what a crash left open of the last recorded step, and recall whether it was answered."""
        turn = self._outcome.turn
        records: list[CallRecord] = []
        for step in range(turn.step):
            records = await self._parts.steps.calls_of(turn, step)
            self._taken.update(record.call.id for record in records)
            for record in records:
                self._calls.count(self._calls.recalled(record))
        open_calls = await self._parts.steps.calls_of(turn, turn.step)
        if open_calls:
            self._taken.update(record.call.id for record in open_calls)
            await self._carry_out([self._calls.recalled(record) for record in open_calls])
        elif records and self._messages[-1].get("role") == "tool":  # else somebody wrote after the step
            self._calls.note_answer([self._calls.recalled(record) for record in records])


def offload_to(view_of: Callable[[RequestContext], WorkspaceView]) -> Offload:
    """Return a writer that keeps full tool output in the chat's folder, named by its content.

    The folder is the chat's to change, so it is written like any other of its files: through no link out of it.
    """

    def write(request: RequestContext, digest: str, text: str) -> str:
        path, data = f"tool-output/{digest[:32]}.txt", text.encode("utf-8", "replace")
        try:
            with view_of(request).slot(path, make_parents=True) as slot:
                if not _is_kept(slot, data):
                    slot.replace(data)
        except PathRefused as error:
            raise OSError(str(error)) from None
        return path

    return write


def _is_kept(slot: FileSlot, data: bytes) -> bool:
    try:
        return slot.identity(limit_bytes=len(data)).sha256 == hashlib.sha256(data).digest()
    except (PathMissing, FileTooLarge):
        return False
