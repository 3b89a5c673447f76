"""Sentences of the channels themselves: about buttons, slash commands and files."""

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
    "file.left_out": ("⚠️ Not sent: {name} ({why})", "⚠️ Nicht gesendet: {name} ({why})", "⚠️ 未能发送: {name}({why})"),
    "file.gone": (
        "the file is not there any more",
        "die Datei ist nicht mehr da",
        "文件已不存在",
    ),
    "file.too_large": (
        "it has {size} MB, at most {limit} MB can be sent here",
        "sie hat {size} MB, hier gehen höchstens {limit} MB",
        "大小为 {size} MB,这里最多可发送 {limit} MB",
    ),
    "file.empty": ("the file is empty", "die Datei ist leer", "文件为空"),
    "file.unreadable": ("the file cannot be read", "die Datei lässt sich nicht lesen", "无法读取文件"),
    "file.refused": ("it was not accepted here", "sie wurde hier nicht angenommen", "此处拒绝接收该文件"),
    "command.not_here": (
        "I am not in this conversation, so my answer cannot come here. Invite me, or write to me directly,"
        " and ask again.",
        "Ich bin nicht in dieser Unterhaltung, meine Antwort kann hier nicht ankommen. Lade mich ein oder schreib mir"
        " direkt, und frag noch einmal.",
        "我不在这个会话中，无法在这里回答。请邀请我加入，或直接给我发消息，然后再问一次。",
    ),
}
