"""What a message needs before a model sees it: its files on disk, the job it answers, what was said before it.

Asked at the turn, not when the message came in: a platform is told first, and a slow download holds up one chat only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from bot.errors import ChannelError
from bot.interfaces import Channel, Outbox
from bot.log import get_logger
from bot.messages import InboundMessage, Origin
from bot.records import QueuedMessage

EARLIER_LIMIT_S = 10.0
"""How long a turn waits for what was said before in its thread; without it, it goes on."""

FETCH_LIMIT_S = 300.0
"""How long a turn waits for one file: platforms bound the silence in a download, not what drips in."""

_log = get_logger(__name__)


class Arrivals:
    """Completes messages by what their platform and the outbox know."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        outbox: Outbox,
        *,
        earlier_limit_s: float = EARLIER_LIMIT_S,
        fetch_limit_s: float = FETCH_LIMIT_S,
    ) -> None:
        self._channels = channels
        self._outbox = outbox
        self._earlier_limit_s = earlier_limit_s
        self._fetch_limit_s = fetch_limit_s

    async def completed(self, item: QueuedMessage, *, begins: bool) -> QueuedMessage:
        """Return the message with all it needs; `begins` says that its conversation has no rows yet."""
        message = await self._with_files(item.message)
        if begins and message.origin is Origin.USER and message.address.thread_id is not None:
            message = await self._with_earlier(message)
        quote = message.quote
        if quote is not None and quote.author == "bot":
            job_id = await self._outbox.job_of(message.address, quote.message_id)
            if job_id:
                message = replace(message, meta={**message.meta, "quoted_job": job_id})
        return replace(item, message=message)

    async def _with_files(self, message: InboundMessage) -> InboundMessage:
        """Return the message with its files on disk, as far as the channel can fetch them."""
        channel = self._channels.get(message.address.channel)
        if channel is None or not any(attachment.ref for attachment in message.attachments):
            return message
        files = []
        for attachment in message.attachments:
            try:
                async with asyncio.timeout(self._fetch_limit_s):
                    files.append(await channel.fetch(attachment, message.address) if attachment.ref else attachment)
            except ChannelError as exc:
                files.append(replace(attachment, error=str(exc)))
            except TimeoutError:
                files.append(replace(attachment, error="the download did not end in time"))
        return replace(message, attachments=tuple(files))

    async def _with_earlier(self, message: InboundMessage) -> InboundMessage:
        channel = self._channels.get(message.address.channel)
        if channel is None:
            return message
        try:
            async with asyncio.timeout(self._earlier_limit_s):
                return replace(message, earlier=await channel.earlier(message))
        except (ChannelError, TimeoutError) as exc:
            _log.warning("earlier messages of the thread not read", error=str(exc))
            return message
