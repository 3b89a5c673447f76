"""Sentences of the core commands, of reminders, tasks, goals and failures."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    # --- commands
    "stopped": ("Stopped.", "Gestoppt.", "已停止。"),
    "nothing_to_stop": ("Nothing is running.", "Es läuft gerade nichts.", "当前没有正在运行的任务。"),
    "programs_ended": (
        "Ended {count} program(s) that ran in the background.",
        "{count} Programm(e) im Hintergrund beendet.",
        "已结束 {count} 个后台程序。",
    ),
    "help": (
        "I answer messages and keep reminders.\n{commands}",
        "Ich beantworte Nachrichten und merke mir Erinnerungen.\n{commands}",
        "我可以回答消息,也会按时提醒你。\n{commands}",
    ),
    "help.stop": ("end what is running", "Laufendes beenden", "停止正在运行的任务"),
    "help.help": ("this list", "diese Liste", "显示此列表"),
    "help.remind": (
        "set a reminder, e.g. /remind in 10 minutes stretch",
        "Erinnerung anlegen, z. B. /remind in 10 Minuten strecken",
        "设置提醒,例如 /remind 10分钟后 伸展",
    ),
    "help.reminders": ("list reminders and tasks", "Erinnerungen und Aufgaben zeigen", "列出提醒和任务"),
    "help.cancel": ("remove one: /cancel ID", "eine entfernen: /cancel ID", "删除提醒: /cancel ID"),
    "help.timezone": (
        "show or set your time zone, e.g. /timezone Europe/Berlin",
        "Zeitzone zeigen oder setzen, z. B. /timezone Europe/Berlin",
        "查看或设置时区,例如 /timezone Asia/Shanghai",
    ),
    "help.restart": ("restart me (owners)", "mich neu starten (Besitzer)", "重启(仅限所有者)"),
    "unknown_command": (
        "I do not know {command}. /help lists what I know.",
        "{command} kenne ich nicht. /help zeigt, was ich kenne.",
        "我不认识命令 {command}。发送 /help 查看可用命令。",
    ),
    "owners_only": ("Only an owner may do that.", "Das darf nur ein Besitzer.", "只有所有者可以这样做。"),
    "restarting": ("Restarting.", "Ich starte neu.", "正在重启。"),
    "timezone_is": (
        "Your time zone is {zone}; it is {now}. Change it with /timezone NAME.",
        "Deine Zeitzone ist {zone}; es ist {now}. Ändern mit /timezone NAME.",
        "你的时区是 {zone},现在是 {now}。用 /timezone 名称 修改。",
    ),
    "timezone_unknown": (
        "I do not know the time zone “{name}”.{similar} Names look like Europe/Berlin, Asia/Shanghai or UTC.",
        "Die Zeitzone „{name}“ kenne ich nicht.{similar} Namen sehen so aus: Europe/Berlin, Asia/Shanghai oder UTC.",
        "我不认识时区“{name}”。{similar}名称的写法如 Europe/Berlin、Asia/Shanghai 或 UTC。",
    ),
    "timezone_similar": (" Did you mean {zones}?", " Meintest du {zones}?", "你是指 {zones} 吗?"),
    "timezone_set": (
        "Your time zone is now {zone}; it is {now}.",
        "Deine Zeitzone ist jetzt {zone}; es ist {now}.",
        "你的时区已设为 {zone},现在是 {now}。",
    ),
    # --- reminders
    "reminder_set": (
        "Reminder set: “{title}” — {when} [{id}]",
        "Erinnerung gesetzt: „{title}“ — {when} [{id}]",
        "提醒已设置: “{title}” — {when} [{id}]",
    ),
    "task_set": (
        "Task scheduled: “{title}” — {when} [{id}]",
        "Aufgabe geplant: „{title}“ — {when} [{id}]",
        "任务已安排: “{title}” — {when} [{id}]",
    ),
    "job_changed": (
        "Changed: “{title}” — {when} [{id}]",
        "Geändert: „{title}“ — {when} [{id}]",
        "已修改: “{title}” — {when} [{id}]",
    ),
    "job_paused": ("Paused: “{title}” [{id}]", "Pausiert: „{title}“ [{id}]", "已暂停: “{title}” [{id}]"),
    "job_started": ("Started now: “{title}” [{id}]", "Jetzt gestartet: „{title}“ [{id}]", "现已执行: “{title}” [{id}]"),
    "job_removed": ("Removed: “{title}” [{id}]", "Entfernt: „{title}“ [{id}]", "已删除: “{title}” [{id}]"),
    "next_time": ("{when}, next {first}", "{when}, das nächste Mal {first}", "{when},下一次 {first}"),
    "no_jobs": (
        "No reminders or tasks in this chat.",
        "Keine Erinnerungen oder Aufgaben in diesem Chat.",
        "本聊天没有提醒或任务。",
    ),
    "jobs_title": ("Reminders and tasks:", "Erinnerungen und Aufgaben:", "提醒和任务:"),
    "paused": ("paused", "pausiert", "已暂停"),
    "no_such_job": (
        "There is no reminder or task {id} in this chat.",
        "In diesem Chat gibt es keine Erinnerung oder Aufgabe {id}.",
        "本聊天没有编号为 {id} 的提醒或任务。",
    ),
    "cancel_usage": (
        "Say which one: /cancel ID. /reminders lists them.",
        "Sag, welche: /cancel ID. /reminders zeigt sie.",
        "请指明编号: /cancel ID。/reminders 可查看列表。",
    ),
    "remind_usage": (
        "Say when and what, e.g. /remind in 10 minutes stretch, or /remind every weekday at 9 check the mail.",
        "Sag wann und was, z. B. /remind in 10 Minuten strecken oder /remind jeden Werktag um 9 Post prüfen.",
        "请说明时间和内容,例如 /remind 10分钟后 伸展。",
    ),
    "nobody_delivers": (
        "Warning: nothing is running that would deliver this. Start `dutiful run` (or keep `dutiful chat` open).",
        "Achtung: Es läuft nichts, was das zustellt. Starte `dutiful run` (oder lass `dutiful chat` offen).",
        "注意: 当前没有进程会发送此提醒。请启动 `dutiful run`(或保持 `dutiful chat` 打开)。",
    ),
    "late": ("(late: this was due {when})", "(verspätet: fällig war das {when})", "(迟到: 原定时间 {when})"),
    "task_missed": (
        "“{title}” was due {when} while I was off. That is too long ago, so I did not run it.",
        "„{title}“ war fällig am {when}, als ich aus war. Das ist zu lange her, ich habe es nicht ausgeführt.",
        "“{title}” 原定于 {when},当时我未运行。时间已过太久,因此没有执行。",
    ),
    "task_failed": (
        "The task “{title}” failed: {reason}",
        "Die Aufgabe „{title}“ ist fehlgeschlagen: {reason}",
        "任务“{title}”失败: {reason}",
    ),
    "revoked": (
        "Whoever asked for this may not use me any more.",
        "Wer das wollte, darf mich nicht mehr benutzen.",
        "提出此请求的人已无权使用我。",
    ),
    "job_revoked": (
        "“{title}” [{id}] is paused: whoever made it may not use me any more. An owner can resume or remove it.",
        "„{title}“ [{id}] ist pausiert: Wer das angelegt hat, darf mich nicht mehr benutzen. "
        "Ein Besitzer kann es fortsetzen oder entfernen.",
        "“{title}” [{id}] 已暂停: 创建者已无权使用我。所有者可以恢复或删除它。",
    ),
    "nothing_removed": (
        "(Note: no reminder was removed or changed in this turn. /reminders shows what is stored.)",
        "(Hinweis: Dabei wurde keine Erinnerung entfernt oder geändert. /reminders zeigt, was gespeichert ist.)",
        "(注意: 本次没有删除或修改任何提醒。/reminders 可查看已保存的提醒。)",
    ),
    "nothing_scheduled": (
        "(Note: no reminder was stored in this turn. /reminders shows what is.)",
        "(Hinweis: Dabei wurde keine Erinnerung gespeichert. /reminders zeigt, was gespeichert ist.)",
        "(注意: 本次没有保存任何提醒。/reminders 可查看已保存的提醒。)",
    ),
    # --- failures a person sees
    "fail.rate_limit": (
        "The model provider is rate-limiting me. Please try again{wait}.",
        "Der Modellanbieter begrenzt gerade meine Anfragen. Bitte versuche es{wait} noch einmal.",
        "模型服务限制了请求频率,请{wait}再试。",
    ),
    "fail.wait": (" in {seconds} s", " in {seconds} s", "在 {seconds} 秒后"),
    "fail.wait_minutes": (" in {minutes} min", " in {minutes} min", "在 {minutes} 分钟后"),
    "fail.wait_later": (" later", " später", "稍后"),
    "fail.quota": (
        "The model account is out of credit. The owner has to top it up or choose another model.",
        "Das Guthaben beim Modellanbieter ist aufgebraucht. Der Besitzer muss es aufladen oder ein anderes Modell wählen.",
        "模型账户额度已用完,需要所有者充值或更换模型。",
    ),
    "fail.auth": (
        "The model provider refused my key. The owner has to check [llm] api_key.",
        "Der Modellanbieter lehnt meinen Schlüssel ab. Der Besitzer muss [llm] api_key prüfen.",
        "模型服务拒绝了密钥,需要所有者检查 [llm] api_key。",
    ),
    "fail.bad_request": (
        "The model refused the request as malformed. The log has the details.",
        "Das Modell hat die Anfrage als fehlerhaft abgelehnt. Einzelheiten stehen im Protokoll.",
        "模型认为请求无效而拒绝了。详情见日志。",
    ),
    "fail.not_found": (
        "The model was not found. The owner has to check [llm] model and base_url.",
        "Das Modell wurde nicht gefunden. Der Besitzer muss [llm] model und base_url prüfen.",
        "找不到模型,需要所有者检查 [llm] 的 model 和 base_url。",
    ),
    "fail.context_length": (
        "This conversation no longer fits the model. Shorten it with /compact, or start a new one with /new.",
        "Diese Unterhaltung passt nicht mehr in das Modell. Kürze sie mit /compact oder beginne mit /new eine neue.",
        "对话内容已超过模型上限。请用 /compact 压缩对话,或用 /new 开始新的对话。",
    ),
    "fail.window": (
        "The model's context window is too small for my instructions and tools. The owner has to choose a model with "
        "a larger one, or switch tools off with [tools] disabled.",
        "Das Kontextfenster des Modells ist zu klein für meine Anweisungen und Werkzeuge. Der Besitzer muss ein Modell "
        "mit einem größeren wählen oder mit [tools] disabled Werkzeuge abschalten.",
        "模型的上下文窗口太小,容不下我的指令和工具。机主需要换用窗口更大的模型,或用 [tools] disabled 关闭一些工具。",
    ),
    "fail.content_filter": (
        "The model provider declined to answer this.",
        "Der Modellanbieter hat die Antwort darauf abgelehnt.",
        "模型服务拒绝回答此内容。",
    ),
    "fail.timeout": (
        "The model took too long to answer. Please try again.",
        "Das Modell hat zu lange gebraucht. Bitte versuche es noch einmal.",
        "模型响应超时,请重试。",
    ),
    "fail.connection": (
        "I cannot reach the model right now. Please try again later.",
        "Ich erreiche das Modell gerade nicht. Bitte versuche es später noch einmal.",
        "目前无法连接模型,请稍后再试。",
    ),
    "fail.server": (
        "The model provider has a problem. Please try again later.",
        "Der Modellanbieter hat ein Problem. Bitte versuche es später noch einmal.",
        "模型服务出现问题,请稍后再试。",
    ),
    "fail.cut": (
        "The answer broke off. Please try again.",
        "Die Antwort ist abgebrochen. Bitte versuche es noch einmal.",
        "回答中断了,请重试。",
    ),
    "fail.malformed": (
        "The model sent something I cannot read. Please try again.",
        "Das Modell hat etwas Unlesbares geschickt. Bitte versuche es noch einmal.",
        "模型返回了无法识别的内容,请重试。",
    ),
    "fail.internal": (
        "Something went wrong on my side; the log has the details. Your message is listed in `dutiful status`.",
        "Bei mir ist etwas schiefgegangen; Einzelheiten stehen im Protokoll. "
        "Deine Nachricht steht in `dutiful status`.",
        "我这边出了问题,详情见日志。你的消息可在 `dutiful status` 中找到。",
    ),
    "fail.dead": (
        "I could not handle this message: each of {attempts} attempts was cut short. It is kept for the owner to see: {text}",
        "Ich konnte diese Nachricht nicht bearbeiten: Alle {attempts} Versuche brachen ab. "
        "Sie bleibt für den Besitzer sichtbar: {text}",
        "无法处理这条消息: {attempts} 次尝试都中断了。消息已保留供所有者查看: {text}",
    ),
    "fail.empty": (
        "The model gave an empty answer. Please try again or ask differently.",
        "Das Modell hat eine leere Antwort gegeben. Bitte versuche es noch einmal oder frag anders.",
        "模型给出了空的回答,请重试或换一种问法。",
    ),
    "fail.steps": (
        "I stopped after {steps} steps without finishing. Done so far: {done}. "
        "Send “continue” to go on, or say what to do instead.",
        "Ich habe nach {steps} Schritten aufgehört, ohne fertig zu sein. Bisher getan: {done}. "
        "Schreib „weiter“, um fortzufahren, oder sag, was ich stattdessen tun soll.",
        "我在 {steps} 步后停下,尚未完成。目前已做: {done}。发送“继续”以继续,或告诉我改做什么。",
    ),
    "fail.repeat": (
        "I stopped because the same action kept giving the same result ({tool}).",
        "Ich habe aufgehört, weil dieselbe Aktion immer dasselbe ergab ({tool}).",
        "由于同一操作反复得到相同结果({tool}),我已停止。",
    ),
    "fail.broken_call": (
        "I stopped because the model kept sending a tool call that cannot be used ({tool}).",
        "Ich habe aufgehört, weil das Modell immer wieder einen unbrauchbaren Werkzeugaufruf schickte ({tool}).",
        "模型反复发出无法使用的工具调用({tool}),我已停止。",
    ),
    "stale": (
        "Your message of {when} reached me only now, so I did not act on it. Send it again if it still matters.",
        "Deine Nachricht vom {when} hat mich erst jetzt erreicht, ich habe sie nicht ausgeführt. "
        "Schick sie noch einmal, wenn sie noch wichtig ist.",
        "你在 {when} 发送的消息刚刚才收到,因此没有处理。如仍需要,请重新发送。",
    ),
    "queue_full": (
        "Too many messages are waiting; I could not take this one. Please send it again later.",
        "Es warten zu viele Nachrichten; diese konnte ich nicht annehmen. Bitte schick sie später noch einmal.",
        "排队的消息太多,暂时无法接收。请稍后再发送。",
    ),
    "answer.cut": (
        "(The answer is longer than the model may write at once; this is where it stopped. Say “continue” for more.)",
        "(Die Antwort ist länger, als das Modell auf einmal schreiben darf; hier endet sie. Schreib „weiter“ für mehr.)",
        "(回答超出了模型一次可写的长度,到此中断。发送“继续”可接着写。)",
    ),
    "answer.filtered": (
        "(The provider's content filter broke off this answer.)",
        "(Der Inhaltsfilter des Anbieters hat diese Antwort abgebrochen.)",
        "(此回答被模型服务的内容过滤器中断。)",
    ),
    "stand_in": (
        "(The model cannot be reached; I handled this myself.)",
        "(Das Modell ist nicht erreichbar; das habe ich selbst erledigt.)",
        "(模型暂时无法连接,此请求由我直接处理。)",
    ),
    # --- subagents
    "subagent.failed": (
        "The background task “{label}” failed: {reason}",
        "Die Hintergrundaufgabe „{label}“ ist fehlgeschlagen: {reason}",
        "后台任务“{label}”失败: {reason}",
    ),
    "subagent.unfinished": (
        "The background task “{label}” ended unfinished. So far: {text}",
        "Die Hintergrundaufgabe „{label}“ blieb unvollendet. Bisher: {text}",
        "后台任务“{label}”未完成。目前结果: {text}",
    ),
    "subagent.done": (
        "The background task “{label}”: {text}",
        "Die Hintergrundaufgabe „{label}“: {text}",
        "后台任务“{label}”: {text}",
    ),
    # --- sustained goals
    "goal.spent": (
        "The goal “{title}” is closed: its budget is used up ({used}).",
        "Das Ziel „{title}“ ist beendet: Das Budget ist aufgebraucht ({used}).",
        "目标“{title}”已结束: 预算已用完({used})。",
    ),
    "goal.stalled": (
        "The goal “{title}” is closed: nothing was done in several turns in a row ({used}).",
        "Das Ziel „{title}“ ist beendet: Mehrere Runden hintereinander wurde nichts getan ({used}).",
        "目标“{title}”已结束: 连续多轮没有任何进展({used})。",
    ),
    "goal.failed": (
        "The goal “{title}” is closed: {reason}",
        "Das Ziel „{title}“ ist beendet: {reason}",
        "目标“{title}”已结束: {reason}",
    ),
    "goal.used": (
        "{steps} of {max_steps} steps, {minutes} of {max_minutes} minutes",
        "{steps} von {max_steps} Schritten, {minutes} von {max_minutes} Minuten",
        "{steps}/{max_steps} 步,{minutes}/{max_minutes} 分钟",
    ),
    "goal.used_tokens": (
        ", {tokens} of {max_tokens} tokens",
        ", {tokens} von {max_tokens} Tokens",
        ",{tokens}/{max_tokens} 个 token",
    ),
    "goal.items_done": ("Done:", "Erledigt:", "已完成:"),
    "goal.items_open": ("Open:", "Offen:", "未完成:"),
    "goal.paused": (
        "The goal “{title}” is paused. Write to me and it goes on; /stop closes it.",
        "Das Ziel „{title}“ ist pausiert. Schreib mir, dann geht es weiter; /stop beendet es.",
        "目标“{title}”已暂停。给我发消息即可继续; /stop 可结束它。",
    ),
    "goal.revoked": (
        "The goal “{title}” is paused: whoever set it may not have me work on it here any more. /stop closes it.",
        "Das Ziel „{title}“ ist pausiert: Wer es gesetzt hat, darf mich hier nicht mehr daran arbeiten lassen. "
        "/stop beendet es.",
        "目标“{title}”已暂停: 设定者已无权让我在此继续。/stop 可结束它。",
    ),
    "goal.stopped": (
        "The goal “{title}” is closed.",
        "Das Ziel „{title}“ ist beendet.",
        "目标“{title}”已结束。",
    ),
    "goal.status": ("Goal: “{title}”, {used}", "Ziel: „{title}“, {used}", "目标: “{title}”,{used}"),
    "goal.status_paused": (
        "Goal (paused): “{title}”, {used}",
        "Ziel (pausiert): „{title}“, {used}",
        "目标(已暂停): “{title}”,{used}",
    ),
    # --- offline provider
    "offline.no_model": (
        "No model is set up, so I can only keep reminders: try “remind me in 10 minutes to stretch”. "
        "To set one up, put base_url or api_key under [llm] in the configuration (`dutiful init` writes one).",
        "Es ist kein Modell eingerichtet, ich kann nur Erinnerungen: etwa „erinnere mich in 10 Minuten ans Strecken“. "
        "Um eines einzurichten, trage base_url oder api_key unter [llm] in die Konfiguration ein "
        "(`dutiful init` schreibt eine).",
        "尚未设置模型,我只能处理提醒: 例如“10分钟后提醒我伸展”。"
        "要设置模型,请在配置文件的 [llm] 中填写 base_url 或 api_key(`dutiful init` 可生成配置)。",
    ),
    "offline.model_down": (
        "This needs the model, which cannot be reached now. Please ask again later.",
        "Dafür braucht es das Modell, das gerade nicht erreichbar ist. Bitte frag später noch einmal.",
        "这需要模型,而模型暂时无法连接。请稍后再问。",
    ),
    "offline.too_much": (
        "This was too much at once, and I did not get to it; please send it again: “{text}”",
        "Das war zu viel auf einmal, dazu bin ich nicht gekommen; bitte schick es noch einmal: „{text}“",
        "一次太多了,我还没有处理这一条,请重新发送: “{text}”",
    ),
    "offline.past": (
        "That time has passed already. When should I remind you?",
        "Diese Zeit ist schon vorbei. Wann soll ich dich erinnern?",
        "这个时间已经过去了。应该什么时候提醒你?",
    ),
    "offline.no_time": (
        "When? For example “in 10 minutes” or “tomorrow at 9”.",
        "Wann? Zum Beispiel „in 10 Minuten“ oder „morgen um 9“.",
        "什么时候? 例如“10分钟后”或“明天早上九点”。",
    ),
    "offline.no_text": ("Remind you of what?", "Woran soll ich dich erinnern?", "提醒你什么?"),
    "offline.unclear": (
        "I did not understand the time. Try “tomorrow at 9” or “every Monday at 10”.",
        "Die Zeit habe ich nicht verstanden. Versuche „morgen um 9“ oder „jeden Montag um 10“.",
        "没有听懂时间。请试试“明天九点”或“每周一十点”。",
    ),
    "offline.too_often": (
        "That is too often for me. Choose a longer interval.",
        "Das ist mir zu oft. Wähle einen längeren Abstand.",
        "间隔太短了,请选择更长的间隔。",
    ),
    "offline.unsupported": (
        "I understood that, but no schedule of mine can express it. Try two simpler reminders.",
        "Das habe ich verstanden, aber so einen Rhythmus kann ich nicht. Versuche es mit zwei einfacheren Erinnerungen.",
        "我听懂了,但无法安排这样的周期。请试试两个更简单的提醒。",
    ),
    "offline.ambiguous": (
        "Which one? {candidates}",
        "Welche? {candidates}",
        "是哪一个? {candidates}",
    ),
    "offline.not_found": (
        "I found no reminder like “{wanted}”. /reminders lists them.",
        "Ich habe keine Erinnerung wie „{wanted}“ gefunden. /reminders zeigt sie.",
        "没有找到类似“{wanted}”的提醒。/reminders 可查看列表。",
    ),
    "status.thinking": ("is thinking…", "denkt nach…", "正在思考…"),
}
