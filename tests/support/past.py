"""Conversations made row by row, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from bot.interfaces import Store
from bot.messages import Address, InboundMessage
from bot.records import Ending, Message, Turn, TurnState
from tests.support.stores import CHAT, inbound


async def claimed(store: Store, message: InboundMessage) -> Turn:
    """Return the turn that a message begins."""
    await store.inbox.accept(message)
    [turn] = await store.turns.claim(limit=1)
    return turn


async def converse(store: Store, text: str, answer: str = "yes", *, address: Address = CHAT, number: int = 0) -> Turn:
    """Let a person write and be answered; returns the turn, which has ended."""
    turn = await claimed(store, inbound(text, f"{number}:{text}", address))
    rows: Sequence[Message] = ({"role": "user", "content": text}, {"role": "assistant", "content": answer})
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=tuple(rows)))
    return turn


async def begin_new(store: Store, *, address: Address = CHAT, title: str = "", number: int = 0) -> None:
    """Let a person write /new."""
    turn = await claimed(store, inbound("/new", f"new{number}", address))
    await store.turns.finish(turn, Ending(state=TurnState.DONE, new_session=True, session_title=title))
