"""The sections of the tools: what they may reach, and with which keys.

`[tools]` and its parts belong to walls and clients that several tools share, so they are not a tool's own
`config_cls`. `[cli_apps.NAME]` declares the programs that `run_cli_app` may start.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from bot.config.fields import FilePath, SecretText, Section, check_http_url
from bot.config.models import EndpointSection

MAX_COMMAND_S = 600.0
"""Longest time limit of a command (tools contract)."""

SEARCH_ENGINES = ("ddgs", "brave", "tavily", "searxng")
"""What `web_search` can ask; the order is that of the configuration."""

_PROXY = re.compile(r"(?:https?|socks[45]h?)://[^\s/]+/?")

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_CommandSeconds = Annotated[float, Field(gt=0, le=MAX_COMMAND_S, allow_inf_nan=False)]


class ToolsSection(Section):
    """`[tools]`: which tools are left out, by name."""

    disabled: list[str] = Field(default_factory=list)


class SearchEngine(Section):
    """`[tools.web.search_engines.NAME]`: one engine; its own public address unless `base_url` is set."""

    api_key: SecretText | None = None
    base_url: str | None = None
    proxy: str | None = None

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        return value if value is None else check_http_url(value)

    @field_validator("proxy")
    @classmethod
    def _proxy_url(cls, value: str | None) -> str | None:
        if value is not None and not _PROXY.fullmatch(value):
            raise ValueError("must be the URL of a proxy, such as 'http://127.0.0.1:3128'")
        return value


class WebSection(Section):
    """`[tools.web]`: what the network guard lets through, and where searches go."""

    allow_networks: list[str] = Field(default_factory=list)
    search_engines: dict[str, SearchEngine] = Field(default_factory=dict)

    @field_validator("allow_networks")
    @classmethod
    def _usable_networks(cls, value: list[str]) -> list[str]:
        for entry in value:
            try:
                ip_network(entry)
            except ValueError:
                raise ValueError(
                    f"{entry[:64]!r} is not a network such as '10.0.0.0/8', '192.168.1.5' or 'fd00::/8'"
                ) from None
        return value

    @field_validator("search_engines", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Accept a list of names, or of tables with a `name`, for engines in a certain order."""
        if not isinstance(value, list):
            return value
        named: dict[Any, Any] = {}
        for entry in value:
            table = {"name": entry} if isinstance(entry, str) else entry
            if not isinstance(table, dict) or not isinstance(table.get("name"), str):
                raise ValueError("must be a table per engine, or a list of names")  # noqa: TRY004 - pydantic takes this one
            named[table["name"]] = {key: item for key, item in table.items() if key != "name"}
        return named

    @field_validator("search_engines")
    @classmethod
    def _known(cls, value: dict[str, SearchEngine]) -> dict[str, SearchEngine]:
        for name, engine in value.items():
            if name not in SEARCH_ENGINES:
                raise ValueError(f"unknown engine {name[:64]!r}; known: {', '.join(SEARCH_ENGINES)}")
            if name in {"brave", "tavily"} and engine.api_key is None:
                raise ValueError(f"{name} needs an api_key")
            if name == "searxng" and engine.base_url is None:
                raise ValueError("searxng needs the base_url of an instance")
        return value

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The allowed networks as objects."""
        return tuple(ip_network(entry) for entry in self.allow_networks)


class ExecSection(Section):
    """`[tools.exec]`: the sandbox of commands, and their limits.

    `path`: folders, separated by ":", that commands find their programs in before those of the system.
    """

    sandbox: Literal["auto", "bubblewrap", "off"] = "auto"
    unsandboxed: bool = False
    network: bool = False
    timeout_s: _CommandSeconds = 60
    path: str = ""

    @field_validator("path")
    @classmethod
    def _absolute_folders(cls, value: str) -> str:
        for folder in value.split(":") if value else ():
            if not folder.startswith("/") or "\x00" in folder:
                raise ValueError(f"{folder[:64]!r} is not an absolute folder; several are separated by ':'")
        return value


class FilesSection(Section):
    """`[tools.files]`: folders outside of the workspace that the file tools of every chat may use."""

    extra_read: list[FilePath] = Field(default_factory=list)
    extra_write: list[FilePath] = Field(default_factory=list)


class ImageSection(EndpointSection):
    """`[tools.image]`: the model that makes pictures. Unset, the address is that of `[llm]`, and so is its key."""


class CliAppSection(Section):
    """`[cli_apps.NAME]`: one program that `run_cli_app` may start.

    `command` is the program and its fixed first arguments, as a list or as one line that is split like a shell
    would but never given to one. `arguments` are regular expressions of RE2, which no argument can hang: each
    argument the model gives must match one of them in full; None: it may give any, an empty list: none.
    """

    command: list[str] = Field(min_length=1)
    description: str = Field(default="", max_length=2_000)
    arguments: list[str] | None = None
    timeout_s: _CommandSeconds | None = None

    @field_validator("command", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        try:
            return (shlex.split(value) or [""]) if isinstance(value, str) else value
        except ValueError as exc:
            raise ValueError(f"command cannot be split into words: {exc}") from None

    @model_validator(mode="after")
    def _usable(self) -> CliAppSection:
        if not self.command[0].strip() or any("\x00" in part for part in self.command):
            raise ValueError("command must name a program")
        if self.arguments:
            import re2  # 25 ms that few installations need

            options = re2.Options()
            options.log_errors = False
            for pattern in self.arguments:
                try:
                    re2.compile(pattern, options)
                except re2.error as exc:
                    text = exc.args[0].decode() if isinstance(exc.args[0], bytes) else str(exc)
                    raise ValueError(
                        f"arguments: {pattern[:64]!r} is not a regular expression of RE2: {text}"
                    ) from None
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsConfig:
    """Everything under `[tools]`, and `[cli_apps]`; the sections of plugins are not among it."""

    main: ToolsSection = field(default_factory=ToolsSection)
    web: WebSection = field(default_factory=WebSection)
    exec: ExecSection = field(default_factory=ExecSection)
    files: FilesSection = field(default_factory=FilesSection)
    image: ImageSection = field(default_factory=ImageSection)
    cli_apps: Mapping[str, CliAppSection] = field(default_factory=lambda: MappingProxyType({}))


TOOL_SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        "tools": ToolsSection,
        "tools.web": WebSection,
        "tools.exec": ExecSection,
        "tools.files": FilesSection,
        "tools.image": ImageSection,
    }
)
