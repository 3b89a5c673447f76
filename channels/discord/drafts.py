"""Unfinished text shown as one message that is edited as it grows."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from bot.errors import ChannelError, ChatGone, SendUncertain
from bot.interfaces import Draft
from bot.log import get_logger
from bot.messages import Address, OutboundKind
from channels.discord.config import Timing
from channels.discord.errors import UNKNOWN_MESSAGE, Refused
from channels.discord.interactions import OpenAnswers
from channels.discord.places import target_id
from channels.discord.rendering import TEXT_LIMIT, render
from channels.discord.sending import LONG_CHARS, UNKNOWN_ID, edit_message, fill_in, message_id_of

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_FENCE_ROOM = 5  # characters of the line that closes a block for now
_REMEMBERED = 200

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

_log = get_logger(__name__)


class Drafts:
    """The drafts of one bot."""

    def __init__(self, call: Caller, timing: Timing, answers: OpenAnswers) -> None:
        self._call = call
        self._timing = timing
        self._answers = answers
        self._shown: OrderedDict[str, str] = OrderedDict()

    async def show(self, draft: Draft) -> str:
        """See `Channel.show_draft`. What does not fit into one message is left to the final text."""
        long = len(draft.text) > LONG_CHARS
        text = await asyncio.to_thread(draft_text, draft.text) if long else draft_text(draft.text)
        if not text:
            return draft.draft_id
        body: dict[str, Any] = {"content": text, "allowed_mentions": {"parse": []}}
        if draft.draft_id:
            return await self._change(draft, body)
        shown = await fill_in(self._call, self._timing, self._answers, reply_to=draft.reply_to, body=body)
        if shown is None:
            shown = await self._begin(draft, body)
        if shown == UNKNOWN_ID:  # asked again with the same mark, Discord tells it
            raise ChannelError("the draft was taken without telling its id")
        self._remember(shown, text)
        return shown

    async def _begin(self, draft: Draft, body: dict[str, Any]) -> str:
        if draft.reply_to.isdecimal():
            body["message_reference"] = {"message_id": draft.reply_to, "fail_if_not_exists": False}
        if draft.key:
            # A repeated send of a draft's beginning is known by this, so nothing about it is uncertain.
            body |= {"nonce": f"d{hashlib.sha256(draft.key.encode()).hexdigest()[:20]}", "enforce_nonce": True}
        try:
            return message_id_of(
                await self._call(
                    "POST",
                    "/channels/{channel_id}/messages",
                    channel_id=target_id(draft.address),
                    json=body,
                    timeout_s=self._timing.call_s,
                )
            )
        except SendUncertain as exc:
            raise ChannelError(str(exc)) from exc

    async def _change(self, draft: Draft, body: dict[str, Any]) -> str:
        if self._shown.get(draft.draft_id) == body["content"]:
            return draft.draft_id
        try:
            await edit_message(self._call, self._timing, target_id(draft.address), draft.draft_id, body)
        except Refused as exc:
            if exc.code != UNKNOWN_MESSAGE:
                raise
            return await self._begin(draft, body)  # somebody deleted it
        self._remember(draft.draft_id, body["content"])
        return draft.draft_id

    def _remember(self, draft_id: str, text: str) -> None:
        self._shown[draft_id] = text
        if len(self._shown) > _REMEMBERED:
            self._shown.popitem(last=False)

    async def drop(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`."""
        if not draft_id:
            return
        self._shown.pop(draft_id, None)
        try:
            await self._call(
                "DELETE",
                "/channels/{channel_id}/messages/{message_id}",
                channel_id=target_id(address),
                message_id=draft_id,
                timeout_s=self._timing.call_s,
            )
        except ChatGone as exc:  # where nobody can be written to, there is nothing more to do about it
            _log.info("draft not removed", chat=address.key, error=str(exc))
        except Refused as exc:
            if exc.code != UNKNOWN_MESSAGE:
                raise


def draft_text(text: str) -> str:
    """Return the first message's worth of unfinished text, rendered as the final text will be; '' for blank text."""
    parts = render(text, OutboundKind.REPLY, limit=TEXT_LIMIT)
    if not parts:
        return ""
    first = parts[0]
    fences = _FENCE.findall(first)
    if len(parts) == 1 and len(fences) % 2 and len(first) <= TEXT_LIMIT - _FENCE_ROOM:
        first = f"{first.rstrip()}\n{fences[-1]}"
    return first
