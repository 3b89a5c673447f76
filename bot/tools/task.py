"""The tools of sustained goals: `task` sets one and keeps its plan, `complete_goal` ends it.

What a goal does between its turns, and when its budget ends it, is decided in `bot/agent/goals.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.interfaces import Topic, Unit
from bot.messages import OutboundMessage, Replay, Risk, new_id
from bot.records import CallResult, Goal, GoalBudget, GoalState, PlanItem
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.context import RequestContext, ToolContext, current_call_id, current_request
from bot.toolkit.schema import ArraySchema, IntegerSchema, ObjectSchema, StringSchema, tool_parameters_schema

OBJECTIVE_LIMIT_CHARS = 2_000
PLAN_LIMIT_ITEMS = 20
PLAN_ITEM_LIMIT_CHARS = 200
RECAP_LIMIT_CHARS = 8_000

DEFAULT_STEPS, MAX_STEPS = 100, 1_000
DEFAULT_MINUTES, MAX_MINUTES = 60, 7 * 24 * 60
MIN_TOKENS, MAX_TOKENS = 1_000, 100_000_000


class _GoalError(Exception):
    """Why a goal cannot be set or changed, in words for the model; nothing is stored."""


class _GoalTool(Tool):
    """What both tools are: a change of the session's goal, made in the transaction that stores the result."""

    _plugin_discoverable = False
    risk = Risk.WRITE
    replay = Replay.KEYED

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    @classmethod
    def create(cls, ctx: ToolContext) -> _GoalTool:
        """See `Tool.create`."""
        return cls(ctx)

    async def execute(self, **params: Any) -> ToolResult:
        """See the class."""
        request, call_id = current_request(), current_call_id()

        def work(unit: Unit) -> CallResult:
            try:
                return CallResult(call_id=call_id, text=self._act(unit, params, request))
            except _GoalError as exc:
                return CallResult(call_id=call_id, text=str(exc), is_error=True)

        result = await self._context.store.steps.once(request.turn, call_id, work)
        self._context.signal.notify(Topic.OUTBOUND)
        return ToolResult(result.text, is_error=result.is_error)

    def _act(self, unit: Unit, params: Mapping[str, Any], request: RequestContext) -> str:
        """Do it inside the transaction and return the receipt. Raises _GoalError."""
        raise NotImplementedError


@tool_parameters(
    tool_parameters_schema(
        objective=StringSchema(
            "What is to be reached, and how one sees that it is. Needed to set a goal; leave out to change its plan.",
            min_length=1,
            max_length=OBJECTIVE_LIMIT_CHARS,
        ),
        plan=ArraySchema(
            StringSchema(min_length=1, max_length=PLAN_ITEM_LIMIT_CHARS),
            description="The items of work, in order. For a goal that is open: the whole new plan.",
            max_items=PLAN_LIMIT_ITEMS,
        ),
        done=ArraySchema(
            IntegerSchema(minimum=1, maximum=PLAN_LIMIT_ITEMS),
            description="Numbers, from 1, of plan items that are finished now.",
            max_items=PLAN_LIMIT_ITEMS,
        ),
        budget=ObjectSchema(
            steps=IntegerSchema(
                description=f"Model calls at most (default {DEFAULT_STEPS}).", minimum=1, maximum=MAX_STEPS
            ),
            minutes=IntegerSchema(
                description=f"Minutes from now at most (default {DEFAULT_MINUTES}).", minimum=1, maximum=MAX_MINUTES
            ),
            tokens=IntegerSchema(
                description="Tokens in and out at most (default: no limit).", minimum=MIN_TOKENS, maximum=MAX_TOKENS
            ),
            description="When the goal is closed though it is not reached. Fixed once the goal is set.",
            additional_properties=False,
        ),
        additional_properties=False,
    )
)
class TaskTool(_GoalTool):
    """Sets a sustained goal of this conversation, or changes the plan of the one that is open.

    Parameters: objective (at most 2,000 characters; only to set a goal), plan (at most 20 items of 200 characters),
    done (numbers of finished items, from 1), budget with steps (1 to 1,000 model calls, default 100), minutes (1 to
    10,080 since the start, time off included, default 60) and tokens (1,000 to 100,000,000, default no limit). There
    are no prices, so there is no budget in money. Result: the goal's id, budget and numbered plan. An open goal goes
    on after each final text until complete_goal, /stop, /new, the end of its budget, or three turns in a row
    without a successful call. Errors: another goal is open (named), none is open and no objective is given, a
    number outside of the plan, a budget that differs from the one set, a scheduled task's own turn.
    """

    name = "task"
    description = (
        "Set a sustained goal for work that takes many turns: it goes on by itself after each of your answers, also "
        "across restarts, until you call complete_goal or its budget is used up. Call it again without objective to "
        "mark plan items done or to change the plan. Not for what one answer can do."
    )
    _plugin_discoverable = True

    def _act(self, unit: Unit, params: Mapping[str, Any], request: RequestContext) -> str:
        if request.turn.lane != request.address.key:
            raise _GoalError("a scheduled task ends with its turn and cannot set a goal; do the work itself")
        goal = unit.current_goal(request.turn.session_id)
        objective = " ".join(str(params.get("objective") or "").split())
        if goal is None:
            if not objective:
                raise _GoalError("objective: no goal is open in this conversation; say what is to be reached")
            goal = _new_goal(objective, params, request, now_us=unit.now_us())
            unit.add_goal(goal)
            return _receipt("set", goal)
        if objective and objective != goal.objective:
            raise _GoalError(
                f"objective: goal {goal.id} “{goal.title}” is open in this conversation. Complete it with "
                "complete_goal first, or leave objective out to change its plan."
            )
        if params.get("budget") and _budget(params["budget"], goal.budget) != goal.budget:
            raise _GoalError("budget: it is fixed once the goal is set; leave it out")
        plan = goal.plan if params.get("plan") is None else _plan(params["plan"], goal.plan)
        goal = replace(goal, plan=_marked(plan, params.get("done") or ()))
        unit.save_goal(goal)
        return _receipt("changed", goal)


