"""What a run says to the model: one request per question, and final words that are whole or said to be cut.

Which rows there are, and what follows from a reply, is the runner's part; making a request fit is the
governor's; tries and other endpoints are the provider's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import orjson

from bot.agent.governor import GovernorLimits
from bot.agent.governor_budget import MIN_ROWS_TOKENS
from bot.agent.models import Model
from bot.agent.reactions import may_stay_silent, says_nothing
from bot.agent.runs import RunnerParts, RunOutcome, RunSpec
from bot.agent.tokens import estimate_text
from bot.errors import ProviderError, ProviderErrorKind
from bot.faults import fault_point
from bot.interfaces import ModelReply, ModelRequest
from bot.log import get_logger
from bot.messages import ToolCall
from bot.providers.continuation import join, join_growing
from bot.providers.reasoning_fields import PLAIN_FIELDS, REASONING_MODEL_FIELD
from bot.records import Message
from bot.texts import say
from bot.toolkit.arguments import coerce

_SHRINK = 0.5  # part of the input budget used after the provider found the context too long
_WINDOW_SHARE = 0.9  # of a window that the provider named, what is left beside the answer: estimates err

_CONTINUE = "[The answer was cut off by the output limit. Continue exactly where it stopped, without repeating.]"
_EMPTY = "[Your answer was empty. Answer the person in words.]"
_THOUGHT_TOO_LONG = (
    "[Your thinking used up the whole output limit and no answer was left. Think as little as possible and answer "
    "the person now.]"
)

_log = get_logger(__name__)


class ModelTalk:
    """The questions of one run. Usage, notices and the model's own calibration are noted on the way."""

    def __init__(self, parts: RunnerParts, spec: RunSpec, outcome: RunOutcome, *, tools_tokens: int) -> None:
        self._parts = parts
        self._spec = spec
        self._outcome = outcome
        self._tools_tokens = tools_tokens
        self._shrink = 1.0  # the part of the input budget that the provider takes, as far as this run knows
        self._view = parts.registry.subset(spec.tools)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        nudge: str = "",
        tools: bool = True,
        before: str = "",
        effort: str = "",
    ) -> ModelReply:
        """Call the model once; a context that is too long is shrunk harder and tried once more.

        `nudge` follows the messages and is not stored. `before` is text that the reply continues: a draft shows
        both as one. `effort` is how hard to think, where that is configured at all.

        Raises:
            ProviderError: CONTEXT_LENGTH when the harder shrink did not help, WINDOW where none could.
        """
        asked = [*messages]

        async def complete() -> ModelReply:
            return await self._complete(asked, nudge, self._shrink, tools=tools, before=before, effort=effort)

        try:
            return await complete()
        except ProviderError as exc:
            if exc.kind is not ProviderErrorKind.CONTEXT_LENGTH:
                raise
            self._shrink = self._harder(exc.window_tokens)
            if exc.window_tokens is not None:
                self._parts.models.learn_window(self._spec.model, exc.window_tokens)
            _log.warning("context too long, shrinking", detail=exc.detail, to=f"{self._shrink:.0%}")
        try:
            return await complete()
        except ProviderError as exc:
            if exc.kind is ProviderErrorKind.CONTEXT_LENGTH and not self._has_room(exc.window_tokens, tools=tools):
                raise ProviderError(ProviderErrorKind.WINDOW, exc.detail, window_tokens=exc.window_tokens) from exc
            raise

    async def in_full(self, messages: Sequence[Message], reply: ModelReply) -> ModelReply:
        """Return the final words that `reply` begins: continued when they were cut off, asked for when there are none.

        What stays cut off, by the output limit or by the provider's filter, gets a note for the person. A message
        that a tool sent may stand for an empty answer.

        Raises:
            ProviderError: there is no text at all, and no model to ask for it.
        """
        if reply.finish_reason == "length" and not reply.text.strip():
            reply = await self.ask(messages, nudge=_THOUGHT_TOO_LONG, tools=False, effort="low")
        reply = await self._continued(messages, reply)
        turn = self._outcome.turn
        needs_words = not (self._outcome.answered_by_tool or may_stay_silent(turn))
        if needs_words and says_nothing(turn, reply.text):
            reply = await self._continued(messages, await self.ask(messages, nudge=_EMPTY, tools=False))
        if reply.text.strip() and reply.finish_reason in ("length", "content_filter"):
            key = "answer.cut" if reply.finish_reason == "length" else "answer.filtered"
            self._outcome.notice = say(self._spec.request.language, key)
        self._calibrate(reply)
        return reply

    async def _continued(self, messages: Sequence[Message], reply: ModelReply) -> ModelReply:
        """Return a reply that the output limit cut off with what follows, as far as that can be had."""
        for _ in range(self._parts.limits.length_continuations):
            if reply.finish_reason != "length" or not reply.text.strip():
                break
            so_far: Message = {"role": "assistant", "content": reply.text}
            try:
                more = await self.ask([*messages, so_far], nudge=_CONTINUE, tools=False, before=reply.text)
            except ProviderError as exc:
                _log.warning("no continuation", detail=exc.detail)
                break
            if not more.text.strip():
                break
            # Signed thoughts belong to the text they came with; this is another one now.
            reply = replace(more, text=join(reply.text, more.text), reasoning_fields={})
        return reply

    async def _complete(
        self, messages: list[Message], nudge: str, shrink: float, *, tools: bool, before: str, effort: str
    ) -> ModelReply:
        parts, request, model = self._parts, self._spec.request, self._spec.model
        governed = parts.governor.prepare_for_model(
            messages,
            limits=model.limits,
            system=self._spec.system,
            tools_tokens=self._tools_tokens if tools else 0,
            shrink=shrink,
            session_key=str(self._outcome.turn.session_id),
            model=model.model,
            vision=model.vision,
            replay_fields=model.replay_fields,
            hint=nudge,
        )
        reply = await model.provider.complete(
            ModelRequest(
                messages=await parts.images.embed(governed),
                turn_messages=len(self._outcome.turn.messages),
                tools=self._view.get_definitions() if tools else (),
                tools_json=self._view.definitions_json() if tools else b"",
                max_output_tokens=model.max_output_tokens,
                reasoning_effort=effort,
                zone=request.zone,
                language=request.language,
            ),
            self._draft(before),
        )
        cost = model.cost_micros(reply.usage, reply.model)
        self._outcome.usage += replace(reply.usage, cost_micros=cost)
        self._outcome.notice = reply.notice or self._outcome.notice
        fault_point("replied")
        return reply

    def _draft(self, before: str) -> Callable[[str], None]:
        """Return who gets the growing text.

        Replies are streamed also when nobody watches: only then does a long one that goes on differ from one
        that stalls, and can one that is cut off be continued.
        """
        show = self._spec.on_text
        if show is None:
            return _unseen
        return (lambda text: show(join_growing(before, text))) if before else show

    def _harder(self, window_tokens: int | None) -> float:
        """Return the part of the input budget to use from now on: half of it, less if the window is that small."""
        limits = self._spec.model.limits
        half = self._shrink * _SHRINK
        if window_tokens is None or not limits.input_tokens:
            return half
        return min(half, _WINDOW_SHARE * _input_room(limits, window_tokens) / limits.input_tokens)

    def _has_room(self, window_tokens: int | None, *, tools: bool) -> bool:
        """Say whether the window holds any conversation beside what every request begins with."""
        limits = self._spec.model.limits
        fixed = estimate_text(self._spec.system) + (self._tools_tokens if tools else 0)
        return fixed + MIN_ROWS_TOKENS <= _input_room(limits, window_tokens or limits.context_window_tokens)

    def _calibrate(self, reply: ModelReply) -> None:
        """Teach the token estimate what the provider counted; once a turn, so that its choices stay fixed."""
        governor = self._parts.governor
        estimated = governor.estimated_tokens(str(self._outcome.turn.session_id))
        if estimated and reply.usage.input_tokens:
            governor.calibration.observe(reply.model or self._spec.model.model, estimated, reply.usage.input_tokens)


