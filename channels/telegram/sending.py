"""Sending one outbound message: what calls it takes, in which order, and what to do when one is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelAuthError, ChannelError, SendRejected, SendUncertain
from bot.interfaces import SendProgress
from bot.log import get_logger
from bot.messages import Attachment, OutboundMessage
from bot.records import UNKNOWN_PART
from channels.files import FileLeftOut, is_all_there_is, refused_there, require_something_to_send, with_words
from channels.telegram.config import Timing
from channels.telegram.place import Place, is_about_markup, mentions
from channels.telegram.presses import keyboard
from channels.telegram.rendering import CAPTION_LIMIT, TextPart, render
from channels.telegram.uploads import UPLOAD_BYTES, Uploader, in_albums
from channels.text import utf16_length

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

_LONG_CHARS = 4_000  # rendering more takes over 10 ms, which must not stall the loop

_DRAFT_LOST = ("message to edit not found", "message can't be edited", "message_id_invalid")

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request: text, a file or an album, with a caption perhaps. Each file makes a message of its own."""

    part: TextPart | None = None
    files: tuple[Attachment, ...] = ()

    @property
    def count(self) -> int:
        """How many messages it makes."""
        return max(1, len(self.files))


def plan(message: OutboundMessage) -> list[Step]:
    """Return the steps of a message, the same ones each time: a resumed send skips those already done.

    Text that fits becomes the caption of the first file; otherwise text goes first, files follow. So they do when
    that file is a voice: it reads the text aloud, and must not keep it from arriving.
    """
    parts = render(message.text, message.kind)
    files = message.attachments
    groups = in_albums(files, last_alone=any(message.buttons))
    fits = len(parts) == 1 and utf16_length(parts[0].text) <= CAPTION_LIMIT
    if files and fits and not message.draft_id and files[0].kind != "voice":
        return [Step(part=parts[0], files=groups[0])] + [Step(files=group) for group in groups[1:]]
    return [Step(part=part) for part in parts] + [Step(files=group) for group in groups]


class Sender:
    """Sends through one bot."""

    def __init__(self, api: BotApi, timing: Timing, language: str) -> None:
        """`language` is that of the few words of our own."""
        self._api = api
        self._timing = timing
        self._language = language

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        if len(message.text) > _LONG_CHARS:
            steps = await asyncio.to_thread(plan, message)
        else:
            steps = plan(message)
        if not steps:
            raise SendRejected("there is nothing to send: the text is blank and no file is attached")
        if not progress.sent_ids:
            await require_something_to_send(message, limit_bytes=UPLOAD_BYTES)
        delivery = _Delivery(self._api, self._timing, message, progress, self._language)
        begun = 0
        for step in steps:
            done = len(progress.sent_ids) - begun
            begun += step.count
            if done < step.count:
                await delivery.perform(step, done=max(0, done), is_first=begun == step.count, is_last=step is steps[-1])


