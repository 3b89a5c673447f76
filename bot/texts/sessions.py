"""Sentences about conversations: `/new`, `/sessions` and `/status`."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "new_session": (
        "New conversation. What was said before is set aside (/sessions leads back to it); reminders stay.",
        "Neue Unterhaltung. Das bisher Gesagte liegt beiseite (/sessions führt zurück); Erinnerungen bleiben.",
        "已开始新的对话。之前的内容已搁置(用 /sessions 可以返回),提醒仍然保留。",
    ),
    "new_session.titled": (
        "New conversation “{title}”. What was said before is set aside (/sessions leads back to it); reminders stay.",
        "Neue Unterhaltung „{title}“. Das bisher Gesagte liegt beiseite (/sessions führt zurück); Erinnerungen bleiben.",
        "已开始新的对话“{title}”。之前的内容已搁置(用 /sessions 可以返回),提醒仍然保留。",
    ),
    "help.new": (
        "start a new conversation: /new or /new TITLE",
        "eine neue Unterhaltung beginnen: /new oder /new TITEL",
        "开始新的对话: /new 或 /new 标题",
    ),
    "help.sessions": (
        "list conversations; /sessions NUMBER goes back to one",
        "Unterhaltungen zeigen; /sessions NUMMER kehrt zu einer zurück",
        "列出对话; /sessions 编号 返回其中一个",
    ),
    "help.status": ("how things stand", "wie es steht", "查看状态"),
    "sessions.title": ("Conversations:", "Unterhaltungen:", "对话列表:"),
    "sessions.none": (
        "There is no conversation here yet.",
        "Hier gibt es noch keine Unterhaltung.",
        "这里还没有对话。",
    ),
    "sessions.line": (
        "{number}. {title} — {messages} messages, {age} ago",
        "{number}. {title} — {messages} Nachrichten, vor {age}",
        "{number}. {title} — {messages} 条消息,{age}前",
    ),
    "sessions.current": (" ← current", " ← aktuell", " ← 当前"),
    "sessions.untitled": ("(no title)", "(ohne Titel)", "(无标题)"),
    "sessions.more": (
        "{from_}–{to} of {total}; more with /sessions page {page}",
        "{from_}–{to} von {total}; mehr mit /sessions page {page}",
        "第 {from_}–{to} 个,共 {total} 个;用 /sessions page {page} 查看更多",
    ),
    "sessions.how": (
        "Go back to one with /sessions NUMBER.",
        "Zurück zu einer mit /sessions NUMMER.",
        "用 /sessions 编号 返回某个对话。",
    ),
    "sessions.usage": (
        "Say which one: /sessions NUMBER. /sessions lists them.",
        "Sag, welche: /sessions NUMMER. /sessions zeigt sie.",
        "请指明编号: /sessions 编号。/sessions 可查看列表。",
    ),
    "sessions.unknown": (
        "There is no conversation {wanted} here. /sessions lists them.",
        "Hier gibt es keine Unterhaltung {wanted}. /sessions zeigt sie.",
        "这里没有编号为 {wanted} 的对话。/sessions 可查看列表。",
    ),
    "sessions.already": (
        "“{title}” is the current conversation already.",
        "„{title}“ ist schon die aktuelle Unterhaltung.",
        "“{title}”已是当前对话。",
    ),
    "sessions.switched": (
        "Back in “{title}”. The conversation before is kept.",
        "Zurück in „{title}“. Die vorige Unterhaltung bleibt erhalten.",
        "已回到“{title}”。之前的对话已保留。",
    ),
    "status": (
        "Dutiful {version}, up {uptime}.\nModel: {model}\nThis conversation: {messages} messages{title}\n"
        "Context: {context} of {window} tokens ({percent} %)\n"
        "Today in this chat: {input} tokens in ({cached} of them cached), {output} out{cost}\n"
        "Running turns: {running}, waiting messages: {queued}\nReminders and tasks in this chat: {jobs}{next}",
        "Dutiful {version}, läuft seit {uptime}.\nModell: {model}\n"
        "Diese Unterhaltung: {messages} Nachrichten{title}\nKontext: {context} von {window} Token ({percent} %)\n"
        "Heute in diesem Chat: {input} Token hinein ({cached} davon aus dem Cache), {output} heraus{cost}\n"
        "Laufende Antworten: {running}, wartende Nachrichten: {queued}\n"
        "Erinnerungen und Aufgaben in diesem Chat: {jobs}{next}",
        "Dutiful {version},已运行 {uptime}。\n模型: {model}\n本次对话: {messages} 条消息{title}\n"
        "上下文: {context} / {window} 个 token ({percent} %)\n"
        "本聊天今日: 输入 {input} 个 token (其中缓存 {cached}),输出 {output}{cost}\n"
        "正在处理: {running},排队消息: {queued}\n本聊天的提醒和任务: {jobs}{next}",
    ),
    "status.titled": (" — “{title}”", " — „{title}“", " — “{title}”"),
    "status.cost": (", cost {cost}", ", Kosten {cost}", ",费用 {cost}"),
    "status.servers": (
        "MCP servers not available: {servers}",
        "MCP-Server nicht verfügbar: {servers}",
        "不可用的 MCP 服务器: {servers}",
    ),
    "status.next": (", next {when}", ", nächste {when}", ",下一次 {when}"),
}
