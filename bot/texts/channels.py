"""Sentences of the channels themselves: about buttons and slash commands."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    # Slack takes every message that begins with "/" for a command of its own (it has a /remind itself), and takes no
    # commands of apps in threads: https://docs.slack.dev/interactivity/implementing-slash-commands, read 2026-11-30.
    "help.on.slack": (
        "On Slack, write /dutiful in front: /dutiful new. In threads, mention me instead: @dutiful /new.",
        "Auf Slack kommt /dutiful davor: /dutiful new. In Threads erwähne mich stattdessen: @dutiful /new.",
        "在 Slack 中要写 /dutiful new;在消息列中请提及我:@dutiful /new。",
    ),
    "button.answered": (
        "This was answered already: {label}",
        "Das wurde schon beantwortet: {label}",
        "这已经回答过了: {label}",
    ),
    "button.unknown": (
        "This button is not valid any more.",
        "Diese Schaltfläche gilt nicht mehr.",
        "这个按钮已失效。",
    ),
    "file.not_taken": (
        "(The file {name} cannot be sent here.)",
        "(Die Datei {name} kann hier nicht gesendet werden.)",
        "（文件 {name} 无法在这里发送。）",
    ),
    "command.not_here": (
        "I am not in this conversation, so my answer cannot come here. Invite me, or write to me directly,"
        " and ask again.",
        "Ich bin nicht in dieser Unterhaltung, meine Antwort kann hier nicht ankommen. Lade mich ein oder schreib mir"
        " direkt, und frag noch einmal.",
        "我不在这个会话中，无法在这里回答。请邀请我加入，或直接给我发消息，然后再问一次。",
    ),
}
