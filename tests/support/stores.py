"""Stores over one file, and short makers of what goes into them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bot.clock import Clock
from bot.interfaces import Store
from bot.messages import Address, ChatType, InboundMessage, OutboundMessage, ToolCall
from bot.records import JobKind, Message, NewJob, QueuedMessage
from bot.schedule import Schedule, ScheduleKind
from bot.scheduler import JobComposer
from bot.store.store import SqlStore

CHAT = Address(channel="memory", chat_id="c1")
OTHER_CHAT = Address(channel="memory", chat_id="c2")
COMPOSER = JobComposer("en")
MEMORY = ("memory",)
DAY_S = 86_400

Opener = Callable[..., Any]


@asynccontextmanager
async def opened(
    path: Path, clock: Clock, *, exclusive: bool = False, max_waiting: int = 10_000
) -> AsyncIterator[Store]:
    """Have a store open. This is the one place that names the implementation the suites run against."""
    store = await SqlStore.open(path, clock, exclusive=exclusive, max_waiting=max_waiting)
    try:
        yield store
    finally:
        await store.close()


def inbound(text: str = "hi", message_id: str = "1", address: Address = CHAT, **fields: Any) -> InboundMessage:
    """Return a message of the person 111."""
    fields = {"sender_id": "111", "chat_type": ChatType.PRIVATE, "account": "bot", **fields}
    return InboundMessage(address=address, message_id=message_id, text=text, **fields)


def outbound(text: str = "hello", address: Address = CHAT, **fields: Any) -> OutboundMessage:
    """Return an answer."""
    return OutboundMessage(address=address, text=text, **fields)


def reminder_at(at_us: int, text: str = "stretch", address: Address = CHAT, **fields: Any) -> NewJob:
    """Return a one-shot job."""
    schedule = Schedule(kind=ScheduleKind.AT, zone="UTC", at_us=at_us)
    return new_job(schedule, at_us, text, address, **fields)


def new_job(schedule: Schedule, next_us: int, text: str = "stretch", address: Address = CHAT, **fields: Any) -> NewJob:
    """Return a job of the person 111."""
    fields = {"chat_type": ChatType.PRIVATE, "creator_id": "111", "kind": JobKind.REMINDER, **fields}
    return NewJob(address=address, text=text, schedule=schedule, next_us=next_us, **fields)


def daily(hour: int, zone: str = "UTC") -> Schedule:
    """Return a schedule of every day at an hour."""
    return Schedule(kind=ScheduleKind.CRON, zone=zone, cron_expr=f"0 {hour} * * *")


def asks_for(*call_ids: str) -> tuple[list[Message], list[ToolCall]]:
    """Return a reply's row and the calls in it."""
    calls = [ToolCall(id=call_id, name="tool", arguments="{}") for call_id in call_ids]
    function = {"name": "tool", "arguments": "{}"}
    row = {"role": "assistant", "tool_calls": [{"id": i, "type": "function", "function": function} for i in call_ids]}
    return [row], calls


def as_row(item: QueuedMessage) -> Message:
    """Return the history row of a message, bare."""
    return {"role": "user", "content": item.message.text}


def texts(rows: Sequence[Message]) -> list[Any]:
    """Return the contents of history rows."""
    return [row.get("content") for row in rows]
