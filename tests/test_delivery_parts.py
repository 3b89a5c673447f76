"""Delivery of messages that are several on the platform, when the outcome of a part stays unknown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.delivery import Delivery
from bot.errors import ChannelError, SendRejected, SendUncertain, StoreUnavailable
from bot.interfaces import Outbox
from bot.messages import Address, OutboundMessage
from tests.support.engine import AnsweringProvider, Rig, Setup, again, rig, said
from tests.support.memory_channel import MemoryChannel

HERE = Address(channel="memory", chat_id="c1")
MODEL = AnsweringProvider(lambda request: said("not asked"))


async def _until_sent(engine: Rig, attempts: int) -> None:
    """Let the pauses between tries pass until there were as many, and the row is settled."""
    for count in range(1, attempts + 1):
        await engine.until(lambda count=count: len(engine.channel.attempts) >= count)  # type: ignore[misc]
        while (status := await engine.store.overview.status()).outbox_queued and count == len(engine.channel.attempts):
            engine.advance(2)
        if not status.outbox_queued:
            break


async def test_each_part_may_be_uncertain_once(tmp_path: Path) -> None:
    channel = MemoryChannel(part_chars=3)
    channel.failures.extend([(0, SendUncertain("cut")), (1, SendUncertain("cut")), (2, SendUncertain("cut"))])
    async with rig(tmp_path, MODEL, channels=(channel,), start=("delivery",)) as engine:
        await engine.bus.publish_outbound(OutboundMessage(address=HERE, text="aaabbbccc"))
        await _until_sent(engine, 4)
        assert channel.texts() == ["aaa", "bbb", "ccc"]
        assert (await engine.store.overview.status()).outbox_uncertain == 1


async def test_after_a_part_that_is_uncertain_twice_the_rest_still_goes_out(tmp_path: Path) -> None:
    channel = MemoryChannel(part_chars=3)
    channel.failures.extend([(1, SendUncertain("cut")), (1, SendUncertain("cut"))])
    async with rig(tmp_path, MODEL, channels=(channel,), start=("delivery",)) as engine:
        await engine.bus.publish_outbound(OutboundMessage(address=HERE, text="aaabbbccc"))
        await _until_sent(engine, 3)
        assert channel.texts() == ["aaa", "ccc"], "a third try of the middle could be a second copy too many"
        assert (await engine.store.overview.status()).outbox_uncertain == 1


@pytest.mark.parametrize("crashes", [1, 2])
async def test_parts_after_one_at_which_the_process_died_still_go_out(crashes: int, tmp_path: Path) -> None:
    channel = MemoryChannel(part_chars=3)
    setup = Setup(folder=tmp_path, provider=MODEL, channels=(channel,))
    engine = await Rig.open(setup)
    row_id = await engine.bus.publish_outbound(OutboundMessage(address=HERE, text="aaabbbccc"))
    await engine.crash()
    for crash in range(crashes):
        engine = await Rig.open(setup)
        rows, _ = await engine.store.outbox.claim(limit=1, channels=["memory"])
        if crash:  # how the send before this one ended is not known: it is queued once more
            await engine.delivery._send(rows[0], channel)
            rows, _ = await engine.store.outbox.claim(limit=1, channels=["memory"])
        else:
            await engine.store.outbox.part_sent(row_id, ["m1"])
        await engine.crash()
    async with again(setup, start=("delivery",)) as engine:
        await engine.until(lambda: "ccc" in channel.texts())
        await engine.idle()
        assert channel.texts() == (["bbb", "ccc"] if crashes == 1 else ["ccc"])
        assert (await engine.store.overview.status()).outbox_uncertain == 1


async def test_a_part_whose_arrival_is_known_is_not_sent_again_after_a_crash(tmp_path: Path) -> None:
    channel = MemoryChannel(part_chars=3)
    setup = Setup(folder=tmp_path, provider=MODEL, channels=(channel,))
    engine = await Rig.open(setup)
    await engine.bus.publish_outbound(OutboundMessage(address=HERE, text="aaabbbccc"))
    channel.failures.append((2, KeyboardInterrupt()))  # passes every boundary, as the end of a process does
    rows, _ = await engine.store.outbox.claim(limit=1, channels=["memory"])
    with pytest.raises(KeyboardInterrupt):
        await engine.delivery._send(rows[0], channel)
    await engine.crash()
    async with again(setup, start=("delivery",)) as engine:
        await engine.until(lambda: "ccc" in channel.texts())
        await engine.idle()
        assert channel.texts() == ["aaa", "bbb", "ccc"]


class FullDisk:
    """An outbox whose next writes fail, as on a full disk."""

    def __init__(self, outbox: Outbox, failures: int) -> None:
        self._outbox = outbox
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._outbox, name)

        async def call(*args: Any, **values: Any) -> Any:
            if name in {"settle", "retry", "bury"} and self.failures:
                self.failures -= 1
                raise StoreUnavailable("database or disk is full")
            return await method(*args, **values)

        return call


@pytest.mark.parametrize("failure", [None, ChannelError("502"), SendRejected("too long")])
async def test_how_a_send_went_is_recorded_once_the_disk_has_room(failure: Exception | None, tmp_path: Path) -> None:
    async with rig(tmp_path, MODEL, start=("scheduler",)) as engine:
        engine.channel.failures.append(failure)
        outbox = FullDisk(engine.store.outbox, failures=1)
        delivery = Delivery(engine.bus, outbox, engine.channels, engine.clock, dead_letter_after_min=15)
        await engine.bus.publish_outbound(OutboundMessage(address=HERE, text="first"))
        await engine.bus.publish_outbound(OutboundMessage(address=HERE, text="second"))
        running = asyncio.create_task(delivery.run())
        while "second" not in engine.channel.texts():
            engine.advance(0.02)  # in all far less than the lease of a row in doubt
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert outbox.failures == 0
        assert engine.channel.texts() == (["second"] if isinstance(failure, SendRejected) else ["first", "second"])
