"""Errors that only the Telegram channel tells apart. Imports without the SDK."""

from __future__ import annotations

from bot.errors import ChannelError


class PollConflict(ChannelError):  # named like its family in bot/errors.py
    """Another process polls with the same token, or a webhook is set."""


class FileUnavailable(ChannelError):  # likewise
    """The platform does not hand out a file."""
