"""Pictures from an endpoint with OpenAI's images interface: one paid request, and whole pictures out of its answer.

The interface as the reference has it, https://developers.openai.com/api/docs/guides/image-generation and the
parameter types of the openai package 3.57 (read 2026-11-30): POST /images/generations in JSON, or /images/edits as a
form with reference pictures. GPT image models answer in base64 and refuse `response_format`; compatible servers may
answer with URLs. Where pictures are kept is the tool's part.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson

from bot.errors import DutifulError
from bot.security.network import BadUrl, NetworkRefused, parse_target
from bot.toolkit.file_types import IMAGES, file_type, is_whole_image
from bot.web.client import GuardedClient
from bot.web.errors import NoConnection, WebError
from bot.web.image_errors import refusal
from bot.web.wire import Answer

DEFAULT_BASE_URL = "https://api.openai.com/v1"
REQUEST_LIMIT_S = 180.0
"""For making the pictures; an endpoint is silent meanwhile."""

FETCH_LIMIT_S = 30.0
"""For fetching them, where the endpoint answers with URLs; all at the same time."""

MAX_PICTURE_BYTES = 20 * 1024 * 1024
MAX_PICTURES = 4

_MAX_ANSWER_BYTES = MAX_PICTURES * MAX_PICTURE_BYTES * 4 // 3 + 1024 * 1024
# What people paste as the address: that of one call.
_CALLS = ("/images/generations", "/images/edits", "/chat/completions")
_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A whole picture of one of `IMAGES`."""

    mime: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came of a request: the pictures, and why others of them cannot be used."""

    pictures: tuple[Picture, ...]
    problems: tuple[str, ...]


class ImagesFailed(DutifulError):
    """No pictures. The text says why and, where it is so, that they may have been made and billed all the same."""


class _Unusable(DutifulError):
    """One picture of an answer cannot be used."""


class ImageMaker:
    """Asks one model of one endpoint."""

    def __init__(
        self,
        web: GuardedClient,
        *,
        base_url: str | None,
        api_key: str,
        model: str,
        limit_s: float = REQUEST_LIMIT_S,
    ) -> None:
        self._web = web
        self._base_url = base_url or DEFAULT_BASE_URL
        self._api_key = api_key
        self._model = model
        self._limit_s = limit_s

    async def make(self, prompt: str, *, count: int, size: str = "", references: Sequence[Picture] = ()) -> Made:
        """Return the pictures for a prompt; `size` '' leaves it to the model.

        Raises:
            ImagesFailed: refused, or no usable answer.
        """
        fields: dict[str, Any] = {"model": self._model, "prompt": prompt, "n": count}
        if size:
            fields["size"] = size
        if references:
            answer = await self._ask("/images/edits", *await _form(fields, references))
        else:
            answer = await self._ask("/images/generations", orjson.dumps(fields), "application/json")
        items = await asyncio.to_thread(_items, answer.body)
        return await self._usable(items[:count])

    async def _ask(self, call: str, body: bytes, content_type: str) -> Answer:
        headers = {"accept": "application/json", "content-type": content_type}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        try:
            answer = await self._web.request(
                "POST",
                _call_url(self._base_url, call),
                headers=headers,
                body=body,
                max_bytes=_MAX_ANSWER_BYTES,
                timeout_s=self._limit_s,
                silence_s=self._limit_s,
                trusted=True,
            )
        except (NoConnection, BadUrl, NetworkRefused) as exc:
            raise ImagesFailed(f"the endpoint cannot be reached: {exc}") from exc
        except WebError as exc:
            raise ImagesFailed(
                f"{exc}. Whether the pictures were made, and are billed, is not known; asking again may cost again"
            ) from exc
        if answer.status != _OK:
            raise ImagesFailed(refusal(answer, self._api_key))
        return answer

    async def _usable(self, items: Sequence[Any]) -> Made:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._picture(item), name=f"picture {number}")
                for number, item in enumerate(items, start=1)
            ]
        found = [task.result() for task in tasks]
        return Made(
            pictures=tuple(each for each in found if isinstance(each, Picture)),
            problems=tuple(each for each in found if isinstance(each, str)),
        )

    async def _picture(self, item: Any) -> Picture | str:
        """Return one picture of the answer, or why it cannot be used."""
        try:
            encoded, url = (item.get("b64_json"), item.get("url")) if isinstance(item, dict) else (None, None)
            if isinstance(url, str) and url and not encoded:
                encoded = url if url.startswith("data:") else None
                if encoded is None:
                    return await asyncio.to_thread(_checked, await self._fetched(url))
            if not isinstance(encoded, str):
                return "the answer has neither a picture nor its address"
            return await asyncio.to_thread(_decoded, encoded)
        except _Unusable as exc:
            return str(exc)

    async def _fetched(self, url: str) -> bytes:
        """Return what is behind an address that the endpoint gave: judged like any page's, unless it is its own."""
        try:
            is_own = parse_target(url).origin == parse_target(self._base_url).origin
            answer = await self._web.request(
                "GET", url, max_bytes=MAX_PICTURE_BYTES, timeout_s=FETCH_LIMIT_S, trusted=is_own
            )
        except (WebError, BadUrl, NetworkRefused) as exc:
            raise _Unusable(f"the picture cannot be fetched from its address: {exc}") from exc
        if answer.status != _OK:
            raise _Unusable(f"the picture cannot be fetched from its address (status {answer.status})")
        return answer.body


def _call_url(base_url: str, call: str) -> str:
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    for known in _CALLS:
        path = path.removesuffix(known)
    return urlunsplit(parts._replace(path=path + call))


async def _form(fields: Mapping[str, Any], references: Sequence[Picture]) -> tuple[bytes, str]:
    """Return a form and its content type; several pictures go as `image[]`, as the openai package sends them."""
    from aiohttp import FormData  # 160 ms

    form = FormData(default_to_multipart=True)
    for name, value in fields.items():
        form.add_field(name, str(value))
    key = "image" if len(references) == 1 else "image[]"
    for number, picture in enumerate(references, start=1):
        name = f"reference-{number}.{picture.mime.removeprefix('image/')}"  # the file's own name is nobody's business
        form.add_field(key, picture.data, filename=name, content_type=picture.mime)
    payload = form()
    return await payload.as_bytes(), payload.headers["Content-Type"]


def _items(body: bytes) -> list[Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    items = value.get("data") if isinstance(value, dict) else None
    if not isinstance(items, list) or not items:
        raise ImagesFailed("the endpoint's answer has no pictures in it; they may be billed all the same")
    return items


def _decoded(encoded: str) -> Picture:
    if encoded.startswith("data:"):
        encoded = encoded.partition(",")[2]
    if len(encoded) * 3 // 4 > MAX_PICTURE_BYTES + 2:
        raise _Unusable(f"the picture is larger than {MAX_PICTURE_BYTES:,} bytes")
    try:
        return _checked(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise _Unusable("the picture is not valid base64") from None


def _checked(data: bytes) -> Picture:
    if len(data) > MAX_PICTURE_BYTES:
        raise _Unusable(f"the picture is larger than {MAX_PICTURE_BYTES:,} bytes")
    mime = file_type(io.BytesIO(data), limit_bytes=len(data)).mime
    if mime not in IMAGES:
        raise _Unusable(f"what came is not a picture but {mime}")
    if not is_whole_image(data, mime):
        raise _Unusable("the picture is cut off or damaged")
    return Picture(mime=mime, data=data)
