"""Telegram, through the Bot API.

`config` the section; `channel` the life cycle; `polling` the durable receiving loop; `updates` and
`content` what an update says; `sending`, `rendering` and `media` the way out and files; `api` the only file
that touches the SDK, imported when the channel starts.
"""

from __future__ import annotations

from channels.telegram.channel import TelegramChannel

__all__ = ["TelegramChannel"]
