"""A loopback endpoint with OpenAI's images interface: generations and edits, strict about fields, with faults.

Written from https://developers.openai.com/api/docs/guides/image-generation and the parameter types of the openai
package 3.57 (read 2026-11-30): GPT image models answer in base64 and know no `response_format`; `AnswerWith.URL` is
what compatible servers do.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson
from aiohttp import web
from aiohttp.web_request import FileField

from tests.platforms.loopback import LoopbackServer, cut, encode_json

KEY = "sk-images-key-1"
MODEL = "gpt-image-2.5-flare"
_FIELDS = frozenset({"model", "prompt", "n", "size", "quality", "background", "output_format", "user"})
_SIZES = frozenset({"1024x1024", "1536x1024", "1024x1536", "auto"})


class Fault(StrEnum):
    """What may be wrong with an answer."""

    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    BILLING = "billing"
    POLICY = "policy"
    BROKEN = "broken"
    PAGE = "page"  # HTML with status 200
    NO_DATA = "no_data"
    ENDLESS = "endless"
    HANG_UP = "hang_up"  # the request is taken, then the connection cut
    HELD = "held"
    HALF_A_PICTURE = "half_a_picture"  # the second picture of the answer is cut off
    NOT_BASE64 = "not_base64"
    NOT_A_PICTURE = "not_a_picture"
    ELSEWHERE = "elsewhere"  # a redirect to `ImagesServer.elsewhere`


class AnswerWith(StrEnum):
    """How the pictures come."""

    BASE64 = "base64"
    URL = "url"
    DATA_URL = "data_url"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One accepted or refused request; `images` are names, types and bytes of reference pictures by field name."""

    call: str
    fields: dict[str, Any]
    headers: dict[str, str] = field(repr=False)
    images: list[tuple[str, str, str, bytes]] = field(default_factory=list, repr=False)


def png(color: int, width: int = 4) -> bytes:
    """Return a square PNG of one color (0xRRGGBB)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\x00" + color.to_bytes(3, "big") * width) * width
    head = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class ImagesServer(LoopbackServer):
    """Makes `pictures`, one after the other; behind `/files/N` they are as files."""

    stops_with_client = True

    def __init__(self) -> None:
        super().__init__()
        self.pictures = [png(color) for color in (0xFF0000, 0x00FF00, 0x0000FF, 0xFFFF00)]
        self.fault: Fault | None = None
        self.answer_with = AnswerWith.BASE64
        self.file_origin = ""  # where URLs lead; here unless set
        self.elsewhere = ""
        self.asked: list[Asked] = []
        self.fetched: list[dict[str, str]] = []

    @property
    def base_url(self) -> str:
        """What the configuration has."""
        return f"{self.origin}/v1"

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        return f"{self.asked}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        if request.method == "GET" and request.path.startswith("/files/"):
            self.fetched.append(headers)
            return web.Response(body=self.pictures[int(request.path.removeprefix("/files/"))], content_type="image/png")
        match request.method, request.path:
            case "POST", "/v1/images/generations":
                self.asked.append(Asked(call="generations", fields=orjson.loads(await request.read()), headers=headers))
            case "POST", "/v1/images/edits":
                self.asked.append(await _edit(request, headers))
            case _:
                return _error(404, f"Invalid URL ({request.method} {request.path})")
        self.bell.ring()
        return await self._failing(request) or _refused(self.asked[-1]) or self._pictures(self.asked[-1])

    async def _failing(self, request: web.BaseRequest) -> web.StreamResponse | None:
        match self.fault:
            case Fault.RATE_LIMIT:
                return _error(429, "Rate limit reached for images.", "rate_limit_exceeded", {"Retry-After": "17"})
            case Fault.QUOTA:
                return _error(429, "You exceeded your current quota, please check your plan.", "insufficient_quota")
            case Fault.BILLING:
                return _error(400, "Billing hard limit has been reached.", "billing_hard_limit_reached")
            case Fault.POLICY:
                return _error(400, "Your request was rejected by the safety system.", "moderation_blocked")
            case Fault.BROKEN:
                return _error(500, "The server had an error.", "server_error")
            case Fault.PAGE:
                return web.Response(text="<html>Welcome</html>", content_type="text/html")
            case Fault.NO_DATA:
                return _json({"created": 1, "data": []})
            case Fault.ELSEWHERE:
                return web.Response(status=307, headers={"Location": self.elsewhere})
            case Fault.HANG_UP:
                return cut(request)
            case Fault.HELD:
                await asyncio.Event().wait()
            case Fault.ENDLESS:
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                await response.prepare(request)
                while True:
                    await response.write(b" " * 1_000_000)
        return None

    def _pictures(self, asked: Asked) -> web.Response:
        data = [self._item(number) for number in range(int(asked.fields.get("n", 1)))]
        return _json({"created": 1, "data": data, "usage": {"total_tokens": 100}})

    def _item(self, number: int) -> dict[str, str]:
        picture = self.pictures[number]
        if self.fault is Fault.HALF_A_PICTURE and number == 1:
            picture = picture[: len(picture) // 2]
        if self.fault is Fault.NOT_A_PICTURE:
            picture = b"<svg xmlns='http://www.w3.org/2000/svg'></svg>"
        encoded = "no base64!" if self.fault is Fault.NOT_BASE64 else base64.b64encode(picture).decode()
        match self.answer_with:
            case AnswerWith.URL:
                return {"url": f"{self.file_origin or self.origin}/files/{number}"}
            case AnswerWith.DATA_URL:
                return {"url": f"data:image/png;base64,{encoded}"}
        return {"b64_json": encoded}


async def _edit(request: web.BaseRequest, headers: dict[str, str]) -> Asked:
    fields: dict[str, Any] = {}
    images = []
    for name, value in (await request.post()).items():
        if isinstance(value, FileField):
            images.append((name, value.filename, value.content_type, value.file.read()))
        else:
            fields[name] = value
    return Asked(call="edits", fields=fields, headers=headers, images=images)


def _refused(asked: Asked) -> web.Response | None:
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        key = asked.headers.get("authorization", "").removeprefix("Bearer ")
        return _error(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
    unknown = set(asked.fields) - _FIELDS
    if unknown:
        return _error(400, f"Unknown parameter: '{min(unknown)}'.", "unknown_parameter")
    if asked.fields.get("model") != MODEL:
        return _error(404, f"The model '{asked.fields.get('model')}' does not exist.", "model_not_found")
    if asked.fields.get("size", "auto") not in _SIZES:
        return _error(400, "Invalid value for 'size'.", "invalid_value")
    is_number = isinstance(asked.fields.get("n", 1), int) or asked.call == "edits"
    if not is_number or not 1 <= int(asked.fields.get("n", 1)) <= 10 or not asked.fields.get("prompt"):
        return _error(400, "Invalid value.", "invalid_value")
    names = {name for name, *_ in asked.images}
    if asked.call == "edits" and names != ({"image"} if len(asked.images) == 1 else {"image[]"}):
        return _error(400, "Missing required parameter: 'image'.", "missing_required_parameter")
    return None


def _json(value: Any) -> web.Response:
    return web.Response(body=encode_json(value), content_type="application/json")


def _error(status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None) -> web.Response:
    value = {"error": {"message": message, "type": "image_error", "param": None, "code": code}}
    return web.Response(status=status, body=encode_json(value), content_type="application/json", headers=headers)
