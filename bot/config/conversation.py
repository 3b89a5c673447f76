"""`[sessions]`, `[memory]` and `[skills]`: what a conversation keeps, remembers and knows how to do."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from bot.config.fields import Count, FilePath, Section
from bot.crontab import parse_crontab
from bot.errors import ScheduleError

_DAYS_MAX = 36_525


class SessionsSection(Section):
    """`[sessions]`: how much of a conversation is sent along, and how long conversations are kept."""

    replay_tokens: Count = 32_000
    idle_minutes: Count = 30
    retention_days: Annotated[int, Field(ge=0, le=_DAYS_MAX)] = 0


class MemorySection(Section):
    """`[memory]`: what is remembered of people and chats beyond one conversation."""

    enabled: bool = True
    schedule: str = "0 4 * * *"
    max_chars: Annotated[int, Field(ge=500, le=100_000)] = 8_000

    @field_validator("schedule")
    @classmethod
    def _crontab(cls, value: str) -> str:
        try:
            parse_crontab(value)
        except ScheduleError as error:
            raise ValueError(str(error).removeprefix("cron_expr ")) from None
        return value


class SkillsSection(Section):
    """`[skills]`: where else skills are looked for, and which are off."""

    paths: list[FilePath] = Field(default_factory=list)
    disabled: list[str] = Field(default_factory=list)
