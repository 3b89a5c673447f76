"""Finds and reads the configuration file; `checking.py` judges it. Every problem it has ends in one `ConfigError`.

A file that is there but cannot be used is an error, never a reason to look elsewhere or to go on with
defaults: rules about who may do what would be loosened by a typing mistake.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from bot.config.checking import APPS, CORE, MCP, Check
from bot.config.conversation import MemorySection, SessionsSection, SkillsSection
from bot.config.fields import UNREAD_SECRET
from bot.config.mcp import McpSection
from bot.config.models import LlmSection, SpeechSection, TranscriptionSection
from bot.config.sections import (
    AccessSection,
    BotSection,
    JobsSection,
    LimitsSection,
    LogSection,
    ServerSection,
)
from bot.config.tools import TOOL_SECTIONS, ToolsConfig
from bot.errors import ConfigError
from bot.security.redaction import redact

_MAX_FILE_BYTES = 1024 * 1024
_EXAMPLE = "config.example.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything configured. `channels` has the sections that are present, by channel name: those are on."""

    bot: BotSection
    llm: LlmSection
    access: AccessSection
    jobs: JobsSection
    sessions: SessionsSection
    memory: MemorySection
    skills: SkillsSection
    transcription: TranscriptionSection
    speech: SpeechSection
    limits: LimitsSection
    server: ServerSection
    log: LogSection
    tools: ToolsConfig
    mcp: Mapping[str, McpSection]  # servers by name
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
        sound = (self.transcription, self.speech)
        sections: tuple[BaseModel, ...] = (self.bot, self.llm, self.access, self.jobs, self.server, *sound, *tools)
        sections += (*self.mcp.values(), *self.plugins.values())
        return frozenset(secret for section in sections for secret in _secrets_in(section))


def _taken(models: dict[str, BaseModel], group: str) -> dict[str, Any]:
    """Take the sections `[group.NAME]` out of the models, by NAME."""
    return {name.partition(".")[2]: models.pop(name) for name in list(models) if name.startswith(f"{group}.")}


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
    check = Check(raw, dict(sections), folder, secrets=secrets)
    models = check.run()
    if check.problems:
        prefix = "configuration" if file is None else str(file)
        # A literal secret in the wrong place must not reach the terminal or the journal either.
        raise ConfigError(redact("\n".join(f"{prefix}: {problem}" for problem in check.problems)))
    core: dict[str, Any] = {name: models.pop(name) for name in CORE}
    tools: dict[str, Any] = {
        name.partition(".")[2] or "main": models.pop(name) for name in TOOL_SECTIONS if name in models
    }
    apps, servers = _taken(models, APPS), _taken(models, MCP)
    plugins = models
    channels = {
        name.removeprefix("channels."): model for name, model in plugins.items() if name.startswith("channels.")
    }
    return Config(
        **core,
        tools=ToolsConfig(**tools, cli_apps=apps),
        mcp=servers,
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
