"""The slash commands in Discord's own menu: registered when they differ from what is registered, else left alone."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from bot.errors import ChannelError
from bot.interfaces import MenuCommand
from bot.log import get_logger
from bot.texts import say
from channels.discord.config import Timing
from channels.discord.places import CHANNEL

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

_NAME = re.compile(r"[-_a-z0-9]{1,32}")
_DESCRIPTION_CHARS = 100
_COMMANDS = 100
"""Limits: https://docs.discord.com/developers/interactions/application-commands (read 2026-11-30)."""
_SLASH, _STRING = 1, 3

_log = get_logger(__name__)


def wanted(menu: Sequence[MenuCommand], language: str) -> list[dict[str, Any]]:
    """Return the commands to register: each takes one text that may be left out."""
    option = {"type": _STRING, "name": "text", "description": say(language, "discord_option"), "required": False}
    return [
        {
            "type": _SLASH,
            "name": command.name,
            "description": command.description.strip()[:_DESCRIPTION_CHARS] or command.name,
            "options": [option],
        }
        for command in menu
        if _NAME.fullmatch(command.name)
    ][:_COMMANDS]


def same(registered: Any, commands: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether the platform has these commands already, in whatever order and with whatever it adds."""
    return isinstance(registered, list) and _known(registered) == _known(commands)


def _known(commands: Sequence[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
    return {
        (
            int(command.get("type") or _SLASH),
            str(command.get("name")),
            str(command.get("description")),
            tuple(
                (int(one["type"]), str(one["name"]), str(one["description"]), bool(one.get("required")))
                for one in command.get("options") or ()
            ),
        )
        for command in commands
    }


async def sync(call: Caller, application_id: str, commands: Sequence[dict[str, Any]], timing: Timing) -> bool:
    """Register the commands; a failure is logged. False when the platform will not take them as they are."""
    path = "/applications/{application_id}/commands"
    try:
        registered = await call("GET", path, application_id=application_id, timeout_s=timing.call_s)
        if same(registered, commands):
            return True
        await call("PUT", path, application_id=application_id, json=list(commands), timeout_s=timing.call_s)
        _log.info("slash commands registered", channel=CHANNEL, count=len(commands))
    except (ChannelError, LookupError, TypeError, ValueError) as exc:
        _log.warning("slash commands not registered", channel=CHANNEL, error=str(exc))
        return isinstance(exc, ChannelError) and exc.retryable
    return True
