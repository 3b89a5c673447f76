"""The message tool: words, files and buttons beside the turn's own answer, to this chat or another."""

from __future__ import annotations

import asyncio
import mimetypes
from typing import Any

from bot.faults import fault_point
from bot.interfaces import Topic, Unit
from bot.messages import Address, Attachment, Button, OutboundKind, OutboundMessage, Replay, Risk
from bot.records import CallResult
from bot.security.workspace import PathRefused, WorkspaceView
from bot.spool import SpoolFull
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.context import RequestContext, ToolContext, current_call_id, current_request

TEXT_LIMIT_CHARS = 40_000
MEDIA_LIMIT = 10
_MEDIA_KINDS = frozenset({"image", "audio", "video"})  # what platforms show otherwise than as a file
MEDIA_LIMIT_BYTES = 50 * 1024 * 1024  # the largest upload Telegram's Bot API takes, https://core.telegram.org/bots/api


@tool_parameters(
    {
        "type": "object",
        "properties": {
            "content": {"type": "string", "description": "The text to send, Markdown.", "maxLength": TEXT_LIMIT_CHARS},
            "media": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": MEDIA_LIMIT,
                "description": "Workspace paths of files to attach.",
            },
            "buttons": {
                "type": "array",
                "maxItems": 8,
                "items": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 60}},
                "description": "Rows of button labels; pressing one sends its label back.",
            },
            "reply_to": {"type": "string", "description": "Id of a message to reply to."},
            "channel": {"type": "string", "description": "Another channel; only with chat_id."},
            "chat_id": {"type": "string", "description": "Another chat; leave out for this one."},
            "thread_id": {"type": "string", "description": "Thread or topic of that chat."},
            "progress": {
                "type": "boolean",
                "description": "True for a note on the way; your final text still follows.",
            },
        },
        "required": ["content"],
        "additionalProperties": False,
    }
)
class MessageTool(Tool):
    """Sends a message of its own, to this chat or another one, with files or buttons.

    Parameters: content (at most 40,000 characters), media (at most 10 workspace paths, 50 MiB each), buttons,
    reply_to, channel, chat_id, thread_id, progress. Files go out as they are at the call. Result: "queued" with the
    outbox id. Errors: unknown channel, missing, empty or oversized file; refused: a
    chat the sender may not reach, a path outside the workspace.
    """

    name = "message"
    description = (
        "Send an extra message, files or buttons to this chat or, where allowed, to another chat. "
        "Your final text reaches this chat by itself: do not send it twice."
    )
    risk = Risk.TALK
    replay = Replay.KEYED

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    @classmethod
    def create(cls, ctx: ToolContext) -> MessageTool:
        """See `Tool.create`."""
        return cls(ctx)

    def risk_for(self, params: dict[str, Any]) -> Risk:
        """See `Tool.risk_for`: words to this chat are talk, another chat is reach."""
        request = current_request()
        target = _target(params, request)
        return Risk.TALK if target.rate_key == request.address.rate_key else Risk.REACH

    def stands_for_answer(self, params: dict[str, Any]) -> str | None:
        """See `Tool.stands_for_answer`: a message to this same chat and thread, unless it is a note on the way."""
        request = current_request()
        if params.get("progress") or _target(params, request) != request.address:
            return None
        return str(params["content"])

    async def execute(self, **params: Any) -> ToolResult:
        """See the class."""
        request = current_request()
        target = _target(params, request)
        if params.get("channel") not in (None, request.channel) and not params.get("chat_id"):
            return ToolResult.error(
                "channel: name the chat_id there too; this chat's id means nothing on another channel"
            )
        if target.channel not in self._context.channels:
            known = ", ".join(sorted(self._context.channels)) or "none"
            return ToolResult.error(f"channel {target.channel!r} is not configured; channels: {known}")
        content = str(params["content"])
        media = params.get("media") or []
        if not content.strip() and not media:
            return ToolResult.error("content is empty and there is no media: nothing to send")
        try:
            attachments = await asyncio.to_thread(self._attachments, media, request)
        except PathRefused as exc:
            return ToolResult.refused(str(exc))
        except SpoolFull as exc:
            return ToolResult.error(f"media: {exc}; an owner sees and drops them with `dutiful outbox`")
        except OSError as exc:
            return ToolResult.error(f"media: cannot be copied for sending: {exc.strerror}")
        except ValueError as exc:
            return ToolResult.error(str(exc))
        same = target == request.address
        message = OutboundMessage(
            address=target,
            text=content,
            kind=OutboundKind.MESSAGE,
            reply_to=params.get("reply_to") or (request.reply_to if same else ""),
            buttons=tuple(
                tuple(Button(label=label, data=label) for label in row) for row in params.get("buttons") or () if row
            ),
            attachments=attachments,
        )
        call_id = current_call_id()
        fault_point("copied")

        def work(unit: Unit) -> CallResult:
            outbox_id = unit.put_outbound(message)
            where = "this chat" if same else target.key
            return CallResult(call_id=call_id, text=f"Message queued for {where} (outbox {outbox_id}).")

        result = await self._context.store.steps.once(request.turn, call_id, work)
        self._context.signal.notify(Topic.OUTBOUND)
        return ToolResult(result.text, is_error=result.is_error)

    def _attachments(self, paths: list[str], request: RequestContext) -> tuple[Attachment, ...]:
        """Return the files, checked inside the workspace and copied as they are now.

        Raises:
            PathRefused, OSError, SpoolFull, ValueError: one cannot go; no copies are left.
        """
        view = self._context.room.files.view(request)
        found: list[Attachment] = []
        try:
            found.extend(self._attachment(path, view) for path in paths)
        except BaseException:
            self._context.room.spool.forget(found)
            raise
        return tuple(found)

    def _attachment(self, path: str, view: WorkspaceView) -> Attachment:
        with view.open_read(path) as file:
            size = file.seek(0, 2)
            if size > MEDIA_LIMIT_BYTES:
                raise ValueError(f"media: {path} has {size:,} bytes, the limit is {MEDIA_LIMIT_BYTES:,}")
            if size == 0:
                raise ValueError(f"media: {path} is empty; chat platforms take no empty files")
            copy, size = self._context.room.spool.keep(file, limit_bytes=MEDIA_LIMIT_BYTES)
        place = view.resolve(path)
        real, root = place.path, place.base
        if root == view.root.parent:  # of all chats: the one it belongs to
            root /= place.parts[0]
        mime = mimetypes.guess_type(real.name)[0] or "application/octet-stream"
        family = mime.partition("/")[0]
        return Attachment(
            kind=family if family in _MEDIA_KINDS else "document",
            name=real.name,
            mime=mime,
            size_bytes=size,
            path=str(real),
            root=str(root),
            copy=str(copy),
        )


def _target(params: dict[str, Any], request: RequestContext) -> Address:
    """Return where the message goes: this address, completed by what the call names."""
    channel = params.get("channel") or request.channel
    chat_id = params.get("chat_id") or request.chat_id
    here = channel == request.channel and chat_id == request.chat_id
    thread = params.get("thread_id") or (request.thread_id if here else None)
    return Address(channel=channel, chat_id=str(chat_id), thread_id=None if thread is None else str(thread))
