"""Finds, reads and checks the configuration file. Every problem it has ends in one `ConfigError`.

A file that is there but cannot be used is an error, never a reason to look elsewhere or to go on with
defaults: rules about who may do what would be loosened by a typing mistake.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from bot.config.fields import UNREAD_SECRET
from bot.config.sections import (
    AccessSection,
    BotSection,
    JobsSection,
    LimitsSection,
    LlmSection,
    LogSection,
    ServerSection,
)
from bot.config.tools import APP_NAME, TOOL_SECTIONS, CliAppSection, ToolsConfig, ToolsSection
from bot.errors import ConfigError
from bot.security.redaction import redact

_MAX_FILE_BYTES = 1024 * 1024
_EXAMPLE = "config.example.toml"

_CORE: Mapping[str, type[BaseModel]] = {
    "bot": BotSection,
    "llm": LlmSection,
    "access": AccessSection,
    "jobs": JobsSection,
    "limits": LimitsSection,
    "server": ServerSection,
    "log": LogSection,
}
_APPS = "cli_apps"


_SECTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RESERVED = frozenset(
    {
        *_CORE,
        "tools",
        "channels",
        _APPS,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything configured. `channels` has the sections that are present, by channel name: those are on."""

    bot: BotSection
    llm: LlmSection
    access: AccessSection
    jobs: JobsSection
    limits: LimitsSection
    server: ServerSection
    log: LogSection
    tools: ToolsConfig
    channels: Mapping[str, BaseModel]
    plugins: Mapping[str, BaseModel]  # all plugin sections that are present, by full name (channels too)
    path: Path | None  # the file it came from; None: defaults only
    unread: Mapping[str, str]  # secrets that could not be read, by full key, with what is wrong

    def require_secrets(self) -> None:
        """Refuse to go on without the secrets that an engine without channels needs.

        Raises:
            ConfigError: one line per secret that could not be read.
        """
        needed = {key: problem for key, problem in self.unread.items() if not key.startswith("channels.")}
        if needed:
            raise ConfigError("\n".join(f"{self.path}: {key}: {problem}" for key, problem in needed.items()))

    def secrets(self) -> frozenset[str]:
        """Return every secret value, and the passwords inside URLs, for redaction."""
        tools = (self.tools.web, self.tools.image)
        sections = (self.bot, self.llm, self.access, self.jobs, self.server, *tools, *self.plugins.values())
        return frozenset(secret for section in sections for secret in _secrets_in(section))


def find_config(explicit: Path | str | None = None) -> Path | None:
    """Return the file to load: `explicit`, $DUTIFUL_CONFIG, or the first standard place that has one.

    Raises:
        ConfigError: a named file does not exist.
    """
    named, origin = explicit, ""
    if named is None and os.environ.get("DUTIFUL_CONFIG"):
        named, origin = os.environ["DUTIFUL_CONFIG"], " (from $DUTIFUL_CONFIG)"
    if named is not None:
        if "\x00" in str(named) or not str(named):
            raise ConfigError(f"configuration file {str(named)!r}{origin}: not a usable path")
        path = _expand(named)
        if not os.path.lexists(path):
            raise ConfigError(f"{path}{origin}: there is no such file")
        return path
    places = ("dutiful.toml", "~/.config/dutiful/config.toml", "/etc/dutiful/config.toml")
    # A dangling link or an unreadable file counts as found: whoever put it there wants it used.
    return next((path for path in map(_expand, places) if os.path.lexists(path)), None)


def load_config(
    path: Path | str | None = None, *, sections: Mapping[str, type[BaseModel]], secrets: bool = True
) -> Config:
    """Load `path`, or what `find_config` finds, or defaults.

    `sections` maps full names of plugin sections to their models, such as `channels.telegram`; one without a dot
    is a tool's and may also stand under `[tools]`. Without `secrets`,
    those that cannot be read are no problem but are listed in `Config.unread`: whoever only talks to a running
    service seldom has its environment and never its systemd credentials.

    Raises:
        ConfigError: one line per problem, each with file, key and what is wrong.
    """
    file = find_config(path)
    raw = {} if file is None else _read(file)
    folder = Path.cwd() if file is None else Path(os.path.abspath(file)).parent  # noqa: PTH100  # keep links
    check = _Check(raw, dict(sections), folder, secrets=secrets)
    models = check.run()
    if check.problems:
        prefix = "configuration" if file is None else str(file)
        # A literal secret in the wrong place must not reach the terminal or the journal either.
        raise ConfigError(redact("\n".join(f"{prefix}: {problem}" for problem in check.problems)))
    core: dict[str, Any] = {name: models.pop(name) for name in _CORE}
    tools: dict[str, Any] = {
        name.partition(".")[2] or "main": models.pop(name) for name in TOOL_SECTIONS if name in models
    }
    apps: dict[str, Any] = {
        name.partition(".")[2]: models.pop(name) for name in list(models) if name.startswith(f"{_APPS}.")
    }
    plugins = models
    channels = {
        name.removeprefix("channels."): model for name, model in plugins.items() if name.startswith("channels.")
    }
    return Config(
        **core,
        tools=ToolsConfig(**tools, cli_apps=apps),
        channels=channels,
        plugins=plugins,
        path=file,
        unread=check.unread,
    )