class _Delivery:
    """One message on its way."""

    def __init__(
        self, api: BotApi, timing: Timing, message: OutboundMessage, progress: SendProgress, language: str
    ) -> None:
        self._api = api
        self._timing = timing
        self._message = message
        self._progress = progress
        self._language = language
        self._place = Place(api, timing, message.address)
        self._uploader = Uploader(api, self._place)

    async def perform(self, step: Step, *, done: int, is_first: bool, is_last: bool) -> None:
        """Put one step into the chat, of whose messages `done` are out already, and note its messages."""
        if len(step.files) > 1:
            await self._send_album(step, done=done, is_first=is_first, is_last=is_last)
            return
        params = self._params(is_first=is_first, is_last=is_last)
        if step.files:
            platform_id = await self._send_file(step.files[0], step.part, params)
        else:
            assert step.part is not None
            platform_id = await self._send_text(step.part, params, self._message.draft_id if is_first else "")
        await self._progress.sent(platform_id, more=not is_last)

    def _params(self, *, is_first: bool, is_last: bool) -> dict[str, Any]:
        """Return where a message goes, what it answers and its buttons: the first replies, the last has the buttons."""
        params = self._place.where()
        message = self._message
        if is_first and message.reply_to.isdecimal():
            params["reply_parameters"] = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
        if is_last and (markup := keyboard(message.buttons, self._progress.outbox_id)) is not None:
            params["reply_markup"] = markup
        return params

    async def _send_album(self, step: Step, *, done: int, is_first: bool, is_last: bool) -> None:
        if done == 0:
            params = self._params(is_first=is_first, is_last=False)
            ids = await self._uploader.send_album(step.files, step.part, params)
            if ids is not None:
                await self._note(ids, is_last=is_last)
                return
        elif self._progress.sent_ids[-1] == UNKNOWN_PART:
            # Nobody knows whether the request that carried the album got through; it is not sent a third time.
            await self._note([self._progress.sent_ids[-1]] * (step.count - done), is_last=is_last)
            return
        for number in range(done, step.count):
            params = self._params(is_first=is_first and number == 0, is_last=False)
            caption = step.part if number == 0 else None
            platform_id = await self._send_file(step.files[number], caption, params)
            await self._progress.sent(platform_id, more=not is_last or number < step.count - 1)

    async def _send_file(self, file: Attachment, caption: TextPart | None, params: dict[str, Any]) -> str:
        """Send one file; where it cannot go, a line in its place says so, behind the text that it was to carry."""
        try:
            return await self._uploader.send_one(file, caption, params)
        except FileLeftOut as exc:
            left_out = exc
        except SendRejected as exc:
            left_out = refused_there(file, exc)
        if is_all_there_is(self._message, file):
            raise left_out
        _log.warning("file left out of a message", chat=self._message.address.key, error=str(left_out))
        caption = caption or TextPart(text="")
        said = TextPart(text=with_words(caption.text, [left_out], self._language), entities=caption.entities)
        return await self._send_text(said, params, "")

    async def _note(self, ids: list[str], *, is_last: bool) -> None:
        """Note the messages of one request together: only the last is followed by another try."""
        for platform_id in ids[:-1]:
            await self._progress.sent(platform_id)
        await self._progress.sent(ids[-1], more=not is_last)

    async def _send_text(self, part: TextPart, params: dict[str, Any], draft_id: str) -> str:
        if draft_id and await self._finish_draft(part, params, draft_id):
            return draft_id
        formatted = {**params, "text": part.text, "entities": list(part.entities) or None}
        try:
            (platform_id,) = await self._place.post("sendMessage", formatted)
        except SendRejected as exc:
            if not part.entities or not is_about_markup(exc):
                raise
            _log.warning("markup refused, sent as plain text", chat=self._message.address.key, error=str(exc))
            (platform_id,) = await self._place.post("sendMessage", {**params, "text": part.text})
        return platform_id

    async def _finish_draft(self, part: TextPart, params: dict[str, Any], draft_id: str) -> bool:
        """Turn the draft into the final text; False when there is no draft any more."""
        edit = {
            "chat_id": self._message.address.chat_id,
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
            if part.entities and is_about_markup(exc):
                return await self._finish_draft(TextPart(text=part.text), params, draft_id)
            # Whatever keeps the draft from becoming the answer must not keep the answer from arriving.
            _log.warning("draft cannot be finished, text sent anew", chat=self._message.address.key, error=str(exc))
            if not mentions(exc, _DRAFT_LOST):
                await self._delete_draft(draft_id)
            return False
        return True

    async def _delete_draft(self, draft_id: str) -> None:
        """Take the draft away, so that the answer does not stand below its beginning; best effort."""
        params = {"chat_id": self._message.address.chat_id, "message_id": draft_id}
        try:
            await self._api.call("deleteMessage", params, timeout_s=self._timing.call_s)
        except ChannelAuthError:
            raise
        except ChannelError as exc:
            _log.warning("draft not deleted", chat=self._message.address.key, error=str(exc))
