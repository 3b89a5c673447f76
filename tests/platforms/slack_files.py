"""The files.* methods: an upload in three steps, and looking a file up.

Source: https://docs.slack.dev/messaging/working-with-files and /reference/methods/files.completeUploadExternal
(read 2026-11-30).
"""

from __future__ import annotations

from tests.platforms.slack_chat import settle_status, thread_of, writable
from tests.platforms.slack_objects import BOT_USER_ID, Json, RefusalError, StoredFile, bot_fields
from tests.platforms.slack_request import Request
from tests.platforms.slack_rules import read_blocks
from tests.platforms.slack_world import World

MAX_CHANNELS = 100


def get_upload_url(world: World, request: Request) -> Json:
    name = request.required("filename")
    length = request.string("length")
    if not length.isdecimal() or int(length) == 0:
        raise RefusalError("missing_argument")
    if len(request.string("alt_txt")) > 1_000:
        raise RefusalError("alt_txt_too_large")
    stored = world.add_file(name=name, user=BOT_USER_ID, content=None, size_bytes=int(length))
    return {"upload_url": f"{world.origin}/upload/v1/{stored.id}", "file_id": stored.id}


def complete_upload(world: World, request: Request) -> Json:
    wanted = request.items("files")
    if not wanted:
        raise RefusalError("invalid_arguments", messages=("missing required field: files",))
    stored = [_uploaded(world, item) for item in wanted]
    channels = request.items("channels") or request.items("channel_id")
    if len(channels) > MAX_CHANNELS:
        raise RefusalError("channels_limit_exceeded")
    comment = request.string("initial_comment")
    blocks = None if comment else read_blocks(request.params.get("blocks"))
    if any(block["type"] == "markdown" for block in blocks or []):
        raise RefusalError("internal_error")  # what the platform answers: slackapi/python-slack-sdk#1756
    places = [writable(world, str(channel)) for channel in channels]
    threads = [thread_of(place, request.string("thread_ts")) for place in places]
    for item, file in zip(wanted, stored, strict=True):
        file.title = str(item.get("title") or file.name)
        file.complete = True
    for place, thread_ts in zip(places, threads, strict=True):
        files = [file.to_json(world.origin) for file in stored]
        body = bot_fields() | {"subtype": "file_share", "text": comment, "upload": False, "files": files}
        if blocks:
            body["blocks"] = blocks
        message = world.put(place, body, thread_ts=thread_ts)
        world.share(place, message, stored)
        settle_status(world, place.id, thread_ts)
        request.shared.append(message["ts"])
    # The platform shares in the background: its answer does not say where yet.
    return {"files": [file.to_json(world.origin) | {"shares": {}} for file in stored]}


def info(world: World, request: Request) -> Json:
    stored = world.files.get(request.required("file", "file_not_found"))
    if stored is None or not stored.complete:
        raise RefusalError("file_not_found")
    return {"file": stored.to_json(world.origin) | {"shares": stored.shares_json()}, "comments": []}


def _uploaded(world: World, item: object) -> StoredFile:
    stored = world.files.get(str(item.get("id"))) if isinstance(item, dict) else None
    if stored is None or stored.content is None or stored.user != BOT_USER_ID:
        raise RefusalError("file_not_found")
    return stored
