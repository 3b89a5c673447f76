"""The menu of slash commands that Telegram's apps show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.errors import ChannelError
from bot.interfaces import MenuCommand
from bot.log import get_logger
from channels.telegram.config import Timing

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

# https://core.telegram.org/bots/api#botcommand and #setmycommands, read 2026-11-30.
COMMANDS_LIMIT = 100
DESCRIPTION_CHARS = 256
_NAME = re.compile(r"[a-z0-9_]{1,32}")

_log = get_logger(__name__)


def menu_entries(commands: Sequence[MenuCommand]) -> list[dict[str, str]]:
    """Return the commands as Telegram takes them; those it cannot show work all the same."""
    fitting = [command for command in commands if _NAME.fullmatch(command.name) and command.description.strip()]
    return [
        {"command": command.name, "description": command.description.strip()[:DESCRIPTION_CHARS]}
        for command in fitting[:COMMANDS_LIMIT]
    ]


async def publish_menu(api: BotApi, commands: Sequence[MenuCommand], timing: Timing) -> None:
    """Set the menu where it is another one; a failure is only worth a warning."""
    wanted = menu_entries(commands)
    if not wanted:
        return
    try:
        if await api.call("getMyCommands", {}, timeout_s=timing.call_s) != wanted:
            await api.call("setMyCommands", {"commands": wanted}, timeout_s=timing.call_s)
            _log.info("command menu set", commands=len(wanted))
    except ChannelError as exc:
        _log.warning("command menu not set", error=str(exc))
