"""Delivery of messages that are several on the platform, when the outcome of a part stays unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import SendUncertain
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
