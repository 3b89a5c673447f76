"""Socket Mode: the WebSocket connections of an app, and the envelopes that wait for their acknowledgement.

From https://docs.slack.dev/apis/events-api/using-socket-mode and https://docs.slack.dev/apis/events-api (retries;
both read 2026-11-30). An envelope goes to one of the open connections in turn. An event that is not acknowledged
within 3 s comes again at once, then after 1 and after 5 minutes, each time in an envelope with an id of its own;
presses and commands do not come again, the person sees that they failed.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from asyncio import TimerHandle
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.platforms.loopback import Bell
from tests.platforms.slack_objects import APP_ID, Json

ACK_LIMIT_S = 3.0
RETRIES_S: tuple[float, ...] = (0.0, 60.0, 300.0)  # after the limit has passed
MAX_CONNECTIONS = 10
REFRESH_S = 18_060  # what `hello` says of a connection's length of life


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """One time an envelope was handed to the app."""

    envelope_id: str
    connection: int
    retry_attempt: int
    at_monotonic: float
    acknowledged_at: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Envelope:
    """Something the app is told: an event, a press or a command. `ts` is the message it is about, if any.

    `own` are events about what the bot itself did. `lost`: it will not come (again). `answer` is the payload of
    the acknowledgement.
    """

    kind: str  # events_api, interactive, slash_commands
    payload: Json
    ts: str = ""
    own: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    acknowledged: bool = False
    lost: bool = False
    answer: Json | None = None
    retries: int = 0
    timer: TimerHandle | None = None

    @property
    def comes_again(self) -> bool:
        """Whether Slack sends it again when it is not acknowledged."""
        return self.kind == "events_api"

    @property
    def event_type(self) -> str:
        """The event's type, or the type of the interaction or the command."""
        if self.kind == "events_api":
            return str(self.payload["event"]["type"])
        return str(self.payload.get("type") or self.payload.get("command"))

    def stop_timer(self) -> None:
        """Send it no more of itself."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Connection:
    """One WebSocket; `leaving` after a `disconnect` message: nothing new goes there.

    A `frozen` one is still open, but nothing comes or goes, not even pongs.
    """

    def __init__(self, number: int, socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        self.number = number
        self.socket = socket
        self.leaving = False
        self.frozen = False
        self.outgoing: asyncio.Queue[str | None] = asyncio.Queue()  # None: close
        self._request = request

    def send(self, message: Json) -> None:
        """Queue a message."""
        self.outgoing.put_nowait(json.dumps(message))

    def close(self) -> None:
        """Close it properly after what is queued."""
        self.leaving = True
        self.outgoing.put_nowait(None)

    def abort(self) -> None:
        """Cut it."""
        self.leaving = True
        if self._request.transport is not None:
            self._request.transport.abort()

    async def write(self) -> None:
        """Send what is queued until it closes."""
        while (text := await self.outgoing.get()) is not None:
            if not self.frozen:
                await self.socket.send_str(text)
        await self.socket.close()


class SocketMode:
    """Every connection and every envelope of the app."""

    def __init__(self, bell: Bell) -> None:
        self.envelopes: list[Envelope] = []  # all there ever were, in order
        self.connections: list[Connection] = []
        self.connection_count = 0  # how many there were so far
        self.violations: list[str] = []  # what the app did against the protocol
        self.ack_limit_s = ACK_LIMIT_S
        self.retries_s = RETRIES_S
        self.says_hello = True
        self.loses_events = False  # what is not acknowledged at a drop, or happens without a connection, is gone
        self.deaf = False  # acknowledgements are lost on their way
        self._bell = bell
        self._open: dict[Envelope, None] = {}  # neither acknowledged nor lost, in order
        self._pending: deque[Envelope] = deque()  # those of them that no connection has
        self._tickets: set[str] = set()
        self._by_id: dict[str, tuple[Envelope, Delivery]] = {}
        self._turn = 0

    # --- what tests do

    @property
    def connected(self) -> bool:
        """Whether the app has a connection that takes events."""
        return any(not connection.leaving for connection in self.connections)

    def disconnect(self, reason: str = "refresh_requested", *, newest: bool = False) -> None:
        """Tell the app that its connections will end: `warning`, `refresh_requested` or `link_disabled`.

        They get nothing new. After `link_disabled` they are closed at once; else when a new one has come.
        """
        chosen = self.connections[-1:] if newest else list(self.connections)
        for connection in chosen:
            connection.leaving = True
            connection.send({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}})
            if reason == "link_disabled":
                connection.close()

    def drop(self) -> None:
        """Cut every connection without a word."""
        for connection in self.connections:
            connection.abort()

    def freeze(self) -> None:
        """Let every connection hang: open, but nothing comes or goes until the app gives it up."""
        for connection in self.connections:
            connection.frozen = True

    def close(self) -> None:
        """Close every connection properly."""
        for connection in self.connections:
            connection.close()

    def send_raw(self, text: str) -> None:
        """Send a text to every connection as it is."""
        for connection in self.connections:
            connection.outgoing.put_nowait(text)

    def unacknowledged(self, ts: str = "", *, own: bool = False) -> list[Envelope]:
        """Return what still waits for its acknowledgement: about one message or about all."""
        return [envelope for envelope in self._open if ts in {"", envelope.ts} and envelope.own <= own]

    def redeliver(self, envelope: Envelope) -> None:
        """Send an event once more, acknowledged or not."""
        envelope.stop_timer()
        envelope.acknowledged = envelope.lost = False
        self._open[envelope] = None
        envelope.retries = max(1, envelope.retries)
        self._send(envelope)

    # --- what the platform does

    def publish(self, kind: str, payload: Json, *, ts: str = "", own: bool = False) -> Envelope:
        """Tell the app something as soon as there is a connection."""
        envelope = Envelope(kind=kind, payload=payload, ts=ts, own=own)
        self.envelopes.append(envelope)
        self._open[envelope] = None
        self._send(envelope)
        return envelope

    def new_ticket(self) -> str:
        """Return a ticket for one connection."""
        ticket = uuid.uuid4().hex
        self._tickets.add(ticket)
        return ticket

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Be the server's end of one connection."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=404, text="no such link")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self.connection_count += 1
        connection = Connection(self.connection_count, socket, request)
        if len(self.connections) >= MAX_CONNECTIONS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets", "debug_info": {}})
            await socket.close()
            return socket
        self._welcome(connection)
        writer = asyncio.create_task(connection.write(), name=f"slack socket {connection.number}")
        try:
            async for message in socket:
                if connection.frozen:
                    continue
                if message.type is WSMsgType.TEXT:
                    self._hear(message.data)
                elif message.type is WSMsgType.PING:
                    await socket.pong(message.data)
        finally:
            self.connections.remove(connection)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            self._gone(connection)
            self._bell.ring()
        return socket

    def stop(self) -> None:
        """Let no timer outlive the server; what waits stays."""
        for envelope in self._open:
            envelope.stop_timer()

    def _welcome(self, connection: Connection) -> None:
        for old in self.connections:
            if old.leaving:
                old.close()
        self.connections.append(connection)
        if self.says_hello:
            connection.send(
                {
                    "type": "hello",
                    "num_connections": len(self.connections),
                    "connection_info": {"app_id": APP_ID},
                    "debug_info": {
                        "host": "applink-1",
                        "build_number": 1,
                        "approximate_connection_time": REFRESH_S,
                    },
                }
            )
        waiting, self._pending = self._pending, deque()
        for envelope in waiting:
            if envelope in self._open:
                self._send(envelope)
        self._bell.ring()

    def _gone(self, connection: Connection) -> None:
        """Keep what the connection did not acknowledge for the next one, or lose it."""
        left = [e for e in self._open if e.deliveries and e.deliveries[-1].connection == connection.number]
        for envelope in left:
            envelope.stop_timer()
            if self.loses_events or not envelope.comes_again:
                self._lose(envelope)
            elif envelope not in self._pending:
                envelope.retries += 1
                self._send(envelope)

    def _lose(self, envelope: Envelope) -> None:
        envelope.lost = True
        self._open.pop(envelope, None)
        self._bell.ring()

    def _send(self, envelope: Envelope) -> None:
        open_ones = [connection for connection in self.connections if not connection.leaving]
        if not open_ones:
            if self.loses_events or not envelope.comes_again:
                self._lose(envelope)
            elif envelope not in self._pending:
                self._pending.append(envelope)
            return
        self._turn += 1
        connection = open_ones[self._turn % len(open_ones)]
        delivery = Delivery(
            envelope_id=str(uuid.uuid4()),
            connection=connection.number,
            retry_attempt=envelope.retries,
            at_monotonic=time.monotonic(),
        )
        envelope.deliveries.append(delivery)
        self._by_id[delivery.envelope_id] = (envelope, delivery)
        message: Json = {
            "envelope_id": delivery.envelope_id,
            "payload": envelope.payload,
            "type": envelope.kind,
            "accepts_response_payload": not envelope.comes_again,
        }
        if envelope.comes_again:
            message |= {"retry_attempt": envelope.retries, "retry_reason": "timeout" if envelope.retries else ""}
        connection.send(message)
        envelope.timer = asyncio.get_running_loop().call_later(self.ack_limit_s, self._overdue, envelope)
        self._bell.ring()

    def _overdue(self, envelope: Envelope) -> None:
        envelope.timer = None
        if not envelope.comes_again or envelope.retries >= len(self.retries_s):
            self._lose(envelope)
            return
        wait_s = self.retries_s[envelope.retries]
        envelope.retries += 1
        envelope.timer = asyncio.get_running_loop().call_later(wait_s, self._send, envelope)

    def _hear(self, text: str) -> None:
        try:
            said: Any = json.loads(text)
            envelope_id = said["envelope_id"]
        except (ValueError, TypeError, KeyError):
            self.violations.append(f"not an acknowledgement: {text[:200]}")
            return
        known = self._by_id.get(envelope_id)
        if known is None:
            self.violations.append(f"acknowledges an unknown envelope: {envelope_id}")
            return
        if self.deaf:
            return
        envelope, delivery = known
        if delivery.acknowledged_at is not None:
            self.violations.append(f"acknowledges an envelope twice: {envelope_id}")
        delivery.acknowledged_at = time.monotonic()
        if said.get("payload") and envelope.comes_again:
            self.violations.append(f"answers an event that takes no payload: {envelope.event_type}")
        envelope.answer = said.get("payload") or envelope.answer
        envelope.acknowledged = True
        self._open.pop(envelope, None)
        envelope.stop_timer()
        self._bell.ring()
