"""A Telegram Bot API server on the loopback interface that plays the real platform.

    async with BotApi(token="123:ABC") as api:      # clients call {api.url}/bot{token}/{method}
        api.user_says(5, "hello")                   # see `People` for what people can do
        await api.wait_for(lambda: api.texts(5))
        api.faults.add(too_many_requests("sendMessage", 2))

It takes GET and POST, query, form, multipart and JSON (https://core.telegram.org/bots/api#making-requests,
read 2026-11-29) and refuses what the platform refuses.
By hand: `python -m tests.platforms.bot_api --port 8081`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web

from tests.platforms.bot_api_faults import Fault, Faults
from tests.platforms.bot_api_methods import METHODS, Request, unknown_method
from tests.platforms.bot_api_objects import Call, Json, RefusalError, bad_request
from tests.platforms.bot_api_people import People
from tests.platforms.bot_api_updates import UpdateQueue
from tests.platforms.bot_api_webhook import Webhook
from tests.platforms.bot_api_world import World
from tests.platforms.loopback import LoopbackServer, cut, encode_json, serve_until_interrupted

_SENDS = frozenset(name for name in METHODS if name.startswith("send") and name != "sendchataction")
_JSON_FIELDS = frozenset(
    {
        "entities",
        "caption_entities",
        "reply_parameters",
        "reply_markup",
        "link_preview_options",
        "allowed_updates",
        "media",
        "commands",
        "scope",
        "reaction",
    }
)
_JSON_HEADERS = {"Content-Type": "application/json"}


class BotApi(LoopbackServer, People):
    """One bot's view of Telegram. Everything a test sees is kept until the end of the block."""

    def __init__(
        self,
        token: str = "123:ABC",
        *,
        username: str = "dutiful_test_bot",
        port: int = 0,
        first_update_id: int = 1000,
    ) -> None:
        LoopbackServer.__init__(self, port=port)
        world = World(int(token.partition(":")[0]), username)
        People.__init__(self, world, UpdateQueue(self.bell, first_update_id))
        self.token = token
        self.faults = Faults()
        self.webhook = Webhook(self.updates, self.faults, self.bell)
        self.sent: list[Call] = []  # one record per message the bot put into a chat, in order
        self.all_calls: list[Call] = []  # every call in order of its end, refused ones included

    @property
    def url(self) -> str:
        """The base that a client's `api_url` takes."""
        return self.origin

    @property
    def messages(self) -> Mapping[int, Mapping[int, str]]:
        """What can be read now: chat id -> message id -> text or caption, people's messages included."""
        return self.world.texts

    @property
    def confirmed_offset(self) -> int:
        """Every update below this id was confirmed by the bot."""
        return self.updates.confirmed_offset

    @property
    def poll_count(self) -> int:
        """How many getUpdates calls began so far; an open one counts already."""
        return self.updates.poll_count

    @property
    def username(self) -> str:
        """The bot's username, without @."""
        return str(self.world.bot["username"])

    def texts(self, chat_id: int) -> list[str]:
        """Return what the bot's messages in a chat say now, in order."""
        chat = self.world.chats.get(chat_id)
        if chat is None:
            return []
        return [self.world.texts[chat_id][key] for key, m in chat.messages.items() if self.world.is_own(m)]

    def calls(self, method: str) -> list[Call]:
        """Return the calls of one method, in order, refused ones included."""
        return [call for call in self.all_calls if call.method.lower() == method.lower()]

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        last = [(call.method, call.chat_id, call.text[:80], call.error) for call in self.all_calls[-8:]]
        return f"{len(self.sent)} messages, confirmed {self.confirmed_offset}, last calls {last}"

    async def come_up(self) -> None:
        """See `LoopbackServer.come_up`; updates are posted to a webhook as long as the server is up."""
        await super().come_up()
        self.webhook.start()

    async def go_down(self) -> None:
        """See `LoopbackServer.go_down`."""
        await self.webhook.stop()
        await super().go_down()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        path = unquote(request.path)
        if path.startswith(f"/file/bot{self.token}/"):
            return await self._download(request, path.removeprefix(f"/file/bot{self.token}/"))
        if not path.startswith("/bot"):
            return _answer(RefusalError(404, "Not Found"))
        token, _, method = path[4:].partition("/")
        if token != self.token:
            return _answer(RefusalError(401, "Unauthorized"))
        try:
            call = await _read(request)
        except RefusalError as refusal:
            return _answer(refusal)
        fault = self.faults.strike(method, call.integer("chat_id"))
        if fault is not None:
            early = await self._before(request, method, call, fault)
            if early is not None:
                return early
        response = await self._perform(request, method, call, fault)
        self.bell.ring()
        return cut(request) if fault is not None and fault.drop_after else response

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
        elif (refusal := fault.refusal()) is not None:
            error, response = refusal.description, _answer(refusal)
        if response is not None:
            self._record(method, call, error=error)
        return response

    async def _perform(self, request: web.BaseRequest, method: str, call: Request, fault: Fault | None) -> web.Response:
        name = method.lower()
        try:
            if name == "getupdates":
                gone = lambda: request.transport is None or request.transport.is_closing()  # noqa: E731
                ignore = fault is not None and fault.ignore_offset
                body = await self.updates.poll(call.params, ignore_offset=ignore, gone=gone)
                self._record(method, call)
                return web.Response(body=body, headers=_JSON_HEADERS)
            if name in {"setwebhook", "deletewebhook", "getwebhookinfo"}:
                result: Any = self.webhook.call(name, call.params)
            else:
                result = METHODS.get(name, unknown_method)(self.world, call)
        except RefusalError as refusal:
            self._record(method, call, error=refusal.description)
            return _answer(refusal)
        self._record(method, call)
        return web.Response(body=encode_json({"ok": True, "result": result}), headers=_JSON_HEADERS)

    def _record(self, method: str, call: Request, *, error: str = "") -> None:
        params = call.params
        made: list[int | None] = [message["message_id"] for message in call.made] or [None]
        records = [
            Call(
                method=method,
                params=params,
                chat_id=call.integer("chat_id"),
                thread_id=call.integer("message_thread_id"),
                text=str(params.get("text", params.get("caption", ""))),
                entities=tuple(params.get("entities") or params.get("caption_entities") or ()),
                reply_to=call.reply_to(),
                message_id=message_id,
                at_monotonic=time.monotonic(),
                ok=not error,
                error=error,
            )
            for message_id in made
        ]
        self.all_calls.append(records[0])
        if not error and method.lower() in _SENDS:
            self.sent.extend(records)

    async def _download(self, request: web.BaseRequest, path: str) -> web.Response:
        call = Request({"file_path": path})
        fault = self.faults.strike("file", None)
        if fault is not None and (early := await self._before(request, "file", call, fault)) is not None:
            return early
        self._record("file", call)
        self.bell.ring()
        for stored, content, _ in self.world.files.values():
            if stored == path:
                return web.Response(body=content, content_type="application/octet-stream")
        return _answer(RefusalError(404, "Not Found"))


