"""Sending one outbound message: what calls it takes, in which order, and what to do when one is refused."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError, ChatGone, SendRejected
from bot.interfaces import SendProgress
from bot.log import get_logger
from bot.messages import Address, Attachment, Button, OutboundMessage
from channels.buttons import button_token, numbered
from channels.discord.config import Timing
from channels.discord.errors import (
    INVALID_FORM,
    NO_HISTORY,
    THREAD_ARCHIVED,
    TOO_LARGE,
    UNKNOWN_MESSAGE,
    Refused,
    ServerTrouble,
)
from channels.discord.interactions import OpenAnswers
from channels.discord.places import target_id
from channels.discord.rendering import TEXT_LIMIT, render
from channels.discord.threads import open_thread, thread_name
from channels.files import LEFT_OUT_UNITS, read_files, refused_there, require_something_to_send, with_words
from channels.text import utf16_length

if TYPE_CHECKING:  # importing the SDK costs 0.25 s; here it only names types
    from channels.discord.api import Upload

UPLOAD_BYTES = 20 * 1024 * 1024
"""Largest file a bot may send (https://docs.discord.com/developers/reference#uploading-files, read 2026-11-30)."""

FILES_LIMIT = 10
BUTTONS_IN_ROW = 5
ROWS_LIMIT = 5
LABEL_CHARS = 80
"""Limits of one message (https://docs.discord.com/developers/components/reference, read 2026-11-30)."""

UNKNOWN_ID = "unknown"
"""Stands for the id of a message that a server took without telling one: sent is sent."""

PARTS_IN_CHANNEL = 3
"""Longer answers go on in a thread."""

_NONCE_CHARS = 25
_EDIT_TRIES = 3
LONG_CHARS = 4_000  # rendering more takes over 10 ms, which must not stall the loop
_NOBODY: dict[str, Any] = {"parse": []}  # no text of ours may ring anybody's phone

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

_NOT_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One message to be put into the chat: text, files, or both."""

    text: str = ""
    files: tuple[Attachment, ...] = ()


def plan(message: OutboundMessage) -> list[Step]:
    """Return the steps of a message, the same ones each time: a resumed send skips those already done.

    Text that fits goes with the first files; otherwise text goes first, files follow. So they do when the first file is
    a voice: it reads the text aloud, and must not keep it from arriving.
    """
    texts = render(message.text, message.kind)
    files = message.attachments
    groups = [files[at : at + FILES_LIMIT] for at in range(0, len(files), FILES_LIMIT)]
    fits = len(texts) == 1 and utf16_length(texts[0]) <= TEXT_LIMIT - LEFT_OUT_UNITS
    if groups and fits and not message.draft_id and files[0].kind != "voice":
        return [Step(text=texts[0], files=groups[0]), *(Step(files=group) for group in groups[1:])]
    return [Step(text=text) for text in texts] + [Step(files=group) for group in groups]


def components(rows: Sequence[Sequence[Button]], outbox_id: int) -> list[dict[str, Any]]:
    """Return the rows of buttons; too long ones are broken.

    Raises:
        SendRejected: there are more buttons than a message can hold.
    """
    made = [row[at : at + BUTTONS_IN_ROW] for row in numbered(rows) for at in range(0, len(row), BUTTONS_IN_ROW)]
    if len(made) > ROWS_LIMIT:
        raise SendRejected(f"{len(made)} rows of buttons, Discord shows up to {ROWS_LIMIT}")
    return [
        {
            "type": 1,
            "components": [
                {
                    "type": 2,
                    "style": 2,
                    "label": button.label[:LABEL_CHARS] or "…",
                    "custom_id": button_token(outbox_id, index),
                }
                for index, button in row
            ],
        }
        for row in made
    ]


def nonce(outbox_id: int, number: int, address: Address, step: Step) -> str:
    """Return the mark of part `number` (from 0) of an outbox row: at most 25 characters.

    What is sent, and where, is part of it: an installation begun anew counts from 1 again, and the platform would
    still know the numbers of the one before.
    """
    said = "\0".join((address.key, step.text, *(file.name or file.path for file in step.files)))
    mark = f"{outbox_id}-{number}-{hashlib.sha256(said.encode(errors='replace')).hexdigest()}"
    return mark[:_NONCE_CHARS]


class Sender:
    """Sends through one bot."""

    def __init__(self, call: Caller, timing: Timing, answers: OpenAnswers, *, threads: bool, language: str) -> None:
        """`threads`: whether long answers in a server's channel go on in a thread; `language`: of our own words."""
        self._call = call
        self._timing = timing
        self._answers = answers
        self._threads = threads
        self._stuck: Counter[str] = Counter()  # drafts that could not be finished, and how often
        self._language = language

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        steps = await planned(message)
        if not steps:
            raise SendRejected("there is nothing to send: the text is blank and no file is attached")
        buttons = components(message.buttons, progress.outbox_id)
        if not progress.sent_ids:
            await require_something_to_send(message, limit_bytes=UPLOAD_BYTES)
        delivery = _Delivery(self._call, self._timing, self._answers, message, self._stuck)
        in_thread = self._threads and goes_on_in_thread(message, steps)
        for number in range(len(progress.sent_ids), len(steps)):
            body: dict[str, Any] = {"content": steps[number].text, "allowed_mentions": _NOBODY}
            if number == len(steps) - 1 and buttons:
                body["components"] = buttons
            if in_thread and number > 0:
                await delivery.go_to_thread(steps[0].text)
            mark = nonce(progress.outbox_id, number, message.address, steps[number])
            try:
                platform_id = await self._perform(delivery, body, steps[number], number, mark)
            except ChatGone as exc:
                raise await self._within_its_chat(message.address, exc) from exc
            await progress.sent(platform_id, more=number < len(steps) - 1)

    async def _perform(self, delivery: _Delivery, body: dict[str, Any], step: Step, number: int, mark: str) -> str:
        """Put one step into the chat with the files that can go, and a line for each that cannot."""
        contents, left_out = await read_files(step.files, limit_bytes=UPLOAD_BYTES)
        while True:
            shown = {**body, "content": with_words(step.text, left_out, self._language)}
            try:
                return await delivery.perform(shown, _uploads(contents), number, mark)
            except Refused as exc:
                if exc.code != TOO_LARGE and exc.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                    raise
                if not contents or (len(contents) == 1 and not shown["content"]):
                    raise
                # What it takes depends on the server, and counts for all files together.
                largest = max(contents, key=lambda item: len(item[1]))
                contents.remove(largest)
                left_out.append(refused_there(largest[0], exc))
                _log.warning("file left out of a message", error=str(exc))

    async def _within_its_chat(self, address: Address, exc: ChatGone) -> ChannelError:
        """Return what a refusal means for the chat: where only a thread is gone, its channel lives on."""
        if address.thread_id is None:
            return exc
        try:
            await self._call("GET", "/channels/{channel_id}", channel_id=address.chat_id, timeout_s=self._timing.call_s)
        except ChannelError:
            return exc
        return SendRejected(f"in this thread: {exc}")


def goes_on_in_thread(message: OutboundMessage, steps: Sequence[Step]) -> bool:
    """Say whether an answer is long enough for a thread of its own, and answers something in a channel.

    In private nothing is replied to, and a thread has no threads.
    """
    return len(steps) > PARTS_IN_CHANNEL and message.reply_to.isdecimal() and message.address.thread_id is None


async def planned(message: OutboundMessage) -> list[Step]:
    """Return the plan; a long one is made in a thread."""
    return await asyncio.to_thread(plan, message) if len(message.text) > LONG_CHARS else plan(message)


def _uploads(contents: Sequence[tuple[Attachment, bytes]]) -> list[Upload]:
    if not contents:
        return []
    from channels.discord.api import Upload  # loaded with the client by now

    return [Upload(name=file.name or Path(file.path).name, content=content) for file, content in contents]


class _Delivery:
    """One message on its way; remembers what its chat turned out not to take."""

    def __init__(
        self, call: Caller, timing: Timing, answers: OpenAnswers, message: OutboundMessage, stuck: Counter[str]
    ) -> None:
        """`stuck` counts how often which draft could not be finished; it outlives the delivery."""
        self._stuck = stuck
        self._call = call
        self._timing = timing
        self._answers = answers
        self._message = message
        self._channel_id = target_id(message.address)
        self._in_thread = False

    async def go_to_thread(self, first_text: str) -> None:
        """Open a thread on the message that is answered, or find it open; without one the channel has to do."""
        if self._in_thread:
            return
        self._in_thread = True
        question_id = self._message.reply_to
        if await open_thread(self._call, self._timing, self._message.address, question_id, thread_name(first_text)):
            self._channel_id = question_id  # a message's thread has its id

    async def perform(self, body: dict[str, Any], files: Sequence[Upload], number: int, mark: str) -> str:
        """Put one step into the chat and return the platform's message id."""
        message = self._message
        if number == 0:
            if message.draft_id:
                edited = await self._finish_draft(body, message.draft_id)
                if edited:
                    self._answers.close(message.reply_to)
                    return message.draft_id
            answered = await fill_in(
                self._call, self._timing, self._answers, reply_to=message.reply_to, body=body, files=files
            )
            if answered is not None:
                return answered
            if message.reply_to.isdecimal():
                body["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
        body |= {"nonce": mark, "enforce_nonce": True}
        try:
            return await self._post(body, files)
        except Refused as exc:
            about_reply = exc.code == NO_HISTORY or (exc.code == INVALID_FORM and "message_reference" in str(exc))
            if not about_reply or body.pop("message_reference", None) is None:
                raise
            _log.info("reply mark refused, sent without", chat=message.address.key, error=str(exc))
            return await self._post(body, files)

    async def _post(self, body: dict[str, Any], files: Sequence[Upload]) -> str:
        try:
            answer = await self._call(
                "POST",
                "/channels/{channel_id}/messages",
                channel_id=self._channel_id,
                json=body,
                files=files,
                timeout_s=self._timing.upload_s if files else self._timing.call_s,
            )
        except Refused as exc:
            if exc.code or exc.status not in _NOT_THERE:
                raise
            # Discord gives a code with each of these: it was never asked, and can be when its proxy knows it again.
            raise ChannelError(str(exc)) from exc
        return message_id_of(answer)

    async def _finish_draft(self, body: dict[str, Any], draft_id: str) -> bool:
        """Turn the draft into the final text; False when there is no draft any more."""
        changes = {"components": [], **body}
        try:
            try:
                await edit_message(self._call, self._timing, self._channel_id, draft_id, changes)
            except Refused as exc:
                if exc.code != THREAD_ARCHIVED:
                    raise
                # Somebody put the thread away meanwhile. A new message would open it again, an edit does not.
                await self._open_again()
                await edit_message(self._call, self._timing, self._channel_id, draft_id, changes)
        except (Refused, ServerTrouble) as exc:
            if isinstance(exc, ServerTrouble) and not self._gives_up(draft_id):
                raise
            _log.warning("draft not finished, text sent anew", chat=self._message.address.key, error=str(exc))
            if not isinstance(exc, Refused) or exc.code != UNKNOWN_MESSAGE:
                await self._drop_draft(draft_id)
            return False
        self._stuck.pop(draft_id, None)
        return True

    def _gives_up(self, draft_id: str) -> bool:
        """Say whether a draft was tried to finish often enough: a platform without edits still takes messages."""
        self._stuck[draft_id] += 1
        if self._stuck[draft_id] < _EDIT_TRIES:
            return False
        del self._stuck[draft_id]
        return True

    async def _drop_draft(self, draft_id: str) -> None:
        """Take a draft away that the text does not follow in; best effort."""
        try:
            await self._call(
                "DELETE",
                "/channels/{channel_id}/messages/{message_id}",
                channel_id=self._channel_id,
                message_id=draft_id,
                timeout_s=self._timing.place_s,
            )
        except ChannelError as exc:
            _log.info("draft not taken away", chat=self._message.address.key, error=str(exc))

    async def _open_again(self) -> None:
        await self._call(
            "PATCH",
            "/channels/{channel_id}",
            channel_id=self._channel_id,
            json={"archived": False},
            timeout_s=self._timing.call_s,
        )


async def edit_message(call: Caller, timing: Timing, channel_id: str, message_id: str, changes: Any) -> None:
    """Change one of our messages.

    Raises:
        ChannelError: `Refused` with UNKNOWN_MESSAGE when it is gone.
    """
    await call(
        "PATCH",
        "/channels/{channel_id}/messages/{message_id}",
        channel_id=channel_id,
        message_id=message_id,
        json=changes,
        timeout_s=timing.call_s,
    )


async def fill_in(
    call: Caller, timing: Timing, answers: OpenAnswers, *, reply_to: str, body: Any, files: Sequence[Upload] = ()
) -> str | None:
    """Put text where a slash command's "is thinking" stands; None when that cannot be done (any more).

    Raises:
        ChannelError: it may work later; the call is one that can be repeated.
    """
    token = await answers.token_for(reply_to)
    if token is None:
        return None
    if files:  # the message then has these and no others: an edit that is repeated would add them once more
        body = {**body, "attachments": [{"id": number, "filename": file.name} for number, file in enumerate(files)]}
    try:
        answer = await call(
            "PATCH",
            "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
            webhook_id=answers.application_id,
            webhook_token=token,
            json=body,
            files=files,
            timeout_s=timing.upload_s if files else timing.call_s,
        )
    except (Refused, ChatGone) as exc:
        _log.info("command answered by an ordinary message", error=str(exc))
        answers.close(reply_to)
        return None
    answers.close(reply_to)
    return message_id_of(answer)


def message_id_of(answer: Any) -> str:
    """Return the id of the message in a call's answer."""
    return str(answer["id"]) if isinstance(answer, dict) and "id" in answer else UNKNOWN_ID
