"""Sentences about MCP servers: what they ask of a person, how they stand."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "help.mcp": ("show the MCP servers", "die MCP-Server zeigen", "显示 MCP 服务器"),
    "help.answer": (
        "answer a question of an MCP server",
        "eine Frage eines MCP-Servers beantworten",
        "回答 MCP 服务器的提问",
    ),
    "mcp.ask.head": (
        "The MCP server “{server}” asks (tool {tool}):",
        "Der MCP-Server „{server}“ fragt (Werkzeug {tool}):",
        "MCP 服务器“{server}”询问(工具 {tool}):",
    ),
    "mcp.ask.field": (
        "{title} ({number} of {count})",
        "{title} ({number} von {count})",
        "{title}(第 {number} 项,共 {count} 项)",
    ),
    "mcp.ask.default": ("Default: {value}", "Vorgabe: {value}", "默认值: {value}"),
    "mcp.ask.optional": ("May be left out.", "Kann wegbleiben.", "可以省略。"),
    "mcp.ask.how.buttons": (
        "Press a button, or write /answer {id} followed by the answer.",
        "Bitte einen Knopf drücken oder /answer {id} und die Antwort schreiben.",
        "请按按钮,或发送 /answer {id} 加上答案。",
    ),
    "mcp.ask.how.text": (
        "Reply to this message, or write /answer {id} followed by the answer.",
        "Bitte auf diese Nachricht antworten oder /answer {id} und die Antwort schreiben.",
        "请回复本消息,或发送 /answer {id} 加上答案。",
    ),
    "mcp.ask.how.choice": (
        "Reply to this message with a number, or write /answer {id} followed by it.",
        "Bitte mit einer Nummer auf diese Nachricht antworten oder /answer {id} und die Nummer schreiben.",
        "请用编号回复本消息,或发送 /answer {id} 加上编号。",
    ),
    "mcp.ask.how.choices": (
        "Reply to this message with numbers and commas between them, or write /answer {id} followed by them.",
        "Bitte mit Nummern und Kommas dazwischen auf diese Nachricht antworten oder /answer {id} und sie schreiben.",
        "请用逗号分隔的编号回复本消息,或发送 /answer {id} 加上这些编号。",
    ),
    "mcp.ask.how.consent": (
        "Press a button, or write /answer {id} ok.",
        "Bitte einen Knopf drücken oder /answer {id} ok schreiben.",
        "请按按钮,或发送 /answer {id} ok。",
    ),
    "mcp.ask.how.visit": (
        "Open it only if you trust this host. Then press a button, or write /answer {id} done.",
        "Nur öffnen, wenn dieser Host vertrauenswürdig ist. Danach einen Knopf drücken oder /answer {id} done "
        "schreiben.",
        "仅在信任该主机时打开。完成后请按按钮,或发送 /answer {id} done。",
    ),
    "mcp.ask.visit": (
        "It wants you to visit a page of {host}:",
        "Es soll eine Seite von {host} besucht werden:",
        "它希望您访问 {host} 的页面:",
    ),
    "mcp.ask.no_secrets": (
        "Never send passwords or keys here.",
        "Bitte nie Passwörter oder Schlüssel hierher schicken.",
        "请勿在此发送密码或密钥。",
    ),
    "mcp.ask.yes": ("Yes", "Ja", "是"),
    "mcp.ask.no": ("No", "Nein", "否"),
    "mcp.ask.agree": ("Agree", "Zustimmen", "同意"),
    "mcp.ask.done": ("Done", "Erledigt", "完成"),
    "mcp.ask.decline": ("Decline", "Ablehnen", "拒绝"),
    "mcp.ask.use_default": ("Use default", "Vorgabe nehmen", "使用默认值"),
    "mcp.ask.leave_out": ("Leave out", "Weglassen", "省略"),
    "mcp.misfit.yes_no": (
        "That is neither yes nor no. Please answer again.",
        "Das ist weder Ja noch Nein. Bitte noch einmal antworten.",
        "这既不是“是”也不是“否”。请重新回答。",
    ),
    "mcp.misfit.number": (
        "That is not a number. Please answer again.",
        "Das ist keine Zahl. Bitte noch einmal antworten.",
        "这不是数字。请重新回答。",
    ),
    "mcp.misfit.integer": (
        "That is not a whole number. Please answer again.",
        "Das ist keine ganze Zahl. Bitte noch einmal antworten.",
        "这不是整数。请重新回答。",
    ),
    "mcp.misfit.choice": (
        "That is none of the choices. Please answer again.",
        "Das steht nicht zur Auswahl. Bitte noch einmal antworten.",
        "这不在选项之中。请重新回答。",
    ),
    "mcp.misfit.email": (
        "That is not an e-mail address. Please answer again.",
        "Das ist keine E-Mail-Adresse. Bitte noch einmal antworten.",
        "这不是电子邮件地址。请重新回答。",
    ),
    "mcp.misfit.uri": (
        "That is not an address such as https://example.org. Please answer again.",
        "Das ist keine Adresse wie https://example.org. Bitte noch einmal antworten.",
        "这不是形如 https://example.org 的地址。请重新回答。",
    ),
    "mcp.misfit.date": (
        "That is not a date such as 2026-11-30. Please answer again.",
        "Das ist kein Datum wie 2026-11-30. Bitte noch einmal antworten.",
        "这不是形如 2026-11-30 的日期。请重新回答。",
    ),
    "mcp.misfit.date-time": (
        "That is not a date and time such as 2026-11-30T14:00:00+01:00. Please answer again.",
        "Das ist kein Zeitpunkt wie 2026-11-30T14:00:00+01:00. Bitte noch einmal antworten.",
        "这不是形如 2026-11-30T14:00:00+01:00 的日期时间。请重新回答。",
    ),
    "mcp.misfit.schema": (
        "That does not fit: {what}. Please answer again.",
        "Das passt nicht: {what}. Bitte noch einmal antworten.",
        "这不符合要求: {what}。请重新回答。",
    ),
    "mcp.answer.answered": (
        "The answer went to the server.",
        "Die Antwort ging an den Server.",
        "答案已发送给服务器。",
    ),
    "mcp.answer.declined": (
        "Declined; the server is told so.",
        "Abgelehnt; der Server erfährt das.",
        "已拒绝,服务器会得知。",
    ),
    "mcp.answer.expired": (
        "That question had run out; the answer was not used.",
        "Diese Frage war abgelaufen; die Antwort wurde nicht verwendet.",
        "该问题已过期,答案未被使用。",
    ),
    "mcp.answer.stopped": (
        "That question was ended by /stop; the answer was not used.",
        "Diese Frage wurde durch /stop beendet; die Antwort wurde nicht verwendet.",
        "该问题已被 /stop 终止,答案未被使用。",
    ),
    "mcp.answer.lost": (
        "The server has given that question up; the answer was not used.",
        "Der Server hat diese Frage aufgegeben; die Antwort wurde nicht verwendet.",
        "服务器已放弃该问题,答案未被使用。",
    ),
    "mcp.answer.unknown": (
        "There is no such open question. It is long over, or was lost when the bot was restarted; the answer was not "
        "used.",
        "Eine solche Frage ist nicht offen. Sie ist längst vorbei oder ging bei einem Neustart verloren; die Antwort "
        "wurde nicht verwendet.",
        "没有这样的待答问题。它早已结束,或在机器人重启时丢失;答案未被使用。",
    ),
    "mcp.answer.forbidden": (
        "Only the person who was asked, or an owner, may answer that.",
        "Das darf nur beantworten, wer gefragt wurde, oder ein Eigentümer.",
        "只有被询问的人或所有者可以回答。",
    ),
    "mcp.answer.already": (
        "That question has been answered already.",
        "Diese Frage ist schon beantwortet.",
        "该问题已经回答过。",
    ),
    "mcp.answer.which": (
        "Several questions are open. Reply to one of them, or write /answer, its id and the answer:\n{questions}",
        "Mehrere Fragen sind offen. Bitte auf eine davon antworten oder /answer, ihre Kennung und die Antwort "
        "schreiben:\n{questions}",
        "有多个待答问题。请回复其中一个,或发送 /answer、其编号和答案:\n{questions}",
    ),
    "mcp.answer.usage": (
        "Write /answer, the question's id (ask-…) and the answer.",
        "Bitte /answer, die Kennung der Frage (ask-…) und die Antwort schreiben.",
        "请发送 /answer、问题编号(ask-…)和答案。",
    ),
    "mcp.calls_stopped": (
        "Calls of MCP servers that waited for an answer and were stopped: {count}",
        "Beendete Aufrufe von MCP-Servern, die auf eine Antwort warteten: {count}",
        "已停止等待回答的 MCP 服务器调用: {count}",
    ),
    "mcp.none": (
        "No MCP servers are configured.",
        "Es sind keine MCP-Server eingerichtet.",
        "未配置 MCP 服务器。",
    ),
    "mcp.list": ("MCP servers:\n{servers}", "MCP-Server:\n{servers}", "MCP 服务器:\n{servers}"),
    "mcp.server": ("{name}: {state}", "{name}: {state}", "{name}: {state}"),
    "mcp.server.ready": ("{count} tools", "{count} Werkzeuge", "{count} 个工具"),
    "mcp.server.retry": (
        "next try in {seconds} s",
        "nächster Versuch in {seconds} s",
        "{seconds} 秒后重试",
    ),
    "mcp.state.starting": ("connecting", "verbindet sich", "正在连接"),
    "mcp.state.ready": ("ready", "bereit", "就绪"),
    "mcp.state.offline": ("not reachable", "nicht erreichbar", "无法连接"),
    "mcp.state.login": ("needs a login", "braucht eine Anmeldung", "需要登录"),
    "mcp.state.off": ("switched off", "abgeschaltet", "已停用"),
}
