"""Speech to text and text to speech at an endpoint with OpenAI's audio interface.

The interface as the openai package 3.57 documents it (parameter types of `audio.transcriptions` and
`audio.speech`, read 2026-11-30): POST /audio/transcriptions is a form with the file, answered by `{"text": ...}`;
POST /audio/speech is JSON, answered by the sound itself. Owns connection, limits of time and size, and the second
try. What an error means is `openai_errors`'s part; what is transcribed or read aloud, and where sound is kept, the
agent's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from bot.clock import Clock, SystemClock
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import Recording, Speaker, Transcriber
from bot.messages import clean_text
from bot.providers.openai_address import not_found_hint, refuse_unusable_key, usable_base_url
from bot.providers.openai_errors import clean_detail, kind_of, read_failure, reported_error, to_error, without_key

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai._response import AsyncAPIResponse

    _Answer = AsyncAPIResponse[Any]
    _Post = Callable[[AsyncOpenAI, dict[str, Any]], AbstractAsyncContextManager[_Answer]]

MAX_RECORDING_BYTES = 25 * 1024 * 1024
"""Largest request with a recording: "25 MiB" (https://help.openai.com/en/articles/7031512-whisper-api-faq, read
2026-11-30). The form around the file is part of it, see `MAX_UPLOAD_BYTES`."""

MAX_UPLOAD_BYTES = MAX_RECORDING_BYTES - 4 * 1024
"""Largest file that fits with its form."""

MAX_SPEECH_CHARS = 4_096
"""Longest `input` of a speech request (parameter types of the openai package 3.57, read 2026-11-30)."""

VOICE = "alloy"
"""A voice must be named; every model of the interface has this one, and compatible servers map it to theirs."""

_TRANSCRIPTIONS, _SPEECH = "/audio/transcriptions", "/audio/speech"
_MAX_TEXT_BYTES = 1024 * 1024  # an hour of speech is some 60 kB
_MAX_SOUND_BYTES = 16 * 1024 * 1024  # 4,096 characters are some five minutes: 2 MB of Opus, 13 MB as WAV
_TRIES = 2
_WORTH_ANOTHER = frozenset({ProviderErrorKind.RATE_LIMIT, ProviderErrorKind.CONNECTION, ProviderErrorKind.SERVER})
"""After any other error the call may have been carried out, and billed, or would fail again."""

# What sound begins with: https://www.iana.org/assignments/media-types (read 2026-11-29), and for MPEG audio the frame
# header of ISO 11172-3, of which eleven bits are set.
_FORMATS = (
    (b"OggS", ".ogg", "audio/ogg"),
    (b"ID3", ".mp3", "audio/mpeg"),
    (b"fLaC", ".flac", "audio/flac"),
    (b"RIFF", ".wav", "audio/wav"),
)
_MPEG_SYNC = 0xFFE0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioLimits:
    """How long a call may take, in seconds: to connect, and in total with its second try; and the wait before that."""

    connect_s: float = 10.0
    total_s: float = 120.0
    wait_s: float = 1.0
    max_wait_s: float = 5.0  # a longer wait asked for by the endpoint is not waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioModel:
    """One model of one endpoint: '' as `base_url` is OpenAI's, an endpoint without keys gets an empty one."""

    model: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)


class OpenAITranscriber(Transcriber):
    """One transcription model of one endpoint. Created without network or imports."""

    max_bytes = MAX_UPLOAD_BYTES

    def __init__(self, at: AudioModel, *, limits: AudioLimits | None = None, clock: Clock | None = None) -> None:
        """Build without network.

        Raises:
            ConfigError: the key or the address can never work.
        """
        self._model = at.model
        self._endpoint = _Endpoint(at, _TRANSCRIPTIONS, limits or AudioLimits(), clock or SystemClock())

    async def transcribe(self, recording: Recording) -> str:
        """See `Transcriber.transcribe`."""
        if len(recording.data) > MAX_UPLOAD_BYTES:
            size, limit = len(recording.data), MAX_UPLOAD_BYTES
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, f"{size:,} bytes, the limit is {limit:,}")
        # The file's own name is nobody's business; its ending tells the endpoint the format.
        file = (f"recording{recording.suffix}", recording.data, recording.mime or "application/octet-stream")

        def post(client: AsyncOpenAI, headers: dict[str, Any]) -> AbstractAsyncContextManager[_Answer]:
            return client.audio.transcriptions.with_streaming_response.create(
                file=file, model=self._model, response_format="json", extra_headers=headers
            )

        return _transcript(await self._endpoint.ask(post, limit_bytes=_MAX_TEXT_BYTES))

    async def close(self) -> None:
        """See `Transcriber.close`."""
        await self._endpoint.close()


class OpenAISpeaker(Speaker):
    """One speech model of one endpoint. Created without network or imports."""

    max_chars = MAX_SPEECH_CHARS

    def __init__(self, at: AudioModel, *, limits: AudioLimits | None = None, clock: Clock | None = None) -> None:
        """See `OpenAITranscriber`."""
        self._model = at.model
        self._endpoint = _Endpoint(at, _SPEECH, limits or AudioLimits(total_s=60.0), clock or SystemClock())

    async def speak(self, text: str) -> Recording:
        """See `Speaker.speak`; asks for Ogg Opus and takes any format that the bytes turn out to be."""

        def post(client: AsyncOpenAI, headers: dict[str, Any]) -> AbstractAsyncContextManager[_Answer]:
            return client.audio.speech.with_streaming_response.create(
                input=text[:MAX_SPEECH_CHARS],
                model=self._model,
                voice=VOICE,
                response_format="opus",
                extra_headers=headers,
            )

        return _recording(await self._endpoint.ask(post, limit_bytes=_MAX_SOUND_BYTES))

    async def close(self) -> None:
        """See `Speaker.close`."""
        await self._endpoint.close()