def default_config_text() -> str:
    """Return the commented example configuration, which `dutiful init` writes."""
    package = Path(__file__).parents[1]
    # An installed wheel carries the file inside the package, a checkout has it at its top.
    for place in (package / _EXAMPLE, package.parent / _EXAMPLE):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise ConfigError(f"this installation lacks {_EXAMPLE}")


def _expand(path: Path | str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = _read_bytes(path).decode("utf-8-sig")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except ValueError as error:  # tomllib's own error and those of its number and date parsing
        raise ConfigError(redact(f"{path}: is not valid TOML: {error}")) from None


def _read_bytes(path: Path) -> bytes:
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{path}: is a folder, not a file")
        if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):  # /dev/null is a usual name for "nothing"
            raise ConfigError(f"{path}: is not an ordinary file")
        data = bytearray()
        while chunk := os.read(descriptor, _MAX_FILE_BYTES + 1 - len(data)):
            data += chunk
    finally:
        os.close(descriptor)
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {_MAX_FILE_BYTES} bytes; is this the right file?")
    return bytes(data)


# --- checking --------------------------------------------------------------------------------------------


class _Check:
    """One pass over a parsed file: builds the sections and collects the problems."""

    def __init__(
        self, raw: dict[str, Any], plugins: dict[str, type[BaseModel]], folder: Path, *, secrets: bool
    ) -> None:
        self._raw = raw
        self._models = {**plugins, **_CORE, **TOOL_SECTIONS}
        self._plugins = {name: model for name, model in plugins.items() if name not in {*_CORE, *TOOL_SECTIONS, _APPS}}
        self._folder = folder
        self._secrets = secrets
        self.problems: list[str] = []
        self.unread: dict[str, str] = {}

    def run(self) -> dict[str, BaseModel]:
        """Return the models of all core sections and of the other sections that are present."""
        found: dict[str, Any] = {name: self._raw.get(name, {}) for name in _CORE}
        groups = {"channels", *(name.partition(".")[0] for name in self._plugins if "." in name)} - {"tools"}
        tops = {*_CORE, *groups, "tools", _APPS, *(name for name in self._plugins if "." not in name)}
        for name, value in self._raw.items():
            if name not in tops:
                self._unknown(name, name, tops, what="section" if isinstance(value, dict) else "key")
            elif name == "tools":
                found |= self._tools(value)
            elif name == _APPS:
                found |= self._apps(value)
            elif name in groups:
                found |= self._group(name, value)
            elif name not in _CORE:
                found[name] = value
        models = {name: self._section(name, value) for name, value in found.items()}
        self._check_owner_channels(models["access"])
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
                known = {*(full.partition(".")[2] for full in TOOL_SECTIONS if "." in full), *self._plugins}
                self._unknown(f"tools.{name}", name, known, what="section")
            elif below.get(name) == name and name in self._raw:
                self.problems.append(f"tools.{name}: stands as [{name}] too; keep one of them")
        found = {full: value[name] for name, full in below.items()}
        return found | {"tools": {key: item for key, item in value.items() if not isinstance(item, dict)}}

    def _apps(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.problems.append(f"{_APPS}: must be a table of sections such as [{_APPS}.NAME]")
            return {}
        for name in value:
            if not APP_NAME.fullmatch(name):
                self.problems.append(f"{_APPS}.{name}: a name has letters, digits, '_' and '-', at most 64")
            self._models[f"{_APPS}.{name}"] = CliAppSection
        return {f"{_APPS}.{name}": section for name, section in value.items()}

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
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {_kind(given)}"
    text = item["msg"].replace("Input should be", "must be", 1).replace("String should", "must", 1)
    shown = f", not {given}" if isinstance(given, int | float) and not isinstance(given, bool) else ""
    return f"{text}{shown}"


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    return "a table" if isinstance(value, dict) else names.get(type(value), "a date or time")


def _secrets_in(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        if value.get_secret_value() != UNREAD_SECRET:
            yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets_in(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _secrets_in(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _secrets_in(item)
    elif isinstance(value, str) and "://" in value and "@" in value:
        password = urlsplit(value).password
        if password:
            yield password
