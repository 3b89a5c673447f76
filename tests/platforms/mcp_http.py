"""Clients of a scripted MCP server over HTTP: streamable sessions and exchanges, and the old SSE sessions."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from tests.platforms.mcp_peer import Peer, RequestId
from tests.platforms.mcp_script import Json

SSE_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}

# HTTP statuses of JSON-RPC errors in 2026-07-28, as in mcp.shared.inbound.
STATUS_OF_ERROR = {-32700: 400, -32600: 400, -32602: 400, -32020: 400, -32021: 400, -32022: 400, -32601: 404}


class EventStream:
    """A response of server-sent events that begins with its first event."""

    def __init__(self, request: web.BaseRequest) -> None:
        self.request = request
        self.headers: dict[str, str] = {}
        self.response: web.StreamResponse | None = None

    async def open(self) -> web.StreamResponse:
        """Send the headers, once."""
        if self.response is None:
            self.response = web.StreamResponse(headers=SSE_HEADERS | self.headers)
            await self.response.prepare(self.request)
        return self.response

    async def send(self, data: str, *, event: str = "message") -> bool:
        """Send one event and say whether the client was still there."""
        try:
            response = await self.open()
            await response.write(f"event: {event}\ndata: {data}\n\n".encode())
        except ConnectionError:
            return False
        return True


class Exchange(Peer):
    """One POST and its response; in 2026-07-28 all there is of a client."""

    def __init__(self, request: web.BaseRequest, *, as_json: bool) -> None:
        super().__init__()
        self.stream = EventStream(request)
        self._as_json = as_json

    async def deliver(self, message: Json, *, about: RequestId | None) -> None:
        """Send a message before the response; a JSON answer has no place for one."""
        if not self._as_json or message.get("method") == "notifications/subscriptions/acknowledged":
            self._as_json = False
            await self.stream.send(json.dumps(message))

    async def respond(self, response: Json | None, *, modern: bool, streamed: bool) -> web.StreamResponse:
        """Send the response and return what the handler returns; without one the stream just ends."""
        if self.stream.response is None and (self._as_json or not streamed):
            status = STATUS_OF_ERROR.get(response.get("error", {}).get("code", 0), 200) if response and modern else 200
            body = b"" if response is None else json.dumps(response).encode()
            headers = {"Content-Type": "application/json"} | self.stream.headers
            return web.Response(status=status, body=body, headers=headers)
        if response is not None:
            await self.stream.send(json.dumps(response))
        return await self.stream.open()


class HttpSession(Peer):
    """A session of 2025-11-25: its running exchanges, and the stream for what belongs to none of them."""

    speaks_modern = False

    def __init__(self, identity: str) -> None:
        super().__init__()
        self.identity = identity
        self.exchanges: dict[RequestId, Exchange] = {}
        self._stream: EventStream | None = None
        self._waiting: list[Json] = []
        self._closed = asyncio.Event()

    async def deliver(self, message: Json, *, about: RequestId | None) -> None:
        """Send a message on the stream of the request it belongs to, or else on the session's own."""
        if about is not None and about in self.exchanges:
            await self.exchanges[about].deliver(message, about=about)
        elif self._stream is None or not await self._stream.send(json.dumps(message)):
            self._stream = None
            self._waiting.append(message)

    async def listen(self, request: web.BaseRequest) -> web.StreamResponse:
        """Hold the session's own stream open (GET) until the client leaves it."""
        stream = self._stream = EventStream(request)
        response = await stream.open()
        await response.write(b": here\n\n")
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            await self.deliver(message, about=None)
        try:
            await self._closed.wait()
        finally:
            if self._stream is stream:
                self._stream = None
        return response

    def close(self) -> None:
        """End the session's own stream."""
        self._closed.set()


class SseSession(Peer):
    """A client of the old transport: one stream for all that the server says."""

    speaks_modern = False

    def __init__(self, identity: str, request: web.BaseRequest) -> None:
        super().__init__()
        self.identity = identity
        self.stream = EventStream(request)
        self.closed = asyncio.Event()

    async def deliver(self, message: Json, *, about: RequestId | None) -> None:
        """Send a message."""
        await self.stream.send(json.dumps(message))
