"""Discord's REST methods, version 10: what each does with the world once the request was read.

https://docs.discord.com/developers/resources and .../interactions (read 2026-11-30). Reading requests, faults and
records are the server's business, limits those of the rules.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from tests.platforms import discord_rules as rules
from tests.platforms.discord_interactions import Answer, Interactions
from tests.platforms.discord_objects import (
    Channel,
    Json,
    Kind,
    RefusalError,
    invalid_form,
    member_json,
    unknown,
)
from tests.platforms.discord_reading import SENDABLE_FLAGS, Reading, Request, refuse_archived

REACTIONS_LIMIT = 20
_CUSTOM_EMOJI = re.compile(r"\w+:\d+")


@dataclass(slots=True, kw_only=True)
class Rest(Reading):
    """The methods, by the names of their routes."""

    interactions: Interactions
    flags: Callable[[], int]  # of the application
    commands: list[Json] = field(default_factory=list)
    typing: list[int] = field(default_factory=list)  # channels where the bot began to type, in order

    # --- itself

    def get_me(self, request: Request) -> Json:
        return self.world.bot.to_json() | {"flags": 0, "verified": True, "mfa_enabled": True, "email": None}

    def get_user(self, request: Request) -> Json:
        user = self.world.users.get(request.number("user"))
        if user is None:
            raise unknown(10013, "User")
        return user.to_json()

    def get_application(self, request: Request) -> Json:
        return {
            "id": str(self.world.bot.id),
            "name": self.world.bot.name,
            "icon": None,
            "description": "",
            "bot_public": False,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "owner": {**self.world.bot.to_json(), "id": "1", "bot": False},
            "team": None,
            "flags": self.flags(),
            "approximate_guild_count": len(self.world.guilds),
            "bot": self.world.bot.to_json(),
        }

    def create_dm(self, request: Request) -> Json:
        recipient = str(request.params.get("recipient_id") or "")
        user = self.world.users.get(int(recipient)) if recipient.isdigit() else None
        if user is None or user is self.world.bot:
            raise RefusalError(400, 50033, "Invalid Recipient(s)")
        if user.is_bot:
            raise RefusalError(403, 50007, "Cannot send messages to this user")
        return self.world.open_dm(user).to_json()

    # --- guilds and channels

    def get_guild(self, request: Request) -> Json:
        guild = self.world.guilds.get(request.number("guild"))
        if guild is None or guild.gone:
            raise unknown(10004, "Guild")
        return self.world.guild_json(guild, all_members=False)

    def get_guild_channels(self, request: Request) -> Sequence[Json]:
        channels: Sequence[Json] = self.get_guild(request)["channels"]
        return channels

    def get_active_threads(self, request: Request) -> Json:
        return {"threads": self.get_guild(request)["threads"], "members": []}

    def get_member(self, request: Request) -> Json:
        guild = self.world.guilds.get(request.number("guild"))
        member = None if guild is None else guild.members.get(request.number("user"))
        if member is None:
            raise unknown(10007, "Member")
        return member_json(member) | {"user": member.to_json()}

    def get_channel(self, request: Request) -> Json:
        return self.channel(request).to_json()

    def modify_channel(self, request: Request) -> Json:
        channel = self.channel(request)
        changes = request.params
        if channel.kind is Kind.DM:
            raise RefusalError(400, 50024, "Cannot execute action on this channel type")
        if channel.archived and changes.get("archived") is not False:
            raise RefusalError(400, 50083, "Thread is archived")
        if channel.archived and channel.locked:
            raise RefusalError(403, 50013, "Missing Permissions")  # Manage Threads opens it
        if "name" in changes:
            channel.name = rules.check_thread_name(changes["name"])
        channel.locked = bool(changes.get("locked", channel.locked))
        if channel.is_thread:
            self.world.set_archived(channel, bool(changes.get("archived", channel.archived)))
        return channel.to_json()

    def delete_channel(self, request: Request) -> Json:
        channel = self.channel(request)
        if channel.kind is not Kind.DM:
            self.world.remove_channel(channel)
        return channel.to_json()

    # --- messages

    def create_message(self, request: Request) -> Json:
        channel = self.writable(request)
        params, world = request.params, self.world
        nonce = rules.check_nonce(params.get("nonce"))
        reply_to = self.reply_to(channel, params.get("message_reference"))
        fields = self.fields(channel, request)
        if nonce and params.get("enforce_nonce"):
            again = world.by_nonce(channel, world.bot, nonce)
            if again is not None:
                request.message = again
                return world.shown(again)
        message = world.new_message(channel, world.bot, fields.pop("content"), reply_to=reply_to, nonce=nonce, **fields)
        if nonce:
            world.remember_nonce(channel, world.bot, nonce, message)
        request.message = message
        return world.shown(message)

    def edit_message(self, request: Request) -> Json:
        channel = self.channel(request)
        message = self.world.message_for_bot(channel, request.number("message"))
        if not self.world.is_own(message):
            raise RefusalError(403, 50005, "Cannot edit a message authored by another user")
        refuse_archived(channel)
        request.message = self.world.edit(channel, message, self.changes(channel, message, request))
        return self.world.shown(message)

    def delete_message(self, request: Request) -> None:
        channel = self.channel(request)
        message = self.world.message_for_bot(channel, request.number("message"))
        if not self.world.is_own(message):
            if channel.kind is Kind.DM:
                raise RefusalError(403, 50003, "Cannot execute action on a DM channel")
            raise RefusalError(403, 50013, "Missing Permissions")
        request.message = message
        self.world.remove(channel, message)

    def get_message(self, request: Request) -> Json:
        channel = self.readable(request)
        return self.world.shown(self.world.message_for_bot(channel, request.number("message")))

    def get_messages(self, request: Request) -> Sequence[Json]:
        """Newest first; of those after an id the oldest, of those before an id the newest."""
        channel = self.readable(request)
        limit = _integer(request.query, "limit", 50)
        if not 1 <= limit <= 100:
            raise invalid_form("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
        if sum(name in request.query for name in ("before", "after", "around")) > 1:
            raise invalid_form("_", "PARAMS_EXCLUSIVE", "before, after and around are mutually exclusive.")
        numbers = sorted(channel.messages)
        if "after" in request.query:
            numbers = [n for n in numbers if n > _integer(request.query, "after", 0)][:limit]
        elif "around" in request.query:
            middle = bisect_left(numbers, _integer(request.query, "around", 0))
            first = max(0, min(middle - limit // 2, len(numbers) - limit))
            numbers = numbers[first : first + limit]
        else:
            before = _integer(request.query, "before", 1 << 63)
            numbers = [n for n in numbers if n < before][-limit:]
        return [self.world.shown(channel.messages[number]) for number in reversed(numbers)]

    def trigger_typing(self, request: Request) -> None:
        channel = self.writable(request)
        self.typing.append(channel.id)

    def create_reaction(self, request: Request) -> None:
        channel = self.readable(request)
        message = self.world.message_for_bot(channel, request.number("message"))
        refuse_archived(channel)
        emoji = _emoji(request)
        kinds = {name for name, _ in self.world.reactions.get(int(message["id"]), [])}
        if emoji not in kinds and len(kinds) >= REACTIONS_LIMIT:
            raise RefusalError(400, 30010, f"Maximum number of reactions reached ({REACTIONS_LIMIT})")
        self.world.react(channel, message, self.world.bot, emoji, add=True)

    def delete_reaction(self, request: Request) -> None:
        channel = self.readable(request)
        message = self.world.message_for_bot(channel, request.number("message"))
        self.world.react(channel, message, self.world.bot, _emoji(request), add=False)

    # --- threads

    def start_thread(self, request: Request) -> Json:
        channel = self.channel(request)
        message = self.world.message_for_bot(channel, request.number("message"))
        return self._new_thread(channel, request, message)

    def create_thread(self, request: Request) -> Json:
        return self._new_thread(self.channel(request), request, None)

    def _new_thread(self, channel: Channel, request: Request, source: Json | None) -> Json:
        if channel.kind is not Kind.TEXT:
            raise RefusalError(400, 50024, "Cannot execute action on this channel type")
        if channel.read_only:
            raise RefusalError(403, 50013, "Missing Permissions")
        name = rules.check_thread_name(request.params.get("name"))
        duration = request.params.get("auto_archive_duration")
        if duration not in {None, 60, 1440, 4320, 10080}:
            text = "Value must be one of (60, 1440, 4320, 10080)."
            raise invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", text)
        private = source is None and request.params.get("type", Kind.PRIVATE_THREAD) == Kind.PRIVATE_THREAD
        kind = Kind.PRIVATE_THREAD if private else Kind.PUBLIC_THREAD
        return self.world.start_thread(channel, self.world.bot, name, source, kind).to_json()

    def join_thread(self, request: Request) -> None:
        thread = self.channel(request)
        if not thread.is_thread:
            raise RefusalError(400, 50024, "Cannot execute action on this channel type")
        refuse_archived(thread)

    # --- commands and interactions

    def get_commands(self, request: Request) -> Sequence[Json]:
        self._own_application(request)
        return self.commands

    def sync_commands(self, request: Request) -> Sequence[Json]:
        self._own_application(request)
        known = {command["name"]: command["id"] for command in self.commands}
        self.commands = [
            {
                "type": 1,
                "options": [],
                "default_member_permissions": None,
                **command,
                "id": known.get(command["name"]) or str(self.world.snowflake()),
                "application_id": str(self.world.bot.id),
                "version": str(self.world.snowflake()),
            }
            for command in rules.check_commands(request.params.get("_list", None))
        ]
        return self.commands

    def _own_application(self, request: Request) -> None:
        if request.number("application") != self.world.bot.id:
            raise RefusalError(403, 20012, "You are not authorized to perform this action on this application")

    def callback(self, request: Request) -> Json | None:
        made = self.interactions.awaiting(request.number("interaction"), request.parts["token"])
        try:
            answer = Answer(int(request.params.get("type") or 0))
        except ValueError:
            text = "Value is not one of the callback types played here."
            raise invalid_form("type", "BASE_TYPE_CHOICES", text) from None
        if made.source is None and answer in {Answer.DEFERRED_UPDATE, Answer.UPDATE_MESSAGE}:
            raise invalid_form("type", "INTERACTION_APPLICATION_COMMAND_INVALID_TYPE", "Only components are updated.")
        data = Request(route=request.route, parts={}, params=request.params.get("data") or {}, files=request.files)
        fields: Json = {}
        if answer is Answer.MESSAGE:
            fields = self.fields(made.channel, data)
        elif answer is Answer.UPDATE_MESSAGE and made.source is not None:
            fields = self.changes(made.channel, made.source, data)
        elif answer is Answer.DEFERRED_MESSAGE:
            fields = {"flags": int(data.params.get("flags") or 0) & SENDABLE_FLAGS}
        request.message = self.interactions.acknowledge(made, answer, fields)
        if request.query.get("with_response", "").lower() not in {"true", "1"}:
            return None
        return self.interactions.callback_json(made, request.message)

    def follow_up(self, request: Request) -> Json:
        made = self.interactions.open(request.number("application"), request.parts["token"])
        fields = self.fields(made.channel, request)
        request.message = self.interactions.follow_up(made, fields)
        return self.world.shown(request.message)

    def get_response(self, request: Request) -> Json:
        made = self.interactions.open(request.number("application"), request.parts["token"])
        return self.world.shown(self.interactions.message(made, request.parts["message"]))

    def edit_response(self, request: Request) -> Json:
        made = self.interactions.open(request.number("application"), request.parts["token"])
        message = self.interactions.message(made, request.parts["message"])
        request.message = self.interactions.change(made, message, self.changes(made.channel, message, request))
        return self.world.shown(message)

    def delete_response(self, request: Request) -> None:
        made = self.interactions.open(request.number("application"), request.parts["token"])
        request.message = self.interactions.message(made, request.parts["message"])
        self.interactions.remove(made, request.message)


def _emoji(request: Request) -> str:
    emoji = unquote(request.parts["emoji"])
    if emoji.isascii() or _CUSTOM_EMOJI.fullmatch(emoji):
        raise RefusalError(400, 10014, "Unknown Emoji")
    return emoji


def _integer(query: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(query[name]) if name in query else default
    except ValueError:
        raise invalid_form(name, "NUMBER_TYPE_COERCE", f'Value "{query[name]}" is not int.') from None
