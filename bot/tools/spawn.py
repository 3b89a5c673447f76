"""The spawn tool: a background subagent whose result comes back to this chat."""

from __future__ import annotations

from typing import Any

from bot.interfaces import Topic, Unit
from bot.messages import InboundMessage, Origin, Replay, Risk, new_id
from bot.records import CallResult, Subagent, SubagentState
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.context import ToolContext, current_call_id, current_request

TASK_LIMIT_CHARS = 20_000


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
        },
        "required": ["task"],
        "additionalProperties": False,
    }
)
class SpawnTool(Tool):
    """Start a background subagent.

    Parameters: task (at most 20,000 characters), label. Result: the subagent's id at once; its outcome comes
    back later as a message of its own. Errors: too many subagents of this chat at work. Limits: time and steps
    of `[limits]`; a subagent cannot send messages, schedule or spawn.
    """

    name = "spawn"
    description = (
        "Start a background worker on a longer task and go on at once. It has file tools and no memory of this chat. "
        "Its result comes back to this chat by itself; tell the person that it has been started."
    )
    risk = Risk.EXECUTE
    replay = Replay.KEYED

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    @classmethod
    def create(cls, ctx: ToolContext) -> SpawnTool:
        """See `Tool.create`."""
        return cls(ctx)

    async def execute(self, **params: Any) -> ToolResult:
        """See the class."""
        request = current_request()
        call_id = current_call_id()
        label = (params.get("label") or params["task"]).strip().split("\n")[0][:60]
        limit = self._context.limits.subagents_per_chat

        def work(unit: Unit) -> CallResult:
            if unit.count_subagents(request.address) >= limit:
                text = f"{limit} subagents of this chat are at work already; wait for one to end"
                return CallResult(call_id=call_id, text=text, is_error=True)
            subagent = Subagent(
                id=new_id("sub-"),
                address=request.address,
                parent_lane=request.address.key,
                label=label,
                task=params["task"],
                state=SubagentState.RUNNING,
                reply_to=request.reply_to,
                creator_id=request.sender_id,
                chat_type=request.chat_type,
                started_us=unit.now_us(),
            )
            unit.add_subagent(subagent)
            unit.put_inbound(_order(subagent))
            text = f"Subagent {subagent.id} “{label}” is at work in the background; its result will come to this chat."
            return CallResult(call_id=call_id, text=text)

        result = await self._context.store.steps.once(request.turn, call_id, work)
        self._context.signal.notify(Topic.INBOUND)
        return ToolResult(result.text, is_error=result.is_error)


def _order(subagent: Subagent) -> InboundMessage:
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
        meta={"subagent_id": subagent.id, "label": subagent.label, "parent_lane": subagent.parent_lane},
    )
