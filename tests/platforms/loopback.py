"""What every loopback platform shares: a server on 127.0.0.1 in the test's own loop, and waiting for events.

A platform subclasses `LoopbackServer` and answers requests in `handle`. Protocols, rules and faults are the
platform's own business.
"""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio import Task
from collections.abc import Callable
from typing import Any, Self, TypeVar

import orjson
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

T = TypeVar("T")

HOST = "127.0.0.1"


class Bell:
    """Wakes everybody who waits for a fact whenever something happened; the fact is what they check."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Let every waiter look again."""
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def wait(self) -> None:
        """Return at the next ring."""
        await self._rung.wait()

    async def wait_for(self, predicate: Callable[[], T], *, timeout_s: float) -> T:
        """Return the predicate's first true value.

        Raises:
            TimeoutError: it was not true within `timeout_s`.
        """
        async with asyncio.timeout(timeout_s):
            while not (value := predicate()):
                await self._rung.wait()
            return value


class LoopbackServer:
    """An HTTP server that lives as long as its `async with` block."""

    max_request_bytes = 64 * 1024 * 1024
    patience_s = 10.0  # how long `wait_for` waits unless it is told
    stops_with_client = False  # whether a request ends when its client hangs up, or is carried out anyway

    def __init__(self, *, port: int = 0, host: str = HOST) -> None:
        self.host = host
        self.port = port
        self.bell = Bell()
        self._runner: web.ServerRunner | None = None

    @property
    def origin(self) -> str:
        """Scheme, host and port; known once the server runs."""
        return f"http://{self.host}:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections of clients there are at this moment."""
        server = None if self._runner is None else self._runner.server
        return 0 if server is None else len(server.connections)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        raise NotImplementedError

    async def wait_for(self, predicate: Callable[[], T], *, timeout_s: float | None = None) -> T:
        """Return the predicate's first true value, looking again after each event of the server.

        Raises:
            TimeoutError: with the server's own account of what it saw instead.
        """
        limit_s = self.patience_s if timeout_s is None else timeout_s
        try:
            return await self.bell.wait_for(predicate, timeout_s=limit_s)
        except TimeoutError:
            raise TimeoutError(f"not seen within {limit_s} s; seen: {self.account()}") from None

    def account(self) -> str:
        """Say in one line what happened here so far, for failure messages."""
        return type(self).__name__

    async def go_down(self) -> None:
        """Stop listening and cut every connection; `come_up` returns on the same port."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def come_up(self) -> None:
        """Listen (again)."""
        loop = asyncio.get_running_loop()

        def make_request(
            message: RawRequestMessage,
            payload: StreamReader,
            protocol: RequestHandler,
            writer: AbstractStreamWriter,
            task: Task[None],
        ) -> web.BaseRequest:
            return web.BaseRequest(
                message, payload, protocol, writer, task, loop, client_max_size=self.max_request_bytes
            )

        server: web.Server = web.Server(
            self.handle,
            request_factory=make_request,
            handler_cancellation=self.stops_with_client,
            access_log=None,
        )
        # A held answer must not delay the end of a test: handlers still open are cancelled at once.
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def __aenter__(self) -> Self:
        await self.come_up()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.go_down()


def encode_json(value: Any) -> bytes:
    """Return a value as JSON; a lone surrogate becomes its escape, as platforms send it."""
    try:
        return orjson.dumps(value)
    except TypeError:  # what orjson says to a text that has no UTF-8 form
        return json.dumps(value).encode()


def cut(request: web.BaseRequest) -> web.Response:
    """Close the connection of a request without (further) answer; return what the handler then returns."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def serve_until_interrupted(server: LoopbackServer, announce: Callable[[], str]) -> None:
    """Run a server by hand: print its address and stay until the process is interrupted."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server:
        print(announce(), flush=True)
        await stop.wait()
