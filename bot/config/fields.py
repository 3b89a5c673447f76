"""The field types that sections are made of: secrets, paths, counts, durations, checked values.

Plugins build their own sections from `Section`, `SecretText` and `FilePath`. Error texts raised here name the
problem; the loader adds file and key. None of them shows a secret's value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo

from bot.errors import ScheduleError
from bot.zones import load_zone

_MAX_SECRET_BYTES = 64 * 1024
_MAX_PORT = 65_535

UNREAD_SECRET = "(unread)"  # noqa: S105  # it stands for one
"""Stands for a secret that could not be read where none is needed; never a value of anybody's."""


class Section(BaseModel):
    """Base of every section, also of the plugins': unknown keys and wrong types are errors.

    Nothing is converted ("60" is no number), so a field with a closed set is a `Literal`, or an enum whose
    field says `Field(strict=False)`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _folder(info: ValidationInfo) -> Path:
    """Return the folder that relative paths start from: the configuration file's."""
    return (info.context or {}).get("folder") or Path.cwd()


def _to_path(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip() or "\x00" in value:
        raise ValueError("is not a usable path")
    try:
        return _folder(info) / Path(value).expanduser()
    except RuntimeError:
        raise ValueError("has a '~' whose home folder is unknown") from None


def _read_secret_file(path: Path, shown: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_SECRET_BYTES + 1)
        if len(raw) > _MAX_SECRET_BYTES:
            raise ValueError(f"{shown} is larger than {_MAX_SECRET_BYTES} bytes")
        return raw.decode()
    except OSError as error:
        raise ValueError(f"{shown} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not UTF-8 text") from None


def _resolve_secret(value: Any, info: ValidationInfo) -> Any:
    """Turn `env:NAME`, `file:PATH`, `credential:NAME` or a literal into the secret itself.

    Where the context has a list `unread`, a reference that leads nowhere is noted there as (key, problem).
    """
    if not isinstance(value, str):
        return value
    try:
        return SecretStr(_secret_text(value, info))
    except ValueError as error:
        unread = (info.context or {}).get("unread")
        if unread is None or value.partition(":")[0] not in ("env", "file", "credential"):
            raise
        unread.append((info.field_name, str(error)))
        return SecretStr(UNREAD_SECRET)


def _secret_text(value: str, info: ValidationInfo) -> str:
    scheme, _, name = value.partition(":")
    shown = value
    if scheme == "env":
        text = os.environ.get(name, "") if name and "\x00" not in name else ""
        if not text.strip():
            raise ValueError(f"the environment variable {name!r} is not set")
    elif scheme == "file":
        text = _read_secret_file(_to_path(name, info), shown)
    elif scheme == "credential":
        folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
        if not folder:
            raise ValueError(f"{shown} needs $CREDENTIALS_DIRECTORY (LoadCredential= of a systemd unit)")
        if not re.fullmatch(r"[\w.@-]+", name) or name in {".", ".."}:
            raise ValueError(f"{shown} is not the name of a credential")
        text = _read_secret_file(Path(folder) / name, shown)
    else:
        text, shown = value, "the value"
    text = text.strip()
    if not text:
        raise ValueError(f"{shown} is empty")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError(f"{shown} contains line breaks or control characters")
    return text


SecretText = Annotated[SecretStr, BeforeValidator(_resolve_secret)]
"""A secret in a section: `env:NAME`, `file:PATH`, `credential:NAME` or the value; its repr hides it."""

FilePath = Annotated[Path, BeforeValidator(_to_path)]
"""A path; `~` is expanded and a relative one starts at the configuration file's folder."""

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[float, Field(gt=0, le=31_622_400, allow_inf_nan=False)]


def check_zone(name: str) -> str:
    """Return the canonical name of a time zone.

    Raises:
        ValueError: there is no such zone; the text offers close names.
    """
    try:
        return load_zone(name, field="zone").key
    except ScheduleError as error:
        raise ValueError(str(error).removeprefix("zone: ")) from None


def check_http_url(value: str) -> str:
    """Return an http(s) URL without its trailing slash.

    Raises:
        ValueError: it is none; the text does not repeat it, since it may contain a password.
    """
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\x00-\x20\x7f]", value):
        raise ValueError("must be a URL that begins with http:// or https:// and names a host")
    return value.rstrip("/")


def split_listen(value: str) -> tuple[str, int] | None:
    """Return host and port of `host:port` or `[v6]:port`, None for `off` and ''.

    Raises:
        ValueError: it is neither.
    """
    if value in {"", "off"}:
        return None
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", value)
    if match is None or int(match[2]) > _MAX_PORT:
        raise ValueError(f"{value[:64]!r} is not host:port (such as '127.0.0.1:8787') and not 'off'")
    return match[1].strip("[]"), int(match[2])


# Shapes of user ids where a platform has fixed ones. A display name or a chat id here would silently make
# nobody an owner. Telegram: core.telegram.org/bots/api#user; Discord: discord.com/developers/docs/reference
# (snowflakes); Slack: api.slack.com/types/user. Read 2026-11-29.
_USER_IDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "telegram": (r"[1-9][0-9]{0,19}", "the user's number, such as 'telegram:111'"),
        "discord": (r"[1-9][0-9]{0,19}", "the user's number, such as 'discord:80351110224678912'"),
        "slack": (r"[UW][A-Z0-9]+", "the member id, such as 'slack:U012AB3CD'"),
    }
)


def check_owner(entry: str) -> None:
    """Accept `channel:id` with an id that its platform assigned.

    Raises:
        ValueError: another form, or a name that people choose themselves.
    """
    channel, colon, user_id = entry.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9_]*", channel) or not user_id:
        raise ValueError(f"{entry[:64]!r} is not of the form 'channel:id', such as 'telegram:111'")
    pattern, wanted = _USER_IDS.get(channel, (r"[^\s@\x00-\x1f][^\s\x00-\x1f]*", "a stable user id"))
    if not re.fullmatch(pattern, user_id):
        raise ValueError(f"{entry[:64]!r}: names can be chosen by anyone, so give {wanted}")
