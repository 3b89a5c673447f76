"""A Discord server on the loopback interface that plays the real platform: REST v10, gateway v10 and the CDN.

    async with DiscordApi() as api:         # discord.py: Route.BASE = api.url, DEFAULT_GATEWAY = api.gateway_url
        dm = api.add_dm(111).id
        api.user_says(dm, "hello")          # see `People` for what people can do
        await api.wait_for(lambda: api.texts(dm))
        api.faults.add(rate_limited(Route.CREATE_MESSAGE, 0.5))
        api.gateway.drop()                  # see `Gateway` for what can happen to the connection

It refuses what the platform refuses (https://docs.discord.com/developers/reference, read 2026-11-30).
By hand: `python -m tests.platforms.discord_api --port 8082`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from tests.platforms.discord_faults import Fault, Faults
from tests.platforms.discord_gateway import Gateway
from tests.platforms.discord_interactions import LOADING_FLAG, Interactions
from tests.platforms.discord_limits import Limits, Taken
from tests.platforms.discord_objects import Call, Intent, Json, RefusalError, Route, User
from tests.platforms.discord_people import People
from tests.platforms.discord_reading import Request
from tests.platforms.discord_rest import Rest
from tests.platforms.discord_routes import WITHOUT_TOKEN, route_of
from tests.platforms.discord_world import Event, World
from tests.platforms.loopback import LoopbackServer, cut, encode_json, serve_until_interrupted

BASE = "/api/v10"
BOT_ID = 1_000_000_000_000_000_001

_INVALID_JSON = RefusalError(400, 50109, "The request body contains invalid JSON.")
_UNAUTHORIZED = RefusalError(401, 0, "401: Unauthorized")


class DiscordApi(LoopbackServer, People):
    """One bot's view of Discord. Everything a test sees is kept until the end of the block."""

    def __init__(
        self,
        token: str = "discord-token.loopback.0123456789",
        *,
        username: str = "dutiful_test_bot",
        bot_id: int = BOT_ID,
        port: int = 0,
    ) -> None:
        LoopbackServer.__init__(self, port=port)
        bot = User(id=bot_id, name=username, is_bot=True)
        world = World(publish=self._publish, origin=lambda: self.origin, bot=bot)
        self.gateway = Gateway(world, token, self.bell)
        interactions = Interactions(world)
        rest = Rest(world=world, interactions=interactions, flags=self.gateway.application_flags)
        People.__init__(self, world, interactions, rest)
        self.token = token
        self.faults = Faults()
        self.limits = Limits()
        self.content_type = "application/json"  # of every answer; exactly this, without a charset, as there
        self.sent: list[Call] = []  # one record per message the bot put into a channel, in order
        self.all_calls: list[Call] = []  # every call in order of its end, refused ones included

    # --- what tests read

    @property
    def url(self) -> str:
        """The base that a client's `api_url` takes."""
        return self.origin + BASE

    @property
    def gateway_url(self) -> str:
        """Where the gateway is."""
        return self.origin.replace("http", "ws", 1) + "/"

    @property
    def bot_id(self) -> int:
        """The bot's user id, which is its application's too."""
        return self.world.bot.id

    @property
    def username(self) -> str:
        """The bot's username."""
        return self.world.bot.name

    def texts(self, channel_id: int) -> list[str]:
        """Return what the bot's messages in a channel say now, in order."""
        return [str(message["content"]) for message in self.own_messages(channel_id)]

    def own_messages(self, channel_id: int) -> list[Json]:
        """Return the bot's messages in a channel as they are now, in order; none in a channel that is unknown."""
        channel = self.world.channels.get(channel_id)
        return [] if channel is None else [m for m in channel.messages.values() if _is_text(m) and self.world.is_own(m)]

    def calls(self, route: Route) -> list[Call]:
        """Return the calls of one route, in order, refused ones included."""
        return [call for call in self.all_calls if call.route is route]

    @property
    def typing(self) -> list[int]:
        """The channels in which the bot was seen typing, in order."""
        return self.rest.typing

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        last = [(str(c.route), c.channel_id, c.text[:80], c.error) for c in self.all_calls[-8:]]
        told = f"{self.gateway.ready_count} times ready, connected {self.gateway.connected}, closed with"
        return f"{len(self.sent)} messages, {told} {self.gateway.closed[-5:]}, last calls {last}"

    def redeliver(self) -> None:
        """Tell the bot of the newest message once more."""
        self.gateway.redeliver()

    def disallow(self, intents: Intent) -> None:
        """Switch privileged intents off for the application: asking for them closes with 4014."""
        self.gateway.allowed_privileged &= ~intents
        self.world.may_read_content = Intent.MESSAGE_CONTENT in self.gateway.allowed_privileged

    def _publish(self, event: Event) -> None:
        guild = self.world.guilds.get(int(event.data.get("guild_id") or 0))
        if guild is not None and guild.out:
            return
        channel_id = event.data.get("channel_id")
        channel = self.world.channels.get(int(channel_id)) if channel_id is not None else None
        if channel is None or not self.world.is_hidden(channel):
            self.gateway.publish(event)
        self.bell.ring()

    # --- requests

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._open_gateway(request)
        if request.path.startswith("/attachments/"):
            return await self._download(request)
        path = request.raw_path.partition("?")[0]
        if not path.startswith(BASE + "/"):
            return self._answer(404, {"message": "404: Not Found", "code": 0})
        route, parts = route_of(request.method, path.removeprefix(BASE))
        if route not in WITHOUT_TOKEN and request.headers.get("Authorization") != f"Bot {self.token}":
            self._record(request, Request(route=route, parts=parts), refusal=_UNAUTHORIZED)
            return self._answer(401, _UNAUTHORIZED.body())
        try:
            call = await _read(request, route, parts)
        except RefusalError as refusal:
            return self._answer(refusal.status, refusal.body())
        taken = self.limits.take(route, self._channel_id(call))
        fault = _over_limit(taken) or self.faults.strike(route, self._channel_id(call))
        if fault is not None:
            early = await self._before(request, call, fault)
            if early is not None:
                early.headers.update(taken.headers if taken else {})
                return early
        response = self._perform(request, call)
        response.headers.update(taken.headers if taken else {})
        self.bell.ring()
        return cut(request) if fault is not None and fault.drop_after else response

    async def _before(self, request: web.BaseRequest, call: Request, fault: Fault) -> web.Response | None:
        """Let a fault strike before anything is done; None when the call goes on."""
        self.bell.ring()
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.hold is not None:
            await fault.hold.wait()
        response: web.Response | None = None
        refusal: RefusalError | None = None
        if fault.drop_before:
            refusal, response = RefusalError(0, 0, "dropped"), cut(request)
        elif fault.garbage is not None:
            kind = "text/html" if fault.garbage.startswith(b"<") else "application/json"
            refusal = RefusalError(fault.status or 200, 0, "garbage")
            response = web.Response(body=fault.garbage, status=fault.status or 200, content_type=kind)
        elif (failure := fault.refusal()) is not None:
            status, body, headers = failure
            refusal = RefusalError(status, int(body.get("code", 0)), body["message"])
            response = self._answer(status, body, headers)
        if response is not None:
            self._record(request, call, refusal=refusal)
            self.bell.ring()
        return response

    def _perform(self, request: web.BaseRequest, call: Request) -> web.Response:
        try:
            result = self._result(call)
        except RefusalError as refusal:
            self._record(request, call, refusal=refusal)
            return self._answer(refusal.status, refusal.body())
        self._record(request, call)
        return web.Response(status=204) if result is None else self._answer(200, result)

    def _result(self, call: Request) -> Any:
        if call.route is Route.UNKNOWN:
            raise RefusalError(404, 0, "404: Not Found")
        if call.route is Route.GET_GATEWAY:
            return self._gateway_info()
        return getattr(self.rest, call.route)(call)

    def _gateway_info(self) -> Json:
        limit = {"total": 1000, "remaining": 999, "reset_after": 14_400_000, "max_concurrency": 1}
        return {"url": self.gateway_url.rstrip("/"), "shards": 1, "session_start_limit": limit}

    def _channel_id(self, call: Request) -> int | None:
        if "channel" in call.parts:
            return int(call.parts["channel"]) if call.parts["channel"].isdigit() else None
        token = call.parts.get("token")
        interaction = next((one for one in self.interactions.by_id.values() if one.token == token), None)
        return None if interaction is None else interaction.channel.id

    def _record(self, request: web.BaseRequest, call: Request, *, refusal: RefusalError | None = None) -> None:
        params = call.params.get("data") or call.params if call.route is Route.CALLBACK else call.params
        reference = params.get("message_reference") or {}
        message = call.message
        record = Call(
            route=call.route,
            method=request.method,
            path=request.path,
            params={**call.query, **call.params},
            channel_id=self._channel_id(call),
            text=str(params.get("content") or ""),
            nonce=str(params.get("nonce") or ""),
            reply_to=int(reference["message_id"]) if reference.get("message_id") else None,
            files=tuple(name for name, _, _ in call.files.values()),
            message_id=None if message is None else int(message["id"]),
            at_monotonic=time.monotonic(),
            ok=refusal is None,
            status=200 if refusal is None else refusal.status,
            code=0 if refusal is None else refusal.code,
            error="" if refusal is None else refusal.message,
        )
        self.all_calls.append(record)
        new = record.message_id is not None and all(call.message_id != record.message_id for call in self.sent)
        if new and record.ok and call.route in {Route.CREATE_MESSAGE, Route.CALLBACK, Route.FOLLOW_UP}:
            self.sent.append(record)

    def _answer(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
        shown = {"Content-Type": self.content_type, **(headers or {})}
        return web.Response(status=status, body=encode_json(body), headers=shown)

    async def _open_gateway(self, request: web.BaseRequest) -> web.StreamResponse:
        call = Request(route=Route.GATEWAY, parts={}, query=dict(request.query))
        fault = self.faults.strike(Route.GATEWAY, None)
        if fault is not None and (early := await self._before(request, call, fault)) is not None:
            return early
        return await self.gateway.serve(request)

    async def _download(self, request: web.BaseRequest) -> web.Response:
        channel_id = request.path.split("/")[2]
        call = Request(route=Route.CDN, parts={"channel": channel_id}, query=dict(request.query))
        fault = self.faults.strike(Route.CDN, self._channel_id(call))
        if fault is not None and (early := await self._before(request, call, fault)) is not None:
            return early
        stored = self.world.files.get(request.path)
        expires = request.query.get("ex", "0")
        if stored is None or int(expires, 16) < self.world.clock.now_s():
            refusal = RefusalError(404, 0, "This content is no longer available.")
            self._record(request, call, refusal=refusal)
            return web.Response(status=404, text=refusal.message)
        self._record(request, call)
        self.bell.ring()
        kind = stored.content_type or "application/octet-stream"
        response = web.Response(body=stored.content, headers={"Content-Type": kind})
        return cut(request) if fault is not None and fault.drop_after else response


def _over_limit(taken: Taken | None) -> Fault | None:
    return Fault(retry_after_s=taken.wait_s) if taken is not None and taken.wait_s else None


def _is_text(message: Json) -> bool:
    """Say whether a message says something: no notice of the platform, and no "is thinking"."""
    return message["type"] in {0, 19, 20} and not message["flags"] & LOADING_FLAG


async def _read(request: web.BaseRequest, route: Route, parts: Mapping[str, str]) -> Request:
    """Read JSON, or multipart with `payload_json` and `files[n]`.

    Raises:
        RefusalError: 50109, the body is not JSON.
    """
    files: dict[int, tuple[str, bytes, str]] = {}
    body: bytes = b""
    if request.content_type == "multipart/form-data":
        form = await request.post()
        payload = form.get("payload_json") or "{}"  # bytes if the part says it is JSON, text if it says nothing
        body = bytes(payload) if isinstance(payload, bytes | bytearray) else str(payload).encode()
        for name, value in form.items():
            if isinstance(value, web.FileField) and name.startswith("files["):
                number = int(name.removeprefix("files[").removesuffix("]"))
                files[number] = (value.filename, value.file.read(), value.content_type)
    elif request.can_read_body:
        body = await request.read()
        if body and request.content_type != "application/json":
            raise RefusalError(400, 50035, "Invalid Form Body")
    try:
        params = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        raise _INVALID_JSON from None
    if isinstance(params, list):
        params = {"_list": params}
    return Request(route=route, parts=parts, params=params or {}, query=dict(request.query), files=files)


def main() -> None:
    """Run the server by hand; Ada's DM and a guild with one channel are there."""
    parser = argparse.ArgumentParser(description="A Discord server on the loopback interface.")
    parser.add_argument("--port", type=int, default=8082)
    parser.add_argument("--token", default="discord-token.loopback.0123456789")
    arguments = parser.parse_args()
    api = DiscordApi(arguments.token, port=arguments.port)
    api.add_dm()
    api.add_channel(10, 1)
    asyncio.run(serve_until_interrupted(api, lambda: f"{api.url} with token {api.token}, gateway {api.gateway_url}"))


if __name__ == "__main__":
    main()
