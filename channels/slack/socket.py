"""The Socket Mode connection: opened, read, watched and renewed in time; what comes is handed on in order.

slack_sdk has a client for it, which answers every failure by trying again for ever, out of sight. Here a lost
connection is an error that ends `run`, so that the channel says that it is offline and asks for what it missed.
https://docs.slack.dev/apis/events-api/using-socket-mode (read 2026-11-30)
"""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import aiohttp
import orjson
from aiohttp import ClientWebSocketResponse, WSMsgType
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from bot.clock import Clock
from bot.errors import ChannelError
from bot.log import get_logger
from channels.slack.api import WebApi
from channels.slack.config import Timing

_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
_LOST = frozenset({WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR})

_log = get_logger(__name__)


class Envelope:
    """Something Slack tells us, and how to say that it was received."""

    def __init__(self, request: SocketModeRequest, socket: ClientWebSocketResponse, received_s: float) -> None:
        self.request = request
        self.received_s = received_s
        self._socket = socket

    async def acknowledge(self) -> None:
        """Tell Slack; where the connection is gone by now, it sends again."""
        answer = SocketModeResponse(envelope_id=self.request.envelope_id).to_dict()
        try:
            await self._socket.send_str(orjson.dumps(answer).decode())
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as exc:
            _log.info("acknowledgement not sent", error=type(exc).__name__)


Deliver = Callable[[Envelope], Awaitable[None]]


class Socket:
    """One connection after the other, two for a moment when Slack asks for a new one."""

    def __init__(self, api: WebApi, timing: Timing, clock: Clock, deliver: Deliver) -> None:
        self._api = api
        self._timing = timing
        self._clock = clock
        self._deliver = deliver
        self._leaving: set[Task[None]] = set()
        self._sockets: set[ClientWebSocketResponse] = set()
        self.heard_at_s: float | None = None  # by the monotonic clock

    async def run(self, connected: Callable[[], None]) -> NoReturn:
        """Receive until the connection is lost; `connected` is called once, when Slack has said hello.

        Raises:
            ChannelAuthError: the app-level token is refused.
            ChannelError: there is no connection any more.
        """
        try:
            socket, first = await self._open()
            connected()
            while True:
                reason = await self._read(socket, first)
                _log.info("slack asks for a new connection", reason=reason)
                self._leave(socket)
                socket, first = await self._open()
        finally:
            await self._close()

    async def _open(self) -> tuple[ClientWebSocketResponse, dict[str, Any] | None]:
        """Return a new connection that works, and what came on it in place of a hello, if so."""
        url = await self._api.socket_url()
        try:
            async with asyncio.timeout(self._timing.connect_s):
                socket = await self._api.session.ws_connect(
                    url, autoping=False, heartbeat=self._timing.heartbeat_s, max_msg_size=_MAX_MESSAGE_BYTES
                )
                self._sockets.add(socket)
                first = await self._hello(socket)
        except TimeoutError:
            raise ChannelError("Socket Mode: no hello came") from None
        except (aiohttp.ClientError, OSError) as exc:
            raise ChannelError(f"Socket Mode: {type(exc).__name__}") from None  # its text has the secret ticket
        return socket, first

    async def _hello(self, socket: ClientWebSocketResponse) -> dict[str, Any] | None:
        while True:
            message = await self._receive(socket)
            kind = message.get("type")
            if kind == "hello":
                return None
            if "envelope_id" in message:
                return message
            if kind == "disconnect":
                raise ChannelError(f"Socket Mode: Slack ends the connection at once ({message.get('reason')})")

    async def _read(self, socket: ClientWebSocketResponse, first: dict[str, Any] | None = None) -> str:
        """Hand on what comes after `first`, which came already; returns why Slack wants another connection."""
        while True:
            message, first = first or await self._receive(socket), None
            if message.get("type") == "disconnect":
                return str(message.get("reason"))
            request = SocketModeRequest.from_dict(message)
            if request is not None and isinstance(request.payload, dict):
                await self._deliver(Envelope(request, socket, self._clock.monotonic_s()))

    async def _receive(self, socket: ClientWebSocketResponse) -> dict[str, Any]:
        """Return the next JSON object.

        Raises:
            ChannelError: the connection is lost.
        """
        while True:
            message = await socket.receive()
            if message.type in _LOST:
                raise ChannelError(f"Socket Mode: connection lost ({_cause(socket)})")
            self.heard_at_s = self._clock.monotonic_s()
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is WSMsgType.TEXT:
                try:
                    said = orjson.loads(message.data)
                except orjson.JSONDecodeError:
                    _log.warning("unreadable message on the connection", size_chars=len(message.data))
                    continue
                if isinstance(said, dict):
                    return said

    def _leave(self, socket: ClientWebSocketResponse) -> None:
        task = asyncio.create_task(self._last_words(socket), name="slack-old-connection")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _last_words(self, socket: ClientWebSocketResponse) -> None:
        """Hear a connection out that was told to end."""
        try:
            async with asyncio.timeout(self._timing.overlap_s):
                while True:
                    await self._read(socket)
        except (ChannelError, TimeoutError):
            pass
        finally:
            self._sockets.discard(socket)
            await socket.close()

    async def _close(self) -> None:
        for task in list(self._leaving):
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        sockets, self._sockets = self._sockets, set()
        for socket in sockets:
            await socket.close()


def _cause(socket: ClientWebSocketResponse) -> str:
    problem = socket.exception()
    return type(problem).__name__ if problem is not None else f"code {socket.close_code}"
