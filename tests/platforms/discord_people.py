"""The people's side of the Discord server: what a test lets them say, edit, press, ask, close and forbid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.discord_interactions import COMMAND, COMPONENT, Interaction, Interactions
from tests.platforms.discord_objects import Channel, Guild, Intent, Json, Kind, User, buttons_of
from tests.platforms.discord_rest import Rest
from tests.platforms.discord_world import Event, World

ADA = 111

_OPTION_TYPES = {str: 3, int: 4, bool: 5, float: 10}


class People:
    """Acts of people and other bots, which the gateway tells the bot of."""

    def __init__(self, world: World, interactions: Interactions, rest: Rest) -> None:
        self.world = world
        self.interactions = interactions
        self.rest = rest

    # --- what there is

    def add_user(self, user_id: int = ADA, name: str = "Ada", *, is_bot: bool = False) -> User:
        """Return the user with this id, made if there is none."""
        return self.world.users.setdefault(user_id, User(id=user_id, name=name, is_bot=is_bot))

    def add_guild(self, guild_id: int, name: str = "Home", *, members: Sequence[int] = ()) -> Guild:
        """Let a guild exist with the bot in it; a connected bot is told."""
        guild = Guild(id=guild_id, name=name, members={self.world.bot.id: self.world.bot})
        guild.members.update({number: self.add_user(number) for number in members})
        self.world.guilds[guild_id] = guild
        self.admit(guild_id)
        return guild

    def add_channel(self, channel_id: int, guild_id: int, name: str = "general") -> Channel:
        """Let a text channel exist in a guild, which comes to be if it is new; a connected bot is told."""
        if guild_id not in self.world.guilds:
            self.add_guild(guild_id)
        channel = Channel(id=channel_id, kind=Kind.TEXT, name=name, guild_id=guild_id)
        self.world.channels[channel_id] = channel
        self.world.publish(Event(name="CHANNEL_CREATE", data=channel.to_json(), intent=Intent.GUILDS))
        return channel

    def add_thread(self, thread_id: int, parent_id: int, name: str = "thread", *, owner_id: int = ADA) -> Channel:
        """Let a public thread exist under a channel, with an id of your choice; a connected bot is told."""
        parent = self.world.channels[parent_id]
        thread = Channel(
            id=thread_id,
            kind=Kind.PUBLIC_THREAD,
            name=name,
            guild_id=parent.guild_id,
            parent_id=parent_id,
            owner_id=self.add_user(owner_id).id,
            changed_at_s=self.world.clock.now_s(),
        )
        self.world.channels[thread_id] = thread
        data = thread.to_json() | {"newly_created": True}
        self.world.publish(Event(name="THREAD_CREATE", data=data, intent=Intent.GUILDS))
        return thread

    def add_dm(self, user_id: int = ADA, *, channel_id: int | None = None, name: str = "Ada") -> Channel:
        """Return the DM channel of a user, made if there is none; the bot is not told."""
        return self.world.open_dm(self.add_user(user_id, name), channel_id)

    # --- messages

    def user_says(
        self,
        channel_id: int,
        text: str = "",
        *,
        user_id: int | None = None,
        name: str = "Ada",
        is_bot: bool = False,
        reply_to: int | None = None,
        ping: bool = True,
        files: Sequence[tuple[str, bytes, str]] = (),
        message_id: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        """A person (or another bot) writes; return the message's id.

        `user_id` None is the other side of a DM, and Ada elsewhere. `files` are name, content and content type.
        `ping`: whether a reply mentions who is replied to. `extra` goes into the Message object as it is.
        """
        channel = self.world.channels[channel_id]
        if reply_to is not None and reply_to not in channel.messages:
            raise ValueError(f"there is no message {reply_to} in channel {channel_id} to reply to")
        attachments = [self.world.store_file(channel, *file) for file in files]
        message = self.world.new_message(
            channel,
            self._who(channel, user_id, name, is_bot),
            text,
            reply_to=reply_to,
            ping_reply=ping,
            attachments=attachments,
            message_id=message_id,
            extra=extra,
        )
        return int(message["id"])

    def edit(self, channel_id: int, message_id: int, text: str) -> None:
        """A person changes a message."""
        channel = self.world.channels[channel_id]
        self.world.edit(channel, channel.messages[message_id], {"content": text})

    def delete(self, channel_id: int, message_id: int) -> None:
        """A person deletes a message (a moderator also one of the bot)."""
        channel = self.world.channels[channel_id]
        self.world.remove(channel, channel.messages[message_id])

    def react(self, channel_id: int, message_id: int, emoji: str, *, user_id: int = ADA, add: bool = True) -> None:
        """A person sets a reaction, or takes it back."""
        channel = self.world.channels[channel_id]
        user = self._who(channel, user_id, "Ada", False)
        self.world.react(channel, channel.messages[message_id], user, emoji, add=add)

    def mention(self, text: str = "") -> str:
        """Return `text` addressed to the bot."""
        return f"<@{self.world.bot.id}> {text}".rstrip()

    # --- interactions

    def press(self, channel_id: int, message_id: int, custom_id: str, *, user_id: int | None = None) -> Interaction:
        """A person presses a button under a message of the bot."""
        channel = self.world.channels[channel_id]
        message = channel.messages[message_id]
        offered = {str(button.get("custom_id")): button for button in buttons_of(message)}
        if custom_id not in offered or offered[custom_id].get("disabled"):
            raise ValueError(f"message {message_id} has no button {custom_id!r} to press, only {sorted(offered)}")
        data = {"custom_id": custom_id, "component_type": 2, "id": 1}
        who = self._who(channel, user_id, "Ada", False)
        return self.interactions.begin(COMPONENT, channel, who, data, name=custom_id, source=message)

    def slash(self, channel_id: int, name: str, *, user_id: int | None = None, **options: Any) -> Interaction:
        """A person uses a slash command that the bot has registered."""
        channel = self.world.channels[channel_id]
        command = next((one for one in self.rest.commands if one["name"] == name), None)
        if command is None:
            raise ValueError(f"there is no command /{name}, only {[one['name'] for one in self.rest.commands]}")
        known = {option["name"]: option for option in command["options"]}
        missing = [key for key, option in known.items() if option.get("required") and key not in options]
        if missing or options.keys() - known.keys():
            raise ValueError(f"/{name} takes {sorted(known)}, not {sorted(options)}")
        data: Json = {"id": command["id"], "name": name, "type": 1}
        if options:
            data["options"] = [
                {"name": key, "type": _OPTION_TYPES[type(value)], "value": value} for key, value in options.items()
            ]
        who = self._who(channel, user_id, "Ada", False)
        return self.interactions.begin(COMMAND, channel, who, data, name=name)

    # --- rights

    def close_dms(self, user_id: int = ADA, *, closed: bool = True) -> None:
        """A person takes no messages from the bot (50007)."""
        self.world.users[user_id].closed_dms = closed

    def hide(self, channel_id: int, *, hidden: bool = True) -> None:
        """The bot loses sight of a channel (50001), and hears nothing from it."""
        self.world.channels[channel_id].hidden = hidden

    def silence(self, channel_id: int, *, read_only: bool = True) -> None:
        """The bot may not write in a channel (50013)."""
        self.world.channels[channel_id].read_only = read_only

    def kick(self, guild_id: int) -> None:
        """The bot is removed from a guild; all its channels are closed to it (50001)."""
        self.world.guilds[guild_id].gone = True
        self.world.publish(Event(name="GUILD_DELETE", data={"id": str(guild_id)}, intent=Intent.GUILDS))

    def admit(self, guild_id: int) -> None:
        """The bot is let into a guild (again)."""
        guild = self.world.guilds[guild_id]
        guild.gone = False
        data = self.world.guild_json(guild, all_members=False)
        del data["unavailable"]  # which tells a new guild from one that comes back after an outage
        self.world.publish(Event(name="GUILD_CREATE", data=data, intent=Intent.GUILDS))

    def take_out(self, guild_id: int) -> None:
        """An outage takes a guild away; the gateway tells nothing of what is said there until it is back."""
        self.world.publish(
            Event(name="GUILD_DELETE", data={"id": str(guild_id), "unavailable": True}, intent=Intent.GUILDS)
        )
        self.world.guilds[guild_id].out = True

    def bring_back(self, guild_id: int) -> None:
        """The outage of a guild is over."""
        guild = self.world.guilds[guild_id]
        guild.out = False
        data = self.world.guild_json(guild, all_members=False)
        self.world.publish(Event(name="GUILD_CREATE", data=data, intent=Intent.GUILDS))

    def archive(self, thread_id: int, *, locked: bool = False) -> None:
        """A thread is archived; a locked one takes no messages (50083)."""
        thread = self.world.channels[thread_id]
        thread.locked = locked
        self.world.set_archived(thread, True)

    def delete_channel(self, channel_id: int) -> None:
        """A channel or thread disappears (10003)."""
        self.world.remove_channel(self.world.channels[channel_id])

    def _who(self, channel: Channel, user_id: int | None, name: str, is_bot: bool) -> User:
        if user_id is None and channel.recipient is not None:
            return channel.recipient
        user = self.add_user(ADA if user_id is None else user_id, name, is_bot=is_bot)
        if channel.guild_id is not None:
            self.world.guilds[channel.guild_id].members.setdefault(user.id, user)
        return user
