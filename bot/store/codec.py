"""Rows to records and back: the JSON inside `body` columns and the column lists that go with it."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import orjson

from bot.messages import (
    Address,
    Attachment,
    Button,
    ChatType,
    InboundMessage,
    Origin,
    OutboundKind,
    OutboundMessage,
    Quote,
    clean_text,
)
from bot.records import CallResult, Job, JobKind, JobState, OutboxRow, QueuedMessage, SendState
from bot.schedule import Schedule

Row = tuple[Any, ...]

INBOX_COLUMNS = (
    "id, channel, account, chat_id, thread_id, message_id, variant, origin, sender_id, chat_type, text, body, "
    "received_us, lane"
)
OUTBOX_COLUMNS = (
    "id, channel, chat_id, thread_id, kind, text, body, job_id, state, attempts, uncertain, created_us, "
    "first_try_us, tried_us, sent_ids, error"
)
JOB_COLUMNS = (
    "id, channel, chat_id, thread_id, chat_type, creator_id, kind, name, text, schedule, state, next_us, "
    "created_us, runs, max_runs, catch_up, last_state, last_error, model"
)


def dumps(value: Any) -> str:
    """Return compact JSON, whatever the strings in it hold: file names and models produce lone surrogates."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # no UTF-8 form, or a number or key that only the slower encoder takes
        return json.dumps(_clean(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _attachment(item: Attachment) -> dict[str, Any]:
    pairs = ((field.name, getattr(item, field.name)) for field in fields(item))
    return {name: value for name, value in pairs if value not in ("", None)}


def inbound_body(message: InboundMessage) -> str:
    """Return what has no column of its own."""
    body: dict[str, Any] = {}
    if message.sender_name:
        body["sender_name"] = clean_text(message.sender_name)
    if message.attachments:
        body["attachments"] = [_attachment(item) for item in message.attachments]
    if message.quote is not None:
        quote = message.quote
        body["quote"] = [quote.message_id, quote.author, clean_text(quote.text), quote.is_fragment]  # no name: a role
    if message.sent_us is not None:
        body["sent_us"] = message.sent_us
    if message.reply_to:
        body["reply_to"] = message.reply_to
    if message.meta:
        body["meta"] = dict(message.meta)
    return dumps(body)


def inbox_row(row: Row) -> QueuedMessage:
    """Return the record of a row of INBOX_COLUMNS."""
    (
        row_id,
        channel,
        account,
        chat,
        thread,
        message_id,
        variant,
        origin,
        sender,
        chat_type,
        text,
        raw,
        received,
        lane,
    ) = row
    body = orjson.loads(raw)
    quote = body.get("quote")
    message = InboundMessage(
        address=Address(channel=channel, chat_id=chat, thread_id=thread),
        account=account,
        message_id=message_id,
        variant=variant,
        origin=Origin(origin),
        sender_id=sender,
        sender_name=body.get("sender_name", ""),
        chat_type=ChatType(chat_type),
        text=text,
        attachments=tuple(Attachment(**item) for item in body.get("attachments", ())),
        quote=None
        if quote is None
        else Quote(message_id=quote[0], author=quote[1], text=quote[2], is_fragment=quote[3]),
        sent_us=body.get("sent_us"),
        reply_to=body.get("reply_to", ""),
        meta=body.get("meta", {}),
        lane=lane,
    )
    return QueuedMessage(id=row_id, message=message, received_us=received)


def outbound_body(message: OutboundMessage) -> str:
    """Return what has no column of its own."""
    body: dict[str, Any] = {}
    for name in ("reply_to", "answers", "draft_id"):
        if value := getattr(message, name):
            body[name] = value
    if message.buttons:
        body["buttons"] = [[[button.label, button.data] for button in line] for line in message.buttons]
    if message.attachments:
        body["attachments"] = [_attachment(item) for item in message.attachments]
    return dumps(body)


def buttons_of(raw: str) -> tuple[tuple[Button, ...], ...]:
    """Return the rows of buttons of an outbox row's body."""
    return _buttons(orjson.loads(raw))


def _buttons(body: dict[str, Any]) -> tuple[tuple[Button, ...], ...]:
    return tuple(tuple(Button(label=label, data=data) for label, data in line) for line in body.get("buttons", ()))


def outbox_row(row: Row) -> OutboxRow:
    """Return the record of a row of OUTBOX_COLUMNS."""
    (
        row_id,
        channel,
        chat,
        thread,
        kind,
        text,
        raw,
        job_id,
        state,
        attempts,
        uncertain,
        created,
        first,
        tried,
        sent,
        error,
    ) = row
    body = orjson.loads(raw)
    message = OutboundMessage(
        address=Address(channel=channel, chat_id=chat, thread_id=thread),
        text=text,
        kind=OutboundKind(kind),
        reply_to=body.get("reply_to", ""),
        answers=body.get("answers", ""),
        draft_id=body.get("draft_id", ""),
        job_id=job_id or "",
        buttons=_buttons(body),
        attachments=tuple(Attachment(**item) for item in body.get("attachments", ())),
    )
    return OutboxRow(
        id=row_id,
        message=message,
        state=SendState(state),
        attempts=attempts,
        uncertain=uncertain,
        created_us=created,
        first_try_us=first,
        tried_us=tried,
        sent_ids=tuple(orjson.loads(sent)),
        error=error,
    )


def job_row(row: Row) -> Job:
    """Return the record of a row of JOB_COLUMNS."""
    return Job(
        id=row[0],
        address=Address(channel=row[1], chat_id=row[2], thread_id=row[3]),
        chat_type=ChatType(row[4]),
        creator_id=row[5],
        kind=JobKind(row[6]),
        name=row[7],
        text=row[8],
        schedule=Schedule.from_json(orjson.loads(row[9])),
        state=JobState(row[10]),
        next_us=row[11],
        created_us=row[12],
        runs=row[13],
        max_runs=row[14],
        catch_up=bool(row[15]),
        last_state=row[16],
        last_error=row[17],
        model=row[18],
    )


def job_values(job: Job) -> Row:
    """Return a job's values in the order of JOB_COLUMNS."""
    return (
        job.id,
        job.address.channel,
        job.address.chat_id,
        job.address.thread_id,
        job.chat_type,
        job.creator_id,
        job.kind,
        job.name,
        job.text,
        dumps(job.schedule.to_json()),
        job.state,
        job.next_us,
        job.created_us,
        job.runs,
        job.max_runs,
        int(job.catch_up),
        job.last_state,
        job.last_error,
        job.model,
    )


def call_result_json(result: CallResult) -> str:
    """Return the stored form of a call's result."""
    return dumps([result.text, result.is_error, list(result.blocks)])


def call_result(call_id: str, raw: str) -> CallResult:
    """Return a stored call result."""
    text, is_error, blocks = orjson.loads(raw)
    return CallResult(call_id=call_id, text=text, is_error=is_error, blocks=tuple(blocks))
