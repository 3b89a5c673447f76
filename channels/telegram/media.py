"""Fetching the files people send, into the chat's own folder of the workspace."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import ChannelError, RateLimited
from bot.messages import Address, Attachment
from bot.security.workspace import folder_name
from channels.telegram.config import Timing
from channels.telegram.errors import FileUnavailable

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

DOWNLOAD_BYTES = 20 * 1024 * 1024
"""Largest file a bot may fetch (https://core.telegram.org/bots/api#getfile, read 2026-11-29)."""

_UNSAFE = re.compile(r"[^\w.-]+")
_NAME_LIMIT = 80  # characters


async def fetch(api: BotApi, timing: Timing, workspace: str, attachment: Attachment, address: Address) -> Attachment:
    """Return the attachment with its local path, or with the reason why there is none.

    Fetching a second time costs nothing.

    Raises:
        RateLimited: ask again later.
        ChannelAuthError: the token is refused.
    """
    if not attachment.ref or attachment.path:
        return attachment
    size = attachment.size_bytes
    if size is not None and size > DOWNLOAD_BYTES:
        return replace(attachment, error=_too_big(size))
    target = inbox_path(workspace, address, attachment)
    try:
        if not target.exists():
            info = await api.call("getFile", {"file_id": attachment.ref}, timeout_s=timing.call_s)
            if not isinstance(info, dict) or not isinstance(info.get("file_path"), str):
                raise FileUnavailable("getFile: an answer without a path", retryable=False)
            size = info.get("file_size", size)
            content = await api.download(info["file_path"], timeout_s=timing.upload_s)
            await asyncio.to_thread(_store, Path(workspace), target, content)
            size = len(content)
    except RateLimited:
        raise
    except ChannelError as exc:
        text = str(exc)
        return replace(attachment, error=_too_big(size) if "too big" in text.lower() else f"not fetched: {text}")
    except OSError as exc:
        return replace(attachment, error=f"not stored: {exc.strerror}")
    return replace(attachment, path=str(target), size_bytes=size)


def inbox_path(workspace: str, address: Address, attachment: Attachment) -> Path:
    """Return where an inbound file goes; the same reference always gives the same path."""
    name = _UNSAFE.sub("_", attachment.name).strip("._")[-_NAME_LIMIT:]
    if not name:
        name = attachment.kind + {"image": ".jpg", "voice": ".ogg", "video": ".mp4"}.get(attachment.kind, "")
    digest = hashlib.sha256(attachment.ref.encode()).hexdigest()[:12]
    return Path(workspace).absolute() / "chats" / folder_name(address.rate_key) / "inbox" / f"{digest}-{name}"


def _store(workspace: Path, target: Path, content: bytes) -> None:
    """Write a file whole or not at all, and only inside the workspace."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # The folder belongs to the chat's tools, which may have put a link in its place.
    if not target.parent.resolve().is_relative_to(workspace.resolve()):
        raise PermissionError(1, "the chat's inbox folder leads out of the workspace")
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(partial).replace(target)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


def _too_big(size: int | None) -> str:
    known = f" ({size / 1e6:.1f} MB)" if size is not None else ""
    return f"too big to fetch{known}: bots may load files of up to 20 MB"
