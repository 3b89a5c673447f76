"""The protocol of a scripted MCP server: what it answers to each message, in both generations, and which fault strikes.

Written by hand from https://modelcontextprotocol.io/specification/2025-11-25 and /2026-07-28, on JSON-RPC and not on
the SDK's server, so that it can break every rule. Transports carry the messages and carry out the faults.
"""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tests.platforms.mcp_calls import CallDesk
from tests.platforms.mcp_lists import describe_prompt, describe_resource, describe_tool, page
from tests.platforms.mcp_peer import Misbehaviour, Peer, Refused, RequestId
from tests.platforms.mcp_record import Record
from tests.platforms.mcp_script import CONNECT, HANDSHAKES, MODERN, Fault, Json, Kind, Script

# Error codes of the specification, as in mcp_types.jsonrpc.
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

CHANGES = {"tools": "toolsListChanged", "resources": "resourcesListChanged", "prompts": "promptsListChanged"}

T = TypeVar("T")

Handler = Callable[[Json, Peer, RequestId], Awaitable[Json]]


class Engine:
    """One server's protocol state: its script, its record, its peers and the subscriptions they hold."""

    def __init__(self, script: Script, record: Record) -> None:
        self.script = script
        self.record = record
        self.peers: set[Peer] = set()
        self.desk = CallDesk(record)
        self._listening: dict[tuple[Peer, RequestId], Json] = {}
        self._tasks: set[Task[Any]] = set()

    # -- messages in

    def is_modern(self, message: Json) -> bool:
        """Say whether a request carries the envelope of 2026-07-28."""
        meta = (message.get("params") or {}).get("_meta")
        return isinstance(meta, dict) and META_VERSION in meta and META_CAPABILITIES in meta

    def admit(self, message: Json, **seen: Any) -> Fault | None:
        """Record a message and return the fault that strikes it; `seen` (headers, say) goes into the record."""
        if "method" not in message:
            self.record.add("answered", **{key: message[key] for key in ("id", "result", "error") if key in message})
            return None
        identity: Json = {"id": message["id"]} if "id" in message else {}
        params = message.get("params") or {}
        self.record.add("received", method=message["method"], params=params, **identity, **seen)
        return self._take_fault(message["method"], params)

    async def serve(self, message: Json, peer: Peer, fault: Fault | None) -> Json | None:
        """Do what an admitted message wants and return the response to it, or None where none is due.

        Raises:
            Misbehaviour: the transport shall do what the fault says instead.
        """
        if "method" not in message:
            peer.take_response(message)
            return None
        if "id" in message:
            return await self._take_request(message, peer, fault)
        if fault is not None:
            raise Misbehaviour(fault)
        await self._take_notification(message, peer)
        return None

    async def _take_notification(self, message: Json, peer: Peer) -> None:
        method, params = message["method"], message.get("params") or {}
        if method == "notifications/cancelled":
            identity: RequestId = params["requestId"]
            work = peer.running.get(identity)
            if work is not None:
                peer.given_up.add(identity)
                work.cancel()
        elif method == "notifications/initialized":
            peer.initialized = True
            if self.script.asks_roots:
                self.own(peer.ask("roots/list", {}), "MCP asks for roots")
            if self.script.pings:
                self.own(peer.ask("ping", {}), "MCP pings")

    async def _take_request(self, message: Json, peer: Peer, fault: Fault | None) -> Json | None:
        """Do a request's work in a task, which a cancellation of the client's ends."""
        identity: RequestId = message["id"]
        modern = self.is_modern(message)
        work = self.own(self._respond(message, peer, identity, fault), f"MCP {message['method']} {identity}")
        peer.running[identity] = work
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            # The transport gave the request up because its client hung up. Only 2026-07-28 takes that for a
            # cancellation; before, the work goes on and its result is lost.
            if modern:
                work.cancel()
                self.record.add("cancelled", id=identity, method=message["method"], by="disconnect")
            raise
        finally:
            peer.running.pop(identity, None)
        if work.cancelled():  # by the client, or because the server ends
            if identity in peer.given_up:
                peer.given_up.discard(identity)
                self.record.add("cancelled", id=identity, method=message["method"], by="message")
            return None
        return work.result()

    async def _respond(self, message: Json, peer: Peer, identity: RequestId, fault: Fault | None) -> Json:
        if fault is not None and fault.kind is Kind.HANG:
            await asyncio.Event().wait()
        response: Json = {"jsonrpc": "2.0", "id": identity}
        if fault is not None and fault.kind is Kind.ERROR:
            return response | {"error": {"code": fault.code or INTERNAL_ERROR, "message": fault.text}}
        if fault is not None and fault.kind is Kind.NOT_A_RESULT:
            return response | {"result": {"surprise": True}}
        if fault is not None and fault.kind not in {Kind.DIE_AFTER, Kind.HUGE}:
            raise Misbehaviour(fault)
        try:
            result = await self._result(message, peer, identity)
        except Refused as refusal:
            return response | {"error": refusal.error}
        except Exception as error:  # boundary: a tool's function that fails is its client's to hear of
            return response | {"error": {"code": INTERNAL_ERROR, "message": f"{type(error).__name__}: {error}"}}
        if fault is not None and fault.kind is Kind.DIE_AFTER:
            raise Misbehaviour(fault)
        if fault is not None:
            result = result | {"content": [{"type": "text", "text": "x" * fault.size_bytes}]}
        return response | {"result": result}

    async def _result(self, message: Json, peer: Peer, identity: RequestId) -> Json:
        method, params = message["method"], message.get("params") or {}
        if method == "initialize":
            return self._initialize(params, peer)
        if not self.is_modern(message):
            return await self._handler(self._handshake_handlers(), method)(params, peer, identity)
        meta = params["_meta"]
        if MODERN not in self.script.versions or not peer.speaks_modern:
            # A server of the first generation knows neither the envelope nor what it is asked for.
            raise Refused(METHOD_NOT_FOUND, f"Method not found: {method}")
        if meta[META_VERSION] != MODERN:
            data = {"supported": self.script.versions, "requested": meta[META_VERSION]}
            raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        peer.client_capabilities, peer.log_level = meta[META_CAPABILITIES], meta.get(META_LOG_LEVEL)
        kind = {} if self.script.plain_results else {"resultType": "complete"}
        result: Json = kind | await self._handler(self._modern_handlers(), method)(params, peer, identity)
        if method in {"server/discover", "resources/read"} or method.endswith("/list"):
            result |= {"ttlMs": 0, "cacheScope": "private"}
        return result | {"_meta": {META_SERVER: self._info(), **result.get("_meta", {})}}

    def _handler(self, handlers: dict[str, Handler], method: str) -> Handler:
        offered = method.partition("/")[0]
        if method not in handlers or (offered in CHANGES and offered not in self.script.offers):
            raise Refused(METHOD_NOT_FOUND, f"Method not found: {method}")
        return handlers[method]

    def _both_handlers(self) -> dict[str, Handler]:
        return {
            "tools/list": self._list_tools,
            "tools/call": self._call,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "prompts/list": self._list_prompts,
            "prompts/get": self._prompt,
        }

    def _handshake_handlers(self) -> dict[str, Handler]:
        return self._both_handlers() | {
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    def _modern_handlers(self) -> dict[str, Handler]:
        return self._both_handlers() | {"server/discover": self._discover, "subscriptions/listen": self._listen}

    # -- connecting

    def _initialize(self, params: Json, peer: Peer) -> Json:
        known = [version for version in self.script.versions if version in HANDSHAKES]
        if not known:
            data = {"supported": self.script.versions, "requested": params.get("protocolVersion")}
            raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        wanted = params.get("protocolVersion")
        peer.client_capabilities = params.get("capabilities") or {}
        return {
            "protocolVersion": wanted if wanted in known else known[-1],
            "capabilities": self._capabilities(),
            "serverInfo": self._info(),
            **self._instructions(),
        }

    async def _discover(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        return {
            "supportedVersions": self.script.versions,
            "capabilities": self._capabilities(),
            **self._instructions(),
        }

    def _instructions(self) -> Json:
        return {} if self.script.instructions is None else {"instructions": self.script.instructions}

    def _info(self) -> Json:
        return {"name": self.script.name, "version": "1.0"}

    def _capabilities(self) -> Json:
        changes: Json = {"listChanged": True} if self.script.list_changed else {}
        capabilities: Json = {kind: dict(changes) for kind in CHANGES if kind in self.script.offers}
        if "resources" in capabilities:
            capabilities["resources"]["subscribe"] = True
        if "logging" in self.script.offers:
            capabilities["logging"] = {}
        return capabilities

    # -- lists

    async def _list_tools(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        return page(self.script, "tools/list", "tools", [describe_tool(tool) for tool in self.script.tools], params)

    async def _list_resources(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        entries = [describe_resource(entry) for entry in self.script.resources if not entry.template]
        return page(self.script, "resources/list", "resources", entries, params)

    async def _list_templates(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        entries = [describe_resource(entry) for entry in self.script.resources if entry.template]
        return page(self.script, "resources/templates/list", "resourceTemplates", entries, params)

    async def _list_prompts(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        return page(
            self.script, "prompts/list", "prompts", [describe_prompt(entry) for entry in self.script.prompts], params
        )

    # -- use

    async def _call(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        try:
            tool = self.script.tool(params["name"])
        except KeyError:
            raise Refused(INVALID_PARAMS, f"Unknown tool: {params.get('name')}") from None
        modern = META_VERSION in (params.get("_meta") or {})
        return await self.desk.call(tool, params, peer, identity, modern=modern)

    async def _read(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        uri = params.get("uri") or ""
        for entry in self.script.resources:
            if uri == entry.uri or (entry.template and uri.startswith(entry.uri.partition("{")[0])):
                body: Json = {"text": entry.text or ""} if entry.blob is None else {"blob": entry.blob}
                mime = {} if entry.mime_type is None else {"mimeType": entry.mime_type}
                return {"contents": [{"uri": uri, **mime, **body}]}
        code = INVALID_PARAMS if META_VERSION in (params.get("_meta") or {}) else RESOURCE_NOT_FOUND
        raise Refused(code, "Resource not found", {"uri": uri})

    async def _prompt(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        given: dict[str, str] = params.get("arguments") or {}
        for prompt in self.script.prompts:
            if prompt.name == params.get("name"):
                for argument in prompt.arguments:
                    if argument.get("required") and argument["name"] not in given:
                        raise Refused(INVALID_PARAMS, f"Missing required argument: {argument['name']}")
                written = prompt.text
                for name, value in given.items():
                    written = written.replace(f"{{{name}}}", value)
                return {"messages": [{"role": "user", "content": {"type": "text", "text": written}}]}
        raise Refused(INVALID_PARAMS, f"Unknown prompt: {params.get('name')}")

    async def _ping(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        return {}

    async def _set_level(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        peer.log_level = params.get("level")
        return {}

    async def _subscribe(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        peer.subscribed.add(params["uri"])
        return {}

    async def _unsubscribe(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        peer.subscribed.discard(params["uri"])
        return {}

    # -- changes

    async def _listen(self, params: Json, peer: Peer, identity: RequestId) -> Json:
        """Hold a subscription of 2026-07-28 open; it ends with its connection, or when the client gives it up."""
        wanted = {key: value for key, value in (params.get("notifications") or {}).items() if value}
        meta = {META_SUBSCRIPTION: identity}
        self._listening[peer, identity] = wanted
        try:
            acknowledged = {"notifications": wanted, "_meta": meta}
            await peer.notify("notifications/subscriptions/acknowledged", acknowledged, about=identity)
            await asyncio.Event().wait()
        finally:
            del self._listening[peer, identity]
        return {"_meta": meta}

    async def changed(self, kind: str) -> None:
        """Tell every client that a list changed: "tools", "resources" or "prompts"."""
        method = f"notifications/{kind}/list_changed"
        for (peer, identity), wanted in list(self._listening.items()):
            if wanted.get(CHANGES[kind]):
                await peer.notify(method, {"_meta": {META_SUBSCRIPTION: identity}}, about=identity)
        for peer in list(self.peers):
            if peer.initialized:
                await peer.notify(method)

    async def updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that it changed."""
        method = "notifications/resources/updated"
        for (peer, identity), wanted in list(self._listening.items()):
            if uri in wanted.get("resourceSubscriptions", []):
                await peer.notify(method, {"uri": uri, "_meta": {META_SUBSCRIPTION: identity}}, about=identity)
        for peer in list(self.peers):
            if uri in peer.subscribed:
                await peer.notify(method, {"uri": uri})

    @property
    def listening(self) -> int:
        """How many subscriptions of 2026-07-28 are open."""
        return len(self._listening)

    # -- faults and tasks

    def _take_fault(self, method: str, params: Json) -> Fault | None:
        for fault in self.script.faults:
            methods = {"initialize", "server/discover"} if fault.method == CONNECT else {fault.method}
            if fault.method != "*" and method not in methods:
                continue
            if fault.name is not None and fault.name not in {params.get("name"), params.get("uri")}:
                continue
            seen = fault.seen
            fault.seen += 1
            self.record.add("matched", fault=fault.key)
            if seen >= fault.skip and (fault.times is None or seen < fault.skip + fault.times):
                return fault
        return None

    def own(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        """Run work as a task that ends with the server."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End all work and forget every client, as a dying process does."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.peers.clear()
