"""Pictures in requests: history keeps file URLs, a request carries the bytes.

A picture that a tool returned is kept under its content's hash outside the tools' reach; a person's picture lies
where the channel put it. Only what is a picture by its bytes is ever sent, whatever a path leads to by then.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bot.records import Message
from bot.toolkit.file_types import is_whole_image

MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Larger pictures become a note; providers refuse images somewhere between 5 and 20 MB."""

_MAGIC = {
    "png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    "jpg": ("image/jpeg", b"\xff\xd8\xff"),
    "gif": ("image/gif", b"GIF8"),
    "webp": ("image/webp", b"RIFF"),
}


class ImageStore:
    """Keeps pictures of tools in `folder` and puts pictures into requests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, blocks: Sequence[Message]) -> list[Message]:
        """Return content blocks in which each picture's bytes are replaced by the URL of a file."""
        return [await asyncio.to_thread(self._keep, block) for block in blocks]

    async def embed(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with each file's bytes in place, or a note if there is no picture any more.

        Bytes that a message carries already are looked at too: a provider refuses a broken picture, and with it every
        request of the conversation.
        """
        out = list(messages)
        for index in [index for index, message in enumerate(out) if type(message.get("content")) is list]:
            content = out[index]["content"]
            if any(_url_of(block).startswith(("file:", "data:")) for block in content):
                blocks = [await asyncio.to_thread(_embedded, block) for block in content]
                out[index] = {**out[index], "content": blocks}
        return out

    def _keep(self, block: Message) -> Message:
        url = _url_of(block)
        head, _, data = url.partition(";base64,")
        if not head.startswith("data:image/"):
            return block
        try:
            picture = base64.b64decode(data, validate=True)
            kind = _kind_of(picture)
            if kind is None:
                return {"type": "text", "text": "[not a picture]"}
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._folder / f"{hashlib.sha256(picture).hexdigest()}.{kind}"
            if not path.exists():
                partial = path.with_suffix(f".{secrets.token_hex(4)}.partial")  # calls side by side may show the same
                partial.write_bytes(picture)
                partial.replace(path)
        except OSError as exc:
            return {"type": "text", "text": f"[the picture could not be kept: {exc.strerror}]"}
        except ValueError:  # binascii.Error is one, and so is text that is not ASCII
            return {"type": "text", "text": "[the picture could not be kept: it is not valid base64]"}
        return {"type": "image_url", "image_url": {"url": path.absolute().as_uri()}}


def _url_of(block: Any) -> str:
    image = block.get("image_url") if isinstance(block, dict) and block.get("type") == "image_url" else None
    url = image.get("url") if isinstance(image, dict) else None
    return url if isinstance(url, str) else ""


def _file_of(block: Any) -> str:
    url = _url_of(block)
    return unquote(urlsplit(url).path) if url.startswith("file:") else ""


def _kind_of(data: bytes) -> str | None:
    return next((kind for kind, (_, magic) in _MAGIC.items() if data.startswith(magic)), None)


def _is_picture(url: str) -> bool:
    head, _, data = url.partition(";base64,")
    try:
        picture = base64.b64decode(data, validate=True)
    except ValueError:  # see `ImageStore._keep`
        return False
    kind = _kind_of(picture)
    return kind is not None and head == f"data:{_MAGIC[kind][0]}" and is_whole_image(picture, _MAGIC[kind][0])


def _embedded(block: Any) -> Any:
    url, path = _url_of(block), _file_of(block)
    if url.startswith("data:"):
        return block if _is_picture(url) else {"type": "text", "text": "[a picture that cannot be shown]"}
    if not path:
        return block
    name = Path(path).name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as exc:
        return {"type": "text", "text": f"[picture {name} is no longer there: {exc.strerror}]"}
    kind = _kind_of(data)
    if len(data) > MAX_IMAGE_BYTES:
        return {"type": "text", "text": f"[picture {name} is too large to show]"}
    if kind is None or not is_whole_image(data, _MAGIC[kind][0]):
        return {"type": "text", "text": f"[{name} is no picture that can be shown]"}
    encoded = base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{_MAGIC[kind][0]};base64,{encoded}"}}
