"""The streams between the SDK and a server: our own way to a process, and an ear on every message.

Imported only with the SDK.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
import orjson
from mcp.shared.message import SessionMessage

from bot.log import get_logger
from bot.toolkit.mcp.aside import LARGE_BYTES, Aside
from bot.toolkit.mcp.child import MessageTooLong, ServerChild
from bot.toolkit.mcp.floods import Flood, cut_parts
from bot.toolkit.mcp.listing import KINDS, Kind, for_sdk
from bot.toolkit.mcp.session import Limits, Signals
from bot.toolkit.mcp.wire_text import whole_letters

Streams = tuple[Any, Any]
"""A stream to read messages from and one to write them to, as the SDK's transports give them."""

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"  # in the `_meta` of every request since 2026-07-28

_log = get_logger(__name__)


@asynccontextmanager
async def child_streams(child: ServerChild, signals: Signals) -> AsyncIterator[Streams]:
    """Exchange lines with a running server process; leaving ends it.

    Unlike the SDK's own: lines have a bound, what is no message is passed over, and the environment is ours to choose.
    """
    arriving, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leaving, to_leave = anyio.create_memory_object_stream[SessionMessage](0)

    flood = Flood()

    async def read() -> None:
        async with arriving:
            try:
                async for line in child.lines():
                    message = await _parse(line)
                    if message is not None and not _is_dropped(message, flood, signals):  # a pipe is fast
                        await arriving.send(SessionMessage(message))
            except MessageTooLong:
                signals.end(f"the server sent a message of more than {Limits.MESSAGE_BYTES:,} bytes")
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the session is over, or will find out
            # Its exit code usually follows at once; a program may also close its output and live on.
            with anyio.move_on_after(0.2):
                await child.exited.wait()
            signals.end(child.account())

    async def write() -> None:
        async with to_leave:
            try:
                async for item in to_leave:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await child.write(text.encode() + b"\n")
            except OSError:
                await arriving.aclose()

    async def notice_exit() -> None:
        """End the session when the process ends, though one it started may hold its output open."""
        await child.exited.wait()
        await asyncio.sleep(0.1)  # for answers that are on their way
        await arriving.aclose()
        signals.end(child.account())

    def look() -> None:
        if child.has_ended():
            signals.end("the program has ended")

    signals.look = look
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        tasks.start_soon(notice_exit)
        try:
            yield arrived, leaving
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await child.end()
            for stream in (arriving, arrived, leaving, to_leave):
                stream.close()


async def _parse(line: bytes) -> types.JSONRPCMessage | None:
    if not line.strip():
        return None
    try:
        if len(line) < LARGE_BYTES:
            line = whole_letters(line)
            with suppress(ValueError):  # also for more than 200 levels, which the other parser takes
                return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        # By a parser that holds the interpreter, and so the loop, a third of the time.
        line = await asyncio.to_thread(whole_letters, line)
        parsed = await asyncio.to_thread(orjson.loads, line)
        return types.jsonrpc_message_adapter.validate_python(parsed, by_name=False)
    except ValueError:
        _log.debug("line of an mcp server is no message", start=line[:80].decode(errors="replace"))
        return None


def _is_dropped(message: types.JSONRPCMessage, flood: Flood, signals: Signals) -> bool:
    """Say whether a message is one too many of its kind; that lists have changed is noted all the same."""
    if isinstance(message, types.JSONRPCRequest):
        return flood.is_request_too_much()
    if not isinstance(message, types.JSONRPCNotification) or not flood.is_too_much(message.method):
        return False
    if message.method.endswith("/list_changed"):
        signals.changed.set()
    return True


class _Ear:
    """Base: a stream of the SDK with us in between."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@dataclass(slots=True, kw_only=True)
class _Talk:
    """What has been said, as far as it matters for the answers."""

    asked: set[Any] = field(default_factory=set)  # the ids of requests that are not answered
    lists: dict[Any, Kind] = field(default_factory=dict)  # asked for, by the requests' ids
    is_modern: bool = False  # the last request was of 2026-07-28


class _Outgoing(_Ear):
    """Remembers which requests ask for lists."""

    def __init__(self, stream: Any, talk: _Talk) -> None:
        super().__init__(stream)
        self._talk = talk

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._talk.asked.add(message.id)
            self._talk.is_modern = _VERSION_KEY in ((message.params or {}).get("_meta") or {})
            if message.method in KINDS:
                self._talk.lists[message.id] = KINDS[message.method]
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._talk.asked.discard((message.params or {}).get("requestId"))
        await self._stream.send(item)

    async def __aenter__(self) -> Self:
        return self


class _Incoming(_Ear):
    """Puts large results back, puts answers into a form that the SDK takes whole, and notices the end."""

    def __init__(self, stream: Any, talk: _Talk, signals: Signals, aside: Aside) -> None:
        super().__init__(stream)
        self._talk = talk
        self._signals = signals
        self._aside = aside
        self._flood = Flood()

    @property
    def last_context(self) -> contextvars.Context | None:
        """Of the sender of the last message, where the transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        while True:
            try:
                item = await self._stream.receive()
            except anyio.EndOfStream:
                self._signals.end("the server ended the connection")
                raise
            if not isinstance(item, SessionMessage):
                return item
            if not self._is_stray(item.message) and not _is_dropped(item.message, self._flood, self._signals):
                self._look_at(item.message)
                return item

    def _is_stray(self, message: types.JSONRPCMessage) -> bool:
        """Say whether a message is one too many of those that answer nothing."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return False
        if message.id in self._talk.asked:
            self._talk.asked.discard(message.id)
            return False
        return self._flood.is_stray_too_much()

    def _look_at(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse):
            message.result = cut_parts(self._aside.take(message.result))
            if self._talk.is_modern:  # one that does not say so is complete (2026-07-28); the SDK refuses it
                message.result.setdefault("resultType", "complete")
            kind = self._talk.lists.pop(message.id, None)
            if kind is not None:
                message.result = for_sdk(kind, message.result, self._aside)
        elif isinstance(message, types.JSONRPCError) and message.id is not None:
            self._talk.lists.pop(message.id, None)

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self


@asynccontextmanager
async def overheard(
    transport: AbstractAsyncContextManager[Streams], signals: Signals, aside: Aside
) -> AsyncIterator[Streams]:
    """Enter a transport with our ear on its streams."""
    talk = _Talk()
    async with transport as (arrived, leaving):
        yield _Incoming(arrived, talk, signals, aside), _Outgoing(leaving, talk)
