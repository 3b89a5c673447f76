"""Discord's gateway, version 10 with JSON: connections, sessions, what each is told, and replay on resume.

https://docs.discord.com/developers/events/gateway and .../topics/opcodes-and-status-codes (read 2026-11-30).
Transport compression is `zlib-stream` when a client asks for it. A session lives on without a connection until
it is forgotten or closed with 1000 or 1001; all its events are kept.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from tests.platforms.discord_objects import KNOWN_INTENTS, PRIVILEGED, Intent, Json
from tests.platforms.discord_world import Event, World
from tests.platforms.loopback import Bell, encode_json

PAYLOAD_LIMIT_BYTES = 4096
SENDS_PER_MINUTE = 120
IDENTIFY_WAIT_S = 30.0


class Op(IntEnum):
    """Gateway opcodes."""

    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    PRESENCE = 3
    VOICE_STATE = 4
    RESUME = 6
    RECONNECT = 7
    REQUEST_MEMBERS = 8
    INVALID_SESSION = 9
    HELLO = 10
    HEARTBEAT_ACK = 11


class Close(IntEnum):
    """Close codes. A client may not come back by itself after 4004 and 4010 to 4014."""

    UNKNOWN_ERROR = 4000
    UNKNOWN_OPCODE = 4001
    DECODE_ERROR = 4002
    NOT_AUTHENTICATED = 4003
    AUTHENTICATION_FAILED = 4004
    ALREADY_AUTHENTICATED = 4005
    INVALID_SEQ = 4007
    RATE_LIMITED = 4008
    SESSION_TIMED_OUT = 4009
    INVALID_SHARD = 4010
    INVALID_API_VERSION = 4012
    INVALID_INTENTS = 4013
    DISALLOWED_INTENTS = 4014


class _Closing(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(slots=True, kw_only=True)
class Session:
    """What one identified client was told; number `n` of `events` has the sequence number `n + 1`."""

    id: str
    intents: Intent
    events: list[tuple[str, Json]] = field(default_factory=list)
    resumable: bool = True

    @property
    def sequence(self) -> int:
        """The newest sequence number."""
        return len(self.events)


class Connection:
    """One open WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, request: web.BaseRequest, *, compress: bool) -> None:
        self.session: Session | None = None
        self.position = 0  # how many events of the session were sent here
        self.resumed_at = 0  # which of them is the RESUMED of this connection
        self._socket = socket
        self._request = request
        self._zlib = zlib.compressobj() if compress else None

    async def send(self, op: Op, data: Any, *, sequence: int | None = None, name: str | None = None) -> None:
        """Send one payload; nothing if the client is gone."""
        payload = encode_json({"op": int(op), "d": data, "s": sequence, "t": name})
        try:
            if self._zlib is None:
                await self._socket.send_str(payload.decode())
            else:
                await self._socket.send_bytes(self._zlib.compress(payload) + self._zlib.flush(zlib.Z_SYNC_FLUSH))
        except ConnectionError:
            return

    async def close(self, code: int) -> None:
        """Close the way the platform does."""
        await self._socket.close(code=code)

    def abort(self) -> None:
        """Cut the connection without a word."""
        if self._request.transport is not None:
            self._request.transport.abort()