def _input_room(limits: GovernorLimits, window_tokens: int) -> int:
    window_tokens = min(window_tokens, limits.context_window_tokens)
    return window_tokens - min(limits.max_output_tokens, window_tokens // 4)


def _unseen(_text: str) -> None:
    """Show a growing text to nobody."""


def replayed(rows: Sequence[Message], model: Model) -> list[Message]:
    """Return history as the model may get it back: the plain reasoning of final answers is of no use to any.

    Reasoning that led to a call may be needed with it, and what is signed is its sender's affair.
    """
    if model.keeps_reasoning:
        return [*rows]
    return [_without_plain(row) if _is_thought_of_answer(row) else row for row in rows]


def _is_thought_of_answer(row: Message) -> bool:
    return REASONING_MODEL_FIELD in row and "tool_calls" not in row


def _without_plain(row: Message) -> Message:
    return {key: value for key, value in row.items() if key not in PLAIN_FIELDS}


def assistant_row(reply: ModelReply, calls: Sequence[ToolCall] = ()) -> Message:
    """Return a reply as history keeps it, its reasoning marked with the model that alone may get it back."""
    row: Message = {"role": "assistant"}
    if reply.text:
        row["content"] = reply.text
    row.update(reply.reasoning_fields)
    if reply.reasoning and not any(name in row for name in PLAIN_FIELDS):
        row["reasoning_content"] = reply.reasoning
    if calls:
        row["tool_calls"] = [_call_entry(call) for call in calls]
    if row.keys() - {"role", "content", "tool_calls"} or any(call.extra_content for call in calls):
        row[REASONING_MODEL_FIELD] = reply.model
    return row


def _call_entry(call: ToolCall) -> Message:
    entry: Message = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": _valid_json(call)},
    }
    if call.extra_content:
        entry["extra_content"] = dict(call.extra_content)
    return entry


def _valid_json(call: ToolCall) -> str:
    """Return arguments that may be replayed: a provider refuses a request whose old arguments are not JSON.

    What had to be mended is replayed as it was understood, so that the model sees what it did; the rest as {}.
    """
    try:
        if isinstance(orjson.loads(call.arguments), dict):
            return call.arguments
    except orjson.JSONDecodeError:
        pass
    try:
        understood = json.dumps(coerce(call.arguments, lambda _: True), allow_nan=False)
        orjson.loads(understood)
    except (ValueError, RecursionError):  # ArgumentsError is one; so are NaN, and half of a character
        return "{}"
    return understood
