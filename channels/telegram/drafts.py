"""A turn's growing text on Telegram: one message, sent once and then edited, rendered as the final text will be.

Telegram cannot tell a repeated first draft from a new one, so an unknown outcome of that is reported as such.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError, SendRejected, SendUncertain
from bot.interfaces import Draft
from bot.log import get_logger
from bot.messages import Address, OutboundKind
from channels.telegram.config import Timing
from channels.telegram.courtesies import Courtesies
from channels.telegram.errors import MethodMissing
from channels.telegram.rendering import TEXT_LIMIT, TextPart, render

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

_LONG_CHARS = 2_000  # rendering more takes some milliseconds each time, which must not stall the loop
_NEEDED_CHARS = 2 * TEXT_LIMIT  # markup takes less than half of what is written
_KEPT = 256  # drafts whose present text is remembered

_NOT_MODIFIED = "message is not modified"
_ABOUT_MARKUP = ("parse", "entity", "entities")
_NO_LONGER = ("message to delete not found", "message can't be deleted", "message_id_invalid")

_EDIT = "editMessageText"

_log = get_logger(__name__)


class Drafts:
    """The drafts of one bot."""

    def __init__(self, api: BotApi, timing: Timing, courtesies: Courtesies) -> None:
        self._api = api
        self._courtesies = courtesies
        self._timing = timing
        self._shown: OrderedDict[tuple[str, str], TextPart] = OrderedDict()  # by chat and message

    async def show(self, draft: Draft) -> str:
        """See `Channel.show_draft`. A draft that the person has deleted stays deleted.

        Where the server said lately that it cannot edit nothing is shown: a draft would stay as it is first.
        """
        if self._courtesies.rests(_EDIT):
            return draft.draft_id
        text = draft.text[:_NEEDED_CHARS]
        if len(text) > _LONG_CHARS:
            parts = await asyncio.to_thread(render, text, OutboundKind.REPLY)
        else:
            parts = render(text, OutboundKind.REPLY)
        if not parts:  # nothing but marks so far
            return draft.draft_id
        part = parts[0]
        if not draft.draft_id:
            sent = await self._with_or_without_markup("sendMessage", _where(draft), part)
            if not isinstance(sent, dict) or "message_id" not in sent:
                raise SendUncertain("sendMessage: an answer without the message's id")
            draft_id = str(sent["message_id"])
        elif part == self._shown.get((draft.address.chat_id, draft.draft_id)):
            return draft.draft_id  # it has grown beyond what fits, or by marks alone
        else:
            draft_id = draft.draft_id
            await self._edit(draft, part)
        self._remember(draft.address, draft_id, part)
        return draft_id

    async def drop(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`."""
        self._shown.pop((address.chat_id, draft_id), None)
        params = {"chat_id": address.chat_id, "message_id": draft_id}
        try:
            await self._api.call("deleteMessage", params, timeout_s=self._timing.call_s)
        except SendUncertain as exc:  # it can be repeated without harm
            raise ChannelError(str(exc)) from exc
        except SendRejected as exc:
            if not _mentions(exc, _NO_LONGER):
                raise
            _log.info("draft not deleted", chat=address.key, reason=str(exc))

    async def _edit(self, draft: Draft, part: TextPart) -> None:
        where = {"chat_id": draft.address.chat_id, "message_id": draft.draft_id}
        try:
            await self._with_or_without_markup(_EDIT, where, part)
        except SendUncertain as exc:  # as above
            raise ChannelError(str(exc)) from exc
        except MethodMissing as exc:
            self._courtesies.leave_out(_EDIT, exc)
            raise
        except SendRejected as exc:
            if not _mentions(exc, (_NOT_MODIFIED,)):
                raise

    async def _with_or_without_markup(self, method: str, where: dict[str, Any], part: TextPart) -> Any:
        params = {**where, "text": part.text}
        try:
            formatted = {**params, "entities": list(part.entities) or None}
            return await self._api.call(method, formatted, timeout_s=self._timing.call_s)
        except SendRejected as exc:
            if not part.entities or not _mentions(exc, _ABOUT_MARKUP):
                raise
            return await self._api.call(method, params, timeout_s=self._timing.call_s)

    def _remember(self, address: Address, draft_id: str, part: TextPart) -> None:
        self._shown[address.chat_id, draft_id] = part
        if len(self._shown) > _KEPT:
            self._shown.popitem(last=False)


def _where(draft: Draft) -> dict[str, Any]:
    """Return where a first draft goes: its chat and topic, and the message it replies to."""
    where: dict[str, Any] = {"chat_id": draft.address.chat_id}
    if draft.address.thread_id is not None:
        where["message_thread_id"] = draft.address.thread_id
    if draft.reply_to.isdecimal():
        where["reply_parameters"] = {"message_id": int(draft.reply_to), "allow_sending_without_reply": True}
    return where


def _mentions(exc: SendRejected, marks: tuple[str, ...]) -> bool:
    text = str(exc).lower()
    return any(mark in text for mark in marks)