class Gateway:
    """All sessions and connections of one bot."""

    def __init__(self, world: World, token: str, bell: Bell) -> None:
        self.allowed_privileged = PRIVILEGED  # as switched on for the application
        self.heartbeat_interval_ms = 41_250
        self.acknowledges = True  # False: heartbeats are not answered, as on a dead connection
        self.tells = True  # False: events are kept back until it is True again and `wake` is called
        self.unsaid: set[str] = set()  # fields that READY leaves out
        self.announces = True  # False: no GUILD_CREATE follows a READY
        self.refused_resumes = 0  # how many of the next resumes are answered with op 9
        self.identifies: list[Json] = []  # the `d` of every IDENTIFY, without its token
        self.resumes: list[Json] = []  # the `d` of every RESUME, without its token
        self.closed: list[int] = []  # close codes, of both sides; 1006 where there was none
        self.heartbeats: list[int | None] = []  # the sequence number in each
        self._world = world
        self._token = token
        self._bell = bell
        self._news = Bell()
        self._sessions: dict[str, Session] = {}
        self._open: list[Connection] = []
        self.ready_count = 0  # READY and RESUMED sent so far

    # --- what tests do

    @property
    def connected(self) -> bool:
        """Whether a client with a session is connected."""
        return any(connection.session is not None for connection in self._open)

    @property
    def acknowledged(self) -> int:
        """The newest sequence number a client named in a heartbeat or resume."""
        return max([0, *(s for s in self.heartbeats if s is not None), *(int(d["seq"]) for d in self.resumes)])

    @property
    def sequence(self) -> int:
        """The newest sequence number of the newest session."""
        return list(self._sessions.values())[-1].sequence if self._sessions else 0

    def publish(self, event: Event) -> None:
        """Tell every session that wants to know, connected or not."""
        for session in self._sessions.values():
            if event.intent is None or event.intent in session.intents:
                session.events.append((event.name, self._seen_by(session, event)))
        self.wake()

    def redeliver(self, name: str = "MESSAGE_CREATE") -> None:
        """Tell every session its last event of this name once more, under a new sequence number."""
        for session in self._sessions.values():
            session.events.append(next(e for e in reversed(session.events) if e[0] == name))
        self.wake()

    def wake(self) -> None:
        """Let connections look for what they have to send."""
        self._news.ring()
        self._bell.ring()

    def drop(self) -> None:
        """Cut every connection without a close frame; the sessions can be resumed."""
        for connection in list(self._open):
            connection.abort()

    async def close(self, code: int) -> None:
        """Close every connection with a code."""
        for connection in list(self._open):
            await connection.close(code)

    async def reconnect(self) -> None:
        """Ask every client to reconnect and resume (op 7)."""
        for connection in list(self._open):
            await connection.send(Op.RECONNECT, None)

    async def invalidate(self, *, resumable: bool = False) -> None:
        """Tell every client that its session is invalid (op 9)."""
        if not resumable:
            self.forget_sessions()
        for connection in list(self._open):
            await connection.send(Op.INVALID_SESSION, resumable)

    def forget_sessions(self) -> None:
        """Let no session that exists now be resumed: what is published while nobody is connected is lost."""
        for session in self._sessions.values():
            session.resumable = False

    # --- connections

    async def serve(self, request: web.BaseRequest) -> web.WebSocketResponse:
        """Speak with one client until it or we hang up."""
        socket = web.WebSocketResponse(max_msg_size=64 * 1024)
        await socket.prepare(request)
        connection = Connection(socket, request, compress=request.query.get("compress") == "zlib-stream")
        self._open.append(connection)
        writer: asyncio.Task[None] | None = None
        code: int | None = None
        try:
            _check_version(request)
            await connection.send(Op.HELLO, {"heartbeat_interval": self.heartbeat_interval_ms})
            writer = asyncio.create_task(self._write(connection), name="gateway writer")
            await self._read(connection, socket)
            code = socket.close_code
        except _Closing as closing:
            code = closing.code
            await socket.close(code=closing.code)
        finally:
            if writer is not None:
                writer.cancel()
            self._open.remove(connection)
            self.closed.append(1006 if code is None else int(code))
            if code in {1000, 1001} and connection.session is not None:
                connection.session.resumable = False
            self._drop_dead_sessions()
            self._bell.ring()
        return socket

    def _drop_dead_sessions(self) -> None:
        used = [connection.session for connection in self._open]
        self._sessions = {key: s for key, s in self._sessions.items() if s.resumable or s in used}

    async def _read(self, connection: Connection, socket: web.WebSocketResponse) -> None:
        recent: deque[float] = deque(maxlen=SENDS_PER_MINUTE)
        while True:
            patience_s = 2 * self.heartbeat_interval_ms / 1000 if connection.session else IDENTIFY_WAIT_S
            try:
                message = await socket.receive(timeout=patience_s)
            except TimeoutError:
                raise _Closing(Close.SESSION_TIMED_OUT) from None
            if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                return
            now = time.monotonic()
            if len(recent) == SENDS_PER_MINUTE and now - recent[0] < 60:
                raise _Closing(Close.RATE_LIMITED)
            recent.append(now)
            if len(message.data) > PAYLOAD_LIMIT_BYTES:
                raise _Closing(Close.DECODE_ERROR)
            try:
                payload = orjson.loads(message.data)
                op = Op(payload["op"])
            except (orjson.JSONDecodeError, KeyError, TypeError):
                raise _Closing(Close.DECODE_ERROR) from None
            except ValueError:
                raise _Closing(Close.UNKNOWN_OPCODE) from None
            await self._take(connection, op, payload.get("d"))

    async def _take(self, connection: Connection, op: Op, data: Any) -> None:
        if op is Op.HEARTBEAT:
            self.heartbeats.append(data)
            self._bell.ring()
            if self.acknowledges:
                await connection.send(Op.HEARTBEAT_ACK, None)
        elif op is Op.IDENTIFY:
            self._identify(connection, data)
        elif op is Op.RESUME:
            await self._resume(connection, data)
        elif connection.session is None:
            raise _Closing(Close.NOT_AUTHENTICATED)
        elif op not in {Op.PRESENCE, Op.VOICE_STATE, Op.REQUEST_MEMBERS}:
            raise _Closing(Close.UNKNOWN_OPCODE)

    def _identify(self, connection: Connection, data: Json) -> None:
        self.identifies.append({k: v for k, v in data.items() if k != "token"})
        if connection.session is not None:
            raise _Closing(Close.ALREADY_AUTHENTICATED)
        if data.get("token") != self._token:
            raise _Closing(Close.AUTHENTICATION_FAILED)
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
            raise _Closing(Close.INVALID_INTENTS)
        if intents & PRIVILEGED & ~self.allowed_privileged:
            raise _Closing(Close.DISALLOWED_INTENTS)
        if list(data.get("shard") or (0, 1)) != [0, 1]:
            raise _Closing(Close.INVALID_SHARD)
        # Bits without a name here are intents for events that never happen here.
        session = Session(id=f"{self._world.snowflake():032x}", intents=Intent(intents & sum(Intent)))
        self._sessions[session.id] = session
        session.events.append(("READY", self._ready(session)))
        if Intent.GUILDS in session.intents and self.announces:
            members = Intent.GUILD_MEMBERS in session.intents
            for guild in self._world.present_guilds():
                session.events.append(("GUILD_CREATE", self._world.guild_json(guild, all_members=members)))
        self._attach(connection, session, 0)

    async def _resume(self, connection: Connection, data: Json) -> None:
        self.resumes.append({k: v for k, v in data.items() if k != "token"})
        if connection.session is not None:
            raise _Closing(Close.ALREADY_AUTHENTICATED)
        if data.get("token") != self._token:
            raise _Closing(Close.AUTHENTICATION_FAILED)
        session = self._sessions.get(str(data.get("session_id")))
        refused = self.refused_resumes > 0
        self.refused_resumes -= refused
        if session is None or refused or not session.resumable:
            self._bell.ring()
            await connection.send(Op.INVALID_SESSION, False)
            return
        sequence = data.get("seq")
        if not isinstance(sequence, int) or sequence > session.sequence:
            raise _Closing(Close.INVALID_SEQ)
        for other in self._open:
            if other.session is session:
                other.abort()
        session.events.append(("RESUMED", {}))
        connection.resumed_at = session.sequence
        self._attach(connection, session, sequence)

    def _attach(self, connection: Connection, session: Session, position: int) -> None:
        connection.session, connection.position = session, position
        self.ready_count += 1
        self.wake()

    async def _write(self, connection: Connection) -> None:
        """Send what the session has and the connection has not, as it comes."""
        while True:
            session = connection.session
            while session is not None and self.tells and connection.position < session.sequence:
                name, data = session.events[connection.position]
                connection.position += 1
                # A RESUMED of an earlier connection is no event of the world: it is not replayed.
                if name != "RESUMED" or connection.position == connection.resumed_at:
                    await connection.send(Op.DISPATCH, data, sequence=connection.position, name=name)
            await self._news.wait()

    # --- what is told

    def _ready(self, session: Session) -> Json:
        world = self._world
        whole = {
            "v": 10,
            "user": world.bot.to_json() | {"mfa_enabled": True, "verified": True, "email": None, "flags": 0},
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in world.present_guilds()],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": self._world.origin().replace("http", "ws", 1),
            "shard": [0, 1],
            "application": {"id": str(world.bot.id), "flags": self.application_flags()},
            "private_channels": [],
            "relationships": [],
            "user_settings": {},
        }
        return {name: value for name, value in whole.items() if name not in self.unsaid}

    def application_flags(self) -> int:
        """Return the application's flags: limited access (an application in fewer than 100 guilds) to intents."""
        limited = {Intent.GUILD_PRESENCES: 1 << 13, Intent.GUILD_MEMBERS: 1 << 15, Intent.MESSAGE_CONTENT: 1 << 19}
        return sum(flag for intent, flag in limited.items() if intent in self.allowed_privileged)

    def _seen_by(self, session: Session, event: Event) -> Json:
        if event.message is None or Intent.MESSAGE_CONTENT in session.intents:
            return event.data
        view = self._world.shown(event.message, with_content=False)
        hidden = ("content", "attachments", "embeds", "components", "referenced_message")
        return event.data | {key: view[key] for key in hidden if key in view}


def _check_version(request: web.BaseRequest) -> None:
    if request.query.get("v") != "10" or request.query.get("encoding", "json") != "json":
        raise _Closing(Close.INVALID_API_VERSION)
