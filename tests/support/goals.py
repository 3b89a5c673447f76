"""What tests of sustained goals share: an order for one, and a look at it in the store and in requests."""

from __future__ import annotations

from typing import Any

from bot.interfaces import ModelReply, ModelRequest
from bot.records import Goal
from tests.support.engine import Rig, calls, last_user

NEXT_TURN = "[Sustained goal: its next turn"
RECAP = {"outcome": "done", "recap": "All three are counted."}


def order(**budget: Any) -> dict[str, Any]:
    """Return the arguments that set a goal with a plan of three items."""
    made: dict[str, Any] = {"objective": "count to three", "plan": ["one", "two", "three"]}
    return {**made, "budget": budget} if budget else made


def sets_goal(**budget: Any) -> ModelReply:
    """Return a reply that sets the goal."""
    return calls(("task", order(**budget)))


def completes_goal() -> ModelReply:
    """Return a reply that completes it."""
    return calls(("complete_goal", RECAP))


def is_goal_turn(request: ModelRequest) -> bool:
    """Say whether a request is of a turn in which the goal goes on."""
    return last_user(request).startswith(NEXT_TURN)


def context(request: ModelRequest) -> str:
    """Return the runtime context of the newest user row."""
    row = [row for row in request.messages if row["role"] == "user"][-1]
    return str(row["content"]).partition("[Runtime Context")[2]


async def goals(engine: Rig, chat: str = "c1") -> list[Goal]:
    """Return all goals of a chat, oldest first, whatever their state."""
    ids = await engine.store._database.read(
        lambda conn: conn.execute("SELECT id FROM goals WHERE chat_id = ? ORDER BY rowid", (chat,)).fetchall()
    )
    found = [await engine.store.goals.get(goal_id) for (goal_id,) in ids]
    return [goal for goal in found if goal is not None]


async def only_goal(engine: Rig, chat: str = "c1") -> Goal:
    """Return the one goal of a chat."""
    [goal] = await goals(engine, chat)
    return goal
