"""Checks a parsed configuration file: builds the sections, and names every problem with its key.

Finding and reading the file is `loader.py`'s part, what the keys of a section are, the sections' own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.config.conversation import MemorySection, SessionsSection, SkillsSection
from bot.config.mcp import SERVER_NAME, McpSection
from bot.config.models import LlmSection, SpeechSection, TranscriptionSection
from bot.config.sections import (
    AccessSection,
    BotSection,
    JobsSection,
    LimitsSection,
    LogSection,
    ServerSection,
)
from bot.config.tools import APP_NAME, TOOL_SECTIONS, CliAppSection, FilesSection, ToolsSection

CORE: Mapping[str, type[BaseModel]] = {
    "bot": BotSection,
    "llm": LlmSection,
    "access": AccessSection,
    "jobs": JobsSection,
    "sessions": SessionsSection,
    "memory": MemorySection,
    "skills": SkillsSection,
    "transcription": TranscriptionSection,
    "speech": SpeechSection,
    "limits": LimitsSection,
    "server": ServerSection,
    "log": LogSection,
}
APPS = "cli_apps"
MCP = "mcp"


_SECTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RESERVED = frozenset(
    {
        *CORE,
        "tools",
        "channels",
        APPS,
        MCP,
        MCP,
        *ToolsSection.model_fields,
        *(name.partition(".")[2] for name in TOOL_SECTIONS),
    }
)


def may_be_plugin_section(name: str) -> bool:
    """Say whether a plugin may have a section of this name: one word, and none that has a meaning already."""
    return _SECTION_NAME.fullmatch(name) is not None and name not in _RESERVED


class UnusedSection(BaseModel):
    """The section of a plugin that is set aside: whatever it holds is neither checked nor used."""

    model_config = ConfigDict(extra="ignore")


class Check:
    """One pass over a parsed file: builds the sections and collects the problems."""

    def __init__(
        self, raw: dict[str, Any], plugins: dict[str, type[BaseModel]], folder: Path, *, secrets: bool
    ) -> None:
        self._raw = raw
        self._models = {**plugins, **CORE, **TOOL_SECTIONS}
        self._plugins = {
            name: model for name, model in plugins.items() if name not in {*CORE, *TOOL_SECTIONS, APPS, MCP}
        }
        self._folder = folder
        self._secrets = secrets
        self.problems: list[str] = []
        self.unread: dict[str, str] = {}

    def run(self) -> dict[str, BaseModel]:
        """Return the models of all core sections and of the other sections that are present."""
        found: dict[str, Any] = {name: self._raw.get(name, {}) for name in CORE}
        groups = {"channels", *(name.partition(".")[0] for name in self._plugins if "." in name)} - {"tools"}
        tops = {*CORE, *groups, "tools", APPS, MCP, *(name for name in self._plugins if "." not in name)}
        for name, value in self._raw.items():
            if name not in tops:
                self._unknown(name, name, tops, what="section" if isinstance(value, dict) else "key")
            elif name == "tools":
                found |= self._tools(value)
            elif name == APPS:
                found |= self._named(APPS, value, CliAppSection, APP_NAME, "letters, digits, '_' and '-', at most 64")
            elif name == MCP:
                found |= self._named(MCP, value, McpSection, SERVER_NAME, "a-z, 0-9, '_' and '-', at most 32")
            elif name in groups:
                found |= self._group(name, value)
            elif name not in CORE:
                found[name] = value
        models = {name: self._section(name, value) for name, value in found.items()}
        self._check_owner_channels(models["access"])
        self._check_extra_folders(models["bot"], models.get("tools.files"))
        self._check_skill_folders(models["bot"], models.get("tools.files"), models["skills"])
        return {name: model for name, model in models.items() if model is not None}

    def _group(self, group: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.problems.append(f"{group}: must be a table of sections such as [{group}.NAME]")
            return {}
        valid = {name.partition(".")[2] for name in self._plugins if name.startswith(f"{group}.")}
        for name in value:
            if name not in valid:
                self._unknown(f"{group}.{name}", name, valid, what=f"{group.removesuffix('s')}")
        return {f"{group}.{name}": section for name, section in value.items() if name in valid}

    def _tools(self, value: Any) -> dict[str, Any]:
        """Part `[tools]` from the sections below it: its own, and those of plugins."""
        if not isinstance(value, dict):
            return {"tools": value}
        below = {name: f"tools.{name}" for name in value if f"tools.{name}" in self._models}
        below |= {name: name for name in value if name in self._plugins}
        for name in value:
            if name not in below and isinstance(value[name], dict):
                plugins = (full for full in self._plugins if "." not in full)
                known = {*(full.partition(".")[2] for full in TOOL_SECTIONS if "." in full), *plugins}
                self._unknown(f"tools.{name}", name, known, what="section")
            elif below.get(name) == name and name in self._raw:
                self.problems.append(f"tools.{name}: stands as [{name}] too; keep one of them")
        found = {full: value[name] for name, full in below.items()}
        return found | {"tools": {key: item for key, item in value.items() if not isinstance(item, dict)}}

    def _named(
        self, group: str, value: Any, model: type[BaseModel], form: re.Pattern[str], form_words: str
    ) -> dict[str, Any]:
        """Part a table of sections whose names are up to whoever writes the file."""
        if not isinstance(value, dict):
            self.problems.append(f"{group}: must be a table of sections such as [{group}.NAME]")
            return {}
        for name in value:
            if not form.fullmatch(name):
                self.problems.append(f"{group}.{name}: a name has {form_words}")
            self._models[f"{group}.{name}"] = model
        return {f"{group}.{name}": section for name, section in value.items()}

    def _section(self, name: str, value: Any) -> BaseModel | None:
        if not isinstance(value, dict):
            self.problems.append(f"{name}: must be a section, [{name}], not {_kind(value)}")
            return None
        unread: list[tuple[str, str]] = []
        context = {"folder": self._folder, "unread": None if self._secrets else unread}
        try:
            model = self._models[name].model_validate(value, context=context)
        except ValidationError as error:
            self._report(name, value, error)
            return None
        except Exception as error:  # noqa: BLE001 - a plugin's own validator
            self.problems.append(f"{name}: its check failed ({type(error).__name__})")
            return None
        self.unread |= {f"{name}.{key}": problem for key, problem in unread}
        return model

    def _report(self, name: str, value: dict[str, Any], error: ValidationError) -> None:
        by_key: dict[str, list[str]] = {}
        for item in error.errors(include_url=False):
            if item["type"] == "default_factory_not_called":
                continue  # follows from another problem that is listed itself
            keys = _real_keys(value, item)
            path = name + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
            if item["type"] == "extra_forbidden":
                valid = self._models[name].model_fields if len(keys) == 1 else {}
                self._unknown(path, str(keys[-1]), valid, what="key")
            else:
                by_key.setdefault(path, []).append(_explain(item))
        for path, texts in by_key.items():
            # Several texts for a key, or also for what is inside it, are branches of a choice of types.
            if not any(other.startswith((f"{path}.", f"{path}[")) for other in by_key):
                self.problems.append(f"{path}: {' or '.join(dict.fromkeys(texts))}")

    def _unknown(self, path: str, name: str, valid: Mapping[str, Any] | set[str], *, what: str) -> None:
        close = get_close_matches(name.lower(), valid, n=1)
        homes = [f"[{section}]" for section, model in self._models.items() if name in model.model_fields]
        if close:
            hint = f"; did you mean {close[0]!r}?"
        elif what == "key" and homes:
            hint = f"; it belongs in {' or '.join(homes)}"
        elif valid:
            hint = f"; known: {', '.join(sorted(valid))}"
        else:
            hint = ""
        self.problems.append(f"{path}: unknown {what}{hint}")

    def _check_owner_channels(self, access: BaseModel | None) -> None:
        known = {name.partition(".")[2] for name in self._plugins if name.startswith("channels.")}
        for index, entry in enumerate(access.owners if isinstance(access, AccessSection) else ()):
            channel = entry.partition(":")[0]
            if channel not in known:
                self._unknown(f"access.owners[{index}]", channel, known, what=f"channel {channel!r}")

    def _check_extra_folders(self, bot: BaseModel | None, files: BaseModel | None) -> None:
        """Refuse folders for every chat that would open what the bot keeps apart, or each other."""
        if not isinstance(bot, BotSection) or not isinstance(files, FilesSection):
            return
        named = [(f"extra_write[{index}]", folder) for index, folder in enumerate(files.extra_write)]
        named += [(f"extra_read[{index}]", folder) for index, folder in enumerate(files.extra_read)]
        seen: list[tuple[str, str]] = list(_own_folders(bot))
        for key, folder in named:
            real = os.path.realpath(folder)
            # The same folder to read and to write is one that may be written; only nesting is ambiguous.
            others = [(name, path) for name, path in seen if path != real or name.startswith("[bot]")]
            other = next((name for name, path in others if _overlap(real, path)), "")
            if other:
                why = "which is not for every chat" if other.startswith("[bot]") else "keep one of them"
                self.problems.append(f"tools.files.{key}: contains, or lies in, {other}: {why}")
            seen.append((key, real))

    def _check_skill_folders(self, bot: BaseModel | None, files: BaseModel | None, skills: BaseModel | None) -> None:
        """Refuse folders of skills that every chat must not read, or could write: they shape everybody's prompts."""
        if not isinstance(bot, BotSection) or not isinstance(skills, SkillsSection):
            return
        writable = files.extra_write if isinstance(files, FilesSection) else []
        closed = [(name, path, "which is not for every chat") for name, path in _own_folders(bot)]
        closed += [
            ("[tools.files] extra_write", os.path.realpath(path), "which every chat may write") for path in writable
        ]
        for index, folder in enumerate(skills.paths):
            for name, path, why in closed:
                if _overlap(os.path.realpath(folder), path):
                    self.problems.append(f"skills.paths[{index}]: contains, or lies in, {name}: {why}")


