"""The sections every installation has, and their defaults. What a key means is its user's affair."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from bot.config.fields import (
    Count,
    FilePath,
    Seconds,
    Section,
    check_owner,
    check_zone,
    split_listen,
)
from bot.zones import load_zone


def machine_zone() -> str:
    """Return the machine's zone name: $TZ, else what /etc/localtime links to, /etc/timezone, or UTC."""
    candidates = [os.environ.get("TZ", "").lstrip(":")]
    with suppress(OSError):  # it may be a copy instead of a link, or missing
        candidates.append(str(Path("/etc/localtime").readlink()).rpartition("zoneinfo/")[2])
    with suppress(OSError, UnicodeDecodeError):
        candidates.append(Path("/etc/timezone").read_text(encoding="utf-8").strip())
    for name in candidates:
        with suppress(ValueError):
            return check_zone(name)
    return "UTC"


def default_data_dir() -> Path:
    """Return where data lives unless configured: $STATE_DIRECTORY (its first), else the XDG data folder."""
    state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if state:
        return Path(state)
    xdg = os.environ.get("XDG_DATA_HOME", "")
    # The XDG rules say that a relative value is to be ignored.
    base = Path(xdg) if xdg.startswith("/") else Path("~/.local/share").expanduser()
    return base / "dutiful"


class BotSection(Section):
    """`[bot]`: who the bot is and where it keeps its things."""

    name: str = Field(default="Dutiful", min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")
    timezone: str = Field(default_factory=machine_zone)
    language: Literal["en", "de", "zh"] = "en"
    data_dir: FilePath = Field(default_factory=default_data_dir)
    workspace: FilePath = Field(default_factory=lambda data: data["data_dir"] / "workspace")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        return check_zone(value)

    @property
    def zone(self) -> ZoneInfo:
        """The zone for people who did not set their own."""
        return load_zone(self.timezone)

    @property
    def database(self) -> Path:
        """The file that everything is stored in."""
        return self.data_dir / "dutiful.db"


class AccessSection(Section):
    """`[access]`: who is who. Roles beyond owner come from `allow_from` of the channels."""

    owners: list[str] = Field(default_factory=list)

    @field_validator("owners")
    @classmethod
    def _ids(cls, value: list[str]) -> list[str]:
        for entry in value:
            check_owner(entry)
        return value


class JobsSection(Section):
    """`[jobs]`: reminders and tasks."""

    min_interval_s: Count = 60
    catch_up_max_age_h: Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)] = 24
    max_per_chat: Count = 200


class LimitsSection(Section):
    """`[limits]`: how much of anything (design 7)."""

    turns_at_once: Count = 32
    steps_per_turn: Count = 40
    length_continuations: Annotated[int, Field(ge=0, le=100)] = 3
    tool_result_chars: Annotated[int, Field(ge=200, le=100_000_000)] = 16_000
    preview_chars: Count = 1_200
    tool_timeout_s: Seconds = 60
    parallel_calls: Count = 8
    subagents_per_chat: Count = 4
    subagent_timeout_s: Seconds = 600
    first_token_s: Seconds = 180
    stream_idle_s: Seconds = 60
    call_total_s: Seconds = 600
    shutdown_grace_s: Seconds = 20
    inbox_max: Count = 10_000
    dead_letter_after_min: Annotated[float, Field(gt=0, le=527_040, allow_inf_nan=False)] = 15
    rate_limited_after_min: Annotated[float, Field(gt=0, le=527_040, allow_inf_nan=False)] = 60

    @model_validator(mode="after")
    def _consistent(self) -> LimitsSection:
        if self.preview_chars > self.tool_result_chars:
            raise ValueError("preview_chars is larger than tool_result_chars")
        return self


class ServerSection(Section):
    """`[server]`: the local HTTP listener for health checks."""

    listen: str = "127.0.0.1:8787"

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        split_listen(value)
        return value

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port (0: any free one), or None when there is to be no listener."""
        return split_listen(self.listen)


class LogSection(Section):
    """`[log]`: how much is logged and in which form."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "pretty"] = "auto"
