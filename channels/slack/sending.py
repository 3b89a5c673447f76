"""Sending one outbound message: what posts it takes, in which order, and what to do when one is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from bot.errors import ChannelError, ChatGone, SendRejected
from bot.interfaces import SendProgress
from bot.log import get_logger
from bot.messages import Address, Attachment, Button, OutboundKind, OutboundMessage
from channels.buttons import button_token, numbered
from channels.files import is_all_there_is, read_files, refused_there, require_something_to_send, words_for
from channels.slack.errors import AccountInactive, Refused
from channels.slack.rendering import QUICK_CHARS, Part, fallback, render
from channels.slack.threads import Threads

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

UPLOAD_BYTES = 50 * 1024 * 1024
"""Largest file we send. Slack takes 1 GB (https://docs.slack.dev/messaging/working-with-files, read 2026-11-30), but
a file is held in memory on its way."""

LABEL_CHARS = 75
"""Of a button (https://docs.slack.dev/reference/block-kit/block-elements/button-element, read 2026-11-30)."""

SECTION_CHARS = 3_000
"""Of a section's text (https://docs.slack.dev/reference/block-kit/blocks/section-block, read 2026-11-30)."""

MESSAGE_EVENT = "dutiful_message"
"""The `event_type` of the metadata by which a post is found again; see `mark_of`."""

UNKNOWN_ID = "unknown"
"""Stands for the id of a message that Slack took without telling one: sent is sent."""

_ROW_BUTTONS = 25
_THREAD_LOST = frozenset({"thread_not_found", "cannot_reply_to_message", "restricted_action_non_threadable_channel"})
_BLOCKS_REFUSED = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "block_mismatch", "invalid_attachments"}
)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One message to be put into the conversation: text and perhaps buttons, or files."""

    part: Part | None = None
    buttons: tuple[dict[str, Any], ...] = ()  # blocks
    files: tuple[Attachment, ...] = ()


def plan(message: OutboundMessage, outbox_id: int) -> list[Step]:
    """Return the steps of a message, the same ones each time: a resumed send skips those already done."""
    parts = render(message.text, message.kind)
    buttons = button_blocks(message.buttons, outbox_id)
    steps = [Step(part=part) for part in parts]
    if buttons:
        last = steps.pop().part if steps else Part(elements=(), plain=", ".join(_labels(message.buttons)))
        steps.append(Step(part=last, buttons=tuple(buttons)))
    if message.attachments:
        steps.append(Step(files=message.attachments))
    return steps


async def planned(message: OutboundMessage, outbox_id: int) -> list[Step]:
    """Return `plan`, made beside the loop unless the text is short."""
    if len(message.text) > QUICK_CHARS:
        return await asyncio.to_thread(plan, message, outbox_id)
    return plan(message, outbox_id)


def mark_of(message: OutboundMessage, outbox_id: int, part: int) -> dict[str, Any]:
    """Return what a post is found by: outbox row, number of the part, and a check sum of the whole text.

    The sum tells a post from one of an earlier database, which counted its rows from 1 as well.
    """
    return {"outbox": outbox_id, "part": part, "text": f"{crc32(message.text.encode(errors='replace')):08x}"}


def button_blocks(rows: Sequence[Sequence[Button]], outbox_id: int) -> list[dict[str, Any]]:
    """Return the blocks for buttons; what each carries is a token (see `channels.buttons`)."""
    blocks: list[dict[str, Any]] = []
    for row in numbered(rows):
        for start in range(0, len(row), _ROW_BUTTONS):
            elements = [
                {
                    "type": "button",
                    "action_id": button_token(outbox_id, index),
                    "value": button_token(outbox_id, index),
                    "text": {"type": "plain_text", "text": _label(button.label), "emoji": True},
                }
                for index, button in row[start : start + _ROW_BUTTONS]
            ]
            blocks.append({"type": "actions", "elements": elements})
    return blocks


def content(part: Part, buttons: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return text and blocks of a message: the same for posting and changing one."""
    blocks = [{"type": "rich_text", "elements": list(part.elements)}] if part.elements else []
    return {"text": part.fallback, "blocks": [*blocks, *buttons]}


