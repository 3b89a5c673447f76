"""The other end of an MCP server: a client's connection, over whatever transport."""

from __future__ import annotations

import asyncio
from asyncio import Future, Task
from typing import Any

from tests.platforms.mcp_script import Fault, Json

RequestId = int | str


class Misbehaviour(Exception):
    """Tells the transport to carry out a fault instead of an answer."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.kind)
        self.fault = fault


class Refused(Exception):
    """A JSON-RPC error in place of a result."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.error: Json = {"code": code, "message": text} | ({} if data is None else {"data": data})


class Peer:
    """One connection: a pipe, an SSE or HTTP session, or (2026-07-28 over HTTP) a single exchange."""

    speaks_modern = True  # whether the transport exists in 2026-07-28

    def __init__(self) -> None:
        self.client_capabilities: Json = {}
        self.log_level: str | None = None
        self.subscribed: set[str] = set()
        self.initialized = False
        self.running: dict[RequestId, Task[Json]] = {}
        self.given_up: set[RequestId] = set()
        self._asked: dict[RequestId, Future[Json]] = {}
        self._last_id = 0

    async def deliver(self, message: Json, *, about: RequestId | None) -> None:
        """Send a message to the client; `about` is its request that the message belongs to."""
        raise NotImplementedError

    async def notify(self, method: str, params: Json | None = None, *, about: RequestId | None = None) -> None:
        """Send a notification."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        await self.deliver(message if params is None else message | {"params": params}, about=about)

    async def ask(self, method: str, params: Json, *, about: RequestId | None = None) -> Json:
        """Send a request of the server's own and return the client's whole response."""
        self._last_id += 1
        identity = f"server-{self._last_id}"
        future: Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[identity] = future
        try:
            await self.deliver({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}, about=about)
            return await future
        finally:
            del self._asked[identity]

    def take_response(self, message: Json) -> None:
        """Give a response of the client to whoever asked."""
        future = self._asked.get(message["id"])
        if future is not None and not future.done():
            future.set_result(message)
