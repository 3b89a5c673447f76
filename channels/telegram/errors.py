"""Errors that only the Telegram channel tells apart. Imports without the SDK."""

from __future__ import annotations

from bot.errors import ChannelError, SendRejected


class PollConflict(ChannelError):  # named like its family in bot/errors.py
    """Another process polls with the same token, or a webhook is set."""


class MethodMissing(SendRejected):  # likewise
    """The server does not have the method; Telegram has all of them, other servers need not."""


class FileUnavailable(ChannelError):  # likewise
    """The platform does not hand out a file."""
