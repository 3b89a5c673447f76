"""The Slack methods: the table of all, with the scopes they take, and those about people, reactions and status.

Source: https://docs.slack.dev/reference/methods (read 2026-11-30). A method is a function of the world and the
request; it returns the answer without `ok` or raises a refusal. HTTP, tokens and faults are the server's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.platforms import slack_chat as chat
from tests.platforms import slack_conversations as conversations
from tests.platforms import slack_files as files
from tests.platforms.slack_objects import (
    APP_ID,
    BOT_ID,
    BOT_USER_ID,
    TEAM_DOMAIN,
    TEAM_ID,
    Conversation,
    Json,
    RefusalError,
)
from tests.platforms.slack_request import Request
from tests.platforms.slack_world import World

MAX_PROMPTS = 4
MAX_LOADING_MESSAGES = 10


@dataclass(frozen=True, slots=True)
class Method:
    """What a method does, and one of these scopes it takes; "*:history" by the kind of conversation."""

    act: Callable[[World, Request], Json]
    scopes: tuple[str, ...] = ()


def auth_test(world: World, request: Request) -> Json:
    return {
        "url": f"https://{TEAM_DOMAIN}.slack.com/",
        "team": "Loopback",
        "user": world.people[BOT_USER_ID].name,
        "team_id": TEAM_ID,
        "user_id": BOT_USER_ID,
        "bot_id": BOT_ID,
        "is_enterprise_install": False,
    }


def users_info(world: World, request: Request) -> Json:
    person = world.people.get(request.required("user", "user_not_found"))
    if person is None:
        raise RefusalError("user_not_found")
    return {"user": person.to_json()}


def bots_info(world: World, request: Request) -> Json:
    if request.required("bot", "bot_not_found") != BOT_ID:
        raise RefusalError("bot_not_found")
    bot = {"id": BOT_ID, "deleted": False, "name": "Dutiful", "updated": 1_700_000_000}
    return {"bot": bot | {"app_id": APP_ID, "user_id": BOT_USER_ID, "icons": {}}}


def reactions_add(world: World, request: Request) -> Json:
    message, name = _reacted(world, request)
    reactions = message.setdefault("reactions", [])
    mine = next((r for r in reactions if r["name"] == name), None)
    if mine is None:
        reactions.append({"name": name, "users": [BOT_USER_ID], "count": 1})
    elif BOT_USER_ID in mine["users"]:
        raise RefusalError("already_reacted")
    else:
        mine["users"].append(BOT_USER_ID)
        mine["count"] += 1
    return {}


def reactions_remove(world: World, request: Request) -> Json:
    message, name = _reacted(world, request)
    mine = next((r for r in message.get("reactions", []) if r["name"] == name), None)
    if mine is None or BOT_USER_ID not in mine["users"]:
        raise RefusalError("no_reaction")
    mine["users"].remove(BOT_USER_ID)
    mine["count"] -= 1
    message["reactions"] = [r for r in message["reactions"] if r["users"]]
    return {}


def _reacted(world: World, request: Request) -> tuple[Json, str]:
    name = request.required("name", "invalid_name")
    if not re.fullmatch(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?", name):
        raise RefusalError("invalid_name")
    channel, ts = request.string("channel"), request.string("timestamp")
    if not channel or not ts:
        raise RefusalError("no_item_specified")
    conversation = world.joined(channel)
    if conversation.archived:
        raise RefusalError("is_archived")
    if ts not in conversation.messages:
        raise RefusalError("message_not_found")
    request.ts = ts
    return conversation.messages[ts], name


def set_status(world: World, request: Request) -> Json:
    conversation, thread_ts = _assisted(world, request)
    if "status" not in request.params:
        raise RefusalError("invalid_arguments", messages=("missing required field: status",))
    if len(request.items("loading_messages")) > MAX_LOADING_MESSAGES:
        raise RefusalError("invalid_arguments")
    world.statuses.append((conversation.id, thread_ts, request.string("status")))
    return {}


def set_title(world: World, request: Request) -> Json:
    conversation, thread_ts = _assisted(world, request)
    world.titles[conversation.id, thread_ts] = request.required("title")
    return {}


def set_suggested_prompts(world: World, request: Request) -> Json:
    conversation, thread_ts = _assisted(world, request)
    prompts = request.items("prompts")
    if not 1 <= len(prompts) <= MAX_PROMPTS or not all(
        isinstance(prompt, dict) and prompt.get("title") and prompt.get("message") for prompt in prompts
    ):
        raise RefusalError("invalid_arguments")
    world.prompts[conversation.id, thread_ts] = prompts
    return {}


def _assisted(world: World, request: Request) -> tuple[Conversation, str]:
    conversation = world.visible(request.required("channel_id", "channel_not_found"))
    if not world.assistant:
        raise RefusalError("method_not_supported_for_channel_type")
    thread_ts = request.required("thread_ts", "invalid_thread_ts")
    if thread_ts not in conversation.messages:
        raise RefusalError("invalid_thread_ts")
    return conversation, thread_ts


_LOOK = ("channels:read", "groups:read", "im:read", "mpim:read")

METHODS: dict[str, Method] = {
    "api.test": Method(lambda world, request: {"args": request.params}),
    "auth.test": Method(auth_test),
    "chat.postMessage": Method(chat.post_message, ("chat:write",)),
    "chat.postEphemeral": Method(chat.post_ephemeral, ("chat:write",)),
    "chat.update": Method(chat.update, ("chat:write",)),
    "chat.delete": Method(chat.delete, ("chat:write",)),
    "chat.getPermalink": Method(chat.get_permalink),
    "conversations.history": Method(conversations.history, ("*:history",)),
    "conversations.replies": Method(conversations.replies, ("*:history",)),
    "conversations.info": Method(conversations.info, _LOOK),
    "conversations.list": Method(conversations.listing, _LOOK),
    "conversations.members": Method(conversations.members, _LOOK),
    "conversations.open": Method(conversations.open_, ("im:write", "mpim:write")),
    "users.conversations": Method(conversations.users_conversations, _LOOK),
    "users.info": Method(users_info, ("users:read",)),
    "bots.info": Method(bots_info, ("users:read",)),
    "files.getUploadURLExternal": Method(files.get_upload_url, ("files:write",)),
    "files.completeUploadExternal": Method(files.complete_upload, ("files:write",)),
    "files.info": Method(files.info, ("files:read",)),
    "reactions.add": Method(reactions_add, ("reactions:write",)),
    "reactions.remove": Method(reactions_remove, ("reactions:write",)),
    "assistant.threads.setStatus": Method(set_status, ("assistant:write", "chat:write")),
    "assistant.threads.setTitle": Method(set_title, ("assistant:write",)),
    "assistant.threads.setSuggestedPrompts": Method(set_suggested_prompts, ("assistant:write",)),
}

ALL_SCOPES = frozenset(
    {
        *("app_mentions:read", "assistant:write", "chat:write", "commands", "files:read", "files:write"),
        *("channels:history", "groups:history", "im:history", "mpim:history", *_LOOK, "im:write", "mpim:write"),
        *("reactions:read", "reactions:write", "users:read"),
    }
)


def check_scopes(world: World, method: Method, request: Request, granted: set[str]) -> None:
    """Refuse a call that the token's scopes do not allow.

    Raises:
        RefusalError: missing_scope with `needed` and `provided`.
    """
    needed = method.scopes
    if needed == ("*:history",):
        conversation = world.conversations.get(request.string("channel"))
        needed = () if conversation is None else (chat.scope_of_history(conversation.kind),)
    if needed and not granted.intersection(needed):
        raise RefusalError("missing_scope", needed=",".join(needed), provided=",".join(sorted(granted)))
