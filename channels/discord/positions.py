"""How far each channel was read: the mark that catching up after a gap begins from.

A position is the id of the last message of a channel that is settled: committed, or nothing to us. Ids of Discord
grow with time. There is one for every channel, thread or private chat in which the bot was ever spoken to, and one
for the whole bot, which tells what happened elsewhere while it was away. While a gap of a channel is still to be read,
neither moves past it, whatever newer messages are handled meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.clock import US_PER_S, Clock
from bot.interfaces import Cursors
from channels.discord.places import CHANNEL, Place

_WRITE_EVERY_S = 60.0  # positions that moved over other people's talk are worth less than a write each
_EPOCH_MS = 1_420_070_400_000
"""The first second of 2015, from which ids count (https://docs.discord.com/developers/reference#snowflakes, read
2026-11-30)."""


def id_at(moment_us: int) -> int:
    """Return the smallest id that anything made at a moment (µs since 1970) or later can have."""
    return max(0, moment_us // 1000 - _EPOCH_MS) << 22


def moment_of(snowflake: int) -> int:
    """Return when an id was made, in µs since 1970."""
    return ((snowflake >> 22) + _EPOCH_MS) * 1000


@dataclass(slots=True)
class _Mark:
    place: Place
    at: int
    written: int
    written_s: float


class Positions:
    """The positions of one bot, kept in the store's cursors."""

    def __init__(self, cursors: Cursors, clock: Clock, bot_id: str) -> None:
        self._cursors = cursors
        self._clock = clock
        self._prefix = f"{CHANNEL}:{bot_id}:at:"
        self._whole_name = f"{CHANNEL}:{bot_id}:newest"
        self._dm_prefix = f"{CHANNEL}:{bot_id}:dm:"
        self._marks: dict[str, _Mark] = {}
        self._dms: dict[str, str] = {}
        self._gaps: dict[str, int] = {}  # channel -> after which message it is still to be read
        self._ahead: dict[str, tuple[Place, int]] = {}  # channel -> what was handled beyond its gap
        self._newest = self._newest_written = 0
        self._newest_written_s = 0.0
        self.away_since = 0  # the newest id that was seen anywhere before this start or gap; 0: never any

    async def load(self) -> None:
        """Read what is stored."""
        for name, value in (await self._cursors.starting_with(self._prefix)).items():
            place, at = _parsed(name.removeprefix(self._prefix), value)
            self._marks[place.channel_id] = _Mark(place=place, at=at, written=at, written_s=self._clock.monotonic_s())
        dms = await self._cursors.starting_with(self._dm_prefix)
        self._dms = {name.removeprefix(self._dm_prefix): value for name, value in dms.items()}
        self._newest = self._newest_written = int(await self._cursors.get(self._whole_name) or 0)
        self.note_gap()

    def note_gap(self) -> None:
        """Remember that what came after the newest message seen so far may be missing."""
        self.away_since = self.newest
        self._gaps.clear()  # whoever looks for what was missed finds them again
        self._ahead.clear()

    @property
    def newest(self) -> int:
        """The id up to which nothing is missing anywhere, 0 for never any."""
        # A channel with a position is read from there; the others have nothing but this.
        return min([self._newest, *(after for channel, after in self._gaps.items() if channel not in self._marks)])

    def of(self, channel_id: str) -> int | None:
        """Return the position in a channel, None where the bot was never spoken to."""
        mark = self._marks.get(channel_id)
        return None if mark is None else mark.at

    def private(self) -> list[Place]:
        """Return the private chats that have a position."""
        return [mark.place for mark in self._marks.values() if not mark.place.guild_id]

    def known(self, *, guild_id: str = "", channel_id: str = "") -> list[Place]:
        """Return the places with a position in a server, or in a channel with its threads."""
        return [
            mark.place
            for mark in self._marks.values()
            if (guild_id and mark.place.guild_id == guild_id)
            or (channel_id and channel_id in (mark.place.channel_id, mark.place.parent_id))
        ]

    def open_gap(self, channel_id: str, after: int) -> None:
        """Keep a channel's position from moving past what is still to be read of it."""
        self._gaps[channel_id] = after

    async def read_up_to(self, channel_id: str, message_id: int, *, is_whole: bool) -> None:
        """Move past what was read of a gap; `is_whole`: nothing of it is missing any more."""
        place, ahead = self._ahead.get(channel_id, (None, 0)) if is_whole else (None, 0)
        mark, at = self._marks.get(channel_id), max(message_id, ahead)
        if mark is None and place is not None:
            mark = _Mark(place=place, at=0, written=0, written_s=0.0)
        if mark is not None and at > mark.at:
            await self._write(_Mark(place=mark.place, at=at, written=0, written_s=0.0))
        if is_whole:
            self._gaps.pop(channel_id, None)
            self._ahead.pop(channel_id, None)
        else:
            self._gaps[channel_id] = message_id

    async def begin(self, place: Place, before: int) -> None:
        """Give a channel its first position, so that a message is found again if we die before it is committed."""
        if place.channel_id not in self._marks:
            before = min(before, self._gaps.get(place.channel_id, before))
            await self._write(_Mark(place=place, at=before, written=0, written_s=0.0))

    async def committed(self, place: Place, message_id: int) -> None:
        """Move past a message that is committed."""
        self._see(message_id)
        if self._is_ahead(place, message_id):
            return
        mark = self._marks.get(place.channel_id)
        if mark is None or message_id > mark.at:
            await self._write(_Mark(place=place, at=message_id, written=0, written_s=0.0))

    async def passed(self, place: Place, message_id: int) -> None:
        """Move past a message that is nothing to us; written now and then only."""
        self._see(message_id)
        if self._is_ahead(place, message_id):
            return
        now_s = self._clock.monotonic_s()
        mark = self._marks.get(place.channel_id)
        if mark is not None and message_id > mark.at:
            mark.at = message_id
            if now_s - mark.written_s > _WRITE_EVERY_S:
                await self._write(mark)
        elif now_s - self._newest_written_s > _WRITE_EVERY_S and self.newest > self._newest_written:
            await self._write_newest()

    async def forget(self, channel_id: str) -> None:
        """Drop a channel that is gone."""
        self._gaps.pop(channel_id, None)
        self._ahead.pop(channel_id, None)
        if self._marks.pop(channel_id, None) is not None:
            await self._cursors.remove(f"{self._prefix}{channel_id}")

    async def save(self) -> None:
        """Write what has moved since it was last written."""
        for mark in list(self._marks.values()):
            if mark.at > mark.written:
                await self._write(mark)
        if self.newest > self._newest_written:
            await self._write_newest()

    # --- private chats by person

    def dm_of(self, user_id: str) -> str | None:
        """Return the private chat with a person, None where there was none yet."""
        return self._dms.get(user_id)

    async def note_dm(self, user_id: str, channel_id: str) -> None:
        """Remember the private chat with a person."""
        if self._dms.get(user_id) != channel_id:
            await self._cursors.set(f"{self._dm_prefix}{user_id}", channel_id)
            self._dms[user_id] = channel_id

    def _is_ahead(self, place: Place, message_id: int) -> bool:
        """Say whether a message lies behind a gap; it is remembered for when the gap is read."""
        after = self._gaps.get(place.channel_id)
        if after is None or message_id <= after:
            return False
        _, ahead = self._ahead.get(place.channel_id, (place, 0))
        self._ahead[place.channel_id] = place, max(message_id, ahead)
        return True

    def _see(self, message_id: int) -> None:
        # An id from the future (of a test, or a clock gone wrong there) must not hide everything after it.
        if message_id <= id_at(self._clock.now_us() + 3600 * US_PER_S):
            self._newest = max(self._newest, message_id)

    async def _write(self, mark: _Mark) -> None:
        place, at = mark.place, mark.at
        await self._cursors.set(f"{self._prefix}{place.channel_id}", _stored(place, at))
        self._marks[place.channel_id] = _Mark(place=place, at=at, written=at, written_s=self._clock.monotonic_s())
        if not self._newest_written:
            await self._write_newest()

    async def _write_newest(self) -> None:
        newest = self.newest
        await self._cursors.set(self._whole_name, str(newest))
        self._newest_written, self._newest_written_s = newest, self._clock.monotonic_s()


def _stored(place: Place, at: int) -> str:
    return f"{at} {place.guild_id} {place.parent_id}".rstrip()


def _parsed(channel_id: str, value: str) -> tuple[Place, int]:
    at, guild_id, parent_id = (*value.split(), "", "")[:3]
    return Place(channel_id=channel_id, guild_id=guild_id, parent_id=parent_id), int(at)