@tool_parameters(
    tool_parameters_schema(
        outcome=StringSchema(
            "done: it is reached. blocked: you cannot go on. cancelled: the person does not want it any more.",
            enum=["done", "blocked", "cancelled"],
        ),
        recap=StringSchema(
            "What the person reads as your answer: what came of it, and what is still open. Markdown.",
            min_length=1,
            max_length=RECAP_LIMIT_CHARS,
        ),
        required=["outcome", "recap"],
        additional_properties=False,
    )
)
class CompleteGoalTool(_GoalTool):
    """Ends the sustained goal of this conversation and gives its recap to the chat.

    Parameters: outcome (done, blocked or cancelled), recap (at most 8,000 characters, Markdown). Result: the goal's
    id; the recap is in the outbox by then, once whatever happens afterwards, and stands for the turn's answer: the
    turn ends with this call. Errors: no goal is open; the recap is blank.
    """

    name = "complete_goal"
    description = (
        "End the sustained goal that is open, with a recap that the person reads. The recap is your answer: nothing "
        "is sent after it, and the turn ends."
    )
    _plugin_discoverable = True
    ends_turn = True

    def stands_for_answer(self, params: dict[str, Any]) -> str | None:
        """See `Tool.stands_for_answer`."""
        return str(params["recap"])

    def _act(self, unit: Unit, params: Mapping[str, Any], request: RequestContext) -> str:
        goal = unit.current_goal(request.turn.session_id)
        if goal is None:
            raise _GoalError("no goal is open in this conversation; answer in words")
        recap = str(params["recap"]).strip()
        if not recap:
            raise _GoalError("recap: it is blank; say what came of the goal")
        unit.save_goal(replace(goal, state=GoalState(params["outcome"]), recap=recap))
        unit.put_outbound(
            OutboundMessage(address=request.address, text=recap, reply_to=request.reply_to, answers=request.message_id)
        )
        return f"Goal {goal.id} is closed ({params['outcome']}); the recap is on its way to the chat."


def _new_goal(objective: str, params: Mapping[str, Any], request: RequestContext, *, now_us: int) -> Goal:
    return Goal(
        id=new_id("goal-"),
        session_id=request.turn.session_id,
        address=request.address,
        chat_type=request.chat_type,
        creator_id=request.sender_id,
        reply_to=request.reply_to,
        objective=objective,
        plan=_marked(_plan(params.get("plan") or (), ()), params.get("done") or ()),
        budget=_budget(params.get("budget") or {}, GoalBudget(steps=DEFAULT_STEPS, minutes=DEFAULT_MINUTES)),
        started_us=now_us,
    )


def _budget(given: Mapping[str, int], default: GoalBudget) -> GoalBudget:
    return GoalBudget(
        steps=given.get("steps", default.steps),
        minutes=given.get("minutes", default.minutes),
        tokens=given.get("tokens", default.tokens),
    )


def _plan(texts: Sequence[str], known: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """Return a plan of these texts; an item that was finished under the same text still is."""
    finished = {item.text for item in known if item.done}
    items = [" ".join(text.split()) for text in texts]
    if not all(items):
        raise _GoalError("plan: an item is blank")
    return tuple(PlanItem(text=text, done=text in finished) for text in items)


def _marked(plan: tuple[PlanItem, ...], done: Sequence[int]) -> tuple[PlanItem, ...]:
    if beyond := [number for number in done if number > len(plan)]:
        raise _GoalError(f"done: the plan has {len(plan)} items, there is no item {beyond[0]}")
    return tuple(replace(item, done=item.done or number in done) for number, item in enumerate(plan, 1))


def _receipt(verb: str, goal: Goal) -> str:
    budget = goal.budget
    tokens = "" if budget.tokens is None else f", {budget.tokens} tokens"
    lines = [f"Goal {goal.id} is {verb}; budget: {budget.steps} steps, {budget.minutes} minutes{tokens}."]
    lines += [f"{number}. ({'done' if item.done else 'open'}) {item.text}" for number, item in enumerate(goal.plan, 1)]
    return "\n".join([*lines, "It goes on by itself after your answer; end it with complete_goal."])