async def _read(request: web.BaseRequest) -> Request:
    """Return the parameters of a request, from wherever a client may put them."""
    params: Json = dict(request.query)
    files: dict[str, tuple[str, str, bytes]] = {}
    kind = request.content_type
    try:
        if kind == "application/x-www-form-urlencoded":
            pairs = parse_qsl((await request.read()).decode(), keep_blank_values=True, errors="strict")
            params.update(pairs)
        elif kind == "multipart/form-data":
            for name, value in (await request.post()).items():
                if isinstance(value, web.FileField):
                    files[name] = (value.filename, value.content_type, value.file.read())
                    value.file.close()
                else:
                    params[name] = value
        elif kind == "application/json" and request.can_read_body:
            params.update(orjson.loads(await request.read()))
        for name in _JSON_FIELDS.intersection(params):
            if isinstance(params[name], str):
                params[name] = orjson.loads(params[name]) if params[name] else None
    except web.HTTPRequestEntityTooLarge:
        raise RefusalError(413, "Request Entity Too Large") from None
    except UnicodeDecodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    except (orjson.JSONDecodeError, TypeError, ValueError):
        raise bad_request("can't parse JSON in the request") from None
    return Request(params, files)


def _answer(refusal: RefusalError) -> web.Response:
    headers = dict(_JSON_HEADERS)
    if refusal.parameters and "retry_after" in refusal.parameters:
        headers["Retry-After"] = str(refusal.parameters["retry_after"])
    return web.Response(body=encode_json(refusal.body()), status=refusal.status, headers=headers)


def main() -> None:
    """Run the server by hand."""
    parser = argparse.ArgumentParser(description="A Telegram Bot API server on 127.0.0.1 for trials.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="123:ABC")
    options = parser.parse_args()
    api = BotApi(token=options.token, port=options.port)
    asyncio.run(serve_until_interrupted(api, lambda: f"{api.url}/bot{api.token}"))


if __name__ == "__main__":
    main()
