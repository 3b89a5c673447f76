"""Telegram, through the Bot API.

`config` the section; `channel` the life cycle; `polling` and `webhook` how updates come; `desk` what is done with
them, with `albums`, `presses` and `groups`; `updates`, `content` and `taps` what they say; `sending`, `uploads`,
`rendering` and `media` the way out and files; `menu` and `marks` the rest of the surface; `api` the only file that
touches the SDK, imported when the channel starts.
"""

from __future__ import annotations

from channels.telegram.channel import TelegramChannel

__all__ = ["TelegramChannel"]
