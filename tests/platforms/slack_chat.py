"""The chat.* methods: posting, changing and deleting messages.

Source: https://docs.slack.dev/reference/methods/chat.postMessage and its neighbours (read 2026-11-30). What an app
sends in `client_msg_id` is ignored: it is no documented argument.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.slack_objects import (
    BOT_USER_ID,
    Conversation,
    Ephemeral,
    Json,
    Kind,
    RefusalError,
    block_text,
    bot_fields,
)
from tests.platforms.slack_request import Request
from tests.platforms.slack_rules import MAX_MARKDOWN, MAX_TEXT, MAX_UPDATE_BYTES, read_blocks, read_metadata
from tests.platforms.slack_world import World


def post_message(world: World, request: Request) -> Json:
    conversation = writable(world, request.required("channel", "channel_not_found"))
    thread_ts = thread_of(conversation, request.string("thread_ts"))
    body = bot_fields() | _content(request)
    metadata = read_metadata(request.params.get("metadata"))
    if metadata:
        body["metadata"] = metadata
    if request.flag("reply_broadcast") and thread_ts is not None:
        body["subtype"] = "thread_broadcast"
    message = world.put(conversation, body, thread_ts=thread_ts)
    settle_status(world, conversation.id, thread_ts)
    request.ts = message["ts"]
    return {"channel": conversation.id, "ts": message["ts"], "message": message}


def post_ephemeral(world: World, request: Request) -> Json:
    conversation = writable(world, request.required("channel", "channel_not_found"))
    user_id = request.required("user", "invalid_arguments")
    if user_id not in conversation.members:
        raise RefusalError("user_not_in_channel")
    content = _content(request)
    request.ts = world.new_ts()
    world.ephemerals.append(
        Ephemeral(
            channel=conversation.id,
            user=user_id,
            text=content["text"],
            blocks=tuple(content.get("blocks", ())),
            thread_ts=request.string("thread_ts") or None,
        )
    )
    return {"message_ts": request.ts}


def update(world: World, request: Request) -> Json:
    conversation = world.joined(request.required("channel", "channel_not_found"))
    before = _own(world, conversation, request, "cant_update_message")
    if conversation.archived:
        raise RefusalError("is_inactive")
    if len(request.string("text").encode()) > MAX_UPDATE_BYTES:
        raise RefusalError("msg_too_long")
    content = _content(request)
    changed = {key: value for key, value in before.items() if key not in {"blocks", "edited"}} | content
    if "blocks" not in content:
        changed["edited"] = {"user": BOT_USER_ID, "ts": world.new_ts()}
    if "metadata" in request.params:
        metadata = read_metadata(request.params["metadata"])
        changed.pop("metadata", None)
        if metadata:
            changed["metadata"] = metadata
    world.change(conversation, before["ts"], changed)
    request.ts = before["ts"]
    return {"channel": conversation.id, "ts": before["ts"], "text": changed["text"], "message": changed}


def delete(world: World, request: Request) -> Json:
    conversation = world.joined(request.required("channel", "channel_not_found"))
    message = _own(world, conversation, request, "cant_delete_message")
    world.remove(conversation, message["ts"])
    request.ts = message["ts"]
    return {"channel": conversation.id, "ts": message["ts"]}


def get_permalink(world: World, request: Request) -> Json:
    conversation = world.visible(request.required("channel", "channel_not_found"))
    ts = request.required("message_ts", "message_not_found")
    if ts not in conversation.messages:
        raise RefusalError("message_not_found")
    link = f"https://loopback.slack.com/archives/{conversation.id}/p{ts.replace('.', '')}"
    return {"channel": conversation.id, "permalink": link}


def writable(world: World, channel: str) -> Conversation:
    """Return the conversation a message goes to; a person's id stands for the DM with that person.

    Raises:
        RefusalError: channel_not_found, not_in_channel, is_archived, restricted_action.
    """
    if channel.startswith(("U", "W")):
        person = world.people.get(channel)
        if person is None or person.deleted:
            raise RefusalError("channel_not_found")
        channel = world.im_with(channel).id
    conversation = world.joined(channel)
    if conversation.archived:
        raise RefusalError("is_archived")
    if conversation.restricted:
        raise RefusalError("restricted_action")
    return conversation


def thread_of(conversation: Conversation, ts: str) -> str | None:
    """Return the thread a message goes to.

    A reply's ts is refused although the platform only warns of it: what it makes of it is not defined.

    Raises:
        RefusalError: thread_not_found, cannot_reply_to_message.
    """
    if not ts:
        return None
    parent = conversation.messages.get(ts)
    if parent is None:
        raise RefusalError("thread_not_found")
    if parent.get("thread_ts", ts) != ts:
        raise RefusalError("cannot_reply_to_message")
    return ts


def settle_status(world: World, channel: str, thread_ts: str | None) -> None:
    """A message takes the assistant's status away."""
    if thread_ts is not None:
        mine = [status for c, t, status in world.statuses if (c, t) == (channel, thread_ts)]
        if mine and mine[-1]:
            world.statuses.append((channel, thread_ts, ""))


def answer_response_url(world: World, key: str, body: Json) -> None:
    """Carry out what an app posted to a response URL.

    https://docs.slack.dev/interactivity/handling-user-interaction#message_responses (read 2026-11-30)

    Raises:
        RefusalError: used_url (unknown or worn out), no_text, and what blocks may be refused for.
    """
    if key not in world.response_urls:
        raise RefusalError("used_url")
    channel, user_id, ts = world.response_urls[key]
    conversation = world.conversations[channel]
    if body.get("delete_original"):
        world.remove(conversation, ts)
        return
    content = _content(Request(body))
    if body.get("replace_original") and ts:
        world.change(conversation, ts, {**conversation.messages[ts], "blocks": [], **content})
    elif body.get("response_type") == "in_channel":
        world.put(conversation, bot_fields() | content, thread_ts=body.get("thread_ts"))
    else:
        world.ephemerals.append(
            Ephemeral(
                channel=channel,
                user=user_id,
                text=content["text"],
                blocks=tuple(content.get("blocks", ())),
                thread_ts=body.get("thread_ts"),
            )
        )


def _content(request: Request) -> Json:
    """Return text and blocks of a message as it will be stored."""
    blocks = read_blocks(request.params.get("blocks"))
    text = request.string("text")
    markdown = request.string("markdown_text")
    if markdown:
        if text or blocks:
            raise RefusalError("markdown_text_conflict")
        if len(markdown) > MAX_MARKDOWN:
            raise RefusalError("msg_too_long")
        text, blocks = markdown, [{"type": "markdown", "text": markdown, "block_id": "b0"}]
    if not text and not blocks and not request.params.get("attachments"):
        raise RefusalError("no_text")
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT]
        request.warnings.append("message_truncated")
    content: Json = {"text": text or "\n".join(filter(None, map(block_text, blocks or [])))}
    if blocks:
        content["blocks"] = blocks
    return content


def _own(world: World, conversation: Conversation, request: Request, otherwise: str) -> dict[str, Any]:
    message = conversation.messages.get(request.required("ts", "message_not_found"))
    if message is None or message.get("subtype") == "tombstone":
        raise RefusalError("message_not_found")
    if not world.is_own(message):
        raise RefusalError(otherwise)
    return message


def scope_of_history(kind: Kind) -> str:
    """Return the scope that reading such a conversation takes."""
    names = {Kind.IM: "im", Kind.CHANNEL: "channels", Kind.GROUP: "groups", Kind.MPIM: "mpim"}
    return f"{names[kind]}:history"
