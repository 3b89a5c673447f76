"""Sentences about the choice of a model."""

from __future__ import annotations

SENTENCES: dict[str, tuple[str, str, str]] = {
    "help.model": (
        "show the models, or choose one for this chat",
        "Modelle zeigen oder eines für diesen Chat wählen",
        "查看模型,或为此聊天选择模型",
    ),
    "model.none": (
        "Model in this chat: {model}. No others are configured.",
        "Modell in diesem Chat: {model}. Andere sind nicht eingerichtet.",
        "此聊天使用的模型: {model}。没有配置其他模型。",
    ),
    "model.list": (
        "Models (→ is used in this chat):\n{models}\nChoose one with /model NAME.",
        "Modelle (→ gilt in diesem Chat):\n{models}\nWähle eines mit /model NAME.",
        "模型(→ 为此聊天使用):\n{models}\n用 /model 名称 选择。",
    ),
    "model.set": (
        "From the next message on, {name} ({model}) answers in this chat.",
        "Ab der nächsten Nachricht antwortet in diesem Chat {name} ({model}).",
        "从下一条消息起,此聊天由 {name}({model})回答。",
    ),
    "model.unknown": (
        "There is no model “{name}”.{similar} /model shows those there are.",
        "Ein Modell „{name}“ gibt es nicht.{similar} /model zeigt die vorhandenen.",
        "没有名为“{name}”的模型。{similar}发送 /model 查看可用模型。",
    ),
    "model.similar": (" Did you mean {name}?", " Meintest du {name}?", "您是指 {name} 吗?"),
    "model.gone": (
        "“{name}”, which was chosen here, is not configured any more; the default model answers.",
        "„{name}“, das hier gewählt war, ist nicht mehr eingerichtet; es antwortet das Standardmodell.",
        "此处选择的“{name}”已不再配置,改由默认模型回答。",
    ),
}
