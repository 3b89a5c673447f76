"""The durable way in: each channel's events in order, committed one after the other, and nothing missed in a gap.

Discord hands an event over once and wants no confirmation, so a position per channel says what is committed. What
came while there was no session is read from the channels' history, before what is said live after it. What a
message means is read in `events`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from asyncio import TaskGroup
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from bot.clock import Clock
from bot.errors import StoreError
from bot.faults import fault_point
from bot.interfaces import Intake
from bot.log import get_logger
from bot.messages import Address, InboundMessage
from bot.records import Acceptance
from channels.discord.config import Timing
from channels.discord.content import author_id, is_from_bot, number_of
from channels.discord.events import Reader
from channels.discord.finding import Directory, Places
from channels.discord.histories import PAGE, Histories, Lane, OutOfPatience, first_of_gap
from channels.discord.places import CHANNEL, Place, place_of
from channels.discord.positions import Positions
from channels.supervision import Backoff

Json = dict[str, Any]
T = TypeVar("T")

_WAITING_LIMIT = 1000  # events of one channel kept in memory; what is beyond is read from its history
_LANES_AT_ONCE = 20
_REMEMBERED = 500  # texts of messages that can still change
_RAW_LIMIT = 100_000  # characters kept of an event nobody could read
_TEXT_EVENTS = frozenset({"MESSAGE_CREATE", "MESSAGE_UPDATE"})

# What reading a message stumbles over when it has an unexpected shape.
_UNREADABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)

_log = get_logger(__name__)


Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""


class Receiver:
    """Takes the events of one connection."""

    def __init__(
        self,
        *,
        call: Caller,
        directory: Directory,
        reader: Reader,
        intake: Intake,
        positions: Positions,
        open_chats: set[str],
        clock: Clock,
        timing: Timing,
    ) -> None:
        """`open_chats` are the rate keys of chats that are known to be open to us; shared with the way out."""
        self._call = call
        self._directory = directory
        self._reader = reader
        self._intake = intake
        self._positions = positions
        self._open_chats = open_chats
        self._clock = clock
        self._timing = timing
        self._lanes: dict[str, Lane] = {}
        self._gaps: dict[str, tuple[Place, int]] = {}  # of channels whose lane does not move yet
        self._places = Places(call=call, directory=directory, clock=clock, timing=timing)
        self._histories = Histories(call=call, clock=clock, timing=timing)
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._expected_guilds: dict[str, int] = {}  # id -> the newest message seen before it went away
        self._tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Keep what was taken moving until cancelled.

        Raises:
            ChannelAuthError: the token is refused.
        """
        async with TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    # --- what the connection tells

    def take(self, name: str, data: Json) -> None:
        """Take an event; returns at once."""
        if name in _TEXT_EVENTS:
            self._queue(name, data)
        elif name == "READY":
            self._begin_catch_up(data)
        elif name == "GUILD_CREATE":
            self._look_through(data)
        elif name == "GUILD_DELETE" and data.get("unavailable"):
            self._expected_guilds.setdefault(str(data.get("id")), self._positions.newest)
        elif name == "GUILD_DELETE":
            self._expected_guilds.pop(str(data.get("id")), None)
            self._start(self._close_guild(str(data.get("id"))), "discord-close-server")
        elif name in {"CHANNEL_DELETE", "THREAD_DELETE"}:
            self._start(self._close_channel(place_of(data)), "discord-close-channel")

    def _queue(self, name: str, data: Json) -> None:
        lane = self._lane(str(data.get("channel_id")))
        if len(lane.waiting) >= _WAITING_LIMIT:
            if lane.gap_after is None:
                lane.gap_after = number_of(lane.waiting[-1][1]) or None
            return
        lane.add(name, data, self._clock.monotonic_s())

    def _lane(self, channel_id: str) -> Lane:
        """Return a channel's lane, moving."""
        lane = self._lanes.get(channel_id)
        if lane is None:
            lane = self._lanes[channel_id] = Lane(channel_id)
            if channel_id in self._gaps:
                lane.place, lane.gap_after = self._gaps.pop(channel_id)
            self._start(self._work(lane), f"discord-channel-{channel_id}")
        return lane

    def _start(self, work: Any, name: str) -> None:
        if self._tasks is None:
            work.close()  # the connection is being given up; the next one catches up
        else:
            self._tasks.create_task(work, name=name)

    def _begin_catch_up(self, ready: Json) -> None:
        """A new session: look for what was said in private; servers tell of themselves in a moment."""
        self._positions.note_gap()
        away_since = self._positions.away_since
        self._expected_guilds = {str(guild["id"]): away_since for guild in ready.get("guilds") or ()}
        for place in self._positions.private():
            self._mark_gap(place, self._positions.of(place.channel_id) or 0)

    def _look_through(self, guild: Json) -> None:
        """Look for channels of a server in which something was said while there was no session."""
        guild_id = str(guild.get("id"))
        away_since = self._expected_guilds.pop(guild_id, None)
        if away_since is None:
            return  # the bot was just let in: what was said before was not for it
        for channel in (*(guild.get("channels") or ()), *(guild.get("threads") or ())):
            place = place_of(channel, guild_id)
            last = str(channel.get("last_message_id") or "")
            known = self._positions.of(place.channel_id)
            after = known if known is not None else away_since
            if after and last.isdigit() and int(last) > after:
                self._mark_gap(place, after)

    def _mark_gap(self, place: Place, after: int) -> None:
        self._positions.open_gap(place.channel_id, after)
        lane = self._lanes.get(place.channel_id)
        if lane is not None:
            lane.place, lane.gap_after = place, after
            return
        if not self._gaps:
            self._start(self._begin_gaps(), "discord-gaps")
        self._gaps[place.channel_id] = place, after

    async def _begin_gaps(self) -> None:
        """Begin to read the gaps, a few channels at a time: thousands at once would stall the loop."""
        while self._gaps:
            for channel_id in list(itertools.islice(self._gaps, _LANES_AT_ONCE)):
                self._lane(channel_id)
            await asyncio.sleep(0)

    # --- one channel

    async def _work(self, lane: Lane) -> None:
        try:
            while lane.waiting or lane.gap_after is not None:
                if lane.gap_after is not None and not lane.waiting:
                    await self._catch_up(lane)
                    continue
                if lane.gap_after is not None and number_of(lane.waiting[0][1]) > lane.gap_after:
                    await self._catch_up(lane)
                    continue
                name, data = lane.waiting[0]
                await self._handle(name, data, lane)
                lane.waiting.popleft()
        finally:
            self._lanes.pop(lane.channel_id, None)

    async def _catch_up(self, lane: Lane) -> None:
        """Handle what a channel's history holds after the gap began, then drop what of it waits as well."""
        after = first_of_gap(lane.gap_after or 0, self._clock.now_us())
        lane.gap_after = None
        self._positions.open_gap(lane.channel_id, after)
        count = 0
        while True:
            try:
                page = await self._page(lane, after)
            except OutOfPatience:
                lane.gap_after = after if lane.gap_after is None else min(after, lane.gap_after)
                await self._overtake(lane)
                return
            if page is None:
                return
            for message in sorted(page, key=number_of):
                await self._handle("MESSAGE_CREATE", message, lane)
                after = number_of(message)
                count += 1
            is_whole = len(page) < PAGE and lane.gap_after is None
            await self._stored(partial(self._positions.read_up_to, lane.channel_id, after, is_whole=is_whole))
            if len(page) < PAGE:
                break
        if count:
            _log.info("caught up", channel=CHANNEL, chat=lane.channel_id, messages=count)
        lane.waiting = deque(
            (name, data) for name, data in lane.waiting if name != "MESSAGE_CREATE" or number_of(data) > after
        )

    async def _page(self, lane: Lane, after: int) -> list[Json] | None:
        """Return a page of a history; a channel that is closed to us has none, and no position any more."""
        page = await self._histories.page(lane, after)
        if page is None:
            await self._stored(lambda: self._positions.forget(lane.channel_id))
        return page

    async def _overtake(self, lane: Lane) -> None:
        """Handle what waits before what was missed; that is still asked for."""
        if not lane.is_overtaken:
            lane.is_overtaken = True
            _log.warning("history cannot be read for long, newer messages go first", chat=lane.channel_id)
        while lane.waiting:
            await self._handle(*lane.waiting[0], lane)
            lane.waiting.popleft()

    async def _handle(self, name: str, data: Json, lane: Lane) -> None:
        """Commit one event, however long the database needs for it."""
        message_id = str(data.get("id") or "")
        try:
            place = lane.place = lane.place or await self._places.find(data)
            role_id = self._directory.own_role(place.guild_id) if data.get("mention_roles") else ""
            if name == "MESSAGE_UPDATE":
                await self._take_edit(self._reader.edit(data, place, role_id=role_id))
                return
            number = int(message_id)
            inbound = self._reader.message(data, place, role_id=role_id)
            is_private_person = not place.guild_id and not is_from_bot(data)
            sender_id = author_id(data)
        except _UNREADABLE as exc:
            await self._keep_unreadable(data, message_id, exc)
            if lane.place is not None and message_id.isdecimal():
                await self._stored(partial(self._positions.passed, lane.place, int(message_id)))
            return
        if inbound is None:
            await self._stored(lambda: self._positions.passed(place, number))
            return
        acceptance = await self._stored(lambda: self._publish(inbound, place, number))
        if acceptance is not Acceptance.REFUSED and inbound.address.rate_key not in self._open_chats:
            # Whoever can be heard can perhaps be written to again; the platform does not tell when a block ends.
            await self._stored(lambda: self._intake.reopen_chat(inbound.address))
            self._open_chats.add(inbound.address.rate_key)
        if is_private_person and acceptance is not Acceptance.REFUSED:
            await self._stored(lambda: self._positions.note_dm(sender_id, place.channel_id))

    async def _publish(self, inbound: InboundMessage, place: Place, number: int) -> Acceptance:
        await self._positions.begin(place, number - 1)
        fault_point("received")
        acceptance = await self._intake.publish_inbound(inbound)
        self._remember_text(inbound)
        await self._positions.committed(place, number)
        return acceptance

    async def _take_edit(self, inbound: InboundMessage | None) -> None:
        if inbound is None or self._texts.get(inbound.message_id) == inbound.text:
            return
        await self._stored(lambda: self._intake.publish_edit(inbound))
        self._remember_text(inbound)

    def _remember_text(self, inbound: InboundMessage) -> None:
        self._texts[inbound.message_id] = inbound.text
        if len(self._texts) > _REMEMBERED:
            self._texts.popitem(last=False)

    async def _keep_unreadable(self, data: Json, message_id: str, exc: Exception) -> None:
        text = json.dumps(data, ensure_ascii=True, default=str)[:_RAW_LIMIT]
        error = f"{type(exc).__name__}: {exc}"
        _log.error("message cannot be read, kept as it is", channel=CHANNEL, message=message_id, error=error)
        await self._stored(
            lambda: self._intake.publish_unparsed(
                channel=CHANNEL, account=self._reader.me.id, update_id=message_id, raw=text, error=error
            )
        )

    async def _stored(self, write: Callable[[], Awaitable[T]]) -> T:
        """Do a write as soon as the database takes it; what comes after it in this channel waits."""
        failures = Backoff(self._timing.retry_base_s, self._timing.retry_cap_s)
        while True:
            try:
                return await write()
            except StoreError as exc:
                wait_s = failures.next_s()
                _log.warning(
                    "event not stored, trying again", channel=CHANNEL, error=str(exc), retry_in_s=round(wait_s, 2)
                )
                await asyncio.sleep(wait_s)

    # --- what goes away

    async def _close_guild(self, guild_id: str) -> None:
        await self._close(self._positions.known(guild_id=guild_id), "the bot was removed from this server")

    async def _close_channel(self, gone: Place) -> None:
        places = self._positions.known(channel_id=gone.channel_id)
        if gone.parent_id:
            # Its channel lives on, and with it whatever else is kept there under the same rate key.
            await self._forget(places)
        else:
            await self._close(places, "this channel was deleted")

    async def _close(self, places: Sequence[Place], reason: str) -> None:
        for chat_id in dict.fromkeys(place.address.chat_id for place in places):
            address = Address(channel=CHANNEL, chat_id=chat_id)
            paused = await self._stored(partial(self._intake.close_chat, address, reason))
            _log.warning("chat closed", chat=address.key, reason=reason, jobs_paused=paused)
            self._open_chats.discard(address.rate_key)
        await self._forget(places)

    async def _forget(self, places: Sequence[Place]) -> None:
        for place in places:
            await self._stored(partial(self._positions.forget, place.channel_id))