class _Endpoint:
    """One call of one endpoint: its client, its limits, its errors."""

    def __init__(self, at: AudioModel, call: str, limits: AudioLimits, clock: Clock) -> None:
        section = "speech" if call == _SPEECH else "transcription"
        self._call = call
        self._base_url = usable_base_url(at.base_url, section=section, call=call)
        self._api_key = at.api_key.strip()
        refuse_unusable_key(self._api_key, section=section)
        self._limits = limits
        self._clock = clock
        self._client: AsyncOpenAI | None = None
        self._building = asyncio.Lock()

    async def ask(self, post: _Post, *, limit_bytes: int) -> bytes:
        """Return the body of the answer; tried twice where that may help.

        Raises:
            ProviderError: no answer, an error answer, or one of more than `limit_bytes`.
        """
        limits = self._limits
        try:
            async with asyncio.timeout(limits.total_s):
                client = await self._ready_client()
                for _ in range(_TRIES - 1):
                    try:
                        return await self._exchange(client, post, limit_bytes)
                    except ProviderError as exc:
                        wait_s = max(limits.wait_s, exc.retry_after_s or 0.0)
                        if exc.kind not in _WORTH_ANOTHER or wait_s > limits.max_wait_s:
                            raise
                        _log.warning("audio call failed (%s), next try in %.1f s", exc, wait_s)
                    await asyncio.sleep(wait_s)
                return await self._exchange(client, post, limit_bytes)
        except TimeoutError as exc:
            raise ProviderError(ProviderErrorKind.TIMEOUT, f"no answer within {limits.total_s:g} s") from exc

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _exchange(self, client: AsyncOpenAI, post: _Post, limit_bytes: int) -> bytes:
        parts, size = [], 0
        async with self._answer(client, post) as answer:
            async for chunk in answer.iter_bytes():
                size += len(chunk)
                if size > limit_bytes:
                    raise ProviderError(ProviderErrorKind.MALFORMED, f"an answer of more than {limit_bytes:,} bytes")
                parts.append(chunk)
        return b"".join(parts)

    @asynccontextmanager
    async def _answer(self, client: AsyncOpenAI, post: _Post) -> AsyncIterator[_Answer]:
        """Yield the open 2xx answer; errors come out mapped and without the key."""
        import httpx2  # with the SDK: slow to import (600 ms), in a thread by `_build_client`
        import openai  # see above

        headers: dict[str, Any] = {} if self._api_key else {"Authorization": openai.Omit()}
        began = False
        try:
            async with post(client, headers) as answer:
                began = True
                yield answer
        except openai.APIStatusError as exc:
            raise self._refusal(exc.response) from exc
        except (openai.APIConnectionError, httpx2.RequestError) as exc:
            cause = exc.__cause__ or exc
            detail = clean_detail(f"{type(cause).__name__}: {cause}", self._api_key)
            raise ProviderError(ProviderErrorKind.CUT if began else ProviderErrorKind.CONNECTION, detail) from exc

    def _refusal(self, answer: Any) -> ProviderError:
        failure = read_failure(answer.status_code, answer.headers, answer.content, now_us=self._clock.now_us())
        failure = without_key(failure, self._api_key)
        if kind_of(failure) is ProviderErrorKind.NOT_FOUND:
            hint = not_found_hint(self._base_url + self._call, str(answer.url))
            failure = replace(failure, message=f"{failure.message[:300]} ({hint})")
        return to_error(failure)

    async def _ready_client(self) -> AsyncOpenAI:
        if self._client is None:
            async with self._building:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._build_client)
        return self._client

    def _build_client(self) -> AsyncOpenAI:
        import httpx2  # slow to import with the SDK (600 ms), therefore here: a thread, and not at start
        import openai  # see above

        client = openai.AsyncOpenAI(
            # Never empty: the SDK would then send the environment's key for OpenAI to any server.
            api_key=self._api_key or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=self._limits.connect_s),
        )
        _ = client.audio.transcriptions, client.audio.speech  # imported at first use, which is to be here
        return client


def _transcript(body: bytes) -> str:
    """Return the text of an answer.

    Raises:
        ProviderError: it is none, or it reports an error.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        shown = clean_detail(body[:300].decode(errors="replace"))
        raise ProviderError(ProviderErrorKind.MALFORMED, f"the answer is not JSON: {shown}") from None
    text = value.get("text") if isinstance(value, dict) else None
    if isinstance(text, str):
        return clean_text(text).strip()
    if isinstance(value, dict) and value.get("error"):
        raise reported_error(value)
    raise ProviderError(ProviderErrorKind.MALFORMED, "the answer has no text in it")


def _recording(body: bytes) -> Recording:
    """Return an answer's sound, in the format that its bytes are.

    Raises:
        ProviderError: it is no sound.
    """
    for magic, suffix, mime in _FORMATS:
        if body.startswith(magic):
            return Recording(data=body, suffix=suffix, mime=mime)
    if int.from_bytes(body[:2]) & _MPEG_SYNC == _MPEG_SYNC:
        return Recording(data=body, suffix=".mp3", mime="audio/mpeg")
    shown = clean_detail(body[:100].decode(errors="replace"))
    raise ProviderError(ProviderErrorKind.MALFORMED, f"the answer is no sound: {shown}" if body else "no sound came")
