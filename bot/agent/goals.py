"""Sustained goals: a chain of ordinary turns. Decides at the end of each turn whether its goal goes on.

A goal's own turns are its continuations and the turn that opened it. Each of them ends like any other turn, its
final text reaches the chat as it is, and the same transaction queues the next one. The chain ends by the
`complete_goal` tool, by a command, or here: its budget is used up, or several turns in a row did nothing.
"""

from __future__ import annotations

from dataclasses import replace

from bot.access.policy import AccessPolicy
from bot.agent.endings import notice, reply
from bot.agent.goal_words import continuation, goal_report, is_spent
from bot.agent.runs import RunOutcome
from bot.agent.runs import StopReason as Stop
from bot.clock import Clock
from bot.interfaces import Store
from bot.messages import Origin, OutboundMessage, Risk
from bot.records import Ending, Goal, GoalState, GoalStep, Turn, TurnState
from bot.texts import say
from bot.toolkit.context import RequestContext

IDLE_LIMIT = 3
"""Turns in a row without one successful call, after which a goal is closed: it would only repeat itself."""


class GoalKeeper:
    """Carries goals from turn to turn."""

    def __init__(self, store: Store, clock: Clock, policy: AccessPolicy) -> None:
        self._goals = store.goals
        self._subagents = store.subagents
        self._clock = clock
        self._policy = policy

    def refusal(self, turn: Turn, request: RequestContext) -> Ending | None:
        """Return how a goal's turn ends before it begins, None when it may begin or go on.

        A turn that a crash cut goes on even if it has closed its goal: that may have been its last act.
        """
        goal, language = turn.goal, request.language
        if goal is None or goal.id != turn.meta["goal_id"]:
            return None if turn.has_rows else Ending(state=TurnState.DONE, error="the goal is over")
        step = GoalStep(goal_id=goal.id, state=GoalState.PAUSED, is_turn=True, idle=goal.idle)
        if not self._may_work(goal):
            text = say(language, "goal.revoked", title=goal.title)
            error = "its creator may not do this any more"
            return Ending(state=TurnState.FAILED, outbound=(notice(turn, text),), error=error, goal=step)
        now_us = self._clock.now_us()
        if not turn.has_rows and is_spent(goal, now_us):
            text = goal_report("goal.spent", goal, language, now_us=now_us)
            step = replace(step, state=GoalState.SPENT)
            return Ending(state=TurnState.DONE, outbound=(notice(turn, text),), goal=step)
        return None

    async def is_spent(self, outcome: RunOutcome) -> bool:
        """Say whether a run, between two of its steps, has used up the budget of the goal it works for."""
        goal = await self._current(outcome)
        if goal is None or not _works_for(outcome.turn, goal):
            return False
        return is_spent(_with_use(goal, outcome, answers=0), self._clock.now_us())

    async def settle(self, ending: Ending, outcome: RunOutcome, request: RequestContext) -> Ending:
        """Return the ending of a run with what it means for the session's goal."""
        goal = await self._current(outcome)
        if goal is None:
            return ending
        turn = outcome.turn
        own = _works_for(turn, goal)
        if outcome.error is not None and not own:
            return ending  # whatever is queued of the goal stays queued
        # Somebody else spoke: that may be what it lacked.
        after = _counted(goal, outcome) if own else replace(goal, idle=0)
        state, words = await self._judge(after, outcome, request, own=own)
        is_turn = turn.meta.get("goal_id") == goal.id
        step = GoalStep(
            goal_id=goal.id,
            state=state,
            is_turn=is_turn,
            steps=after.steps - goal.steps,
            tokens=after.tokens - goal.tokens,
            idle=after.idle,
            inbound=continuation(after, goal.turns + is_turn + 1) if state is GoalState.OPEN else None,
        )
        return replace(ending, goal=step, outbound=_with_words(ending, words, outcome))

    async def _judge(
        self, goal: Goal, outcome: RunOutcome, request: RequestContext, *, own: bool
    ) -> tuple[GoalState, str]:
        """Return how a goal stands after a turn, and what the chat must hear of that."""
        language, now_us = request.language, self._clock.now_us()
        if is_spent(goal, now_us):
            return GoalState.SPENT, goal_report("goal.spent", goal, language, now_us=now_us)
        if outcome.error is not None:
            return GoalState.PAUSED, say(language, "goal.paused", title=goal.title)
        if goal.idle and await self._subagents.running(outcome.turn.lane):
            return GoalState.PAUSED, ""  # it waits: the outcome comes as a message, after which the goal goes on
        if goal.idle >= IDLE_LIMIT:
            return GoalState.STALLED, goal_report("goal.stalled", goal, language, now_us=now_us)
        if not self._may_work(goal):
            return GoalState.PAUSED, say(language, "goal.revoked", title=goal.title) if own else ""
        return GoalState.OPEN, ""

    def _may_work(self, goal: Goal) -> bool:
        """Say whether the person who set the goal could set it now."""
        role = self._policy.role_of(goal.address.channel, goal.creator_id)
        return not self._policy.refusal(role, goal.chat_type, Risk.WRITE)

    async def _current(self, outcome: RunOutcome) -> Goal | None:
        """Return the session's goal as it is now; the store is asked only where there can be one."""
        if outcome.turn.goal is None and not outcome.used["task"]:
            return None
        return await self._goals.current(outcome.turn.session_id)


def _works_for(turn: Turn, goal: Goal) -> bool:
    """Say whether a turn is one of the goal's own: a continuation, or the one that opened it."""
    return turn.meta.get("goal_id") == goal.id or turn.id == goal.opened_turn


def _counted(goal: Goal, outcome: RunOutcome) -> Goal:
    """Return the goal with what one of its own turns used, whose end this is."""
    # Closing words that the budget itself asked for are free.
    used = _with_use(goal, outcome, answers=int(outcome.stop is not Stop.BUDGET))
    return replace(used, idle=0 if outcome.used else goal.idle + 1)


def _with_use(goal: Goal, outcome: RunOutcome, *, answers: int) -> Goal:
    """Return the goal with what the run used so far; `answers` are model calls that ended no step."""
    turn, usage = outcome.turn, outcome.usage
    steps = turn.step + answers - (goal.opened_step if turn.id == goal.opened_turn else 0)
    return replace(goal, steps=goal.steps + steps, tokens=goal.tokens + usage.input_tokens + usage.output_tokens)


def _with_words(ending: Ending, words: str, outcome: RunOutcome) -> tuple[OutboundMessage, ...]:
    """Return what the chat gets: the turn's own words where it has some, and then those about the goal."""
    outbound = ending.outbound
    chained = outcome.turn.origin is Origin.GOAL or outcome.stop is Stop.BUDGET
    if chained and not outcome.text and outcome.error is None:
        outbound = ()  # sentences for whom a turn was the whole answer: send “continue”, ask differently
    if not words:
        return outbound
    if not outbound:
        return (reply(outcome.turn, words),)
    return (*outbound[:-1], replace(outbound[-1], text=f"{outbound[-1].text}\n\n{words}"))
