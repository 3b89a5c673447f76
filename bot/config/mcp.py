"""The sections of MCP servers, `[mcp.NAME]`: how each is started or reached, and what it may take.

A server's name becomes part of its tools' names, so its form is narrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bot.config.fields import Count, FilePath, Seconds, SecretText, Section, check_http_url

SERVER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""Short and in lower case: `mcp_NAME_TOOL` must stay below the 64 characters that providers allow."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110
_OF_PROCESSES = ("args", "env", "cwd")
_OF_OAUTH = ("oauth_client_id", "oauth_client_secret", "oauth_issuer")
_OF_ADDRESSES = ("headers", "auth", *_OF_OAUTH, "allow_private", "transport")


class McpSection(Section):
    """`[mcp.NAME]`: one server, started as `command` or reached at `url`.

    `enabled_tools` are the server's own names of its tools (None: all; an empty list: none). `allow_private` lets
    `url` lead to loopback and private networks. `oauth_client_id` is for servers where no program registers itself: it
    is what their operator gave out, or the address of a client metadata document. `oauth_issuer` is the only
    authorization server that gets it; without one the server says which. `sampling` lets the server ask the model, at
    the bot's expense. `answer_timeout_s` is how long a question of the server waits for a person.
    """

    enabled: bool = True
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    env: dict[str, SecretText] = Field(default_factory=dict)
    cwd: FilePath | None = None
    url: str | None = None
    transport: Literal["http", "sse"] = "http"
    headers: dict[str, SecretText] = Field(default_factory=dict)
    auth: Literal["none", "oauth"] = "none"
    oauth_client_id: str | None = None
    oauth_client_secret: SecretText | None = None
    oauth_issuer: str | None = None
    enabled_tools: list[str] | None = None
    timeout_s: Seconds = 60.0
    start_timeout_s: Seconds = 30.0
    max_concurrency: Annotated[Count, Field(le=64)] = 4
    allow_private: bool = False
    sampling: bool = False
    answer_timeout_s: Seconds = 900.0

    @field_validator("url", "oauth_issuer")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        return value if value is None else check_http_url(value)

    @field_validator("env")
    @classmethod
    def _variables(cls, value: Mapping[str, SecretText]) -> Mapping[str, SecretText]:
        for name in value:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name[:64]!r} is not the name of an environment variable")
        return value

    @field_validator("headers")
    @classmethod
    def _header_names(cls, value: Mapping[str, SecretText]) -> Mapping[str, SecretText]:
        for name in value:
            if not _HEADER.fullmatch(name):
                raise ValueError(f"{name[:64]!r} is not the name of a header")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> McpSection:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either command (a program to start) or url (a server to reach)")
        if self.command is not None and (not self.command.strip() or "\x00" in self.command):
            raise ValueError("command must name a program")
        unfit = _OF_ADDRESSES if self.command is not None else _OF_PROCESSES
        for key in unfit:
            if key in self.model_fields_set:
                other = "url" if self.command is not None else "command"
                raise ValueError(f"{key} belongs to a server with {other}")
        if self.auth == "oauth" and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError('an Authorization header and auth = "oauth" exclude each other')
        for key in _OF_OAUTH:
            if key in self.model_fields_set and self.auth != "oauth":
                raise ValueError(f'{key} belongs to auth = "oauth"')
        if self.oauth_client_secret is not None and self.oauth_client_id is None:
            raise ValueError("oauth_client_secret belongs to an oauth_client_id")
        return self
