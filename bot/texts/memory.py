"""Sentences about what is remembered, and about summaries of conversations."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "help.memory": (
        "what I remember: /memory, /memory log, show N, restore N, share on|off, forget",
        "was ich mir merke: /memory, /memory log, show N, restore N, share on|off, forget",
        "我记住的内容: /memory, /memory log, show N, restore N, share on|off, forget",
    ),
    "help.compact": (
        "summarise the older part of this conversation now",
        "den älteren Teil dieser Unterhaltung jetzt zusammenfassen",
        "立即总结此对话中较早的部分",
    ),
    "compact.done": (
        "{count} older message(s) are now a summary; /compact leaves the newest ones as they are. Nothing is deleted: "
        "they can still be searched.",
        "{count} ältere Nachricht(en) sind jetzt eine Zusammenfassung; /compact lässt die neuesten, wie sie sind. "
        "Gelöscht wird nichts: Sie lassen sich weiter durchsuchen.",
        "已将 {count} 条较早的消息总结;/compact 保留最新的消息不变。没有删除任何内容,仍可搜索。",
    ),
    "compact.nothing": (
        "There is nothing older to summarise yet.",
        "Es gibt noch nichts Älteres zusammenzufassen.",
        "还没有可以总结的较早消息。",
    ),
    "compact.offline": (
        "Only a language model can write a summary, and none is set up.",
        "Eine Zusammenfassung kann nur ein Sprachmodell schreiben, und es ist keines eingerichtet.",
        "只有语言模型才能写总结,而目前没有配置模型。",
    ),
    "compact.failed": (
        "The summary could not be written now; all messages stay as they are. Please try again later.",
        "Die Zusammenfassung ließ sich gerade nicht schreiben; alle Nachrichten bleiben, wie sie sind. "
        "Bitte versuch es später noch einmal.",
        "现在无法写总结,所有消息保持不变。请稍后再试。",
    ),
    "memory.off": (
        "Long-term memory is switched off.",
        "Das Langzeitgedächtnis ist ausgeschaltet.",
        "长期记忆已关闭。",
    ),
    "memory.usage": (
        "/memory shows what I remember. /memory log lists earlier versions, /memory show N shows one, /memory restore N "
        "goes back to it. /memory share on|off decides whether groups may see what stands under “## Shared” of what I "
        "remember of you. /memory forget deletes all of it.",
        "/memory zeigt, was ich mir gemerkt habe. /memory log nennt frühere Fassungen, /memory show N zeigt eine, "
        "/memory restore N kehrt zu ihr zurück. /memory share on|off bestimmt, ob Gruppen sehen dürfen, was unter "
        "„## Shared“ über dich steht. /memory forget löscht alles.",
        "/memory 显示我记住的内容。/memory log 列出以前的版本,/memory show N 显示其中一个,/memory restore N 恢复它。"
        "/memory share on|off 决定群组能否看到关于你的“## Shared”部分。/memory forget 全部删除。",
    ),
    "memory.yours": ("What I remember of you:", "Was ich mir über dich gemerkt habe:", "我记住的关于你的内容:"),
    "memory.chats": (
        "What I remember of this chat:",
        "Was ich mir über diesen Chat gemerkt habe:",
        "我记住的关于此聊天的内容:",
    ),
    "memory.empty": (
        "I have noted nothing for the long term yet.",
        "Ich habe mir noch nichts auf Dauer gemerkt.",
        "我还没有长期记住任何内容。",
    ),
    "memory.cut": ("[cut here]", "[hier gekürzt]", "[此处截断]"),
    "memory.too_large": (
        "The memory file is too large to be shown or kept as a version ({limit} KiB at most).",
        "Die Gedächtnisdatei ist zu groß, um sie zu zeigen oder als Fassung aufzuheben (höchstens {limit} KiB).",
        "记忆文件过大,无法显示或保存版本(最多 {limit} KiB)。",
    ),
    "memory.log": ("Versions, the newest first:", "Fassungen, die neueste zuerst:", "版本,最新的在前:"),
    "memory.log_line": (
        "{number}: {when}, {why}, {size} characters ({change})",
        "{number}: {when}, {why}, {size} Zeichen ({change})",
        "{number}: {when},{why},{size} 个字符({change})",
    ),
    "memory.why.hand": ("changed by hand", "von Hand geändert", "手动修改"),
    "memory.why.run": ("from the conversation", "aus der Unterhaltung", "来自对话"),
    "memory.why.restore": ("back to {number}", "zurück zu {number}", "恢复到 {number}"),
    "memory.no_version": (
        "There is no version {number} here. /memory log lists those there are.",
        "Eine Fassung {number} gibt es hier nicht. /memory log nennt die vorhandenen.",
        "这里没有版本 {number}。用 /memory log 查看已有版本。",
    ),
    "memory.version": ("Version {number} of {when}:", "Fassung {number} von {when}:", "版本 {number}({when}):"),
    "memory.restored": (
        "What I remember is now as in version {number}. The text before that is a version too.",
        "Mein Gedächtnis ist jetzt wie in Fassung {number}. Auch der Text davor ist eine Fassung.",
        "我的记忆现已恢复到版本 {number}。之前的内容也保存为版本。",
    ),
    "memory.busy": (
        "I am just bringing my memory up to date. Please try again in a minute.",
        "Ich bringe mein Gedächtnis gerade auf den neuesten Stand. Bitte versuch es in einer Minute noch einmal.",
        "我正在更新记忆,请一分钟后再试。",
    ),
    "memory.unusable": (
        "The memory file cannot be changed now. The log says why.",
        "Die Gedächtnisdatei lässt sich gerade nicht ändern. Das Protokoll sagt, warum.",
        "现在无法更改记忆文件,原因见日志。",
    ),
    "memory.forgotten": (
        "Forgotten: the memory and all its versions are deleted, and what was said until now will not be noted again. "
        "Conversations stay as they are; after /new their titles and summaries are still seen.",
        "Vergessen: Das Gedächtnis und alle seine Fassungen sind gelöscht, und was bisher gesagt wurde, wird nicht "
        "noch einmal notiert. Unterhaltungen bleiben, wie sie sind; nach /new sind ihre Titel und "
        "Zusammenfassungen noch zu sehen.",
        "已忘记:记忆及其所有版本均已删除,之前说过的内容不会再被记录。对话保持不变;/new 之后仍可看到其标题和摘要。",
    ),
    "memory.share_on": (
        "Groups you write in may now know what stands under “## Shared” of what I remember of you. "
        "/memory share off ends that; what was shown in a group's conversation until then stays there.",
        "Gruppen, in denen du schreibst, dürfen jetzt wissen, was unter „## Shared“ über dich steht. "
        "/memory share off beendet das; was bis dahin in der Unterhaltung einer Gruppe stand, bleibt dort.",
        "你发言的群组现在可以知道关于你的“## Shared”部分。/memory share off 可关闭;此前已在群组对话中出现的内容会保留。",
    ),
    "memory.share_off": (
        "Groups get to know nothing of what I remember of you.",
        "Gruppen erfahren nichts von dem, was ich mir über dich gemerkt habe.",
        "群组不会知道我记住的关于你的任何内容。",
    ),
}
