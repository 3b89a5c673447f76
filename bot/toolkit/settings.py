"""The few settings that can be changed while the bot runs. They replace the configuration's until they are reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bot.config import LimitsSection


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A whole number that may be set, with its bounds."""

    about: str
    lowest: int
    highest: int


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "steps_per_turn": Setting(about="most model calls in one turn", lowest=1, highest=500),
        "parallel_calls": Setting(about="most calls of one step that run side by side", lowest=1, highest=32),
    }
)
"""By name; each is also a key of `[limits]`."""


class RuntimeSettings:
    """What holds now: the configuration, and what was set since."""

    def __init__(self, limits: LimitsSection) -> None:
        self._configured = {name: int(getattr(limits, name)) for name in SETTINGS}
        self._changed: dict[str, int] = {}

    def configured(self, name: str) -> int:
        """Return the configuration's value."""
        return self._configured[name]

    def __getitem__(self, name: str) -> int:
        """Return the value that holds."""
        return self._changed.get(name, self._configured[name])

    def apply(self, changed: Mapping[str, int]) -> None:
        """Take these, and only these, as changed; names that are no setting any more are left out."""
        self._changed = {name: value for name, value in changed.items() if name in SETTINGS}
