"""Fetching the files people send, into the chat's own folder of the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.errors import ChannelAuthError, ChannelError, RateLimited
from bot.log import get_logger
from bot.messages import Address, Attachment
from channels.discord.config import Timing
from channels.discord.content import forwarded
from channels.discord.errors import Refused
from channels.files import inbox_path, store_inbound, too_big

DOWNLOAD_BYTES = 25 * 1024 * 1024
"""Largest file that is fetched: our own limit, the platform hands out what people may upload (up to 500 MB)."""

_WEB = ("https://", "http://")

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""
Downloader = Callable[..., Awaitable[bytes]]
"""`Api.download`."""

_log = get_logger(__name__)


async def fetch(
    attachment: Attachment,
    address: Address,
    *,
    call: Caller,
    download: Downloader,
    timing: Timing,
    workspace: str,
) -> Attachment:
    """Return the attachment with its local path, or with the reason why there is none.

    The addresses of files expire after a day (https://docs.discord.com/developers/reference#signed-attachment-cdn-urls,
    read 2026-11-30); then the message is asked for again. Fetching a second time costs nothing.

    Raises:
        RateLimited: ask again later.
        ChannelAuthError: the token is refused.
    """
    if not attachment.ref or attachment.path:
        return attachment
    size = attachment.size_bytes
    if size is not None and size > DOWNLOAD_BYTES:
        return replace(attachment, error=too_big(size, limit_bytes=DOWNLOAD_BYTES))
    target = inbox_path(workspace, address, attachment)
    try:
        if not target.exists():
            content = await _content(attachment.ref, call, download, timing)
            await asyncio.to_thread(store_inbound, Path(workspace), target, content)
            size = len(content)
    except (RateLimited, ChannelAuthError):
        raise
    except ChannelError as exc:
        return replace(attachment, error=f"not fetched: {exc}")
    except OSError as exc:
        return replace(attachment, error=f"not stored: {exc.strerror}")
    return replace(attachment, path=str(target), size_bytes=size)


async def _content(ref: str, call: Caller, download: Downloader, timing: Timing) -> bytes:
    """Return a file, from the address that came with its message or from its present one.

    Raises:
        ChannelError: it is to be had from neither.
    """
    place, _, url = ref.partition(" ")
    if url.startswith(_WEB):
        try:
            return await download(url, timeout_s=timing.upload_s, limit_bytes=DOWNLOAD_BYTES)
        except Refused as exc:
            _log.debug("a file is not where it was", error=str(exc))  # its address expired, most likely
    url = await _url_of(call, timing, place)
    return await download(url, timeout_s=timing.upload_s, limit_bytes=DOWNLOAD_BYTES)


async def _url_of(call: Caller, timing: Timing, ref: str) -> str:
    """Return the present address of a file.

    Raises:
        ChannelError: the message, or the file of it, is gone.
    """
    channel_id, message_id, file_id = ref.split("/")
    message = await call(
        "GET",
        "/channels/{channel_id}/messages/{message_id}",
        channel_id=channel_id,
        message_id=message_id,
        timeout_s=timing.call_s,
    )
    if not isinstance(message, dict):
        raise ChannelError("the message with this file cannot be read", retryable=False)
    files = (forwarded(message) or message).get("attachments") or ()
    url = next((str(file.get("url")) for file in files if str(file.get("id")) == file_id), "")
    if not url.startswith(_WEB):
        raise ChannelError("the message does not hold this file any more", retryable=False)
    return url
