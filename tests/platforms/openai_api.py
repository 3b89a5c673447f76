"""An OpenAI-compatible model server on the loopback interface, scripted by the test, strict like a provider.

    async with OpenAIApi() as api:                  # clients take api.url as their base_url
        api.script.append(Reply(tool_calls=[("cron", {"action": "list"})]))
        api.when("good morning", [Reply(text="Good morning!")])
        ...
        assert api.violations == []                 # every request followed `openai_rules`

Serves POST {url}/chat/completions (streaming or not) and GET {url}/models. By hand:
`python -m tests.platforms.openai_api --port 8082`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from tests.platforms.loopback import LoopbackServer, cut, encode_json, serve_until_interrupted
from tests.platforms.openai_endpoint import Endpoint, error, error_for
from tests.platforms.openai_rules import check_request
from tests.platforms.openai_script import Json, Reply, Rule, Script, last_user_text
from tests.platforms.openai_wire import Answer
from tests.support.strict_provider import violations

_SSE_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class OpenAIApi(LoopbackServer):
    """One endpoint. `validate=False` and `record=False` keep the work per request small in benchmarks.

    `strict=True` also refuses what only some providers refuse (`strict_provider`).
    """

    stops_with_client = True

    def __init__(
        self,
        *,
        endpoint: Endpoint | None = None,
        validate: bool = True,
        strict: bool = False,
        record: bool = True,
        port: int = 0,
    ) -> None:
        super().__init__(port=port)
        self.endpoint = endpoint or Endpoint()
        self.requests: list[Json] = []  # parsed bodies of chat/completions, refused ones included
        self.raw_requests: list[bytes] = []
        self.violations: list[str] = []
        self.request_count = 0
        self.open_streams = 0  # streaming requests that are not at their end, held ones included
        self._script = Script()
        self._validate = validate
        self._strict = strict
        self._record = record

    @property
    def url(self) -> str:
        """The base URL a client takes."""
        return f"{self.origin}/v1"

    @property
    def script(self) -> Any:
        """The queue of replies (a list to append to), or a callable from request to reply; assignable."""
        return self._script.replies

    @script.setter
    def script(self, replies: Sequence[Reply] | Callable[[Json], Reply | None]) -> None:
        self._script.replies = replies if callable(replies) else list(replies)

    @property
    def default(self) -> Callable[[Json], Reply]:
        """What is said when neither a rule nor the script has a reply: an echo, unless assigned."""
        return self._script.default

    @default.setter
    def default(self, chooser: Callable[[Json], Reply]) -> None:
        self._script.default = chooser

    def when(self, fragment: str, replies: Sequence[Reply] | Callable[[Json], Reply | None]) -> Rule:
        """Script the requests whose last user message contains `fragment`; rules go before the script.

        The message ends with its runtime context, whose own words ("metadata", "chat", "time") are in every request.
        """
        rule = Rule(fragment, replies if callable(replies) else list(replies))
        self._script.rules.append(rule)
        return rule

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        last = [last_user_text(request)[:80] for request in self.requests[-5:]]
        return f"{self.request_count} requests, last user texts {last}, violations {self.violations[-3:]}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        key = self.endpoint.api_key
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return _json(401, error_for(401))
        if request.method == "POST" and request.path == "/v1/chat/completions":
            return await self._complete(request)
        if request.method == "GET" and request.path == "/v1/models":
            made = {"object": "model", "created": 1_700_000_000, "owned_by": "tests"}
            return _json(200, {"object": "list", "data": [{"id": name, **made} for name in self.endpoint.models]})
        return _json(404, error(f"Invalid URL ({request.method} {request.path})"))

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            self.violations.append("the body is not valid JSON")
            return _json(400, error("We could not parse the JSON body of your request."))
        self.request_count += 1
        if self._record:
            self.requests.append(body)
            self.raw_requests.append(raw)
        self.bell.ring()
        problems = check_request(body) if self._validate else []
        if self._strict and not problems:
            problems = violations(body["messages"])
        if problems:
            self.violations.extend(problems)
            return _json(400, error("; ".join(problems)))
        if (refusal := self.endpoint.refusal(body, len(raw))) is not None:
            return _json(*refusal)
        reply = self._script.choose(body)
        answer = Answer(reply, body, serial=self.request_count, raw_bytes=len(raw))
        if not body.get("stream"):
            return await self._whole(request, answer)
        self.open_streams += 1
        try:
            return await self._stream(request, answer)
        finally:
            self.open_streams -= 1
            self.bell.ring()

    async def _early(self, request: web.BaseRequest, reply: Reply) -> web.Response | None:
        """Hold the reply, and answer it if it is not a completion at all."""
        if reply.hold is not None:
            await reply.hold.wait()
        if reply.drop_before:
            return cut(request)
        if reply.body is None and reply.status == 200:
            return None
        body = error_for(reply.status) if reply.body is None else reply.body
        if isinstance(body, Mapping):
            return _json(reply.status, body, reply.headers)
        encoded = body.encode() if isinstance(body, str) else body
        kind = "text/html" if encoded.startswith(b"<") else "application/json"
        headers = {"Content-Type": kind, **reply.headers}
        return web.Response(status=reply.status, body=encoded, headers=headers)

    async def _whole(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        reply = answer.reply
        if (early := await self._early(request, reply)) is not None:
            return early
        if reply.stall_after is not None:
            await _silence(reply)
        body = answer.completion()
        headers = {"Content-Type": "application/json", **reply.headers}
        if reply.cut_after is None:
            return web.Response(body=body, headers=headers)
        partial = web.StreamResponse(headers={**headers, "Content-Length": str(len(body))})
        await partial.prepare(request)
        await partial.write(body[: len(body) // 2])
        _hang_up(request)
        return partial

    async def _stream(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        reply = answer.reply
        if (early := await self._early(request, reply)) is not None:
            return early
        response = web.StreamResponse(headers={**_SSE_HEADERS, **reply.headers})
        response.enable_chunked_encoding()
        await response.prepare(request)
        content = list(answer.content_events())
        # A count beyond the content still strikes, before the events that end the stream.
        pause_at = len(content) if reply.cut_after is None else min(reply.cut_after, len(content))
        if reply.stall_after is not None:
            pause_at = min(reply.stall_after, pause_at)
        for event in content[:pause_at]:
            await _write(response, event, reply.drip_s)
        if reply.stall_after is not None:
            await _silence(reply)
        if reply.cut_after is not None:
            _hang_up(request)
            return response
        for event in (*content[pause_at:], *answer.closing_events()):
            await _write(response, event, reply.drip_s)
        await response.write_eof()
        return response


async def _write(response: web.StreamResponse, event: bytes, wait_s: float) -> None:
    if wait_s:
        await asyncio.sleep(wait_s)
    await response.write(event)


async def _silence(reply: Reply) -> None:
    """Say nothing until the test ends it, or the client does by hanging up (which cancels the handler)."""
    await (reply.stall_until or asyncio.Event()).wait()


def _hang_up(request: web.BaseRequest) -> None:
    """Close the connection after what was written so far, in the middle of the answer."""
    if request.transport is not None:
        request.transport.close()


def _json(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    encoded = encode_json(dict(body))
    return web.Response(status=status, body=encoded, headers={"Content-Type": "application/json", **(headers or {})})


def main() -> None:
    """Run the server by hand; it echoes."""
    parser = argparse.ArgumentParser(description="An OpenAI-compatible echo server on 127.0.0.1 for trials.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--no-validate", action="store_true", help="switch the request rules off")
    options = parser.parse_args()
    api = OpenAIApi(port=options.port, validate=not options.no_validate, record=False)
    asyncio.run(serve_until_interrupted(api, lambda: api.url))


if __name__ == "__main__":
    main()
