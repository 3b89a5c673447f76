"""A scripted MCP server over HTTP in the test's own process: streamable HTTP at `/mcp`, the old SSE at `/sse`.

The same scripts run over stdio by `mcp_stage`. Strict about what the specification demands of clients, so that a
mistake of theirs fails: media types, session and version headers, the mirrored headers of 2026-07-28, foreign origins.
"""

from __future__ import annotations

import asyncio
import json
from asyncio import Task
from uuid import uuid4

from aiohttp import web

from tests.platforms.loopback import LoopbackServer, cut
from tests.platforms.mcp_engine import Engine
from tests.platforms.mcp_http import EventStream, Exchange, HttpSession, SseSession
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_peer import Misbehaviour, Peer, RequestId
from tests.platforms.mcp_record import Record
from tests.platforms.mcp_routing import wrong_headers
from tests.platforms.mcp_script import HANDSHAKES, MODERN, Fault, Json, Kind, Script

# Faults of a POST as such, whatever the message in it wants.
OF_THE_POST = {Kind.STATUS, Kind.SESSION_GONE, Kind.RESET, Kind.REDIRECT, Kind.CONTENT_TYPE}


class McpServer(LoopbackServer):
    """A server on loopback; change `script` as you like while it runs.

    `go_down` forgets every session, as a process that ends does; `come_up` listens on the same port.
    """

    stops_with_client = True

    def __init__(self, script: Script, *, oauth: McpOAuth | None = None, port: int = 0) -> None:
        super().__init__(port=port)
        self.script = script
        self.record = Record(lambda event: self.bell.ring())
        self.engine = Engine(script, self.record)
        self.sessions: dict[str, HttpSession | SseSession] = {}
        self.oauth = oauth
        self._crash: Task[None] | None = None

    @property
    def url(self) -> str:
        """Where streamable HTTP is served."""
        return f"{self.origin}/mcp"

    @property
    def sse_url(self) -> str:
        """Where the old SSE transport is served."""
        return f"{self.origin}/sse"

    def account(self) -> str:
        """Say in one line what happened here last."""
        return "; ".join(json.dumps(event)[:200] for event in self.record.events[-8:]) or "nothing"

    # -- orders of the test, the same as of `mcp_stage.StdioServer`

    async def apply(self) -> None:
        """Do nothing: in this process a changed script counts at once."""

    async def release(self, tool: str) -> None:
        """Let the held calls of a tool go on."""
        self.engine.desk.release(tool)

    async def changed(self, kind: str) -> None:
        """Tell clients that a list changed: "tools", "resources" or "prompts"."""
        await self.engine.changed(kind)

    async def updated(self, uri: str) -> None:
        """Tell subscribed clients that a resource changed."""
        await self.engine.updated(uri)

    def forget_sessions(self) -> None:
        """Know no session any more, as after a restart behind a proxy: the next request of each finds 404."""
        for session in self.sessions.values():
            if isinstance(session, HttpSession):
                session.close()
            else:
                session.closed.set()
        self.sessions.clear()
        self.engine.peers.clear()

    @property
    def crashed(self) -> bool:
        """Whether a fault has ended the server since it came up."""
        return self._crash is not None and self._crash.done()

    async def go_down(self) -> None:
        """Stop listening, cut every connection, forget every session."""
        await super().go_down()
        self.forget_sessions()
        await self.engine.close()

    async def come_up(self) -> None:
        """Listen (again), on the same port."""
        await self._settle()
        await super().come_up()

    async def _settle(self) -> None:
        crash, self._crash = self._crash, None
        if crash is not None:
            await crash

    async def __aexit__(self, *exc_info: object) -> None:
        await self._settle()
        await self.go_down()

    # -- requests

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if self.oauth is not None and (answer := await self.oauth.handle(request, self.origin)) is not None:
            self.bell.ring()
            return answer
        if self.oauth is not None and self.oauth.refuses_initialize and b'"initialize"' in await request.read():
            return refuse(400, -32020, "Missing MCP-Protocol-Version header", None)
        if (refusal := self._refusal(request)) is not None:
            return refusal
        match request.method, request.path:
            case "POST", "/mcp":
                return await self._post(request)
            case "GET", "/mcp":
                return await self._get(request)
            case "DELETE", "/mcp":
                return await self._delete(request)
            case "GET", "/sse":
                return await self._open_sse(request)
            case "POST", "/messages":
                return await self._post_sse(request)
        return web.Response(status=404)

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Refuse what comes from a foreign page, or without the right to be here."""
        origin = request.headers.get("Origin")
        if origin is not None and origin != self.origin:
            return web.Response(status=403)
        if self.oauth is not None and (refusal := self.oauth.refusal(request, self.origin)) is not None:
            self.record.add("unauthorized", path=request.path)
            return refusal
        for name, value in self.script.requires_headers.items():
            if request.headers.get(name) != value:
                self.record.add("unauthorized", path=request.path)
                return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        return None

    async def _read(self, request: web.BaseRequest) -> Json | web.Response:
        if request.content_type != "application/json":
            return web.Response(status=415)
        try:
            message = json.loads(await request.read())
        except ValueError:
            return refuse(400, -32700, "Parse error", None)
        return message if isinstance(message, dict) else refuse(400, -32600, "Not one message", None)

    async def _post(self, request: web.BaseRequest) -> web.StreamResponse:
        accepted = request.headers.get("Accept", "")
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            return web.Response(status=406)
        message = await self._read(request)
        if not isinstance(message, dict):
            return message
        if self.oauth is not None and (lack := self.oauth.lack(request, message)) is not None:
            return lack
        fault = self.engine.admit(message, headers=dict(request.headers))
        exchange = Exchange(request, as_json=self.script.answers_as == "json")
        if fault is not None and fault.kind in OF_THE_POST:
            return await self._misbehave(fault, message, exchange.stream)
        modern = self.engine.is_modern(message)
        if modern and MODERN in self.script.versions:
            if (mismatch := wrong_headers(request.headers, message)) is not None:
                return refuse(400, -32020, mismatch, message["id"])
            return await self._exchange(message, exchange, exchange, fault)
        if request.headers.get("MCP-Protocol-Version") == MODERN and "id" not in message:
            return web.Response(status=202)
        if message.get("method") == "initialize":
            session = self._new_session()
            if not self.script.sessionless:
                exchange.stream.headers["Mcp-Session-Id"] = session.identity
            return await self._exchange(message, session, exchange, fault)
        found = self._session_of(request, message)
        if not isinstance(found, HttpSession):
            return found
        if "id" in message and "method" in message:
            return await self._exchange(message, found, exchange, fault)
        try:
            await self.engine.serve(message, found, fault)
        except Misbehaviour as misbehaviour:
            return await self._misbehave(misbehaviour.fault, message, exchange.stream)
        return web.Response(status=202)

    async def _exchange(self, message: Json, peer: Peer, exchange: Exchange, fault: Fault | None) -> web.StreamResponse:
        """Serve one request whose response is the answer to its POST."""
        identity: RequestId = message["id"]
        if isinstance(peer, HttpSession):
            peer.exchanges[identity] = exchange
        try:
            response = await self.engine.serve(message, peer, fault)
        except Misbehaviour as misbehaviour:
            return await self._misbehave(misbehaviour.fault, message, exchange.stream)
        finally:
            if isinstance(peer, HttpSession):
                peer.exchanges.pop(identity, None)
        return await exchange.respond(
            response, modern=peer is exchange, streamed=message["method"] in {"tools/call", "subscriptions/listen"}
        )

    def _new_session(self) -> HttpSession:
        identity = "" if self.script.sessionless else uuid4().hex
        session = HttpSession(identity)
        self.sessions[identity] = session
        self.engine.peers.add(session)
        return session

    def _session_of(self, request: web.BaseRequest, message: Json) -> HttpSession | web.Response:
        version = request.headers.get("MCP-Protocol-Version")
        identity = message.get("id")
        if version is not None and version not in HANDSHAKES and not self.engine.is_modern(message):
            return refuse(400, -32000, f"Unsupported protocol version: {version}", identity)
        name = "" if self.script.sessionless else request.headers.get("Mcp-Session-Id")
        if name is None:
            return refuse(400, -32000, "Bad Request: no session", identity)
        session = self.sessions.get(name)
        if isinstance(session, HttpSession):
            return session
        return refuse(self.script.forgotten_status, -32001, self.script.forgotten_text, identity)

    async def _get(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = self.engine.admit({"method": "GET"}, headers=dict(request.headers))
        if fault is not None:
            return await self._misbehave(fault, {"id": None}, EventStream(request))
        if request.headers.get("MCP-Protocol-Version") == MODERN:
            return web.Response(status=405, headers={"Allow": "POST"})
        found = self._session_of(request, {})
        return await found.listen(request) if isinstance(found, HttpSession) else found

    async def _delete(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = self.engine.admit({"method": "DELETE"}, headers=dict(request.headers))
        if fault is not None:
            return await self._misbehave(fault, {"id": None}, EventStream(request))
        found = self._session_of(request, {})
        if not isinstance(found, HttpSession):
            return found
        found.close()
        self.engine.peers.discard(found)
        del self.sessions[found.identity]
        return web.Response(status=204)

    # -- the old transport

    async def _open_sse(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = self.engine.admit({"method": "GET"}, headers=dict(request.headers))
        if fault is not None:
            return await self._misbehave(fault, {"id": None}, EventStream(request))
        session = SseSession(uuid4().hex, request)
        self.sessions[session.identity] = session
        self.engine.peers.add(session)
        try:
            await session.stream.send(f"/messages?session_id={session.identity}", event="endpoint")
            await session.closed.wait()
        finally:
            self.sessions.pop(session.identity, None)
            self.engine.peers.discard(session)
        return await session.stream.open()

    async def _post_sse(self, request: web.BaseRequest) -> web.StreamResponse:
        message = await self._read(request)
        if not isinstance(message, dict):
            return message
        session = self.sessions.get(request.query.get("session_id", ""))
        if not isinstance(session, SseSession):
            return web.Response(status=404)
        fault = self.engine.admit(message, headers=dict(request.headers))
        if fault is not None and fault.kind in OF_THE_POST:
            return await self._misbehave(fault, message, EventStream(request))
        self.engine.own(self._serve_sse(message, session, fault), "MCP over SSE")
        return web.Response(status=202)

    async def _serve_sse(self, message: Json, session: SseSession, fault: Fault | None) -> None:
        try:
            response = await self.engine.serve(message, session, fault)
        except Misbehaviour as misbehaviour:
            await self._misbehave(misbehaviour.fault, message, session.stream)
            session.closed.set()
            return
        if response is not None:
            await session.deliver(response, about=None)

    # -- faults

    async def _misbehave(self, fault: Fault, message: Json, stream: EventStream) -> web.StreamResponse:
        """Carry a fault out on the response that is due; return what the handler returns."""
        half = f'{{"jsonrpc": "2.0", "id": {json.dumps(message.get("id"))}, "result": {{'
        match fault.kind:
            case Kind.DIE_BEFORE | Kind.DIE_AFTER:
                self._crash = asyncio.create_task(self.go_down(), name="scripted MCP server dies")
                self._crash.add_done_callback(lambda _: self.bell.ring())
                return cut(stream.request)
            case Kind.GARBAGE | Kind.INVALID_JSON:
                data = half if fault.kind is Kind.INVALID_JSON else fault.text or "\x00 garbage"
                if self.script.answers_as == "json" and stream.response is None:
                    return web.Response(body=data.encode(), content_type="application/json")
                await stream.send(data)
            case Kind.STATUS:
                wait = {} if fault.retry_after_s is None else {"Retry-After": f"{fault.retry_after_s:g}"}
                return web.Response(status=fault.code or 500, headers=wait, text=fault.text)
            case Kind.SESSION_GONE:
                self.forget_sessions()
                return refuse(404, -32001, "Session not found", message.get("id"))
            case Kind.RESET:
                return cut(stream.request)
            case Kind.RESET_MID_STREAM:
                response = await stream.open()
                await response.write(f"event: message\ndata: {half}".encode())
                cut(stream.request)
            case Kind.STREAM_ENDS:
                response = await stream.open()
                await response.write(b": that is all\n\n")
            case Kind.REDIRECT:
                return web.Response(status=307, headers={"Location": fault.text})
            case Kind.CONTENT_TYPE:
                return web.Response(text="<html><body>Welcome!</body></html>", content_type="text/html")
        return await stream.open()


def refuse(status: int, code: int, message: str, identity: RequestId | None) -> web.Response:
    """Return a JSON-RPC error as an HTTP response."""
    error = {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}
    return web.json_response(error, status=status)