def plain_content(part: Part, buttons: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the same without formatting, for blocks that are refused."""
    cut = [part.plain[at : at + SECTION_CHARS] for at in range(0, len(part.plain), SECTION_CHARS)]
    sections = [
        {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}
        for text in cut
        if text.strip()
    ]
    return {"text": part.fallback, "blocks": [*sections, *buttons]}


class Sender:
    """Sends through one app."""

    def __init__(self, api: WebApi, threads: Threads, language: str) -> None:
        """`language` is that of the few words of our own."""
        self._language = language
        self._api = api
        self._threads = threads

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        steps = await planned(message, progress.outbox_id)
        if not steps:
            raise SendRejected("there is nothing to send: the text is blank and no file is attached")
        done = len(progress.sent_ids)
        if not done:
            await require_something_to_send(message, limit_bytes=UPLOAD_BYTES)
        delivery = _Delivery(self._api, message.address)
        for number in range(done, len(steps)):
            step = steps[number]
            if step.files:
                platform_id = await self._share(delivery, message, step, mark_of(message, progress.outbox_id, number))
                if number == 0 and message.draft_id:
                    await delivery.drop_draft(message.draft_id)
            else:
                mark = mark_of(message, progress.outbox_id, number)
                platform_id = await delivery.put(step, mark, message.draft_id if number == 0 else "")
            self._threads.we_spoke(message.address.chat_id, message.address.thread_id, platform_id)
            await progress.sent(platform_id, more=number < len(steps) - 1)

    async def _share(self, delivery: _Delivery, message: OutboundMessage, step: Step, mark: dict[str, Any]) -> str:
        """Put the files that can go into the conversation, with a line for each that cannot."""
        contents, left_out = await read_files(step.files, limit_bytes=UPLOAD_BYTES)
        uploaded: list[dict[str, str]] = []
        for file, content in contents:
            try:
                uploaded.append(await delivery.upload(file, content))
            except SendRejected as exc:
                left_out.append(refused_there(file, exc))
                if is_all_there_is(message, file):
                    raise left_out[-1] from exc
        words = words_for(left_out, self._language)
        if uploaded:
            return await delivery.share(uploaded, words)
        (part,) = render(words, OutboundKind.NOTICE)
        return await delivery.put(Step(part=part), mark, "")


class _Delivery:
    """One message on its way; remembers what its conversation turned out not to take."""

    def __init__(self, api: WebApi, address: Address) -> None:
        self._api = api
        self._address = address
        self._thread_ts = address.thread_id

    async def put(self, step: Step, mark: dict[str, Any], draft_id: str) -> str:
        """Put text into the conversation and return the message's ts."""
        assert step.part is not None
        metadata = {"event_type": MESSAGE_EVENT, "event_payload": mark}
        shown = {**content(step.part, step.buttons), "metadata": metadata}
        bare = {**plain_content(step.part, step.buttons), "metadata": metadata}
        if draft_id and await self._finish_draft(shown, bare, draft_id):
            return draft_id
        try:
            return await self._post(shown)
        except Refused as exc:
            if exc.code not in _BLOCKS_REFUSED:
                raise
            _log.warning("blocks refused, sent as plain text", chat=self._address.key, error=str(exc))
            return await self._post(bare)

    async def _post(self, shown: dict[str, Any]) -> str:
        params = {**shown, "channel": self._address.chat_id, "unfurl_links": False, "unfurl_media": False}
        answer = await self._threaded("chat.postMessage", params)
        return str(answer.get("ts") or UNKNOWN_ID)

    async def _finish_draft(self, shown: dict[str, Any], bare: dict[str, Any], draft_id: str) -> bool:
        """Turn the draft into the final text; False when it is gone or takes no change: the text is sent anew, then."""
        where = {"channel": self._address.chat_id, "ts": draft_id}
        for number, body in enumerate((shown, bare)):
            try:
                await self._api.call("chat.update", {**where, **body})
            except Refused as exc:
                if number == 0 and exc.code in _BLOCKS_REFUSED:
                    continue
                _log.warning("draft not finished, text sent anew", chat=self._address.key, error=str(exc))
                if exc.code != "message_not_found":
                    await self.drop_draft(draft_id)
                return False
            return True
        return False

    async def drop_draft(self, draft_id: str) -> None:
        """Take a draft away that no text follows; best effort."""
        try:
            await self._api.call("chat.delete", {"channel": self._address.chat_id, "ts": draft_id})
        except ChannelError as exc:
            _log.info("draft not taken away", chat=self._address.key, error=str(exc))

    async def upload(self, file: Attachment, content: bytes) -> dict[str, str]:
        """Upload a file, which nobody sees yet; returns what `share` needs of it."""
        name = file_name(file)
        target = await self._api.call("files.getUploadURLExternal", {"filename": name, "length": len(content)})
        await self._api.upload(str(target.get("upload_url") or ""), content)
        return {"id": str(target.get("file_id") or ""), "title": name}

    async def share(self, uploaded: Sequence[dict[str, str]], words: str) -> str:
        """Put uploaded files into the conversation as one message, perhaps with words; returns the first one's id.

        https://docs.slack.dev/reference/methods/files.completeUploadExternal (read 2026-11-30): nothing is seen
        before this call.
        """
        params: dict[str, Any] = {"files": list(uploaded), "channel_id": self._address.chat_id}
        if words:
            params["initial_comment"] = fallback(words)
        await self._threaded("files.completeUploadExternal", params)
        return uploaded[0]["id"]

    async def _threaded(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Call a sending method for the thread; once more without a thread that is gone.

        Raises:
            ChannelError: mapped.
        """
        try:
            return await self._api.call(method, {**params, "thread_ts": self._thread_ts}, sends=True)
        except AccountInactive as exc:
            await self._api.identify()  # raises when it is our own account
            raise ChatGone(f"{method}: the person's account is deactivated") from exc
        except Refused as exc:
            if self._thread_ts is None or exc.code not in _THREAD_LOST:
                raise
            _log.warning("thread is gone, sent to the channel itself", chat=self._address.key, error=str(exc))
            self._thread_ts = None
            return await self._api.call(method, params, sends=True)


def file_name(file: Attachment) -> str:
    """Return the name a file is sent under."""
    return file.name or Path(file.path).name


def _labels(rows: Sequence[Sequence[Button]]) -> list[str]:
    return [button.label for row in rows for button in row]


def _label(label: str) -> str:
    label = label.strip() or "…"
    return label if len(label) <= LABEL_CHARS else label[: LABEL_CHARS - 1] + "…"
