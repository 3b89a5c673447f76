"""Sustained goals in words: what the model is shown of one, what the chat reads of it, and its next turn.

Pure. When a goal goes on or ends is decided in `bot/agent/goals.py`.
"""

from __future__ import annotations

from bot.clock import US_PER_S
from bot.messages import InboundMessage, Origin
from bot.records import Goal
from bot.texts import say

_US_PER_MINUTE = 60 * US_PER_S


def minutes_used(goal: Goal, now_us: int) -> int:
    """Return the whole minutes since the goal was set."""
    return max(0, now_us - goal.started_us) // _US_PER_MINUTE


def is_spent(goal: Goal, now_us: int) -> bool:
    """Say whether any part of the budget is used up."""
    budget = goal.budget
    return (
        goal.steps >= budget.steps
        or now_us - goal.started_us >= budget.minutes * _US_PER_MINUTE
        or (budget.tokens is not None and goal.tokens >= budget.tokens)
    )


def continuation(goal: Goal, number: int) -> InboundMessage:
    """Return what starts the goal's turn `number`, counted from 1; the number makes it unique."""
    return InboundMessage(
        address=goal.address,
        account="goals",
        message_id=f"{goal.id}-{number}",
        text=goal.objective,
        sender_id=goal.creator_id,
        chat_type=goal.chat_type,
        origin=Origin.GOAL,
        reply_to=goal.reply_to,
        meta={"goal_id": goal.id, "idle": goal.idle, "session_id": goal.session_id},
    )


def goal_lines(goal: Goal, *, now_us: int) -> list[str]:
    """Return the goal as the model sees it, for the runtime context; texts are as they were given."""
    budget = goal.budget
    used = f"{goal.steps} of {budget.steps} steps, {minutes_used(goal, now_us)} of {budget.minutes} minutes"
    if budget.tokens is not None:
        used += f", {goal.tokens} of {budget.tokens} tokens"
    lines = [f"sustained goal {goal.id} ({goal.state}): “{_on_one_line(goal.objective)}”"]
    lines += [
        f"  {number}. ({'done' if item.done else 'open'}) {_on_one_line(item.text)}"
        for number, item in enumerate(goal.plan, 1)
    ]
    return [*lines, f"  used: {used}"]


def goal_report(key: str, goal: Goal, language: str, *, now_us: int) -> str:
    """Return the chat's message about the end of a goal: the sentence `key`, what is done and what is open."""
    parts = [say(language, key, title=goal.title, used=_used(goal, language, now_us))]
    done = [f"• {item.text}" for item in goal.plan if item.done]
    still_open = [f"• {item.text}" for item in goal.plan if not item.done]
    if done:
        parts += [say(language, "goal.items_done"), *done]
    if still_open:
        parts += [say(language, "goal.items_open"), *still_open]
    return "\n".join(parts)


def goal_status(goal: Goal, language: str, *, now_us: int) -> str:
    """Return one line about a goal under way."""
    key = "goal.status" if goal.state == "open" else "goal.status_paused"
    return say(language, key, title=goal.title, used=_used(goal, language, now_us))


def _used(goal: Goal, language: str, now_us: int) -> str:
    budget = goal.budget
    used = say(
        language,
        "goal.used",
        steps=goal.steps,
        max_steps=budget.steps,
        minutes=minutes_used(goal, now_us),
        max_minutes=budget.minutes,
    )
    if budget.tokens is not None:
        used += say(language, "goal.used_tokens", tokens=goal.tokens, max_tokens=budget.tokens)
    return used


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
