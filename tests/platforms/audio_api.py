"""A loopback endpoint with OpenAI's audio interface: transcriptions and speech, strict about fields, with faults.

Written from the parameter types of the openai package 3.57 and https://help.openai.com/en/articles/7031512-whisper-api-faq
(read 2026-11-30): a form with `file` and `model`, at most 25 MiB, of nine formats told by the file's ending; JSON with
`input` of at most 4,096 characters, `model` and `voice`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any

import orjson
from aiohttp import web
from aiohttp.web_request import FileField

from tests.platforms.loopback import LoopbackServer, cut, encode_json

KEY = "sk-audio-key-123456"
HEARING, SPEAKING = "gpt-transcribe", "gpt-4o-mini-tts"
OGG = b"OggS\x00\x02" + bytes(100)
_TRANSCRIPTION_FIELDS = frozenset({"model", "response_format", "language", "prompt", "temperature"})
_SPEECH_FIELDS = frozenset({"model", "input", "voice", "response_format", "speed", "instructions"})
_VOICES = frozenset({"alloy", "ash", "coral", "nova"})
_ENDINGS = frozenset({".flac", ".mp3", ".mp4", ".mpeg", ".mpga", ".m4a", ".ogg", ".wav", ".webm"})
_MAX_REQUEST_BYTES = 25 * 1024 * 1024
_MAX_CHARS = 4_096


class Fault(StrEnum):
    """What may be wrong with an answer."""

    BROKEN = "broken"
    BROKEN_ONCE = "broken_once"
    RATE_LIMIT = "rate_limit"  # comes back in 17 s
    QUOTA = "quota"
    HANG_UP = "hang_up"  # the request is taken, then the connection cut
    CUT_SHORT = "cut_short"  # cut within the answer
    HELD = "held"
    PAGE = "page"  # HTML with status 200
    NO_TEXT = "no_text"  # JSON of another shape
    REPORTED = "reported"  # an error with status 200
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, accepted or not; of a form the file's name, type and bytes."""

    call: str
    fields: dict[str, Any]
    headers: dict[str, str] = field(repr=False)
    file: tuple[str, str, bytes] = field(default=("", "", b""), repr=False)


class AudioServer(LoopbackServer):
    """Hears `words` in every recording and answers every text with `sound`."""

    stops_with_client = True

    def __init__(self) -> None:
        super().__init__()
        self.key = KEY
        self.words = "Good morning."
        self.sound = OGG
        self.fault: Fault | None = None
        self.asked: list[Asked] = []
        self._released = asyncio.Event()

    @property
    def base_url(self) -> str:
        """What the configuration has."""
        return f"{self.origin}/v1"

    def release(self) -> None:
        """Answer what was held; nothing is held any more."""
        self._released.set()

    def account(self) -> str:
        """See `LoopbackServer.account`."""
        return f"{self.asked}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """See `LoopbackServer.handle`."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        match request.method, request.path:
            case "POST", "/v1/audio/transcriptions":
                self.asked.append(await _form(request, headers))
            case "POST", "/v1/audio/speech":
                self.asked.append(Asked(call="speech", fields=orjson.loads(await request.read()), headers=headers))
            case _:
                return _error(404, f"Invalid URL ({request.method} {request.path})")
        asked = self.asked[-1]
        self.bell.ring()
        return await self._failing(request) or self._refused(asked) or self._answer(asked)

    async def _failing(self, request: web.BaseRequest) -> web.StreamResponse | None:
        match self.fault:
            case Fault.BROKEN | Fault.BROKEN_ONCE:
                if self.fault is Fault.BROKEN_ONCE:
                    self.fault = None
                return _error(500, "The server had an error.", "server_error")
            case Fault.RATE_LIMIT:
                return _error(429, "Rate limit reached.", "rate_limit_exceeded", {"Retry-After": "17"})
            case Fault.QUOTA:
                return _error(429, "You exceeded your current quota.", "insufficient_quota")
            case Fault.HANG_UP:
                return cut(request)
            case Fault.HELD:
                await self._released.wait()
            case Fault.PAGE:
                return web.Response(text="<html>Welcome</html>", content_type="text/html")
            case Fault.NO_TEXT:
                return _json({"texts": []})
            case Fault.REPORTED:
                return _json({"error": {"message": "the model is loading", "code": "overloaded"}})
            case Fault.CUT_SHORT | Fault.ENDLESS:
                return await self._partly(request)
        return None

    async def _partly(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(self.sound)
        if self.fault is Fault.CUT_SHORT:
            return cut(request)
        while True:
            await response.write(bytes(1_000_000))

    def _refused(self, asked: Asked) -> web.Response | None:
        given = asked.headers.get("authorization", "")
        if given != (f"Bearer {self.key}" if self.key else ""):
            return _error(401, f"Incorrect API key provided: {given.removeprefix('Bearer ')}.", "invalid_api_key")
        hears = asked.call == "transcriptions"
        if unknown := set(asked.fields) - (_TRANSCRIPTION_FIELDS if hears else _SPEECH_FIELDS):
            return _error(400, f"Unknown parameter: '{min(unknown)}'.", "unknown_parameter")
        if asked.fields.get("model") != (HEARING if hears else SPEAKING):
            return _error(404, f"The model '{asked.fields.get('model')}' does not exist.", "model_not_found")
        return _refused_file(asked) if hears else _refused_text(asked)

    def _answer(self, asked: Asked) -> web.Response:
        if asked.call == "transcriptions":
            return _json({"text": self.words, "usage": {"type": "duration", "seconds": 3}})
        return web.Response(body=self.sound, content_type="audio/ogg")


async def _form(request: web.BaseRequest, headers: dict[str, str]) -> Asked:
    fields: dict[str, Any] = {}
    file = ("", "", b"")
    for name, value in (await request.post()).items():
        if isinstance(value, FileField) and name == "file":
            with value.file as spooled:  # it is on disk, and a request that is cut leaves it open
                file = (value.filename, value.content_type, spooled.read())
        else:
            fields[name] = value
    return Asked(call="transcriptions", fields=fields, headers=headers, file=file)


def _refused_file(asked: Asked) -> web.Response | None:
    name, _, data = asked.file
    if int(asked.headers["content-length"]) > _MAX_REQUEST_BYTES:
        return _error(413, "Maximum content size limit (26214400) exceeded.")
    if not data:
        return _error(400, "Missing required parameter: 'file'.", "missing_required_parameter")
    if PurePath(name).suffix not in _ENDINGS:
        return _error(400, "Unrecognized file format.", "invalid_value")
    return None


def _refused_text(asked: Asked) -> web.Response | None:
    text = asked.fields.get("input")
    if not isinstance(text, str) or not 1 <= len(text) <= _MAX_CHARS:
        return _error(400, "Invalid 'input': string too long.", "string_above_max_length")
    if asked.fields.get("voice") not in _VOICES:
        return _error(400, "Invalid value for 'voice'.", "invalid_value")
    return None


def _json(value: Any) -> web.Response:
    return web.Response(body=encode_json(value), content_type="application/json")


def _error(status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None) -> web.Response:
    value = {"error": {"message": message, "type": "audio_error", "param": None, "code": code}}
    return web.Response(status=status, body=encode_json(value), content_type="application/json", headers=headers)
