"""The Bot API methods: what each accepts, does and returns.

Source: https://core.telegram.org/bots/api (read 2026-11-29). A method is a function of the world and the
request; it returns the `result` or raises a refusal. HTTP, faults and getUpdates are the server's business.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tests.platforms.bot_api_objects import Chat, Json, RefusalError, bad_request, file_object, user
from tests.platforms.bot_api_rules import check_markup, final_text
from tests.platforms.bot_api_world import World

MAX_PHOTO_BYTES = 10 * 1024 * 1024
MAX_DOWNLOAD_BYTES = 20 * 1024 * 1024
GENERAL_TOPIC = 1
_ACTIONS = frozenset(
    {
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    }
)
_FOLDERS = {"photo": "photos", "document": "documents", "voice": "voice", "audio": "music", "video": "videos"}
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)


@dataclass(slots=True)
class Request:
    """One call: parameters with JSON fields parsed, uploaded files by field as (name, mime, bytes)."""

    params: Json
    files: Mapping[str, tuple[str, str, bytes]] = field(default_factory=dict)
    made: list[Json] = field(default_factory=list)  # the messages this call made or changed

    def integer(self, name: str) -> int | None:
        """Return an integer parameter, None when it is missing or not a number."""
        try:
            return int(self.params[name])
        except (KeyError, TypeError, ValueError):
            return None

    def reply_to(self) -> int | None:
        """Return the id of the message to reply to, in the new or the old way of saying it."""
        reply = self.params.get("reply_parameters")
        value = reply.get("message_id") if isinstance(reply, dict) else self.params.get("reply_to_message_id")
        return None if value in {None, ""} else int(value)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a send goes: chat, topic, message to reply to."""

    chat: Chat
    thread_id: int | None
    reply_to: int | None


def send_message(world: World, request: Request) -> Json:
    place = _destination(world, request)
    text, entities = final_text(request.params, "text")
    return _post(world, request, place, {"text": text, **_some("entities", entities)})


def _send_file(kind: str) -> Callable[[World, Request], Json]:
    def send(world: World, request: Request) -> Json:
        place = _destination(world, request)
        body = {kind: _file(world, request, kind, request.params.get(kind), kind), **_caption(request.params)}
        return _post(world, request, place, body)

    return send


def send_media_group(world: World, request: Request) -> list[Json]:
    place = _destination(world, request)
    media = request.params.get("media")
    if not isinstance(media, list) or not 2 <= len(media) <= 10:
        raise bad_request("media group must include 2-10 items")
    kinds = {item.get("type") for item in media}
    if not kinds <= {"photo", "video"} and len(kinds) > 1:
        raise bad_request("this type of message can't be mixed with other types in a media group")
    bodies = []
    for item in media:
        kind = item.get("type")
        if kind not in {"photo", "video", "document", "audio"}:
            raise bad_request("can't parse InputMedia: Wrong type")
        bodies.append({kind: _file(world, request, kind, item.get("media"), kind), **_caption(item)})
    group = {"media_group_id": str(world.serial())}
    request.params.pop("reply_markup", None)  # this method has no buttons
    return [_post(world, request, place, {**body, **group}) for body in bodies]


def edit_message_text(world: World, request: Request) -> Json:
    chat, message = _own_message(world, request, "edit")
    text, entities = final_text(request.params, "text")
    if "text" not in message:
        raise bad_request("there is no text in the message to edit")
    body: Json = {"text": text, "entities": entities}
    return _change(world, request, chat, message, body)


def edit_message_reply_markup(world: World, request: Request) -> Json:
    chat, message = _own_message(world, request, "edit")
    same: Json = {key: message[key] for key in ("text", "entities") if key in message}
    return _change(world, request, chat, message, same)


def delete_message(world: World, request: Request) -> bool:
    chat = world.chat_for_bot(request.params.get("chat_id"))
    message = chat.messages.get(request.integer("message_id") or 0)
    if message is None:
        raise bad_request("message to delete not found")
    if chat.type != "private" and not world.is_own(message):
        raise bad_request("message can't be deleted")
    request.made.append(message)
    world.remove(chat, message["message_id"])
    return True


def send_chat_action(world: World, request: Request) -> bool:
    chat = world.chat_for_bot(request.params.get("chat_id"))
    thread_id = request.integer("message_thread_id")
    # Only here is the General topic named by its id; sends refuse it.
    if thread_id != GENERAL_TOPIC:
        _check_thread(chat, thread_id)
    if request.params.get("action") not in _ACTIONS:
        raise bad_request("wrong parameter action in request")
    return True


def set_message_reaction(world: World, request: Request) -> bool:
    chat = world.chat_for_bot(request.params.get("chat_id"))
    message_id = request.integer("message_id") or 0
    if message_id not in chat.messages:
        raise bad_request("message to react not found")
    world.reactions[chat.id, message_id] = request.params.get("reaction") or []
    return True


def answer_callback_query(world: World, request: Request) -> bool:
    query_id = str(request.params.get("callback_query_id", ""))
    if query_id not in world.open_queries:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    world.open_queries.discard(query_id)
    world.answered_queries[query_id] = request.params
    return True


def set_my_commands(world: World, request: Request) -> bool:
    commands = request.params.get("commands")
    if not isinstance(commands, list) or len(commands) > 100:
        raise bad_request("can't parse commands: expected an Array of at most 100 BotCommand")
    for command in commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", str(command.get("command", ""))):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    world.commands = commands
    return True


def get_file(world: World, request: Request) -> Json:
    file_id = str(request.params.get("file_id", ""))
    stored = world.files.get(file_id.removesuffix("-s"))
    if stored is None:
        raise bad_request("invalid file_id")
    path, _, size_bytes = stored
    if size_bytes > MAX_DOWNLOAD_BYTES:
        raise bad_request("file is too big")
    return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": size_bytes, "file_path": path}


