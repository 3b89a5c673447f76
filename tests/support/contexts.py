"""Contexts for tools under test: a turn in a chat, and the dependencies of tools over a fresh workspace."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bot.access.policy import AccessPolicy
from bot.clock import Clock, SystemClock
from bot.config import ToolsConfig
from bot.interfaces import Topic
from bot.messages import Address, ChatType, InboundMessage, Origin, OutboundKind, OutboundMessage, Role
from bot.records import Job, QueuedMessage, Turn
from bot.store.store import SqlStore
from bot.toolkit.base import ToolResult
from bot.toolkit.context import RequestContext, ToolContext, set_request
from bot.toolkit.loader import ToolLoader
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.room import ToolRoom
from bot.web.resolver import Resolver


class RecordingSignal:
    """Notes what was rung for; never waits."""

    def __init__(self) -> None:
        self.notified: list[Topic] = []

    def notify(self, topic: Topic) -> None:
        self.notified.append(topic)

    async def wait(self, topic: Topic, timeout_s: float | None) -> bool:
        return topic in self.notified


class PlainComposer:
    """Writes a firing's text as it is."""

    def reminder(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        return OutboundMessage(address=job.address, text=job.text, kind=OutboundKind.REMINDER, job_id=job.id)

    def task(self, job: Job, *, run_id: int, due_us: int, now_us: int) -> InboundMessage:
        return InboundMessage(
            address=job.address,
            message_id=f"run-{run_id}",
            text=job.text,
            sender_id=job.creator_id,
            origin=Origin.JOB,
            meta={"run_id": run_id},
        )

    def missed(self, job: Job, *, due_us: int, now_us: int) -> OutboundMessage:
        return OutboundMessage(address=job.address, text=f"missed: {job.text}", kind=OutboundKind.NOTICE)


@asynccontextmanager
async def tool_context(
    folder: Path,
    clock: Clock | None = None,
    *,
    config: ToolsConfig | None = None,
    resolver: Resolver | None = None,
) -> AsyncIterator[ToolContext]:
    """Give a ToolContext over a real store and an empty workspace in `folder`."""
    clock = clock or SystemClock()
    config = config or ToolsConfig()
    room = ToolRoom(config, workspace=folder / "workspace", data_dir=folder, clock=clock, resolver=resolver)
    store = await SqlStore.open(folder / "store.db", clock, exclusive=True)
    try:
        await room.start()
        yield ToolContext(
            store=store,
            signal=RecordingSignal(),
            clock=clock,
            policy=AccessPolicy(owners=["telegram:111"], allow_from={"telegram": "*"}),
            composer=PlainComposer(),
            workspace=folder / "workspace",
            data_dir=folder,
            room=room,
            config=config,
        )
    finally:
        await room.close()
        await store.close()


def request_context(
    chat_id: str = "1",
    *,
    channel: str = "telegram",
    thread_id: str | None = None,
    role: Role = Role.MEMBER,
    chat_type: ChatType = ChatType.PRIVATE,
    sender_id: str = "7",
    session_id: int | None = None,
    turn_id: int = 1,
    attempt: int = 1,
    scope: str = "core",
) -> RequestContext:
    """Return the circumstances of a turn that one message of the sender began."""
    address = Address(channel=channel, chat_id=chat_id, thread_id=thread_id)
    message = InboundMessage(address=address, message_id="m1", text="please", sender_id=sender_id, chat_type=chat_type)
    turn = Turn(
        id=turn_id,
        lane=address.key,
        session_id=zlib.crc32(address.key.encode()) if session_id is None else session_id,
        owner="w-test",
        fence=1,
        attempt=attempt,
        step=0,
        messages=(QueuedMessage(id=1, message=message, received_us=0),),
    )
    return RequestContext(
        turn=turn,
        address=address,
        chat_type=chat_type,
        sender_id=sender_id,
        role=role,
        zone="Europe/Berlin",
        language="en",
        message_id="m1",
        scope=scope,
    )


class ToolDesk:
    """Calls the tools of a scope as a turn would: through a registry, under the circumstances of a request."""

    def __init__(self, ctx: ToolContext, scope: str = "core") -> None:
        self.registry = ToolRegistry()
        self.names = ToolLoader().load(ctx, self.registry, scope)
        self.files = ctx.room.files
        self.documents = ctx.room.documents
        self.workspace = ctx.workspace

    def root(self, request: RequestContext) -> Path:
        """Return the chat's own folder, made if need be."""
        view = self.files.view(request)
        view.make_dirs()
        return view.root

    async def call(self, request: RequestContext, name: str, **params: Any) -> ToolResult:
        set_request(request)
        return await self.registry.execute(name, params)
