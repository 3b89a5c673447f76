"""Pictures in requests: history keeps file URLs, a request carries the bytes."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bot.records import Message

MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Larger pictures become a note; providers refuse images somewhere between 5 and 20 MB."""


async def embed_images(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with each `file:` image replaced by its bytes, or by a note if it cannot be read."""
    out: list[Message] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list) and any(_file_of(block) for block in content):
            blocks = [await _embedded(block) for block in content]
            message = {**message, "content": blocks}  # noqa: PLW2901 - a changed copy in its place
        out.append(message)
    return out


def _file_of(block: Any) -> str:
    if not isinstance(block, dict) or block.get("type") != "image_url":
        return ""
    image = block.get("image_url")
    url = image.get("url", "") if isinstance(image, dict) else ""
    return unquote(urlsplit(url).path) if isinstance(url, str) and url.startswith("file:") else ""


async def _embedded(block: Any) -> Any:
    path = _file_of(block)
    if not path:
        return block
    try:
        data = await asyncio.to_thread(_read, Path(path))
    except OSError as exc:
        return {"type": "text", "text": f"[image {Path(path).name} is no longer there: {exc.strerror}]"}
    if data is None:
        return {"type": "text", "text": f"[image {Path(path).name} is too large to show]"}
    kind = mimetypes.guess_type(path)[0] or "image/jpeg"
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64.b64encode(data).decode()}"}}


def _read(path: Path) -> bytes | None:
    return None if path.stat().st_size > MAX_IMAGE_BYTES else path.read_bytes()
