"""Sends whose outcome the platform never told: looked up first, repeated at most once, counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.delivery import Delivery, SendLimits
from bot.errors import ChannelAuthError, ChannelError, SendUncertain
from bot.interfaces import SendProgress
from bot.messages import OutboundMessage
from bot.records import OutboxRow, SendState
from tests.support.engine import Rig, rig, said
from tests.support.memory_channel import MemoryChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import OTHER_CHAT, outbound

PROVIDER = ScriptedProvider(said("unused"))


class ForgetfulChannel(MemoryChannel):
    """Takes the parts whose numbers are in `loses` without saying so, each once; asked, it tells the truth if it can.

    `look_failures` are what being asked fails with, one at a time.
    """

    def __init__(self, *, part_chars: int = 100_000, loses: tuple[int, ...] = (0,), can_look: bool = True) -> None:
        super().__init__(part_chars=part_chars)
        self.loses = list(loses)
        self.can_look = can_look
        self.arrives = True  # whether a part that is lost track of arrives
        self.looks: list[OutboxRow] = []
        self.look_failures: list[BaseException] = []

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        limit = self.loses[0] if self.loses else 100
        if len(progress.sent_ids) > limit:
            self.loses.pop(0)
        if not self.loses:
            await super().send(message, progress)
            return
        self.failures.append((self.loses[0], SendUncertain("reset")))
        try:
            await super().send(message, progress)
        except SendUncertain:
            at = self.loses.pop(0) * self.part_chars
            if self.arrives:
                self._put(message, message.text[at : at + self.part_chars], edit="")
            raise

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:
        """See `Channel.find_sent`."""
        self.looks.append(row)
        self.bell.ring()
        if self.look_failures:
            raise self.look_failures.pop(0)
        return tuple(item.id for item in self.arrived) if self.can_look else None


@asynccontextmanager
async def delivering(folder: Path, channel: MemoryChannel, *, part_s: float = 240.0) -> AsyncIterator[Rig]:
    """Have a delivery with limits of its own, whose clock goes by itself."""
    async with rig(folder, PROVIDER, channels=(channel,), start=["scheduler"]) as engine:
        limits = SendLimits(part_s=part_s, look_s=part_s)
        delivery = Delivery(
            engine.bus, engine.store.outbox, engine.channels, engine.clock, dead_letter_after_min=15, limits=limits
        )
        tasks = [asyncio.create_task(delivery.run()), asyncio.create_task(_tick(engine))]
        try:
            yield engine
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _tick(engine: Rig) -> None:
    while True:
        engine.advance(1)
        await asyncio.sleep(0.005)


async def settled(engine: Rig, outbox_id: int, state: SendState) -> OutboxRow:
    """Wait until a message has this end."""
    async with asyncio.timeout(20):
        while True:
            row = await engine.store.outbox.get(outbox_id)
            assert row is not None
            if row.state is state:
                return row
            await asyncio.sleep(0.005)


async def counted(engine: Rig) -> int:
    """Return how many uncertain sends the status shows."""
    return (await engine.store.overview.status()).outbox_uncertain


async def test_a_message_that_is_found_is_not_sent_again(tmp_path: Path) -> None:
    channel = ForgetfulChannel()
    async with delivering(tmp_path, channel) as engine:
        row = await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.SENT)
        assert channel.texts() == ["hello"]
        assert row.sent_ids == (channel.arrived[0].id,)
        assert (len(channel.looks), row.uncertain, await counted(engine)) == (1, 0, 0)


async def test_a_message_that_surely_did_not_arrive_is_simply_sent_again(tmp_path: Path) -> None:
    channel = ForgetfulChannel()
    channel.arrives = False
    async with delivering(tmp_path, channel) as engine:
        await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.SENT)
        assert channel.texts() == ["hello"]
        assert (len(channel.attempts), await counted(engine)) == (2, 0)


async def test_a_token_refused_while_looking_leads_to_no_copy(tmp_path: Path) -> None:
    """The platform can say what arrived once the token is mended: nothing is repeated before that."""
    channel = ForgetfulChannel()
    channel.look_failures = [ChannelAuthError("token revoked")]
    async with delivering(tmp_path, channel) as engine:
        row = await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.SENT)
        assert channel.texts() == ["hello"]
        assert (len(channel.looks), row.uncertain) == (2, 0)


async def test_where_nobody_can_say_it_is_sent_once_more_and_counted(tmp_path: Path) -> None:
    """C027: never a third time."""
    channel = ForgetfulChannel(can_look=False, loses=(0, 0))
    async with delivering(tmp_path, channel) as engine:
        row = await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.UNCERTAIN)
        assert channel.texts() == ["hello"] * 2
        assert row.sent_ids == ("??",)
        assert await counted(engine) == 1


async def test_a_send_of_several_parts_goes_on_behind_what_is_found(tmp_path: Path) -> None:
    channel = ForgetfulChannel(part_chars=3, loses=(1,))
    async with delivering(tmp_path, channel) as engine:
        row = await settled(engine, await engine.bus.publish_outbound(outbound("aaabbbccc")), SendState.SENT)
        assert channel.texts() == ["aaa", "bbb", "ccc"]
        assert row.sent_ids == tuple(item.id for item in channel.arrived)
        assert [look.sent_ids for look in channel.looks] == [(channel.arrived[0].id,)]


async def test_a_platform_that_cannot_be_asked_now_is_asked_later_and_nothing_is_repeated(tmp_path: Path) -> None:
    channel = ForgetfulChannel()
    channel.look_failures = [ChannelError("502"), ValueError("a bug"), TimeoutError(), ChannelError("reset")]
    async with delivering(tmp_path, channel) as engine:
        await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.SENT)
        assert (channel.texts(), len(channel.looks)) == (["hello"], 5)
        assert await counted(engine) == 0


async def test_what_cannot_be_looked_up_for_a_quarter_of_an_hour_is_a_dead_letter_that_is_counted(
    tmp_path: Path,
) -> None:
    channel = ForgetfulChannel()
    channel.look_failures = [ChannelError("502") for _ in range(1000)]
    async with delivering(tmp_path, channel) as engine:
        row = await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.DEAD)
        assert (channel.texts(), len(channel.attempts), row.uncertain) == (["hello"], 1, 1)
        assert "502" in row.error
        await engine.bus.publish_outbound(outbound("next"))
        await engine.reads("hello", "next")


async def test_a_send_that_never_ends_is_in_doubt_and_the_chats_next_message_goes(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.held["c1"] = asyncio.Event()
    channel.found = ()
    async with delivering(tmp_path, channel, part_s=0.1) as engine:
        await engine.bus.publish_outbound(outbound("hello"))
        await engine.bus.publish_outbound(outbound("elsewhere", OTHER_CHAT))
        await engine.until(lambda: len(channel.attempts) >= 3)  # it is tried again
        assert channel.texts("c2") == ["elsewhere"]
        channel.held["c1"].set()
        await engine.bus.publish_outbound(outbound("next"))
        await engine.reads("hello", "next")


async def test_each_part_has_the_whole_time_for_itself(tmp_path: Path) -> None:
    class SlowChannel(MemoryChannel):
        async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
            self.attempts.append(message)
            for number in range(len(progress.sent_ids), 5):
                await asyncio.sleep(0.15)  # together longer than one part may take
                self._put(message, message.text[number], edit="")
                await progress.sent(str(number), more=number < 4)

    channel = SlowChannel()
    async with delivering(tmp_path, channel, part_s=0.5) as engine:
        await engine.bus.publish_outbound(outbound("abcde"))
        await engine.reads(*"abcde")
        assert len(channel.attempts) == 1


async def test_a_channels_mistake_after_the_platform_took_the_message_makes_no_row_of_copies(tmp_path: Path) -> None:
    class MistakenChannel(MemoryChannel):
        async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
            await super().send(message, MisreadProgress(progress))

    class MisreadProgress:
        def __init__(self, progress: SendProgress) -> None:
            self.outbox_id, self.sent_ids = progress.outbox_id, progress.sent_ids

        async def sent(self, platform_id: str, *, more: bool = False) -> None:
            raise KeyError("message_id")

    channel = MistakenChannel()
    async with delivering(tmp_path, channel) as engine:
        row = await settled(engine, await engine.bus.publish_outbound(outbound("hello")), SendState.DEAD)
        assert channel.texts() == ["hello"] * 2
        assert "KeyError" in row.error
        assert await counted(engine) == 1


async def test_a_message_that_is_being_sent_is_not_sent_beside_when_its_lease_ends(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.held["c1"] = asyncio.Event()
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        outbox_id = await engine.bus.publish_outbound(outbound("hello"))
        await engine.until(lambda: len(channel.attempts) == 1)
        engine.advance(4_000)  # the machine slept
        await engine.bus.publish_outbound(outbound("elsewhere", OTHER_CHAT))
        await engine.reads("elsewhere", chat="c2")
        channel.held["c1"].set()
        await settled(engine, outbox_id, SendState.SENT)
        assert (channel.texts(), len(channel.attempts)) == (["hello"], 2)


@pytest.mark.parametrize("found", [(), None])
async def test_what_is_known_to_be_out_stays_known_whatever_is_found(
    tmp_path: Path, found: tuple[str, ...] | None
) -> None:
    channel = MemoryChannel(part_chars=3)
    channel.failures.append((2, SendUncertain("reset")))
    channel.found = found
    async with delivering(tmp_path, channel) as engine:
        await settled(engine, await engine.bus.publish_outbound(outbound("aaabbbccc")), SendState.SENT)
        assert channel.texts() == ["aaa", "bbb", "ccc"]
        assert await counted(engine) == (1 if found is None else 0)
