"""Errors that only the Discord channel tells apart, and what the platform's codes mean. Imports without the SDK.

Codes: https://docs.discord.com/developers/topics/opcodes-and-status-codes#json (read 2026-11-30).
"""

from __future__ import annotations

from bot.errors import ChannelError, SendRejected

UNKNOWN_CHANNEL = 10003
UNKNOWN_MESSAGE = 10008
INVALID_WEBHOOK_TOKEN = 50027
MISSING_ACCESS = 50001
CANNOT_MESSAGE_USER = 50007
MISSING_PERMISSIONS = 50013
INVALID_FORM = 50035
NO_MUTUAL_GUILDS = 50278
THREAD_ARCHIVED = 50083
TOO_LARGE = 40005
NO_HISTORY = 160002
THREAD_EXISTS = 160004

GONE = {
    UNKNOWN_CHANNEL: "the channel or thread does not exist any more",
    10004: "the bot is not in this server any more",
    MISSING_ACCESS: "the bot may not see this channel (any more)",
    CANNOT_MESSAGE_USER: "this person takes no direct messages from the bot",
    MISSING_PERMISSIONS: "the bot may not write in this channel: it needs the permission Send Messages there",
    NO_MUTUAL_GUILDS: "the bot shares no server with this person any more",
}
"""Codes after which nothing can be sent to a chat, and the reason in plain words."""


class Refused(SendRejected):  # named like its family in bot/errors.py
    """Discord refuses a call; `status` is that of HTTP, `code` Discord's own, 0 where it gave none."""

    def __init__(self, text: str, *, status: int, code: int) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class SessionLost(ChannelError):  # likewise
    """The connection to the gateway ended, or was not made."""
