"""The bus: rows first, doorbell second."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bot.bus import LocalSignal
from bot.interfaces import Topic
from bot.messages import Address
from bot.records import Acceptance
from tests.support.engine import MEMBER, rig, said
from tests.support.providers import ScriptedProvider
from tests.support.stores import CHAT, MEMORY, inbound, outbound

PROVIDER = ScriptedProvider(said("x"))


async def test_a_ring_before_the_wait_is_not_lost_and_is_heard_once() -> None:
    signal = LocalSignal()
    signal.notify(Topic.INBOUND)
    signal.notify(Topic.INBOUND)
    assert await signal.wait(Topic.INBOUND, 10) is True
    assert await signal.wait(Topic.INBOUND, 0) is False
    assert await signal.wait(Topic.OUTBOUND, 0) is False


async def test_a_wait_ends_with_its_ring(tmp_path: Path) -> None:
    signal = LocalSignal()
    waiting = asyncio.ensure_future(signal.wait(Topic.JOBS, None))
    await asyncio.sleep(0)
    signal.notify(Topic.JOBS)
    assert await waiting is True


async def test_a_stranger_leaves_no_row(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        assert await engine.bus.publish_inbound(inbound(sender_id="999")) is Acceptance.REFUSED
        assert await engine.bus.publish_edit(inbound(sender_id="999")) is Acceptance.REFUSED
        assert (await engine.store.overview.status()).inbox_queued == 0


async def test_a_repeated_message_is_a_duplicate_and_an_edit_reaches_it_while_it_waits(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        assert await engine.bus.publish_inbound(inbound("helo")) is Acceptance.ACCEPTED
        assert await engine.bus.publish_inbound(inbound("helo")) is Acceptance.DUPLICATE
        assert await engine.bus.publish_edit(inbound("hello")) is Acceptance.UPDATED
        (turn,) = await engine.bus.consume_inbound(lambda: 5)
        assert turn.messages[0].message.text == "hello"
        assert await engine.bus.publish_edit(inbound("late")) is Acceptance.DUPLICATE


async def test_commands_that_act_at_once_get_a_lane_beside_the_chats(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        await engine.bus.publish_inbound(inbound("work", "1"))
        await engine.bus.publish_inbound(inbound("/status", "2"))
        await engine.bus.publish_inbound(inbound("/new", "3"))
        turns = await engine.bus.consume_inbound(lambda: 5)
        assert [turn.lane for turn in turns] == [CHAT.key, f"now:{CHAT.key}"]


async def test_bots_that_talk_to_each_other_are_ended_until_a_person_speaks(tmp_path: Path) -> None:
    bot: dict[str, Any] = {"meta": {"from_bot": True}}
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        taken = [await engine.bus.publish_inbound(inbound("beep", f"{number}", **bot)) for number in range(8)]
        assert taken == [Acceptance.ACCEPTED] * 5 + [Acceptance.REFUSED] * 3
        elsewhere = Address(channel="memory", chat_id="c2")
        assert await engine.bus.publish_inbound(inbound("beep", "20", elsewhere, **bot)) is Acceptance.ACCEPTED
        assert await engine.bus.publish_inbound(inbound("go on", "21")) is Acceptance.ACCEPTED
        assert await engine.bus.publish_inbound(inbound("beep", "22", **bot)) is Acceptance.ACCEPTED


async def test_without_room_only_commands_that_act_at_once_are_handed_out(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["delivery"]) as engine:
        await engine.bus.publish_inbound(inbound("work", "1"))
        await engine.bus.publish_inbound(inbound("/stop", "2"))
        (turn,) = await engine.bus.consume_inbound(lambda: 0)
        assert turn.messages[0].message.text == "/stop"


async def test_consumers_wait_for_rows_and_get_them(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["scheduler"]) as engine:
        turns = asyncio.ensure_future(engine.bus.consume_inbound(lambda: 5))
        rows = asyncio.ensure_future(engine.bus.consume_outbound(5, lambda: MEMORY))
        await asyncio.sleep(0)
        await engine.bus.publish_inbound(inbound("hi", sender_id=MEMBER))
        await engine.bus.publish_outbound(outbound("yo"))
        async with asyncio.timeout(10):
            assert [turn.messages[0].message.text for turn in await turns] == ["hi"]
            assert [row.message.text for row in await rows] == ["yo"]


async def test_an_unreadable_update_is_kept_and_a_migration_moves_the_chat(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["scheduler"]) as engine:
        await engine.bus.publish_unparsed(channel="memory", account="bot", update_id="1", raw="?", error="odd")
        assert (await engine.store.overview.status()).dead_letter_count == 1
        await engine.bus.publish_outbound(outbound("yo"))
        await engine.bus.migrate_chat("memory", "c1", "c9")
        (row,) = await engine.bus.consume_outbound(5, lambda: MEMORY)
        assert row.message.address == Address(channel="memory", chat_id="c9")
