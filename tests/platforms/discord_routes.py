"""Which call a method and path are (https://docs.discord.com/developers/resources, read 2026-11-30)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.platforms.discord_objects import Route

_TABLE = """
GET /gateway get_gateway
GET /gateway/bot get_gateway
GET /users/@me get_me
POST /users/@me/channels create_dm
GET /users/{user} get_user
GET /applications/@me get_application
GET /oauth2/applications/@me get_application
GET /channels/{channel} get_channel
PATCH /channels/{channel} modify_channel
DELETE /channels/{channel} delete_channel
GET /guilds/{guild} get_guild
GET /guilds/{guild}/channels get_guild_channels
GET /guilds/{guild}/threads/active get_active_threads
GET /guilds/{guild}/members/{user} get_member
POST /channels/{channel}/messages create_message
GET /channels/{channel}/messages get_messages
GET /channels/{channel}/messages/{message} get_message
PATCH /channels/{channel}/messages/{message} edit_message
DELETE /channels/{channel}/messages/{message} delete_message
POST /channels/{channel}/typing trigger_typing
PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me create_reaction
DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me delete_reaction
POST /channels/{channel}/messages/{message}/threads start_thread
POST /channels/{channel}/threads create_thread
PUT /channels/{channel}/thread-members/@me join_thread
GET /applications/{application}/commands get_commands
PUT /applications/{application}/commands sync_commands
POST /interactions/{interaction}/{token}/callback callback
POST /webhooks/{application}/{token} follow_up
GET /webhooks/{application}/{token}/messages/{message} get_response
PATCH /webhooks/{application}/{token}/messages/{message} edit_response
DELETE /webhooks/{application}/{token}/messages/{message} delete_response
"""


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


_ROUTES = [
    (method, _pattern(path), Route(route))
    for method, path, route in (line.split() for line in _TABLE.strip().splitlines())
]

WITHOUT_TOKEN = frozenset(
    {Route.CALLBACK, Route.FOLLOW_UP, Route.GET_RESPONSE, Route.EDIT_RESPONSE, Route.DELETE_RESPONSE}
)
"""Calls that an interaction's own token allows."""


def route_of(method: str, path: str) -> tuple[Route, Mapping[str, str]]:
    """Return the call that a method and a path below the API's base are, with the path's parts by name."""
    for name, pattern, route in _ROUTES:
        found = pattern.fullmatch(path)
        if found is not None and name == method:
            return route, found.groupdict()
    return Route.UNKNOWN, {}
