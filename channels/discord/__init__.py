"""Discord, through discord.py: REST and gateway.

`config` the section; `channel` the life cycle; `receiving`, `positions` and `catchup` the durable way in; `places`,
`events` and `content` what an event says; `interactions` and `commands` slash commands and buttons; `sending`,
`rendering`, `drafts` and `media` the way out and files; `client` and `api` the only files that touch the SDK, imported
when the channel starts.
"""

from __future__ import annotations

from channels.discord.channel import DiscordChannel

__all__ = ["DiscordChannel"]
