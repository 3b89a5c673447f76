"""Where a message stands: from a channel id of the platform to an address. Pure; imports without the SDK.

A thread has a channel id of its own. Its address is (discord, id of the channel it belongs to, id of the thread), so
that rate limits and chat rights go by the channel; calls go to the thread's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.messages import Address, ChatType

CHANNEL = "discord"

_DM = 1
_THREADS = frozenset({10, 11, 12})
"""Types of announcement, public and private threads (https://docs.discord.com/developers/resources/channel, read
2026-11-30)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A channel of the platform. `parent_id` is that of a thread's channel, `guild_id` is '' in private."""

    channel_id: str
    guild_id: str = ""
    parent_id: str = ""
    is_guess: bool = False  # nobody told: it may as well be a thread of whatever channel of its server

    @property
    def address(self) -> Address:
        """The address of what is said here."""
        if self.parent_id:
            return Address(channel=CHANNEL, chat_id=self.parent_id, thread_id=self.channel_id)
        return Address(channel=CHANNEL, chat_id=self.channel_id)

    @property
    def chat_type(self) -> ChatType:
        """Who can read it."""
        return ChatType.GROUP if self.guild_id else ChatType.PRIVATE

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids a policy may name, the narrowest first."""
        return tuple(found for found in (self.channel_id, self.parent_id, self.guild_id) if found)


def place_of(channel: Mapping[str, Any], guild_id: str = "") -> Place:
    """Return the place that a Channel object describes; partial ones of interactions carry no guild of their own."""
    thread = channel.get("type") in _THREADS
    parent_id = str(channel.get("parent_id") or "") if thread else ""
    return Place(
        channel_id=str(channel["id"]),
        # What was said in a server is never private, whatever its channel is said to be.
        guild_id=guild_id or ("" if channel.get("type") == _DM else str(channel.get("guild_id") or "")),
        parent_id=parent_id,
        is_guess=thread and not parent_id,
    )


def target_id(address: Address) -> str:
    """Return the id of the channel or thread that calls about an address go to."""
    return address.thread_id or address.chat_id
