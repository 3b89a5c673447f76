"""A Slack on the loopback interface that plays the real platform: Web API and Socket Mode of one app.

    async with SlackApi() as slack:                  # AsyncWebClient(token=slack.token, base_url=slack.url)
        slack.add_channel("C0TEAM00001", "team")
        ts = slack.user_says("C0TEAM00001", slack.mention("hello"))   # see `People` for what people can do
        await slack.wait_for(lambda: slack.texts("C0TEAM00001"))
        slack.faults.add(too_many_requests("chat.postMessage", 2))
        slack.socket.disconnect("warning")           # see `SocketMode` for what a connection can suffer

It takes GET and POST, query, form, multipart and JSON (https://docs.slack.dev/apis/web-api, read 2026-11-30) and
refuses what the platform refuses. By hand: `python -m tests.platforms.slack_api --port 8082`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from tests.platforms.loopback import LoopbackServer, cut, encode_json, serve_until_interrupted
from tests.platforms.slack_chat import answer_response_url
from tests.platforms.slack_faults import Fault, Faults
from tests.platforms.slack_methods import ALL_SCOPES, METHODS, check_scopes
from tests.platforms.slack_objects import Call, Ephemeral, Json, RefusalError, parse_json, readable
from tests.platforms.slack_people import People
from tests.platforms.slack_request import Request
from tests.platforms.slack_socket import SocketMode
from tests.platforms.slack_world import World

_SENDS = frozenset({"chat.postMessage", "files.completeUploadExternal"})
_LOGIN_PAGE = b"<!DOCTYPE html><html><head><title>Slack</title></head><body>Sign in to Loopback</body></html>"
_JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}


class SlackApi(LoopbackServer, People):
    """One app's view of Slack. Everything a test sees is kept until the end of the block."""

    def __init__(
        self,
        token: str = "xoxb-1-loopback",
        app_token: str = "xapp-1-loopback",
        *,
        bot_name: str = "dutiful",
        port: int = 0,
    ) -> None:
        LoopbackServer.__init__(self, port=port)
        self.token = token
        self.app_token = app_token
        self.token_error = ""  # what every call with the bot token is refused with: token_revoked, account_inactive
        self.app_token_error = ""  # the same for apps.connections.open
        self.scopes: set[str] = set(ALL_SCOPES)
        self.faults = Faults()
        self.sent: list[Call] = []  # one record per message the bot put into a conversation, in order
        self.all_calls: list[Call] = []  # every call in order of its end, refused ones included
        People.__init__(self, World(bot_name, self.tell), SocketMode(self.bell))
        self.add_user()

    @property
    def url(self) -> str:
        """The base that a client's `api_url` takes."""
        return f"{self.origin}/api/"

    @property
    def ephemerals(self) -> list[Ephemeral]:
        """What only one person saw, in order."""
        return self.world.ephemerals

    def messages(self, channel_id: str, thread_ts: str | None = None) -> list[Json]:
        """Return the bot's messages as they are now: all of a channel, of its top level (""), or of one thread."""
        conversation = self.world.conversations.get(channel_id)
        found = [] if conversation is None else conversation.messages.values()
        return [
            message
            for message in found
            if self.world.is_own(message)
            and message.get("subtype") not in {"assistant_app_thread", "tombstone"}
            and thread_ts in {None, message.get("thread_ts", "")}
        ]

    def texts(self, channel_id: str, thread_ts: str | None = None) -> list[str]:
        """Return what people read in the bot's messages (see `messages`), buttons left out."""
        return [readable(message) for message in self.messages(channel_id, thread_ts)]

    def calls(self, method: str) -> list[Call]:
        """Return the calls of one method, in order, refused ones included."""
        return [call for call in self.all_calls if call.method == method]

    def status(self, channel_id: str, thread_ts: str) -> str:
        """Return the assistant's status that people see in a thread now."""
        mine = [status for channel, ts, status in self.world.statuses if (channel, ts) == (channel_id, thread_ts)]
        return mine[-1] if mine else ""

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        last = [(call.method, call.channel, call.text[:80], call.error) for call in self.all_calls[-8:]]
        waiting = len(self.socket.unacknowledged(own=True))
        return (
            f"{len(self.sent)} messages, {len(self.socket.connections)} connections, "
            f"{waiting} of {len(self.socket.envelopes)} envelopes wait, last calls {last}"
        )

    async def come_up(self) -> None:
        """See `LoopbackServer.come_up`."""
        await super().come_up()
        self.world.origin = self.origin

    async def go_down(self) -> None:
        """See `LoopbackServer.go_down`."""
        self.socket.drop()
        await super().go_down()
        self.socket.stop()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        path = unquote(request.path)
        if path == "/link/":
            return await self._link(request)
        area, _, rest = path[1:].partition("/")
        if area not in {"api", "upload", "files-pri", "response"} or not rest:
            return web.Response(status=404, text="Not Found")
        method = {"upload": "upload", "files-pri": "file", "response": "response_url"}.get(area, rest)
        try:
            call, body = await _read(request, raw=area == "upload")
        except RefusalError as refusal:
            return _answer(refusal.body())
        fault = self.faults.strike(method, _channel(call))
        if fault is not None:
            early = await self._before(request, method, call, fault)
            if early is not None:
                return early
        if area == "upload":
            response = self._upload(rest.rpartition("/")[2], call, body)
        elif area == "files-pri":
            response = self._download(request, rest, call)
        elif area == "response":
            response = self._respond(rest, call)
        else:
            response = self._perform(request, method, call)
        self.bell.ring()
        return cut(request) if fault is not None and fault.drop_after else response

    async def _link(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = self.faults.strike("socket")
        if fault is not None:
            early = await self._before(request, "socket", Request({}), fault)
            if early is not None:
                return early
        return await self.socket.serve(request)

    async def _before(self, request: web.BaseRequest, method: str, call: Request, fault: Fault) -> web.Response | None:
        """Let a fault strike before anything is done; None when the call goes on."""
        self.bell.ring()
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.hold is not None:
            await fault.hold.wait()
        response: web.Response | None = None
        error = ""
        if fault.drop_before:
            error, response = "dropped", cut(request)
        elif fault.garbage is not None:
            kind = "text/html" if fault.garbage.startswith(b"<") else "application/json"
            error = "garbage"
            response = web.Response(body=fault.garbage, status=fault.status or 200, content_type=kind)
        elif fault.status or fault.error:
            error = fault.error or str(fault.status)
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            response = _answer({"ok": False, "error": error}, status=fault.status or 200, headers=headers)
        if response is not None:
            self._record(method, call, error=error)
            self.bell.ring()
        return response

    def _perform(self, request: web.BaseRequest, name: str, call: Request) -> web.Response:
        try:
            result = self._result(request, name, call)
        except RefusalError as refusal:
            self._record(name, call, error=refusal.error)
            return _answer(refusal.body())
        self._record(name, call)
        if call.warnings:
            result["response_metadata"] = {**result.get("response_metadata", {}), "warnings": call.warnings}
        return _answer({"ok": True, **result}, headers={"X-OAuth-Scopes": ",".join(sorted(self.scopes))})

    def _result(self, request: web.BaseRequest, name: str, call: Request) -> Json:
        token = _token(request, call)
        wants_app_token = name == "apps.connections.open"
        method = METHODS.get(name)
        if method is None and not wants_app_token:
            raise RefusalError("unknown_method", req_method=name)
        if not token:
            raise RefusalError("not_authed")
        if token not in {self.token, self.app_token}:
            raise RefusalError("invalid_auth")
        error = self.app_token_error if token == self.app_token else self.token_error
        if error:
            raise RefusalError(error)
        if wants_app_token is not (token == self.app_token):
            raise RefusalError("not_allowed_token_type")
        if method is None:
            if request.method != "POST":
                raise RefusalError("insecure_request")
            return {"url": f"ws://{self.host}:{self.port}/link/?ticket={self.socket.new_ticket()}&app_id=loopback"}
        check_scopes(self.world, method, call, self.scopes)
        return method.act(self.world, call)

    def _record(self, method: str, call: Request, *, error: str = "") -> None:
        try:
            blocks = parse_json(call.params.get("blocks")) or ()
        except ValueError:
            blocks = ()
        records = [
            Call(
                method=method,
                params=call.params,
                channel=_channel(call),
                thread_ts=call.string("thread_ts") or None,
                text=call.string("text") or call.string("initial_comment") or call.string("markdown_text"),
                blocks=tuple(blocks) if isinstance(blocks, list) else (),
                ts=ts,
                at_monotonic=time.monotonic(),
                ok=not error,
                error=error,
            )
            for ts in (call.shared or [call.ts])
        ]
        self.all_calls.append(records[0])
        if not error and method in _SENDS:
            self.sent.extend(record for record in records if record.ts)

    def _upload(self, file_id: str, call: Request, body: bytes) -> web.Response:
        stored = self.world.files.get(file_id)
        if stored is None or stored.complete:
            self._record("upload", call, error="file_not_found")
            return web.Response(status=404, text="file_not_found")
        if len(body) != stored.size_bytes:
            self._record("upload", call, error="wrong length")
            return web.Response(status=400, text=f"expected {stored.size_bytes} bytes, not {len(body)}")
        stored.content = body
        self._record("upload", call)
        return web.Response(text=f"OK - {len(body)}")

    def _download(self, request: web.BaseRequest, path: str, call: Request) -> web.Response:
        file_id = path.partition("/")[0].rpartition("-")[2]
        stored = self.world.files.get(file_id)
        may = _token(request, call) == self.token and not self.token_error and "files:read" in self.scopes
        if not may:
            self._record("file", call, error="login page")
            return web.Response(body=_LOGIN_PAGE, content_type="text/html")  # with 200, as the platform does
        if stored is None or stored.content is None:
            self._record("file", call, error="file_not_found")
            return web.Response(status=404, text="Not Found")
        self._record("file", call)
        return web.Response(body=stored.content, content_type=stored.to_json("")["mimetype"])

    def _respond(self, key: str, call: Request) -> web.Response:
        try:
            answer_response_url(self.world, key, call.params)
        except RefusalError as refusal:
            self._record("response_url", call, error=refusal.error)
            return _answer(refusal.body(), status=404 if refusal.error == "used_url" else 400)
        self._record("response_url", call)
        return web.Response(text="ok")


async def _read(request: web.BaseRequest, *, raw: bool) -> tuple[Request, bytes]:
    """Return the arguments of a request, from wherever a client may put them, and the bytes of an upload."""
    params: Json = dict(request.query)
    kind = request.content_type
    body = b""
    try:
        if kind in {"application/x-www-form-urlencoded", "multipart/form-data"} and not (
            raw and kind == "application/x-www-form-urlencoded"
        ):
            for name, value in (await request.post()).items():
                if isinstance(value, web.FileField):
                    body = value.file.read()
                    value.file.close()
                else:
                    params[name] = value
        elif raw:
            body = await request.read()
        elif kind == "application/json" and request.can_read_body:
            given: Any = orjson.loads(await request.read())
            if not isinstance(given, dict):
                raise RefusalError("json_not_object")
            params.update(given)
    except orjson.JSONDecodeError:
        raise RefusalError("invalid_json") from None
    except UnicodeDecodeError:
        raise RefusalError("invalid_charset") from None
    return Request(params), body


def _token(request: web.BaseRequest, call: Request) -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if kind == "Bearer" else call.string("token")


def _channel(call: Request) -> str:
    return call.string("channel") or call.string("channel_id")


def _answer(body: Json, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=encode_json(body), status=status, headers={**_JSON_HEADERS, **(headers or {})})


def main() -> None:
    """Serve until interrupted, for trying a client by hand."""
    parser = argparse.ArgumentParser(description="A Slack on the loopback interface.")
    parser.add_argument("--port", type=int, default=8082)
    parser.add_argument("--token", default="xoxb-1-loopback")
    parser.add_argument("--app-token", default="xapp-1-loopback")
    options = parser.parse_args()
    slack = SlackApi(options.token, options.app_token, port=options.port)
    slack.add_channel("C0GENERAL01", "general")
    asyncio.run(serve_until_interrupted(slack, lambda: f"api_url = {slack.url}"))


if __name__ == "__main__":
    main()
