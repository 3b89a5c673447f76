"""Fetching the files people send, into the chat's own folder of the workspace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import ChannelError, RateLimited
from bot.messages import Address, Attachment
from channels.files import inbox_path, store_inbound, too_big

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

DOWNLOAD_BYTES = 50 * 1024 * 1024
"""Largest file we fetch. Slack has files of up to 1 GB, but one is held in memory on its way."""


async def fetch(api: WebApi, workspace: str, attachment: Attachment, address: Address) -> Attachment:
    """Return the attachment with its local path, or with the reason why there is none.

    Fetching a second time costs nothing.

    Raises:
        RateLimited: ask again later.
    """
    if not attachment.ref or attachment.path:
        return attachment
    size = attachment.size_bytes
    if size is not None and size > DOWNLOAD_BYTES:
        return replace(attachment, error=too_big(size, limit_bytes=DOWNLOAD_BYTES))
    target = inbox_path(workspace, address, attachment)
    try:
        if not await asyncio.to_thread(target.exists):
            url = attachment.ref if "://" in attachment.ref else await _address(api, attachment.ref)
            if not api.is_own_host(url):
                return replace(attachment, error="not fetched: it is not kept by Slack itself")
            is_page = attachment.mime == "text/html"
            got = await api.download(url, limit_bytes=DOWNLOAD_BYTES, is_page=is_page)
            if got.too_big_bytes is not None:
                return replace(attachment, error=too_big(got.too_big_bytes, limit_bytes=DOWNLOAD_BYTES))
            if got.error:
                return replace(attachment, error=f"not fetched: {got.error}")
            if is_page and size is not None and len(got.content) != size:
                return replace(attachment, error="not fetched: Slack sent another page than the file")
            await asyncio.to_thread(store_inbound, Path(workspace), target, got.content)
            size = len(got.content)
    except RateLimited:
        raise
    except ChannelError as exc:
        return replace(attachment, error=f"not fetched: {exc}")
    except OSError as exc:
        return replace(attachment, error=f"not stored: {exc.strerror}")
    return replace(attachment, path=str(target), size_bytes=size)


async def _address(api: WebApi, file_id: str) -> str:
    """Return the private address of a file whose event did not tell it (files of connected workspaces).

    Raises:
        ChannelError: Slack does not say.
    """
    answer = await api.call("files.info", {"file": file_id})
    file = answer.get("file")
    file = file if isinstance(file, dict) else {}
    return str(file.get("url_private_download") or file.get("url_private") or "")
