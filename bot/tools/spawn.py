"""The spawn tool: a background subagent whose result comes back to this chat."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from bot.interfaces import Topic, Unit
from bot.messages import InboundMessage, Origin, Replay, Risk, new_id
from bot.records import CallResult, Subagent, SubagentState, outcome_id
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.context import RequestContext, ToolContext, current_call_id, current_request
from bot.toolkit.presets import preset_of, preset_problem

TASK_LIMIT_CHARS = 20_000
WAIT_S = 600.0
"""Longest wait for a result (design 7)."""

_LOOK_AGAIN_S = 0.2
_COMMIT_S = 30.0  # what the call may take beside the wait


@tool_parameters(
    {
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "minLength": 1,
                "maxLength": TASK_LIMIT_CHARS,
                "description": "The whole task: the subagent knows nothing of this conversation.",
            },
            "label": {"type": "string", "maxLength": 60, "description": "A short name for it."},
            "model": {
                "type": "string",
                "maxLength": 64,
                "description": "A model preset (`my` lists them; owners only); default: the chat's.",
            },
            "wait": {
                "type": "boolean",
                "description": f"Wait for the result, up to {WAIT_S:g} s, instead of going on at once (default false).",
            },
        },
        "required": ["task"],
        "additionalProperties": False,
    }
)
class SpawnTool(Tool):
    """Starts a background subagent whose result comes back to this chat.

    Parameters: task (at most 20,000 characters), label, model (a preset; owners only), wait. Result: the subagent's
    id at once; its outcome comes back later as a message of its own. With wait, the outcome itself, unless it takes
    longer than 600 s. Errors: too many subagents of this chat at work, a model that is not configured. Limits: time
    and steps of `[limits]`; a subagent cannot send messages, schedule or spawn.
    """

    name = "spawn"
    description = (
        "Start a background worker on a longer task and go on at once. It has the tools for files, commands, the web "
        "and this chat's history, as far as the person may use them, but begins without knowing this conversation. "
        "Its result comes back to this chat by itself; tell the person that it has been started. Only with wait is "
        "the result the answer to this call."
    )
    risk = Risk.EXECUTE
    replay = Replay.KEYED

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    @classmethod
    def create(cls, ctx: ToolContext) -> SpawnTool:
        """See `Tool.create`."""
        return cls(ctx)

    def time_limit_s(self, params: dict[str, Any]) -> float:
        """See `Tool.time_limit_s`."""
        return WAIT_S + _COMMIT_S if params.get("wait") else self.timeout_s

    async def execute(self, **params: Any) -> ToolResult:
        """See the class."""
        request = current_request()
        call_id = current_call_id()
        preset = params.get("model") or ""
        if preset and (problem := preset_problem(self._context.llm, preset, request)):
            return ToolResult.error(problem)
        label = (params.get("label") or params["task"]).strip().split("\n")[0][:60]
        limit = self._context.limits.subagents_per_chat
        started: list[Subagent] = []

        def work(unit: Unit) -> CallResult:
            if unit.count_subagents(request.address) >= limit:
                text = f"{limit} subagents of this chat are at work already; wait for one to end"
                return CallResult(call_id=call_id, text=text, is_error=True)
            subagent = Subagent(
                id=new_id("sub-"),
                address=request.address,
                # Where it is waited for; otherwise the chat's own, which goes on after this turn.
                parent_lane=request.session_key if params.get("wait") else request.address.key,
                label=label,
                task=params["task"],
                state=SubagentState.RUNNING,
                reply_to=request.reply_to,
                creator_id=request.sender_id,
                chat_type=request.chat_type,
                started_us=unit.now_us(),
                session_id=request.turn.home_session_id,
            )
            started.append(subagent)
            unit.add_subagent(subagent)
            unit.put_inbound(_order(subagent, preset))
            text = f"Subagent {subagent.id} “{label}” is at work in the background; its result will come to this chat."
            return CallResult(call_id=call_id, text=text)

        result = await self._context.store.steps.once(request.turn, call_id, work)
        if params.get("wait") and started:
            with self._context.room.waits.waiting(request.turn.id):
                self._context.signal.notify(Topic.INBOUND)
                result = await self._outcome(request, call_id, started[0]) or result
        else:
            self._context.signal.notify(Topic.INBOUND)
        return ToolResult(result.text, is_error=result.is_error)

    async def _outcome(self, request: RequestContext, call_id: str, subagent: Subagent) -> CallResult | None:
        """Wait for the subagent; None when its outcome has come, or will come, to the chat by itself.

        A crash meanwhile leaves the first result, which says just that.
        """

        def compose(message: InboundMessage) -> CallResult:
            outcome = message.meta["outcome"]
            text = f"Subagent {subagent.id} “{subagent.label}” ended: {outcome}.\n\n{message.text}"
            return CallResult(call_id=call_id, text=text, is_error=outcome != SubagentState.DONE)

        steps, message_id = self._context.store.steps, outcome_id(subagent.id)
        result = None
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while result is None:
                    await asyncio.sleep(_LOOK_AGAIN_S)  # the row is what counts, whichever process writes it
                    result = await steps.take_answer(request.turn, message_id, compose)
        return result


def _order(subagent: Subagent, preset: str) -> InboundMessage:
    meta: dict[str, Any] = {
        "subagent_id": subagent.id,
        "label": subagent.label,
        "parent_lane": subagent.parent_lane,
        "session_id": subagent.session_id,
    }
    return InboundMessage(
        address=subagent.address,
        account="subagents",
        message_id=subagent.id,
        text=subagent.task,
        sender_id=subagent.creator_id,
        chat_type=subagent.chat_type,
        origin=Origin.SUBAGENT,
        lane=f"sub:{subagent.id}",
        reply_to=subagent.reply_to,
        meta=meta | ({"model": preset_of(preset)} if preset else {}),
    )
