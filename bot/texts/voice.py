"""Sentences about reading answers aloud."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "help.voice": (
        "read answers aloud too: /voice on or off",
        "Antworten auch vorlesen: /voice on oder off",
        "同时朗读回答: /voice on 或 off",
    ),
    "voice.on": (
        "Answers in this chat are read aloud too. /voice off ends that.",
        "Antworten in diesem Chat werden auch vorgelesen. /voice off beendet das.",
        "本聊天的回答会同时朗读。发送 /voice off 可关闭。",
    ),
    "voice.off": (
        "Answers in this chat are text only. With /voice on they are read aloud too.",
        "Antworten in diesem Chat sind nur Text. Mit /voice on werden sie auch vorgelesen.",
        "本聊天的回答只有文字。发送 /voice on 可同时朗读。",
    ),
    "voice.usage": (
        "Say /voice on or /voice off. /voice alone shows how it is.",
        "Sag /voice on oder /voice off. /voice allein zeigt, wie es ist.",
        "请发送 /voice on 或 /voice off。单独发送 /voice 可查看当前状态。",
    ),
    "voice.unavailable": (
        "I cannot read aloud: no speech model is configured.",
        "Ich kann nicht vorlesen: Es ist kein Modell für die Sprachausgabe eingerichtet.",
        "我无法朗读: 尚未配置语音模型。",
    ),
}
