"""Fetching the files people send, into the chat's own folder of the workspace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import ChannelError, RateLimited
from bot.messages import Address, Attachment
from channels.files import inbox_path, store_inbound, too_big
from channels.telegram.config import Timing
from channels.telegram.errors import FileUnavailable

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

DOWNLOAD_BYTES = 20 * 1024 * 1024
"""Largest file a bot may fetch (https://core.telegram.org/bots/api#getfile, read 2026-11-29)."""


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
            await asyncio.to_thread(store_inbound, Path(workspace), target, content)
            size = len(content)
    except RateLimited:
        raise
    except ChannelError as exc:
        is_too_big = "too big" in str(exc).lower()
        return replace(attachment, error=_too_big(size) if is_too_big else f"not fetched: {exc}")
    except OSError as exc:
        return replace(attachment, error=f"not stored: {exc.strerror}")
    return replace(attachment, path=str(target), size_bytes=size)


def _too_big(size: int | None) -> str:
    return too_big(size, limit_bytes=DOWNLOAD_BYTES)
