"""The conversations.* methods and users.conversations: what the bot can look up and read.

Source: https://docs.slack.dev/reference/methods/conversations.history and its neighbours (read 2026-11-30).
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.platforms.slack_objects import Conversation, Json, Kind, RefusalError
from tests.platforms.slack_request import Request
from tests.platforms.slack_world import World

_TYPES = {"public_channel": Kind.CHANNEL, "private_channel": Kind.GROUP, "im": Kind.IM, "mpim": Kind.MPIM}


def history(world: World, request: Request) -> Json:
    conversation = world.joined(request.required("channel", "channel_not_found"))
    size = request.limit(100, 999)
    top = [m for m in conversation.messages.values() if _is_top_level(m)]
    found = request.within(reversed(top))
    page, cursor = request.page(found, size)
    answer: Json = {"messages": _shown(page, request), "has_more": bool(cursor), "pin_count": 0}
    return answer | _cursor(cursor)


def replies(world: World, request: Request) -> Json:
    conversation = world.joined(request.required("channel", "channel_not_found"))
    message = conversation.messages.get(request.required("ts", "thread_not_found"))
    if message is None:
        raise RefusalError("thread_not_found")
    first = conversation.messages.get(str(message.get("thread_ts", message["ts"])), message)
    below = request.within(conversation.replies(first["ts"]))
    page, cursor = request.page([first, *below], request.limit(1000, 1000))
    if first not in page:
        page = [first, *page]  # each page begins with the first message
    return {"messages": _shown(page, request), "has_more": bool(cursor)} | _cursor(cursor)


def info(world: World, request: Request) -> Json:
    conversation = world.visible(request.required("channel", "channel_not_found"))
    return {"channel": conversation.to_json()}


def listing(world: World, request: Request) -> Json:
    wanted = _wanted(request)
    found = [c for c in world.conversations.values() if c.kind in wanted and (c.kind is Kind.CHANNEL or c.has_bot)]
    return _page_of(found, request)


def users_conversations(world: World, request: Request) -> Json:
    wanted = _wanted(request)
    return _page_of([c for c in world.conversations.values() if c.kind in wanted and c.has_bot], request)


def open_(world: World, request: Request) -> Json:
    if request.string("channel"):
        return {"channel": {"id": world.visible(request.string("channel")).id}}
    user_ids = request.items("users")
    if not user_ids:
        raise RefusalError("users_list_not_supplied")
    if len(user_ids) > 1:
        raise RefusalError("method_not_supported_for_channel_type")  # group DMs are made by people here
    person = world.people.get(str(user_ids[0]))
    if person is None:
        raise RefusalError("user_not_found")
    if person.deleted:
        raise RefusalError("user_disabled")
    conversation = world.im_with(person.id)
    whole = conversation.to_json() if request.flag("return_im") else {"id": conversation.id}
    return {"channel": whole}


def members(world: World, request: Request) -> Json:
    conversation = world.visible(request.required("channel", "channel_not_found"))
    return {"members": sorted(conversation.members)} | _cursor("")


def _is_top_level(message: Json) -> bool:
    return message.get("thread_ts", message["ts"]) == message["ts"] or message.get("subtype") == "thread_broadcast"


def _shown(page: Iterable[Json], request: Request) -> list[Json]:
    if request.flag("include_all_metadata"):
        return list(page)
    return [{key: value for key, value in message.items() if key != "metadata"} for message in page]


def _wanted(request: Request) -> set[Kind]:
    names = request.items("types") or ["public_channel"]
    if not set(names) <= set(_TYPES):
        raise RefusalError("invalid_types")
    return {_TYPES[name] for name in names}


def _page_of(found: list[Conversation], request: Request) -> Json:
    if request.flag("exclude_archived"):
        found = [conversation for conversation in found if not conversation.archived]
    page, cursor = request.page([conversation.to_json() for conversation in found], request.limit(100, 999))
    return {"channels": page} | _cursor(cursor)


def _cursor(cursor: str) -> Json:
    return {"response_metadata": {"next_cursor": cursor}}
