"""What only Discord needs to say: about its slash commands, to one person alone."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "discord_option": ("what it is about", "worum es geht", "内容"),
    "discord_not_allowed": (
        "You may not use me here.",
        "Du darfst mich hier nicht benutzen.",
        "你不能在这里使用我。",
    ),
    "discord_not_stored": (
        "I could not take that just now. Please try again in a moment.",
        "Das konnte ich gerade nicht annehmen. Bitte versuche es gleich noch einmal.",
        "刚才没能接收,请稍后再试。",
    ),
}
