"""Interactions: slash commands and buttons, their one-time answers, and the follow-ups their tokens allow.

https://docs.discord.com/developers/interactions/receiving-and-responding (read 2026-11-30): the first answer is
due within 3 s, the token is good for 15 min. All times are the world's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tests.platforms.discord_objects import Channel, Json, Kind, RefusalError, User, member_json, unknown
from tests.platforms.discord_rules import UPLOAD_LIMIT_BYTES
from tests.platforms.discord_world import SLASH_COMMAND, Event, World

ANSWER_S = 3.0
TOKEN_LIFE_S = 900.0
EPHEMERAL_FLAG = 1 << 6
LOADING_FLAG = 1 << 7

COMMAND, COMPONENT = 2, 3  # interaction types


class Answer(IntEnum):
    """Callback types."""

    PONG = 1
    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE_MESSAGE = 7


@dataclass(slots=True, kw_only=True)
class Interaction:
    """One press of a button or use of a command. `original` is the message of the first answer."""

    id: int
    token: str
    type: int
    channel: Channel
    user: User
    at_s: float
    name: str  # the command's name, or the button's custom id
    source: Json | None = None  # the message whose button it is
    answer: Answer | None = None
    answered_at_s: float = 0.0
    ephemeral: bool = False
    original: Json | None = None
    messages: dict[int, Json] = field(default_factory=dict)  # everything sent with its token, by id


class Interactions:
    """All interactions, and what they let the bot do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_id: dict[int, Interaction] = {}
        self._serial = 0

    # --- people

    def begin(
        self,
        kind: int,
        channel: Channel,
        user: User,
        data: Json,
        *,
        name: str,
        source: Json | None = None,
    ) -> Interaction:
        """Let a person act; publish it to the bot."""
        number = self.world.snowflake()
        self._serial += 1
        made = Interaction(
            id=number,
            token=f"aW50ZXJhY3Rpb246{number}.{self._serial:032x}",
            type=kind,
            channel=channel,
            user=user,
            at_s=self.world.clock.now_s(),
            name=name,
            source=source,
        )
        self.by_id[number] = made
        self.world.publish(Event(name="INTERACTION_CREATE", data=self._to_json(made, data)))
        return made

    def _to_json(self, made: Interaction, data: Json) -> Json:
        channel, in_dm = made.channel, made.channel.kind is Kind.DM
        permissions = str((1 << 50) - 1 & ~(1 << 3))
        body: Json = {
            "id": str(made.id),
            "application_id": str(self.world.bot.id),
            "type": made.type,
            "token": made.token,
            "version": 1,
            "data": data,
            "channel_id": str(channel.id),
            "channel": channel.to_json() | {"permissions": permissions},
            "app_permissions": permissions,
            "locale": made.user.locale,
            "entitlements": [],
            "authorizing_integration_owners": {"0": "0" if in_dm else str(channel.guild_id)},
            "context": 1 if in_dm else 0,
            "attachment_size_limit": UPLOAD_LIMIT_BYTES,
        }
        if in_dm:
            body["user"] = made.user.to_json()
        else:
            body["guild_id"] = str(channel.guild_id)
            body["guild_locale"] = "en-US"
            body["guild"] = {"id": str(channel.guild_id), "locale": "en-US", "features": []}
            body["member"] = member_json(made.user) | {"user": made.user.to_json()}
        if made.source is not None:
            body["message"] = self.world.shown(made.source, with_content=True)
        return body

    # --- the bot's first answer

    def awaiting(self, interaction_id: int, token: str) -> Interaction:
        """Return the interaction a callback answers.

        Raises:
            RefusalError: 10062 unknown or too late, 40060 answered already.
        """
        found = self.by_id.get(interaction_id)
        if found is None or found.token != token:
            raise unknown(10062, "interaction")
        if found.answer is not None:
            raise RefusalError(400, 40060, "Interaction has already been acknowledged.")
        if self.world.clock.now_s() - found.at_s > ANSWER_S:
            raise unknown(10062, "interaction")
        return found

    def acknowledge(self, made: Interaction, answer: Answer, data: Mapping[str, Any]) -> Json | None:
        """Take the first answer with its checked message fields; return the message it made or changed."""
        made.answer = answer
        made.answered_at_s = self.world.clock.now_s()
        if answer is Answer.MESSAGE:
            made.original = self.send(made, data)
        elif answer is Answer.DEFERRED_MESSAGE:
            made.original = self.send(made, {**data, "flags": data.get("flags", 0) | LOADING_FLAG})
        elif answer is Answer.UPDATE_MESSAGE and made.source is not None:
            made.original = self.world.edit(made.channel, made.source, data)
        elif answer is Answer.DEFERRED_UPDATE:
            made.original = made.source
        return made.original

    def callback_json(self, made: Interaction, message: Json | None) -> Json:
        """Return the object that `with_response=true` asks for."""
        interaction: Json = {"id": str(made.id), "type": made.type}
        body: Json = {"interaction": interaction}
        if message is not None:
            interaction |= {
                "response_message_id": message["id"],
                "response_message_loading": made.answer in {Answer.DEFERRED_MESSAGE, Answer.DEFERRED_UPDATE},
                "response_message_ephemeral": made.ephemeral,
            }
            body["resource"] = {"type": int(made.answer or 0), "message": self.world.shown(message)}
        return body

    # --- the bot's further answers

    def open(self, application_id: int, token: str) -> Interaction:
        """Return the interaction whose token a webhook call carries.

        Raises:
            RefusalError: 10015 unknown or not answered yet, 50027 older than 15 minutes.
        """
        found = next((one for one in self.by_id.values() if one.token == token), None)
        if found is None or application_id != self.world.bot.id or found.answer is None:
            raise unknown(10015, "Webhook")
        if self.world.clock.now_s() - found.at_s > TOKEN_LIFE_S:
            raise RefusalError(401, 50027, "Invalid Webhook Token")
        return found

    def follow_up(self, made: Interaction, data: Mapping[str, Any]) -> Json:
        """Send with the token; the first one after a deferral takes the place of "is thinking"."""
        original = made.original
        if original is not None and original["flags"] & LOADING_FLAG:
            return self.change(made, original, data)
        return self.send(made, data)

    def message(self, made: Interaction, message_id: str) -> Json:
        """Return a message of the interaction, as stored.

        Raises:
            RefusalError: 10008 unknown.
        """
        found = made.original if message_id == "@original" else made.messages.get(int(message_id))
        if found is None:
            raise unknown(10008, "Message")
        return found

    def change(self, made: Interaction, message: Json, data: Mapping[str, Any]) -> Json:
        """Edit a message of the interaction."""
        return self.world.edit(made.channel, message, {**data, "flags": message["flags"] & ~LOADING_FLAG})

    def remove(self, made: Interaction, message: Json) -> None:
        """Delete a message of the interaction."""
        made.messages.pop(int(message["id"]), None)
        if message is made.original:
            made.original = None
        if int(message["id"]) in made.channel.messages:
            self.world.remove(made.channel, message)

    def send(self, made: Interaction, data: Mapping[str, Any]) -> Json:
        """Put a message of the interaction into its channel, or show it to its person alone."""
        flags = int(data.get("flags", 0))
        if made.original is None:
            made.ephemeral = bool(flags & EPHEMERAL_FLAG)
        first_of_command = made.original is None and made.type == COMMAND
        metadata = {
            "id": str(made.id),
            "type": made.type,
            "user": made.user.to_json(),
            "authorizing_integration_owners": {},
        }
        if made.source is not None:
            metadata["interacted_message_id"] = made.source["id"]
        message = self.world.new_message(
            made.channel,
            self.world.bot,
            str(data.get("content", "")),
            kind=SLASH_COMMAND if first_of_command else 0,
            attachments=data.get("attachments", ()),
            embeds=data.get("embeds", ()),
            components=data.get("components", ()),
            allowed_mentions=data.get("allowed_mentions"),
            flags=flags,
            extra={
                "webhook_id": str(self.world.bot.id),
                "application_id": str(self.world.bot.id),
                "interaction_metadata": metadata,
            },
            hidden=bool(flags & EPHEMERAL_FLAG),
        )
        made.messages[int(message["id"])] = message
        return message
