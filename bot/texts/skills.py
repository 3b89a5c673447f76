"""Sentences about skills."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "help.skills": ("list the skills", "die Skills zeigen", "列出技能"),
    "skills.list": (
        "Skills. Write $NAME in a message to use one.\n{skills}",
        "Skills. Mit $NAME in einer Nachricht wird einer benutzt.\n{skills}",
        "技能列表。在消息中写 $名称 即可使用。\n{skills}",
    ),
    "skills.none": ("There are no skills.", "Es gibt keine Skills.", "没有技能。"),
    "skills.usable": ("${name} ({source}): {about}", "${name} ({source}): {about}", "${name}({source}): {about}"),
    "skills.always": (
        "{name} ({source}, always on): {about}",
        "{name} ({source}, immer an): {about}",
        "{name}({source},始终启用): {about}",
    ),
    "skills.unusable": ("{name} ({source}): {why}", "{name} ({source}): {why}", "{name}({source}): {why}"),
    "skills.more": ("… and {count} more", "… und {count} weitere", "……还有 {count} 个"),
    "skills.folder": ("Not readable: {what}", "Nicht lesbar: {what}", "无法读取: {what}"),
    "skills.from.shared": ("workspace", "Arbeitsbereich", "工作区"),
    "skills.from.configured": ("configured", "konfiguriert", "配置"),
    "skills.from.built-in": ("built in", "mitgeliefert", "内置"),
    "skills.from.chat": ("this chat", "dieser Chat", "本聊天"),
    "skills.problem.broken": ("broken: {detail}", "defekt: {detail}", "已损坏: {detail}"),
    "skills.problem.disabled": ("disabled", "abgeschaltet", "已停用"),
    "skills.problem.program": (
        "needs the program {detail}, which is not installed",
        "braucht das Programm {detail}, das nicht installiert ist",
        "需要程序 {detail},但尚未安装",
    ),
    "skills.problem.variable": (
        "needs the environment variable {detail}, which is not set",
        "braucht die Umgebungsvariable {detail}, die nicht gesetzt ist",
        "需要环境变量 {detail},但尚未设置",
    ),
    "skills.problem.taken": (
        "not used: a skill of this installation has this name",
        "unbenutzt: ein Skill dieser Installation heißt schon so",
        "未使用: 本系统已有同名技能",
    ),
}