def _own_folders(bot: BotSection) -> Iterator[tuple[str, str]]:
    """Yield the folders that no tool may be given, with the keys that name them."""
    yield "[bot] data_dir", os.path.realpath(bot.data_dir)
    yield "[bot] workspace", os.path.realpath(bot.workspace)


def _overlap(one: str, other: str) -> bool:
    return os.path.commonpath((one, other)) in (one, other)


def _real_keys(value: Any, item: Any) -> list[int | str]:
    """Return the part of a problem's location that the file has; pydantic also names branches of unions."""
    keys: list[int | str] = []
    for step in item["loc"]:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            continue
        keys.append(step)
    return [*keys, item["loc"][-1]] if item["type"] == "missing" else keys


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "path_type": "a path in quotes",
    "is_instance_of": "text in quotes",
}


def _explain(item: Any) -> str:
    """Return a problem in words. A string that was given is never repeated: it may be a secret."""
    kind, given = item["type"], item["input"]
    if kind == "missing":
        return "is required"
    if kind in {"value_error", "assertion_error"}:
        return str(item["ctx"]["error"])
    if kind == "too_short":
        return "must not be empty"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {_kind(given)}"
    text = item["msg"].replace("Input should be", "must be", 1).replace("String should", "must", 1)
    shown = f", not {given}" if isinstance(given, int | float) and not isinstance(given, bool) else ""
    return f"{text}{shown}"


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    return "a table" if isinstance(value, dict) else names.get(type(value), "a date or time")
