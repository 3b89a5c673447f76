"""Quiet hours: the part of each local day in which nothing recurring may speak."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from bot.clock import to_us
from bot.errors import ScheduleError
from bot.zones import shown, us_to_wall, wall_to_us

MINUTES_PER_DAY = 1440
_WINDOW = re.compile(r"([0-9]{1,2}):([0-9]{2})\s*[-–]\s*([0-9]{1,2}):([0-9]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A daily window on the local clock, start inclusive, end exclusive; it may span midnight.

    Args:
        start_minute: minutes after local midnight, 0 to 1439.
        end_minute: the same; never equal to the start.
    """

    start_minute: int
    end_minute: int

    def __post_init__(self) -> None:
        for minute in (self.start_minute, self.end_minute):
            if not 0 <= minute < MINUTES_PER_DAY:
                raise ScheduleError(f"quiet_hours: minute {minute} is not within a day.")
        if self.start_minute == self.end_minute:
            raise ScheduleError("quiet_hours: start and end are equal, which is either nothing or the whole day.")

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Return the window written as "22:00-06:00"; an end of 24:00 is midnight.

        Raises:
            ScheduleError: not of that form, not times of day, or start equal to end.
        """
        match = _WINDOW.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise ScheduleError(f"quiet_hours: {shown(text)} is not of the form 22:00-06:00.")
        start_h, start_min, end_h, end_min = map(int, match.groups())
        start, end = start_h * 60 + start_min, end_h * 60 + end_min
        if start_min > 59 or end_min > 59 or start >= MINUTES_PER_DAY or end > MINUTES_PER_DAY:  # noqa: PLR2004
            raise ScheduleError(f"quiet_hours: {shown(text)} holds a time that no day has.")
        return cls(start_minute=start, end_minute=end % MINUTES_PER_DAY)

    def __str__(self) -> str:
        start, end = divmod(self.start_minute, 60), divmod(self.end_minute, 60)
        return f"{start[0]:02}:{start[1]:02}-{end[0]:02}:{end[1]:02}"

    def covers(self, minute_of_day: int) -> bool:
        """Whether this minute of the local day, 0 to 1439, is quiet."""
        if self.start_minute < self.end_minute:
            return self.start_minute <= minute_of_day < self.end_minute
        return minute_of_day >= self.start_minute or minute_of_day < self.end_minute

    def contains(self, instant_us: int, zone: ZoneInfo) -> bool:
        """Whether the clocks of `zone` show a quiet time at the instant."""
        wall = us_to_wall(instant_us, zone)
        return self.covers(wall.hour * 60 + wall.minute)

    def end_after(self, instant_us: int, zone: ZoneInfo) -> int:
        """Return the first instant from `instant_us` on that is not quiet: itself when it is not."""
        while self.contains(instant_us, zone):
            instant_us = self._next_end(instant_us, zone)
        return instant_us

    def _next_end(self, instant_us: int, zone: ZoneInfo) -> int:
        wall = us_to_wall(instant_us, zone)
        midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
        end = midnight + timedelta(minutes=self.end_minute)
        if end <= wall:
            end += timedelta(days=1)
        end_us = wall_to_us(end, zone)
        if end_us > instant_us:
            return end_us
        return to_us(end.replace(tzinfo=zone, fold=1))  # in the second pass of a doubled hour
