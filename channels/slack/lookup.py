"""Reading back: which parts of a send are on the platform, a draft by its key, what was said in a thread before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError, ChatGone
from bot.log import get_logger
from bot.messages import Address, Attachment, InboundMessage, Quote
from bot.records import OutboxRow
from channels.files import size_to_send
from channels.slack.content import Identity, Names, attachments_of, instant_us, plain_text
from channels.slack.errors import Refused
from channels.slack.events import is_own, is_spoken, sender_of
from channels.slack.people import People
from channels.slack.positions import MARGIN_US
from channels.slack.sending import MESSAGE_EVENT, UPLOAD_BYTES, file_name, mark_of, planned

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

PAGE = 200
PAGES = 5
"""Of what came since the first try: far more than fits between a send and the look for it."""

THREAD_PAGE = 999
THREAD_PAGES = 20
"""Of a thread as context: Slack has no other way to its last messages than over all before them."""

EARLIER_MESSAGES = 20
EARLIER_CHARS = 1_500
MOST_NAMES = 10
"""Of a thread from before we were in it: its first message and the last ones, each cut."""

_log = get_logger(__name__)


async def find_sent(api: WebApi, me: Identity, row: OutboxRow) -> tuple[str, ...] | None:
    """See `Channel.find_sent`.

    Raises:
        ChannelError: Slack cannot be asked now.
    """
    since_us = row.first_try_us - MARGIN_US
    steps = await planned(row.message, row.id)
    uploads = {number: await asyncio.to_thread(_upload, step.files) for number, step in enumerate(steps) if step.files}
    parts: dict[int, str] = {}
    try:
        async for message in _since(api, row.message.address, since_us):
            if not is_own(message, me):
                continue
            mark = _mark(message, MESSAGE_EVENT)
            part = None if mark is None else mark.get("part")
            if isinstance(part, int) and mark == mark_of(row.message, row.id, part):
                parts[part] = str(message["ts"])
            for number, wanted in uploads.items():  # takes no metadata: its files' names and sizes are what tells
                files = [item for item in message.get("files") or [] if isinstance(item, dict)]
                shown = [(str(item.get("title") or item.get("name")), item.get("size")) for item in files]
                if files and shown == wanted:
                    parts.setdefault(number, str(files[0].get("id")))
    except (Refused, ChatGone) as exc:
        _log.warning("a send in doubt cannot be looked up", chat=row.message.address.key, error=str(exc))
        return None
    found = list(row.sent_ids)
    while len(found) in parts:
        found.append(parts[len(found)])
    return tuple(found)


def _upload(files: Sequence[Attachment]) -> list[tuple[str, int]]:
    """Return names and sizes of the files that were to be sent, without those that cannot be."""
    sizes = [(file_name(file), size_to_send(file, limit_bytes=UPLOAD_BYTES)) for file in files]
    return [(name, size) for name, size in sizes if size is not None]


async def find_marked(api: WebApi, me: Identity, address: Address, mark: Mapping[str, Any], *, since_us: int) -> str:
    """Return the ts of our message that has this metadata, '' when there is none.

    Raises:
        ChannelError: Slack does not say.
    """
    async for message in _since(api, address, since_us):
        if _mark(message, str(mark["event_type"])) == mark["event_payload"] and is_own(message, me):
            return str(message["ts"])
    return ""


async def earlier(api: WebApi, me: Identity, message: InboundMessage, people: People) -> tuple[Quote, ...]:
    """See `Channel.earlier`.

    Raises:
        ChannelError: Slack does not say.
    """
    thread = message.address.thread_id
    if thread is None or thread == message.message_id:
        return ()
    kept: list[dict[str, Any]] = []
    asked = {"channel": message.address.chat_id, "ts": thread, "latest": message.message_id}
    async for item in _pages(api, "conversations.replies", asked, limit=THREAD_PAGE, most=THREAD_PAGES):
        if item.get("ts") == message.message_id:
            continue
        kept.append(item)
        if len(kept) > EARLIER_MESSAGES:
            del kept[1]
    await _ask_names([sender_of(item) for item in kept if not is_own(item, me)], people)
    told = (_quote(item, message, me, people.name) for item in kept)
    return tuple(quote for quote in told if quote is not None)


async def _ask_names(senders: Sequence[str], people: People) -> None:
    """Learn how the people in a thread are called, as far as that takes few calls."""
    unknown = [sender for sender in dict.fromkeys(senders) if not people.name(sender)]
    for sender in unknown[:MOST_NAMES]:
        try:
            await people.ask(sender)
        except ChannelError as exc:
            _log.info("names of a thread not known", error=str(exc))
            return


def _quote(item: dict[str, Any], message: InboundMessage, me: Identity, names: Names) -> Quote | None:
    ours = is_own(item, me)
    if not ours and not is_spoken({**item, "channel": message.address.chat_id}, me):
        return None
    sender = sender_of(item)
    text = plain_text(str(item.get("text") or ""), names)
    files = ", ".join(f"[{file.kind}{' ' + file.name if file.name else ''}]" for file in attachments_of(item))
    said = " ".join(part for part in (text.strip(), files) if part)
    if not said:
        return None
    return Quote(
        message_id=str(item.get("ts") or ""),
        author="bot" if ours else "sender" if sender == message.sender_id else "other",
        text=said[:EARLIER_CHARS],
        name="" if ours else names(sender),
    )


async def _since(api: WebApi, address: Address, since_us: int) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a thread or a conversation since an instant, with their metadata."""
    oldest = f"{since_us // 1_000_000}.{since_us % 1_000_000:06d}"
    asked: dict[str, Any] = {"channel": address.chat_id, "oldest": oldest, "inclusive": True}
    asked["include_all_metadata"] = True
    if address.thread_id is not None:
        try:
            async for message in _pages(api, "conversations.replies", {**asked, "ts": address.thread_id}):
                if (instant_us(str(message.get("ts"))) or 0) >= since_us:
                    yield message
        except Refused as exc:
            if exc.code != "thread_not_found":  # then it went to the channel itself
                raise
        else:
            return
    async for message in _pages(api, "conversations.history", asked):
        yield message


async def _pages(
    api: WebApi, method: str, asked: dict[str, Any], *, limit: int = PAGE, most: int = PAGES
) -> AsyncIterator[dict[str, Any]]:
    cursor = ""
    for _ in range(most):
        answer = await api.call(method, {**asked, "limit": limit, "cursor": cursor or None})
        for item in answer.get("messages") or []:
            if isinstance(item, dict):
                yield item
        cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            return


def _mark(message: dict[str, Any], event_type: str) -> dict[str, Any] | None:
    metadata = message.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("event_type") != event_type:
        return None
    payload = metadata.get("event_payload")
    return payload if isinstance(payload, dict) else None