def get_chat(world: World, request: Request) -> Json:
    chat = world.chat_for_bot(request.params.get("chat_id"))
    gifts = (
        "unlimited_gifts",
        "limited_gifts",
        "unique_gifts",
        "premium_subscription",
        "gifts_from_channels",
    )
    return {
        **chat.to_json(),
        "accent_color_id": 1,
        "max_reaction_count": 11,
        "accepted_gift_types": dict.fromkeys(gifts, False),
    }


def get_chat_member(world: World, request: Request) -> Json:
    chat = world.chat_for_bot(request.params.get("chat_id"))
    user_id = request.integer("user_id")
    people = {m["from"]["id"]: m["from"] for m in chat.messages.values()} | {world.bot["id"]: world.bot}
    if user_id is None or user_id not in people:
        raise bad_request("member not found")
    return {
        "status": "member",
        "user": user(user_id, people[user_id]["first_name"], is_bot=people[user_id]["is_bot"]),
    }


def unknown_method(world: World, request: Request) -> NoReturn:
    raise RefusalError(404, "Not Found: method not found")


METHODS: dict[str, Callable[[World, Request], Any]] = {
    "getme": lambda world, _: world.bot,
    "sendmessage": send_message,
    "sendmediagroup": send_media_group,
    "editmessagetext": edit_message_text,
    "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message,
    "sendchataction": send_chat_action,
    "setmessagereaction": set_message_reaction,
    "answercallbackquery": answer_callback_query,
    "setmycommands": set_my_commands,
    "getmycommands": lambda world, _: world.commands,
    "getfile": get_file,
    "getchat": get_chat,
    "getchatmember": get_chat_member,
    **{f"send{kind}": _send_file(kind) for kind in (*_FOLDERS, "animation")},
}


def _destination(world: World, request: Request) -> Destination:
    """Return where a send goes, refusing what does not exist."""
    chat = world.chat_for_bot(request.params.get("chat_id"))
    thread_id = request.integer("message_thread_id")
    _check_thread(chat, thread_id)
    reply_to = request.reply_to()
    if reply_to is not None and reply_to not in chat.messages:
        lenient = (request.params.get("reply_parameters") or request.params).get("allow_sending_without_reply")
        if str(lenient).lower() != "true":
            raise bad_request("message to be replied not found")
        reply_to = None
    if reply_to is not None:
        quote = (request.params.get("reply_parameters") or {}).get("quote")
        if quote and quote not in world.texts[chat.id][reply_to]:
            raise bad_request("QUOTE_TEXT_INVALID")
    return Destination(chat, thread_id, reply_to)


def _check_thread(chat: Chat, thread_id: int | None) -> None:
    if thread_id is not None and thread_id not in chat.topics:
        raise bad_request("message thread not found")


def _post(world: World, request: Request, place: Destination, body: Json) -> Json:
    markup = request.params.get("reply_markup")
    check_markup(markup)
    if isinstance(markup, dict) and "inline_keyboard" in markup:
        body["reply_markup"] = markup
    sender = user(world.bot["id"], world.bot["first_name"], username=world.bot["username"], is_bot=True)
    message = world.new_message(place.chat, sender, body, thread_id=place.thread_id, reply_to=place.reply_to)
    request.made.append(message)
    return message


def _own_message(world: World, request: Request, verb: str) -> tuple[Chat, Json]:
    chat = world.chat_for_bot(request.params.get("chat_id"))
    message = chat.messages.get(request.integer("message_id") or 0)
    if message is None:
        raise bad_request(f"message to {verb} not found")
    if not world.is_own(message):
        raise bad_request(f"message can't be {verb}ed")
    return chat, message


def _change(world: World, request: Request, chat: Chat, message: Json, body: Json) -> Json:
    markup = request.params.get("reply_markup")
    check_markup(markup)
    changed = {key: value for key, value in message.items() if key not in {"text", "entities", "reply_markup"}}
    changed.update({key: value for key, value in body.items() if value})
    if isinstance(markup, dict) and markup.get("inline_keyboard"):
        changed["reply_markup"] = markup
    if all(changed.get(key) == message.get(key) for key in ("text", "entities", "reply_markup")):
        raise bad_request(_NOT_MODIFIED)
    changed["edit_date"] = int(time.time())
    world.put(chat, changed)
    request.made.append(changed)
    return changed


def _caption(params: Json) -> Json:
    if not params.get("caption"):
        return {}
    text, entities = final_text(params, "caption")
    return {"caption": text, **_some("caption_entities", entities)}


def _some(key: str, value: list[Json]) -> Json:
    return {key: value} if value else {}


def _file(world: World, request: Request, kind: str, given: Any, field_name: str) -> Any:
    """Return the file object for an upload, `attach://` reference or known file id."""
    name = str(given or "")
    upload = request.files.get(name.removeprefix("attach://")) if name else request.files.get(field_name)
    if upload is not None:
        filename, mime, content = upload
        if not content:
            raise bad_request("file must be non-empty")
        if kind == "photo" and len(content) > MAX_PHOTO_BYTES:
            raise RefusalError(413, "Request Entity Too Large")
        file_id = world.add_file(content, f"{_FOLDERS.get(kind, kind)}/{filename}")
        return file_object(kind, file_id, filename, mime, len(content))
    if not name:
        raise bad_request(f"there is no {kind} in the request")
    stored = world.files.get(name)
    if stored is None:
        raise bad_request("wrong file identifier/HTTP URL specified")
    path, _, size_bytes = stored
    return file_object(kind, name, path.rpartition("/")[2], "application/octet-stream", size_bytes)
