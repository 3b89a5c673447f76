"""Sending one outbound message: what calls it takes, in which order, and what to do when one is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError, SendRejected, SendUncertain
from bot.interfaces import SendProgress
from bot.log import get_logger
from bot.messages import Attachment, Button, OutboundMessage
from channels.files import read_outbound
from channels.telegram.config import Timing
from channels.telegram.rendering import CAPTION_LIMIT, TextPart, render
from channels.text import utf16_length

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

CALLBACK_DATA_BYTES = 64
"""Most bytes of a button (https://core.telegram.org/bots/api#inlinekeyboardbutton, read 2026-11-29)."""

PHOTO_BYTES = 10 * 1024 * 1024
"""Largest photo (https://core.telegram.org/bots/api#sending-files, read 2026-11-29)."""

UPLOAD_BYTES = 50 * 1024 * 1024
"""Largest file a bot may send (same page)."""

UNKNOWN_ID = "unknown"
"""Stands for the id of a message that a server took without telling one: sent is sent."""

_LONG_CHARS = 4_000  # rendering more takes over 10 ms, which must not stall the loop

_PHOTO_TYPES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
_THREAD_LOST = ("message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid")
_DRAFT_LOST = ("message to edit not found", "message can't be edited", "message_id_invalid")

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One message to be put into the chat: text, or a file with a caption."""

    part: TextPart | None = None
    file: Attachment | None = None


def plan(message: OutboundMessage) -> list[Step]:
    """Return the steps of a message, the same ones each time: a resumed send skips those already done.

    Text that fits becomes the caption of the first file; otherwise text goes first, files follow. So they do when
    that file is a voice: it reads the text aloud, and must not keep it from arriving.
    """
    parts = render(message.text, message.kind)
    files = message.attachments
    fits = len(parts) == 1 and utf16_length(parts[0].text) <= CAPTION_LIMIT
    if files and fits and not message.draft_id and files[0].kind != "voice":
        return [Step(part=parts[0], file=files[0])] + [Step(file=file) for file in files[1:]]
    return [Step(part=part) for part in parts] + [Step(file=file) for file in files]


def keyboard(rows: Sequence[Sequence[Button]]) -> dict[str, Any] | None:
    """Return the inline keyboard for buttons, None without any.

    Raises:
        SendRejected: a button's data does not fit.
    """
    if not any(rows):
        return None
    made: list[list[dict[str, str]]] = []
    for row in rows:
        for button in row:
            size = len(button.data.encode())
            if not 1 <= size <= CALLBACK_DATA_BYTES:
                raise SendRejected(f"button {button.label!r} carries {size} bytes, the limit is 64")
        if row:
            made.append([{"text": button.label, "callback_data": button.data} for button in row])
    return {"inline_keyboard": made}


class Sender:
    """Sends through one bot."""

    def __init__(self, api: BotApi, timing: Timing) -> None:
        self._api = api
        self._timing = timing

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        if len(message.text) > _LONG_CHARS:
            steps = await asyncio.to_thread(plan, message)
        else:
            steps = plan(message)
        if not steps:
            raise SendRejected("there is nothing to send: the text is blank and no file is attached")
        delivery = _Delivery(self._api, self._timing, message)
        markup = keyboard(message.buttons)
        for number in range(len(progress.sent_ids), len(steps)):
            where = delivery.where()
            if number == 0 and message.reply_to.isdecimal():
                where["reply_parameters"] = {
                    "message_id": int(message.reply_to),
                    "allow_sending_without_reply": True,
                }
            if number == len(steps) - 1 and markup is not None:
                where["reply_markup"] = markup
            draft_id = message.draft_id if number == 0 else ""
            platform_id = await delivery.perform(steps[number], where, draft_id)
            await progress.sent(platform_id, more=number < len(steps) - 1)


class _Delivery:
    """One message on its way; remembers what its chat turned out not to take."""

    def __init__(self, api: BotApi, timing: Timing, message: OutboundMessage) -> None:
        self._api = api
        self._timing = timing
        self._address = message.address
        self._thread_id = message.address.thread_id

    def where(self) -> dict[str, Any]:
        """Return the parameters that say where a message goes."""
        where: dict[str, Any] = {"chat_id": self._address.chat_id}
        if self._thread_id is not None:
            where["message_thread_id"] = self._thread_id
        return where

    async def perform(self, step: Step, params: dict[str, Any], draft_id: str) -> str:
        """Put one step into the chat and return the platform's message id."""
        if step.file is not None:
            return await self._send_file(step.file, step.part, params)
        assert step.part is not None
        if draft_id:
            edited = await self._finish_draft(step.part, params, draft_id)
            if edited:
                return draft_id
        return await self._send_text(step.part, params)

    async def _send_text(self, part: TextPart, params: dict[str, Any]) -> str:
        formatted = {**params, "text": part.text, "entities": list(part.entities) or None}
        try:
            return await self._post("sendMessage", formatted)
        except SendRejected as exc:
            if not part.entities or not _is_about_markup(exc):
                raise
            _log.warning("markup refused, sent as plain text", chat=self._address.key, error=str(exc))
            return await self._post("sendMessage", {**params, "text": part.text})

    async def _finish_draft(self, part: TextPart, params: dict[str, Any], draft_id: str) -> bool:
        """Turn the draft into the final text; False when there is no draft any more."""
        edit = {
            "chat_id": self._address.chat_id,
            "message_id": draft_id,
            "text": part.text,
            "entities": list(part.entities) or None,
            "reply_markup": params.get("reply_markup"),
        }
        try:
            await self._api.call("editMessageText", edit, timeout_s=self._timing.call_s)
        except SendUncertain as exc:
            # Unlike a send, an edit can be repeated without harm.
            raise ChannelError(str(exc)) from exc
        except SendRejected as exc:
            if "message is not modified" in str(exc).lower():
                return True
            if _mentions(exc, _DRAFT_LOST):
                _log.warning("draft is gone, text sent anew", chat=self._address.key, error=str(exc))
                return False
            if not part.entities or not _is_about_markup(exc):
                raise
            return await self._finish_draft(TextPart(text=part.text), params, draft_id)
        return True

    async def _send_file(self, file: Attachment, caption: TextPart | None, params: dict[str, Any]) -> str:
        content = await asyncio.to_thread(read_outbound, file, limit_bytes=UPLOAD_BYTES)
        name = file.name or Path(file.path).name
        if caption is not None:
            entities = list(caption.entities) or None
            params = {**params, "caption": caption.text, "caption_entities": entities}
        as_photo = file.kind == "image" and len(content) <= PHOTO_BYTES
        if as_photo and Path(name).suffix.lower() in _PHOTO_TYPES:
            try:
                return await self._post("sendPhoto", {**params, "photo": self._api.file(content, name)})
            except SendRejected as exc:
                # Too wide, too many pixels, not really a picture: a document has no such limits.
                _log.warning("photo refused, sent as document", chat=self._address.key, error=str(exc))
        if file.kind == "voice":
            try:
                return await self._post("sendVoice", {**params, "voice": self._api.file(content, name)})
            except SendRejected as exc:
                # No Opus, MP3 or M4A, or the person takes no voice messages: a document has no such limits.
                _log.warning("voice refused, sent as document", chat=self._address.key, error=str(exc))
        document = {**params, "document": self._api.file(content, name)}
        try:
            return await self._post("sendDocument", document)
        except SendRejected as exc:
            if caption is None or not caption.entities or not _is_about_markup(exc):
                raise
            return await self._post("sendDocument", {**document, "caption_entities": None})

    async def _post(self, method: str, params: dict[str, Any]) -> str:
        """Call a sending method and return the new message's id; once more without a topic that is gone."""
        timeout_s = self._timing.call_s if method == "sendMessage" else self._timing.upload_s
        try:
            sent = await self._api.call(method, params, timeout_s=timeout_s)
        except SendRejected as exc:
            if "message_thread_id" not in params or not _mentions(exc, _THREAD_LOST):
                raise
            _log.warning("topic is gone, sent to the chat itself", chat=self._address.key, error=str(exc))
            self._thread_id = None
            bare = {key: value for key, value in params.items() if key != "message_thread_id"}
            sent = await self._api.call(method, bare, timeout_s=timeout_s)
        return str(sent["message_id"]) if isinstance(sent, dict) and "message_id" in sent else UNKNOWN_ID


def _mentions(exc: SendRejected, marks: Sequence[str]) -> bool:
    text = str(exc).lower()
    return any(mark in text for mark in marks)


def _is_about_markup(exc: SendRejected) -> bool:
    return _mentions(exc, ("parse", "entity", "entities"))
